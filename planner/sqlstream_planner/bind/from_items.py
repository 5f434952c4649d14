"""FROM: tables, sub-queries, table functions and pivots, and how they are joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_planner.bind.as_of import bind_asof_join, bind_temporal_join, is_asof
from sqlstream_planner.bind.asking_joins import asks_in_on, bind_asking_join
from sqlstream_planner.bind.clauses import (
    TABLE_CLAUSES,
    filtered,
    refuse_clauses,
    warn_hint,
)
from sqlstream_planner.bind.context import BindContext, OuterRows
from sqlstream_planner.bind.joins import (
    Item,
    bind_join,
    crossed,
    is_comma,
    kind_of,
    with_time_lost,
)
from sqlstream_planner.bind.lateral import bind_lateral, is_about_names, is_lateral_query
from sqlstream_planner.bind.lateral_view import bind_lateral_view
from sqlstream_planner.bind.lookup import bind_lookup_join
from sqlstream_planner.bind.names import windowed, with_unknown_names
from sqlstream_planner.bind.pivot import pivot_query
from sqlstream_planner.bind.references import aliased, reference
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.rowid import with_rowid
from sqlstream_planner.bind.sample import sampled
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.bind.subqueries import SubqueryBinder
from sqlstream_planner.bind.unnest import (
    bind_first_unnest,
    bind_unnest,
    series_call,
    unnested_array,
    written_array,
)
from sqlstream_planner.bind.values import as_selects, asks, bind_values, no_rows_but_one
from sqlstream_planner.bind.windows import bind_tvf
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.logical import (
    JoinKind,
    Node,
    Project,
    column,
)
from sqlstream_planner.sql.dialect import WindowTvf, duckdb_sql

#: Finds a table or view by name and binds a reference to it.
TableLookup = Callable[[exp.Table], Node]


@dataclass(frozen=True, slots=True)
class FromItems:
    """Binds FROM of the queries that see `ctes`; `tables` resolves names that are no CTE, `bind` binds a query."""

    context: BindContext
    tables: TableLookup
    bind: Callable[[exp.Expr, Mapping[str, Node]], Node]
    ctes: Mapping[str, Node]

    def values(self, values: exp.Values) -> Node:
        """VALUES as rows."""
        return self._bind(as_selects(values)) if asks(values) else bind_values(self.context, values)

    def of(self, query: exp.Select) -> tuple[Node, Scope]:
        """The rows of a query's FROM and what its names mean. Raises DiagnosticError."""
        from_ = query.args.get("from_") or query.args.get("from")
        if from_ is None:
            return no_rows_but_one(self.context, query), Scope(self.context, ())
        item = self._joined(from_.this, query.args.get("joins") or [])
        node, scope = item.node, item.scope
        for view in query.args.get("laterals") or []:
            node, scope = bind_lateral_view(self.context, view, node, scope)
        return node, scope

    def _joined(self, first: exp.Expr, joins: Sequence[exp.Join]) -> Item:
        """An item of FROM and what is joined with it; JOIN binds closer than a comma."""
        apart: list[tuple[Item, exp.Join | None]] = []
        item = self._named_item(first)
        comma: exp.Join | None = None
        over_comma = False  # whether `item` has rows of before the last comma, too
        for join in [*(first.args.get("joins") or []), *joins]:
            array = None if is_lateral_query(join) else unnested_array(self.context, join)
            if array is not None:
                over_comma |= bool(apart) or is_comma(self.context, join)
                item, comma = crossed([*apart, (item, comma)]), None
                array, node, scope = self._subqueries().below(array, item.node, item.scope)
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
                item = bind_at(join, version, item, self._joined(table, ()))
                continue
            right, beside = self._right(join, [*apart, (item, comma)])
            if right is None:
                over_comma |= bool(apart) or is_comma(self.context, join)
                item, apart, comma = beside, [], None
            elif is_comma(self.context, join):
                apart.append((item, comma))
                item, comma, over_comma = right, join, False
            else:
                made = self._pairs(join, apart, item, right)
                over_comma |= made is None
                if over_comma and kind_of(join) in (JoinKind.RIGHT, JoinKind.FULL):
                    self.context.unsupported(
                        join,
                        f"a {kind_of(join)} JOIN whose left side or ON reads what stands before a comma",
                        help="JOIN binds closer than a comma: write CROSS JOIN for the comma to join all that is before it",
                    )
                if made is None:
                    item, apart, comma = crossed([*apart, (item, comma)]), [], None
                    made = self._pairs(join, apart, item, right)
                    assert made is not None
                item = made
        return crossed([*apart, (item, comma)])

    def _pairs(
        self,
        join: exp.Join,
        before: Sequence[tuple[Item, exp.Join | None]],
        left: Item,
        right: Item,
    ) -> Item | None:
        """The pairs of rows of two items that are joined; None if ON reads the items before them, which a comma parts.

        Then the pairs of all before it are what is joined, as it is for each of their rows in DuckDB.
        """

        def bind() -> Item:
            if asks_in_on(join) and not is_asof(join):
                return bind_asking_join(join, left, right, self._subqueries())
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
        self, join: exp.Join, before: Sequence[tuple[Item, exp.Join | None]]
    ) -> tuple[Item | None, Item]:
        """What stands behind a JOIN or a comma; or None, and the items before it with it beside each of their rows.

        A query that reads columns of the items before it is LATERAL, whether it says so or not. Within a sub-query names
        mean those before what the outer rows have, as in DuckDB.
        """

        def beside() -> Item:
            return bind_lateral(join, crossed(before), lambda query: self._lateral(query))

        if is_lateral_query(join):
            return None, beside()
        warned = len(self.context.warnings)
        asks = isinstance(join.this, exp.Subquery | exp.Values)
        try:
            if asks and self.context.outer:
                nearer = OuterRows(crossed(before).scope)
                with self.context.around(nearer):
                    right = self._joined(join.this, ())
                if nearer.read:
                    del self.context.warnings[warned:]
                    return None, beside()
            else:
                right = self._joined(join.this, ())
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

    def _lateral(self, item: exp.Expr) -> tuple[Node, Relation]:
        inner = item if isinstance(item, exp.Values) else item.this.this
        query = as_selects(inner) if isinstance(inner, exp.Values) else item.this
        return aliased(self.context, self._bind(query), item.args.get("alias"), item, None)

    def _named_item(self, item: exp.Expr) -> Item:
        if isinstance(item, exp.Subquery) and _in_parentheses(item.this):
            inner = self._joined(item.this, ())
            alias = item.args.get("alias")
            if alias is None:
                return inner
            shown = tuple(f for r in inner.scope.relations for f in r.bare)
            rows = Project(inner.node, shown, tuple(column(f.id) for f in shown))
            node, relation = aliased(self.context, rows, alias, item, None)
            return Item(node, Scope(self.context, (relation,)))
        node, relation = self._item(item)
        node, relations = with_rowid(self.context, item, self.ctes, node, relation)
        return Item(node, Scope(self.context, relations))

    def pivoted(self, pivot: exp.Pivot) -> Node:
        """PIVOT or UNPIVOT of an item of FROM, as a query."""
        return self._pivot(pivot, self._item(pivot.this)[0])

    def _pivot(self, pivot: exp.Pivot, node: Node) -> Node:
        """PIVOT or UNPIVOT of the rows of `node`."""
        rows = self.context.new_id("pivoted")
        query = pivot_query(self.context, pivot, node.fields, rows)
        return self.bind(query, {**self.ctes, rows: node})

    def _item(self, item: exp.Expr) -> tuple[Node, Relation]:
        if isinstance(item, exp.Pivot):
            node = self._bind(item)
            return node, Relation(None, node.fields)
        *before, pivot = item.args.get("pivots") or [None]
        if pivot is not None:
            inner = item.copy()
            inner.set("pivots", before)
            node, _ = self._item(inner)
            return aliased(self.context, self._pivot(pivot, node), pivot.args.get("alias"), item, None)
        sample = item.args.get("sample")
        if sample is not None:
            inner = item.copy()
            inner.set("sample", None)
            node, relation = self._item(inner)
            scope = Scope(self.context, (relation,))
            return filtered(self.context, sampled(self.context, sample), node, scope, "TABLESAMPLE"), relation
        refuse_clauses(self.context, item, TABLE_CLAUSES)
        if item.args.get("ordinality") and series_call(item) is None:
            self.context.unsupported(item, "WITH ORDINALITY behind a table")
        for hint in item.args.get("hints") or []:
            warn_hint(self.context, hint)
        alias = item.args.get("alias")
        if isinstance(item, exp.Table) and isinstance(item.this, WindowTvf):
            data, table = self._data(item.this.args["data"])
            try:
                bound = bind_tvf(self.context, item.this, data, table)
            except DiagnosticError as error:
                error = with_time_lost(error, data)
                select = item.find_ancestor(exp.Select)
                if select is None or select.args.get("joins"):
                    raise error from None
                relation = windowed(data, alias.name if alias is not None else None)
                raise with_unknown_names(error, self.context, select, [relation]) from None
            return aliased(self.context, bound, alias, item, None)
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            bound, table = self._data(item)
            return aliased(self.context, bound, alias, item, table)
        if isinstance(item, exp.Subquery):
            return aliased(self.context, self._bind(item.this), alias, item, None)
        if isinstance(item, exp.Values):
            return aliased(self.context, self.values(item), alias, item, None)
        array = series_call(item) or written_array(self.context, item)
        if array is not None:
            one = no_rows_but_one(self.context, item)
            array, node, scope = self._subqueries().below(array, one, Scope(self.context, ()))
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

    def _data(self, item: exp.Expr) -> tuple[Node, str]:
        if isinstance(item, exp.Subquery):
            return self._bind(item.this), item.alias or "the sub-query"
        assert isinstance(item, exp.Table)
        if not item.args.get("db") and item.name.lower() in self.ctes:
            return reference(self.context, self.ctes[item.name.lower()]), item.name
        with self.context.apart_from_rows():
            return self.tables(item), item.name

    def _bind(self, query: exp.Expr) -> Node:
        return self.bind(query, self.ctes)

    def _subqueries(self) -> SubqueryBinder:
        return SubqueryBinder(self.context, self._bind)


def _in_parentheses(item: exp.Expr) -> bool:
    """Whether what stands in parentheses in FROM is an item of FROM or a join, not a query."""
    if not isinstance(item, exp.Subquery):
        return not isinstance(item, exp.Query)
    return bool(item.args.get("joins") or item.args.get("alias")) or _in_parentheses(item.this)
