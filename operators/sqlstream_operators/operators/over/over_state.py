"""The rows of an OVER in state: one state row a copy of a row, with what the functions gave for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.codec.binary import ragged
from sqlstream_operators.codec.sort_keys import digest_array, row_digests, sort_keys
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.plan.over_spec import COPY, ROW, ROWS, SORT, OverSpec
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.types import BIGINT, BLOB, NESTED, Kind
from sqlstream_operators.state.store import StateStore

#: Types whose order or equality in state may not be DuckDB's.
_OTHERWISE_ORDERED = NESTED | {Kind.JSON}

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Arrived:
    """Distinct rows (columns, `SORT` and `ROW`) and how many of each come, or go (negative); never 0."""

    rows: pa.Table
    weights: Int64s


@dataclass(frozen=True, slots=True)
class Merged:
    """Rows as state has them (`OverState.schema`), first those that it had.

    `was` and `now` say which of them are there before and after the epoch's changes; of the others some are copies that
    are owed. `kept`: state has the row after the epoch. `origin`: of rows that state had not, which of those that arrived
    each is.
    """

    rows: pa.Table
    stored: int
    was: Mask
    now: Mask
    kept: Mask
    origin: Int64s


class OverState:
    """The state table of an `OverSpec`."""

    def __init__(self, spec: OverSpec) -> None:
        self._spec = spec
        given: Schema = tuple(call.column for call in spec.calls)
        sub_key = (Column(SORT, BLOB), Column(ROW, BLOB), Column(COPY, BIGINT))
        self.schema: Schema = (*spec.columns, *sub_key, *given)
        self._given = given
        table = spec.state.table(ROWS)
        values = {c.name for c in (*spec.columns, *given)} - set(spec.partition)
        if (
            table.layout != "key"
            or {f.name for f in table.key} != set(spec.partition)
            or [f.name for f in table.sub_key] != [SORT, ROW, COPY]
            or {f.name for f in table.value} != values
        ):
            raise InternalError(
                f"state {spec.state.state_id}: table {ROWS} has not the columns of the operator: {table}"
            )
        # In the order of state, so that a query whose columns were reordered finds its rows.
        by_name = {c.name: c for c in spec.columns}
        fields = (*table.key, *table.value)
        self._digested: Schema = tuple(by_name[f.name] for f in fields if f.name in by_name)

    @property
    def ordered(self) -> bool:
        """Whether the order of state is that of the rows, so that those around one can be read alone."""
        names = {*self._spec.partition, *(term.column for term in self._spec.order)}
        kinds = {c.type.kind for c in self._spec.columns if c.name in names}
        return bool(self._spec.order) and not kinds & _OTHERWISE_ORDERED

    def arrived(self, rows: pa.Table, weights: Int64s) -> Arrived:
        """Rows of the columns as distinct rows; those whose weights add to 0 are left out."""
        digests = digest_array(row_digests(rows, self._digested))
        codes = pc.dictionary_encode(digests).indices.to_numpy().astype(np.int64)
        total = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        np.add.at(total, codes, weights)
        _, first = np.unique(codes, return_index=True)
        at = np.sort(first[total[codes[first]] != 0])
        rows = rows.take(pa.array(at))
        rows = rows.append_column(SORT, sort_keys(rows, self._spec.order, self._spec.columns))
        return Arrived(rows.append_column(ROW, digests.take(pa.array(at))), total[codes[at]])

    def loaded(self, stored: pa.Table) -> pa.Table:
        """Rows as a scan of the state gave them."""
        return conformed(stored, self.schema, f"rows of {self._spec.state.state_id}")

    def merged(self, stored: pa.Table, arrived: Arrived) -> Merged:
        """The rows of state, all of those that are equal to one that arrived among them, and the changes to them."""
        n = stored.num_rows
        digests = pa.concat_arrays(
            [c for t in (stored, arrived.rows) for c in t.column(ROW).cast(pa.binary()).chunks]
        )
        codes = pc.dictionary_encode(digests).indices.to_numpy().astype(np.int64)
        copies = stored.column(COPY).to_numpy().astype(np.int64)
        was = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        np.add.at(was, codes[:n], np.where(copies >= 0, 1, -1))
        now = was.copy()
        now[codes[n:]] += arrived.weights
        mine = codes[:n]
        kept = np.where(copies >= 0, copies < now[mine], copies >= now[mine])
        came, owed = np.maximum(now, 0) - np.maximum(was, 0), np.minimum(was, 0) - np.minimum(now, 0)
        new = codes[n:]
        starts = np.concatenate([np.maximum(was, 0)[new], np.minimum(now, 0)[new]])
        counts = np.maximum(np.concatenate([came[new], owed[new]]), 0)
        added_copies = ragged(starts, counts)
        at = np.repeat(np.tile(np.arange(len(new)), 2), counts)
        added = self._added(arrived.rows.take(pa.array(at)), added_copies)
        there = copies >= 0
        return Merged(
            pa.concat_tables([stored, added]),
            n,
            np.concatenate([there, np.zeros(len(at), bool)]),
            np.concatenate([there & kept, added_copies >= 0]),
            np.concatenate([kept, np.ones(len(at), bool)]),
            at,
        )

    def write(self, state: StateStore, merged: Merged, values: pa.Table, changed: Mask) -> tuple[int, int]:
        """Make the state hold what is `kept`, with the `values` of the rows that are `changed`.

        `values` are of the rows that are there `now`. Gives how many state rows were added and removed.
        """
        n = merged.stored
        gone = np.flatnonzero(~merged.kept[:n])
        if len(gone):
            state.delete(ROWS, merged.rows.take(pa.array(gone)))
        here = np.flatnonzero(merged.now)
        put = np.flatnonzero(changed)
        rows = merged.rows.take(pa.array(here[put]))
        if len(put):
            base = rows.drop_columns([c.name for c in self._given])
            for column in self._given:
                base = base.append_column(column.name, values.column(column.name).take(pa.array(put)))
            state.put(ROWS, base)
        owed = np.flatnonzero(merged.kept & ~merged.now)
        owed = owed[owed >= n]
        if len(owed):
            state.put(ROWS, merged.rows.take(pa.array(owed)))
        return int(merged.rows.num_rows - n), len(gone)

    def _added(self, rows: pa.Table, copies: Int64s) -> pa.Table:
        rows = rows.append_column(COPY, pa.array(copies))
        for column in self._given:
            rows = rows.append_column(column.name, pa.nulls(rows.num_rows, to_arrow(column.type)))
        return conformed(rows, self.schema, f"rows of {self._spec.state.state_id}")
