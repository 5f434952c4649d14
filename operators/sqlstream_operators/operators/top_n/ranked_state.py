"""Rows with counts as ranked operators keep them: one state row a distinct row, in the order of rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.arrow_types import conform, to_arrow
from sqlstream_operators.codec.sort_keys import digest_array, row_digests, sort_keys
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import as_stored
from sqlstream_operators.plan.schema import SLICE_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import FOUND, TIME
from sqlstream_operators.plan.top_n_spec import TopNSpec, WindowTopNSpec
from sqlstream_operators.plan.types import BIGINT, BLOB, NESTED, Kind, quote_identifier
from sqlstream_operators.state.store import StateStore

from .ranking import Int64s, Ranking

TABLE = "rows"

#: Types whose order or equality in state may not be DuckDB's: NULLs inside of nested values come first in state.
_OTHERWISE_ORDERED = NESTED | {Kind.JSON}
#: So many more rows than needed are read at once, so that equals at the end seldom need another scan.
_SLACK = 16

_DIGESTS = "__digests"
_KEYS = "__keys"


@dataclass(frozen=True, slots=True)
class CountedRows:
    """Distinct rows (the columns of the ranking, `sort` and `row`) and how often each is there."""

    rows: pa.Table
    counts: Int64s

    def take(self, index: npt.NDArray[np.intp]) -> CountedRows:
        """Some of the rows."""
        return CountedRows(self.rows.take(pa.array(index)), self.counts[index])


@dataclass(frozen=True, slots=True)
class Merged:
    """Distinct rows with their counts in state before this epoch's changes and after them."""

    rows: pa.Table
    was: Int64s
    now: Int64s


