"""Rows sorted by partition and order with numpy; DuckDB decides only between rows that are equal in these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sqlstream_operators.codec.sort_columns import Mask, group_columns, order_columns, run_starts, sort_order
from sqlstream_operators.codec.sort_keys import order_sql, tie_sql
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.top_n_spec import Ordering
from sqlstream_operators.plan.types import BIGINT

_ROWS, _AT = "__ordered_rows", "__at"


@dataclass(frozen=True, slots=True)
class Sorted:
    """Rows in their order: `order` is the number of each, everything else is by that order.

    `first` are the beginnings of the partitions, `number` is the partition of each row, counted from 0, and
    `position` the number of rows before it in the partition. `apart` says whether a row differs from the one before it.
    """

    order: Int64s
    first: Int64s
    number: Int64s
    position: Int64s
    apart: Mask


@dataclass(frozen=True, slots=True)
class RowOrder:
    """An order of rows of `columns` within `partition`: by `order`, then by all columns, NULLs first.

    Equal rows are ordered as they stand.
    """

    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]

    def sorted(self, duck: DuckSession, rows: pa.Table, upto: int) -> Sorted:
        """The rows in their order, exact for the first `upto` of each partition.

        Rows behind these that are equal in `order` may stand in any order, and count as different.
        """
        keys = group_columns(rows, tuple(c for c in self.columns if c.name in self.partition))
        terms = [term for term in self.order if term.column not in self.partition]
        columns = order_columns(rows, terms, self.columns)
        if columns is None:
            columns = [self._codes(duck, rows, order_sql(terms, self._names()), {t.column for t in terms})]
        order = sort_order([*keys, *columns], rows.num_rows)
        begins = run_starts(keys, order)
        apart = begins | run_starts(columns, order)
        first = np.flatnonzero(begins)
        number = np.cumsum(begins) - 1
        position = np.arange(len(order)) - first[number]
        self._decide(duck, rows, order, apart, position, upto)
        return Sorted(order, first, number, position, apart)

    def _decide(
        self, duck: DuckSession, rows: pa.Table, order: Int64s, apart: Mask, position: Int64s, upto: int
    ) -> None:
        """Put rows that are equal in `order` into theirs, and mark which of them differ."""
        runs = np.flatnonzero(apart)
        if len(runs) == len(order):
            return
        run = np.cumsum(apart) - 1
        matters = position[runs] < upto
        tied = matters & (np.diff(np.append(runs, len(order))) > 1)
        apart |= ~matters[run]
        at = np.flatnonzero(tied[run])
        terms = tie_sql(self.order, self.columns, self.partition, self._names())
        if not len(at) or not terms:
            return
        chosen = order[at]
        # Those of the order as well: what is equal there need not be the same (0.0 and -0.0).
        used = {column.name for column in self.columns} - set(self.partition)
        codes = self._codes(duck, rows.take(pa.array(chosen)), terms, used)
        again = np.lexsort((codes, run[at]))
        order[at], codes = chosen[again], codes[again]
        apart[at[1:]] |= codes[1:] != codes[:-1]

    def _names(self) -> dict[str, str]:
        return {column.name: f"__c{number}" for number, column in enumerate(self.columns)}

    def _codes(self, duck: DuckSession, rows: pa.Table, terms: Sequence[str], used: set[str]) -> Int64s:
        """Numbers in the order of `terms`, which read the columns `used`."""
        names = self._names()
        schema = [Column(names[c.name], c.type) for c in self.columns if c.name in used]
        arrays = [rows.column(c.name) for c in self.columns if c.name in used]
        schema.append(Column(_AT, BIGINT))
        arrays.append(pa.chunked_array([pa.array(np.arange(rows.num_rows))]))
        duck.register(_ROWS, pa.Table.from_arrays(arrays, names=[c.name for c in schema]), schema)
        try:
            found = duck.query(f"SELECT {_AT}, dense_rank() OVER (ORDER BY {', '.join(terms)}) FROM {_ROWS}")
        finally:
            duck.drop(_ROWS)
        codes = np.empty(rows.num_rows, np.int64)
        codes[found.column(0).to_numpy()] = found.column(1).to_numpy()
        return codes
