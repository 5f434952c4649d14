"""Groups that are kept up to date, from groups of the same rows by more keys, or by keys that theirs are functions of.

Accumulators add up: those of a new group are merged from those of the old groups that it is made of, by the new
operator's own expressions. A filter that reads only keys takes whole groups away.
"""

from __future__ import annotations

from sqlstream_operators.plan.changelog_spec import GroupAggregateSpec
from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.keys import KeyMap, mapped_keys
from sqlstream_planner.edits.derivations.parts import columns_from, merged, select, time_of
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, grouped
from sqlstream_planner.edits.verdict import Derivation, DerivedTable

_FREE = frozenset({"time to live", "grouping sets", "rows can go"})


def derive_groups(old: Stored, wanted: Wanted) -> Derived | None:
    """The groups of `wanted` from those of `old`."""
    was, now = old.spec, wanted.state.spec
    if not isinstance(was, GroupAggregateSpec) or not isinstance(now, GroupAggregateSpec):
        return None
    before, after = grouped(old.rows), grouped(wanted.state.rows)
    if before is None or after is None or not _alike(old, wanted.state):
        return None
    keys = mapped_keys(old, before, wanted, after)
    if keys is None or (was.ttl_us is not None and not keys.one_to_one):
        return None
    return _Groups(old, wanted, now, keys).derived()


def _alike(old: Stored, new: Stored) -> bool:
    """Whether nothing differs between them but what rules can do something about."""
    if old.differs(new, _FREE):
        return False
    # Rows that begin to go: what is kept of those that came is what would be kept of them.
    return old.attributes["rows can go"] == new.attributes["rows can go"] or not old.attributes["rows can go"]


class _Groups:
    """One derivation, put together table by table."""

    def __init__(self, old: Stored, wanted: Wanted, now: GroupAggregateSpec, keys: KeyMap) -> None:
        self._old, self._new, self._node = old, wanted.state, wanted.node
        self._now, self._keys = now, keys
        self._missing: set[tuple[str, str]] = set()

    def derived(self) -> Derived | None:
        accumulators = self._accumulators(self._new.spec.state.tables[0])
        if accumulators is None:
            return None
        multisets = [self._multiset(self._new.spec.state.table(m.name)) for m in self._now.multisets]
        derivation = Derivation("groups", (accumulators, *(m for m in multisets if m is not None)))
        return Derived(derivation, self._keys.reason, missing=frozenset(self._missing))

    def _accumulators(self, table: StateTable) -> DerivedTable | None:
        acc = self._old.table(table.name)
        if acc is None or acc.layout != table.layout:
            return None
        found = columns_from(self._old, acc.value, self._new, table.value, self._adds_up)
        if found.all_missing or self._now.presence in found.missing:
            return None
        self._missing |= {(table.name, name) for name in found.missing}
        rows = select([*time_of(table), *self._keys.items, *found.items], acc.name, self._keys.condition)
        if self._now.seed is not None:
            # The group that exists even without a row: adding it to any other changes nothing.
            rows = f"{rows}\nUNION ALL BY NAME\n{self._now.seed}"
        return DerivedTable(table.name, (acc.name,), rows, self._merged(table))

    def _adds_up(self, field: StateField) -> bool:
        """Whether the accumulators of several groups make that of one: how many distinct values there are does not."""
        return self._keys.one_to_one or field.name in self._node.accumulators

    def _merged(self, table: StateTable) -> str | None:
        if self._keys.one_to_one and self._now.seed is None:
            return None
        merges = {c.name: m for c, m in zip(self._now.accumulators, self._now.merge, strict=True)}
        values = [f"CAST({merges[f.name]} AS {f.type}) AS {quote_identifier(f.name)}" for f in table.value]
        return merged(table, values)

    def _multiset(self, table: StateTable) -> DerivedTable | None:
        before = self._old.table(table.name)
        if before is not None:
            found = columns_from(self._old, before.sub_key, self._new, table.sub_key)
        if before is None or found.missing:
            self._missing.add((table.name, ""))
            return None
        rows = select(
            [*time_of(table), *self._keys.items, *found.items, '"count"'], before.name, self._keys.condition
        )
        if self._keys.one_to_one:
            return DerivedTable(table.name, (before.name,), rows)
        together = merged(table, ['CAST(sum("count") AS BIGINT) AS "count"'], 'sum("count") <> 0')
        return DerivedTable(table.name, (before.name,), rows, together)
