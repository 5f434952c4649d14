"""SessionAggregate: accumulators of each open session, merged when sessions become one."""

from __future__ import annotations

from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.session_spec import LAST, START, SessionAggregateSpec
from sqlstream_operators.plan.types import BIGINT, Kind, quote_identifier
from sqlstream_planner.aggregates.count import COUNT
from sqlstream_planner.aggregates.function import Decomposition
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data, form
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import AggregateCall, Field, Node, column, columns_of
from sqlstream_planner.logical.text import duration
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.grouping import Kept, Names, keep
from sqlstream_planner.physical.operators.over_rows import columns_of_rows, stored_fields
from sqlstream_planner.physical.operators.over_sessions import SessionInput
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator, closes
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.state_node import KeptAccumulator, StateNode, clause_of
from sqlstream_planner.streaming import SessionAggregate


def plan_session_aggregate(planner: Planner, node: Node) -> Block:
    """The stage that keeps the accumulators of open sessions."""
    if not isinstance(node, SessionAggregate):
        raise InternalError(f"a {type(node).__name__} is no aggregate of sessions")
    name = planner.stages.name(SessionAggregateSpec.kind)
    inside = planner.meanings.columns(node.input)
    rows = AggregateCall(Field("count", "count", BIGINT), COUNT.name, (), ())
    taken = {f.id.lower() for f in node.input.fields} | {"window_start", "window_end"}
    kept, finals = keep(node.calls or [rows], _decomposed, inside, Names(taken))
    state = _identity(planner, node, kept).schema(SessionAggregateSpec.kind, _describe(node))
    by_name = {k.name: k for k in kept}
    ordered = [by_name[f.name] for f in state.tables[0].value if f.name in by_name]
    read = set(node.partition).union(*(columns_of(e) for e in node.expressions()))
    columns = columns_of_rows(tuple(f for f in node.input.fields if f.id in read))
    given = SessionInput.of(planner, name, node, columns)
    spec = SessionAggregateSpec(
        state=planner.states.add(state, planner.ttls(node)),
        columns=columns,
        partition=tuple(f.name for f in state.tables[0].key),
        gap_us=node.window.size_us,
        accumulators=tuple(Column(k.name, k.accumulator.type) for k in ordered),
        partial=tuple(_decomposed(k.call).accumulators[k.position].partial for k in ordered),
        merge=tuple(k.merge for k in ordered),
        emit=_emit(node, finals),
        output=columns_of_rows(node.fields),
        changes=node.early,
        decides_late=given.late is not None,
        table=given.table,
        watermark_sources=node.time.sources,
        tick_us=given.tick_us,
    )
    planner.state_nodes[spec.state.state_id] = StateNode(
        node,
        planner.meanings,
        {f.id: column(f.id) for f in node.input.fields if f.id in node.partition},
        accumulators={k.name: KeptAccumulator(k.call, k.position, k.accumulator) for k in kept},
        at=clause_of(node.meaning),
    )
    return given.run(planner, spec)


def _decomposed(call: AggregateCall) -> Decomposition:
    made = function_of(call).decomposed(call, None, retracting=False)
    if made is None:
        raise InternalError(f"{call.name} is no accumulator")
    return made


def _identity(planner: Planner, node: SessionAggregate, kept: tuple[Kept, ...]) -> StateIdentity:
    """What the state means: groups of the rows of sessions, by what these are partitioned by."""
    meanings = planner.meanings.columns(node.input)
    key = stored_fields(tuple(f for f in node.input.fields if f.id in node.partition), meanings)
    start = Stored(START, BIGINT, form("session start"))
    last = Stored(LAST, BIGINT, form("session's last time"))
    attributes: dict[str, Data] = {
        "gap": node.window.size_us,
        "rows at once": node.early,
        "lateness": node.lateness_us,
    }
    tables = (
        StoredTable("sessions", "key", key, (start,), (last, *(k.stored for k in kept))),
        StoredTable("closing", "time", key, value=(start,)),
    )
    return StateIdentity(
        "groups of sessions",
        planner.meanings.relation(node.meaning),
        tuple(s.meaning for s in key),
        attributes,
        tables,
    )


def _emit(node: SessionAggregate, finals: dict[str, str]) -> str:
    cast = " AT TIME ZONE 'UTC'" if node.window_time.type.kind is Kind.TIMESTAMPTZ else ""
    items = [(quote_identifier(id_), f.id) for id_, f in zip(node.partition, node.keys, strict=True)]
    items += [
        ('"window_start"', node.start.id),
        ('"window_end"', node.end.id),
        (f"(window_end - INTERVAL 1 MILLISECOND){cast}", node.window_time.id),
    ]
    items += [(f"CAST({finals[c.field.id]} AS {c.field.type})", c.field.id) for c in node.calls]
    listed = ", ".join(f"{text} AS {quote_identifier(name)}" for text, name in items)
    return f"SELECT {listed} FROM merged"


def _describe(node: SessionAggregate) -> str:
    calls = ", ".join(c.field.name for c in node.calls)
    keys = ", ".join(f.name for f in node.keys) or "no keys"
    return f"sessions by {keys}: {calls or 'no aggregates'}"


def explain_session_aggregate(name: str, spec: SessionAggregateSpec) -> list[str]:
    """The lines of the operator's step."""
    lines = [
        f"  {name} = merge by session, gap {duration(spec.gap_us)}, state {spec.state.state_id}",
        f"    by {', '.join(spec.partition) or 'no column: all rows are in one shard'}",
    ]
    for accumulator, merge in zip(spec.accumulators, spec.merge, strict=True):
        lines.append(f"    {accumulator.name} {accumulator.type} = {merge}")
    when = "when a session changes" if spec.changes else "when a session closes"
    return [*lines, f"    {when}: {spec.emit}"]


OPERATOR = PlannedOperator(
    SessionAggregate,
    plan_session_aggregate,
    {SessionAggregateSpec: Explained(explain_session_aggregate, closes)},
)
