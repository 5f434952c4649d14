"""Calls of aggregate functions: where they are in an expression, and what each is in the plan."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.types import INTEGER, NULL, UNKNOWN, SqlType
from sqlstream_planner.aggregates import registry
from sqlstream_planner.aggregates.function import AggregateFunction
from sqlstream_planner.aggregates.parts import over_value
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.lost_orders import served
from sqlstream_planner.bind.order_terms import is_constant, refuse_constant
from sqlstream_planner.bind.quantifiers import is_some_of_a_list
from sqlstream_planner.bind.row_order import NO_ORDER, OrderedRows, ordered_rows
from sqlstream_planner.diagnostics import counted, refuse
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.logical import AggregateCall, Field, Fields, Node, column, columns_of, time_column
from sqlstream_planner.sql.as_written import without_marks
from sqlstream_planner.sql.datatypes import as_type, nulls_as
from sqlstream_planner.sql.dialect import function_name
from sqlstream_planner.sql.problems import UNSUPPORTED_EXPRESSION, UNTYPED_HELP
from sqlstream_planner.sql.written_calls import written_call

_GROUPING = ("GROUPING", "GROUPING_ID")


def aggregate_calls(expression: exp.Expr) -> list[exp.Expr]:
    """The outermost aggregate calls of an expression."""
    found: list[exp.Expr] = []

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.Window | exp.Query | exp.Subquery):
            return
        if is_aggregate_call(node):
            found.append(node)
            return
        for child in node.iter_expressions():
            visit(child)

    visit(expression)
    return found


def is_aggregate_call(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate function, with what belongs to it."""
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return True
    name = _call_name(node)
    if name is None or is_some_of_a_list(node):
        return False
    return registry.find(name) is not None or registry.is_spelled(name) or catalogue.is_aggregate(name)


def _call_name(node: exp.Expr) -> str | None:
    if isinstance(node, exp.FirstValue):
        return "first_value"
    if isinstance(node, exp.LastValue):
        return "last_value"
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        return _call_name(node.this)
    call = written_call(node)
    return call.name if call is not None else None


def _with_named_fields(row: exp.Expr) -> exp.Expr | None:
    """ROW(a, b) or (a, b) as a struct whose type is known; None of anything else."""
    inner = row.unnest()
    call = written_call(inner)
    if isinstance(inner, exp.Tuple):
        parts: tuple[exp.Expr, ...] = tuple(inner.expressions)
    elif call is not None and call.name == "row":
        parts = call.arguments
    else:
        return None
    fields = [
        exp.PropertyEQ(this=exp.to_identifier(f"f{n}"), expression=part.copy())
        for n, part in enumerate(parts)
    ]
    struct = exp.Struct(expressions=fields)
    struct.meta.update(row.meta)
    return struct


def _shown(name: str) -> str:
    return registry.shown(name).upper()


def _kept(type_: SqlType) -> SqlType:
    """The type of what a call keeps; NULLs alone are integers there, since nothing can be cast to NULL or NULL[]."""
    return nulls_as(type_, INTEGER)


def _as_kept(value: exp.Expr, type_: SqlType) -> exp.Expr:
    """A value whose type can be written down: `[]` is an array of integers. A bare NULL goes with every function."""
    kept = _kept(type_)
    return value if type_ in (kept, NULL) else as_type(value, kept)


def _kept_term(term: exp.Expr, type_: SqlType, value: exp.Expr, kept: exp.Expr) -> exp.Expr:
    """A term over `value` as it is kept."""
    if term == value:
        return kept.copy()
    return _as_kept(term.transform(lambda node: kept.copy() if node == value else node), type_)


def _best_in_order(
    node: exp.Expr,
    function: AggregateFunction,
    arguments: tuple[exp.Expr, ...],
    order: exp.Expr,
    filter_: exp.Expr | None,
) -> exp.Expr:
    """ARG_MAX(x, y ORDER BY z) as FIRST(x ORDER BY y DESC, z), over the rows that it counts."""
    value, by = arguments
    best = exp.Ordered(this=by.copy(), desc=function.best_first == "DESC", nulls_first=False)
    ordered = exp.Order(this=value.copy(), expressions=[best, *(term.copy() for term in order.expressions)])
    counted = [by] if function.keeps_nulls else [value, by]
    present = [exp.Not(this=exp.Is(this=exp.paren(part), expression=exp.Null())) for part in counted]
    where = exp.and_(*([filter_] if filter_ is not None else []), *present)
    made = exp.Filter(
        this=exp.Anonymous(this="first", expressions=[ordered]), expression=exp.Where(this=where)
    )
    made.meta.update(node.meta)
    made.this.meta.update(node.meta)
    return made


