"""SELECT with GROUP BY or aggregate functions: a WindowAggregate or GroupAggregate with a projection above it."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream_operators.spec import WindowKind
from sqlstream_operators.types import BIGINT, TIMESTAMP, SqlType
from sqlstream_planner.aggregates import AGGREGATES, ORDER_SENSITIVE
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.early import updating_window
from sqlstream_planner.bind.items import expand_items, project
from sqlstream_planner.bind.scope import Relation, Scope
from sqlstream_planner.bind.windows import bind_group_window
from sqlstream_planner.dialect import function_name
from sqlstream_planner.fingerprint import canonical
from sqlstream_planner.functions import catalogue
from sqlstream_planner.functions.calls import written_call
from sqlstream_planner.logical import (
    AggregateCall,
    EventTime,
    Field,
    Fields,
    Filter,
    GroupAggregate,
    Node,
    Project,
    WindowAggregate,
    WindowColumn,
    column,
    raw,
)

_GROUP_WINDOWS = ("TUMBLE", "HOP", "SESSION", "CUMULATE")
_AUXILIARY = {"START": "start", "END": "end", "ROWTIME": "time", "PROCTIME": "time"}
_GROUPING = ("GROUPING", "GROUPING_ID")
#: Our names for what Flink calls FIRST_VALUE and LAST_VALUE: by event time.
_BY_TIME = {"first_value": "arg_min", "last_value": "arg_max", "first": "arg_min", "last": "arg_max"}
_RENAMED = {
    "max_by": "arg_max",
    "min_by": "arg_min",
    "argmax": "arg_max",
    "argmin": "arg_min",
    "group_concat": "string_agg",
}


def is_aggregate_query(query: exp.Select) -> bool:
    """Whether a SELECT has GROUP BY, or an aggregate function outside OVER and sub-queries."""
    if query.args.get("group") is not None:
        return True
    having = query.args.get("having")
    places = [*query.expressions, *([having] if having is not None else [])]
    return any(_aggregate_nodes(p) for p in places)


def _aggregate_nodes(expression: exp.Expr) -> list[exp.Expr]:
    """The outermost aggregate calls of an expression."""
    found: list[exp.Expr] = []

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.Window | exp.Query | exp.Subquery):
            return
        if _is_call(node):
            found.append(node)
            return
        for child in node.iter_expressions():
            visit(child)

    visit(expression)
    return found


def _is_call(node: exp.Expr) -> bool:
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return True
    name = _call_name(node)
    return name is not None and (
        name in AGGREGATES or name in _BY_TIME or name in _RENAMED or catalogue.is_aggregate(name)
    )


def _call_name(node: exp.Expr) -> str | None:
    if isinstance(node, exp.FirstValue):
        return "first_value"
    if isinstance(node, exp.LastValue):
        return "last_value"
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        return _call_name(node.this)
    call = written_call(node)
    return call.name if call is not None else None


@dataclass(slots=True)
class _Group:
    """GROUP BY, resolved: plain keys and what each grouping set has of them."""

    keys: list[exp.Expr] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    sets: list[tuple[int, ...]] = field(default_factory=list)
    several: bool = False

    def key(self, expression: exp.Expr) -> int:
        """The position of a key, added if it is new."""
        form = canonical(expression, {})
        if form not in self.forms:
            self.forms.append(form)
            self.keys.append(expression)
        return self.forms.index(form)


def bind_aggregate(context: BindContext, query: exp.Select, node: Node, scope: Scope) -> Node:
    """The node of a SELECT that aggregates. Raises DiagnosticError."""
    return _Binder(context, query, node, scope).bind()


class _Binder:
    def __init__(self, context: BindContext, query: exp.Select, node: Node, scope: Scope) -> None:
        self._context = context
        self._query = query
        self._node = node
        self._scope = scope
        self._legacy: tuple[str, str] | None = None
        self._calls: dict[str, AggregateCall] = {}
        self._group = _Group()

    def bind(self) -> Node:
        self._add_legacy_window()
        items = self._items()
        self._read_group(items)
        found = self._window()
        marker, end_id, window_positions = found if found is not None else (None, None, set())
        time_column = self._time_column(marker)
        key_positions = [i for i in range(len(self._group.keys)) if i not in window_positions]
        keys = tuple(self._key_field(self._group.keys[i]) for i in key_positions)
        renumber = {old: new for new, old in enumerate(key_positions)}
        sets = tuple(tuple(renumber[i] for i in s if i in renumber) for s in self._group.sets)
        if len({tuple(sorted(s)) for s in sets}) != len(sets):
            self._context.unsupported(self._query.args["group"], "the same grouping set twice")
        bounds: dict[str, Field] = {}
        if marker is not None:
            after = EventTime(marker.time.sources, marker.time.tick_us, direct=False)
            bounds = {role: self._bound(role, marker, after) for role in ("start", "end", "time")}
        grouping = None
        if self._group.several:
            grouping = Field(self._context.new_id("grouping_id"), "grouping_id", BIGINT, False)
            keys = tuple(replace(k, nullable=True) for k in keys)
        outputs = {self._group.forms[i]: k for i, k in zip(key_positions, keys, strict=True)}
        rewritten = [
            (name, self._above(e, outputs, marker, bounds, grouping, time_column)) for name, e in items
        ]
        having = self._query.args.get("having")
        condition = None
        if having is not None:
            aliases = {name.lower(): e for name, e in items}
            inner = Scope(self._context, self._scope.relations, aliases)
            resolved = self._context.translated(
                inner.resolve(self._auxiliary(having.this)), self._scope.fields
            )
            condition = self._above(resolved, outputs, marker, bounds, grouping, time_column)
        expressions = tuple(self._group.keys[i] for i in key_positions)
        calls = tuple(self._calls.values())
        aggregate: Node
        if marker is None:
            plain = tuple(replace(k, time=None, window=None) for k in keys)
            ttl_us = self._context.clauses.ttl_us if plain else None
            aggregate = GroupAggregate(self._node, plain, expressions, sets, grouping, calls, ttl_us=ttl_us)
        elif self._context.clauses.changes or self._context.clauses.lateness_us:
            assert end_id is not None
            plain = tuple(replace(k, time=None, window=None) for k in keys)
            aggregate = updating_window(
                self._context.clauses,
                GroupAggregate(self._node, plain, expressions, sets, grouping, calls),
                marker,
                end_id,
                bounds,
            )
        else:
            assert end_id is not None
            aggregate = WindowAggregate(
                input=self._node,
                window=replace(marker.window, shared_slices=False),
                slice_column=end_id,
                time=marker.time,
                time_column=time_column,
                keys=keys,
                key_expressions=expressions,
                sets=sets,
                grouping=grouping,
                calls=calls,
                start=bounds["start"],
                end=bounds["end"],
                window_time=bounds["time"],
            )
        if condition is not None:
            self._context.condition(condition, aggregate.fields, "HAVING")
            aggregate = Filter(aggregate, condition)
        return project(self._context, aggregate, rewritten)

    # ------------------------------------------------------------------------------------ group windows

    def _add_legacy_window(self) -> None:
        group = self._query.args.get("group")
        for element in group.expressions if group is not None else []:
            name = function_name(element)
            if name in _GROUP_WINDOWS:
                if self._legacy is not None:
                    self._context.unsupported(element, "a second window in one GROUP BY")
                window = bind_group_window(
                    self._context, element, name, list(element.expressions), self._node, self._scope
                )
                self._node = window
                self._legacy = (name, canonical(element, {}))
                bounds = Relation(None, (window.start, window.end, window.time))
                self._scope = Scope(self._context, (*self._scope.relations, bounds))

    def _auxiliary(self, expression: exp.Expr) -> exp.Expr:
        """TUMBLE_START(…) and kin as the window columns of the GROUP BY's window."""
        if self._legacy is None:
            return expression
        kind = self._legacy[0]

        def swap(node: exp.Expr) -> exp.Expr:
            name = function_name(node)
            if name is None or "_" not in name:
                return node
            prefix, _, role = name.rpartition("_")
            if prefix in _GROUP_WINDOWS and role in _AUXILIARY:
                if prefix != kind:
                    self._context.fail(
                        node, "SQL041", f"{name}, but the GROUP BY has {kind}", help=f"write {kind}_{role}"
                    )
                return exp.column(f"window_{_AUXILIARY[role]}")
            return node

        return expression.copy().transform(swap, copy=False)

    def _items(self) -> list[tuple[str, exp.Expr]]:
        """The SELECT list, resolved, with TUMBLE_START and kin as columns."""
        query = self._query
        if self._legacy is not None:
            query = query.copy()
            query.set("expressions", [self._auxiliary(e) for e in query.expressions])
        return expand_items(self._context, query, self._scope)

    # ------------------------------------------------------------------------------------------- GROUP BY

    def _read_group(self, items: list[tuple[str, exp.Expr]]) -> None:
        group = self._query.args.get("group")
        group_ = self._group
        if group is None:
            group_.sets = [()]
            return
        if group.args.get("totals"):
            self._context.unsupported(group, "WITH TOTALS")
        elements: list[list[tuple[int, ...]]] = []
        if group.args.get("all"):
            plain = [e for _, e in items if not _aggregate_nodes(e)]
            elements += [[(group_.key(e),)] for e in plain]
        for element in group.expressions:
            if self._legacy is not None and function_name(element) in _GROUP_WINDOWS:
                elements.append(
                    [tuple(self._key(exp.column(n), items) for n in ("window_start", "window_end"))]
                )
            else:
                elements.append(self._element(element, items))
        for kind in ("grouping_sets", "rollup", "cube"):
            for element in group.args.get(kind) or []:
                if isinstance(element, exp.Expr):
                    elements.append(self._element(element, items))
        for combination in itertools.product(*elements):
            group_.sets.append(tuple(dict.fromkeys(i for part in combination for i in part)))
        group_.several = len(group_.sets) > 1 or any(
            isinstance(e, exp.GroupingSets | exp.Rollup | exp.Cube)
            for e in group.find_all(exp.GroupingSets, exp.Rollup, exp.Cube)
        )

    def _element(self, element: exp.Expr, items: list[tuple[str, exp.Expr]]) -> list[tuple[int, ...]]:
        """The alternatives that one element of GROUP BY stands for, each a tuple of key positions."""
        if isinstance(element, exp.GroupingSets):
            return [s for e in element.expressions for s in self._element(e, items)]
        if isinstance(element, exp.Rollup | exp.Cube):
            parts = [self._members(e, items) for e in element.expressions]
            if isinstance(element, exp.Rollup):
                chosen = [parts[:n] for n in range(len(parts), -1, -1)]
            else:
                chosen = [
                    list(c) for n in range(len(parts), -1, -1) for c in itertools.combinations(parts, n)
                ]
            return [tuple(i for part in choice for i in part) for choice in chosen]
        return [self._members(element, items)]

    def _members(self, element: exp.Expr, items: list[tuple[str, exp.Expr]]) -> tuple[int, ...]:
        if isinstance(element, exp.Paren):
            return self._members(element.this, items)
        if isinstance(element, exp.Tuple):
            return tuple(i for e in element.expressions for i in self._members(e, items))
        return (self._key(element, items),)

    def _key(self, element: exp.Expr, items: list[tuple[str, exp.Expr]]) -> int:
        if isinstance(element, exp.Literal) and not element.is_string:
            position = int(element.this) if element.this.isdigit() else 0
            if not 1 <= position <= len(items):
                self._context.fail(
                    element, "SQL042", f"GROUP BY {element.this}, but the SELECT list has {len(items)} items"
                )
            expression = items[position - 1][1]
        else:
            aliases = {name.lower(): e for name, e in items}
            inner = Scope(self._context, self._scope.relations, aliases)
            expression = self._context.translated(inner.resolve(element), self._scope.fields)
        expression = expression.unnest()
        inner_aggregates = _aggregate_nodes(expression)
        if inner_aggregates:
            self._context.fail(
                element,
                "SQL043",
                "GROUP BY an aggregate",
                help="aggregate in a sub-query, and group its result",
            )
        return self._group.key(expression)

    def _key_field(self, expression: exp.Expr) -> Field:
        by_id = {f.id: f for f in self._scope.fields}
        if isinstance(expression, exp.Column):
            f = by_id[expression.name]
            time = replace(f.time, direct=False) if f.time is not None and not f.time.direct else None
            return Field(self._context.new_id(f.name), f.name, f.type, f.nullable, time, f.window)
        typed = self._context.type_of(expression, self._scope.fields)
        found = expression.find(exp.Column)
        name = found.name if found is not None else "key"
        return Field(self._context.new_id(name), name, typed.type, typed.nullable)

    # --------------------------------------------------------------------------------------------- window

    def _window(self) -> tuple[WindowColumn, str, set[int]] | None:
        """The window that is grouped by, the column with its end, and which keys are its bounds; None without one."""
        by_id = {f.id: f for f in self._node.fields}
        markers: dict[int, WindowColumn] = {}
        for position, key in enumerate(self._group.keys):
            f = by_id.get(key.name) if isinstance(key, exp.Column) else None
            if f is not None and f.window is not None:
                markers[position] = f.window
        group = self._query.args.get("group") or self._query
        if not markers:
            return None
        windows = {(m.window, m.time.sources) for m in markers.values()}
        if len(windows) > 1:
            self._context.unsupported(group, "GROUP BY two different windows")
        marker = next(iter(markers.values()))
        roles = {m.role for m in markers.values()}
        if marker.window.kind is WindowKind.CUMULATE and roles == {"start"}:
            self._context.fail(
                group,
                "SQL044",
                "window_start alone does not say which CUMULATE window a row is in",
                help="add window_end to GROUP BY",
            )
        for chosen in self._group.sets:
            if not any(i in markers for i in chosen):
                self._context.fail(
                    group,
                    "SQL044",
                    "a grouping set has no window",
                    help="write window_start and window_end beside GROUPING SETS, ROLLUP or CUBE, not inside",
                )
        return marker, self._end_column(marker), set(markers)

    def _end_column(self, marker: WindowColumn) -> str:
        mine = [f for f in self._node.fields if f.window is not None and f.window.window == marker.window]
        for f in mine:
            if f.window is not None and f.window.role == "end":
                return f.id
        f = mine[0]
        assert f.window is not None
        shift = 1_000 if f.window.role == "time" else marker.window.size_us
        end = Field(
            self._context.new_id("window_end"),
            "window_end",
            TIMESTAMP,
            False,
            window=replace(marker, role="end"),
        )
        microseconds = exp.Interval(this=exp.Literal.string(str(shift)), unit=exp.Var(this="MICROSECOND"))
        expression = exp.Add(this=column(f.id), expression=microseconds)
        fields = (*self._node.fields, end)
        self._node = Project(self._node, fields, (*(column(x.id) for x in self._node.fields), expression))
        return end.id

    def _time_column(self, marker: WindowColumn | None) -> str | None:
        candidates = [f for f in self._node.fields if f.time is not None and f.window is None]
        if candidates:
            return candidates[0].id
        return next(
            (f.id for f in self._node.fields if f.window is not None and f.window.role == "time"), None
        )

    def _bound(self, role: str, marker: WindowColumn, after: EventTime) -> Field:
        name = f"window_{role}"
        type_: SqlType = TIMESTAMP
        if role == "time":
            for f in self._node.fields:
                if f.window is not None and f.window.role == "time":
                    type_ = f.type
        mark = WindowColumn(role, replace(marker.window, shared_slices=True), after)
        return Field(self._context.new_id(name), name, type_, False, after if role == "time" else None, mark)

    # --------------------------------------------------------------------------------- above the aggregate

    def _above(
        self,
        expression: exp.Expr,
        outputs: dict[str, Field],
        marker: WindowColumn | None,
        bounds: dict[str, Field],
        grouping: Field | None,
        time_column: str | None,
    ) -> exp.Expr:
        """An expression of the SELECT list or HAVING in terms of the aggregate's output."""
        by_id = {f.id: f for f in self._node.fields}

        def visit(node: exp.Expr) -> exp.Expr:
            form = canonical(node, {})
            if form in outputs:
                return column(outputs[form].id)
            if isinstance(node, exp.Column):
                f = by_id.get(node.name)
                if (
                    marker is not None
                    and f is not None
                    and f.window is not None
                    and f.window.window == marker.window
                ):
                    return column(bounds[f.window.role].id)
                self._not_grouped(node, f.name if f is not None else node.name)
            if function_name(node) in _GROUPING:
                return self._grouping(node, grouping, marker)
            if isinstance(node, exp.Window):
                self._context.unsupported(node, "OVER")
            if _is_call(node):
                return column(self._call(node, time_column).field.id)
            changed = node.copy()
            for key, value in node.args.items():
                if isinstance(value, list):
                    changed.set(key, [visit(v) if isinstance(v, exp.Expr) else v for v in value])
                elif isinstance(value, exp.Expr) and not isinstance(value, exp.Identifier | exp.DataType):
                    changed.set(key, visit(value))
            return changed

        return visit(expression)

    def _not_grouped(self, node: exp.Expr, name: str) -> None:
        self._context.fail(
            node,
            "SQL045",
            f"`{name}` is neither in GROUP BY nor inside an aggregate",
            help=f"add `{name}` to GROUP BY, or take one value of it, such as MAX({name}) or ANY_VALUE({name})",
        )

    def _grouping(self, node: exp.Expr, grouping: Field | None, marker: WindowColumn | None) -> exp.Expr:
        arguments = list(node.expressions)
        positions = []
        bounds = self._window_positions() if marker is not None else set()
        plain = [f for i, f in enumerate(self._group.forms) if i not in bounds]
        for argument in arguments:
            form = canonical(argument, {})
            if form not in plain:
                self._context.fail(argument, "SQL046", "GROUPING takes columns of GROUP BY")
            positions.append(plain.index(form))
        if grouping is None:
            return exp.Literal.number(0)
        last = len(plain) - 1
        bits = [
            f'(("{grouping.id}" >> {last - p}) & 1) << {len(positions) - 1 - n}'
            for n, p in enumerate(positions)
        ]
        return raw("(" + " + ".join(f"({b})" for b in bits) + ")")

    def _window_positions(self) -> set[int]:
        by_id = {f.id: f for f in self._node.fields}
        return {
            i
            for i, k in enumerate(self._group.keys)
            if isinstance(k, exp.Column) and k.name in by_id and by_id[k.name].window is not None
        }

    # ------------------------------------------------------------------------------------- aggregate calls

    def _call(self, node: exp.Expr, time_column: str | None) -> AggregateCall:
        form = canonical(node, {})
        if form in self._calls:
            return self._calls[form]
        inner, filter_, order = node, None, None
        while isinstance(inner, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            if isinstance(inner, exp.Filter):
                filter_ = inner.expression.this
            if isinstance(inner, exp.WithinGroup):
                order = inner.expression
            inner = inner.this
        fields = self._scope.fields
        name = _call_name(inner) or ""
        arguments: tuple[exp.Expr, ...]
        if isinstance(inner, exp.FirstValue | exp.LastValue):
            arguments, distinct = (inner.this,), False
        else:
            call = written_call(inner)
            if call is None or not _is_call(inner):
                self._context.fail(node, "SQL047", "FILTER belongs to an aggregate function")
            arguments, distinct, order = call.arguments, call.distinct, call.order or order
        for argument in [*arguments, *([filter_] if filter_ is not None else [])]:
            nested = _aggregate_nodes(argument)
            if nested:
                self._context.fail(
                    nested[0],
                    "SQL048",
                    "an aggregate inside an aggregate",
                    help="compute the inner one in a sub-query",
                )
        arguments = tuple(a for a in arguments if not isinstance(a, exp.Star))
        name = _RENAMED.get(name, name)
        if filter_ is not None:
            self._context.condition(filter_, fields, "FILTER")
        if name in _BY_TIME:
            if time_column is None:
                self._context.fail(
                    node,
                    "SQL049",
                    f"{name.upper().removesuffix('_VALUE')}_VALUE needs the event-time column to order by",
                    help="keep it in the sub-query's SELECT list, or name a column to order by: "
                    f"{'MIN' if name.startswith('first') else 'MAX'}_BY(x, ts)",
                )
            name, arguments = _BY_TIME[name], (*arguments, column(time_column))
            typed_node: exp.Expr = exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])
        else:
            typed_node = inner
        if name not in AGGREGATES or (
            name in ("min", "max", "arg_min", "arg_max")
            and len(arguments) > (2 if name.startswith("arg") else 1)
        ):
            self._context.unsupported(
                node, f"the aggregate {name.upper()}", help=f"these can: {', '.join(sorted(AGGREGATES))}"
            )
        if name == "count" and len(arguments) > 1:
            # DuckDB's COUNT takes one argument; Flink's takes several and counts rows without a NULL in them.
            typed_node = exp.Anonymous(this="count", expressions=[exp.Star()])
        typed = self._context.type_of(typed_node, fields, aggregates=True)
        order_by, order_types = self._order(order, fields, name, node)
        types = tuple(self._context.type_of(a, fields).type for a in arguments)
        label = f"{name}({', '.join(c.name for a in arguments for c in a.find_all(exp.Column))})"
        result = AggregateCall(
            Field(self._context.new_id(name), label, typed.type, typed.nullable),
            "count" if name == "count_star" else name,
            arguments,
            types,
            distinct,
            filter_,
            order_by,
            order_types,
        )
        self._calls[form] = result
        return result

    def _order(
        self, order: exp.Expr | None, fields: Fields, name: str, node: exp.Expr
    ) -> tuple[tuple[tuple[exp.Expr, bool, bool], ...], tuple[SqlType, ...]]:
        if order is None or name not in ORDER_SENSITIVE | {"median"}:
            return (), ()
        terms = []
        for ordered in order.expressions:
            inner = ordered.this if isinstance(ordered, exp.Ordered) else ordered
            descending = bool(isinstance(ordered, exp.Ordered) and ordered.args.get("desc"))
            nulls_first = bool(isinstance(ordered, exp.Ordered) and ordered.args.get("nulls_first"))
            terms.append((inner, descending, nulls_first))
        if len({d for _, d, _ in terms}) > 1:
            self._context.unsupported(node, "ORDER BY with both ASC and DESC inside an aggregate")
        return tuple(terms), tuple(self._context.type_of(e, fields).type for e, _, _ in terms)
