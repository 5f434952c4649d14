"""Top-N of a few rows over append-only rows: the result of a partition is one value of the state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlstream_operators.duck.relations import conformed
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import chosen, concatenated, consolidated, empty, names_of, with_weight
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s, as_stored
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult, ShowsAnswer
from sqlstream_operators.operators.phase_timer import PhaseTimer
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Schema
from sqlstream_operators.plan.top_n_spec import TopNSpec
from sqlstream_operators.plan.watermarks import Watermarks

from .ordered_rows import RowOrder
from .ranking import projects, ranked_output

TABLE = "rows"


class ShortTopN(ShowsAnswer):
    """Runs a `TopNSpec` whose state has layout 'list': see there for its input, its state and its output.

    The epoch's first rows of each partition are found. A partition that is new has them as its list; those
    of the others are sorted with what their lists hold, and a list is written where it changes.
    """

    def __init__(self, spec: TopNSpec) -> None:
        self._spec = spec
        what = f"state {spec.state.state_id}"
        if spec.ttl_us is not None:
            raise InternalError(f"{what}: Top-N does not forget by time")
        if spec.retracting or spec.function != "row_number":
            raise InternalError(f"{what}: only the first rows of append-only input are a list")
        table = spec.state.table(TABLE)
        columns = {column.name for column in spec.columns}
        if (
            table.layout != "list"
            or {field.name for field in table.key} != set(spec.partition)
            or {field.name for field in table.value} != columns - set(spec.partition)
        ):
            raise InternalError(f"{what}: table {TABLE} has not the columns of the operator: {table}")
        self._upto = spec.offset + spec.limit
        self._keys: Schema = tuple(c for c in spec.columns if c.name in spec.partition)
        self._order = RowOrder(spec.columns, spec.partition, spec.order)

    def idle(self, inputs: Sequence[pa.Table], watermarks: Watermarks, *, stateless: bool) -> bool:
        """No rows arrived."""
        return not any(rows.num_rows for rows in inputs)

    def process(self, inputs: Sequence[pa.Table], context: OperatorContext) -> OperatorResult:
        """Sort, merge, emit; raises InternalError if changes come instead of rows."""
        spec, state, duck = self._spec, context.state, context.duck
        timer, what = PhaseTimer(), f"state {spec.state.state_id}"
        [rows] = inputs
        if WEIGHT_COLUMN in rows.column_names:
            raise InternalError(f"{what}: retractions arrived, but the plan says append-only")
        if not rows.num_rows or not self._upto:
            return OperatorResult(empty(with_weight(spec.output)), {"emitted_rows": 0})
        with timer.phase("merge_us"):
            rows = as_stored(conformed(rows, spec.columns, what), self._keys).combine_chunks()
            found = self._order.sorted(duck, rows, self._upto)
            keys = chosen(rows, names_of(self._keys), found.order[found.first])
        with timer.phase("state_us"):
            stored, sizes = state.lists(TABLE, keys)
        with timer.phase("merge_us"):
            new = sizes == 0
            wanted = (found.position < self._upto) & new[found.number]
            at = np.flatnonzero(wanted)
            fresh = rows.take(pa.array(found.order[at]))
            fresh_sizes = np.bincount(found.number[at], minlength=len(sizes))[new]
            shown = found.position[at] >= spec.offset
            outputs = [self._entering(fresh, found.position[at], found.apart[at], shown)]
            lists = [(chosen(keys, names_of(self._keys), np.flatnonzero(new)), fresh, fresh_sizes)]
            if not new.all():
                at = np.flatnonzero((found.position < self._upto) & ~new[found.number])
                came = rows.take(pa.array(found.order[at]))
                owners = np.repeat(np.arange(len(sizes)), sizes)
                before = _beside(chosen(keys, names_of(self._keys), owners), stored, names_of(spec.columns))
                positions = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
                output, changed = self._merged(duck, before, positions, came)
                outputs.append(output)
                lists.append(changed)
            output = concatenated(outputs)
            if projects(spec):
                output = consolidated(duck, output, spec.output)
        with timer.phase("state_us"):
            for changed_keys, list_rows, list_sizes in lists:
                state.put_lists(TABLE, changed_keys, list_rows, list_sizes)
        metrics = {
            "emitted_rows": output.num_rows,
            "read_rows": stored.num_rows,
            "state_rows_added": int(new.sum()),
            "state_rows_removed": 0,
            **timer.figures("merge_us", "state_us"),
        }
        return OperatorResult(output, metrics)

    def answer(self, context: OperatorContext) -> pa.Table:
        """See `KeepsAnswer.answer`."""
        spec = self._spec
        rows = context.state.scan_all(TABLE).select(names_of(spec.columns)).combine_chunks()
        if not rows.num_rows:
            return empty(with_weight(spec.output))
        found = self._order.sorted(context.duck, rows, self._upto)
        shown = (found.position >= spec.offset) & (found.position < self._upto)
        output = self._entering(rows.take(pa.array(found.order)), found.position, found.apart, shown)
        return consolidated(context.duck, output, spec.output) if projects(spec) else output

    def _entering(self, rows: pa.Table, position: Int64s, apart: np.ndarray, shown: np.ndarray) -> pa.Table:
        """Rows, in their order, of partitions that had none: those that are `shown` come."""
        spec = self._spec
        if spec.rank is not None:
            if not shown.all():
                rows, position = rows.filter(pa.array(shown)), position[shown]
            return _weighted(rows, spec, position + 1, np.ones(len(position), np.int64))
        at = np.flatnonzero(shown)
        group = np.cumsum(apart)[at]
        index, weight = _added(group, np.ones(len(at), np.int64))
        return _weighted(
            rows if len(index) == rows.num_rows else rows.take(pa.array(at[index])), spec, None, weight
        )

    def _merged(
        self, duck: DuckSession, before: pa.Table, positions: Int64s, came: pa.Table
    ) -> tuple[pa.Table, tuple[pa.Table, pa.Table, Int64s]]:
        """Lists with the rows that arrived: what changes of the result, and the lists that change."""
        spec, upto = self._spec, self._upto
        old = before.num_rows
        rows = pa.concat_tables([before, came.cast(before.schema)]).combine_chunks()
        # Equal rows of the list stay before those that came. Without ranks equal rows that leave are one change.
        found = self._order.sorted(duck, rows, rows.num_rows if spec.rank is None else upto)
        kept = found.position < upto
        moved = np.zeros(len(found.first), bool)
        moved[found.number[kept & (found.order >= old)]] = True
        touched = moved[found.number]
        # By row: where it stands in the order, its group of equal rows.
        stands = np.empty(len(found.order), np.int64)
        stands[found.order] = np.arange(len(found.order))
        group = np.cumsum(found.apart)
        own = np.flatnonzero(touched[stands[:old]] & (positions >= spec.offset))
        now = np.flatnonzero(kept & touched & (found.position >= spec.offset))
        if spec.rank is None:
            index = np.concatenate([own, found.order[now]])
            sign = np.concatenate([np.full(len(own), -1), np.ones(len(now), np.int64)])
            members, weight = _added(np.concatenate([group[stands[own]], group[now]]), sign)
            output = _weighted(rows.take(pa.array(index[members])), spec, None, weight)
        else:
            # What stands now where an old row stood: partitions only grow, so there is something.
            there = found.first[found.number[stands[own]]] + positions[own]
            goes = own[group[there] != group[stands[own]]]
            same = np.zeros(len(found.order), bool)
            same[there[group[there] == group[stands[own]]]] = True
            comes = now[~same[now]]
            index = np.concatenate([goes, found.order[comes]])
            rank = np.concatenate([positions[goes], found.position[comes]]) + 1
            sign = np.concatenate([np.full(len(goes), -1), np.ones(len(comes), np.int64)])
            output = _weighted(rows.take(pa.array(index)), spec, rank, sign)
        at = np.flatnonzero(kept & touched)
        keys = chosen(rows, names_of(self._keys), found.order[found.first[moved]])
        sizes = np.bincount(found.number[at], minlength=len(moved))[moved]
        return output, (keys, rows.take(pa.array(found.order[at])), sizes)


def _added(group: Int64s, weight: Int64s) -> tuple[Int64s, Int64s]:
    """The first row of each group, and the sum of the weights of each, without those that are 0."""
    _, index, inverse = np.unique(group, return_index=True, return_inverse=True)
    sums = np.zeros(len(index), np.int64)
    np.add.at(sums, inverse, weight)
    there = sums != 0
    return index[there], sums[there]


def _beside(left: pa.Table, right: pa.Table, names: Sequence[str]) -> pa.Table:
    """The columns `names` of two tables of the same number of rows."""
    arrays = [(left if name in left.column_names else right).column(name) for name in names]
    return pa.Table.from_arrays(arrays, names=list(names))


def _weighted(rows: pa.Table, spec: TopNSpec, rank: Int64s | None, weight: Int64s) -> pa.Table:
    ranks = np.zeros(0, np.int64) if rank is None else rank
    output = ranked_output(rows, spec.output, spec.rank, ranks)
    return output.append_column(WEIGHT_COLUMN, pa.array(weight))
