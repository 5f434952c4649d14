"""The keys of new groups as functions of the keys of old ones, and which of the old groups they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.conditions import narrowing
from sqlstream_planner.edits.derivations.rewritten import Rewriter
from sqlstream_planner.edits.derivations.rule import Wanted
from sqlstream_planner.edits.derivations.stored import Grouped, Stored
from sqlstream_planner.edits.derivations.widened import widens
from sqlstream_planner.physical.state_node import StateNode


@dataclass(frozen=True, slots=True)
class KeyMap:
    """New groups by old ones: the SQL of each new key (by its name) over the old keys, of groups that pass `where`.

    `one_to_one`: two old groups are never one new one.
    """

    keys: Mapping[str, str]
    where: tuple[str, ...]
    one_to_one: bool
    before: int

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
        if not self.one_to_one:
            now = len(self.keys)
            if now < self.before:
                parts.append(f"rolled up from {self.before} {_keys(self.before)} to {now}")
            else:
                parts.append("rolled up: its keys are computed from the keys that it had")
        if self.where:
            parts.append("groups that the new filter leaves out are dropped")
        return ", ".join(parts)


def _keys(number: int) -> str:
    return "key" if number == 1 else "keys"


def mapped_keys(old: Stored, was: Grouped, wanted: Wanted, now: Grouped) -> KeyMap | None:
    """How the keys of `wanted` follow from those of `old`; None if they don't, or if it has rows that `old` has not."""
    if was.base != now.base or was.given != now.given or len(was.sets) != 1 or len(now.sets) != 1:
        return None
    node: StateNode = wanted.node
    stored = old.keys()
    if any(key.op == "grouping" for key in (*stored, *wanted.state.keys())):
        return None
    rewriter = Rewriter(node.meanings, {m: f for m, f in stored.items() if m not in old.retyped})
    where = narrowing(was.conditions, now.conditions, node.node.meaning.inputs[0], rewriter)  # type: ignore[attr-defined]
    if where is None:
        return None
    types = {f.name: f.type for f in stored.values()}
    keys, whole = {}, set()
    for meaning, field in wanted.state.keys().items():
        same = stored.get(meaning)
        if same is not None and not widens(same.type, field.type):
            return None
        text = quote_identifier(same.name) if same is not None else None
        if text is None and field.name in node.keys:
            text = rewriter.sql(node.keys[field.name], node.node.inputs[0])
        if text is None:
            return None
        if same is not None:
            whole.add(same.name)
        if same is None or types[same.name] != field.type:
            text = f"CAST({text} AS {field.type})"
        keys[field.name] = text
    if len(keys) != len(wanted.state.spec.state.tables[0].key):
        return None
    return KeyMap(keys, where, whole == types.keys(), len(stored))
