"""Rows as the texts of records."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import Column

_ROWS = "rows_to_write"


def record_texts(duck: DuckSession, rows: pa.Table, columns: Sequence[Column], text: str) -> pa.Array:
    """What the SQL `text` makes of each row with these columns, as large_binary. Raises DataError if it can't."""
    try:
        made = duck.query(f"SELECT {text} AS text FROM {duck.source(_ROWS, rows, columns)}")
    finally:
        duck.drop(_ROWS)
    return one_array(made.column("text"))


def one_array(texts: pa.ChunkedArray) -> pa.Array:
    """Texts or bytes as one array of large_binary."""
    found = texts.cast(pa.large_binary()).combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
