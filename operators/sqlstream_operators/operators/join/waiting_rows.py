"""Rows that wait, in the order of their times, until the watermark reaches them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.codec.sort_keys import digest_array, row_digests
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.weighted import empty
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.window.closing import taken_upto
from sqlstream_operators.plan.schema import SLICE_COLUMN, Column, Schema, column_of
from sqlstream_operators.plan.state_schema import TIME
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_operators.plan.types import BIGINT, BLOB
from sqlstream_operators.plan.watermarks import WATERMARK_MIN
from sqlstream_operators.state.store import StateStore

TABLE = "waiting"
COPIES = "__copies"
"""The column of rows that says how often each is there."""


class WaitingRows:
    """Reads and writes the table `waiting` of a `TemporalJoinSpec`: see there."""

    def __init__(self, spec: TemporalJoinSpec) -> None:
        self._what = f"{TABLE} of state {spec.state.state_id}"
        table = spec.state.table(TABLE)
        stored = {column.name for column in spec.left.stored}
        counts = [field for field in table.value if field.name not in stored]
        if (
            table.layout != ("key" if spec.forward else "time")
            or {field.name for field in table.key} != {key.name for key in spec.keys}
            or {field.name for field in table.value} - {field.name for field in counts} != stored
            or [field.type for field in counts] != [BIGINT]
            or [field.type for field in table.sub_key] != ([BIGINT, BLOB] if spec.forward else [BLOB])
        ):
            raise InternalError(f"{self._what} has not the columns of the operator: {table}")
        self._count, self._row = counts[0].name, table.sub_key[-1].name
        self._time = table.sub_key[0].name if spec.forward else TIME
        rows: Schema = (*spec.keys, *spec.left.stored)
        # In the order of state, so that a query whose columns were reordered finds its rows.
        fields = [*table.key, *(field for field in table.value if field is not counts[0])]
        self._digested = tuple(column_of(rows, field.name) for field in fields)
        #: The columns of the updating rows.
        self.schema: Schema = (Column(SLICE_COLUMN, BIGINT), *rows, Column(COPIES, BIGINT))

    def add(self, state: StateStore, rows: pa.Table) -> int:
        """Keep rows of `schema`; how many of them were not there."""
        if not rows.num_rows:
            return 0
        named = self._stored(rows)
        order, names = state.sorted_keys(TABLE, named)
        first = np.flatnonzero([a != b for a, b in zip(names, [None, *names], strict=False)])
        copies = np.add.reduceat(rows.column(COPIES).to_numpy()[order], first)
        distinct = [names[i] for i in first.tolist()]
        known = pc.fill_null(state.get_sorted(TABLE, distinct).column(self._count), 0).to_numpy()
        kept = named.take(pa.array(order[first])).drop_columns([COPIES])
        state.put_sorted(TABLE, distinct, kept.append_column(self._count, pa.array(copies + known)))
        return int(np.count_nonzero(known == 0))

    def take(self, state: StateStore, upto: int) -> pa.Table:
        """Take out the rows with a time of at most `upto` (µs), in the order of time."""
        if upto == WATERMARK_MIN:
            return empty(self.schema)
        found = taken_upto(state, TABLE, upto)
        return self._shown(found)

    def of_keys(self, state: StateStore, keys: pa.Table, upto: int) -> pa.Table:
        """The rows of some distinct keys with a time of at most `upto` (µs); of a forward join."""
        if not keys.num_rows:
            return empty(self.schema)
        ends = keys.append_column(self._time, pa.array(np.full(keys.num_rows, upto + 1)))
        places = zip(state.places(TABLE, keys, 0), state.places(TABLE, ends, 1), strict=True)
        found, _ = state.scan_between(TABLE, sorted(places), np.full(keys.num_rows, 1 << 62))
        return self._shown(found)

    def all(self, state: StateStore) -> pa.Table:
        """All rows."""
        return self._shown(state.scan_all(TABLE))

    def delete(self, state: StateStore, rows: pa.Table) -> None:
        """Forget rows of `schema`."""
        if rows.num_rows:
            state.delete(TABLE, self._stored(rows))

    def _shown(self, found: pa.Table) -> pa.Table:
        names = {self._time: SLICE_COLUMN, self._count: COPIES}
        found = found.rename_columns([names.get(name, name) for name in found.column_names])
        return conformed(found, self.schema, self._what)

    def _stored(self, rows: pa.Table) -> pa.Table:
        """Rows with what the state knows them by."""
        digests = [b""] * rows.num_rows
        if self._digested:
            digests = row_digests(rows, self._digested)
        return rows.append_column(self._time, rows.column(SLICE_COLUMN)).append_column(
            self._row, digest_array(digests)
        )
