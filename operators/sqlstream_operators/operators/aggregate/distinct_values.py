"""Distinct values: which values each group has, for all the DISTINCT aggregates over them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress, islice
from operator import ne

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import empty, names_of
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s, as_stored
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import FOUND
from sqlstream_operators.plan.types import BIGINT, BOOLEAN
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.store import StateStore

_SEEN = "seen"


class DistinctValues:
    """Runs a `DistinctValuesSpec`: see there for its input, its state and its output."""

    def __init__(self, spec: DistinctValuesSpec) -> None:
        self._spec = spec
        if spec.ttl_us is not None:
            raise InternalError(
                f"state {spec.state.state_id}: not this operator but TimeToLive forgets values"
            )
        self._key: Schema = (*spec.keys, *spec.values)
        self._flags: Schema = tuple(Column(flag, BIGINT) for flag in spec.flags)
        table = spec.state.table(_SEEN)
        if (
            table.layout != "key"
            or set(table.key_columns) != set(names_of(self._key))
            or set(table.value_columns) != set(spec.flags)
        ):
            raise InternalError(
                f"state {spec.state.state_id}: table {_SEEN} has not the columns of the operator"
            )

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """Nothing came."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Count the values, and emit for those that came or went; raises InternalError for bad counts."""
        timer = PhaseTimer()
        [rows] = inputs
        with timer.phase("merge_us"):
            keys, delta = self._merged(context.state, rows)
        output, added, removed = empty(self._spec.output), 0, 0
        if keys:
            with timer.phase("state_us"):
                stored = context.state.get_sorted(_SEEN, keys)
                changed, added, removed = self._count(delta, keys, stored, context)
            with timer.phase("emit_us"):
                if changed.num_rows:
                    output = self._emit(context.duck, changed)
        metrics = {
            "emitted_rows": output.num_rows,
            "state_rows_added": added,
            "state_rows_removed": removed,
            **timer.figures("merge_us", "state_us", "emit_us"),
        }
        return OperatorResult(output, metrics)

    def _merged(self, state: StateStore, rows: pa.Table) -> tuple[list[bytes], pa.Table]:
        """One row for each value with what this epoch adds to its flags, where that is anything, and its key.

        Values are in the order of state, and equal where they have one key there.
        """
        schema: Schema = (*self._key, *self._flags)
        rows = conformed(rows, schema, f"input of {self._spec.state.state_id}")
        order, keys = state.sorted_keys(_SEEN, rows)
        if not keys:
            return [], rows
        begins = np.fromiter(chain([True], map(ne, islice(keys, 1, None), keys)), bool, len(keys))
        first = np.flatnonzero(begins)
        columns: dict[str, Int64s] = {}
        some = np.zeros(len(first), bool)
        for flag in names_of(self._flags):
            counts = pc.fill_null(rows.column(flag), 0).to_numpy()
            sums = np.add.reduceat(counts[order], first)
            some |= sums != 0
            columns[flag] = sums
        if not some.all():
            first = first[some]
        delta = as_stored(rows.select(names_of(self._key)).take(pa.array(order[first])), self._key)
        for flag, sums in columns.items():
            delta = delta.append_column(flag, pa.array(sums[some]))
        return [keys[i] for i in first.tolist()] if len(first) < len(keys) else keys, delta

    def _count(
        self, delta: pa.Table, keys: list[bytes], stored: pa.Table, context: OperatorContext
    ) -> tuple[pa.Table, int, int]:
        """Write the new flags; the rows of `changed`, and how many rows of the state are new and gone."""
        found = stored.column(FOUND).to_numpy()
        columns = {name: delta.column(name) for name in names_of(self._key)}
        differs, written, left = (np.zeros(delta.num_rows, bool) for _ in range(3))
        new_flags = {}
        for flag in self._spec.flags:
            old = pc.fill_null(conformed(stored, (Column(flag, BIGINT),), _SEEN).column(0), 0).to_numpy()
            more = delta.column(flag).to_numpy()
            if self._spec.retracting:
                new = old + more
            elif len(more) and int(more.min()) < 0:
                raise InternalError(
                    f"state {self._spec.state.state_id}: a value is retracted from append-only input"
                )
            else:
                new = np.maximum(old, (more > 0).astype(np.int64))
            written |= new != old
            left |= new != 0
            differs |= (old > 0) != (new > 0)
            new_flags[flag] = pa.array(new)
            columns[f"{flag}.before"], columns[f"{flag}.after"] = pa.array(old > 0), pa.array(new > 0)
        kept, gone = written & left, found & ~left
        rows = pa.table(new_flags).filter(pa.array(kept))
        context.state.put_sorted(_SEEN, list(compress(keys, kept.tolist())), rows)
        context.state.delete_sorted(_SEEN, list(compress(keys, gone.tolist())))
        changed = pa.table(columns).filter(pa.array(differs))
        return changed, int((left & ~found).sum()), int((found & ~left).sum())

    def _emit(self, duck: DuckSession, changed: pa.Table) -> pa.Table:
        flags = [Column(f"{f}.{when}", BOOLEAN) for f in self._spec.flags for when in ("before", "after")]
        duck.register("changed", changed, (*self._key, *flags))
        try:
            output = duck.query(self._spec.emit)
        finally:
            duck.drop("changed")
        return conformed(output, self._spec.output, f"output of {self._spec.state.state_id}")
