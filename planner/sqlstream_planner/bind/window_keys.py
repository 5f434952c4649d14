"""Which window a GROUP BY is over: its keys that are bounds of a window, and the columns that aggregating needs."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.spec import WindowKind
from sqlstream_operators.plan.types import TIMESTAMP, SqlType
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.group_by import GroupBy
from sqlstream_planner.logical import EventTime, Field, Node, Project, WindowColumn, column


@dataclass(frozen=True, slots=True)
class WindowKeys:
    """The window that rows are grouped by: `node` are the rows, `end` their column with its end.

    `positions` are the keys of the GROUP BY that are bounds of it.
    """

    marker: WindowColumn
    node: Node
    end: str
    positions: Set[int]

    def bounds(self, context: BindContext) -> dict[str, Field]:
        """The columns of the result with the window's start, end and time."""
        return {role: self._bound(context, role) for role in ("start", "end", "time")}

    def _bound(self, context: BindContext, role: str) -> Field:
        name = f"window_{role}"
        type_: SqlType = TIMESTAMP
        if role == "time":
            for f in self.node.fields:
                if f.window is not None and f.window.role == "time":
                    type_ = f.type
        after = EventTime(self.marker.time.sources, self.marker.time.tick_us, direct=False)
        mark = WindowColumn(role, replace(self.marker.window, shared_slices=True), after)
        return Field(context.new_id(name), name, type_, False, after if role == "time" else None, mark)


def window_keys(context: BindContext, query: exp.Select, node: Node, group_by: GroupBy) -> WindowKeys | None:
    """The window that the rows of `node` are grouped by; None without one. Raises DiagnosticError."""
    by_id = {f.id: f for f in node.fields}
    markers: dict[int, WindowColumn] = {}
    for position, key in enumerate(group_by.keys):
        f = by_id.get(key.name) if isinstance(key, exp.Column) else None
        if f is not None and f.window is not None:
            markers[position] = f.window
    group = query.args.get("group") or query
    if not markers:
        return None
    windows = {(m.window, m.time.sources) for m in markers.values()}
    if len(windows) > 1:
        context.unsupported(group, "GROUP BY two different windows")
    marker = next(iter(markers.values()))
    roles = {m.role for m in markers.values()}
    if marker.window.kind is WindowKind.CUMULATE and roles == {"start"}:
        context.fail(
            group,
            "SQL044",
            "window_start alone does not say which CUMULATE window a row is in",
            help="add window_end to GROUP BY",
        )
    for chosen in group_by.sets:
        if not any(i in markers for i in chosen):
            context.fail(
                group,
                "SQL044",
                "a grouping set has no window",
                help="write window_start and window_end beside GROUPING SETS, ROLLUP or CUBE, not inside",
            )
    node, end = _with_end(context, node, marker)
    return WindowKeys(marker, node, end, frozenset(markers))


def time_column(node: Node) -> str | None:
    """The column that rows are ordered by in time: their own event time, else their window's."""
    candidates = [f for f in node.fields if f.time is not None and f.window is None]
    if candidates:
        return candidates[0].id
    return next((f.id for f in node.fields if f.window is not None and f.window.role == "time"), None)


def _with_end(context: BindContext, node: Node, marker: WindowColumn) -> tuple[Node, str]:
    """The rows with a column that has the window's end, and its id."""
    mine = [f for f in node.fields if f.window is not None and f.window.window == marker.window]
    for f in mine:
        if f.window is not None and f.window.role == "end":
            return node, f.id
    f = mine[0]
    assert f.window is not None
    shift = 1_000 if f.window.role == "time" else marker.window.size_us
    end = Field(
        context.new_id("window_end"), "window_end", TIMESTAMP, False, window=replace(marker, role="end")
    )
    microseconds = exp.Interval(this=exp.Literal.string(str(shift)), unit=exp.Var(this="MICROSECOND"))
    expression = exp.Add(this=column(f.id), expression=microseconds)
    columns = (*(column(x.id) for x in node.fields), expression)
    return Project(node, (*node.fields, end), columns), end.id
