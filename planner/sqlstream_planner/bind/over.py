"""OVER: each becomes a column that a node below the SELECT adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.errors import UnsupportedError

from sqlstream_operators.plan.types import INTEGER, Kind
from sqlstream_planner.aggregates import registry
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.epoch_values import is_bound_process_time
from sqlstream_planner.bind.lost_orders import served
from sqlstream_planner.bind.over_calls import as_values, call_of, without_order
from sqlstream_planner.bind.over_frames import BoundFrame, bind_frame
from sqlstream_planner.bind.over_names import named_windows, windows_of, with_window_names
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.row_order import NO_ORDER, OrderedRows, ordered_rows
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import DiagnosticError, Span, did_you_mean
from sqlstream_planner.logical import (
    ColumnId,
    Emission,
    Field,
    Node,
    OrderTerm,
    OverWindow,
    Project,
    WindowCall,
    column,
    sql,
)
from sqlstream_planner.logical.parts import (
    FILL_FUNCTIONS,
    PEER_FUNCTIONS,
    PLACE_FUNCTIONS,
    RANK_FUNCTIONS,
    VALUE_FUNCTIONS,
)
from sqlstream_planner.logical.window_frames import frame_of
from sqlstream_planner.sql.dialect import duckdb_sql
from sqlstream_planner.sql.written_calls import written_call
from sqlstream_planner.windows.over_calls import in_frame_order

#: Functions that mean nothing without an order.
NEED_ORDER = PLACE_FUNCTIONS | PEER_FUNCTIONS
WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
"""The frame of a whole partition."""
#: What takes no ORDER BY of its own beside that of the window, as in DuckDB.
_NO_OWN_ORDER = frozenset({"dense_rank", "quantile_cont", "quantile_disc", "quantile"})


def goes_by_order(call: WindowCall) -> bool:
    """Whether the value of a function without ORDER BY depends on the order of arrival.

    Its frame is a whole partition then (but for the row itself), if it is not one of ROWS.
    """
    if call.by_rows or call.order_by:
        return call.by_rows
    if call.name in NEED_ORDER:
        return call.name in PLACE_FUNCTIONS
    function = registry.find(call.name)
    by_order = call.name in VALUE_FUNCTIONS or (function is not None and function.order_sensitive)
    return by_order and (not call.frame or _is_whole(call))


def _is_whole(call: WindowCall) -> bool:
    """Whether a frame of RANGE or GROUPS has all rows where none has an ORDER BY, but perhaps the row itself."""
    frame = frame_of(call)
    has_equals = not frame.first.endswith("FOLLOWING") and not frame.last.endswith("PRECEDING")
    return has_equals and not call.bounds and frame.exclude in ("", "CURRENT ROW")


def bind_overs(
    context: BindContext, query: exp.Select, node: Node, scope: Scope
) -> tuple[exp.Select, Node, Scope]:
    """Every OVER of the SELECT list and QUALIFY as a column that an `OverWindow` below adds; the query reads that column.

    Raises DiagnosticError.
    """
    places = [*query.expressions, *([query.args["qualify"]] if query.args.get("qualify") else [])]
    overs = [w for place in places for w in windows_of(place)]
    if not overs:
        return query, node, scope
    query = query.copy()
    places = [*query.expressions, *([query.args["qualify"]] if query.args.get("qualify") else [])]
    windows = _Windows(context, with_window_names(context, query, scope), named_windows(context, query), node)
    made: dict[str, Field] = {}
    for window in [w for place in places for w in windows_of(place)]:
        as_values(window)
        try:
            text = duckdb_sql(window)
        except UnsupportedError:
            context.unsupported(
                window,
                "IGNORE NULLS or RESPECT NULLS of this function OVER",
                help="leave it out: aggregates skip NULLs",
            )
        if text not in made:
            made[text] = windows.add(window)
        id_ = made[text].id
        # A bare ROW_NUMBER() OVER (…) in the SELECT list keeps its text as its name.
        replacement: exp.Expr = exp.column(exp.to_identifier(id_, quoted=True))
        replacement.meta.update(window.meta)
        if window.parent is query:
            window.replace(
                exp.alias_(
                    replacement, text.lower() if len(text) <= 40 else _short_name(made[text]), quoted=True
                )
            )
        else:
            window.replace(replacement)
    node = windows.over()
    fields = tuple(replace(f, name=f.id) for f in made.values())
    return (
        query,
        node,
        Scope(context, (*scope.relations, Relation(None, fields, hidden=True)), held=windows.held),
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """The functions over one window, which stands first at `at`."""

    partition: tuple[ColumnId, ...]
    at: Span
    calls: list[WindowCall]


@dataclass(slots=True)
class _Windows:
    """The OVERs of a SELECT by what they are over: functions of one PARTITION BY and ORDER BY stand in one node.

    `held`: expressions of PARTITION BY that are computed below, as SQL, and their columns: who selects what the rows are
    partitioned by, reads the key of the result.
    """

    context: BindContext
    scope: Scope
    named: Mapping[str, exp.Expr]
    rows: Node
    held: dict[str, str] = field(default_factory=dict)
    _ordered: dict[str, str] = field(default_factory=dict)
    _added: list[tuple[Field, exp.Expr]] = field(default_factory=list)
    _made: dict[tuple[frozenset[str], tuple[OrderTerm, ...]], _Made] = field(default_factory=dict)
    _come: OrderedRows | None = None

    def add(self, window: exp.Window) -> Field:
        """The column of one OVER. Raises DiagnosticError."""
        context, written = self.context, window
        spec = _spec(context, window, self.named)
        order, frame = spec.args.get("order"), bind_frame(self.scope, spec)
        window, own = without_order(window)
        written_call = call_of(window)
        distinct = written_call is not None and written_call.distinct
        if own is not None and order is None and not frame.text and not distinct:
            order, own, frame = own, None, BoundFrame(WHOLE)
            served(context, written)
        call = _call(context, window, self.scope, frame)
        if call.name in FILL_FUNCTIONS:
            served(context, written)
            call = self._filled(window, call, own or order, frame)
        elif own is not None:
            served(context, written)
            call = self._in_order(call, own)
        if call.name in NEED_ORDER and not call.order_by:
            call = replace(call, frame="", bounds=())  # they have the whole partition, whatever it says
        terms = order.expressions if order is not None else []
        if frame.of_distances:
            self._check_range(terms, spec.args["spec"])
        come = None
        if (
            call.name == "row_number"
            and not call.order_by
            and len(terms) == 1
            and self._is_clock(terms[0].this)
        ):
            come = self._arrived(descending=bool(terms[0].args.get("desc")))
        if not terms and goes_by_order(call):
            come = self._come = self._come or ordered_rows(context, self.rows)
        if not terms and (come is not None or not goes_by_order(call)):
            served(context, window)
        if come is not None and call.name not in NEED_ORDER and not call.by_rows:
            without = "EXCLUDE CURRENT ROW" if call.frame and frame_of(call).exclude else ""
            call = replace(call, frame=f"{WHOLE} {without}".strip())
        if call.name in NEED_ORDER and not terms and come is None and not call.order_by:
            name = call.name.upper()
            context.fail(
                window,
                "SQL060",
                f"{name} without ORDER BY {'has no row before or behind' if call.arguments else 'ranks nothing'}",
                notes=NO_ORDER if call.name in PLACE_FUNCTIONS else (),
                help=f"write {name}({'…' if call.arguments else ''}) OVER (PARTITION BY … ORDER BY … DESC)",
            )
        partition = tuple(
            dict.fromkeys(self._column(e, self.held) for e in spec.args.get("partition_by") or [])
        )
        ordered = self._terms(terms)
        ordered = come.terms if come is not None else ordered
        made = self._made.setdefault(
            (frozenset(partition), ordered), _Made(partition, context.span(window), [])
        )
        made.calls.append(call)
        return call.field

    def _is_clock(self, term: exp.Expr) -> bool:
        """Whether a term of ORDER BY is PROCTIME(), or a column that is."""
        resolved = self._resolved(term)
        column_of_clock = isinstance(resolved, exp.Column) and resolved.name in self.context.process_times
        return column_of_clock or is_bound_process_time(resolved)

    def _arrived(self, *, descending: bool) -> OrderedRows | None:
        """The rows by arrival, which is the order of the clock that they were read by, and distinguishes more of them."""
        come = self._come or ordered_rows(self.context, self.rows)
        if come is None or come.written:
            return None
        self._come = come
        return replace(come, terms=tuple(replace(t, descending=descending) for t in come.terms))

    def over(self) -> Node:
        """The rows with the columns of all."""
        node = self.rows if self._come is None else self._come.rows
        if self._added:
            fields = (*node.fields, *(f for f, _ in self._added))
            items = (*(column(f.id) for f in node.fields), *(e for _, e in self._added))
            node = Project(node, fields, items)
        clauses = self.context.clauses
        for (_, ordered), made in self._made.items():
            node = OverWindow(
                node,
                made.partition,
                ordered,
                tuple(made.calls),
                emission=Emission(clauses.changes),
                ttl_us=clauses.ttl_us,
                at=made.at,
            )
        return node

    def _terms(self, terms: Sequence[exp.Expr]) -> tuple[OrderTerm, ...]:
        """The terms of an ORDER BY, by columns."""
        return tuple(
            OrderTerm(
                self._column(o.this, self._ordered), bool(o.args.get("desc")), bool(o.args.get("nulls_first"))
            )
            for o in terms
        )

    def _in_order(self, call: WindowCall, order: exp.Order) -> WindowCall:
        """A call that goes through the rows of its frame in an order of its own. Raises DiagnosticError."""
        name = call.name.upper()
        if call.name in _NO_OWN_ORDER:
            self.context.unsupported(
                order.expressions[0],
                f"ORDER BY inside {name} OVER",
                help=f"write {name}(…) OVER (… ORDER BY …)",
            )
        if call.name in NEED_ORDER and "EXCLUDE" in call.frame:
            self.context.unsupported(order.expressions[0], f"{name} of a frame with EXCLUDE")
        if not call.distinct:
            counts = call.name in NEED_ORDER or in_frame_order(call)
            return replace(call, order_by=self._terms(order.expressions)) if counts else call
        [term, *more] = order.expressions
        if more or sql(self._resolved(term.this)) != sql(call.arguments[0]):
            self.context.unsupported(
                term.this,
                f"{name}(DISTINCT …) OVER in the order of another value",
                help="order by the value itself",
            )
        [term] = self._terms([term])
        return replace(call, arguments=(column(term.column), *call.arguments[1:]), order_by=(term,))

    def _filled(
        self, window: exp.Window, call: WindowCall, order: exp.Order | None, frame: BoundFrame
    ) -> WindowCall:
        """FILL over the whole partition, whatever the frame, by the one value that it goes by. Raises DiagnosticError."""
        context, name = self.context, call.name.upper()
        terms = order.expressions if order is not None else []
        if len(terms) != 1:
            context.fail(
                window,
                "SQL060",
                f"{name} goes by the distances of one value, and ORDER BY has {len(terms) or 'none'}",
                help=f"write {name}(x ORDER BY ts) OVER (PARTITION BY …)",
            )
        refused = [("DISTINCT", call.distinct), ("FILTER", call.filter), ("IGNORE NULLS", call.ignore_nulls)]
        for what, there in [*refused, ("EXCLUDE", "EXCLUDE" in frame.text)]:
            if there:
                context.unsupported(window, f"{name} OVER with {what}", help=f"leave {what} out")
        moved = exp.Sub(this=self._resolved(terms[0].this), expression=self._resolved(terms[0].this))
        moved.meta.update(terms[0].meta)
        context.type_of(moved, self.scope.fields)  # distances are differences
        return replace(call, order_by=self._terms(terms), frame=WHOLE, bounds=())

    def _resolved(self, expression: exp.Expr) -> exp.Expr:
        return self.context.translated(self.scope.resolve(expression), self.scope.fields).unnest()

    def _check_range(self, terms: Sequence[exp.Expr], frame: exp.Expr) -> None:
        """Refuse a RANGE of distances without one order that they are of, and days and longer over instants, unless each has
        24 hours in the session's time zone.
        """
        if len(terms) != 1:
            self.context.fail(
                frame,
                "SQL060",
                f"RANGE with a distance goes by one value, and ORDER BY has {len(terms) or 'none'}",
                help="write ORDER BY with one term, or ROWS or GROUPS",
            )
        fields = self.scope.fields
        resolved = self.context.translated(self.scope.resolve(terms[0].this), fields)
        for bound in (frame.args.get("start"), frame.args.get("end")):
            if isinstance(bound, exp.Expr):
                moved = exp.Sub(this=resolved.copy(), expression=exp.paren(self._resolved(bound)))
                moved.meta.update(bound.meta)
                self.context.type_of(moved, fields)
        for interval in frame.find_all(exp.Interval):
            later = exp.Add(this=resolved.copy(), expression=interval.copy())
            later.meta.update(interval.meta)
            try:
                self.context.in_session_zone(later, fields)
            except DiagnosticError:
                self.context.fail(
                    interval,
                    "TYP011",
                    f"RANGE of days over an instant goes by the session's time zone, which is {self.context.volatile.zone}",
                    help="write it in hours, or order by CAST(x AS TIMESTAMP), the wall clock there",
                )

    def _column(self, expression: exp.Expr, held: dict[str, str]) -> ColumnId:
        """The column of an expression, which is added if there is none.

        A partition's that has an INTERVAL is added always: as a key it comes back in days, and the row keeps what it has.
        """
        scope = self.scope
        resolved = self.context.translated(scope.resolve(expression), scope.fields)
        bare = resolved.unnest()
        given = scope.by_id(bare.name) if isinstance(bare, exp.Column) else None
        if given is not None and not (held is self.held and given.type.has(Kind.INTERVAL)):
            return ColumnId(given.id)
        text = sql(bare)
        known = self.held.get(text) or held.get(text)
        if known is not None:
            return ColumnId(known)
        typed = self.context.type_of(resolved, scope.fields)
        made = Field(self.context.new_id("over"), "over", typed.type, typed.nullable)
        self._added.append((made, resolved))
        held[text] = made.id
        return ColumnId(made.id)


def _spec(context: BindContext, window: exp.Expr, named: Mapping[str, exp.Expr]) -> exp.Expr:
    """What a window says, with what the named window says that it begins with."""
    alias = window.args.get("alias")
    if alias is None:
        return window
    known = {name: w for name, w in named.items() if w is not window}
    if alias.name.lower() not in known:
        near = did_you_mean(alias.name, known)
        context.fail(
            alias,
            "SQL038",
            f"no window is called `{alias.name}`",
            help=f"did you mean `{near}`?" if near else f"write WINDOW {alias.name} AS (…) behind HAVING",
        )
    spec = _spec(context, known.pop(alias.name.lower()), known).copy()
    for part, shown in (("partition_by", "PARTITION BY"), ("order", "ORDER BY"), ("spec", "a frame")):
        given = window.args.get(part)
        if not given:
            continue
        if spec.args.get(part):
            context.fail(
                alias,
                "SQL038",
                f"OVER ({alias.name} …) adds to what the window says, and can't say {shown} anew",
                help="write all of the window out",
            )
        spec.set(part, given.copy())
    return spec


def _call(context: BindContext, window: exp.Window, scope: Scope, frame: BoundFrame) -> WindowCall:
    """The function of an OVER, whose own ORDER BY is taken out. Raises DiagnosticError."""
    written = _translated(context, scope.resolve(window.this), scope)
    typed = context.type_of(exp.Window(this=written.copy()), scope.fields, windows=True)
    inner, filter_, ignore_nulls = written, None, False
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        ignore_nulls = ignore_nulls or isinstance(inner, exp.IgnoreNulls)
        if isinstance(inner, exp.Filter):
            filter_ = inner.expression.this
            context.condition(filter_, scope.fields, "FILTER")
        inner = inner.this
    call = written_call(inner)
    if call is None:
        shown = duckdb_sql(window.this).split("(")[0].upper()
        context.unsupported(window, f"WITHIN GROUP inside {shown} OVER")
    arguments = tuple(a for a in call.arguments if not isinstance(a, exp.Star))
    function = registry.find(call.name) if not registry.orders_by_time(call.name) else None
    name = call.name if function is None else function.called or function.name
    type_ = INTEGER if typed.type.kind is Kind.NULL else typed.type
    return WindowCall(
        Field(context.new_id(name), name, type_, typed.nullable),
        name,
        arguments,
        tuple(context.type_of(a, scope.fields).type for a in arguments),
        call.distinct,
        filter_,
        ignore_nulls,
        frame.text,
        frame.bounds,
        at=context.span(window),
    )


def _translated(context: BindContext, function: exp.Expr, scope: Scope) -> exp.Expr:
    """A function of an OVER as DuckDB's. FIRST_VALUE and kin mean another thing there than in a GROUP BY."""
    inner = function
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    if not isinstance(inner, exp.FirstValue | exp.LastValue | exp.NthValue):
        return context.translated(function, scope.fields)
    for argument in list(inner.iter_expressions()):
        argument.replace(context.translated(argument, scope.fields))
    return function


def _short_name(f: Field) -> str:
    return "rank" if f.name in RANK_FUNCTIONS else f.name