class RankedState:
    """The state table `rows` of a Top-N: key = partition, sub-key = (sort, row), value = count and other columns.

    The fields are known by their positions, so that a user's columns may be called as the spec calls ours: the
    sub-key's are `sort` and `row` in this order, and the count is the value that is no column.
    """

    def __init__(self, spec: TopNSpec | WindowTopNSpec, ranking: Ranking) -> None:
        self._table = table = spec.state.table(TABLE)
        self._ranking = ranking
        self._timed = isinstance(spec, WindowTopNSpec)
        columns = {column.name: column for column in spec.columns}
        counts = [field for field in table.value if field.name not in columns]
        stored = {field.name for field in table.value} - {field.name for field in counts}
        sub_key = [field.name for field in table.sub_key]
        if (
            table.layout != ("time" if self._timed else "key")
            or {field.name for field in table.key} != set(spec.partition)
            or stored != set(columns) - set(spec.partition)
            or [field.type for field in counts] != [BIGINT]
            or [field.type for field in table.sub_key] != [BLOB, BLOB]
            or (sub_key[0].endswith("row") or sub_key[1].endswith("sort"))
            or set(sub_key) & set(columns)
        ):
            raise InternalError(
                f"state {spec.state.state_id}: table {TABLE} has not the columns of the operator: {table}"
            )
        self.sort, self.row = sub_key
        self.count = counts[0].name
        # In the order of state, so that a query whose columns were reordered finds its rows.
        by_name = {column.name: column for column in ranking.columns}
        fields = [*table.key, *(field for field in table.value if field is not counts[0])]
        names = [*([SLICE_COLUMN] if self._timed else []), *(field.name for field in fields)]
        self._digested: Schema = tuple(by_name[name] for name in names)
        self.schema: Schema = (*ranking.columns, Column(self.sort, BLOB), Column(self.row, BLOB))

    @property
    def names(self) -> list[str]:
        """The columns of `CountedRows.rows`."""
        return [column.name for column in self.schema]

    def empty(self) -> CountedRows:
        """No rows."""
        schema = pa.schema([(column.name, to_arrow(column.type)) for column in self.schema])
        return CountedRows(schema.empty_table(), np.zeros(0, np.int64))

    def arrived(self, duck: DuckSession, rows: pa.Table, weights: Int64s | None) -> CountedRows:
        """Rows of the ranking's columns as distinct rows; those whose weights (default: 1) add to 0 are left out."""
        columns = self._ranking.columns
        arrays = [conform(rows.column(column.name), to_arrow(column.type)) for column in columns]
        rows = pa.Table.from_arrays(arrays, names=[column.name for column in columns])
        rows = as_stored(rows, [c for c in columns if c.name in self._ranking.partition])
        digests = row_digests(rows, self._digested)
        counts = np.ones(len(digests), np.int64) if weights is None else weights
        at, (counts,) = _grouped(duck, digests, [counts])
        if at is None and weights is not None and not counts.all():
            at = np.flatnonzero(counts)
            counts = counts[at]
        elif at is not None:
            at, counts = at[counts != 0], counts[counts != 0]
        if at is not None:
            rows = rows.take(pa.array(at))
            digests = [digests[i] for i in at.tolist()]
        rows = rows.append_column(self.sort, sort_keys(rows, self._ranking.order, columns))
        return CountedRows(rows.append_column(self.row, digest_array(digests)), counts)

    def partitions(
        self, duck: DuckSession, rows: pa.Table, amounts: Int64s | None = None
    ) -> tuple[pa.Table, Int64s]:
        """The distinct keys (the time among them) of rows, as scans take them, and the sum of `amounts` for each."""
        names = list(self._ranking.partition)
        keys = rows.select(names)
        amounts = np.zeros(rows.num_rows, np.int64) if amounts is None else amounts
        if not rows.num_rows:
            return self._renamed(keys), amounts
        if not names:
            return keys.slice(0, 1), amounts.sum(keepdims=True)
        columns = [column for column in self._ranking.columns if column.name in names]
        schema = (*columns, Column("__at", BIGINT), Column("__amount", BIGINT))
        table = keys.append_column("__at", pa.array(np.arange(rows.num_rows)))
        table = table.append_column("__amount", pa.array(amounts))
        by = ", ".join(quote_identifier(name) for name in names)
        duck.register(_KEYS, table, schema)
        try:
            found = duck.query(
                f"SELECT min(__at), CAST(sum(__amount) AS BIGINT) FROM {_KEYS} GROUP BY {by} ORDER BY 1"
            )
        finally:
            duck.drop(_KEYS)
        at, sums = found.columns
        return self._renamed(keys if len(at) == rows.num_rows else keys.take(at)), sums.to_numpy()

    @property
    def ordered(self) -> bool:
        """Whether the order of state is that of the ranking, so that the first rows of a key are the best."""
        names = {*self._ranking.partition, *(term.column for term in self._ranking.order)}
        kinds = {column.type.kind for column in self._ranking.columns if column.name in names}
        return bool(self._ranking.order) and not kinds & _OTHERWISE_ORDERED

    def first(self, state: StateStore, keys: pa.Table, positions: Int64s) -> CountedRows:
        """For each key the rows before a position, at least: all that have fewer than so many before them.

        Places are numbers of rows, for DENSE_RANK of orders, and may differ from key to key. Needs `ordered`.
        """
        pieces: list[CountedRows] = []
        most = positions + _SLACK
        while keys.num_rows:
            stored, sizes = state.scan_first(TABLE, keys, most)
            loaded = self.loaded(stored)
            owner = np.repeat(np.arange(len(sizes)), sizes)
            enough = (sizes < most) | (self._before_last(loaded, owner, sizes) >= positions)
            if enough.all():
                pieces.append(loaded)
                break
            pieces.append(loaded.take(np.flatnonzero(enough[owner])))
            more = np.flatnonzero(~enough)
            positions, most = positions[more], most[more] * 4
            if keys.num_columns:  # without columns there is one key, and `take` would lose it
                keys = keys.take(pa.array(more))
        if len(pieces) == 1:
            return pieces[0]
        rows = pa.concat_tables([piece.rows for piece in pieces])
        return CountedRows(rows, np.concatenate([piece.counts for piece in pieces]))

    def _before_last(self, loaded: CountedRows, owner: Int64s, sizes: Int64s) -> Int64s:
        """For each key how many rows (DENSE_RANK: orders) lie before those with the last order that was read."""
        if not len(owner):
            return np.zeros(len(sizes), np.int64)
        sorts = pc.dictionary_encode(loaded.rows.column(self.sort).combine_chunks()).indices.to_numpy()
        ends = np.cumsum(sizes) - 1
        before = sorts != sorts[ends[owner]]
        amounts = np.maximum(loaded.counts, 0)
        if self._ranking.function == "dense_rank":
            starts = np.r_[True, (owner[1:] != owner[:-1]) | (sorts[1:] != sorts[:-1])]
            at = np.flatnonzero(starts)
            there = np.add.reduceat(amounts, at) > 0
            owner, before, amounts = owner[at], before[at], there.astype(np.int64)
        totals = np.zeros(len(sizes), np.int64)
        np.add.at(totals, owner[before], amounts[before])
        return totals

    def stored(self, state: StateStore, arrived: CountedRows) -> CountedRows:
        """Those of the rows that arrived that state has, as it has them."""
        found = state.get(TABLE, self._renamed(arrived.rows))
        at = np.flatnonzero(found.column(FOUND).to_numpy())
        counts = found.column(self.count).take(pa.array(at)).to_numpy().astype(np.int64)
        return CountedRows(arrived.rows.take(pa.array(at)), counts)

    def joined(self, first: CountedRows, other: CountedRows) -> CountedRows:
        """The rows of either; those of both as `first` has them."""
        there = set(first.rows.column(self.row).to_pylist())
        more = [digest not in there for digest in other.rows.column(self.row).to_pylist()]
        if not any(more):
            return first
        rest = other.take(np.flatnonzero(more))
        rows = pa.concat_tables([first.rows, rest.rows])
        return CountedRows(rows, np.concatenate([first.counts, rest.counts]))

    def loaded(self, stored: pa.Table) -> CountedRows:
        """Rows as a scan of the state gave them."""
        if self._timed:
            stored = stored.rename_columns(
                [SLICE_COLUMN if name == TIME else name for name in stored.column_names]
            )
        counts = stored.column(self.count).to_numpy().astype(np.int64)
        arrays = [conform(stored.column(c.name), to_arrow(c.type)) for c in self.schema]
        return CountedRows(pa.Table.from_arrays(arrays, names=self.names), counts)

    def merged(self, duck: DuckSession, stored: CountedRows, arrived: CountedRows) -> Merged:
        """Stored rows and this epoch's changes to them, each distinct row once."""
        none = np.zeros(len(stored.counts), np.int64), np.zeros(len(arrived.counts), np.int64)
        was = np.concatenate([stored.counts, none[1]])
        now = np.concatenate([stored.counts, arrived.counts])
        if not len(stored.counts) or not len(arrived.counts):
            return Merged(stored.rows if len(stored.counts) else arrived.rows, was, now)
        rows = pa.concat_tables([stored.rows, arrived.rows])
        digests = [*stored.rows.column(self.row).to_pylist(), *arrived.rows.column(self.row).to_pylist()]
        at, (was, now) = _grouped(duck, digests, [was, now])
        return Merged(rows if at is None else rows.take(pa.array(at)), was, now)

    def write(self, state: StateStore, merged: Merged, retained: Int64s) -> tuple[int, int]:
        """Make the state hold `retained` copies of each row; gives how many state rows were added and removed."""
        put = np.flatnonzero((retained != merged.was) & (retained != 0))
        gone = np.flatnonzero((retained == 0) & (merged.was != 0))
        if len(gone):
            state.delete(TABLE, self._renamed(merged.rows.take(pa.array(gone))))
        if len(put):
            rows = merged.rows if len(put) == merged.rows.num_rows else merged.rows.take(pa.array(put))
            rows = rows.append_column(self.count, pa.array(retained[put]))
            state.put(TABLE, self._renamed(rows))
        return int(np.count_nonzero(merged.was[put] == 0)), len(gone)

    def _renamed(self, rows: pa.Table) -> pa.Table:
        if not self._timed:
            return rows
        return rows.rename_columns([TIME if name == SLICE_COLUMN else name for name in rows.column_names])


def _grouped(
    duck: DuckSession, digests: list[bytes], sums: list[Int64s]
) -> tuple[npt.NDArray[np.intp] | None, list[Int64s]]:
    """The first row of each digest, in order, and its sums; None for the rows if all digests differ."""
    if len(set(digests)) == len(digests):
        return None, sums
    columns = {f"s{number}": pa.array(values) for number, values in enumerate(sums)}
    table = pa.table({"i": pa.array(np.arange(len(digests))), "d": digest_array(digests), **columns})
    listed = "".join(f", CAST(sum({name}) AS BIGINT)" for name in columns)
    sql = f"SELECT min(i){listed} FROM {_DIGESTS} GROUP BY d ORDER BY 1"
    found = duck.query(sql, {_DIGESTS: table})
    at, *added = (column.to_numpy() for column in found.columns)
    return at, added
