"""Queries: SELECT, CTEs, views and sub-queries as logical nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_planner.bind.aggregate import bind_aggregate, is_aggregate_query
from sqlstream_planner.bind.clauses import QUERY_CLAUSES, filtered, refuse_clauses, state_ttl
from sqlstream_planner.bind.column_lists import with_columns
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.from_items import FromItems, TableLookup
from sqlstream_planner.bind.item_names import beside, with_item_names, without_names
from sqlstream_planner.bind.items import expand_items, project
from sqlstream_planner.bind.joins import (
    bounded_by,
    with_time_lost,
)
from sqlstream_planner.bind.limits import bind_limit, has_limit, with_ordered, without_last
from sqlstream_planner.bind.lost_orders import has_lost_order, settle_orders, without_order
from sqlstream_planner.bind.names import with_unknown_names
from sqlstream_planner.bind.order_terms import DistinctRows
from sqlstream_planner.bind.outer_calls import with_outer_calls
from sqlstream_planner.bind.over import bind_overs
from sqlstream_planner.bind.ranked_groups import ranks_groups, split
from sqlstream_planner.bind.references import renamed
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.sample import sampled
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.select_unnest import with_unnested
from sqlstream_planner.bind.set_operations import bind_set_operation
from sqlstream_planner.bind.sets import distinct
from sqlstream_planner.bind.subqueries import SubqueryBinder, apart
from sqlstream_planner.bind.where_aliases import with_aliases, with_compared_names
from sqlstream_planner.bind.written_orders import WrittenOrders
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.logical import (
    EmitOnClose,
    Node,
    Project,
)


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
            refuse_clauses(self.context, query, QUERY_CLAUSES)
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
                ctes[cte.alias.lower()] = renamed(self.context, bound, cte.args["alias"], cte)
        order = query.args.get("order")
        for term in order.expressions if order is not None else ():
            if term.args.get("with_fill"):
                self.context.unsupported(term, "WITH FILL behind ORDER BY")
        if isinstance(query, exp.SetOperation):
            combined = bind_set_operation(self.context, query, lambda part: self.bind(part, ctes))
            if not has_limit(query):
                return combined
            return bind_limit(self.context, query, combined, subqueries=self._subqueries(ctes))
        if isinstance(query, exp.Select):
            return self._select(query, ctes)
        if isinstance(query, exp.Values):
            return self._from(ctes).values(query)
        if isinstance(query, exp.Pivot):
            return self._from(ctes).pivoted(query)
        self.context.unsupported(query, type(query).__name__.upper())

    # ----------------------------------------------------------------------------------------------- SELECT

    def _select(self, query: exp.Select, ctes: Mapping[str, Node]) -> Node:
        sample = query.args.get("sample")
        if sample is not None:
            query = query.copy()
            query.set("sample", None)
        refuse_clauses(self.context, query, {**QUERY_CLAUSES, "kind": "SELECT AS STRUCT and SELECT AS VALUE"})
        clauses = self.context.clauses
        ttl_us, around = state_ttl(self.context, query), clauses.join_ttl_us
        clauses.join_ttl_us = ttl_us
        try:
            node, scope = self._from(ctes).of(query)
        finally:
            clauses.join_ttl_us = around
        clauses.ttl_us = ttl_us
        if sample is not None:
            node = filtered(self.context, sampled(self.context, sample), node, scope, "USING SAMPLE")
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
                node = bounded_by(
                    filtered(self.context, predicate, node, inner, "WHERE"), self.context.facts.timed
                )
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
            node = filtered(self.context, qualify.this, node, aliased, "QUALIFY")
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

    def _from(self, ctes: Mapping[str, Node]) -> FromItems:
        return FromItems(self.context, self.tables, self.bind, ctes)

    def _subqueries(self, ctes: Mapping[str, Node]) -> SubqueryBinder:
        return SubqueryBinder(self.context, lambda inner: self.bind(inner, ctes))
