"""Sub-queries in expressions: each becomes a column that an Apply adds to the outer rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.types import BOOLEAN, ROWS
from sqlstream_planner.bind.aggregate_calls import is_aggregate_call
from sqlstream_planner.bind.context import BindContext, OuterRows
from sqlstream_planner.bind.items import output_name
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import Span, counted
from sqlstream_planner.logical import (
    Apply,
    ColumnId,
    Field,
    Node,
    Project,
    SubqueryKind,
    column,
    substitute,
    transform,
)
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.sql.dialect.positions import range_of, set_range

_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def apart(predicate: exp.Expr) -> list[exp.Expr]:
    """What a WHERE says of rows as they are, then its sub-queries about those that are left; one of them if it does
    only one.
    """
    terms = conjuncts(predicate)
    asking = [term for term in terms if has_subquery(term)]
    plain = [term for term in terms if not has_subquery(term)]
    if not asking or not plain:
        return [predicate]
    return [_all_of(plain, predicate), _all_of(asking, predicate)]


def _all_of(terms: Sequence[exp.Expr], predicate: exp.Expr) -> exp.Expr:
    made = exp.and_(*terms)
    made.meta.update(predicate.meta)
    return made


_SCALAR = "a sub-query that stands for a value"


@dataclass(frozen=True, slots=True)
class BoundSubquery:
    """A sub-query that some rows are still to be given: `outer` are the columns of theirs that it reads, by their ids,
    as it is written.
    """

    query: Node
    kind: SubqueryKind
    result: Field
    outer: Mapping[str, exp.Column]
    operand: tuple[exp.Expr, ...]
    comparison: str
    ttl_us: int | None
    at: Span

    def beside(self, node: Node) -> Apply:
        """The rows of `node` with the sub-query's value beside each."""
        outer = tuple(ColumnId(id_) for id_ in self.outer)
        return Apply(
            node,
            self.query,
            self.kind,
            self.result,
            outer,
            self.operand,
            self.comparison,
            self.ttl_us,
            self.at,
        )

    def over(self, rewritten: Callable[[exp.Expr], exp.Expr]) -> BoundSubquery:
        """The same over other rows, whose columns `rewritten` gives for columns of those that it was bound over."""
        new = {id_: rewritten(_at(column(id_), written)) for id_, written in self.outer.items()}
        operand = tuple(rewritten(e) for e in self.operand)
        if all(isinstance(e, exp.Column) and e.name == id_ for id_, e in new.items()):
            return replace(self, operand=operand)

        def moved(node: Node) -> Node:
            node = node.with_expressions(lambda e: substitute(e, new) if e.find(exp.Column) else e)
            return node.with_references(lambda r: ColumnId(new[r].name) if r in new else r)

        [query] = transform([self.query], moved)
        return replace(
            self, query=query, operand=operand, outer={e.name: self.outer[id_] for id_, e in new.items()}
        )


