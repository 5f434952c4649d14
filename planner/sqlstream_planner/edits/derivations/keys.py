"""The keys of new groups as functions of the keys of old ones, and which of the old groups they are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlstream_operators.plan.state_schema import StateField
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.plan.widening import widens
from sqlstream_planner.edits.derivations.conditions import narrowing
from sqlstream_planner.edits.derivations.parts import select
from sqlstream_planner.edits.derivations.rewritten import Rewriter
from sqlstream_planner.edits.derivations.rule import Wanted
from sqlstream_planner.edits.derivations.stored import Grouped, Stored
from sqlstream_planner.identity.form import Form
from sqlstream_planner.logical import Node
from sqlstream_planner.physical.state_node import StateNode


@dataclass(frozen=True, slots=True)
class KeyMap:
    """New groups by old ones: the SQL of each new key (by its name) over the old keys, of groups that pass `where`.

    `one_to_one`: two old groups are never one new one. `also` are more groups, of other grouping sets.
    """

    keys: Mapping[str, str]
    where: tuple[str, ...]
    one_to_one: bool
    before: int
    also: tuple[KeyMap, ...] = ()

    @property
    def adds_nothing(self) -> bool:
        """Whether each new group is one old group."""
        return self.one_to_one and all(more.one_to_one for more in self.also)

    def select(self, leading: Sequence[str], values: Sequence[str], relation: str, joins: str = "") -> str:
        """A SELECT over an old table, by the new keys."""
        selects = (
            select([*leading, *k.items, *values], relation, f"{joins}{k.condition}")
            for k in (self, *self.also)
        )
        return "\nUNION ALL BY NAME\n".join(selects)

    @property
    def items(self) -> list[str]:
        """The keys as items of a SELECT."""
        return [f"{text} AS {quote_identifier(name)}" for name, text in self.keys.items()]

    @property
    def condition(self) -> str:
        """The WHERE of a SELECT, if there is one."""
        return f"\nWHERE {' AND '.join(self.where)}" if self.where else ""

    @property
    def reason(self) -> str:
        """What happens to the groups, in words; "" if nothing does."""
        parts = []
        if self.also:
            parts.append("by other grouping sets")
        elif not self.one_to_one:
            now = len(self.keys)
            if now < self.before:
                parts.append(f"rolled up from {self.before} {_keys(self.before)} to {now}")
            else:
                parts.append("rolled up: its keys are computed from the keys that it had")
        if self.where and not self.also:
            parts.append("groups that the new filter leaves out are dropped")
        return ", ".join(parts)


def _keys(number: int) -> str:
    return "key" if number == 1 else "keys"


def mapped_keys(old: Stored, was: Grouped, wanted: Wanted, now: Grouped) -> KeyMap | None:
    """How the keys of `wanted` follow from those of `old`; None if they don't, or if it has rows that `old` has not."""
    if was.base != now.base or was.given != now.given or len(was.sets) != 1 or len(now.sets) != 1:
        return None
    stored = old.keys()
    if any(key.op == "grouping" for key in (*stored, *wanted.state.keys())):
        return None
    where = narrowed(old, was, wanted, now, stored)
    if where is None:
        return None
    keys, whole = {}, set()
    for meaning, field in wanted.state.keys().items():
        text = key_sql(old, wanted, stored, meaning, field)
        if text is None:
            return None
        if meaning in stored:
            whole.add(stored[meaning].name)
        keys[field.name] = text
    if len(keys) != len(wanted.state.spec.state.tables[0].key):
        return None
    return KeyMap(keys, where, whole == {f.name for f in stored.values()}, len(stored))


def narrowed(
    old: Stored, was: Grouped, wanted: Wanted, now: Grouped, stored: Mapping[Form, StateField]
) -> tuple[str, ...] | None:
    """The conditions that leave the new groups' rows of groups by the keys `stored`; None if there are none."""
    below: Node = wanted.node.node.meaning.inputs[0]  # type: ignore[attr-defined]
    return narrowing(was.conditions, now.conditions, below, _rewriter(old, wanted, stored))


def key_sql(
    old: Stored, wanted: Wanted, stored: Mapping[Form, StateField], meaning: Form, field: StateField
) -> str | None:
    """A new key over the keys `stored` of old groups; None if it does not follow from them."""
    same = stored.get(meaning)
    if same is not None:
        if not widens(same.type, field.type):
            return None
        text = quote_identifier(same.name)
        return text if same.type == field.type else f"CAST({text} AS {field.type})"
    node: StateNode = wanted.node
    if field.name not in node.keys:
        return None
    made = _rewriter(old, wanted, stored).key_sql(node.keys[field.name], node.node.inputs[0])
    return None if made is None else f"CAST({made} AS {field.type})"


def _rewriter(old: Stored, wanted: Wanted, stored: Mapping[Form, StateField]) -> Rewriter:
    return Rewriter(wanted.node.meanings, {m: f for m, f in stored.items() if m not in old.retyped})
