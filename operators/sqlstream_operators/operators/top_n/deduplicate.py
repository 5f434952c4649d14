"""Deduplication: the first row of each key by an order, over append-only input."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import chosen, consolidated, empty, names_of, with_weight
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import as_stored
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult, ShowsAnswer
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import FOUND
from sqlstream_operators.plan.top_n_spec import DeduplicateSpec
from sqlstream_operators.plan.types import BIGINT
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.store import StateStore

from .ordered_rows import RowOrder
from .ranking import Int64s, projects

TABLE = "row"

_PAIR = "\x01pair"


class Deduplicate(ShowsAnswer):
    """Runs a `DeduplicateSpec`: see there for its input, its state and its output.

    The epoch's first row of each key is found, then compared with the stored one.
    """

    def __init__(self, spec: DeduplicateSpec) -> None:
        self._spec = spec
        table = spec.state.table(TABLE)
        self._keys: Schema = tuple(c for c in spec.columns if c.name in spec.partition)
        self._values: Schema = tuple(c for c in spec.columns if c.name not in spec.partition)
        if (
            table.layout != "key"
            or table.sub_key
            or {field.name for field in table.key} != set(spec.partition)
            or {field.name for field in table.value} != {column.name for column in self._values}
        ):
            raise InternalError(
                f"state {spec.state.state_id}: table {TABLE} has not the columns of the operator: {table}"
            )
        self._order = RowOrder(spec.columns, spec.partition, spec.order)
        pairs = (Column(_PAIR, BIGINT), *self._values)
        order = tuple(term for term in spec.order if term.column not in spec.partition)
        self._pairs = RowOrder(pairs, (_PAIR,), order)
        if spec.ttl_us is not None:
            raise InternalError(f"state {spec.state.state_id}: deduplication does not forget by time")

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No rows arrived."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Keep the first row of each key; raises InternalError if changes come instead of rows."""
        spec, state, timer = self._spec, context.state, PhaseTimer()
        [rows] = inputs
        if WEIGHT_COLUMN in rows.column_names:
            raise InternalError(
                f"state {spec.state.state_id}: retractions arrived, but the plan says append-only"
            )
        if not rows.num_rows:
            return OperatorResult(empty(with_weight(spec.output)), {"emitted_rows": 0})
        with timer.phase("merge_us"):
            rows = conformed(rows, spec.columns, f"state {spec.state.state_id}")
            rows = as_stored(rows, self._keys).combine_chunks()
            found = self._order.sorted(context.duck, rows, 1)
            first = found.order[found.first]
            order, keys = state.sorted_keys(TABLE, chosen(rows, spec.partition, first))
            rows = rows.take(pa.array(first[order]))
        with timer.phase("state_us"):
            stored = state.get_sorted(TABLE, keys)
        with timer.phase("merge_us"):
            there = stored.column(FOUND).to_numpy()
            before = np.flatnonzero(there)
            better = self._better(context.duck, rows.take(pa.array(before)), stored.take(pa.array(before)))
            replaced = before[better]
            comes = ~there
            comes[replaced] = True
            new = _taken(rows, np.flatnonzero(comes))
            output = self._changes(rows.take(pa.array(replaced)), stored.take(pa.array(replaced)), new)
            if projects(spec):
                output = consolidated(context.duck, output, spec.output)
        with timer.phase("state_us"):
            state.put_sorted(TABLE, list(compress(keys, comes.tolist())), new)
        metrics = {
            "emitted_rows": output.num_rows,
            "read_rows": len(before),
            "state_rows_added": rows.num_rows - len(before),
            **timer.figures("merge_us", "state_us"),
        }
        return OperatorResult(output, metrics)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`."""
        return self._given(context.duck, context.state.scan_all(TABLE))

    def answer_of(self, duck: DuckSession, state: StateStore, keys: pa.Table) -> pa.Table:
        """See `AnswersByKey.answer_of`."""
        return self._given(duck, state.scan_prefix(TABLE, keys))

    def _given(self, duck: DuckSession, rows: pa.Table) -> pa.Table:
        """What was emitted of rows of state."""
        output = self._changes(rows.slice(0, 0), rows.slice(0, 0), rows)
        return consolidated(duck, output, self._spec.output) if projects(self._spec) else output

    def _better(self, duck: DuckSession, rows: pa.Table, stored: pa.Table) -> npt.NDArray[np.bool_]:
        """For each new row whether it comes before the stored one of its key."""
        count = rows.num_rows
        if not count or not self._values:
            return np.zeros(count, bool)
        names = names_of(self._values)
        both = pa.concat_tables([stored.select(names), rows.select(names).cast(stored.select(names).schema)])
        both = both.append_column(_PAIR, pa.array(np.tile(np.arange(count), 2)))
        found = self._pairs.sorted(duck, both.combine_chunks(), 1)
        # The stored row stands first of equals, so what stands first comes in if it is not the stored one.
        pair = found.order[found.first]
        better = np.zeros(count, bool)
        better[pair[pair >= count] - count] = True
        return better

    def _changes(self, rows: pa.Table, stored: pa.Table, new: pa.Table) -> pa.Table:
        """The stored rows of the keys of `rows` go, `new` come."""
        names = [column.name for column in self._spec.output]
        keys = self._spec.partition
        old = [(rows if name in keys else stored).column(name) for name in names]
        gone = pa.Table.from_arrays(old, names=names)
        changes = pa.concat_tables([gone, new.select(names).cast(gone.schema)]) if old else rows.slice(0, 0)
        weight = np.concatenate([np.full(rows.num_rows, -1), np.ones(new.num_rows, np.int64)])
        return changes.append_column(WEIGHT_COLUMN, pa.array(weight))


def _taken(table: pa.Table, index: Int64s) -> pa.Table:
    """Rows by ascending index."""
    return table if len(index) == table.num_rows else table.take(pa.array(index))
