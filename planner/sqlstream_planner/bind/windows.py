"""Window table functions, and the older group-window functions, as logical Window nodes."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.spec import WindowKind, WindowSpec
from sqlstream_operators.plan.types import TIMESTAMP
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.scope import Relation, Scope
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.logical import (
    ColumnId,
    EventTime,
    Field,
    Node,
    Project,
    WindowColumn,
    WindowFunction,
    column,
)
from sqlstream_planner.logical.text import duration
from sqlstream_planner.sql.dialect import OwnSql, WindowTvf, constant_value
from sqlstream_planner.sql.dialect.tvf import USAGE

_LENGTHS = {"TUMBLE": ("size",), "HOP": ("slide", "size"), "CUMULATE": ("step", "size")}


def bind_tvf(context: BindContext, tvf: WindowTvf, data: Node, table: str) -> Node:
    """The rows of `TUMBLE(TABLE …, DESCRIPTOR(ts), …)` over `data`, which `table` names in errors.

    Columns of `data` that are called like the window's are hidden by these, with a warning.
    """
    kind = tvf.kind
    if kind not in _LENGTHS:
        context.unsupported(tvf, f"{kind} windows", help="TUMBLE, HOP and CUMULATE can")
    scope = Scope(context, (Relation(table, data.fields),))
    time = _time_column(context, scope, tvf.args["timecol"], table, kind)
    missing = [name.upper() for name in _LENGTHS[kind] if tvf.args.get(name) is None]
    if missing:
        context.fail(tvf, "SQL004", f"{kind} misses {' and '.join(missing)}", help=f"write {USAGE[kind]}")
    lengths = {name: _length(context, tvf.args[name], name, kind) for name in _LENGTHS[kind]}
    offset = (
        _length(context, tvf.args["offset"], "offset", kind, signed=True) if tvf.args.get("offset") else 0
    )
    window = window_over(context, tvf, data, time, _spec(context, tvf, kind, lengths, offset))
    added = {f.name for f in (window.start, window.end, window.time)}
    hidden = [f.name for f in data.fields if f.name.lower() in added]
    if not hidden:
        return window
    names = ", ".join(f"`{n}`" for n in hidden)
    context.warnings.append(
        Diagnostic(
            "SQL103",
            f"the columns of this {kind} hide {names} of `{table}`",
            context.span(tvf),
            notes=(f"{kind} adds the bounds of its own windows under these names",),
            help=f"to read both, give the inner ones other names: {hidden[0]} AS inner_{hidden[0].lower()}",
            severity="warning",
        )
    )
    shown = tuple(
        f
        for f in window.fields
        if f.id in {window.start.id, window.end.id, window.time.id} or f.name not in hidden
    )
    return Project(window, shown, tuple(column(f.id) for f in shown))


def bind_group_window(
    context: BindContext, call: exp.Expr, name: str, arguments: list[exp.Expr], data: Node, scope: Scope
) -> WindowFunction:
    """The window node of the older `GROUP BY TUMBLE(ts, INTERVAL …)`; HOP is (ts, slide, size)."""
    kind = name.upper()
    if kind not in ("TUMBLE", "HOP"):
        context.unsupported(
            call, f"{kind} in GROUP BY", help="TUMBLE and HOP can; use a window table function"
        )
    wanted = 1 + len(_LENGTHS[kind])
    if len(arguments) not in (wanted, wanted + 1):
        usage = (
            "TUMBLE(ts, INTERVAL '1' MINUTE)"
            if kind == "TUMBLE"
            else "HOP(ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)"
        )
        context.fail(
            call, "SQL020", f"{kind} takes {wanted} arguments, not {len(arguments)}", help=f"write {usage}"
        )
    table = scope.relations[0].alias or "the sub-query"
    time = _time_column(context, scope, arguments[0], table, kind)
    lengths = {
        n: _length(context, a, n, kind) for n, a in zip(_LENGTHS[kind], arguments[1:wanted], strict=True)
    }
    offset = (
        _length(context, arguments[wanted], "offset", kind, signed=True) if len(arguments) > wanted else 0
    )
    return window_over(context, call, data, time, _spec(context, call, kind, lengths, offset))


def window_over(
    context: BindContext, call: exp.Expr, data: Node, time: Field, spec: WindowSpec
) -> WindowFunction:
    """A WindowFunction node with fresh window columns, written as `call`.

    Bounds of an earlier window that `data` has are plain values from here on: rows that meet in them may
    still be in different windows of this one.
    """
    assert time.time is not None
    if any(f.window is not None for f in data.fields):
        plain = tuple(replace(f, window=None) for f in data.fields)
        data = Project(data, plain, tuple(column(f.id) for f in plain))
    after = EventTime(time.time.sources, time.time.tick_us, time.time.direct)

    def bound(name: str, role: str) -> Field:
        return Field(
            context.new_id(name),
            name,
            time.type if role == "time" else TIMESTAMP,
            False,
            time=after if role == "time" else None,
            window=WindowColumn(role, spec, after),
        )

    return WindowFunction(
        data,
        spec,
        ColumnId(time.id),
        bound("window_start", "start"),
        bound("window_end", "end"),
        bound("window_time", "time"),
        context.span(call),
    )


def _time_column(context: BindContext, scope: Scope, node: exp.Expr, table: str, kind: str) -> Field:
    resolved = scope.resolve(node)
    found = scope.by_id(resolved.name) if isinstance(resolved, exp.Column) else None
    if found is not None and found.time is not None:
        return found
    name = found.name if found is not None else node.sql(dialect=OwnSql)
    times = [f.name for f in scope.fields if f.time is not None]
    if found is not None and found.window is not None and found.window.role != "time":
        context.fail(
            node,
            "SQL021",
            f"`{name}` is a bound of a window, not an event-time column",
            help=f"use `window_time`, which stays one: DESCRIPTOR({times[0] if times else 'window_time'})",
        )
    if times:
        context.fail(
            node,
            "SQL021",
            f"`{name}` is not an event-time column of `{table}`",
            notes=("a window needs a column with a watermark, unchanged on its way here",),
            help=f"write DESCRIPTOR({times[0]})",
        )
    if found is not None and not found.type.is_timestamp:
        context.fail(
            node,
            "SQL021",
            f"{kind} needs an event-time column, but `{name}` is {found.type}",
            notes=(f"`{table}` has no column with a watermark",),
            help=f"add a TIMESTAMP(3) column to the table and `WATERMARK FOR ts AS ts - INTERVAL '5' SECOND`; "
            f"a computed column can make one, such as `ts AS TO_TIMESTAMP({name})`",
        )
    context.fail(
        node,
        "SQL022",
        f"`{name}` has no watermark, so {kind} can't tell when a window is complete",
        notes=(f"`{table}` has no column with a watermark",),
        help=f"add `WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND` to the CREATE TABLE of the source",
    )


def _length(context: BindContext, node: exp.Expr, name: str, kind: str, *, signed: bool = False) -> int:
    value = constant_value(node)
    if value is None:
        context.fail(
            node,
            "SQL020",
            f"the {name} of {kind} must be a constant interval",
            help=f"write {name.upper()} => INTERVAL '10' SECOND",
        )
    micros = value.total_micros
    if micros is None:
        context.fail(
            node,
            "SQL020",
            f"the {name} of {kind} can't have months or years, which differ in length",
            help="use days or smaller units, such as INTERVAL '30' DAY",
        )
    if micros <= 0 and not signed:
        context.fail(
            node, "SQL020", f"the {name} of {kind} must be positive", help="write INTERVAL '10' SECOND"
        )
    return micros


def _spec(
    context: BindContext, node: exp.Expr, kind: str, lengths: dict[str, int], offset: int
) -> WindowSpec:
    size = lengths["size"]
    if kind == "TUMBLE":
        return WindowSpec(WindowKind.TUMBLE, size, size, offset)
    if kind == "HOP":
        if lengths["slide"] > size:
            context.warnings.append(
                Diagnostic(
                    "SQL104",
                    f"HOP makes a window of {duration(size)} every {duration(lengths['slide'])}: "
                    "rows between two windows are in none",
                    context.span(node),
                    notes=("the arguments of HOP are (data, time column, slide, size)",),
                    help="give the shorter time first, if windows should overlap",
                    severity="warning",
                )
            )
        return WindowSpec(WindowKind.HOP, size, lengths["slide"], offset)
    step = lengths["step"]
    if size % step:
        at = node.args.get("size") if isinstance(node, WindowTvf) else None
        context.fail(
            at or node,
            "SQL023",
            f"the size of CUMULATE, {duration(size)}, is not a multiple of its step, {duration(step)}",
            notes=("the arguments of CUMULATE are (data, time column, step, size)",),
            help=f"use a size of {duration(max(1, round(size / step)) * step)}, or another step",
        )
    return WindowSpec(WindowKind.CUMULATE, size, step, offset)
