"""Which window a GROUP BY is over: its keys that are bounds of a window, and the bounds that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream_operators.plan.types import TIMESTAMP, Kind, SqlType
from sqlstream_operators.plan.window_spec import WindowKind
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.group_by import GroupBy
from sqlstream_planner.logical import Field, Node, Project, WindowColumn, column, raw
from sqlstream_planner.windows.window_time import start_of


@dataclass(slots=True)
class WindowKeys:
    """The window that rows are grouped by; `positions` are the keys of the GROUP BY that are bounds of it.

    `given` are the columns of the result with a bound, by role ('start', 'end', 'time'): those that are grouped by, and
    those that were `derived` from them for whoever reads them.
    """

    context: BindContext
    marker: WindowColumn
    positions: tuple[int, ...]
    given: dict[str, Field] = field(default_factory=dict)
    derived: list[tuple[Field, exp.Expr]] = field(default_factory=list)
    time_type: SqlType = TIMESTAMP

    def key(self, f: Field) -> Field:
        """The result's column of a key that is the bound `f` of the window."""
        assert f.window is not None
        made = self._field(f.window.role, f.name)
        self.given.setdefault(f.window.role, made)
        return made

    def bound(self, role: str) -> Field:
        """The result's column with a bound; one that is not grouped by follows from one that is."""
        if role not in self.given:
            self.given[role] = self._field(role, f"window_{role}")
            self.derived.append((self.given[role], raw(self._text(role))))
        return self.given[role]

    def tells(self, role: str) -> bool:
        """Whether a bound is grouped by or follows from one that is: where a session starts its end does not say."""
        return role in self.given or self.marker.window.kind is not WindowKind.SESSION or role != "start"

    def with_derived(self, node: Node) -> Node:
        """The aggregate with the bounds that were derived."""
        if not self.derived:
            return node
        fields = (*node.fields, *(f for f, _ in self.derived))
        return Project(node, fields, (*(column(f.id) for f in node.fields), *(e for _, e in self.derived)))

    def _field(self, role: str, name: str) -> Field:
        mark = WindowColumn(role, self.marker.window, replace(self.marker.time, direct=False))
        type_ = self.time_type if role == "time" else TIMESTAMP
        time = mark.event_time if role == "time" else None
        return Field(self.context.new_id(name), name, type_, False, time, mark)

    def _text(self, role: str) -> str:
        derived = {f.id for f, _ in self.derived}
        known = {r: f for r, f in self.given.items() if r != role and f.id not in derived}
        window = self.marker.window
        if "end" in known:
            end = f'epoch_us("{known["end"].id}")'
        elif "time" in known:
            end = f'(epoch_us("{known["time"].id}") + 1000)'
        else:
            end = f'(epoch_us("{known["start"].id}") + {window.size_us})'
        if role == "start":
            return f"make_timestamp({start_of(window, end)})"
        if role == "end":
            return f"make_timestamp({end})"
        maker = "make_timestamptz" if self.time_type.kind is Kind.TIMESTAMPTZ else "make_timestamp"
        return f"{maker}({end} - 1000)"


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
    if marker.window.kind is WindowKind.SESSION and roles == {"start"}:
        context.fail(
            group,
            "SQL044",
            "window_start alone does not say when a SESSION window ends",
            help="add window_end to GROUP BY",
        )
    for chosen in group_by.sets:
        if not any(i in markers for i in chosen):
            context.fail(
                group,
                "SQL044",
                "a grouping set has no window",
                help="write window_start and window_end next to GROUPING SETS, ROLLUP or CUBE, not inside",
            )
    times = [f.type for f in node.fields if f.window is not None and f.window.role == "time"]
    return WindowKeys(context, marker, tuple(markers), time_type=times[-1] if times else TIMESTAMP)
