"""The distinct values of groups, from older states: from distinct values of the same column, also with a
FILTER that only reads the value and the keys, and from groups that have the value among their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.state_schema import StateTable
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.from_keys import counts_rows
from sqlstream_planner.edits.derivations.rewritten import Rewriter, equal_means_same
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.edits.derivations.values import distinct_states
from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.identity.parts import form_over
from sqlstream_planner.logical import AggregateCall, Node
from sqlstream_planner.physical.state_node import StateNode
from sqlstream_planner.streaming import GroupAggregate


@dataclass(frozen=True, slots=True)
class CountedValues:
    """Rows of an old state that are values of groups: `rows` says how many rows each stands for, over append-only rows
    whether there is any. Where they are distinct values, there are no rows in which `only`, the value, is NULL: of other
    values they say nothing.
    """

    state: Stored
    rewriter: Rewriter
    rows: str
    only: Form | None = None

    @property
    def table(self) -> StateTable:
        """Where they are."""
        return self.state.spec.state.tables[0]

    def value(self, value: exp.Expr, below: Node) -> str | None:
        """A value as SQL; None if it is not there."""
        if self.only is not None and self.rewriter.meanings.expression(value, below) != self.only:
            return None
        return self.rewriter.sql(value, below)

    def filtered(self, where: exp.Expr | None, below: Node) -> str | None:
        """How many rows pass a condition; None if that is not known."""
        if where is None:
            return self.rows
        text = self.rewriter.sql(where, below)
        return None if text is None else f"CASE WHEN {text} THEN {self.rows} ELSE 0 END"


def counted_values(state: Stored, node: StateNode) -> CountedValues | None:
    """What an old state says of values of its groups; None if it says nothing of how many rows there are."""
    spec, usable = state.spec, {}
    distinct = [m.args[0] for m in state.distinct_values()]
    only = distinct[0] if len(distinct) == 1 and isinstance(distinct[0], Form) else None
    for meaning, field in state.keys().items():
        of = meaning.args[0] if meaning.op == "distinct value" else meaning
        if isinstance(of, Form) and equal_means_same(field.type) and meaning not in state.retyped:
            usable[of] = field
    table = spec.state.tables[0]
    if isinstance(spec, DistinctValuesSpec):
        if only is None:
            return None
        whole = state.fields(table.value).get(form("rows", None))
        rows = None if whole is None else quote_identifier(whole.name)
    elif isinstance(spec, GroupAggregateSpec):
        counted = next((f for f in table.value if counts_rows(state.meaning(f))), None)
        rows = None if counted is None else quote_identifier(counted.name)
        if rows is None and not state.attributes["rows can go"]:
            rows = "1"
    else:
        return None
    return None if rows is None else CountedValues(state, Rewriter(node.meanings, usable), rows, only)


def sources_of_values(before: Sequence[Stored], groups: Stored, node: StateNode) -> Iterator[CountedValues]:
    """The states that may say which values old `groups` have: those of their distinct values, then they themselves."""
    for state, _ in distinct_states(before, groups):
        found = counted_values(state, node)
        if found is not None:
            yield found
    itself = counted_values(groups, node) if not groups.forgetful else None
    if itself is not None:
        yield itself


def distinct_call(node: StateNode, meaning: Form) -> AggregateCall | None:
    """The call of a group aggregate, over one argument, that has an accumulator of distinct values with this meaning."""
    if (
        meaning.op != "accumulator"
        or "distinct" not in meaning.args
        or not isinstance(node.node, GroupAggregate)
    ):
        return None
    _, _, _, values, where = meaning.args
    inside = node.meanings.columns(node.node.input)
    for call in node.node.calls:
        if not call.distinct or len(call.arguments) != 1:
            continue
        passes = form_over(call.filter, inside) if call.filter is not None else None
        if form("values", form_over(call.arguments[0], inside)) == values and passes == where:
            return call
    return None
