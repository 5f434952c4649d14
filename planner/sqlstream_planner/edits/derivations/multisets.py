"""The multiset of values that an aggregate needs, from one of another name: written in another way, or with other NULLs.

A multiset is named by a digest of its values and of the FILTER of its rows. Which FILTER an old one has is not written
anywhere else, so it is known where the name is that of one which the new query says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_planner.edits.derivations.spelled import spelling_of
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.identity.parts import form_over
from sqlstream_planner.physical.multisets import name_of_values
from sqlstream_planner.physical.state_node import StateNode


@dataclass(frozen=True, slots=True)
class HeldValues:
    """What a new multiset holds: values of one expression, of the rows that pass `where`, with NULLs if it `has_nulls`."""

    value: Form
    field: StateField
    where: Form | None
    has_nulls: bool

    @classmethod
    def of(cls, table: StateTable, new: Stored, node: StateNode) -> HeldValues | None:
        """That of a table of a new state; None if its values are of several expressions."""
        values = [(new.meaning(f), f) for f in table.sub_key]
        if len(values) != 1 or values[0][0] is None:
            return None
        value, field = values[0]
        assert value is not None
        inside = node.meanings.columns(node.node.inputs[0])
        conditions = [form_over(c, inside) for c in node.conditions.get(table.name, ())]
        there = form("not", form("is null", value))
        filters = [c for c in conditions if c != there]
        if len(filters) > 1:
            return None
        return cls(value, field, filters[0] if filters else None, len(filters) == len(conditions))

    def named(self, *, nulls: bool) -> str:
        """What the multiset of the same values in the same words is called, with NULLs or without them."""
        return _name(self.value, self.field, self.where, nulls=nulls)

    def in_other_words(self, old: Stored, new: Stored, never_null: Collection[Form]) -> StateTable | None:
        """The old multiset without NULLs that has the same values of the same rows, written in another way."""
        if self.has_nulls:
            return None
        spelling = spelling_of(new, never_null)

        def meant(value: Form, where: Form | None) -> Form:
            call = form("aggregate call", "", None, form("arguments", value), where)
            return spelling(form("accumulator", "min", str(self.field.type), call))

        wanted = meant(self.value, self.where)
        for table in old.spec.state.tables[1:]:
            if len(table.sub_key) != 1 or table.sub_key[0].type != self.field.type:
                continue
            value = old.meaning(table.sub_key[0])
            for where in self._conditions() if value is not None else ():
                assert value is not None
                is_this = _name(value, self.field, where, nulls=False) == table.name.removesuffix("_last")
                if is_this and meant(value, where) == wanted:
                    return table
        return None

    def _conditions(self) -> Iterator[Form | None]:
        """The conditions that an old multiset of the same rows may have in words that are known."""
        yield None
        if self.where is not None:
            yield self.where
        if self.value.op == "case" and isinstance(self.value.args[0], Form):
            yield self.value.args[0]


def _name(value: Form, field: StateField, where: Form | None, *, nulls: bool) -> str:
    return name_of_values([form("value", value, str(field.type))], [] if nulls else [value], where)
