"""The sessions that are open, in state: which of them an epoch's rows meet, and which close."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import ne

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.weighted import concatenated
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.schema import SLICE_COLUMN, Column, Schema
from sqlstream_operators.plan.session_spec import LAST, LATE_COLUMNS, START
from sqlstream_operators.plan.state_schema import FOUND, TIME, StateSchema
from sqlstream_operators.plan.types import BIGINT
from sqlstream_operators.plan.watermarks import WATERMARK_MIN
from sqlstream_operators.state.store import StateStore

from .closing import taken_upto
from .sessions import Sessions, merged
from .windows import Int64s

SESSIONS, CLOSING = "sessions", "closing"
#: As many as there are: more sessions than a partition can have open.
_ALL = 1 << 31


@dataclass(frozen=True, slots=True)
class Taken:
    """An epoch's rows and the sessions that they meet or make.

    `rows` are those that are not late, with their `time`, `part` (the number of their partition) and `session` (the
    number of theirs among `made`). `keys` are the partitions. `known` are the sessions that were open before, with their
    columns in state (`stored`), the number of what each is now (`now`) and whether its bounds are the `same`. `touched`
    are the sessions with new rows. `late`: what is reported of rows that are late, None if none is.
    """

    rows: pa.Table
    time: Int64s
    part: Int64s
    session: Int64s
    keys: pa.Table
    known: Sessions
    stored: pa.Table
    now: Int64s
    same: npt.NDArray[np.bool_]
    made: Sessions
    touched: npt.NDArray[np.bool_]
    late: pa.Table | None

    @property
    def changed(self) -> Int64s:
        """The numbers of the sessions that have new rows."""
        return np.flatnonzero(self.touched)

    @property
    def added(self) -> int:
        """How many more sessions there are than before."""
        return int(np.count_nonzero(self.touched)) - int(np.count_nonzero(self.touched[self.now]))


@dataclass(frozen=True, slots=True)
class Closed:
    """Sessions that are closed, by partition and time: `keys` are the partitions, `part` their numbers, `start` and `end`
    in µs, `stored` the columns that they had in state.
    """

    keys: pa.Table
    part: Int64s
    start: Int64s
    end: Int64s
    stored: pa.Table


class OpenSessions:
    """Reads and writes the tables `sessions` and `closing` of a state; see `SessionWindowsSpec` for them."""

    def __init__(
        self,
        state: StateSchema,
        columns: Schema,
        partition: Sequence[str],
        gap_us: int,
        kept: Collection[str],
    ) -> None:
        self._id = state.state_id
        self._columns, self._partition, self.gap_us = columns, list(partition), gap_us
        self._kept = list(kept)
        tables = {SESSIONS: ("key", {START}, {LAST, *kept}), CLOSING: ("time", set(), {START})}
        for name, (layout, sub_key, value) in tables.items():
            table = state.table(name)
            if (
                table.layout != layout
                or {f.name for f in table.key} != set(partition)
                or {f.name for f in table.sub_key} != sub_key
                or {f.name for f in table.value} != value
            ):
                raise InternalError(f"state {self._id}: table {name} has not the columns of the operator")

    def take_in(self, inputs: Sequence[pa.Table], state: StateStore, late: int) -> Taken | None:
        """Which sessions an epoch's rows make, None without rows; `late`: ends (µs) up to this are closed.

        Of the first input no row is late, of the second one that meets no open session is. Nothing is written.
        Raises InternalError for rows that should have been decided about before.
        """
        schema = (*self._columns, Column(SLICE_COLUMN, BIGINT))
        rows = concatenated([conformed(table, schema, f"input of {self._id}") for table in inputs])
        if not rows.num_rows:
            return None
        count = rows.num_rows
        time = numbers(rows, SLICE_COLUMN) - self.gap_us
        part, first = self._partitions(state, rows)
        keys = self._keys(rows, first)
        stored, sizes = state.scan_first(SESSIONS, keys, np.full(keys.num_rows, _ALL))
        known = Sessions(
            np.repeat(np.arange(keys.num_rows), sizes), numbers(stored, START), numbers(stored, LAST)
        )
        pieces = Sessions(
            np.concatenate([part, known.part]),
            np.concatenate([time, known.first]),
            np.concatenate([time, known.last]),
        )
        made, session = merged(pieces, self.gap_us)
        closed = np.zeros(len(made.part), bool)
        if late != WATERMARK_MIN:
            closed = made.last + self.gap_us <= late
        session, now = session[:count], session[count:]
        is_late = closed[session]
        if closed[now].any() or is_late[: inputs[0].num_rows].any():
            raise InternalError(f"state {self._id}: rows of closed sessions arrived")
        letters = None
        if is_late.any():
            letters = self._letters(inputs, time, is_late)
            staying = np.flatnonzero(~is_late)
            rows = rows.take(pa.array(staying))
            time, part, session = time[staying], part[staying], session[staying]
        touched = np.zeros(len(made.part), bool)
        touched[session] = True
        same = (known.first == made.first[now]) & (known.last == made.last[now])
        return Taken(rows, time, part, session, keys, known, stored, now, same, made, touched, letters)

    def write(self, state: StateStore, taken: Taken, values: Mapping[str, pa.Array]) -> None:
        """Write the sessions that have new rows; `values` are their other columns, in the order of `taken.changed`."""
        # Those whose bounds change go from where they were.
        gone, known = np.flatnonzero(~taken.same), taken.known
        of = taken.keys.take(pa.array(known.part[gone]))
        state.delete(SESSIONS, _with(of, {START: pa.array(known.first[gone])}))
        state.delete(CLOSING, _with(of, {TIME: pa.array(known.last[gone] + self.gap_us)}))
        made, at = taken.made, taken.changed
        of = taken.keys.take(pa.array(made.part[at]))
        state.put(
            SESSIONS, _with(of, {START: pa.array(made.first[at]), LAST: pa.array(made.last[at]), **values})
        )
        # When they close is known of those with the bounds that they had.
        new = taken.touched.copy()
        new[taken.now[taken.same]] = False
        at = np.flatnonzero(new)
        of = taken.keys.take(pa.array(made.part[at]))
        ends = pa.array(made.last[at] + self.gap_us)
        state.put(CLOSING, _with(of, {TIME: ends, START: pa.array(made.first[at])}))

    def close(self, state: StateStore, upto: int) -> Closed | None:
        """Take the sessions that end at `upto` (µs) or before out of the state; None if there are none."""
        if upto == WATERMARK_MIN:
            return None
        closing = taken_upto(state, CLOSING, upto)
        if not closing.num_rows:
            return None
        part, _ = self._partitions(state, closing)
        order = np.lexsort((numbers(closing, START), part))
        closing, part = closing.take(pa.array(order)), part[order]
        stored = state.get(SESSIONS, closing)
        if not pc.all(stored.column(FOUND)).as_py():
            raise InternalError(f"state {self._id}: a session that closes is not there")
        state.delete(SESSIONS, closing)
        keys = self._keys(closing, np.flatnonzero(np.r_[True, part[1:] != part[:-1]]))
        return Closed(keys, part, numbers(closing, START), numbers(closing, TIME), stored)

    def _partitions(self, state: StateStore, rows: pa.Table) -> tuple[Int64s, Int64s]:
        """The partition of each row, numbered in the order of state, and for each partition one of its rows."""
        zeros = pa.array(np.zeros(rows.num_rows, np.int64))
        order, names = state.sorted_keys(SESSIONS, rows.select(self._partition).append_column(START, zeros))
        begins = np.ones(len(names), bool)
        begins[1:] = np.fromiter(map(ne, names[1:], names), bool, len(names) - 1)
        part = np.empty(len(names), np.int64)
        part[order] = np.cumsum(begins) - 1
        return part, order[begins]

    def _keys(self, rows: pa.Table, index: Int64s) -> pa.Table:
        """The partition columns of some rows; with a column more, so that a table without keys has rows."""
        zeros = pa.array(np.zeros(rows.num_rows, np.int64))
        return rows.select(self._partition).append_column(START, zeros).take(pa.array(index))

    def _letters(self, inputs: Sequence[pa.Table], time: Int64s, late: npt.NDArray[np.bool_]) -> pa.Table:
        """What is reported of the rows that are late, with the session that each alone would be."""
        reported = inputs[1].select([c.name for c in LATE_COLUMNS])
        table = reported.take(pa.array(np.flatnonzero(late) - inputs[0].num_rows))
        for name, values in (("window_start", time[late]), ("window_end", time[late] + self.gap_us)):
            table = table.append_column(name, pa.array(values).cast(pa.timestamp("us")))
        return table


def numbers(table: pa.Table, name: str) -> Int64s:
    """A column of numbers."""
    return np.asarray(table.column(name).to_numpy(), np.int64)


def _with(keys: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Keys with these columns, instead of the one that `_keys` adds."""
    table = keys.drop_columns([START])
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table
