"""What every sink of files does with the rows of a task: group them, cut the groups into files, and sync what it wrote."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The size of a file's rows in memory, bytes, where 'sink.rolling-policy.file-size' says nothing.
FILE_BYTES = 128 << 20


def grouped(table: pa.Table, codes: NDArray[np.integer]) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each code, in the order of the table, by ascending code; and where the first of them is in the table."""
    order = np.argsort(codes, kind="stable")
    ends = [*(np.flatnonzero(np.diff(codes[order])) + 1).tolist(), len(order)]
    start = 0
    for end in ends:
        yield int(order[start]), table.take(pa.array(order[start:end]))
        start = end


def combined_codes(columns: Sequence[pa.ChunkedArray], rows: int) -> NDArray[np.integer]:
    """A number for each of some rows, equal where all columns are; NULL is a value."""
    codes = np.zeros(rows, np.int64)
    for column in columns:
        found = column.combine_chunks().dictionary_encode()
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        own = pc.fill_null(found.indices, len(found.dictionary)).to_numpy(zero_copy_only=False)
        _, codes = np.unique(codes * (len(found.dictionary) + 1) + own, return_inverse=True)
    return codes


def cut(rows: pa.Table, most_bytes: int) -> list[pa.Table]:
    """Rows in parts of about the same number, which take at most so much memory."""
    count = min(rows.num_rows, max(1, -(-rows.nbytes // most_bytes)))
    bounds = [rows.num_rows * part // count for part in range(count + 1)]
    return [rows.slice(start, end - start) for start, end in pairwise(bounds)]


def sync(path: str) -> None:
    """Have a local file, or the names in a folder, survive a crash of the machine."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