@dataclass(frozen=True, slots=True)
class SubqueryBinder:
    """Binds the sub-queries of one SELECT; `bind` binds a query."""

    context: BindContext
    bind: Callable[[exp.Expr], Node]

    def below(self, predicate: exp.Expr, node: Node, scope: Scope) -> tuple[exp.Expr, Node, Scope]:
        """A condition over columns that hold its sub-queries' values, the rows that have them, and their scope."""
        predicate, found, scope = self.extracted(predicate, scope)
        for subquery in found:
            node = subquery.beside(node)
        return predicate, node, scope

    def extracted(
        self, predicate: exp.Expr, scope: Scope
    ) -> tuple[exp.Expr, tuple[BoundSubquery, ...], Scope]:
        """A condition over columns with its sub-queries' values, which some nodes must add, and the scope that has them."""
        around = exp.Paren(this=predicate.copy())
        found, scope = self._replaced([around], scope)
        return around.this, tuple(found), scope

    def in_keys(self, query: exp.Select, node: Node, scope: Scope) -> tuple[exp.Select, Node, Scope]:
        """The same for the sub-queries of GROUP BY, wherever else they stand, too: they are of rows, not of groups."""
        if query.args.get("group") is None:
            return query, node, scope
        query = query.copy()
        group = query.args["group"]
        keys = [group, *_keys_of_items(query, group, scope)]
        if not any(map(has_subquery, keys)):
            return query, node, scope
        made: list[tuple[exp.Expr, BoundSubquery]] = []
        for number, place in enumerate([*keys, *places_above(query)]):
            for found in list(_outermost(place)):
                known = next((bound for written, bound in made if written == found), None)
                if known is None and number >= len(keys):
                    continue
                if known is None:
                    written = found.copy()
                    known = self._bound(found, _with_results(scope, [b for _, b in made]), False)
                    made.append((written, known))
                _put(found, known)
        for _, subquery in made:
            node = subquery.beside(node)
        return query, node, _with_results(scope, [b for _, b in made])

    def inside_calls(self, query: exp.Select, node: Node, scope: Scope) -> tuple[exp.Select, Node, Scope]:
        """The same for the sub-queries inside aggregate functions of a SELECT."""
        if not any(has_subquery(call) for place in places_above(query) for call in _calls(place)):
            return query, node, scope
        query = query.copy()
        places = [call for place in places_above(query) for call in _calls(place)]
        found, scope = self._replaced(places, scope)
        for subquery in found:
            node = subquery.beside(node)
        return query, node, scope

    def above(
        self, query: exp.Select, scope: Scope, *, aggregates: bool = False
    ) -> tuple[exp.Select, tuple[BoundSubquery, ...], Scope]:
        """All that is above the rows (the SELECT list, HAVING, QUALIFY, ORDER BY) over columns that some node must add."""
        if not any(has_subquery(place) for place in places_above(query)):
            return query, (), scope
        query = query.copy()
        found, scope = self._replaced(places_above(query), scope, aggregates=aggregates)
        return query, tuple(found), scope

    def _replaced(
        self, places: Sequence[exp.Expr], scope: Scope, *, aggregates: bool = False
    ) -> tuple[list[BoundSubquery], Scope]:
        """Replace the sub-queries that stand in some syntax by columns; operands may name those of sub-queries before."""
        made: list[BoundSubquery] = []
        for place in places:
            for node in list(_outermost(place)):
                bound = self._bound(node, _with_results(scope, made), aggregates)
                made.append(bound)
                _put(node, bound)
        return made, _with_results(scope, made)

    def _bound(self, node: exp.Expr, scope: Scope, aggregates: bool) -> BoundSubquery:
        context = self.context
        kind, operands, comparison, written = _parts(node)
        over = next((w for e in operands for w in e.find_all(exp.Window)), None)
        if over is not None:
            context.unsupported(
                over,
                f"OVER in what {kind} compares with a sub-query",
                help="compute it in a sub-query in FROM: SELECT … FROM (SELECT *, LAG(x) OVER (…) AS y FROM t) AS t "
                "WHERE y IN (SELECT …)",
            )
        rows = OuterRows(scope)
        ttl_us = context.clauses.ttl_us
        with context.around(rows):
            query = self.bind(written)
        context.clauses.ttl_us = ttl_us
        if kind is SubqueryKind.SCALAR:
            _check_count(context, written, query, 1, _SCALAR)
        elif kind is not SubqueryKind.EXISTS:
            if len(query.fields) == 1 and len(operands) > 1 and query.fields[0].type.kind in ROWS:
                operands = (_operand(node),)  # rows, which the query gives as one column
            elif len(operands) == len(query.fields) > 1 and comparison not in ("=", "<>"):
                operands, query = (_operand(node),), self._as_rows(query)
            _check_count(context, written, query, len(operands), f"what {kind} compares with")
        resolved = tuple(context.translated(scope.resolve(e), scope.fields) for e in operands)
        for operand, f, at in zip(resolved, query.fields, operands, strict=False):
            compared = exp.EQ(this=operand.copy(), expression=column(f.id))
            compared.meta.update(at.meta)
            mine = context.type_of(operand, scope.fields, aggregates=aggregates)
            context.refuse_mixed_instants(at, [mine.type, f.type])
            context.type_of(compared, (*scope.fields, *query.fields), aggregates=aggregates)
        given = query.fields[0]
        if kind is SubqueryKind.SCALAR:
            result = Field(context.new_id("subquery"), given.name, given.type)
        else:
            id_ = context.new_id(kind.value.lower())
            result = Field(id_, id_, BOOLEAN, kind is not SubqueryKind.EXISTS)
        return BoundSubquery(
            query,
            kind,
            result,
            rows.written,
            resolved,
            comparison,
            ttl_us,
            context.span(_place(node, written)),
        )

    def _as_rows(self, query: Node) -> Node:
        """The columns of a query as one of rows, which are compared value by value."""
        fields = query.fields
        row = self.context.translated(exp.Tuple(expressions=[column(f.id) for f in fields]), fields)
        type_ = self.context.type_of(row, fields).type
        made = Field(self.context.new_id("row"), "row", type_, nullable=False)
        return Project(query, (made,), (row,))


def places_above(query: exp.Select) -> list[exp.Expr]:
    """Where sub-queries of a SELECT can stand that are above its rows: its list, HAVING, QUALIFY and ORDER BY."""
    clauses = [query.args.get(key) for key in ("having", "qualify", "order")]
    return [*query.expressions, *(c for c in clauses if isinstance(c, exp.Expr))]


def compared_with(place: exp.Expr) -> Iterator[exp.Expr]:
    """The values in some syntax that are compared with what sub-queries there give: `x` of `x IN (SELECT …)`."""
    for node in _outermost(place):
        yield from _parts(node)[1]


