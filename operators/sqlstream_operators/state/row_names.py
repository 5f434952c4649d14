"""Names for append-only rows: BLOBs that distinguish them where nobody looks for them by what they are.

A name is made of how the version came about that the epoch began with, and of a number: no other row has it, and a retry
gives the same.
"""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa

from sqlstream_operators.codec.binary import I64, from_matrix, gather, parts
from sqlstream_operators.errors import StateError

_LINEAGE_BYTES, _NUMBER_BYTES = 12, 4
NAME_BYTES = _LINEAGE_BYTES + _NUMBER_BYTES
#: So many names an epoch and state can have.
MOST_NAMES = 1 << 8 * _NUMBER_BYTES


def names_of(lineage: str, first: int, count: int) -> pa.Array:
    """The names with the numbers from `first` on, in ascending order."""
    head = np.frombuffer(hashlib.blake2b(lineage.encode(), digest_size=_LINEAGE_BYTES).digest(), np.uint8)
    numbers = np.arange(first, first + count).astype(">u4").view(np.uint8).reshape(count, _NUMBER_BYTES)
    heads = np.broadcast_to(head, (count, _LINEAGE_BYTES))
    return from_matrix(np.concatenate([heads, numbers], axis=1))


def numbers_of(names: pa.Array) -> I64:
    """The numbers of names; raises StateError for what is no name."""
    offsets, data = parts(names)
    if bool((np.diff(offsets) != NAME_BYTES).any()):
        raise StateError("what should be the name of a row of state is none")
    matrix = gather(data, offsets[:-1] + _LINEAGE_BYTES, _NUMBER_BYTES)
    found: I64 = np.ascontiguousarray(matrix).view(">u4").ravel().astype(np.int64)
    return found


def names_from(firsts: pa.Array, sizes: I64) -> pa.Array:
    """The names from each of `firsts` on, as many as `sizes` says; raises StateError for what is no name."""
    numbers = numbers_of(firsts)
    offsets, data = parts(firsts)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    names = gather(data, offsets[:-1], NAME_BYTES)[owners]
    within = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    followed = (numbers[owners] + within).astype(">u4")
    names[:, _LINEAGE_BYTES:] = followed.view(np.uint8).reshape(len(owners), _NUMBER_BYTES)
    return from_matrix(names)