class AggregateCalls:
    """The calls of one SELECT over the columns `fields` of `rows`; calls that are written the same are one.

    The event time of the rows orders FIRST_VALUE and LAST_VALUE, else the order in which they come.
    """

    def __init__(self, context: BindContext, fields: Fields, rows: Node) -> None:
        self._context = context
        self._fields = fields
        self._time_column = time_column(rows.fields)
        self._rows = rows
        self._ordered: OrderedRows | None = None
        self._calls: dict[str, AggregateCall] = {}

    @property
    def all(self) -> tuple[AggregateCall, ...]:
        """Every call, in the order in which they were added."""
        return tuple(self._calls.values())

    @property
    def rows(self) -> Node:
        """The rows, with the columns that calls are ordered by."""
        return self._rows if self._ordered is None else self._ordered.rows

    def add(self, node: exp.Expr) -> AggregateCall:
        """The call that is written as `node`. Raises DiagnosticError."""
        form = self._context.form(node, self._fields)
        if form in self._calls:
            return self._calls[form]
        inner, filter_, order = node, None, None
        ignores_nulls = False
        while isinstance(inner, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
            ignores_nulls = ignores_nulls or isinstance(inner, exp.IgnoreNulls)
            if isinstance(inner, exp.Filter):
                filter_ = inner.expression.this
            if isinstance(inner, exp.WithinGroup):
                order = inner.expression
            inner = inner.this
        fields = self._fields
        name = _call_name(inner) or ""
        arguments: tuple[exp.Expr, ...]
        if isinstance(inner, exp.FirstValue | exp.LastValue):
            arguments, distinct = (inner.this,), False
        else:
            call = written_call(inner)
            if call is None or not is_aggregate_call(inner):
                self._context.fail(node, "SQL047", "FILTER belongs to an aggregate function")
            arguments, distinct, order = call.arguments, call.distinct, call.order or order
        for argument in [*arguments, *([filter_] if filter_ is not None else [])]:
            inside = next((c for c in argument.walk() if function_name(c) in _GROUPING), None)
            if inside is not None:
                self._context.unsupported(
                    inside,
                    f"{function_name(inside)} inside an aggregate",
                    help="write it around the aggregate: CASE WHEN GROUPING(k) = 0 THEN COUNT(*) END",
                )
            nested = aggregate_calls(argument)
            if nested:
                self._context.fail(
                    nested[0],
                    "SQL048",
                    "an aggregate inside an aggregate",
                    help="compute the inner one in a sub-query",
                )
        limit = next((a for a in arguments if isinstance(a, exp.Limit | exp.HavingMax)), None)
        if limit is not None:
            self._context.unsupported(
                limit,
                f"LIMIT inside {name.upper()}",
                help="keep the first rows in a sub-query: QUALIFY ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) <= 2",
            )
        every = next(
            (a for a in arguments if isinstance(a, exp.Column) and isinstance(a.this, exp.Star)), None
        )
        if every is not None:
            self._context.unsupported(
                every,
                f"{every.sql()} inside {name.upper()}",
                help="COUNT(*) counts rows; else name the columns",
            )
        arguments = tuple(a for a in arguments if not isinstance(a, exp.Star))
        if distinct and not arguments:
            self._context.unsupported(
                node, f"{name.upper()}(DISTINCT *)", help="count the rows of SELECT DISTINCT * in a sub-query"
            )
        of_others = order is not None and not self._is_by_value(name, distinct, arguments, order)
        function = registry.variant(name, len(arguments), ordered=of_others)
        by_time = registry.orders_by_time(name) and function is registry.find(name)
        if filter_ is not None:
            self._context.condition(filter_, fields, "FILTER")
        self._refuse_outer(node)
        if function is None:
            calls = registry.calls_of(name)
            if calls:  # Flink's calls become DuckDB's by their arguments
                refuse(
                    self._context.span(node),
                    "TYP002",
                    f"`{name.upper()}` does not take {counted(len(arguments), 'argument')}",
                    help=f"write {' or '.join(calls)}",
                )
            self._context.unsupported(
                node,
                f"the aggregate {name.upper()}",
                help=registry.instead_of(name) or f"these can: {', '.join(registry.names())}",
            )
        if order is not None and function.best_first and not (distinct or by_time) and len(arguments) == 2:
            return self.add(_best_in_order(node, function, arguments, order, filter_))
        if order is not None and function.arguments.unordered_help is not None:
            self._context.unsupported(
                order, f"ORDER BY inside {_shown(name)}", help=function.arguments.unordered_help
            )
        come: OrderedRows | None = None
        sensitive = by_time or (function.order_sensitive and function.arguments.ordered)
        if sensitive and order is None and not distinct and self._context.orders.all:
            come = self._written_order()
        if by_time and self._time_column is None and come is None:
            come = self._come(node, name, function)
        if come is not None:
            fields = (*fields, *come.fields)
            served(self._context, inner)
        if by_time and come is not None and arguments:  # without any it is refused with its type
            in_order = dict(function.in_order)
            if ignores_nulls or name not in in_order:  # FIRST_VALUE is Flink's, FIRST is DuckDB's
                present = exp.Not(this=exp.Is(this=arguments[0].copy(), expression=exp.Null()))
                filter_ = present if filter_ is None else exp.and_(filter_, present)
            [(_, chosen)] = in_order.items()
            function = registry.AGGREGATES[chosen]
            typed_node: exp.Expr = exp.Anonymous(this="first", expressions=[a.copy() for a in arguments])
        elif by_time and self._time_column is not None:
            arguments = (*arguments, column(self._time_column))
            typed_node = exp.Anonymous(this=function.name, expressions=[a.copy() for a in arguments])
        else:
            typed_node = inner
        self._check_arguments(node, name, function, arguments)
        name = function.name
        if function.takes_any_arguments:
            # DuckDB's COUNT takes one argument; Flink's takes several and counts rows without a NULL in them.
            named = _with_named_fields(arguments[0]) if distinct and len(arguments) == 1 else None
            arguments = arguments if named is None else (named,)
            if len(arguments) > 1 or named is not None:
                typed_node = exp.Anonymous(this=name, expressions=[exp.Star()])
        typed = self._context.type_of(typed_node, fields, aggregates=True, untyped_keys=True)
        order_by, order_types = self._order(order, fields, function)
        if come is not None:
            terms = come.terms
            order_by = tuple((column(t.column), t.descending, t.nulls_first) for t in terms)
            order_types = tuple(self._context.type_of(e, fields).type for e, _, _ in order_by)
        if function.arguments.orders_itself and order_by and not order_by[0][1]:
            by = {self._context.form(e, fields) for e in (*(term for term, _, _ in order_by), arguments[0])}
            order_by, order_types = ((), ()) if len(by) == 1 else (order_by, order_types)
        types = tuple(self._context.type_of(a, fields).type for a in arguments)
        if distinct:
            order_by = tuple((self._by_value(t, arguments[0], fields), d, n) for t, d, n in order_by)
            for term, _, _ in order_by:
                if columns_of(over_value(term, arguments[0], "x")):
                    self._context.unsupported(
                        term,
                        f"{name.upper()}(DISTINCT …) ordered by something else than its argument",
                        help="a value may come with several of these, say which counts: SELECT …(x ORDER BY y) "
                        "FROM (SELECT x, MIN(y) AS y FROM t GROUP BY x)",
                    )
        if distinct or function.values.paired:
            for argument, type_ in zip(arguments, types, strict=True):
                if type_ == UNKNOWN:
                    self._context.fail(
                        argument,
                        UNSUPPORTED_EXPRESSION,
                        "the type of this argument is not known, so its values can't be kept in state",
                        help=UNTYPED_HELP,
                    )
        of_rows = function.arguments.of_rows
        values = len(arguments) if of_rows is None else of_rows
        given = arguments
        arguments = tuple(
            _as_kept(a, t) if n < values else a for n, (a, t) in enumerate(zip(arguments, types, strict=True))
        )
        types = tuple(_kept(t) if n < values else t for n, t in enumerate(types))
        order_by = tuple(
            (
                _kept_term(e, t, given[0], arguments[0]) if distinct else _as_kept(e, t),
                descending,
                nulls_first,
            )
            for (e, descending, nulls_first), t in zip(order_by, order_types, strict=True)
        )
        order_types = tuple(map(_kept, order_types))
        read = (c.name for a in arguments for c in without_marks(a).find_all(exp.Column))
        label = f"{name}({', '.join(read)})"
        result = AggregateCall(
            Field(self._context.new_id(name), label, _kept(typed.type), typed.nullable),
            function.called or name,
            arguments,
            types,
            distinct,
            filter_,
            order_by,
            order_types,
            self._context.span(node),
        )
        self._calls[form] = result
        return result

    def _is_by_value(
        self, name: str, distinct: bool, arguments: tuple[exp.Expr, ...], order: exp.Expr
    ) -> bool:
        """Whether the ORDER BY of a function that orders its values itself can be no other than by these."""
        function = registry.find(name)
        if function is None or not function.arguments.orders_itself:
            return False
        terms = [o.this if isinstance(o, exp.Ordered) else o for o in order.expressions]
        forms = {self._context.form(e, self._fields) for e in (*terms, *arguments[:1])}
        return distinct or len(forms) == 1

    def _by_value(self, term: exp.Expr, value: exp.Expr, fields: Fields) -> exp.Expr:
        """A term of a DISTINCT call's ORDER BY, in the words of the value where it is that."""
        return value.copy() if self._context.form(term, fields) == self._context.form(value, fields) else term

    def _written_order(self) -> OrderedRows | None:
        """The rows in the order that a sub-query says, if they are those of one that does."""
        found = self._ordered or ordered_rows(self._context, self._rows)
        if found is not None and found.written:
            self._ordered = found
            return found
        return None

    def _come(self, node: exp.Expr, name: str, function: AggregateFunction) -> OrderedRows:
        """The rows in the order in which they come. Raises DiagnosticError (SQL049) if they have none."""
        if self._ordered is None:
            self._ordered = ordered_rows(self._context, self._rows)
        # Where there is an event time, nothing that stands between may make another order of it without a word.
        if self._ordered is None or self._ordered.time_lost:
            self._context.fail(
                node,
                "SQL049",
                f"{_shown(name)} needs an order, and these rows have none",
                notes=NO_ORDER,
                help=f"name a column to order by, {function.also[0].upper()}(x, ts), or keep the event-time column in the "
                "sub-query's SELECT list",
            )
        return self._ordered

    def _refuse_outer(self, node: exp.Expr) -> None:
        """Refuses a call over columns of the outer rows alone: by standard SQL it is of the outer query."""
        own = {f.id for f in self._fields}
        read = {c.name for c in without_marks(node).find_all(exp.Column) if not isinstance(c.this, exp.Star)}
        if read and not read & own and all(self._context.outer_field(id_) is not None for id_ in read):
            self._context.unsupported(
                node,
                "an aggregate of the outer query here",
                help="write the name of its table before the column, or compute it in a sub-query in FROM",
            )

    def _check_arguments(
        self, node: exp.Expr, name: str, function: AggregateFunction, arguments: tuple[exp.Expr, ...]
    ) -> None:
        """Refuses a call of `function`, written as `name`, that can't be run or would fail when it runs."""
        takes = function.arguments
        if takes.at_most is not None and len(arguments) > takes.at_most:
            self._context.unsupported(node, f"{_shown(name)} with so many arguments", help=takes.instead)
        for argument in arguments[takes.of_rows :] if takes.of_rows is not None else ():
            if argument.find(exp.Column) is not None:
                self._context.unsupported(
                    argument,
                    f"{name.upper()} with another argument in each row",
                    help=takes.instead or "only its first argument can name columns",
                )
        wrong = takes.check(arguments) if takes.check is not None else None
        if wrong is not None:
            self._context.fail(wrong.argument, "TYP002", wrong.message, help=wrong.help)

    def _order(
        self, order: exp.Expr | None, fields: Fields, function: AggregateFunction
    ) -> tuple[tuple[tuple[exp.Expr, bool, bool], ...], tuple[SqlType, ...]]:
        if order is None or not function.arguments.ordered:
            return (), ()
        terms = []
        for ordered in order.expressions:
            inner = ordered.this if isinstance(ordered, exp.Ordered) else ordered
            descending = bool(isinstance(ordered, exp.Ordered) and ordered.args.get("desc"))
            nulls_first = bool(isinstance(ordered, exp.Ordered) and ordered.args.get("nulls_first"))
            if isinstance(inner, exp.Var):
                self._context.unsupported(
                    inner, f"ORDER BY {inner.name} inside an aggregate", help="list the columns to order by"
                )
            if is_constant(inner):
                refuse_constant(self._context, inner)
            terms.append((inner, descending, nulls_first))
        return tuple(terms), tuple(self._context.type_of(e, fields).type for e, _, _ in terms)
