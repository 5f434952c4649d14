"""The versions of a table's rows, by their keys and the times from which they are valid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.codec.sort_columns import group_columns, run_starts, sort_order
from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import concatenated, empty
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.operators.window.closing import taken_upto
from sqlstream_operators.plan.schema import SLICE_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import FOUND, TIME
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_operators.plan.types import BIGINT, quote_identifier
from sqlstream_operators.plan.watermarks import WATERMARK_MIN
from sqlstream_operators.state.store import StateStore

TABLE = "versions"
UNREACHED = "unreached"

_RIVALS, _AT = "__rivals", "__at"
#: More rows than a key has.
_ALL = 1 << 62

Bools = npt.NDArray[np.bool_]


class Versions:
    """Reads and writes the tables `versions` and `unreached` of a `TemporalJoinSpec`: see there."""

    def __init__(self, spec: TemporalJoinSpec) -> None:
        self._what = f"{TABLE} of state {spec.state.state_id}"
        self._keys = spec.keys
        self._names = [key.name for key in spec.keys]
        self._gone = spec.gone
        self._strict = spec.strict
        self._forward = spec.forward
        table = spec.state.table(TABLE)
        others = [other for other in spec.state.tables if other.name == UNREACHED]
        stored = {column.name for column in spec.right.stored}
        if (
            table.layout != ("time" if spec.forward else "key")
            or [field.type for field in table.sub_key] != ([] if spec.forward else [BIGINT])
            or {field.name for field in table.key} != set(self._names)
            or {field.name for field in table.value} != stored
            or [other.layout for other in others] != ([] if spec.forward else ["time"])
            or any({field.name for field in other.key} != set(self._names) for other in others)
            or any(other.sub_key or other.value for other in others)
        ):
            raise InternalError(f"{self._what} has not the columns of the operator: {table}, {others}")
        self._time = TIME if spec.forward else table.sub_key[0].name
        #: The columns of versions.
        self.schema: Schema = (Column(SLICE_COLUMN, BIGINT), *spec.keys, *spec.right.stored)
        self._ties: tuple[str, ...] | None = None
        if spec.ties is not None:
            of_key = dict(zip(spec.right.keys, self._names, strict=True))
            self._ties = tuple(of_key.get(name, name) for name in spec.ties)

    def add(self, duck: DuckSession, state: StateStore, rows: pa.Table, reached: int) -> int:
        """Keep versions, of which none is of a time that the watermark has passed; how many more there are.

        `reached` is where the watermark will be at the end of the epoch.
        """
        if not rows.num_rows:
            return 0
        order, names = state.sorted_keys(TABLE, self._stored(rows))
        first = np.flatnonzero([a != b for a, b in zip(names, [None, *names], strict=False)])
        distinct = [names[i] for i in first.tolist()]
        known = state.get_sorted(TABLE, distinct)
        there: Bools = known.column(FOUND).to_numpy()
        if self._ties is None:
            # The order of the state is not that of arrival among what has one name.
            chosen = rows.take(pa.array(np.maximum.reduceat(order, first)))
        elif len(first) == len(order) and not there.any():
            chosen = rows.take(pa.array(order))
        else:
            rivals = rows.take(pa.array(order[first[there]])).select([SLICE_COLUMN, *self._names])
            for name in known.column_names:
                if name != FOUND:
                    rivals = rivals.append_column(name, known.column(name).filter(pa.array(there)))
            chosen = self._least(duck, concatenated([rows, conformed(rivals, self.schema, self._what)]))
            order, distinct = state.sorted_keys(TABLE, self._stored(chosen))
            chosen = chosen.take(pa.array(order))
        state.put_sorted(TABLE, distinct, chosen)
        if self._forward:
            return int(np.count_nonzero(~there))
        # What is there and not reached is among them already.
        ahead = chosen.filter(pa.array((chosen.column(SLICE_COLUMN).to_numpy() > reached) & ~there))
        state.put(UNREACHED, ahead.append_column(TIME, ahead.column(SLICE_COLUMN)))
        return int(np.count_nonzero(~there))

    def take(self, state: StateStore, upto: int) -> pa.Table:
        """Take out the versions with a time of at most `upto` (µs); of a forward join."""
        if upto == WATERMARK_MIN:
            return empty(self.schema)
        found = taken_upto(state, TABLE, upto)
        return conformed(
            found.rename_columns([SLICE_COLUMN if n == TIME else n for n in found.column_names]),
            self.schema,
            self._what,
        )

    def reached(self, state: StateStore, upto: int) -> pa.Table:
        """The keys, perhaps several times, of versions that the watermark reaches with `upto`, and never again."""
        found = state.scan_time(UNREACHED, None, upto + 1)
        if found.num_rows:
            state.delete_time(UNREACHED, None, upto + 1)
        return self.keys_of(found)

    def keys_of(self, rows: pa.Table) -> pa.Table:
        """The keys of rows, with a column more, so that there are rows where there are no keys."""
        columns = [rows.column(name) for name in self._names]
        times = pa.nulls(rows.num_rows, pa.int64())
        table = pa.Table.from_arrays([times, *columns], names=[SLICE_COLUMN, *self._names])
        return conformed(table, self.schema[: 1 + len(self._names)], self._what)

    def distinct(self, keys: pa.Table) -> pa.Table:
        """Each of at least one key once."""
        columns = group_columns(keys, self._keys)
        order = sort_order(columns, keys.num_rows)
        return keys.take(pa.array(order[run_starts(columns, order)] if columns else [0]))

    def read(self, state: StateStore, keys: pa.Table, upto: int) -> pa.Table:
        """The versions of some keys that are valid from `upto` on at the latest, those of a key in the order of time."""
        for name in self._names:
            if keys.column(name).null_count:
                keys = keys.filter(keys.column(name).is_valid())
        if not keys.num_rows or upto == WATERMARK_MIN:
            return empty(self.schema)
        keys = self.distinct(keys)
        ends = keys.append_column(self._time, pa.array(np.full(keys.num_rows, upto + 1)))
        places = zip(state.places(TABLE, keys, 0), state.places(TABLE, ends, 1), strict=True)
        found, _ = state.scan_between(TABLE, sorted(places), np.full(keys.num_rows, _ALL))
        names = [SLICE_COLUMN if name == self._time else name for name in found.column_names]
        return conformed(found.rename_columns(names), self.schema, self._what)

    def drop_old(self, state: StateStore, versions: pa.Table) -> int:
        """Forget versions, which the watermark has reached, but the newest of each key; how many go."""
        if not versions.num_rows:
            return 0
        columns = group_columns(versions, self._keys)
        order = np.lexsort((versions.column(SLICE_COLUMN).to_numpy(), *reversed(columns)))
        last = np.ones(len(order), bool)
        last[:-1] = run_starts(columns, order)[1:]
        if self._gone is not None:
            last &= ~np.asarray(versions.column(self._gone).fill_null(False))[order].astype(bool)
        old = versions.take(pa.array(order[~last]))
        state.delete(TABLE, self._stored(old))
        return len(old)

    def valid(self, rows: pa.Table, versions: pa.Table) -> Int64s:
        """For each row, by its keys and SLICE_COLUMN, the number of the version that is valid then; -1 for none."""
        n = versions.num_rows
        every = pa.concat_tables([self._times(versions), self._times(rows)])
        columns = group_columns(every, self._keys)
        times = every.column(SLICE_COLUMN).to_numpy()
        is_row = np.arange(every.num_rows) >= n
        # At one time a version stands before the rows that it is valid for; forward, behind them.
        order = np.lexsort((is_row != (self._strict != self._forward), times, *reversed(columns)))
        if self._forward:
            order = order[::-1]
        places = np.arange(len(order))
        begin = np.maximum.accumulate(np.where(run_starts(columns, order), places, 0))
        before = np.maximum.accumulate(np.where(is_row[order], -1, places))
        found = np.where(before >= begin, order[before], -1)
        valid = np.full(rows.num_rows, -1, np.int64)
        wanted = is_row[order]
        valid[order[wanted] - n] = found[wanted]
        if self._gone is not None and n:
            gone = np.asarray(versions.column(self._gone).fill_null(False)).astype(bool)
            valid[(valid >= 0) & gone[valid]] = -1
        return valid

    def _least(self, duck: DuckSession, rows: pa.Table) -> pa.Table:
        """Of rows with one key and time the first by what decides between them."""
        schema = (*self.schema, Column(_AT, BIGINT))
        numbered = rows.append_column(_AT, pa.array(np.arange(rows.num_rows)))
        within = ", ".join(map(quote_identifier, (SLICE_COLUMN, *self._names)))
        order = ", ".join(f"{quote_identifier(name)} ASC NULLS FIRST" for name in (*(self._ties or ()), _AT))
        source = duck.source(_RIVALS, numbered, schema)
        try:
            first = f"row_number() OVER (PARTITION BY {within} ORDER BY {order}) = 1"
            found = duck.query(f"SELECT {_AT} FROM {source} QUALIFY {first}")
        finally:
            duck.drop(_RIVALS)
        return rows.take(found.column(0))

    def _times(self, rows: pa.Table) -> pa.Table:
        names = [SLICE_COLUMN, *self._names]
        return conformed(rows.select(names), self.schema[: len(names)], self._what)

    def _stored(self, rows: pa.Table) -> pa.Table:
        return rows.append_column(self._time, rows.column(SLICE_COLUMN))
