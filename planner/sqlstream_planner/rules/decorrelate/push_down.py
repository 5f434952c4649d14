"""A sub-query for every distinct value of what it reads of the outer rows: the general way (Neumann and Kemper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn, TypeVar

from sqlglot import exp

from sqlstream_planner.diagnostics import not_run_yet
from sqlstream_planner.logical import (
    Aggregate,
    ColumnId,
    Field,
    Filter,
    Join,
    JoinKind,
    Node,
    OrderLimit,
    OverWindow,
    Project,
    SetOperation,
    Unnest,
    Values,
    column,
    substitute,
    union_all,
)
from sqlstream_planner.rules.decorrelate.pull_up import empty_value
from sqlstream_planner.rules.decorrelate.ranked import by_more, limited
from sqlstream_planner.rules.decorrelate.subquery import Subquery, same, timeless

_RankedT = TypeVar("_RankedT", OverWindow, OrderLimit)


@dataclass(frozen=True, slots=True)
class Pushed:
    """The rows of a query for all distinct values of what it reads; `columns` have these, by the outer columns."""

    node: Node
    columns: Mapping[str, str]

    def over(self, expression: exp.Expr) -> exp.Expr:
        """An expression that reads of the outer rows what stands in the columns."""
        return substitute(expression, {name: column(id_) for name, id_ in self.columns.items()})


class PushDown:
    """Gives a sub-query its rows for all distinct values of what it reads of the outer rows.

    `more` are expressions over these rows whose values are distinguished as well, by names that are to be found in the
    columns. The distinct values are joined with what does not read them, at the lowest place, and go up from there: into
    the keys of groups, partitions, branches. An aggregate that gives a row over no rows gives one for each value.
    """

    def __init__(self, subquery: Subquery, more: Sequence[tuple[Field, exp.Expr]] = ()) -> None:
        self._subquery = subquery
        wanted: list[tuple[str, Field, exp.Expr]] = [
            (name, f, column(f.id)) for name, f in subquery.outer.items()
        ]
        wanted += [(f.id, f, e) for f, e in more]
        #: By the outer columns: what is called so in the outer query, with its type.
        self.fields = {name: f for name, f, _ in wanted}
        #: By the same, its value for a row around.
        self.values = {name: e for name, _, e in wanted}
        keys = tuple(subquery.like("value", f) for _, f, _ in wanted)
        self._names = tuple(name for name, _, _ in wanted)
        self._distinct = Aggregate(
            subquery.apply.input,
            keys,
            tuple(e for _, _, e in wanted),
            (tuple(range(len(keys))),),
            None,
            (),
            at=subquery.apply.at,
        )

    def same(self, columns: Mapping[str, str], other: Mapping[str, str] | None = None) -> list[exp.Expr]:
        """That the values in `columns` are those in `other` columns, or those of a row around."""
        return [
            same(
                self.values[name] if other is None else column(other[name]),
                column(columns[name]),
                nullable=self.fields[name].nullable,
            )
            for name in self._names
        ]

    def rows(self, node: Node) -> Pushed:
        """The rows of a node of the query. Raises DiagnosticError for what has no meaning for many values at once."""
        if isinstance(node, Values):
            return self._values(node)
        if not self._subquery.reads(node):
            made = self._copy()
            return Pushed(Join(made.node, node, JoinKind.CROSS, None), made.columns)
        match node:
            case Project():
                below = self.rows(node.input)
                fields = (*timeless(node.fields), *self._fields(below))
                items = (*(below.over(e) for e in node.items), *map(column, below.columns.values()))
                return replace(below, node=Project(below.node, fields, items))
            case Filter():
                below = self.rows(node.input)
                return replace(below, node=Filter(below.node, below.over(node.predicate), node.at))
            case Unnest():
                below = self.rows(node.input)
                return replace(below, node=replace(node, input=below.node, array=below.over(node.array)))
            case Join():
                return self._joined(node)
            case Aggregate():
                return self._grouped(node)
            case SetOperation():
                return self._combined(node)
            case OverWindow():
                below = self.rows(node.input)
                over = replace(self._moved(node, below), input=below.node)
                return replace(below, node=by_more(over, list(below.columns.values())))
            case OrderLimit():
                below = self.rows(node.input)
                moved = self._moved(node, below)
                return replace(
                    below, node=limited(self._subquery, moved, below.node, list(below.columns.values()))
                )
        self._refuse("a sub-query that reads columns of its outer query below a window")

    def _copy(self) -> Pushed:
        """The distinct values under ids of their own."""
        fields = tuple(self._subquery.like("value", f) for f in self._distinct.keys)
        node = Project(self._distinct, fields, tuple(column(f.id) for f in self._distinct.keys))
        return Pushed(node, dict(zip(self._names, (f.id for f in fields), strict=True)))

    def _fields(self, pushed: Pushed) -> tuple[Field, ...]:
        known = {f.id: f for f in pushed.node.fields}
        return tuple(known[id_] for id_ in pushed.columns.values())

    def _moved(self, node: _RankedT, below: Pushed) -> _RankedT:
        made = node.with_expressions(below.over)
        return made.with_references(lambda r: ColumnId(below.columns.get(r, r)))

    def _joined(self, node: Join) -> Pushed:
        kind = node.kind
        reads = self._subquery.reads(node.left), self._subquery.reads(node.right)
        left_alone = not reads[1] and kind not in (JoinKind.RIGHT, JoinKind.FULL)
        right_alone = not reads[0] and kind in (JoinKind.INNER, JoinKind.CROSS, JoinKind.RIGHT)
        terms: list[exp.Expr] = []
        if left_alone:
            made = self.rows(node.left)
            left, right = made.node, node.right
        elif right_alone:
            made = self.rows(node.right)
            left, right = node.left, made.node
        else:
            first, second = self.rows(node.left), self.rows(node.right)
            left, right = first.node, second.node
            terms = self.same(second.columns, first.columns)
            made = second if kind is JoinKind.RIGHT else first
        if node.condition is not None:
            terms.append(made.over(node.condition))
        if kind is JoinKind.CROSS and terms:
            kind = JoinKind.INNER
        condition = exp.and_(*terms) if terms else None
        pairs = replace(node, left=left, right=right, kind=kind, condition=condition, bound=None)
        if kind is not JoinKind.FULL:
            return replace(made, node=pairs)
        # Of a row without a partner the other side's values are NULL, and those that are not are the same.
        fields = tuple(self._subquery.new("value", f.type) for f in self._fields(first))
        items = tuple(
            exp.Coalesce(this=column(first.columns[name]), expressions=[column(second.columns[name])])
            for name in self._names
        )
        known = timeless(node.fields)
        shown = Project(pairs, (*known, *fields), (*(column(f.id) for f in known), *items))
        return Pushed(shown, dict(zip(self._names, (f.id for f in fields), strict=True)))

    def _grouped(self, node: Aggregate) -> Pushed:
        if any(f.window is not None for f in node.keys):
            self._refuse("a sub-query that reads columns of its outer query below a window")
        below = self.rows(node.input)
        values = self._fields(below)
        fresh = tuple(self._subquery.like("value", f) for f in values)
        columns = dict(zip(self._names, (f.id for f in fresh), strict=True))
        whole = () in node.sets and len(node.sets) == 1
        if () in node.sets and not whole:
            self._refuse("the grand total of a sub-query that reads columns of its outer query")
        # Before the other keys, so that the bits of a grouping id stay where they are.
        moved = node.with_expressions(below.over)
        keys = (*fresh, *timeless(node.keys))
        groups = replace(
            moved,
            input=below.node,
            keys=keys,
            key_expressions=(*(column(f.id) for f in values), *moved.key_expressions),
            sets=tuple((*range(len(fresh)), *(n + len(fresh) for n in chosen)) for chosen in node.sets),
        )
        if not whole:
            return Pushed(groups, columns)
        all_ = self._copy()
        join = Join(all_.node, groups, JoinKind.LEFT, exp.and_(*self.same(columns, all_.columns)))
        items = tuple(exp.Coalesce(this=column(c.field.id), expressions=[empty_value(c)]) for c in node.calls)
        given = self._fields(all_)
        # The results under their own ids, which the join has already: they are computed anew.
        shown = Project(
            join, (*(c.field for c in node.calls), *given), (*items, *(column(f.id) for f in given))
        )
        return Pushed(shown, all_.columns)

    def _combined(self, node: SetOperation) -> Pushed:
        branches = []
        for branch in node.branches:
            below = self.rows(branch)
            values = self._fields(below)
            fields = (*timeless(branch.fields), *(self._subquery.like("value", f) for f in values))
            items = (*(column(f.id) for f in branch.fields), *(column(f.id) for f in values))
            branches.append(Project(below.node, fields, items))
        fresh = tuple(self._subquery.like("value", self.fields[name]) for name in self._names)
        made = replace(node, branches=tuple(branches), fields=(*timeless(node.fields), *fresh))
        return Pushed(made, dict(zip(self._names, (f.id for f in fresh), strict=True)))

    def _values(self, node: Values) -> Pushed:
        if len(node.rows) == 1:
            made = self._copy()
            fields = (*node.fields, *self._fields(made))
            items = (*(made.over(e) for e in node.rows[0]), *map(column, made.columns.values()))
            return replace(made, node=Project(made.node, fields, items))
        parts = []
        for row in node.rows:
            made = self._copy()
            fields = tuple(self._subquery.like("given", f) for f in node.fields)
            items = tuple(made.over(e) for e in row)
            values = self._fields(made)
            shown = Project(made.node, (*fields, *values), (*items, *(column(f.id) for f in values)))
            parts.append(shown)
        fresh = tuple(self._subquery.like("value", f) for f in self._distinct.keys)
        columns = dict(zip(self._names, (f.id for f in fresh), strict=True))
        return Pushed(union_all(parts, (*node.fields, *fresh)), columns)

    def _refuse(self, what: str) -> NoReturn:
        not_run_yet(self._subquery.apply.at, what, "write it as a JOIN")
