"""One side of a join: its rows in state by their keys, and what an epoch changes of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.plan.arranged_spec import IS, ROW, WAS
from sqlstream_operators.plan.join_spec import JoinSideSpec, JoinSpec, gives_alone
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema, column_of
from sqlstream_operators.plan.state_schema import Layout, StateSchema
from sqlstream_operators.plan.types import BIGINT, BLOB, quote_identifier
from sqlstream_operators.state.store import StateStore

from .side_rows import Changed, SideRows, any_null, distinct_rows, staying_rows


class JoinSide(SideRows):
    """Reads and writes the rows of one side of a join by its keys: a table of a state, as `JoinSpec` describes it.

    `whole`: rows with a NULL among their keys are kept. `only_come`: nothing is ever retracted, so that rows need not be
    found again, and equal ones need not be one: each gets a name that none had, in place of a digest, and nothing is looked
    up. Of `distinct` rows only those that go are.
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
        super().__init__(keys, spec)
        self.table = name
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

    def changed(self, duck: DuckSession, state: StateStore, rows: pa.Table) -> Changed:
        """What an epoch's input changes. Raises InternalError if changes come where the spec says appended rows."""
        weights = None
        if WEIGHT_COLUMN in rows.column_names:
            weights = rows.column(WEIGHT_COLUMN)
            if not self.spec.retracting and not self.spec.counted:
                raise InternalError(f"{self._what}: retractions arrived, but the plan says append-only")
        rows = conformed(rows, self._input, self._what)
        if not self._whole:
            missing = any_null(rows, self.key_names)
            if missing is not None:
                present = pc.invert(missing)
                rows, weights = rows.filter(present), weights and weights.filter(present)
        if self._only_come:
            return self._coming(state, rows, weights)
        rows, delta = distinct_rows(duck, rows, weights, self._digested)
        order, names = state.sorted_keys(
            self.table, self._placed(rows.rename_columns(self._stored_names(rows)))
        )
        rows, delta = rows.take(pa.array(order)), delta[order]
        was = self._counts_of(state, names, delta)
        counts = was + delta
        table = self._shown(rows, rows.column(ROW), np.maximum(was, 0), np.maximum(counts, 0))
        return Changed(table, names, counts, was != 0)

    def _coming(self, state: StateStore, rows: pa.Table, weights: pa.ChunkedArray | None) -> Changed:
        """What append-only rows change."""
        order = self._order(state, rows)
        counts: Int64s = np.ones(rows.num_rows, np.int64)
        if weights is not None:
            counts = weights.to_numpy().astype(np.int64)
        if order is not None:
            rows, counts = rows.take(pa.array(order)), counts[order]
        names = pa.chunked_array([state.new_names(rows.num_rows).cast(pa.binary())])
        return Changed(self._shown(rows, names, 0 * counts, counts), [], counts, np.zeros(len(counts), bool))

    def _counts_of(self, state: StateStore, names: list[bytes], delta: Int64s) -> Int64s:
        """How often rows are there of which `delta` more come."""
        looked_up = delta < 0 if self.spec.distinct else np.ones(len(delta), bool)
        stored = state.get_sorted(self.table, list(compress(names, looked_up.tolist())))
        was: Int64s = np.zeros(len(delta), np.int64)
        was[looked_up] = pc.fill_null(stored.column(self._count), 0).to_numpy()
        return was

    def read(self, duck: DuckSession, state: StateStore, keys: pa.Table) -> pa.Table:
        """See `SideRows.read`."""
        keys = self.without_null(keys)
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

    def read_some(self, duck: DuckSession, state: StateStore, keys: pa.Table, changed: Changed) -> pa.Table:
        """See `SideRows.read_some`: of each key this reads one row more than change of those that it has."""
        if not keys.num_rows:
            return self.empty()
        most: Int64s = np.ones(keys.num_rows, np.int64)
        if not self._only_come:
            most += keys.column(ROW).to_numpy()
        found, sizes = state.scan_first(self.table, keys, most)
        rows = self._loaded(found)
        staying = staying_rows(rows, changed)
        seen = np.zeros(keys.num_rows, bool)
        seen[np.repeat(np.arange(keys.num_rows), sizes)[staying & (rows.column(IS).to_numpy() > 0)]] = True
        rows = rows.filter(pa.array(staying))
        hidden = (sizes == most) & ~seen
        if hidden.any():  # rows retracted before their insertion may stand before the others
            more = self.read(duck, state, keys.filter(pa.array(hidden)))
            rows = pa.concat_tables([rows, more.filter(pa.array(staying_rows(more, changed)))])
        return rows

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

    def _order(self, state: StateStore, rows: pa.Table) -> Int64s | None:
        """The order in which append-only rows are appended; None for that in which they are."""
        return state.key_order(self.table, rows)

    def _append(self, state: StateStore, rows: pa.Table) -> None:
        """Append append-only rows to the state."""
        state.append_runs(self.table, rows)

    def _placed(self, rows: pa.Table) -> pa.Table:
        """Rows of the input with what else says where they are in state."""
        return rows

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
    whole = gives_alone(spec.type, side)
    return JoinSide(spec.state, side, spec.keys, rows, whole=whole, only_come=spec.only_come(side))


def same_keys(left: str, right: str, keys: Sequence[Column]) -> str:
    """SQL that says that the keys of two rows, which are called `left` and `right`, are equal."""
    equal = (f"{left}.{quote_identifier(k.name)} = {right}.{quote_identifier(k.name)}" for k in keys)
    return " AND ".join(equal) or "TRUE"
