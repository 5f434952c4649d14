"""Ranks of rows within partitions, as one DuckDB window query over Arrow rows with counts.

A row that is there n times takes n positions. Its *position* is the number of rows before it: 0 for the first. For
ROW_NUMBER its copies have the positions from there on; for RANK that is the number of rows of lesser order,
for DENSE_RANK the number of lesser orders that any row has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.codec.binary import ragged
from sqlstream_operators.codec.sort_keys import order_sql, tie_sql
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.top_n_spec import DeduplicateSpec, Ordering, TopNSpec, WindowTopNSpec
from sqlstream_operators.plan.types import BIGINT

Int64s = npt.NDArray[np.int64]

_ROWS = "__ranked_rows"


@dataclass(frozen=True, slots=True)
class Shown:
    """Which rows are in the result: the index of each, its rank (from 1), and how often it is there."""

    row: Int64s
    rank: Int64s
    copies: Int64s


@dataclass(frozen=True, slots=True)
class Ranking:
    """A rank function over `columns` by `partition` and `order`, of which (offset, offset + limit] is wanted."""

    columns: Schema
    partition: tuple[str, ...]
    order: tuple[Ordering, ...]
    function: str
    offset: int
    limit: int

    @classmethod
    def of(cls, spec: TopNSpec | WindowTopNSpec, window: Column | None = None) -> Ranking:
        """The ranking of a spec; `window` is one more column, and of the partition."""
        first = () if window is None else (window,)
        partition = (*(column.name for column in first), *spec.partition)
        return cls((*first, *spec.columns), partition, spec.order, spec.function, spec.offset, spec.limit)

    @property
    def upto(self) -> int:
        """The greatest rank that is wanted."""
        return self.offset + self.limit

    def candidates(self, duck: DuckSession, rows: pa.Table) -> pa.Table:
        """The rows that can be wanted whatever rows come besides these; a few more where orders are equal."""
        if rows.num_rows <= self.upto:
            return rows
        function = "dense_rank" if self.function == "dense_rank" else "rank"
        partition, order, _ = self._terms()
        sql = (
            f"SELECT __at FROM {_ROWS} "
            f"QUALIFY {function}() OVER (PARTITION BY {partition} ORDER BY {order}) <= {self.upto}"
        )
        at = self._query(duck, rows, [], sql, ties=False).column(0).to_numpy()
        return rows if len(at) == rows.num_rows else rows.take(pa.array(np.sort(at)))

    def positions(self, duck: DuckSession, rows: pa.Table, counts: Sequence[Int64s]) -> list[Int64s]:
        """The position of each row for each of `counts` (how often it is there, not negative).

        The position of a row that is not there means nothing.
        """
        if not rows.num_rows:
            return [np.zeros(0, np.int64) for _ in counts]
        partition, order, ties = self._terms()
        selected = []
        for number in range(len(counts)):
            count = f"__n{number}"
            match self.function:
                case "row_number":
                    window = f"(PARTITION BY {partition} ORDER BY {ties} ROWS UNBOUNDED PRECEDING)"
                    position = f"sum({count}) OVER {window} - {count}"
                case "rank":
                    frame = "GROUPS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
                    position = (
                        f"coalesce(sum({count}) OVER (PARTITION BY {partition} ORDER BY {order} {frame}), 0)"
                    )
                case _:
                    window = f"(PARTITION BY {partition}, {count} > 0 ORDER BY {order})"
                    position = f"dense_rank() OVER {window} - 1"
            selected.append(f"CAST({position} AS BIGINT)")
        sql = f"SELECT __at, {', '.join(selected)} FROM {_ROWS}"
        found = self._query(duck, rows, counts, sql, ties=self.function == "row_number")
        at, *columns = (column.to_numpy() for column in found.columns)
        positions = [np.empty(rows.num_rows, np.int64) for _ in counts]
        for found_positions, column in zip(positions, columns, strict=True):
            found_positions[at] = column
        return positions

    def retained(self, position: Int64s, count: Int64s) -> Int64s:
        """How many copies of each row can be wanted: now, or if rows are append-only from here on."""
        room = np.maximum(self.upto - position, 0)
        if self.function == "row_number":
            return np.minimum(count, room)
        return np.where(room > 0, count, 0)

    def bounds(self, position: Int64s, count: Int64s) -> tuple[Int64s, Int64s]:
        """For ROW_NUMBER the wanted positions [first, last) of each row's copies; first = last where none is."""
        first = np.maximum(position, self.offset)
        return first, np.maximum(np.minimum(position + count, self.upto), first)

    def copies(self, position: Int64s, count: Int64s) -> Int64s:
        """How often each row is in the result."""
        if self.function == "row_number":
            first, last = self.bounds(position, count)
            return last - first
        return np.where((position >= self.offset) & (position < self.upto), count, 0)

    def shown(self, position: Int64s, count: Int64s) -> Shown:
        """The rows in the result with their ranks, those of a row together and ascending."""
        copies = self.copies(position, count)
        rows = np.flatnonzero(copies)
        if self.function != "row_number":
            return Shown(rows, position[rows] + 1, copies[rows])
        first, _ = self.bounds(position, count)
        ranks = ragged(first[rows] + 1, copies[rows])
        return Shown(np.repeat(rows, copies[rows]), ranks, np.ones(len(ranks), np.int64))

    def _terms(self) -> tuple[str, str, str]:
        """PARTITION BY, ORDER BY, and ORDER BY with what decides between equals."""
        names = self._names()
        order = order_sql(self.order, names)
        ties = [*order, *tie_sql(self.order, self.columns, self.partition, names)]
        return ", ".join(names[name] for name in self.partition) or "1", _listed(order), _listed(ties)

    def _names(self) -> dict[str, str]:
        return {column.name: f"__c{number}" for number, column in enumerate(self.columns)}

    def _query(
        self, duck: DuckSession, rows: pa.Table, counts: Sequence[Int64s], sql: str, *, ties: bool
    ) -> pa.Table:
        used = {*self.partition, *(term.column for term in self.order)}
        columns = [column for column in self.columns if ties or column.name in used]
        names = self._names()
        schema = [Column(names[column.name], column.type) for column in columns]
        arrays = [rows.column(column.name) for column in columns]
        schema += [Column(f"__n{number}", BIGINT) for number in range(len(counts))]
        arrays += [pa.chunked_array([pa.array(count)]) for count in counts]
        schema.append(Column("__at", BIGINT))
        arrays.append(pa.chunked_array([pa.array(np.arange(rows.num_rows))]))
        table = pa.Table.from_arrays(arrays, names=[column.name for column in schema])
        duck.register(_ROWS, table, schema)
        try:
            return duck.query(sql)
        finally:
            duck.drop(_ROWS)


def _listed(terms: Sequence[str]) -> str:
    return ", ".join(terms) or "NULL"


def projects(spec: TopNSpec | DeduplicateSpec) -> bool:
    """Whether different rows of the operator may be equal in what it emits."""
    return not {column.name for column in spec.columns} <= {column.name for column in spec.output}


def ranked_output(rows: pa.Table, output: Schema, rank: str | None, ranks: Int64s) -> pa.Table:
    """Rows with the columns of `output` in its order, the one called `rank` being `ranks`."""
    arrays = [
        pa.chunked_array([pa.array(ranks).cast(to_arrow(c.type))]) if c.name == rank else rows.column(c.name)
        for c in output
    ]
    return pa.Table.from_arrays(arrays, names=[column.name for column in output])
