"""State with a time to live: keys that nothing touched for so long are forgotten, by the epochs' clock.

A wrapper around any operator whose inputs all have the key columns of its state. Beside the operator's tables
it keeps when each key was last touched, and the keys in the order of that time, so that its work is in
proportion to the input and to what is forgotten. Times are cut to a granularity of 1/64 of the time to live (at
least a second): a key that is touched all the time is written that often only. A key is never forgotten before
its time to live is over, and at the next epoch with input that comes two granularities after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import FOUND, TIME, StateSchema
from sqlstream_operators.plan.state_ttl import AT, EXPIRY, TOUCHED, granularity_us
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.plan.watermarks import Watermarks

from .operator import KeepsAnswer, Operator, OperatorContext, OperatorResult, Shows
from .phase_timer import PhaseTimer

_ROWS = "__touched"


class TimeToLive:
    """Runs `inner`, and forgets keys that none of its inputs had for `ttl_us` (µs).

    What is forgotten goes without a word: what was emitted stays, and a later row of the key starts from
    nothing. `lasting` is DuckDB SQL of keys that are never forgotten.
    """

    def __init__(self, inner: Operator, state: StateSchema, ttl_us: int, lasting: str | None = None) -> None:
        if ttl_us <= 0:
            raise InternalError(f"state {state.state_id}: a time to live of {ttl_us} µs")
        self._inner = inner
        self._ttl_us = ttl_us
        self._lasting = lasting
        self._state = state
        first = state.tables[0]
        self._keys: Schema = tuple(Column(field.name, field.type) for field in first.key)
        self._names = [column.name for column in self._keys]
        self._data = [table.name for table in state.tables if table.name not in (TOUCHED, EXPIRY)]
        for table in state.tables:
            layouts = ("time",) if table.name == EXPIRY else ("key", "list")
            if table.layout not in layouts or [field.name for field in table.key] != self._names:
                raise InternalError(f"state {state.state_id}: table {table.name} can't have a time to live")

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came and the operator has nothing to do; keys are forgotten when the next row comes."""
        return self._inner.idle(inputs, watermarks, stateless=stateless)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`: without the keys that were forgotten, and only if the operator within keeps one."""
        return cast(KeepsAnswer, self._inner).answer(context)

    def shown(self, context: OperatorContext) -> pa.Table:
        """See `Shows.shown`: without the keys that were forgotten, and only if the operator within shows anything."""
        return cast(Shows, self._inner).shown(context)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Forget, run the operator, note which keys were touched."""
        if not self._keys:
            return self._inner.process(inputs, context)
        timer = PhaseTimer()
        now = context.now_us - context.now_us % granularity_us(self._ttl_us)
        with timer.phase("state_us"):
            forgotten, removed = self._forget(context, now)
        result = self._inner.process(inputs, context)
        with timer.phase("state_us"):
            added = self._touch(inputs, context, now)
        metrics = dict(result.metrics)
        for name, figure in (
            ("forgotten_keys", forgotten),
            ("state_rows_added", added),
            ("state_rows_removed", removed),
            ("state_us", timer.spent["state_us"]),
        ):
            metrics[name] = metrics.get(name, 0) + figure
        return OperatorResult(result.output, metrics)

    def _forget(self, context: OperatorContext, now: int) -> tuple[int, int]:
        """Delete all rows of keys whose time is over; how many keys, and how many rows."""
        state = context.state
        upto = now - self._ttl_us - granularity_us(self._ttl_us) + 1
        expired = state.scan_time(EXPIRY, None, upto)
        if not expired.num_rows:
            return 0, 0
        state.delete_time(EXPIRY, None, upto)
        keys = expired.select(self._names)
        state.delete(TOUCHED, keys)
        removed = 2 * keys.num_rows
        for name in self._data:
            removed += state.delete_prefix(name, keys)
        return keys.num_rows, removed

    def _touch(self, inputs: Sequence[pa.Table], context: OperatorContext, now: int) -> int:
        """Note the keys of the inputs at `now`; how many rows that adds."""
        keys = self._touched(inputs, context.duck)
        if not keys.num_rows:
            return 0
        state = context.state
        stored = state.get(TOUCHED, keys)
        found = stored.column(FOUND)
        older = pc.fill_null(pc.less(stored.column(AT), now), False)
        new = pc.invert(found)
        before = stored.column(AT).filter(older).cast(pa.int64())
        state.delete(EXPIRY, keys.filter(older).append_column(TIME, before))
        noted = keys.filter(pc.or_(older, new))
        times = pa.array(np.full(noted.num_rows, now, np.int64))
        state.put(TOUCHED, noted.append_column(AT, times))
        state.put(EXPIRY, noted.append_column(TIME, times))
        return 2 * int(pc.sum(new).as_py() or 0)

    def _touched(self, inputs: Sequence[pa.Table], duck: DuckSession) -> pa.Table:
        """The distinct keys of the inputs, without those that last."""
        what = f"keys of {self._state.state_id}"
        rows = pa.concat_tables([conformed(table, self._keys, what) for table in inputs])
        if not rows.num_rows:
            return rows
        listed = ", ".join(quote_identifier(name) for name in self._names)
        text = f"SELECT DISTINCT {listed} FROM {_ROWS}"
        if self._lasting is not None:
            same = " AND ".join(
                f"{_ROWS}.{quote_identifier(name)} IS NOT DISTINCT FROM l.{quote_identifier(name)}"
                for name in self._names
            )
            text += f" WHERE NOT EXISTS (SELECT 1 FROM ({self._lasting}) AS l WHERE {same})"
        duck.register(_ROWS, rows, self._keys)
        try:
            found = duck.query(text)
        finally:
            duck.drop(_ROWS)
        return conformed(found, self._keys, what)
