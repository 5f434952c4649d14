"""Many rows of bytes as two binary arrays, sorted by key: what is done for all of them at once costs no object a row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream_operators.codec.binary import U8, from_matrix, parts
from sqlstream_operators.codec.byte_order import key_words, words_order
from sqlstream_operators.codec.key_bytes import to_bytes


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Distinct keys, sorted, and their values: two large binary arrays of one length."""

    keys: pa.Array
    values: pa.Array

    @classmethod
    def of(cls, keys: U8 | pa.Array, values: U8 | pa.Array) -> PackedRows:
        """From keys in any order, none a prefix of another, and their values; of equal keys the last counts."""
        words = key_words(keys)
        order = words_order(words)
        same = np.ones(max(len(order) - 1, 0), bool)
        for word in words:
            found = word[order]
            same &= found[1:] == found[:-1]
        if same.any():
            order = order[np.append(~same, True)]
        taken = pa.array(order)
        return cls(_array(keys).take(taken), _array(values).take(taken))

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def table(self) -> int:
        """The index of the table that the rows are of, the first byte of their keys; of at least one row."""
        offsets, data = parts(self.keys)
        return int(data[offsets[0]])

    @property
    def first(self) -> bytes:
        """The least key; of at least one row."""
        return self._key(0)

    @property
    def last(self) -> bytes:
        """The greatest key; of at least one row."""
        return self._key(len(self) - 1)

    def _key(self, row: int) -> bytes:
        offsets, data = parts(self.keys)
        return data[offsets[row] : offsets[row + 1]].tobytes()

    @property
    def size(self) -> int:
        """The bytes of keys and values."""
        return sum(int(offsets[-1] - offsets[0]) for offsets, _ in (parts(self.keys), parts(self.values)))

    def lists(self) -> tuple[list[bytes], list[bytes]]:
        """The keys and the values, each an object."""
        return to_bytes(self.keys), to_bytes(self.values)


def _array(rows: U8 | pa.Array) -> pa.Array:
    return from_matrix(rows) if isinstance(rows, np.ndarray) else rows
