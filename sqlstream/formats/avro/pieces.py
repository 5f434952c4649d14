"""Values as bytes, a piece per value, without a Python object a value; pieces are large_binary."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.avro.lanes import Longs


def join(*pieces: pa.Array | bytes) -> pa.Array:
    """Each row's pieces behind each other; bytes are the same in each row."""
    parts = [pa.scalar(p, pa.large_binary()) if isinstance(p, bytes) else p for p in pieces]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def constant(value: bytes, count: int) -> pa.Array:
    """The same piece in each row."""
    return pa.repeat(pa.scalar(value, pa.large_binary()), count)


def varints(values: npt.NDArray[np.uint64]) -> pa.Array:
    """Numbers of 7 bits a byte, the lowest first."""
    lengths = np.ones(len(values), np.int64)
    width = 1
    while width < 10:
        more = values >= np.uint64(1) << np.uint64(7 * width)
        if not more.any():
            break
        lengths += more
        width += 1
    digits = np.empty((len(values), width), np.uint8)
    for place in range(width):
        part = (values >> np.uint64(7 * place)).astype(np.uint8) & np.uint8(0x7F)
        digits[:, place] = part | ((lengths > place + 1).astype(np.uint8) << 7)
    if width == 1:
        return fixed(digits)
    return cut(digits[np.arange(width)[None, :] < lengths[:, None]], lengths)


def zigzag(values: Longs) -> pa.Array:
    """Numbers as Avro's int and long."""
    return varints(((values << 1) ^ (values >> 63)).view(np.uint64))


def fixed(rows: npt.NDArray[Any]) -> pa.Array:
    """Each row of a matrix of bytes."""
    count, width = rows.shape
    return cut(np.ascontiguousarray(rows).reshape(-1), np.full(count, width, np.int64))


def cut(data: npt.NDArray[np.uint8], lengths: Longs) -> pa.Array:
    """Bytes cut into pieces of these lengths."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return of_offsets(pa.py_buffer(np.ascontiguousarray(data)), offsets)


def of_offsets(data: pa.Buffer, offsets: Longs) -> pa.Array:
    """Pieces of bytes between offsets."""
    return pa.Array.from_buffers(
        pa.large_binary(), len(offsets) - 1, [None, pa.py_buffer(np.ascontiguousarray(offsets)), data]
    )


def grouped(pieces: pa.Array, offsets: Longs) -> pa.Array:
    """Pieces put together: those between each offset and the next."""
    if not len(pieces):
        return constant(b"", len(offsets) - 1)
    whole = pieces if pieces.offset == 0 else pa.concat_arrays([pieces])
    _, borders, data = whole.buffers()
    begins = np.frombuffer(borders, np.int64)[whole.offset : whole.offset + len(whole) + 1]
    return of_offsets(data if data is not None else pa.py_buffer(b""), begins[offsets])


def lengths(pieces: pa.Array) -> Longs:
    """The length of each piece, in bytes."""
    found: Longs = pc.binary_length(pieces).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def decimal_bytes(values: pa.Array) -> npt.NDArray[np.uint8]:
    """Unscaled numbers of decimal128 values in two's complement, the highest of 16 bytes first."""
    data = np.frombuffer(values.buffers()[1], np.uint8)
    mine = data[values.offset * 16 : (values.offset + len(values)) * 16]
    return mine.reshape(-1, 16)[:, ::-1]


def shortest(digits: npt.NDArray[np.uint8]) -> pa.Array:
    """Numbers in two's complement without leading bytes that only repeat the sign."""
    sign = digits[:, :1] >= 0x80
    fill = np.where(sign, 0xFF, 0).astype(np.uint8)
    # A leading byte may go if it is the sign's, and so is the next one's highest bit.
    may_go = (digits[:, :-1] == fill) & ((digits[:, 1:] >= 0x80) == sign)
    gone = np.cumprod(may_go, axis=1).sum(axis=1).astype(np.int64)
    kept = np.arange(16)[None, :] >= gone[:, None]
    return cut(digits[kept], 16 - gone)
