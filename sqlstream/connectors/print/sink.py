"""The `print` sink: the driver shows each epoch's rows as a table, the kind of change in front."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.options import flag
from sqlstream_operators.duck.row_kinds import count_changes, to_kinds
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import KIND_COLUMN, WEIGHT_COLUMN, Column, RowKind, SinkSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.text.visible import visible


class PrintWriter:
    """The task's half: hands the rows to the driver."""

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Return the rows, changes with their weights."""
        return SinkPart(count_changes(table), table=table if table.num_rows else None)


class PrintSink:
    """The driver's half: every row of an epoch on a line of its own, columns aligned, a header per epoch.

    Changes are ordered by the query's key, where it has one, and else deletes stand before inserts.
    Rows are printed when their epoch is committed. If the driver dies between the two, they are not printed
    again: a terminal can't take anything back, so this sink is at most once after a crash.
    """

    def __init__(self, spec: SinkSpec, stream: TextIO | None = None) -> None:
        self._spec = spec
        self._prefix = spec.options.get("print-identifier", "")
        self._stream: Callable[[], TextIO] = _stream(stream, flag(spec.options, "standard-error"))
        self._duck: DuckSession | None = None

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Nothing can fail."""

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        """Print the rows."""
        tables = [part.table for part in parts if part.table is not None and part.table.num_rows]
        if not tables:
            return
        if self._duck is None:
            self._duck = DuckSession()
        table = pa.concat_tables(tables)
        if WEIGHT_COLUMN in table.column_names:
            table = to_kinds(table, self._spec.key, self._spec.schema)
        lines = render(self._duck, table, self._spec.schema)
        prefix = f"{self._prefix}> " if self._prefix else ""
        out = self._stream()
        out.write("".join(f"{prefix}{line}\n" for line in lines))
        out.flush()

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Nothing was staged."""


class PrintSinkFactory:
    """Makes both halves."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> PrintSink:
        """The driver's half."""
        return PrintSink(spec)

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> PrintWriter:
        """The task's half."""
        return PrintWriter()


def _stream(given: TextIO | None, error: bool) -> Callable[[], TextIO]:
    if given is not None:
        return lambda: given
    return lambda: sys.stderr if error else sys.stdout


def render(duck: DuckSession, table: pa.Table, schema: Sequence[Column]) -> list[str]:
    """The lines of a table: a header, then one line per row; numbers to the right, text to the left.

    Values are as DuckDB shows them, NULL as NULL; control characters inside text as escapes, such as backslash-n.
    """
    columns = [column for column in schema if column.name in table.column_names]
    duck.register("print_rows", table, columns)
    texts = ", ".join(f"CAST({quote_identifier(c.name)} AS VARCHAR)" for c in columns)
    shown = duck.query(f"SELECT {texts or '1'} FROM print_rows")
    duck.drop("print_rows")
    if KIND_COLUMN in table.column_names:
        kinds = table[KIND_COLUMN].to_pylist()
    else:
        kinds = [RowKind.INSERT.value] * table.num_rows
    cells: list[list[str]] = [["op", *kinds]]
    right: Mapping[int, bool] = {i + 1: c.type.is_numeric for i, c in enumerate(columns)}
    for index, column in enumerate(columns):
        values = shown.column(index).to_pylist()
        cells.append([visible(column.name), *("NULL" if v is None else visible(v) for v in values)])
    widths = [max(map(len, column)) for column in cells]
    lines = []
    for row in zip(*cells, strict=True):
        padded = [
            text.rjust(width) if right.get(i) else text.ljust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines
