"""Queries: SELECT, UNION ALL, CTEs, views and sub-queries as logical nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.bind.aggregate import bind_aggregate, is_aggregate_query
from sqlstream_planner.bind.as_of import bind_asof_join, bind_temporal_join, is_asof
from sqlstream_planner.bind.asking_joins import asks_in_on, bind_asking_join
from sqlstream_planner.bind.clauses import state_ttl, warn_hint
from sqlstream_planner.bind.column_lists import with_columns
from sqlstream_planner.bind.context import BindContext, OuterRows, fresh
from sqlstream_planner.bind.item_names import beside, with_item_names, without_names
from sqlstream_planner.bind.items import expand_items, project
from sqlstream_planner.bind.joins import (
    Item,
    bind_join,
    bounded_by,
    crossed,
    is_comma,
    kind_of,
    with_time_lost,
)
from sqlstream_planner.bind.lateral import bind_lateral, is_about_names, is_lateral_query
from sqlstream_planner.bind.lateral_view import bind_lateral_view
from sqlstream_planner.bind.limits import bind_limit, has_limit, with_ordered, without_last
from sqlstream_planner.bind.lookup import bind_lookup_join
from sqlstream_planner.bind.lost_orders import has_lost_order, settle_orders, without_order
from sqlstream_planner.bind.names import windowed, with_unknown_names
from sqlstream_planner.bind.order_terms import DistinctRows
from sqlstream_planner.bind.outer_calls import with_outer_calls
from sqlstream_planner.bind.over import bind_overs
from sqlstream_planner.bind.pivot import pivot_query
from sqlstream_planner.bind.ranked_groups import ranks_groups, split
from sqlstream_planner.bind.relation import Relation, told_apart
from sqlstream_planner.bind.rowid import with_rowid
from sqlstream_planner.bind.sample import sampled
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.select_unnest import with_unnested
from sqlstream_planner.bind.sets import by_names, distinct, set_operation
from sqlstream_planner.bind.subqueries import SubqueryBinder, apart
from sqlstream_planner.bind.unnest import (
    bind_first_unnest,
    bind_unnest,
    series_call,
    unnested_array,
    written_array,
)
from sqlstream_planner.bind.values import as_selects, asks, bind_values, no_rows_but_one
from sqlstream_planner.bind.where_aliases import with_aliases, with_compared_names
from sqlstream_planner.bind.windows import bind_tvf
from sqlstream_planner.bind.written_orders import WrittenOrders
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.expressions.casts import set_operation_type
from sqlstream_planner.logical import (
    Aggregate,
    EmitOnClose,
    EventTime,
    Field,
    Filter,
    JoinKind,
    Node,
    Project,
    SetOperation,
    SetOperator,
    column,
    union_all,
)
from sqlstream_planner.sql.dialect import WindowTvf, duckdb_sql

#: Finds a table or view by name and binds a reference to it.
TableLookup = Callable[[exp.Table], Node]

_CLAUSES = {
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "match": "MATCH_RECOGNIZE",
    "sample": "TABLESAMPLE",
    "connect": "CONNECT BY",
    "into": "SELECT INTO",
    "locks": "FOR UPDATE",
    "prewhere": "PREWHERE",
    "settings": "SETTINGS",
    "format": "FORMAT",
    "for_": "FOR",
    "options": "OPTION",
    "exclude": "EXCLUDE behind the SELECT list",
    "operation_modifiers": "a word behind SELECT",
}
_TABLE_CLAUSES = {
    "version": "FOR SYSTEM_TIME AS OF",
    "changes": "CHANGES",
    "match": "MATCH_RECOGNIZE",
    "when": "AT and BEFORE behind a table",
    "system_time": "FOR SYSTEM_TIME AS OF",
    "only": "ONLY before a table",
    "partition": "PARTITION behind a table",
    "indexed": "INDEXED BY",
    "pattern": "a pattern behind a table",
    "rows_from": "ROWS FROM",
    "format": "FORMAT behind a table",
}
_INSTEAD = {
    "SORT BY": "an order is only kept with LIMIT: ORDER BY … LIMIT",
    "TABLESAMPLE": "WHERE HASH(id) % 10 = 0 takes a tenth of the rows, and the same ones each time",
}


@dataclass(frozen=True, slots=True)
class QueryBinder:
    """Binds queries; `tables` resolves names that are no CTE."""

    context: BindContext
    tables: TableLookup

    def bind_statement(self, query: exp.Expr) -> Node:
        """The logical node of a query that stands by itself, or is a view's. Raises DiagnosticError."""
        context, before = self.context, (self.context.statement, self.context.orders)
        context.statement, context.orders = query, WrittenOrders()
        try:
            node = self.bind(query)
            settle_orders(context, query)
            return node
        finally:
            context.statement, context.orders = before

    def bind(self, query: exp.Expr, ctes: Mapping[str, Node] | None = None) -> Node:
        """The logical node of a query. Raises DiagnosticError."""
        emit = query.args.get("emit")
        if emit is None:
            return self._bind(query, dict(ctes or {}))
        clauses, before = self.context.clauses, self.context.clauses.changes
        clauses.changes = emit.name == "CHANGES"
        try:
            node = self._bind(query, dict(ctes or {}))
        finally:
            clauses.changes = before
        return node if emit.name == "CHANGES" else EmitOnClose(node, self.context.span(emit))

    def _bind(self, query: exp.Expr, ctes: dict[str, Node]) -> Node:
        statement = self.context.statement
        if statement is not None and query is not statement and has_lost_order(query):
            query = without_order(self.context, query, statement)
        if isinstance(query, exp.Paren | exp.Subquery) and isinstance(query.this, exp.Query | exp.Values):
            self._refuse(query, _CLAUSES)
            if query.args.get("joins"):
                self.context.unsupported(query, "a JOIN here", help="write SELECT * FROM … JOIN …")
            inner = self.bind(query.this, ctes)
            if isinstance(query, exp.Subquery) and has_limit(query):
                return bind_limit(self.context, query, inner, subqueries=self._subqueries(ctes))
            return inner
        with_ = query.args.get("with_") or query.args.get("with")
        if with_ is not None:
            if with_.args.get("recursive"):
                self.context.unsupported(
                    with_,
                    "WITH RECURSIVE",
                    help="write as many steps as you need one by one, each a CTE of its own; a series of numbers or "
                    "times is generate_series(1, 10)",
                )
            for number, cte in enumerate(with_.expressions):
                if any(cte.alias.lower() == other.alias.lower() for other in with_.expressions[:number]):
                    self.context.fail(cte.args["alias"], "CAT001", f"`{cte.alias}` is declared twice")
                bound = self.bind(cte.this, ctes)
                ctes[cte.alias.lower()] = self._renamed(bound, cte.args["alias"], cte)
        order = query.args.get("order")
        for term in order.expressions if order is not None else ():
            if term.args.get("with_fill"):
                self.context.unsupported(term, "WITH FILL behind ORDER BY")
        if isinstance(query, exp.SetOperation):
            combined = self._set_operation(query, ctes)
            if not has_limit(query):
                return combined
            return bind_limit(self.context, query, combined, subqueries=self._subqueries(ctes))
        if isinstance(query, exp.Select):
            return self._select(query, ctes)
        if isinstance(query, exp.Values):
            return self._values(query, ctes)
        if isinstance(query, exp.Pivot):
            return self._pivot(query, self._item(query.this, ctes)[0], ctes)
        self.context.unsupported(query, type(query).__name__.upper())

    def _values(self, values: exp.Values, ctes: Mapping[str, Node]) -> Node:
        return self.bind(as_selects(values), ctes) if asks(values) else bind_values(self.context, values)

    # ----------------------------------------------------------------------------------------- set operations

    def _set_operation(self, query: exp.SetOperation, ctes: Mapping[str, Node]) -> Node:
        self._refuse(query, _CLAUSES)
        kind = type(query).__name__.upper()
        by_name = bool(query.args.get("by_name"))
        words = [str(query.args[key]).upper() for key in ("side", "kind") if query.args.get(key)]
        if words or query.args.get("on"):
            # CORRESPONDING, in whose meaning columns of one side alone are left out, is INNER … BY NAME to the parser.
            corresponding = " (CORRESPONDING)" if {"INNER", "STRICT"} & set(words) else ""
            behind = " BY NAME" if words else " BY NAME ON (…)"
            self.context.unsupported(
                query,
                " ".join([*words, kind]) + (behind if by_name else "") + corresponding,
                help=f"list the columns on both sides: SELECT a, b FROM t {kind} ALL SELECT a, b FROM u",
            )
        if by_name and not isinstance(query, exp.Union):
            self.context.unsupported(query, f"{kind} BY NAME", help="list the columns in the same order")
        chain = _long_union_all(query)
        if chain:
            return self.union_of(query, tuple(self.bind(each, ctes) for each in chain), chained=True)
        left, right = self.bind(query.left, ctes), self.bind(query.right, ctes)
        if by_name:
            left, right = by_names(self.context, query, left, right)
        all_ = not query.args.get("distinct")
        if isinstance(query, exp.Union):
            return self._union(query, left, right, all_=all_)
        # Branches of a UNION ALL inside are one operand here.
        operands = tuple(self._reference(side) if _is_union_all(side) else side for side in (left, right))
        operator = SetOperator(kind)
        return set_operation(self.context, self.union_of(query, operands), operator, all_=all_)

    def _union(self, query: exp.SetOperation, left: Node, right: Node, *, all_: bool) -> Node:
        """UNION [ALL] of two queries. DuckDB makes one of alike ones in a row: a value is cast once, to the type of all."""
        inner = query.left.unnest()
        alike = isinstance(inner, exp.Union) and all(
            bool(inner.args.get(key)) == bool(query.args.get(key)) for key in ("distinct", "by_name")
        )
        union = self.union_of(query, (left, right), chained=alike and all_)
        if all_:
            return union
        if alike and isinstance(left, Aggregate) and _is_union_all(left.input):
            for position, (f, inside) in enumerate(zip(union.fields, left.fields, strict=True)):
                mixed = any(b.fields[position].type != inside.type for b in left.input.inputs)
                if mixed and f.type != inside.type and not f.type.is_numeric:
                    self.context.fail(
                        query,
                        "SQL031",
                        f"column `{f.name}` of these queries with UNION is of more than two types",
                        help=f"cast each, such as CAST({f.name} AS {f.type})",
                    )
        return distinct(self.context, union)

    def union_of(self, node: exp.Expr, parts: tuple[Node, ...], *, chained: bool = False) -> SetOperation:
        """UNION ALL of bound queries; `node` is where a mismatch is reported.

        The branches of a part that is one become branches of this one: of the first part if it is `chained` to the others,
        else where no value is cast.
        """
        branches = list[Node]()
        for number, part in enumerate(parts):
            if not _is_union_all(part):
                branches.append(part)
            elif (chained and not number) or _of_its_types(part):
                branches += part.inputs
            else:
                branches.append(self._reference(part))
        first = branches[0]
        for branch in branches[1:]:
            if len(branch.fields) != len(first.fields):
                self.context.fail(
                    node,
                    "SQL030",
                    f"{_combines(node)} of {len(first.fields)} and {len(branch.fields)} columns",
                    notes=(
                        f"the first query gives {', '.join(f.name for f in first.fields)}",
                        f"another gives {', '.join(f.name for f in branch.fields)}",
                    ),
                    help="both queries must give the same columns in the same order",
                )
        fields = []
        for position, f in enumerate(first.fields):
            same = [b.fields[position] for b in branches]
            type_ = self._common_type(node, [s.type for s in same], f.name)
            fields.append(
                Field(
                    self.context.new_id(f.name),
                    f.name,
                    type_,
                    any(s.nullable for s in same),
                    _common_time([s.time for s in same]) if type_.is_timestamp else None,
                    f.window if all(s.window == f.window for s in same) else None,
                )
            )
            for times in (self.context.process_times, self.context.unread_times):
                if all(s.id in times for s in same):
                    times.add(fields[-1].id)
        return union_all(branches, tuple(fields))

    def _common_type(self, node: exp.Expr, types: list[SqlType], name: str) -> SqlType:
        self.context.refuse_mixed_instants(node, types)
        type_ = set_operation_type(types)
        if type_ is None:
            shown = " and ".join(dict.fromkeys(str(t) for t in types))
            self.context.fail(
                node,
                "SQL031",
                f"column `{name}` of this {_combines(node)} is {shown}",
                help=f"cast one side, such as CAST({name} AS VARCHAR)",
            )
        return type_

    # ----------------------------------------------------------------------------------------------- SELECT

    def _select(self, query: exp.Select, ctes: Mapping[str, Node]) -> Node:
        sample = query.args.get("sample")
        if sample is not None:
            query = query.copy()
            query.set("sample", None)
        self._refuse(query, {**_CLAUSES, "kind": "SELECT AS STRUCT and SELECT AS VALUE"})
        clauses = self.context.clauses
        ttl_us, around = state_ttl(self.context, query), clauses.join_ttl_us
        clauses.join_ttl_us = ttl_us
        try:
            node, scope = self._from(query, ctes)
        finally:
            clauses.join_ttl_us = around
        clauses.ttl_us = ttl_us
        if sample is not None:
            node = self._filter(sampled(self.context, sample), node, scope, "USING SAMPLE")
        try:
            return self._select_from(query, node, scope, ctes)
        except DiagnosticError as error:
            error = with_time_lost(error, node, query)
            raise with_unknown_names(error, self.context, query, scope.relations) from None
        finally:
            clauses.ttl_us = clauses.default_ttl_us

    def _select_from(self, query: exp.Select, node: Node, scope: Scope, ctes: Mapping[str, Node]) -> Node:
        subqueries = self._subqueries(ctes)
        query = with_columns(self.context, query, scope)
        where = query.args.get("where")
        if where is not None:
            later = frozenset(e.alias.lower() for e in query.expressions if isinstance(e, exp.Alias))
            for condition in apart(with_aliases(where.this, query, scope)):
                predicate, node, inner = subqueries.below(condition, node, replace(scope, later=later))
                node = bounded_by(self._filter(predicate, node, inner, "WHERE"), self.context.facts.timed)
                scope = scope.over(node)
        query = with_compared_names(query, scope)
        query, outer_calls, scope = with_outer_calls(self.context, query, scope)
        if outer_calls or is_aggregate_query(query):
            query, node, scope = subqueries.in_keys(query, node, scope)
            query, node, scope = subqueries.inside_calls(query, node, scope.over(node))
            names, scope = with_item_names(self.context, query, scope.over(node))
            query, values, scope = subqueries.above(query, scope, aggregates=True)
            outer_calls, scope = (*outer_calls, *names), without_names(scope, names)
            if not ranks_groups(query):
                query, hidden = with_ordered(query)
                groups = bind_aggregate(self.context, query, node, scope, values, outer_calls)
                node = self._finished(query, groups, None, subqueries)
                return without_last(self.context, node, hidden) if hidden else node
            grouping, query = split(query, scope)
            node = bind_aggregate(self.context, grouping, node, scope, values, outer_calls)
            scope = Scope(self.context, (Relation(None, node.fields),))
        else:
            names, scope = with_item_names(self.context, query, scope)
            query, values, scope = subqueries.above(query, scope)
            node = beside(node, names)
            for value in values:
                node = value.beside(node)
            scope = without_names(scope, names).over(node)
        query, node, scope = bind_overs(self.context, query, node, scope)
        qualify = query.args.get("qualify")
        if qualify is not None:
            items = expand_items(self.context, query, scope)
            aliased = Scope(self.context, scope.relations, {name.lower(): e for name, e in items})
            node = self._filter(qualify.this, node, aliased, "QUALIFY")
        items = expand_items(self.context, query, scope)
        node, expressions = with_unnested(self.context, node, [e for _, e in items])
        named = [(name, e) for (name, _), e in zip(items, expressions, strict=True)]
        return self._finished(query, project(self.context, node, named), scope, subqueries)

    def _finished(
        self, query: exp.Select, node: Node, scope: Scope | None, subqueries: SubqueryBinder
    ) -> Node:
        """DISTINCT, then DISTINCT ON and ORDER BY … LIMIT, of a SELECT's result."""
        wanted = query.args.get("distinct")
        if wanted is not None and wanted.args.get("on"):
            return bind_limit(self.context, query, node, scope, subqueries=subqueries)
        rows = None
        if wanted is not None:
            rows = DistinctRows(scope, node) if scope is not None and isinstance(node, Project) else None
            node, scope = distinct(self.context, node), None
        if not has_limit(query):
            return node
        return bind_limit(self.context, query, node, scope, subqueries=subqueries, distinct=rows)

    def _filter(self, predicate: exp.Expr, node: Node, scope: Scope, what: str) -> Filter:
        resolved = self.context.translated(scope.resolve(predicate), scope.fields)
        self.context.condition(resolved, scope.fields, what)
        return Filter(node, resolved, self.context.span(predicate))

    def _from(self, query: exp.Select, ctes: Mapping[str, Node]) -> tuple[Node, Scope]:
        from_ = query.args.get("from_") or query.args.get("from")
        if from_ is None:
            return no_rows_but_one(self.context, query), Scope(self.context, ())
        item = self._joined(from_.this, query.args.get("joins") or [], ctes)
        node, scope = item.node, item.scope
        for view in query.args.get("laterals") or []:
            node, scope = bind_lateral_view(self.context, view, node, scope)
        return node, scope

    def _joined(self, first: exp.Expr, joins: Sequence[exp.Join], ctes: Mapping[str, Node]) -> Item:
        """An item of FROM and what is joined with it; JOIN binds closer than a comma."""
        apart: list[tuple[Item, exp.Join | None]] = []
        item = self._named_item(first, ctes)
        comma: exp.Join | None = None
        over_comma = False  # whether `item` has rows of before the last comma, too
        for join in [*(first.args.get("joins") or []), *joins]:
            array = None if is_lateral_query(join) else unnested_array(self.context, join)
            if array is not None:
                over_comma |= bool(apart) or is_comma(self.context, join)
                item, comma = crossed([*apart, (item, comma)]), None
                array, node, scope = self._subqueries(ctes).below(array, item.node, item.scope)
                item = Item(*bind_unnest(self.context, join, array, node, scope))
                apart = []
                continue
            if join.this.args.get("version") is not None:
                table = join.this.copy()
                version = table.args["version"]
                table.set("version", None)
                bind_at = (
                    bind_lookup_join if item.scope.is_process_time(version.expression) else bind_temporal_join
                )
                item = bind_at(join, version, item, self._joined(table, (), ctes))
                continue
            right, beside = self._right(join, [*apart, (item, comma)], ctes)
            if right is None:
                over_comma |= bool(apart) or is_comma(self.context, join)
                item, apart, comma = beside, [], None
            elif is_comma(self.context, join):
                apart.append((item, comma))
                item, comma, over_comma = right, join, False
            else:
                made = self._pairs(join, apart, item, right, ctes)
                over_comma |= made is None
                if over_comma and kind_of(join) in (JoinKind.RIGHT, JoinKind.FULL):
                    self.context.unsupported(
                        join,
                        f"a {kind_of(join)} JOIN whose left side or ON reads what stands before a comma",
                        help="JOIN binds closer than a comma: write CROSS JOIN for the comma to join all that is before it",
                    )
                if made is None:
                    item, apart, comma = crossed([*apart, (item, comma)]), [], None
                    made = self._pairs(join, apart, item, right, ctes)
                    assert made is not None
                item = made
        return crossed([*apart, (item, comma)])

    def _pairs(
        self,
        join: exp.Join,
        before: Sequence[tuple[Item, exp.Join | None]],
        left: Item,
        right: Item,
        ctes: Mapping[str, Node],
    ) -> Item | None:
        """The pairs of rows of two items that are joined; None if ON reads the items before them, which a comma parts.

        Then the pairs of all before it are what is joined, as it is for each of their rows in DuckDB.
        """

        def bind() -> Item:
            if asks_in_on(join) and not is_asof(join):
                return bind_asking_join(join, left, right, self._subqueries(ctes))
            return (bind_asof_join if is_asof(join) else bind_join)(join, left, right)

        if not before or join.args.get("on") is None:
            return bind()
        context = self.context
        rows, warned = OuterRows(crossed(before).scope), len(context.warnings)
        with context.around(rows):
            made = bind()
        if not rows.read:
            return made
        del context.warnings[warned:]
        return None

    def _right(
        self, join: exp.Join, before: Sequence[tuple[Item, exp.Join | None]], ctes: Mapping[str, Node]
    ) -> tuple[Item | None, Item]:
        """What stands behind a JOIN or a comma; or None, and the items before it with it beside each of their rows.

        A query that reads columns of the items before it is LATERAL, whether it says so or not. Within a sub-query names
        mean those before what the outer rows have, as in DuckDB.
        """

        def beside() -> Item:
            return bind_lateral(join, crossed(before), lambda query: self._lateral(query, ctes))

        if is_lateral_query(join):
            return None, beside()
        warned = len(self.context.warnings)
        asks = isinstance(join.this, exp.Subquery | exp.Values)
        try:
            if asks and self.context.outer:
                nearer = OuterRows(crossed(before).scope)
                with self.context.around(nearer):
                    right = self._joined(join.this, (), ctes)
                if nearer.read:
                    del self.context.warnings[warned:]
                    return None, beside()
            else:
                right = self._joined(join.this, (), ctes)
        except DiagnosticError as error:
            if not asks or not is_about_names(error):
                raise
            del self.context.warnings[warned:]
            try:
                return None, beside()
            except DiagnosticError as second:
                same = {d.code for d in error.diagnostics} == {d.code for d in second.diagnostics}
                raise (error if same else second) from None
        return right, right

    def _subqueries(self, ctes: Mapping[str, Node]) -> SubqueryBinder:
        return SubqueryBinder(self.context, lambda inner: self.bind(inner, ctes))

    def _lateral(self, item: exp.Expr, ctes: Mapping[str, Node]) -> tuple[Node, Relation]:
        inner = item if isinstance(item, exp.Values) else item.this.this
        query = as_selects(inner) if isinstance(inner, exp.Values) else item.this
        return self._aliased(self.bind(query, ctes), item.args.get("alias"), item, None)

    def _named_item(self, item: exp.Expr, ctes: Mapping[str, Node]) -> Item:
        if isinstance(item, exp.Subquery) and _in_parentheses(item.this):
            inner = self._joined(item.this, (), ctes)
            alias = item.args.get("alias")
            if alias is None:
                return inner
            shown = tuple(f for r in inner.scope.relations for f in r.bare)
            rows = Project(inner.node, shown, tuple(column(f.id) for f in shown))
            node, relation = self._aliased(rows, alias, item, None)
            return Item(node, Scope(self.context, (relation,)))
        node, relation = self._item(item, ctes)
        node, relations = with_rowid(self.context, item, ctes, node, relation)
        return Item(node, Scope(self.context, relations))

    def _pivot(self, pivot: exp.Pivot, node: Node, ctes: Mapping[str, Node]) -> Node:
        """PIVOT or UNPIVOT of the rows of `node`."""
        rows = self.context.new_id("pivoted")
        return self.bind(pivot_query(self.context, pivot, node.fields, rows), {**ctes, rows: node})

    def _item(self, item: exp.Expr, ctes: Mapping[str, Node]) -> tuple[Node, Relation]:
        if isinstance(item, exp.Pivot):
            node = self.bind(item, ctes)
            return node, Relation(None, node.fields)
        *before, pivot = item.args.get("pivots") or [None]
        if pivot is not None:
            inner = item.copy()
            inner.set("pivots", before)
            node, _ = self._item(inner, ctes)
            return self._aliased(self._pivot(pivot, node, ctes), pivot.args.get("alias"), item, None)
        sample = item.args.get("sample")
        if sample is not None:
            inner = item.copy()
            inner.set("sample", None)
            node, relation = self._item(inner, ctes)
            scope = Scope(self.context, (relation,))
            return self._filter(sampled(self.context, sample), node, scope, "TABLESAMPLE"), relation
        self._refuse(item, _TABLE_CLAUSES)
        if item.args.get("ordinality") and series_call(item) is None:
            self.context.unsupported(item, "WITH ORDINALITY behind a table")
        for hint in item.args.get("hints") or []:
            warn_hint(self.context, hint)
        alias = item.args.get("alias")
        if isinstance(item, exp.Table) and isinstance(item.this, WindowTvf):
            data, table = self._data(item.this.args["data"], ctes)
            try:
                bound = bind_tvf(self.context, item.this, data, table)
            except DiagnosticError as error:
                error = with_time_lost(error, data)
                select = item.find_ancestor(exp.Select)
                if select is None or select.args.get("joins"):
                    raise error from None
                relation = windowed(data, alias.name if alias is not None else None)
                raise with_unknown_names(error, self.context, select, [relation]) from None
            return self._aliased(bound, alias, item, None)
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            bound, table = self._data(item, ctes)
            return self._aliased(bound, alias, item, table)
        if isinstance(item, exp.Subquery):
            return self._aliased(self.bind(item.this, ctes), alias, item, None)
        if isinstance(item, exp.Values):
            return self._aliased(self._values(item, ctes), alias, item, None)
        array = series_call(item) or written_array(self.context, item)
        if array is not None:
            one = no_rows_but_one(self.context, item)
            array, node, scope = self._subqueries(ctes).below(array, one, Scope(self.context, ()))
            return bind_first_unnest(self.context, item, array, node, scope)
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Anonymous):
            self.context.unsupported(
                item,
                f"the table function {item.this.name.upper()}",
                help="RANGE, GENERATE_SERIES and UNNEST can; files are read as a table: CREATE TABLE t (…) WITH "
                "('connector' = 'filesystem', 'path' = '…', 'format' = '…')",
            )
        name = duckdb_sql(item.this) if isinstance(item.this, exp.Expr) else "this"
        self.context.unsupported(item, f"{name} in FROM")

    def _data(self, item: exp.Expr, ctes: Mapping[str, Node]) -> tuple[Node, str]:
        if isinstance(item, exp.Subquery):
            return self.bind(item.this, ctes), item.alias or "the sub-query"
        assert isinstance(item, exp.Table)
        if not item.args.get("db") and item.name.lower() in ctes:
            return self._reference(ctes[item.name.lower()]), item.name
        with self.context.apart_from_rows():
            return self.tables(item), item.name

    def _reference(self, node: Node) -> Node:
        """A reference to a shared node under ids of its own."""
        fields = tuple(fresh(f, self.context) for f in node.fields)
        return Project(node, fields, tuple(column(f.id) for f in node.fields))

    def _aliased(
        self, node: Node, alias: exp.Expr | None, item: exp.Expr, table: str | None
    ) -> tuple[Node, Relation]:
        name = alias.name if alias is not None and alias.name else table
        if alias is not None:
            node = self._renamed(node, alias, item)
        return node, Relation(name, told_apart(node.fields))

    def _renamed(self, node: Node, alias: exp.Expr, at: exp.Expr) -> Node:
        columns = alias.args.get("columns") or []
        if not columns:
            return node
        if len(columns) > len(node.fields):
            self.context.fail(
                at,
                "SQL032",
                f"`{alias.name}` names {len(columns)} columns, but the query gives {len(node.fields)}",
                notes=(f"it gives {', '.join(f.name for f in node.fields)}",),
            )
        names = [c.name for c in columns] + [f.name for f in node.fields[len(columns) :]]
        fields = tuple(fresh(f, self.context, n) for f, n in zip(node.fields, names, strict=True))
        return Project(node, fields, tuple(column(f.id) for f in node.fields))

    # ---------------------------------------------------------------------------------------------- refusals

    def _refuse(self, node: exp.Expr, clauses: Mapping[str, str]) -> None:
        for key, what in clauses.items():
            found = node.args.get(key)
            if found and what:
                at = found[0] if isinstance(found, list) else found
                self.context.unsupported(
                    at if isinstance(at, exp.Expr) else node, what, help=_INSTEAD.get(what)
                )


