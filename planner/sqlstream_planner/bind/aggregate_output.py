"""Expressions above an aggregate in terms of what it gives: keys, bounds of the window, GROUPING, and calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_planner.bind.aggregate_calls import AggregateCalls, is_aggregate_call
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.epoch_values import is_volatile_column
from sqlstream_planner.bind.group_by import GroupBy
from sqlstream_planner.bind.window_keys import WindowKeys
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.logical import Field, Node, column, raw
from sqlstream_planner.sql.dialect import function_name

_GROUPING = ("GROUPING", "GROUPING_ID")
_COPY = "GROUP_ID"


def counts_copies(expression: exp.Expr) -> bool:
    """Whether an expression has GROUP_ID(), which counts the copies of a grouping set that is written several times."""
    return any(function_name(node) == _COPY for node in expression.find_all(exp.Anonymous))


@dataclass(frozen=True, slots=True)
class AggregateOutput:
    """What an aggregate over `node` gives: `keys` by their canonical forms, bounds of its `window`, `grouping`, `copy`.

    `copy` is which copy of its grouping set a group is of, None where each is written once. The calls that expressions
    have are added to `calls`. `of_groups`: ids of columns that are added to the groups.
    """

    context: BindContext
    node: Node
    group_by: GroupBy
    window: WindowKeys | None
    keys: Mapping[str, Field]
    grouping: Field | None
    copy: Field | None
    calls: AggregateCalls
    of_groups: frozenset[str] = frozenset()

    def rewritten(self, expression: exp.Expr) -> exp.Expr:
        """An expression of the SELECT list or HAVING over the output's columns. Raises DiagnosticError."""
        form = self.group_by.form_of(expression)
        if form in self.keys:
            return column(self.keys[form].id)
        if isinstance(expression, exp.Column):
            return self._column(expression)
        if function_name(expression) in _GROUPING:
            return self._grouping(expression)
        if function_name(expression) == _COPY:
            return (
                column(self.copy.id) if self.copy is not None else exp.cast(exp.Literal.number(0), "BIGINT")
            )
        if isinstance(expression, exp.Window):
            self.context.unsupported(expression, "OVER")
        if is_aggregate_call(expression):
            called = column(self.calls.add(expression).field.id)
            called.meta.update(expression.meta)  # a problem with its value is shown at the call
            return called
        changed = expression.copy()
        for key, value in expression.args.items():
            if isinstance(value, list):
                changed.set(key, [self.rewritten(v) if isinstance(v, exp.Expr) else v for v in value])
            elif isinstance(value, exp.Expr) and not isinstance(value, exp.Identifier | exp.DataType):
                changed.set(key, self.rewritten(value))
        return changed

    def _column(self, node: exp.Column) -> exp.Expr:
        f = next((f for f in self.node.fields if f.id == node.name), None)
        if is_volatile_column(node.name):
            return node.copy()
        if node.name in self.of_groups or (f is None and self.context.outer_field(node.name) is not None):
            return node.copy()
        if (
            self.window is not None
            and f is not None
            and f.window is not None
            and f.window.window == self.window.marker.window
            and self.window.tells(f.window.role)
        ):
            return column(self.window.bound(f.window.role).id)
        name = f.name if f is not None else node.name
        around = node.find_ancestor(exp.Anonymous)
        if around is not None and catalogue.lookup(around.name) is None:
            self.context.type_of(around, self.node.fields)  # a misspelt aggregate is reported as such
        self.context.fail(
            node,
            "SQL045",
            f"`{name}` is neither in GROUP BY nor inside an aggregate",
            help=f"add `{name}` to GROUP BY, or take one value of it, such as MAX({name}) or ANY_VALUE({name})",
        )

    def _grouping(self, node: exp.Expr) -> exp.Expr:
        positions = []
        bounds = self.window.positions if self.window is not None else ()
        plain = [f for i, f in enumerate(self.group_by.forms) if i not in bounds]
        for argument in node.expressions:
            form = self.group_by.form_of(argument)
            if form not in plain:
                self.context.fail(argument, "SQL046", "GROUPING takes columns of GROUP BY")
            positions.append(plain.index(form))
        if not node.expressions:  # of all keys, in DuckDB
            positions = list(range(len(plain)))
        if not plain:
            self.context.fail(
                node,
                "SQL046",
                f"{function_name(node)} without a key in GROUP BY",
                help="add GROUP BY ROLLUP (…)",
            )
        if self.grouping is None or not positions:
            return exp.cast(exp.Literal.number(0), "BIGINT")
        last = len(plain) - 1
        bits = [
            f'(("{self.grouping.id}" >> {last - p}) & 1) << {len(positions) - 1 - n}'
            for n, p in enumerate(positions)
        ]
        return raw("(" + " + ".join(f"({b})" for b in bits) + ")")
