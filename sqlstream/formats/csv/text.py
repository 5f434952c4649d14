"""CSV text as DuckDB reads it, and the records that it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sqlstream.formats.beside import Beside
from sqlstream.formats.boundaries import COMMENT_MARK
from sqlstream.formats.csv.shape import CsvShape, Layout
from sqlstream.formats.values import column_map, file_list, text_item, text_type
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import Column, Schema
from sqlstream_operators.plan.types import VARCHAR, Kind, SqlType, quote_identifier, quote_literal

_NEWLINES: Mapping[str, str] = {"\n": r"'\n'", "\r": r"'\r'", "\r\n": r"'\r\n'"}
_LONGEST_RECORD = 16 << 20
_REJECTS = ", store_rejects = true, rejects_limit = 0, rejects_table = 'csv_rejects', rejects_scan = 'csv_reject_scans'"


@dataclass(frozen=True, slots=True)
class CsvText:
    """How text of this shape becomes these columns; `null` is what stands for NULL (None: an empty field)."""

    columns: Schema
    shape: CsvShape
    null: str | None = None

    def select(self, layout: Layout, paths: Sequence[str], beside: Beside, more: str = "") -> str:
        """A SELECT over files in order; it fails when it is run if any record can't be read. Comments have COMMENT_MARK."""
        types = {column.name: _read_as(column.type) for column in self.columns}
        columns = {name: types.get(name, VARCHAR) for name in layout.names}
        shape = self.shape
        items = [*map(_item, self.columns), *beside.items]
        text = (
            f"read_csv({file_list(paths)}, auto_detect = false, "
            f"header = {str(layout.header).lower()}, columns = {column_map(columns)}, "
            f"delim = {quote_literal(shape.delimiter)}, quote = {quote_literal(shape.quote or '')}, "
            f"escape = {quote_literal(shape.escape or shape.quote or '')}, "
            f"comment = {quote_literal(chr(COMMENT_MARK) if shape.comments else '')}, "
            f"new_line = {_NEWLINES[layout.newline]}, "
            f"nullstr = {quote_literal('' if self.null is None else self.null)}, "
            f"allow_quoted_nulls = false, max_line_size = {_LONGEST_RECORD}, hive_partitioning = false{more})"
        )
        if any(name != sql for name, sql in beside.carried.items()):
            text = f"(SELECT *{beside.carrying} FROM {text})"
        return f"SELECT {', '.join(items) or '1 AS one'} FROM {text}"

    def read(
        self, duck: DuckSession, layout: Layout, path: str, beside: Beside
    ) -> tuple[pa.Table, list[tuple[Any, ...]]]:
        """The rows of the records that can be read, and of each other one its place, its text and why, in order.

        A place is a byte from 1 on, that of the LF before the record where lines end with CR LF. Raises DataError if DuckDB
        gives up.
        """
        try:
            table = duck.query(self.select(layout, [path], beside, _REJECTS))
            found = duck.query(
                "SELECT line_byte_position AS place, first(csv_line ORDER BY column_idx) AS raw, "
                "first(error_message ORDER BY column_idx) AS reason FROM csv_rejects GROUP BY place ORDER BY place"
            )
        finally:
            for name in ("csv_rejects", "csv_reject_scans"):
                duck.connection.execute(f"DROP TABLE IF EXISTS {name}")
        return table, list(
            zip(*(found[name].to_pylist() for name in ("place", "raw", "reason")), strict=True)
        )


def _read_as(type_: SqlType) -> SqlType:
    """What a field is read as: bytes are base64, as Flink's CSV has them."""
    return VARCHAR if type_.kind is Kind.BLOB else text_type(type_)


def _item(column: Column) -> str:
    """The SELECT item of a column that was read as `_read_as` of it."""
    if column.type.kind is not Kind.BLOB:
        return text_item(column)
    name = quote_identifier(column.name)
    return f"from_base64({name}) AS {name}"
