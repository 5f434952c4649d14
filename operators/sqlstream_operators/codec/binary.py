"""Binary columns: joining, slicing and gathering bytes with numpy and Arrow, never a Python call a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

BYTES = pa.large_binary()


def from_matrix(matrix: U8) -> pa.LargeBinaryArray:
    """The rows of an (n, width) matrix of bytes as n binary values."""
    n, width = matrix.shape
    offsets = np.arange(n + 1, dtype=np.int64) * width
    data = np.ascontiguousarray(matrix)
    return pa.LargeBinaryArray.from_buffers(BYTES, n, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def from_offsets(offsets: I64, data: pa.Buffer | bytes | U8) -> pa.LargeBinaryArray:
    """The binary values `data[offsets[i]:offsets[i + 1]]`, without a copy."""
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return pa.LargeBinaryArray.from_buffers(
        BYTES, len(offsets) - 1, [None, pa.py_buffer(np.ascontiguousarray(offsets)), buffer]
    )


def from_list(values: Sequence[bytes]) -> pa.LargeBinaryArray:
    """A list of bytes as an Arrow array (four times as fast as `pa.array`)."""
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=offsets[1:])
    return from_offsets(offsets, b"".join(values))


def parts(array: pa.Array) -> tuple[I64, U8]:
    """Offsets (n + 1, relative to the data) and data of a binary or string array."""
    wide = pa.types.is_large_binary(array.type) or pa.types.is_large_string(array.type)
    _, offsets, data = array.buffers()
    if len(array) == 0 or offsets is None:
        return np.zeros(len(array) + 1, np.int64), np.zeros(0, np.uint8)
    found = np.frombuffer(offsets, np.int64 if wide else np.int32)[
        array.offset : array.offset + len(array) + 1
    ]
    bytes_ = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return found.astype(np.int64, copy=False), bytes_


def slices(data: U8, starts: I64, ends: I64) -> pa.LargeBinaryArray:
    """The values `data[starts[i]:ends[i]]`; the ranges must not overlap and must be in ascending order."""
    offsets = np.empty(2 * len(starts) + 1, np.int64)
    offsets[0:-1:2] = starts
    offsets[1:-1:2] = ends
    offsets[-1] = ends[-1] if len(ends) else 0
    if not len(starts):
        return pa.array([], BYTES)
    return from_offsets(offsets, data).take(pa.array(np.arange(0, 2 * len(starts), 2)))


def replaced(values: pa.Array, rows: I64, others: pa.Array) -> pa.Array:
    """The values, those of some rows being others."""
    index = np.arange(len(values))
    index[rows] = len(values) + np.arange(len(rows))
    return pa.concat_arrays([values, others]).take(pa.array(index))


def join(columns: Sequence[pa.Array | pa.Scalar]) -> pa.LargeBinaryArray:
    """The concatenation of binary columns, row by row; a null counts as no bytes."""
    if len(columns) == 1:
        return columns[0]
    # No constant: the first Arrow scalar imports pandas, a third of a second for a driver that decodes nothing.
    nothing = pa.scalar(b"", BYTES)
    return pc.binary_join_element_wise(*columns, nothing, null_handling="replace", null_replacement="")


def gather(data: U8, starts: I64, width: int) -> U8:
    """The (n, width) matrix of the `width` bytes at each start."""
    n = len(starts)
    if n and starts[0] >= 0 and bool((np.diff(starts) == width).all()):
        return data[starts[0] : starts[0] + n * width].reshape(n, width)
    if n == 0 or width == 0:
        return np.zeros((n, width), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(data, width)
    return windows[starts]


def ragged(starts: I64, counts: I64) -> I64:
    """The numbers starts[i], starts[i] + 1, … (counts[i] of them) for each i, one after the other."""
    total = int(counts.sum())
    ends = np.cumsum(counts)
    index: I64 = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - counts), counts)
    return index


def valid(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which values are not null, or None if all are."""
    if array.null_count == 0:
        return None
    found: npt.NDArray[np.bool_] = array.is_valid().to_numpy(zero_copy_only=False)
    return found


def fixed(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The values buffer of a fixed-width array as numpy; what stands at nulls is arbitrary."""
    dtype = np.dtype(dtype)
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return np.zeros(len(array), dtype)
    return np.frombuffer(buffer, dtype, count=len(array), offset=array.offset * dtype.itemsize)


def bitmap(mask: npt.NDArray[np.bool_] | None) -> pa.Buffer | None:
    """An Arrow validity buffer of a boolean array."""
    return None if mask is None else pa.py_buffer(np.packbits(mask, bitorder="little"))


def list_lengths(array: pa.Array) -> npt.NDArray[np.int64]:
    """The number of elements of each list, 0 for NULL: what `array.flatten()` has of it."""
    lengths = pc.fill_null(pc.list_value_length(array), 0)
    found: I64 = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def as_list(array: pa.Array) -> pa.Array:
    """A map, or a list of any layout, as a plain list (of the map's (key, value) structs)."""
    type_ = array.type
    if pa.types.is_map(type_):
        entry = pa.struct([pa.field("key", type_.key_type), pa.field("value", type_.item_type)])
        return array.cast(pa.list_(entry))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return array
    return array.cast(pa.list_(type_.value_type))


def interval_micros(array: pa.Array) -> npt.NDArray[np.int64]:
    """The length in µs of each interval, by which SQL compares them: months of 30 days, days of 24 hours."""
    values = fixed(array, np.dtype([("months", "<i4"), ("days", "<i4"), ("nanos", "<i8")]))
    days = values["months"].astype(np.int64) * 30 + values["days"]
    micros: npt.NDArray[np.int64] = days * 86_400_000_000 + values["nanos"] // 1000
    return micros
