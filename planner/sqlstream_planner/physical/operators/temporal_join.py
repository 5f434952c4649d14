"""TemporalJoin: rows that wait for the watermark, and versions that they may ask for."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.schema import SLICE_COLUMN, Column
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data, form
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import AsOfJoin, ColumnId, Node, sql
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.by_stage import by_stage, each, result_of
from sqlstream_planner.physical.join_sides import SIDES, Side, equal_forms, shared_attributes
from sqlstream_planner.physical.late_rows import INSTANT, LateRows
from sqlstream_planner.physical.operators.over_rows import columns_of_rows
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.stages import Shipment
from sqlstream_planner.physical.state_node import StateNode, clause_of
from sqlstream_planner.streaming import TemporalJoin


def plan_temporal_join(planner: Planner, node: Node) -> Block:
    """The stage that keeps rows of the left by time, and those of the right by key and time."""
    if not isinstance(node, TemporalJoin):
        raise InternalError(f"a {type(node).__name__} is no temporal join")
    sides = [Side.of(planner, node, side) for side in SIDES]
    if any(side.spec.retracting for side in sides):
        raise InternalError("the rows of a temporal join can go")
    left, right = sides
    by = ", ".join(sql(key.right) for key in node.keys)
    state = planner.states.add(
        _identity(planner, node, left, right).schema(
            TemporalJoinSpec.kind, f"versions{f' by {by}' if by else ''}, and rows that wait for them"
        ),
        planner.ttls(node),
    )
    spec = TemporalJoinSpec(
        state,
        node.kind.lower(),
        tuple(Column(name, key.type, False) for name, key in zip(left.key_names, node.keys, strict=True)),
        left.spec,
        right.spec,
        node.strict,
        node.ties,
        node.gone,
        sql(node.condition) if node.condition is not None else None,
        columns_of_rows(node.fields),
        node.time.sources,
        node.time.delay_us,
        node.forward,
    )
    planner.state_nodes[state.state_id] = StateNode(node, planner.meanings, {}, at=clause_of(node.meaning))
    name = planner.stages.name(spec.kind)
    timed = [
        _Timed(planner, name, node, side, id_)
        for side, id_ in zip(sides, (node.left_time, node.right_time), strict=True)
    ]
    draft = planner.stages.behind(name, [block for side in timed for block in side.blocks])
    hashed = tuple(f.name for f in state.tables[0].key)
    inputs = []
    for side in timed:
        schema = (*side.rows.shipped, Column(SLICE_COLUMN, BIGINT))
        shipment = Shipment(f"{name}.{side.rows.name}", each(side.sql), schema)
        inputs += planner.stages.ship(side.blocks, [shipment], hashed, side.late)
    draft.run(name, spec, inputs)
    return result_of(name, node, weighted=False)


class _Timed:
    """A side, `rows`, and the blocks that it is made of; `late`: which rows come when the watermark has reached them."""

    def __init__(self, planner: Planner, name: str, join: TemporalJoin, side: Side, time: ColumnId) -> None:
        self.rows, self._time = side, time
        self.blocks = planner.blocks(side.node)
        self.late: LateRows | None = None
        own = next(f.time for f in side.node.fields if f.id == time)
        if own is not None and own.direct:
            self.late = LateRows(
                operator=name,
                window=INSTANT,
                slice_column=time,
                time_column=time,
                time=join.time,
                rows=by_stage(planner.blocks(side.node, rows=True)),
                instant=True,
            )

    def sql(self, block: Block) -> str:
        """The rows of a block as the join takes them, with their times."""
        return self.rows.sql(block, f"epoch_us({sql(block.columns[self._time])})")


def _identity(planner: Planner, node: TemporalJoin, left: Side, right: Side) -> StateIdentity:
    """What the state means: rows that wait, and versions, by what is equal and by time."""
    if not isinstance(node.meaning, AsOfJoin):
        raise InternalError("a temporal join was made of something else")
    equal = equal_forms(planner, node)
    attributes: dict[str, Data] = {
        **shared_attributes(node, (left, right)),
        "times": [left.meanings[node.left_time], right.meanings[node.right_time]],
        "strict": node.strict,
        "ties": None if node.ties is None else [right.meanings[id_] for id_ in node.ties],
        "gone": right.meanings[node.gone] if node.gone is not None else None,
        "delay": node.time.delay_us,
    }
    meaning = node.meaning
    rows = form("sides", planner.meanings.relation(meaning.left), planner.meanings.relation(meaning.right))
    waiting, versions = left.table(equal, "time"), right.table(equal)
    if node.forward:
        attributes["forward"] = True
        [row] = waiting.sub_key
        at = Stored("__time", BIGINT, form("time"), rank="0 ")
        forward = (
            StoredTable("waiting", "key", waiting.key, (at, replace(row, rank="1 ")), waiting.value),
            StoredTable("versions", "time", versions.key, value=versions.value[1:]),
        )
        return StateIdentity("rows and versions", rows, equal, attributes, forward)
    tables = (
        StoredTable("waiting", "time", waiting.key, waiting.sub_key, waiting.value),
        StoredTable(
            "versions",
            "key",
            versions.key,
            (Stored("__time", BIGINT, form("version")),),
            versions.value[1:],  # without how often it is there
        ),
        StoredTable("unreached", "time", versions.key),
    )
    return StateIdentity("rows and versions", rows, equal, attributes, tables)


def explain_temporal_join(name: str, spec: TemporalJoinSpec) -> list[str]:
    """The lines of the operator's step."""
    lines = [f"  {name} = {spec.type} temporal join, when the watermark comes, state {spec.state.state_id}"]
    for key, left, right in zip(spec.keys, spec.left.keys, spec.right.keys, strict=True):
        lines.append(f"    {key.name}: left's {left or 'expression'} = right's {right or 'expression'}")
    if not spec.keys:
        lines.append("    by no key: all rows are in one shard")
    if spec.condition is not None:
        lines.append(f"    where {spec.condition}")
    if spec.gone is not None:
        lines.append(f"    a version ends the one before it, and is none itself, where {spec.gone}")
    watermark = f"the watermark of {', '.join(spec.watermark_sources)}"
    if spec.forward:
        lines.append(f"    rows of the left are given, and dropped, when {watermark} reaches their version")
        lines.append(
            "    of the right, versions that it has reached are dropped; rows that find none are kept"
        )
        return lines
    lines.append(f"    rows of the left are given, and dropped, when {watermark} reaches their time")
    lines.append("    of the right, versions older than the newest that it has reached are dropped")
    return lines


def _bounds(spec: TemporalJoinSpec) -> str:
    return "bounded by the watermark, but for the newest version of each key"


OPERATOR = PlannedOperator(
    TemporalJoin, plan_temporal_join, {TemporalJoinSpec: Explained(explain_temporal_join, _bounds)}
)
