"""GROUP BY: its keys, and the grouping sets that GROUPING SETS, ROLLUP and CUBE stand for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from sqlstream_planner.bind.aggregate_calls import aggregate_calls, is_aggregate_call
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.group_window import GROUP_WINDOWS, window_column
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.sql.as_written import without_parentheses
from sqlstream_planner.sql.dialect import function_name

MOST_SETS = 65_535
"""How many grouping sets a GROUP BY may have."""


@dataclass(slots=True)
class GroupBy:
    """GROUP BY, resolved: plain keys and what each grouping set has of them; `form_of` says which keys are equal."""

    form_of: Callable[[exp.Expr], str]
    keys: list[exp.Expr] = field(default_factory=list)
    forms: list[str] = field(default_factory=list)
    sets: list[tuple[int, ...]] = field(default_factory=list)
    several: bool = False

    def key(self, expression: exp.Expr) -> int:
        """The position of a key, added if it is new."""
        form = self.form_of(expression)
        if form not in self.forms:
            self.forms.append(form)
            self.keys.append(expression)
        return self.forms.index(form)


def read_group_by(
    context: BindContext,
    group: exp.Expr | None,
    items: list[tuple[str, exp.Expr]],
    scope: Scope,
    *,
    having: exp.Expr | None,
    windowed: bool,
) -> GroupBy:
    """GROUP BY of a SELECT with the list `items` and the resolved condition `having`.

    `windowed`: it has a window function of its own.

    Raises DiagnosticError.
    """
    return _Reader(context, items, scope, having, windowed).read(group)


class _Reader:
    def __init__(
        self,
        context: BindContext,
        items: list[tuple[str, exp.Expr]],
        scope: Scope,
        having: exp.Expr | None,
        windowed: bool,
    ) -> None:
        self._context = context
        self._items = items
        self._scope = scope
        self._having = having
        self._windowed = windowed
        self._group_by = GroupBy(lambda expression: context.form(expression, scope.fields))

    def read(self, group: exp.Expr | None) -> GroupBy:
        group_by = self._group_by
        if group is None:
            group_by.sets = [()]
            return group_by
        if group.args.get("totals"):
            self._context.unsupported(group, "WITH TOTALS")
        elements: list[list[tuple[int, ...]]] = []
        if group.args.get("all") and group.expressions:
            self._context.unsupported(
                group,
                "GROUP BY ALL with keys behind it",
                help="write GROUP BY ALL, or list the keys without ALL",
            )
        if group.args.get("all"):
            plain = [e for _, e in self._items if not aggregate_calls(e)]
            elements += [[(group_by.key(e),)] for e in plain]
            more = self._read_of_rows(self._having) if self._having is not None else []
            elements += [[(group_by.key(e),)] for e in more]
        for element in group.expressions:
            if self._windowed and function_name(element) in GROUP_WINDOWS:
                elements.append([tuple(self._key(window_column(role)) for role in ("start", "end"))])
            else:
                elements.append(self._element(element))
        for suffix in group.args.get("grouping_sets") or []:
            self._context.unsupported(
                suffix,
                "GROUP BY keys GROUPING SETS",
                help="leave the keys before it out: GROUP BY GROUPING SETS ((a, b), (a))",
            )
        if group.args.get("rollup") or group.args.get("cube"):
            if group.args.get("cube"):
                self._check_number(group, 2 ** len(elements))
            elements = [self._with_suffix(group, elements)]
        self._check_number(group, math.prod(map(len, elements)))
        for combination in itertools.product(*elements):
            group_by.sets.append(tuple(dict.fromkeys(i for part in combination for i in part)))
        if group.args.get("all") is False:  # GROUP BY DISTINCT: sets of the same keys are one
            group_by.sets = list({frozenset(keys): keys for keys in reversed(group_by.sets)}.values())[::-1]
        group_by.several = len(group_by.sets) > 1 or any(
            isinstance(e, exp.GroupingSets | exp.Rollup | exp.Cube)
            for e in group.find_all(exp.GroupingSets, exp.Rollup, exp.Cube)
        )
        return group_by

    def _read_of_rows(self, condition: exp.Expr) -> list[exp.Expr]:
        """The columns of rows that a condition on groups reads: with GROUP BY ALL these are keys, too."""
        if is_aggregate_call(condition) or self._group_by.form_of(condition) in self._group_by.forms:
            return []
        if isinstance(condition, exp.Column):
            return [condition] if self._scope.by_id(condition.name) is not None else []
        return [c for part in condition.iter_expressions() for c in self._read_of_rows(part)]

    def _with_suffix(self, group: exp.Expr, elements: list[list[tuple[int, ...]]]) -> list[tuple[int, ...]]:
        """The sets of `GROUP BY a, b WITH ROLLUP` (or CUBE): sqlglot gives the keys, and a ROLLUP of nothing."""
        rollup = bool(group.args.get("rollup"))
        if any(len(alternatives) != 1 for alternatives in elements):
            self._context.unsupported(
                group, f"WITH {'ROLLUP' if rollup else 'CUBE'} behind other grouping sets"
            )
        return _subsets([alternatives[0] for alternatives in elements], rollup=rollup)

    def _element(self, element: exp.Expr) -> list[tuple[int, ...]]:
        """The alternatives that one element of GROUP BY stands for, each a tuple of key positions."""
        if isinstance(element, exp.GroupingSets):
            return [s for e in element.expressions for s in self._element(e)]
        if isinstance(element, exp.Rollup | exp.Cube):
            parts = [self._members(e) for e in element.expressions]
            if isinstance(element, exp.Cube):
                self._check_number(element, 2 ** len(parts))
            return _subsets(parts, rollup=isinstance(element, exp.Rollup))
        return [self._members(element)]

    def _check_number(self, at: exp.Expr, number: int) -> None:
        if number > MOST_SETS:
            self._context.fail(
                at,
                "SQL046",
                f"GROUP BY of {number:,} grouping sets: {MOST_SETS:,} are the most, as in DuckDB",
                help="list those that you want: GROUP BY GROUPING SETS ((a, b), (a), ())",
            )

    def _members(self, element: exp.Expr) -> tuple[int, ...]:
        if isinstance(element, exp.Paren):
            return self._members(element.this)
        if isinstance(element, exp.Tuple):
            return tuple(i for e in element.expressions for i in self._members(e))
        return (self._key(element),)

    def _key(self, element: exp.Expr) -> int:
        number = _number(element)
        if number is not None and not number.removeprefix("-").isdigit():
            self._context.fail(
                element,
                "SQL042",
                f"GROUP BY {number}, a constant: it makes one group of all rows",
                help="leave it out, or write the position of an item of the SELECT list",
            )
        if number is not None:
            position = int(number)
            if not 1 <= position <= len(self._items):
                self._context.fail(
                    element,
                    "SQL042",
                    f"GROUP BY {position}, but the SELECT list has {counted(len(self._items), 'item')}",
                )
            expression = self._items[position - 1][1]
        else:
            aliases = {name.lower(): e for name, e in self._items}
            inner = Scope(self._context, self._scope.relations, aliases)
            expression = self._context.translated(inner.resolve(element), self._scope.fields)
        expression = without_parentheses(expression)
        inner_aggregates = aggregate_calls(expression)
        if inner_aggregates:
            self._context.fail(
                element,
                "SQL043",
                "GROUP BY an aggregate",
                help="aggregate in a sub-query, and group its result",
            )
        return self._group_by.key(expression)


def _number(element: exp.Expr) -> str | None:
    """The number that a key is, with its sign; None for what is no literal."""
    bare = element.unnest()
    negative = isinstance(bare, exp.Neg)
    literal = bare.this.unnest() if negative else bare
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    return f"{'-' if negative else ''}{literal.this}"


def _subsets(parts: list[tuple[int, ...]], *, rollup: bool) -> list[tuple[int, ...]]:
    """The grouping sets of ROLLUP or CUBE over some keys, the largest first."""
    sizes = range(len(parts), -1, -1)
    if rollup:
        chosen = [tuple(parts[:n]) for n in sizes]
    else:
        chosen = [c for n in sizes for c in itertools.combinations(parts, n)]
    return [tuple(i for part in choice for i in part) for choice in chosen]
