"""IntervalJoin: pairs of rows that are near each other in time, which are kept no longer than that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec, TimeBounds
from sqlstream_operators.plan.schema import Column
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data, form
from sqlstream_planner.identity.state import StateIdentity, StoredTable
from sqlstream_planner.logical import Field, Node, Waits, sql
from sqlstream_planner.logical.text import duration
from sqlstream_planner.logical.time_bounds import delay_of, follows
from sqlstream_planner.physical.best_of_window import BestOfWindow
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.by_stage import by_stage, each, result_of
from sqlstream_planner.physical.join_sides import (
    SIDES,
    Side,
    described,
    equal_forms,
    relational,
    shared_attributes,
)
from sqlstream_planner.physical.late_rows import INSTANT, LateRows
from sqlstream_planner.physical.operators.over_rows import columns_of_rows
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.physical.state_node import StateNode, clause_of
from sqlstream_planner.streaming import IntervalJoin

#: What stands for the time of a row without one that is never late.
_NEVER_LATE = 1 << 61


def plan_interval_join(planner: Planner, node: Node) -> Block:
    """The stage that keeps the rows of both sides by time and key."""
    if not isinstance(node, IntervalJoin):
        raise InternalError(f"a {type(node).__name__} is no interval join")
    sides = [Side.of(planner, node, side) for side in SIDES]
    if any(side.spec.retracting for side in sides):
        raise InternalError("the rows of an interval join can go")
    waits = Waits.of(node.bound, node.left.fields, node.right.fields)
    bounds = TimeBounds(
        node.bound.left,
        node.bound.right,
        node.bound.lower_us,
        node.bound.upper_us,
        waits.left_us,
        waits.right_us,
    )
    name = planner.stages.name(IntervalJoinSpec.kind)
    timed = [_Timed(planner, name, side, waits) for side in _with_times(node, sides)]
    bests = [
        BestOfWindow.of(planner, node, sides, number, can_be_late=side.late is not None)
        for number, side in enumerate(timed)
    ]
    identity = _identity(planner, node, sides, bounds, bests)
    state = planner.states.add(identity.schema(IntervalJoinSpec.kind, described(node)), planner.ttls(node))
    spec = IntervalJoinSpec(
        state,
        node.kind.lower(),
        tuple(Column(name, key.type, False) for name, key in zip(sides[0].key_names, node.keys, strict=True)),
        sides[0].spec,
        sides[1].spec,
        sql(node.condition) if node.condition is not None else None,
        columns_of_rows(node.fields),
        bounds,
        waits.sources,
    )
    planner.state_nodes[state.state_id] = StateNode(node, planner.meanings, {}, at=clause_of(node.meaning))
    draft = planner.stages.behind(name, [block for side in timed for block in side.blocks])
    hashed = tuple(f.name for f in state.tables[0].key)
    inputs = []
    for side, best in zip(timed, bests, strict=True):
        shipment = Shipment(f"{name}.{side.rows.name}", each(side.sql), side.rows.shipped)
        if best is not None:
            shipment = replace(shipment, text=best.of_rows(shipment.text), also_reads=best.reads)
        inputs += planner.stages.ship(side.blocks, [shipment], hashed, side.late)
    draft.run(name, spec, inputs)
    return result_of(name, node, weighted=False)


def _with_times(node: IntervalJoin, sides: Sequence[Side]) -> Iterable[tuple[Side, Field]]:
    """The sides with the columns that have their times."""
    for side, id_ in zip(sides, (node.bound.left, node.bound.right), strict=True):
        yield side, next(f for f in side.node.fields if f.id == id_)


class _Timed:
    """A side, `rows`, and the blocks that it is made of; `late` says which rows come too late, None where none can."""

    def __init__(self, planner: Planner, name: str, side: tuple[Side, Field], waits: Waits) -> None:
        self.rows, self._time = side
        node, own = self.rows.node, follows(self._time)
        # Rows without a time are in no window; where no window is, they are rows like others that no partner has.
        self._windowed = self._time.window is not None
        timeless = own.direct and self._windowed
        self.blocks = planner.blocks(node, timeless=timeless)
        self.late: LateRows | None = None
        if not own.direct:
            return
        window = self._time.window
        whole = window.window if window is not None and window.role == "end" else None
        delay_us = own.delay_us if whole is not None else delay_of(self._time)
        event_time = next((f.id for f in node.fields if f.time is not None and f.window is None), None)
        self.late = LateRows(
            operator=name,
            window=INSTANT if whole is None else replace(whole, shared_slices=False),
            slice_column=self._time.id,
            time_column=event_time if self._windowed else self._time.id,
            time=replace(own, sources=waits.sources, delay_us=delay_us),
            rows=by_stage(planner.blocks(node, rows=True, timeless=timeless)),
            instant=whole is None,
        )

    def sql(self, block: Block) -> str:
        """The rows of a block as the join takes them, with what says whether they are late."""
        if self.late is None:
            return self.rows.sql(block)
        us = f"epoch_us({sql(block.columns[self._time.id])})"
        return self.rows.sql(block, us if self._windowed else f"coalesce({us}, {_NEVER_LATE})")


def _identity(
    planner: Planner,
    node: IntervalJoin,
    sides: Sequence[Side],
    bounds: TimeBounds,
    bests: Sequence[BestOfWindow | None],
) -> StateIdentity:
    """What the state of an interval join means: rows of both sides, by time and by what is equal."""
    left, right = sides
    meaning, equal = relational(node), equal_forms(planner, node)
    attributes: dict[str, Data] = {
        **shared_attributes(node, sides),
        "times": [left.meanings[bounds.left], right.meanings[bounds.right]],
        "bounds": [bounds.lower_us, bounds.upper_us],
        "waits": [bounds.left_wait_us, bounds.right_wait_us],
        # Whether all rows are there: a join with another partner would miss those that are not.
        **{
            f"{side.name} rows": best.meaning
            for side, best in zip(sides, bests, strict=True)
            if best is not None
        },
    }
    rows = form("sides", planner.meanings.relation(meaning.left), planner.meanings.relation(meaning.right))
    tables = [side.table(equal, "time") for side in sides]
    for side, table in zip(sides, tuple(tables), strict=True):
        if side.whole:
            tables.append(StoredTable(f"alone_{side.name}", "time", table.key, table.sub_key))
    return StateIdentity("rows joined in time", rows, equal, attributes, tuple(tables))


def explain_interval_join(name: str, spec: IntervalJoinSpec) -> list[str]:
    """The lines of the operator's step."""
    bounds = spec.bounds
    lines = [f"  {name} = {spec.type} interval join, state {spec.state.state_id}"]
    for key, left, right in zip(spec.keys, spec.left.keys, spec.right.keys, strict=True):
        lines.append(f"    {key.name}: left's {left or 'expression'} = right's {right or 'expression'}")
    if not spec.keys:
        lines.append("    by no key: all rows are in one shard")
    if spec.condition is not None:
        lines.append(f"    where {spec.condition}")
    if bounds.lower_us == bounds.upper_us == 0:
        lines.append(f"    {bounds.left} = {bounds.right}")
    else:
        lines.append(
            f"    {bounds.left} - {bounds.right} is between {duration(bounds.lower_us)} and {duration(bounds.upper_us)}"
        )
    watermark = f"the watermark of {', '.join(spec.watermark_sources)}"
    for side, time, wait_us in (
        ("left", bounds.left, bounds.left_wait_us),
        ("right", bounds.right, bounds.right_wait_us),
    ):
        sign = "-" if wait_us < 0 else "+"
        by = f" {sign} {duration(abs(wait_us))}" if wait_us else ""
        lines.append(f"    rows of the {side} are dropped when {watermark} reaches {time}{by}")
    return lines


def _bounds(spec: IntervalJoinSpec) -> str:
    return "bounded: rows go when the watermark says that no partner of them can come"


OPERATOR = PlannedOperator(
    IntervalJoin, plan_interval_join, {IntervalJoinSpec: Explained(explain_interval_join, _bounds)}
)
