"""Rows that PostgreSQL sends, in the binary format of COPY, as columns of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.connectors.database.postgres_binary import HEADER, TRAILER
from sqlstream.connectors.database.postgres_fields import PADDING, Fields, Ints, cast_to, decoded, integers
from sqlstream.connectors.database.postgres_read_types import ReadType
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.errors import DataError, InternalError
from sqlstream_operators.plan.spec import Column

#: How many rows, and how many bytes of them, are made columns at once.
_ROWS, _BYTES = 1 << 16, 32 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows of COPY one after the other: their bytes, with PADDING behind them, and where each begins and ends."""

    data: npt.NDArray[np.uint8]
    starts: Ints
    ends: Ints


def blocks(rows: Iterable[bytes]) -> Iterator[Block]:
    """Rows, each as the server sends it, put together; the format's header and trailer are left out."""
    kept: list[bytes] = []
    size, first = 0, True
    for row in rows:
        if first:
            if not row.startswith(HEADER):
                raise InternalError("COPY does not begin with its header")
            row, first = row[len(HEADER) :], False
        if not row or row == TRAILER:
            continue
        kept.append(row)
        size += len(row)
        if len(kept) >= _ROWS or size >= _BYTES:
            yield _block(kept)
            kept, size = [], 0
    if kept:
        yield _block(kept)


def _block(rows: Sequence[bytes]) -> Block:
    data = np.frombuffer(b"".join((*rows, PADDING)), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
    return Block(data, np.concatenate(([0], ends[:-1])).astype(np.int64), ends)


def fields_of(block: Block, count: int) -> list[Fields]:
    """The fields of the rows of a block, column by column, of which there are `count`."""
    at = block.starts
    if not bool(np.all(integers(block.data, at, 2) == count)):
        raise InternalError("a row of COPY has another number of fields")
    at = at + 2
    found = []
    for _ in range(count):
        lengths = integers(block.data, at, 4)
        valid = lengths >= 0
        at = at + 4
        found.append(Fields(block.data, at, np.where(valid, lengths, 0), valid))
        at = at + np.where(valid, lengths, 0)
    if not bool(np.all(at == block.ends)):
        raise InternalError("a row of COPY is longer than its fields")
    return found


def table_of(fields: Sequence[Fields], columns: Sequence[Column], types: Sequence[ReadType]) -> pa.Table:
    """The fields of columns as a table, in the Arrow types of the declared ones. Raises DataError with the column."""
    arrays = []
    for one, column, type_ in zip(fields, columns, types, strict=True):
        try:
            there = decoded(one, type_.type, version_byte=type_.version_byte)
            arrays.append(cast_to(there, to_arrow(column.type)))
        except DataError as error:
            raise DataError(f"column `{column.name}`: {error.message}") from error
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])
