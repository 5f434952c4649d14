"""Rows as CSV, as DuckDB writes it."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.formats.csv.shape import CsvShape
from sqlstream.formats.instants import instant_text
from sqlstream.formats.scratch import Scratch
from sqlstream.formats.text_records import NEWLINE
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import Kind, quote_identifier, quote_literal

_ROWS = "rows_to_write"


def copy_settings(shape: CsvShape, null: str | None, *, header: bool) -> str:
    """The settings of DuckDB's COPY."""
    quote = shape.quote or ""
    return (
        f"FORMAT csv, HEADER {str(header).lower()}, DELIMITER {quote_literal(shape.delimiter)}, "
        f"QUOTE {quote_literal(quote)}, ESCAPE {quote_literal(shape.escape or quote)}, "
        f"NULLSTR {quote_literal(null or '')}"
    )


def items_of(columns: Sequence[Column]) -> list[str]:
    """The columns for the SELECT of DuckDB's COPY, as Flink's CSV has their values."""
    return [_item(quote_identifier(column.name), column.type.kind) for column in columns]


def _item(name: str, kind: Kind) -> str:
    match kind:
        case Kind.TIMESTAMPTZ:
            return f"{instant_text(name)} AS {name}"
        case Kind.BLOB:
            return f"to_base64({name}) AS {name}"
    return name


def records_of(
    duck: DuckSession, rows: pa.Table, columns: Sequence[Column], shape: CsvShape, null: str | None
) -> pa.Array:
    """The lines of a file with these rows, without their line ends, as large_binary. Raises DataError if a row has none."""
    items = ", ".join(items_of(columns))
    with Scratch() as scratch:
        target = scratch.new_file()
        try:
            relation = duck.source(_ROWS, rows, columns)
            duck.connection.execute(
                f"COPY (SELECT {items} FROM {relation}) TO {quote_literal(str(target))} "
                f"({copy_settings(shape, null, header=False)})"
            )
        except duckdb.Error as error:
            raise duck.error(error) from error
        finally:
            duck.drop(_ROWS)
        content = np.fromfile(target, np.uint8)
    ends = _record_ends(content, shape)
    if len(ends) != rows.num_rows:
        raise DataError("a value has a line end, and 'csv.disable-quote-character' leaves no way to write it")
    offsets = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int64)
    data = pa.py_buffer(np.delete(content, ends))
    return pa.Array.from_buffers(pa.large_binary(), len(ends), [None, pa.py_buffer(offsets), data])


def _record_ends(content: npt.NDArray[np.uint8], shape: CsvShape) -> npt.NDArray[np.int64]:
    """Where the line ends are that end records, of text that is as DuckDB writes it."""
    ends = np.flatnonzero(content == NEWLINE)
    if shape.quote is None:
        return ends
    quotes = np.flatnonzero(content == ord(shape.quote))
    if shape.escape not in (None, shape.quote):
        # In a quoted field whoever is meant as it is has an escape before it: a quote behind an odd number of them.
        escapes = np.flatnonzero(content == ord(str(shape.escape)))
        odd = np.zeros(len(quotes), bool)
        behind, distance = np.ones(len(quotes), bool), 1
        while np.any(behind := behind & np.isin(quotes - distance, escapes)):
            odd ^= behind
            distance += 1
        quotes = quotes[~odd]
    outside: npt.NDArray[np.int64] = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return outside
