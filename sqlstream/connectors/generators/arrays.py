"""numpy values as Arrow arrays without copying them a value at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.connectors.generators.randomness import I64, Bool, Bytes

TIMESTAMP = pa.timestamp("us")

_MAX_OFFSET = (1 << 31) - 1


def validity(present: Bool | None) -> pa.Buffer | None:
    """Arrow's validity bitmap of a mask that is true where there is a value; None if all are there."""
    if present is None or bool(present.all()):
        return None
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def fixed(values: npt.NDArray[np.generic], type_: pa.DataType, present: Bool | None = None) -> pa.Array:
    """An array of a fixed-width Arrow type whose bytes are those of `values` (one element a value)."""
    return pa.Array.from_buffers(
        type_, len(values), [validity(present), pa.py_buffer(np.ascontiguousarray(values))]
    )


def variable(data: Bytes, lengths: I64, type_: pa.DataType, present: Bool | None = None) -> pa.Array:
    """A string or binary array from all its bytes and the length in bytes of each value.

    Raises ValueError if the bytes don't fit Arrow's 32-bit offsets (2 GiB): generate fewer rows at a time.
    """
    return pa.Array.from_buffers(
        type_, len(lengths), [validity(present), pa.py_buffer(offsets(lengths)), pa.py_buffer(data)]
    )


def offsets(lengths: I64) -> npt.NDArray[np.int32]:
    """Arrow's 32-bit offsets of values with these lengths: one more than there are values."""
    ends = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=ends[1:])
    if ends[-1] > _MAX_OFFSET:
        raise ValueError(
            f"{ends[-1]} bytes or elements in one array, over 2^31: generate fewer rows at a time"
        )
    return ends.astype(np.int32)


def structs(names: list[str], children: list[pa.Array], present: Bool | None, length: int) -> pa.Array:
    """A struct array; `present` is true where the struct itself is not null."""
    fields = [pa.field(name, child.type) for name, child in zip(names, children, strict=True)]
    return pa.Array.from_buffers(pa.struct(fields), length, [validity(present)], children=children)
