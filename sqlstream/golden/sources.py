"""The input of a golden run: bounded, and readable by DuckDB.

DuckDB reads plain files itself. What only our connectors can read (generated rows, and files that DuckDB would read
otherwise) is read by them and given to DuckDB as Parquet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.connectors.api import ConnectorContext, Limits
from sqlstream.connectors.registry import REGISTERED, Registry
from sqlstream.golden.spark import spark_of
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import KIND_COLUMN, DimensionSpec, PhysicalPlan, SourceSpec
from sqlstream_operators.plan.types import BIGINT, VARCHAR, quote_identifier, quote_literal
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.batch.sources import ORDER_COLUMN
from sqlstream_planner.catalog.descriptor import ONE_ROW, BatchFiles
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.catalog.tables import Catalog
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, InternalError
from sqlstream_planner.logical import EpochValues, walk
from sqlstream_planner.pipeline import Planned

_ROWS_PER_READ = 1_000_000


CLOCK = datetime(2025, 1, 1, tzinfo=UTC)
"""What NOW() is in golden runs, so that DuckDB and every run say the same."""


def bounded(planned: Planned) -> PhysicalPlan:
    """The plan over input that ends: a watched folder is what is in it now, and generators don't wait.

    Raises DiagnosticError (GLD002) for a source without an end, and for random values, which no two runs need share.
    """
    random = next((n for n in walk(planned.algebra) if isinstance(n, EpochValues) and n.is_random), None)
    if random is not None:
        raise DiagnosticError(
            Diagnostic(
                "GLD008",
                f"{random.what} gives other values in each run, which no golden file can have",
                random.at,
                help="write `-- golden: none`",
            )
        )
    return replace(
        planned.physical,
        sources=tuple(_bounded(planned.catalog, source) for source in planned.physical.sources),
    )


def _bounded(catalog: Catalog, source: SourceSpec) -> SourceSpec:
    if source.connector == ONE_ROW:
        return source
    descriptor = catalog.connectors[source.connector]
    pacing = {option.name for option in descriptor.options if option.paces and not option.changes_rows}
    ended = replace(source, options={k: v for k, v in source.options.items() if k not in pacing})
    table = catalog.table(source.name)
    if table is None:
        raise InternalError(f"the source {source.name} is no table of the file")
    settings = {key: value for key, value in table.settings.items() if key not in pacing}
    if not descriptor.bounded(settings):
        option = next((o.name for o in descriptor.options if o.ends), None)
        raise DiagnosticError(
            Diagnostic(
                "GLD002",
                f"source `{source.name}` never ends, so there is no result to compare",
                help="write `-- golden: none`"
                if option is None
                else f"write '{option}' = '{{{{ var('{option}', …) }}}}' and set it with "
                f"`-- golden: var {option}=…`, or write `-- golden: none`",
            )
        )
    return ended


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files of each source for DuckDB; relative paths are under `base_dir`, `folder` is for Parquet copies."""

    catalog: Catalog
    base_dir: Path
    folder: Path
    registry: Registry = REGISTERED
    _found: dict[str, BatchFiles | None] = field(default_factory=dict)

    def views(self, sources: Sequence[SourceSpec], scripts: Mapping[str, str]) -> list[str]:
        """A CREATE VIEW for each source: that of the batch script where DuckDB reads the files itself."""
        return [self._copied(s) if self._files(s) is None else scripts[s.name] for s in sources]

    def files(self, spec: SourceSpec) -> Sequence[str]:
        """The source's files in the order in which the pipeline reads them."""
        found = self._files(spec)
        return (str(self.folder / "unread.parquet"),) if found is None else found.paths

    def header(self, spec: SourceSpec) -> bool | None:
        """Whether the source's CSV files start with a header line."""
        found = self._files(spec)
        return None if found is None else found.header

    def _files(self, spec: SourceSpec) -> BatchFiles | None:
        """The files, if DuckDB reads them as the connector does."""
        if spec.name not in self._found:
            ask = self.registry.batch_input(spec.connector)
            self._found[spec.name] = (
                None
                if ask is None
                else ask(self.catalog.secrets.resolved(spec), str(self.base_dir.absolute()))
            )
        return self._found[spec.name]

    def _looked_up(self, spec: SourceSpec, folder: Path) -> str:
        """Read a table that can be looked up, and is no source, as it is today."""
        whole = self.catalog.secrets.resolved(replace(spec, columns=tuple(c.name for c in spec.physical)))
        store = CheckpointStore(str(folder / "store"))
        context = ConnectorContext(store, str(self.base_dir.absolute()), spark=spark_of(self.base_dir))
        duck = DuckSession()
        try:
            rows = self.registry.dimension(DimensionSpec(whole), context).rows(duck)
            batches = [pa.Table.from_batches([batch]) for batch in rows]
        finally:
            duck.close()
        for number, batch in enumerate(batches):
            pq.write_table(batch, folder / f"{number:06d}.parquet")
        items = ", ".join(
            f"CAST({quote_identifier(c.name) if batches else 'NULL'} AS {c.type}) AS {quote_identifier(c.name)}"
            for c in spec.physical
        )
        listed = quote_literal(str(folder / "*.parquet"))
        rest = f"FROM read_parquet({listed})" if batches else "WHERE false"
        return f"CREATE OR REPLACE VIEW {quote_identifier(spec.name)} AS SELECT {items} {rest}"

    def _copied(self, spec: SourceSpec) -> str:
        """Read the source with its connector into Parquet."""
        folder = self.folder / quote(spec.name, safe="")
        folder.mkdir()
        if Role.SOURCE not in self.catalog.connectors[spec.connector].roles:
            return self._looked_up(spec, folder)
        base = str(self.base_dir.absolute())
        spec = replace(
            self.catalog.secrets.resolved(_bounded(self.catalog, spec)),
            columns=tuple(c.name for c in spec.physical),
            filter=None,
            needed_paths=(),
        )
        factory = self.registry.source_factory(spec.connector)
        source = factory.source(
            spec,
            ConnectorContext(
                CheckpointStore(str(folder / "store")),
                base,
                paced=False,
                spark=spark_of(self.base_dir),
                whole=True,
            ),
        )
        reader = factory.reader(spec, base)
        duck = DuckSession()
        types = {**{c.name: c.type for c in spec.physical}, **{m.name: m.type for m in spec.metadata}}
        changelog = self.catalog.connectors[spec.connector].gives_changes(spec.options)
        if changelog:
            types[KIND_COLUMN] = VARCHAR
        names = list(types)
        query = f"SELECT {', '.join(map(quote_identifier, names))} FROM source_rows"
        position, ended, number = source.initial_position(), False, 0
        while not ended:
            plan = source.plan(position, Limits(rows=_ROWS_PER_READ, tasks=1))
            for split in plan.splits:
                try:
                    reader.open_strict(duck, "source_rows", split, queries=1)
                    table = duck.query(query)
                except DataError:
                    duck.drop("source_rows")
                    reader.open_lenient(duck, "source_rows", split)
                    table = duck.query(query)
                duck.drop("source_rows")
                pq.write_table(table, folder / f"{number:06d}.parquet")
                number += 1
            position, ended = plan.next_position, plan.exhausted
        view = f"CREATE OR REPLACE VIEW {quote_identifier(spec.name)} AS SELECT"
        if not number:
            none = {**types, ORDER_COLUMN: BIGINT} if changelog else types
            empty = ", ".join(f"CAST(NULL AS {type_}) AS {quote_identifier(n)}" for n, type_ in none.items())
            return f"{view} {empty} WHERE false"
        items = ", ".join(
            f"CAST({quote_identifier(n)} AS {types[n]}) AS {quote_identifier(n)}" for n in names
        )
        listed = quote_literal(str(folder / "*.parquet"))
        if not changelog:
            return f"{view} {items} FROM read_parquet({listed})"
        # The files are numbered in the order of the source.
        place = "row_number() OVER (ORDER BY filename, file_row_number)"
        return (
            f"{view} {items}, {place} AS {quote_identifier(ORDER_COLUMN)} "
            f"FROM read_parquet({listed}, filename = true, file_row_number = true)"
        )
