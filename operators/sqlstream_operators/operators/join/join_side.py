"""One side of a join: its rows in state by their keys, and what an epoch changes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.codec.sort_keys import digest_array, row_digests
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.plan.arranged_spec import IS, ROW, WAS
from sqlstream_operators.plan.changelog_spec import JoinSideSpec, JoinSpec, column_of, gives_alone
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import Layout, StateSchema
from sqlstream_operators.plan.types import BIGINT, BLOB, quote_identifier
from sqlstream_operators.state.store import StateStore

_DIGESTS = "__digests"


@dataclass(frozen=True, slots=True)
class Changed:
    """The distinct rows of an epoch's changes: `rows` (keys, columns, ROW, WAS, IS) in the order of state.

    `names` are what they are called in state (none where rows only come), `counts` what state is to have (it may be below
    0), and `there` says which of them it has.
    """

    rows: pa.Table
    names: list[bytes]
    counts: Int64s
    there: npt.NDArray[np.bool_]


class JoinSide:
    """Reads and writes the rows of one side of a join by its keys: a table of a state, as `JoinSpec` describes it.

    `whole`: rows with a NULL among their keys are kept. `only_come`: nothing is ever taken back, so that rows need not be
    found again, and equal ones need not be one: each gets a name that none had, in place of a digest, and nothing is looked
    up.
    """

    layout: ClassVar[Layout] = "key"

    def __init__(
        self,
        state: StateSchema,
        name: str,
        keys: Schema,
        spec: JoinSideSpec,
        *,
        whole: bool,
        only_come: bool = False,
    ) -> None:
        self.spec = spec
        self.table = name
        self.keys = keys
        self.key_names = [key.name for key in keys]
        #: With a column more, so that tables without keys have rows.
        self.key_columns = [*self.key_names, ROW]
        self._whole = whole
        self._only_come = only_come
        self._what = f"{name} of state {state.state_id}"
        table = state.table(name)
        stored = {column.name for column in self.spec.stored}
        counts = [field for field in table.value if field.name not in stored]
        if (
            table.layout != self.layout
            or {field.name for field in table.key} != set(self.key_names)
            or {field.name for field in table.value} - {field.name for field in counts} != stored
            or [field.type for field in counts] != [BIGINT]
            or [field.type for field in table.sub_key] != [BLOB]
        ):
            raise InternalError(f"{self._what} has not the columns of the operator: {table}")
        self._count, self._row = counts[0].name, table.sub_key[0].name
        self._input: Schema = (*keys, *self.spec.stored)
        # In the order of state, so that a query whose columns were reordered finds its rows.
        fields = [*table.key, *(field for field in table.value if field is not counts[0])]
        self._digested: Schema = tuple(column_of(self._input, field.name) for field in fields)
        #: The columns of rows that are changed or read.
        self.schema: Schema = (
            *keys,
            *self.spec.columns,
            Column(ROW, BLOB),
            Column(WAS, BIGINT),
            Column(IS, BIGINT),
        )

    def changed(self, duck: DuckSession, state: StateStore, rows: pa.Table) -> Changed:
        """What an epoch's input changes. Raises InternalError if changes come where the spec says appended rows."""
        weights = None
        if WEIGHT_COLUMN in rows.column_names:
            weights = rows.column(WEIGHT_COLUMN)
            if not self.spec.retracting:
                raise InternalError(f"{self._what}: changes came, the plan says appended rows")
        rows = conformed(rows, self._input, self._what)
        if not self._whole:
            missing = any_null(rows, self.key_names)
            if missing is not None:
                present = pc.invert(missing)
                rows, weights = rows.filter(present), weights and weights.filter(present)
        if self._only_come:
            rows = self._in_order(state, rows)
            digests, ones = state.new_names(rows.num_rows).cast(pa.binary()), np.ones(rows.num_rows, np.int64)
            there = np.zeros(rows.num_rows, bool)
            return Changed(self._shown(rows, pa.chunked_array([digests]), 0 * ones, ones), [], ones, there)
        rows, delta = self._distinct(duck, rows, weights)
        order, names = state.sorted_keys(
            self.table, self._placed(rows.rename_columns(self._stored_names(rows)))
        )
        rows, delta = rows.take(pa.array(order)), delta[order]
        stored = state.get_sorted(self.table, names)
        was = pc.fill_null(stored.column(self._count), 0).to_numpy().astype(np.int64)
        counts = was + delta
        table = self._shown(rows, rows.column(ROW), np.maximum(was, 0), np.maximum(counts, 0))
        return Changed(table, names, counts, was != 0)

    def read(self, state: StateStore, keys: pa.Table) -> pa.Table:
        """All rows that state has of some keys, as if nothing changed; keys with a NULL are left out."""
        missing = any_null(keys, self.key_names)
        if missing is not None:
            keys = keys.filter(pc.invert(missing))
        if not keys.num_rows:
            return self.empty()
        return self._loaded(state.scan_prefix(self.table, keys))

    def read_all(self, state: StateStore) -> pa.Table:
        """All rows that state has."""
        return self._loaded(state.scan_all(self.table))

    def as_new(self, rows: pa.Table) -> pa.Table:
        """Rows that were read as if they came just now."""
        at = rows.column_names.index(WAS)
        return rows.set_column(at, WAS, pa.array(np.zeros(rows.num_rows, np.int64)))

    def read_some(self, state: StateStore, keys: pa.Table, changed: Changed) -> pa.Table:
        """A row that is there and does not change of each of some distinct keys that has one, or a few more.

        `keys` have a BIGINT column ROW: how many rows of the key change. Of each key this reads one more than that.
        """
        if not keys.num_rows:
            return self.empty()
        most = keys.column(ROW).to_numpy().astype(np.int64) + 1
        found, sizes = state.scan_first(self.table, keys, most)
        rows = self._loaded(found)
        staying = self._staying(rows, changed)
        seen = np.zeros(keys.num_rows, bool)
        seen[np.repeat(np.arange(keys.num_rows), sizes)[staying & (rows.column(IS).to_numpy() > 0)]] = True
        rows = rows.filter(pa.array(staying))
        hidden = (sizes == most) & ~seen
        if hidden.any():  # rows that went before they came may stand before the others
            more = self.read(state, keys.filter(pa.array(hidden)))
            rows = pa.concat_tables([rows, more.filter(pa.array(self._staying(more, changed)))])
        return rows

    def unchanged(self, rows: pa.Table, changed: Changed) -> pa.Table:
        """The rows that were read without those that change."""
        if not rows.num_rows or not changed.there.any():
            return rows
        return rows.filter(pa.array(self._staying(rows, changed)))

    @staticmethod
    def _staying(rows: pa.Table, changed: Changed) -> npt.NDArray[np.bool_]:
        """Which rows are not among those that change."""
        digests = changed.rows.column(ROW).combine_chunks()
        staying: npt.NDArray[np.bool_] = pc.invert(pc.is_in(rows.column(ROW), value_set=digests)).to_numpy()
        return staying

    def write(self, state: StateStore, changed: Changed) -> tuple[int, int]:
        """Make the state have the new counts; how many rows of it are new, and how many are gone."""
        kept = changed.counts != 0
        if self._only_come:
            rows = changed.rows if kept.all() else changed.rows.filter(pa.array(kept))
            rows = rows.append_column(self._count, pa.array(changed.counts[kept]))
            self._append(state, self._placed(rows.rename_columns(self._stored_names(rows))))
            return rows.num_rows, 0
        gone = changed.there & ~kept
        put = compress(changed.names, kept.tolist())
        rows = changed.rows.filter(pa.array(kept)).append_column(self._count, pa.array(changed.counts[kept]))
        state.put_sorted(self.table, list(put), rows)
        state.delete_sorted(self.table, list(compress(changed.names, gone.tolist())))
        return int(np.count_nonzero(kept & ~changed.there)), int(np.count_nonzero(gone))

    def _in_order(self, state: StateStore, rows: pa.Table) -> pa.Table:
        """Rows that only come in the order in which they are appended."""
        return rows.take(pa.array(state.key_order(self.table, rows)))

    def _append(self, state: StateStore, rows: pa.Table) -> None:
        """Append rows that only come to the state."""
        state.append_runs(self.table, rows)

    def _placed(self, rows: pa.Table) -> pa.Table:
        """Rows of the input with what else says where they are in state."""
        return rows

    def empty(self) -> pa.Table:
        """No rows."""
        return pa.schema([(c.name, to_arrow(c.type)) for c in self.schema]).empty_table()

    def _distinct(
        self, duck: DuckSession, rows: pa.Table, weights: pa.ChunkedArray | None
    ) -> tuple[pa.Table, Int64s]:
        """Each distinct row once, with its digest, and the sum of its weights, which is not 0."""
        digests = row_digests(rows, self._digested)
        delta: Int64s = np.ones(len(digests), np.int64)
        if weights is not None:
            delta = weights.to_numpy().astype(np.int64)
        index: npt.NDArray[np.int64] | None = None
        if len(set(digests)) < len(digests):
            table = pa.table({"d": digest_array(digests), "i": np.arange(len(digests)), "w": delta})
            sql = f"SELECT min(i), CAST(sum(w) AS BIGINT) AS w FROM {_DIGESTS} GROUP BY d HAVING sum(w) <> 0 ORDER BY 1"
            found = duck.query(sql, {_DIGESTS: table})
            index, delta = (column.to_numpy() for column in found.columns)
        elif weights is not None and not delta.all():
            index = np.flatnonzero(delta)
            delta = delta[index]
        rows = rows.append_column(ROW, digest_array(digests))
        return (rows if index is None else rows.take(pa.array(index))), delta

    def _stored_names(self, rows: pa.Table) -> list[str]:
        return [self._row if name == ROW else name for name in rows.column_names]

    def _loaded(self, found: pa.Table) -> pa.Table:
        counts = np.maximum(found.column(self._count).to_numpy().astype(np.int64), 0)
        return self._shown(found, found.column(self._row), counts, counts)

    def _shown(self, rows: pa.Table, digests: pa.ChunkedArray, was: Int64s, now: Int64s) -> pa.Table:
        """Rows of the input or of state as `schema` has them."""
        of_key = dict(zip(self.spec.keys, self.key_names, strict=True))
        names = [*self.key_names, *(of_key.get(c.name, c.name) for c in self.spec.columns)]
        columns = [*(rows.column(name) for name in names), digests, pa.array(was), pa.array(now)]
        table = pa.table(columns, names=[c.name for c in self.schema])
        return conformed(table, self.schema, self._what)


def side_of(spec: JoinSpec, side: str) -> JoinSide:
    """The side of a join that is called `side`."""
    rows = spec.left if side == "left" else spec.right
    whole, only_come = gives_alone(spec.type, side), not spec.emits_changes
    return JoinSide(spec.state, side, spec.keys, rows, whole=whole, only_come=only_come)


def same_keys(left: str, right: str, keys: Sequence[Column]) -> str:
    """SQL that says that the keys of two rows, which are called `left` and `right`, are equal."""
    equal = (f"{left}.{quote_identifier(k.name)} = {right}.{quote_identifier(k.name)}" for k in keys)
    return " AND ".join(equal) or "TRUE"


def any_null(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray | None:
    """Which rows have a NULL among some columns; None if no row has."""
    found = None
    for name in names:
        column = rows.column(name)
        if column.null_count:
            missing = pc.is_null(column)
            found = missing if found is None else pc.or_(found, missing)
    return found
