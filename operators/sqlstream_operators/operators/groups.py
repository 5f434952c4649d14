"""The groups that an epoch touches, numbered, so that what belongs to a group is found without comparing keys."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.arrow_types import conform, to_arrow
from sqlstream_operators.codec.keys import decode_keys, encode_keys
from sqlstream_operators.plan.equal_values import has_equals
from sqlstream_operators.plan.schema import Column, Schema

Int64s = npt.NDArray[np.int64]

GROUP = "__group"
"""The column with the number of a row's group, BIGINT."""


class Groups:
    """Groups by the columns of `identity`, NULLs equal; numbered from 0 on.

    `keys` has one row per group: GROUP and `columns`, those of `identity` among them. It grows by `add`.
    """

    def __init__(self, identity: Schema, columns: Sequence[str], rows: pa.Table) -> None:
        self._identity = identity
        self._columns = list(columns)
        self._number_of: dict[bytes, int] | None = None
        self.keys = self._numbered(rows, 0)

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    def numbers(self, rows: pa.Table) -> Int64s:
        """The number of each row's group, -1 where there is no such group."""
        known = self._known()
        codes = self._codes(rows)
        return np.fromiter(map(known.get, codes, itertools.repeat(-1)), np.int64, len(codes))

    def add(self, rows: pa.Table) -> Int64s:
        """The number of each row's group; new groups come behind the others, in the order of the rows."""
        known = self._known()
        codes = self._codes(rows)
        new = [code for code in dict.fromkeys(codes) if code not in known]
        if new:
            known.update(zip(new, range(len(known), len(known) + len(new)), strict=True))
            first = dict(zip(reversed(codes), range(len(codes) - 1, -1, -1), strict=True))
            added = rows.take(pa.array([first[code] for code in new]))
            self.keys = pa.concat_tables([self.keys, self._numbered(added, len(self)).cast(self.keys.schema)])
        return np.fromiter(map(known.__getitem__, codes), np.int64, len(codes))

    def _known(self) -> dict[bytes, int]:
        if self._number_of is None:
            self._number_of = dict(zip(self._codes(self.keys), range(len(self)), strict=True))
        return self._number_of

    def _numbered(self, rows: pa.Table, first: int) -> pa.Table:
        numbers = pa.array(np.arange(first, first + rows.num_rows))
        return pa.table({GROUP: numbers} | {name: rows.column(name) for name in self._columns})

    def _codes(self, rows: pa.Table) -> list[bytes]:
        if not self._identity or not rows.num_rows:
            return [b""] * rows.num_rows
        columns = [rows.column(column.name) for column in self._identity]
        return encode_keys(columns, [column.type for column in self._identity])


def as_stored(rows: pa.Table, schema: Sequence[Column]) -> pa.Table:
    """`rows` with the columns of `schema` as state gives them back: 0.0 for -0.0, one month for 30 days.

    What SQL calls equal may still print differently; after this, it is the same value.
    """
    stored = [column for column in schema if has_equals(column.type)]
    if stored and rows.num_rows:
        # In one piece: beside columns of several pieces DuckDB would be given slices of structs, which it does not read.
        rows = rows.combine_chunks()
    for column in stored:
        if rows.num_rows:
            values = conform(rows.column(column.name), to_arrow(column.type))
            [same] = decode_keys(encode_keys([values], [column.type]), [column.type])
            rows = rows.set_column(rows.column_names.index(column.name), column.name, same)
    return rows
