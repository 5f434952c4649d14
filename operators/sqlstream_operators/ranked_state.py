"""Rows with counts as ranked operators keep them: one state row a distinct row, in the order of rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .arrow_types import conform, to_arrow
from .changelog_spec import TopNSpec, WindowTopNSpec
from .errors import InternalError
from .fragment import DuckSession
from .ranking import Int64s, Ranking
from .schema import SLICE_COLUMN, Column, Schema
from .sort_keys import digest_array, row_digests, sort_keys
from .state.store import StateStore
from .state_schema import TIME
from .types import BIGINT, BLOB, quote_identifier

TABLE = "rows"

_DIGESTS = "__digests"
_KEYS = "__keys"


@dataclass(frozen=True, slots=True)
class Counted:
    """Distinct rows (the columns of the ranking, `sort` and `row`) and how often each is there."""

    rows: pa.Table
    counts: Int64s

    def take(self, index: npt.NDArray[np.intp]) -> Counted:
        """Some of the rows."""
        return Counted(self.rows.take(pa.array(index)), self.counts[index])


@dataclass(frozen=True, slots=True)
class Merged:
    """Distinct rows with their counts in state before this epoch's changes and after them."""

    rows: pa.Table
    was: Int64s
    now: Int64s


class RankedState:
    """The state table `rows` of a Top-N: key = partition, sub-key = (sort, row), value = count and other columns.

    The fields are known by their places, so that a user's columns may be called as the spec calls ours: the
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
        """The columns of `Counted.rows`."""
        return [column.name for column in self.schema]

    def empty(self) -> Counted:
        """No rows."""
        schema = pa.schema([(column.name, to_arrow(column.type)) for column in self.schema])
        return Counted(schema.empty_table(), np.zeros(0, np.int64))

    def arrived(self, duck: DuckSession, rows: pa.Table, weights: Int64s | None) -> Counted:
        """Rows of the ranking's columns as distinct rows; those whose weights (default: 1) add to 0 are left out."""
        columns = self._ranking.columns
        arrays = [conform(rows.column(column.name), to_arrow(column.type)) for column in columns]
        rows = pa.Table.from_arrays(arrays, names=[column.name for column in columns])
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
        return Counted(rows.append_column(self.row, digest_array(digests)), counts)

    def partitions(self, duck: DuckSession, rows: pa.Table) -> pa.Table:
        """The distinct keys (the time among them) of rows, as `scan_prefix` takes them."""
        names = list(self._ranking.partition)
        keys = rows.select(names)
        if not rows.num_rows:
            return self._renamed(keys)
        if not names:
            return keys.slice(0, 1)
        columns = [column for column in self._ranking.columns if column.name in names]
        table = keys.append_column("__at", pa.array(np.arange(rows.num_rows)))
        by = ", ".join(quote_identifier(name) for name in names)
        duck.register(_KEYS, table, (*columns, Column("__at", BIGINT)))
        try:
            at = duck.query(f"SELECT min(__at) FROM {_KEYS} GROUP BY {by} ORDER BY 1").column(0)
        finally:
            duck.drop(_KEYS)
        return self._renamed(keys if len(at) == rows.num_rows else keys.take(at))

    def loaded(self, stored: pa.Table) -> Counted:
        """Rows as a scan of the state gave them."""
        if self._timed:
            stored = stored.rename_columns(
                [SLICE_COLUMN if name == TIME else name for name in stored.column_names]
            )
        counts = stored.column(self.count).to_numpy().astype(np.int64)
        arrays = [conform(stored.column(c.name), to_arrow(c.type)) for c in self.schema]
        return Counted(pa.Table.from_arrays(arrays, names=self.names), counts)

    def merged(self, duck: DuckSession, stored: Counted, arrived: Counted) -> Merged:
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

    def write(self, state: StateStore, merged: Merged, kept: Int64s) -> tuple[int, int]:
        """Make the state hold `kept` copies of each row; gives how many state rows came and went."""
        put = np.flatnonzero((kept != merged.was) & (kept != 0))
        gone = np.flatnonzero((kept == 0) & (merged.was != 0))
        if len(gone):
            state.delete(TABLE, self._renamed(merged.rows.take(pa.array(gone))))
        if len(put):
            rows = merged.rows if len(put) == merged.rows.num_rows else merged.rows.take(pa.array(put))
            rows = rows.append_column(self.count, pa.array(kept[put]))
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
