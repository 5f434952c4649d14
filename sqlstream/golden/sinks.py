"""What the sinks of a golden run hold at its end: nothing is written where the pipeline writes.

Tables of a database become tables of a scratch DuckDB file, written by the `duckdb` sink as in a real run; what every
other sink is given is kept in memory, and changes are folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, Dimension, Sink, SinkPart, Source
from sqlstream.connectors.registry import Registry
from sqlstream.golden.rows import Rows, rows_of
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import WEIGHT_COLUMN, Column, DimensionSpec, SinkSpec, SourceSpec
from sqlstream_operators.plan.types import BIGINT, quote_identifier, quote_literal
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_TABLE = "golden"


class CapturedSinks:
    """The connectors of a golden run: the registered sources, and sinks whose rows can be read afterwards.

    `folder` is for DuckDB files; it is there as long as rows are read.
    """

    def __init__(self, folder: Path, registry: Registry) -> None:
        self._folder = folder
        self._registry = registry
        self._files: dict[str, Path] = {}
        self._tables: dict[str, list[pa.Table]] = {}

    def redirected(self, sinks: Sequence[SinkSpec]) -> tuple[SinkSpec, ...]:
        """The sinks as a golden run writes them."""
        return tuple(self._redirected(sink, number) for number, sink in enumerate(sinks))

    def _redirected(self, sink: SinkSpec, number: int) -> SinkSpec:
        if not self._registry.descriptors[sink.connector].sink.keyed:
            # The print connector's tasks hand their rows to the driver; there `_Catching` keeps them.
            return replace(sink, connector="print", options={}, primary_key=(), partitioned_by=())
        file = self._files[sink.name] = (self._folder / f"sink{number}.duckdb").absolute()
        options = {"path": str(file), "table-name": _TABLE}
        return replace(sink, connector="duckdb", options=options, partitioned_by=())

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Source:
        """The registered one, without waiting for rows."""
        return self._registry.source(spec, replace(context, paced=False))

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> Dimension:
        """The tables that are looked up are the pipeline's own."""
        return self._registry.dimension(spec, context)

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Sink:
        """The registered one for tables, for all others one that keeps what it is given."""
        if spec.name in self._files:
            return self._registry.sink(spec, context)
        return _Catching(self._tables.setdefault(spec.name, []))

    def rows(self, sink: SinkSpec) -> Rows:
        """A redirected sink's content. Raises DiagnosticError (DAT002) if rows were retracted that were never inserted."""
        duck = DuckSession()
        names = ", ".join(quote_identifier(column.name) for column in sink.schema)
        file = self._files.get(sink.name)
        if file is None:
            return _folded(duck, sink, self._tables.get(sink.name, []))
        if not file.exists():
            return Rows(sink.schema, [])
        literal = quote_literal(str(file))
        duck.connection.execute(f"ATTACH {literal} AS kept (READ_ONLY)")
        try:
            return rows_of(duck, f"SELECT {names} FROM kept.{_TABLE}", sink.schema)
        finally:
            duck.connection.execute("DETACH kept")


def _folded(duck: DuckSession, sink: SinkSpec, tables: Sequence[pa.Table]) -> Rows:
    """The rows that are left when those that went are taken from those that came."""
    weighted = sink.changelog == "retract"
    columns = [*sink.schema, *([Column(WEIGHT_COLUMN, BIGINT)] if weighted else [])]
    schema = pa.schema([(column.name, to_arrow(column.type)) for column in columns])
    given = pa.concat_tables(
        [schema.empty_table(), *(t.select([c.name for c in columns]).cast(schema) for t in tables)]
    )
    names = ", ".join(quote_identifier(column.name) for column in sink.schema)
    duck.register("caught", given, columns)
    try:
        if not weighted:
            return rows_of(duck, f"SELECT {names} FROM caught", sink.schema)
        net = f"SELECT {names}, sum({WEIGHT_COLUMN}) AS {WEIGHT_COLUMN} FROM caught GROUP BY {names}"
        gone = rows_of(duck, f"SELECT {names} FROM ({net}) WHERE {WEIGHT_COLUMN} < 0", sink.schema).rows
        if gone:
            shown = ", ".join(
                f"{c.name} = {'NULL' if v is None else v}" for c, v in zip(sink.schema, gone[0], strict=True)
            )
            raise DiagnosticError(
                Diagnostic(
                    "DAT002",
                    f"sink {sink.name}: {len(gone)} rows were retracted that were never inserted, such as {shown}",
                    help="does its source delete or repeat rows? Declare its PRIMARY KEY, so that its changes are "
                    "made consistent",
                )
            )
        copies = f"SELECT {names}, unnest(range(CAST({WEIGHT_COLUMN} AS BIGINT))) FROM ({net})"
        return rows_of(duck, f"SELECT {names} FROM ({copies})", sink.schema)
    finally:
        duck.drop("caught")


class _Catching:
    """Keeps the rows of committed epochs."""

    def __init__(self, tables: list[pa.Table]) -> None:
        self._tables = tables

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Nothing can fail."""

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Keep the rows."""
        self._tables += [part.table for part in parts if part.table is not None]

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Nothing was staged."""