def _keys_of_items(query: exp.Select, group: exp.Expr, scope: Scope) -> list[exp.Expr]:
    """The items of a SELECT list that GROUP BY names by their name or position, or all that aggregate nothing."""
    items = query.expressions
    if group.args.get("all"):
        return [item for item in items if next(_calls(item), None) is None]
    found: list[exp.Expr] = []
    columns = {f.name.lower() for f in scope.fields}
    for key in group.find_all(exp.Column, exp.Literal):
        if isinstance(
            key.parent, exp.Group | exp.Tuple | exp.Paren | exp.Rollup | exp.Cube | exp.GroupingSets
        ):
            named: Sequence[exp.Expr] = [
                i for i in items if isinstance(i, exp.Alias) and i.alias.lower() == key.name.lower()
            ]
            if isinstance(key, exp.Literal):
                named = items[int(key.name) - 1 : int(key.name)] if key.is_int and int(key.name) else []
            elif key.args.get("table") or key.name.lower() in columns:
                named = []
            found += named
    return found


def has_subquery(expression: exp.Expr) -> bool:
    """Whether a sub-query stands for a value in an expression."""
    return next(_outermost(expression), None) is not None


def _calls(expression: exp.Expr) -> Iterator[exp.Expr]:
    """The outermost aggregate calls of an expression, not those of its sub-queries."""
    if is_aggregate_call(expression):
        yield expression
    elif not isinstance(expression, exp.Query):
        for child in list(expression.iter_expressions()):
            yield from _calls(child)


def _outermost(expression: exp.Expr) -> Iterator[exp.Expr]:
    """What stands for the value of a sub-query in an expression; those in the operand of one come before it."""
    membership = isinstance(expression, exp.In) and expression.args.get("query") is not None
    compared = type(expression) in _COMPARISONS and _quantified(expression.expression) is not None
    if membership or compared:
        yield from _outermost(expression.this)
        yield expression
    elif isinstance(expression, exp.Exists | exp.Query):
        yield expression
    else:
        for child in list(expression.iter_expressions()):
            yield from _outermost(child)


def _quantified(side: exp.Expr) -> exp.Expr | None:
    """The sub-query of ANY or ALL; None of an array."""
    if not isinstance(side, exp.Any | exp.All):
        return None
    inner: exp.Expr = side.this.unnest()
    return inner if isinstance(inner, exp.Query) else None


def _parts(node: exp.Expr) -> tuple[SubqueryKind, tuple[exp.Expr, ...], str, exp.Expr]:
    """The kind of a sub-query, its operands, the comparison, and the query."""
    match node:
        case exp.Exists():
            return SubqueryKind.EXISTS, (), "=", node.this
        case exp.In():
            return SubqueryKind.IN, _row(node.this), "=", node.args["query"]
        case exp.Query():
            return SubqueryKind.SCALAR, (), "=", node
    query = _quantified(node.expression)
    assert query is not None
    kind = SubqueryKind.ALL if isinstance(node.expression, exp.All) else SubqueryKind.ANY
    return kind, _row(node.this), _COMPARISONS[type(node)], query


def _row(operand: exp.Expr) -> tuple[exp.Expr, ...]:
    bare = operand.unnest()
    called = isinstance(bare, exp.Anonymous) and bare.name.upper() == "ROW" and len(bare.expressions) > 1
    return tuple(bare.expressions) if called or isinstance(bare, exp.Tuple) else (operand,)


def _operand(node: exp.Expr) -> exp.Expr:
    """What is compared with the rows of a sub-query, as one value."""
    bare: exp.Expr = node.this.unnest()
    return bare


def _at(made: exp.Column, written: exp.Column) -> exp.Column:
    found = range_of(written)
    if found is not None:
        set_range(made, *found)
    return made


def _place(node: exp.Expr, written: exp.Expr) -> exp.Expr:
    return node if isinstance(node, exp.Exists) else written


def _with_results(scope: Scope, made: Sequence[BoundSubquery]) -> Scope:
    if not made:
        return scope
    # No name of the user's begins so, and ids are distinguished anyway.
    results = tuple(replace(s.result, name=s.result.id) for s in made)
    return replace(scope, relations=(*scope.relations, Relation(None, results, hidden=True, last=True)))


def _put(node: exp.Expr, bound: BoundSubquery) -> None:
    """Put the column with a sub-query's value where it stands; an item of a SELECT list keeps its name."""
    made: exp.Expr = exp.column(exp.to_identifier(bound.result.id, quoted=True))
    made.meta.update(node.meta)
    select = node.parent
    if isinstance(select, exp.Select) and node.arg_key == "expressions":
        name = output_name(node, select.expressions.index(node))
        made = exp.alias_(made, name, quoted=True, copy=False)
        made.meta.update(node.meta)
    node.replace(made)


def _check_count(context: BindContext, written: exp.Expr, query: Node, count: int, what: str) -> None:
    if len(query.fields) != count:
        context.fail(
            written,
            "SQL036",
            f"{what} gives {counted(len(query.fields), 'column')}, not {count}",
            notes=(f"it gives {', '.join(f.name for f in query.fields)}",),
            help="select as many columns as are compared"
            if count > 1
            else "select one column: a row is one, as in (SELECT (a, b) FROM t)"
            if what == _SCALAR
            else "select one column",
        )
