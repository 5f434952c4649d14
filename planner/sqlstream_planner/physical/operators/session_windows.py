"""SessionWindows: rows are kept by their partition and time until their session closes."""

from __future__ import annotations

from sqlstream_operators.plan.session_spec import (
    LAST,
    NEXT,
    NUMBER_OF_ROW,
    ROWS,
    START,
    TIME_OF_ROW,
    SessionWindowsSpec,
)
from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.form import Data, form, sort_forms
from sqlstream_planner.identity.state import StateIdentity, Stored, StoredTable
from sqlstream_planner.logical import Node, SessionFunction, column
from sqlstream_planner.logical.text import duration
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.operators.over_rows import columns_of_rows, stored_fields
from sqlstream_planner.physical.operators.over_sessions import SessionInput
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator, closes
from sqlstream_planner.physical.planner import Planner
from sqlstream_planner.physical.state_node import StateNode
from sqlstream_planner.streaming import SessionWindows


def plan_session_windows(planner: Planner, node: Node) -> Block:
    """The stage that keeps the rows of open sessions."""
    if not isinstance(node, SessionWindows) or not isinstance(node.meaning, SessionFunction):
        raise InternalError(f"a {type(node).__name__} is no session window")
    name = planner.stages.name(SessionWindowsSpec.kind)
    columns = columns_of_rows(node.input.fields)
    given = SessionInput.of(planner, name, node, columns)
    shown = ", ".join(f.name for f in node.input.fields if f.id in node.partition) or "no column"
    identity = _identity(planner, node, node.meaning)
    state = identity.schema(SessionWindowsSpec.kind, f"rows of open sessions by {shown}")
    spec = SessionWindowsSpec(
        state=planner.states.add(state, planner.ttls(node)),
        columns=columns,
        partition=tuple(f.name for f in state.tables[0].key),
        gap_us=node.window.size_us,
        start=node.start.id,
        end=node.end.id,
        time=node.window_time.id,
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
        at=node.meaning.at,
    )
    return given.run(planner, spec)


def _identity(planner: Planner, node: SessionWindows, meaning: SessionFunction) -> StateIdentity:
    """What the state means: the rows of open sessions, by what they are partitioned by."""
    meanings = planner.meanings.columns(node.input)
    fields = node.input.fields
    key = stored_fields(tuple(f for f in fields if f.id in node.partition), meanings)
    value = stored_fields(tuple(f for f in fields if f.id not in node.partition), meanings)
    start = Stored(START, BIGINT, form("session start"))
    last = Stored(LAST, BIGINT, form("session's last time"))
    rows = Stored(ROWS, BIGINT, form("how many rows"))
    next_ = Stored(NEXT, BIGINT, form("number of the next row"))
    # By time first: the rows of a session stand together.
    time = Stored(TIME_OF_ROW, BIGINT, form("time of the row"), rank="0 ")
    number = Stored(NUMBER_OF_ROW, BIGINT, form("number of the row"), rank="1 ")
    attributes: dict[str, Data] = {
        "gap": node.window.size_us,
        "columns": sort_forms({form("payload", s.meaning, str(s.type)) for s in (*key, *value)}),
        "rows at once": node.early,
        "lateness": node.lateness_us,
    }
    tables = (
        StoredTable("sessions", "key", key, (start,), (last, rows, next_)),
        StoredTable("closing", "time", key, value=(start,)),
        StoredTable("rows", "key", key, (time, number), value),
    )
    return StateIdentity(
        "rows of sessions",
        planner.meanings.relation(meaning),
        tuple(s.meaning for s in key),
        attributes,
        tables,
    )


def explain_session_windows(name: str, spec: SessionWindowsSpec) -> list[str]:
    """The lines of the operator's step."""
    lines = [
        f"  {name} = session windows, gap {duration(spec.gap_us)}, state {spec.state.state_id}",
        f"    by {', '.join(spec.partition) or 'no column: all rows are in one shard'}",
    ]
    if spec.changes:
        lines.append("    rows come at once, and again when the bounds of their session change")
    else:
        lines.append("    rows are kept until their session closes")
    return lines


OPERATOR = PlannedOperator(
    SessionWindows, plan_session_windows, {SessionWindowsSpec: Explained(explain_session_windows, closes)}
)
