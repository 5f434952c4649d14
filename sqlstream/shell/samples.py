"""A bounded sample of a table: rows that its connector reads as a run would, with what could not be read."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sqlstream.connectors.api import BadRow, ConnectorContext, Limits, Split, SplitReader
from sqlstream.connectors.registry import REGISTERED
from sqlstream.golden.spark import spark_of
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.spec import Column, DimensionSpec, SourceSpec
from sqlstream_operators.plan.types import BIGINT, VARCHAR, quote_identifier
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.batch.sources import ORDER_COLUMN
from sqlstream_planner.catalog.options import Role
from sqlstream_planner.catalog.tables import TableDef
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_ROWS = "__sample_rows"
#: A run waits a minute for a broker that is away; nobody does at a prompt. What the table sets itself counts.
_LESS_PATIENT = {name: {"properties.default.api.timeout.ms": "10000"} for name in ("kafka", "upsert-kafka")}


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much of a table is read: `rows`, for `seconds` at most."""

    rows: int = 1_000
    seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    """Rows of a table with their types; `cut`: there are more; `seconds`: reading ended after so long, else None.

    `bad` are rows that could not be read, which a run keeps as dead letters.
    """

    rows: pa.Table
    columns: tuple[Column, ...]
    cut: bool = False
    seconds: float | None = None
    bad: tuple[BadRow, ...] = ()

    def notes(self, name: str) -> Iterator[str]:
        """What must be known of it to read a result."""
        count = f"{self.rows.num_rows:,} row{'' if self.rows.num_rows == 1 else 's'}"
        if self.cut:
            yield f"`{name}` is a sample: its first {count} (--sample)"
        if self.seconds is not None:
            yield f"`{name}` is a sample: {count}, read within {self.seconds:g} s"
        if self.bad:
            first = self.bad[0]
            place = first.origin if first.line is None else f"{first.origin}, line {first.line}"
            many = len(self.bad)
            yield (
                f"`{name}`: {many:,} row{' that can' if many == 1 else 's that can'}'t be read "
                f"{'is' if many == 1 else 'are'} left out, as a run keeps {'it' if many == 1 else 'them'} "
                f"as dead letters: {first.reason} ({place})"
            )


def sample(table: TableDef, spec: SourceSpec, base_dir: Path, bounds: Bounds, duck: DuckSession) -> Sample:
    """Read the first rows of a table, whose options have their secrets.

    Raises DiagnosticError: SHL003 for a sink that keeps nothing that can be read, and what the connector raises.
    """
    if Role.SOURCE in table.roles:
        return _of_source(table, spec, base_dir, bounds, duck)
    if table.is_dimension or REGISTERED.descriptors[table.connector].dimension:
        return _of_dimension(spec, base_dir, bounds, duck)
    raise DiagnosticError(
        Diagnostic(
            "SHL003",
            f"`{table.name}` can't be read: the connector '{table.connector}' keeps no rows",
            table.span,
            help="select from the view or the query that is written to it",
        )
    )


def _of_source(
    table: TableDef, spec: SourceSpec, base_dir: Path, bounds: Bounds, duck: DuckSession
) -> Sample:
    descriptor = REGISTERED.descriptors[spec.connector]
    pacing = {option.name for option in descriptor.options if option.paces and not option.changes_rows}
    changes = descriptor.gives_changes(table.settings)
    spec = replace(
        spec,
        options={
            **_LESS_PATIENT.get(spec.connector, {}),
            **{key: value for key, value in spec.options.items() if key not in pacing},
        },
        columns=tuple(column.name for column in spec.physical),
        filter=None,
        needed_paths=(),
    )
    columns = [*spec.physical, *(Column(m.name, m.type) for m in spec.metadata)]
    if changes:
        columns.append(Column(KIND_COLUMN, VARCHAR))
    until = time.monotonic() + bounds.seconds
    found: list[pa.Table] = []
    bad: list[BadRow] = []
    count, late = 0, False
    with RunFolder("sample-") as scratch:
        base = str(base_dir.absolute())
        context = ConnectorContext(
            CheckpointStore(scratch.path, sync=False),
            base,
            folder="sources/0",
            paced=False,
            ends=True,
            spark=spark_of(base_dir),
        )
        source = REGISTERED.source(spec, context)
        reader = REGISTERED.reader(spec, base)
        position, ended = source.initial_position(), False
        while not ended and count <= bounds.rows:
            wanted = bounds.rows + 1 - count
            plan = source.plan(position, Limits(rows=wanted, tasks=1))
            for split in plan.splits:
                if count <= bounds.rows:
                    rows = _read(reader, split, columns, bounds.rows + 1 - count, duck, bad)
                    count += rows.num_rows
                    found.append(rows)
            # A source without an end that has nothing now: nobody waits here for what may come.
            ended = plan.exhausted or not plan.splits
            position = plan.next_position
            if not ended and count <= bounds.rows and time.monotonic() >= until:
                late = ended = True
    schema = pa.schema([(column.name, to_arrow(column.type)) for column in columns])
    rows = pa.concat_tables([schema.empty_table(), *(t.cast(schema) for t in found)]).slice(0, bounds.rows)
    if changes:
        rows = rows.append_column(ORDER_COLUMN, pa.array(range(rows.num_rows), pa.int64()))
        columns.append(Column(ORDER_COLUMN, BIGINT))
    return Sample(rows, tuple(columns), count > bounds.rows, bounds.seconds if late else None, tuple(bad))


def _read(
    reader: SplitReader,
    split: Split,
    columns: Sequence[Column],
    most: int,
    duck: DuckSession,
    bad: list[BadRow],
) -> pa.Table:
    names = ", ".join(quote_identifier(column.name) for column in columns)
    query = f"SELECT {names} FROM {_ROWS} LIMIT {most}"
    try:
        reader.open_strict(duck, _ROWS, split, queries=1)
        return duck.query(query)
    except DataError:
        duck.drop(_ROWS)
        bad += reader.open_lenient(duck, _ROWS, split)
        return duck.query(query)
    finally:
        duck.drop(_ROWS)


def _of_dimension(spec: SourceSpec, base_dir: Path, bounds: Bounds, duck: DuckSession) -> Sample:
    """The rows of a table in a database."""
    whole = replace(spec, columns=tuple(column.name for column in spec.physical))
    schema = pa.schema([(column.name, to_arrow(column.type)) for column in whole.physical])
    found, count = [schema.empty_table()], 0
    with RunFolder("sample-") as scratch:
        context = ConnectorContext(
            CheckpointStore(scratch.path, sync=False),
            str(base_dir.absolute()),
            spark=spark_of(base_dir),
        )
        for batch in REGISTERED.dimension(DimensionSpec(whole), context).rows(duck):
            found.append(pa.Table.from_batches([batch]).cast(schema))
            count += batch.num_rows
            if count > bounds.rows:
                break
    rows = pa.concat_tables(found).slice(0, bounds.rows)
    return Sample(rows, tuple(whole.physical), count > bounds.rows)
