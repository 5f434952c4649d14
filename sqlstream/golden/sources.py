"""The input of a golden run: bounded, and readable by DuckDB.

DuckDB reads plain files itself. What only our connectors can read (generated rows, partition columns in paths,
a CSV header in another order than the table's columns, JSON with values of another type than their column's, which
DuckDB would pass over as NULL) is read by them and given to DuckDB as Parquet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.connectors import datagen
from sqlstream.connectors.api import ConnectorContext, Limits
from sqlstream.connectors.filesystem.csv import first_record
from sqlstream.connectors.filesystem.options import CHANGELOG_FORMATS, FileOptions
from sqlstream.connectors.filesystem.paths import is_local, list_files, resolve
from sqlstream.connectors.registry import SOURCES
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import KIND_COLUMN, PhysicalPlan, SourceSpec
from sqlstream_operators.plan.types import BIGINT, VARCHAR, Kind, quote_identifier, quote_literal
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.batch.batch_changelog import ORDER_COLUMN
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_MONITOR = "source.monitor-interval"
_PACE = "rows-per-second"
_END = {"nexmark": "events", "datagen": "number-of-rows"}
_ROWS_PER_READ = 1_000_000
_HEAD_BYTES = 1 << 20


def bounded(plan: PhysicalPlan) -> PhysicalPlan:
    """The plan over input that ends: a watched folder is what is in it now, and generators don't wait.

    Raises DiagnosticError (GLD002) for a generator without an end.
    """
    return replace(plan, sources=tuple(_bounded(source) for source in plan.sources))


def _bounded(source: SourceSpec) -> SourceSpec:
    option = _END.get(source.connector)
    unwanted = (_MONITOR,) if option is None else (_MONITOR, _PACE)
    ended = replace(source, options={k: v for k, v in source.options.items() if k not in unwanted})
    endless = option not in (None, *source.options)
    if source.connector == "datagen":
        endless = datagen.generator(source).total_rows() is None
    if endless:
        raise DiagnosticError(
            Diagnostic(
                "GLD002",
                f"source `{source.name}` never ends, so there is no result to compare",
                help=f"write '{option}' = '{{{{ var('{option}', …) }}}}' and set it with "
                f"`-- golden: var {option}=…`, or write `-- golden: none`",
            )
        )
    return ended


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files of each source for DuckDB; relative paths are under `base_dir`, `folder` is for Parquet copies."""

    base_dir: Path
    folder: Path
    _headers: dict[str, bool | None] = field(default_factory=dict)
    _clean: dict[str, bool] = field(default_factory=dict)

    def views(self, sources: Sequence[SourceSpec], scripts: Mapping[str, str]) -> list[str]:
        """A CREATE VIEW for each source: that of the batch script where DuckDB reads the files itself."""
        return [scripts[s.name] if self.plain(s) else self._copied(s) for s in sources]

    def files(self, spec: SourceSpec) -> Sequence[str]:
        """The source's files in the order in which the pipeline reads them."""
        if not self.plain(spec):
            return [str(self.folder / "unread.parquet")]
        found = self._listed(spec)
        if not found:
            raise DiagnosticError(
                Diagnostic(
                    "GLD005", f"source `{spec.name}` has no files: nothing is at {self._location(spec)}"
                )
            )
        return found

    def header(self, spec: SourceSpec) -> bool | None:
        """Whether the source's CSV files start with a header line."""
        return self._headers.get(spec.name)

    def plain(self, spec: SourceSpec) -> bool:
        """Whether DuckDB can read the source's files itself."""
        if spec.connector != "filesystem" or spec.partitioned_by:
            return False
        options = FileOptions.read(spec.options)
        if options.format == "orc" or not is_local(self._location(spec)):
            return False
        if options.format == "json":
            if spec.name not in self._clean:
                self._clean[spec.name] = self._is_clean_json(spec)
            return self._clean[spec.name]
        if options.format != "csv":
            return True
        declared = [column.name.lower() for column in spec.physical]
        headers = set()
        for path in self._listed(spec):
            with pa.input_stream(path, compression="detect") as stream:
                head = stream.read(_HEAD_BYTES)
            if not head.strip():
                return False  # DuckDB finds no columns in an empty file
            fields, _ = first_record(head, options.csv)
            names = [name.strip().lower() for name in fields]
            found = options.csv_header is not False and set(declared) <= set(names)
            if (found or options.csv_header) and names != declared:
                return False
            headers.add(found)
        if len(headers) > 1:
            return False
        self._headers[spec.name] = headers.pop() if headers else None
        return True

    def _is_clean_json(self, spec: SourceSpec) -> bool:
        """Whether DuckDB reads every line without passing over anything."""
        paths = self._listed(spec)
        if not paths:
            return True
        types = {
            c.name: "TIMESTAMPTZ" if c.type.kind is Kind.TIMESTAMP else str(c.type) for c in spec.physical
        }
        columns = ", ".join(f"{quote_literal(n)}: {quote_literal(t)}" for n, t in types.items())
        listed = ", ".join(map(quote_literal, paths))
        try:
            DuckSession().query(
                "SELECT count(DISTINCT hash(rows)) FROM "
                f"read_json([{listed}], format = 'newline_delimited', columns = {{{columns}}}) AS rows"
            )
        except DataError:
            return False
        return True

    def _listed(self, spec: SourceSpec) -> list[str]:
        pattern = FileOptions.read(spec.options).path_pattern
        paths = [entry.path for entry in list_files(self._location(spec))]
        return [path for path in paths if pattern is None or re.fullmatch(pattern, path)]

    def _location(self, spec: SourceSpec) -> str:
        return resolve(spec.options["path"], str(self.base_dir.absolute()))

    def _copied(self, spec: SourceSpec) -> str:
        """Read the source with its connector into Parquet."""
        folder = self.folder / quote(spec.name, safe="")
        folder.mkdir()
        base = str(self.base_dir.absolute())
        spec = replace(
            _bounded(spec), columns=tuple(c.name for c in spec.physical), filter=None, needed_paths=()
        )
        factory = SOURCES[spec.connector]
        source = factory.source(spec, ConnectorContext(CheckpointStore(str(folder / "store")), base))
        reader = factory.reader(spec, base)
        duck = DuckSession()
        types = {**{c.name: c.type for c in spec.physical}, **{m.name: m.type for m in spec.metadata}}
        changelog = spec.options.get("format", "") in CHANGELOG_FORMATS
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
                    reader.open_careful(duck, "source_rows", split)
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