#: From how many queries on a chain of UNION ALL is bound at once: pair by pair takes a time that is quadratic.
_CHAIN = 32


def _long_union_all(query: exp.Expr) -> list[exp.Expr]:
    """The queries of a long chain of nothing but UNION ALL, in their order; none if it is no such chain."""
    found: list[exp.Expr] = []
    while isinstance(query, exp.Union):
        given = {key for key, value in query.args.items() if value and key not in ("this", "expression")}
        if (given and found) or query.args.get("distinct") or query.args.get("by_name"):
            break
        found.append(query.expression)
        query = query.this
    return [query, *reversed(found)] if len(found) >= _CHAIN else []


def _in_parentheses(item: exp.Expr) -> bool:
    """Whether what stands in parentheses in FROM is an item of FROM or a join, not a query."""
    if not isinstance(item, exp.Subquery):
        return not isinstance(item, exp.Query)
    return bool(item.args.get("joins") or item.args.get("alias")) or _in_parentheses(item.this)


def _is_union_all(node: Node) -> bool:
    return isinstance(node, SetOperation) and node.is_union_all


def _of_its_types(union: Node) -> bool:
    """Whether the branches of a UNION ALL have the types of its columns."""
    types = [f.type for f in union.fields]
    return all([f.type for f in branch.fields] == types for branch in union.inputs)


def _combines(node: exp.Expr) -> str:
    """The set operation that `node` is, as it is written; several INSERTs into one table are a UNION ALL."""
    if not isinstance(node, exp.SetOperation):
        return "UNION ALL"
    return type(node).__name__.upper() + ("" if node.args.get("distinct") else " ALL")


def _common_time(times: list[EventTime | None]) -> EventTime | None:
    known = [t for t in times if t is not None]
    if len(known) != len(times):
        return None
    sources = tuple(dict.fromkeys(s for t in known for s in t.sources))
    return EventTime(
        sources,
        min(t.tick_us for t in known),
        any(t.direct for t in known),
        max(t.delay_us for t in known),
    )
