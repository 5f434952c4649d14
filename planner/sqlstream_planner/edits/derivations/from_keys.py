"""What rows of groups were, as far as their keys say it: COUNT(*) FILTER (WHERE s = 'x') and MAX(s) from the groups by s.

A group is its key, as often as it has rows. How often is known where COUNT(*) is kept; extremes don't need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.rewritten import Rewriter, equal_means_same
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.edits.derivations.values import over_counted
from sqlstream_planner.identity.form import Form
from sqlstream_planner.logical import sql
from sqlstream_planner.physical.state_node import KeptAccumulator, StateNode


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """The rows of old groups by what their keys say of them; `count` is SQL of how many they are (None: it is not kept)."""

    table: StateTable
    node: StateNode
    rewriter: Rewriter
    count: str | None
    condition: str | None = None

    @classmethod
    def of(cls, old: Stored, node: StateNode) -> KeyedRows:
        """Those of the groups that a state has."""
        table = old.spec.state.tables[0]
        usable = {m: f for m, f in old.keys().items() if m not in old.retyped and equal_means_same(f.type)}
        rows = next((f for f in table.value if counts_rows(old.meaning(f))), None)
        count = None if rows is None else quote_identifier(rows.name)
        return cls(table, node, Rewriter(node.meanings, usable), count)

    def accumulated(self, kept: KeptAccumulator) -> str | None:
        """An accumulator of the new groups as a DuckDB aggregate over the old ones."""
        call, below = kept.call, self.node.node.inputs[0]
        if call.distinct or call.order_by:
            return None
        arguments = [self.rewriter.expression(a, below) for a in call.arguments]
        filter_ = None if call.filter is None else self.rewriter.expression(call.filter, below)
        if None in arguments or (filter_ is None) != (call.filter is None):
            return None
        given = tuple(a for a in arguments if a is not None)
        return over_counted(replace(call, arguments=given, filter=filter_), kept.accumulator, self.count)

    def items(self, fields: Mapping[str, exp.Expr], types: Mapping[str, StateField]) -> list[str] | None:
        """Columns of values, by their names, as items of a SELECT; None if they are of something that is no key."""
        below = self.node.node.inputs[0]
        found = []
        for name, value in fields.items():
            text = self.rewriter.sql(value, below)
            if text is None:
                return None
            found.append(f"CAST({text} AS {types[name].type}) AS {quote_identifier(name)}")
        return found

    def conditions(self, conditions: tuple[exp.Expr, ...]) -> tuple[str, ...] | None:
        """Conditions on rows as SQL over the old groups; None if one is of something that is no key."""
        below = self.node.node.inputs[0]
        found = [self.rewriter.expression(c, below) for c in conditions]
        if None in found:
            return None
        return tuple(f"({sql(c)})" for c in found if c is not None)


def counts_rows(meaning: Form | None) -> bool:
    """Whether an accumulator counts the rows of a group, each of them."""
    if meaning is None or meaning.op != "accumulator" or meaning.args[0] != "count":
        return False
    of = meaning.args[2]
    if not isinstance(of, Form) or of.op != "aggregate call" or len(of.args) != 4:
        return False
    _, distinct, arguments, where = of.args
    return distinct is None and where is None and isinstance(arguments, Form) and not arguments.args
