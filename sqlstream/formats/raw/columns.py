"""Which tables can have the `raw` format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import Kind

#: How many bytes a value has.
WIDTHS: Mapping[Kind, int] = {
    Kind.BOOLEAN: 1,
    Kind.TINYINT: 1,
    Kind.SMALLINT: 2,
    Kind.INTEGER: 4,
    Kind.BIGINT: 8,
    Kind.FLOAT: 4,
    Kind.DOUBLE: 8,
}


def wrong_columns(columns: Sequence[Column]) -> str | None:
    """What is wrong with these columns; None: nothing is.

    >>> from sqlstream_operators.plan.types import parse_type
    >>> wrong_columns([Column("line", parse_type("VARCHAR"))])
    >>> wrong_columns([Column("at", parse_type("DATE"))])
    "format 'raw' has no values of type DATE (column at)"
    """
    if len(columns) != 1:
        return f"format 'raw' is for one column, and there are {len(columns)}"
    [column] = columns
    if column.type.kind not in (*WIDTHS, Kind.VARCHAR, Kind.BLOB):
        return f"format 'raw' has no values of type {column.type} (column {column.name})"
    return None
