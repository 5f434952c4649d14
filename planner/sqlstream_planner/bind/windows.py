"""Window table functions, and the older group-window functions, as logical Window nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.types import TIMESTAMP, Kind
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.epoch_values import is_bound_process_time
from sqlstream_planner.bind.lost_times import lost_time
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.expressions.session_zone import UTC
from sqlstream_planner.logical import (
    ColumnId,
    Emission,
    EventTime,
    Field,
    Filter,
    LookupJoin,
    Node,
    Project,
    SessionFunction,
    SetOperation,
    Unnest,
    WindowColumn,
    WindowFunction,
    column,
)
from sqlstream_planner.logical.text import duration
from sqlstream_planner.sql.dialect import OwnSql, WindowTvf, constant_value
from sqlstream_planner.sql.dialect.tvf import USAGE

_LENGTHS = {"TUMBLE": ("size",), "HOP": ("slide", "size"), "CUMULATE": ("step", "size"), "SESSION": ("gap",)}
_GROUP_USAGE = {
    "TUMBLE": "TUMBLE(ts, INTERVAL '1' MINUTE)",
    "HOP": "HOP(ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
    "SESSION": "SESSION(ts, INTERVAL '10' SECOND)",
}


def bind_tvf(context: BindContext, tvf: WindowTvf, data: Node, table: str) -> Node:
    """The rows of `TUMBLE(TABLE …, DESCRIPTOR(ts), …)` over `data`, which `table` names in errors.

    Columns of `data` that are called like the window's are hidden by these, with a warning.
    """
    kind = tvf.kind
    scope = Scope(context, (Relation(table, data.fields),))
    time = _time_column(context, scope, tvf.args["timecol"], data, table, kind)
    missing = [name.upper() for name in _LENGTHS[kind] if tvf.args.get(name) is None]
    if missing:
        context.fail(tvf, "SQL004", f"{kind} misses {' and '.join(missing)}", help=f"write {USAGE[kind]}")
    lengths = {name: _length(context, tvf.args[name], name, kind) for name in _LENGTHS[kind]}
    offset = (
        _length(context, tvf.args["offset"], "offset", kind, signed=True) if tvf.args.get("offset") else 0
    )
    spec = _spec(context, tvf, kind, lengths, offset)
    partition = tuple(
        dict.fromkeys(_partition(context, scope, e) for e in tvf.args.get("partition_by") or [])
    )
    window: WindowFunction | SessionFunction = (
        session_over(context, tvf, data, time, spec, partition)
        if kind == "SESSION"
        else window_over(context, tvf, data, time, spec)
    )
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
    context: BindContext,
    call: exp.Expr,
    name: str,
    arguments: list[exp.Expr],
    data: Node,
    scope: Scope,
    others: Sequence[exp.Expr] = (),
) -> WindowFunction | SessionFunction:
    """The window node of the older `GROUP BY TUMBLE(ts, INTERVAL …)`; HOP is (ts, slide, size).

    A SESSION's partition are the `others` of the GROUP BY.
    """
    kind = name.upper()
    if kind not in _GROUP_USAGE:
        context.unsupported(
            call, f"{kind} in GROUP BY", help="TUMBLE, HOP and SESSION can; use a window table function"
        )
    wanted = 1 + len(_LENGTHS[kind])
    most = wanted if kind == "SESSION" else wanted + 1
    if not wanted <= len(arguments) <= most:
        context.fail(
            call,
            "SQL020",
            f"{kind} takes {wanted} arguments, not {len(arguments)}",
            help=f"write {_GROUP_USAGE[kind]}",
        )
    table = scope.relations[0].alias or "the sub-query"
    time = _time_column(context, scope, arguments[0], data, table, kind)
    lengths = {
        n: _length(context, a, n, kind) for n, a in zip(_LENGTHS[kind], arguments[1:wanted], strict=True)
    }
    offset = (
        _length(context, arguments[wanted], "offset", kind, signed=True) if len(arguments) > wanted else 0
    )
    spec = _spec(context, call, kind, lengths, offset)
    if kind == "SESSION":
        partition = tuple(dict.fromkeys(_partition(context, scope, e) for e in others))
        return session_over(context, call, data, time, spec, partition)
    return window_over(context, call, data, time, spec)


def window_over(
    context: BindContext, call: exp.Expr, data: Node, time: Field, spec: WindowSpec
) -> WindowFunction:
    """A WindowFunction node with fresh window columns, written as `call`.

    Bounds of an earlier window that `data` has are plain values from here on: rows that meet in them may
    still be in different windows of this one.
    """
    assert time.time is not None
    data = _plain(data)
    after = time.time

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


def session_over(
    context: BindContext,
    call: exp.Expr,
    data: Node,
    time: Field,
    spec: WindowSpec,
    partition: tuple[ColumnId, ...],
) -> SessionFunction:
    """A SessionFunction node with fresh window columns, written as `call`.

    A session is closed when no row that arrives in time can touch it any more: rows at its end touch it, and rows at the
    watermark are in time. Rows that a window gave may be older than the watermark that closed it, by up to 1 ms.
    """
    assert time.time is not None
    closes_us = -1
    if not time.time.direct:
        of_session = time.window is not None and time.window.window.kind is WindowKind.SESSION
        closes_us = min(time.time.closes_us - (0 if of_session else 1_000), -1)
    after = EventTime(time.time.sources, 1, False, delay_us=1 - closes_us)

    def bound(name: str, role: str) -> Field:
        mark = WindowColumn(role, spec, after)
        at = mark.event_time if role == "time" else None
        type_ = time.type if role == "time" else TIMESTAMP
        return Field(context.new_id(name), name, type_, False, time=at, window=mark)

    return SessionFunction(
        _plain(data),
        spec,
        partition,
        ColumnId(time.id),
        bound("window_start", "start"),
        bound("window_end", "end"),
        bound("window_time", "time"),
        Emission(context.clauses.changes, context.clauses.lateness_us),
        context.span(call),
    )


def _plain(data: Node) -> Node:
    """The rows of `data`, which are in no window any more."""
    if all(f.window is None for f in data.fields):
        return data
    plain = tuple(replace(f, window=None) for f in data.fields)
    return Project(data, plain, tuple(column(f.id) for f in plain))


def _partition(context: BindContext, scope: Scope, node: exp.Expr) -> ColumnId:
    """A column that sessions are partitioned by."""
    resolved = scope.resolve(node)
    if not isinstance(resolved, exp.Column) or scope.by_id(resolved.name) is None:
        context.fail(
            node,
            "SQL020",
            "sessions are partitioned by columns, not by expressions",
            help="compute it first: SESSION(TABLE (SELECT *, … AS k FROM t) PARTITION BY k, …)",
        )
    return ColumnId(resolved.name)


def _time_column(
    context: BindContext, scope: Scope, node: exp.Expr, data: Node, table: str, kind: str
) -> Field:
    resolved = scope.resolve(node)
    found = scope.by_id(resolved.name) if isinstance(resolved, exp.Column) else None
    if found is not None and found.time is not None:
        if found.type.kind is Kind.TIMESTAMPTZ and context.volatile.zone != UTC:
            _refuse_zone(context, node, found, kind)
        return found
    if found is not None and found.id in context.process_times:
        return _process_time(context, node, data, found, kind)
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
    if found is not None and found.orders:
        context.fail(
            node,
            "SQL022",
            f"the rows of `{table}` arrive when the watermark has passed `{name}`, so they would be late for {kind}",
            notes=("they wait below for their window or session to close",),
            help="select `window_time` too, which is the event time from there on, and write DESCRIPTOR(window_time)",
        )
    lost = lost_time(data, found) if found is not None and found.type.is_timestamp else None
    if lost is not None:
        context.fail(
            node,
            "SQL022",
            f"behind {lost.behind} `{name}` has no watermark, which {kind} closes windows by",
            notes=(lost.note,),
            help=lost.help,
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
        f"`{name}` has no watermark, so {kind} can't decide when a window is complete",
        notes=(f"`{table}` has no column with a watermark",),
        help=f"add `WATERMARK FOR {name} AS {name} - INTERVAL '5' SECOND` to the CREATE TABLE of the source",
    )


def _refuse_zone(context: BindContext, node: exp.Expr, found: Field, kind: str) -> NoReturn:
    context.fail(
        node,
        "SQL021",
        f"{kind} over instants makes windows of UTC, and the session's time zone is {context.volatile.zone}",
        help=f"make an event time of the wall clock: `local AS CAST({found.name} AS TIMESTAMP)` and "
        "WATERMARK FOR local in CREATE TABLE, or SET 'table.local-time-zone' = 'UTC'",
    )


def _process_time(context: BindContext, node: exp.Expr, data: Node, found: Field, kind: str) -> Field:
    """A column of process time as the time of windows: its watermark is the epoch's clock."""
    if found.id in context.unread_times:
        context.changes_each_time(node, f"`{found.name}`, which is PROCTIME(),")
    if context.volatile.zone != UTC:
        _refuse_zone(context, node, found, kind)
    if not _is_of_this_epoch(data, found.id):
        context.fail(
            node,
            "SQL021",
            f"`{found.name}` may be the clock of an earlier epoch here, whose windows are closed",
            notes=(
                "rows wait in a join, a window or a Top-N below, and come with the clock that they were read by",
            ),
            help=f"read the clock again where the rows come out: (SELECT *, PROCTIME() AS {found.name}_now FROM …)",
        )
    return replace(found, time=EventTime((EPOCH_RELATION,), 1, direct=False))


def _is_of_this_epoch(node: Node, id_: str) -> bool:
    """Whether a column of process time is the clock of the epoch in which its row comes here."""
    while True:
        match node:
            case Project():
                item = next(e for f, e in zip(node.fields, node.items, strict=True) if f.id == id_)
                if is_bound_process_time(item):
                    return True
                bare = item.unnest()
                if not isinstance(bare, exp.Column):
                    return False
                node, id_ = node.input, bare.name
            case Filter() | Unnest():
                node = node.input
            case LookupJoin():
                node = node.left
            case SetOperation() if node.is_union_all:
                place = [f.id for f in node.fields].index(id_)
                return all(_is_of_this_epoch(b, b.fields[place].id) for b in node.branches)
            case _:
                return False


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
    if kind == "SESSION":
        return WindowSpec(WindowKind.SESSION, lengths["gap"], 1, shared_slices=False)
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
