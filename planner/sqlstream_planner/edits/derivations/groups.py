"""Groups that are kept up to date, from groups of the same rows by more keys, or by keys that theirs are functions of.

Accumulators add up: those of a new group are merged from those of the old groups that it is made of, by the new
operator's own expressions. A filter that reads only keys takes whole groups away.
"""

from __future__ import annotations

from sqlstream_operators.plan.changelog_spec import GroupAggregateSpec
from sqlstream_operators.plan.state_schema import TIME, StateTable
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.keys import KeyMap, mapped_keys
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
    return _Groups(old, wanted, was, now, keys).derived()


def _alike(old: Stored, new: Stored) -> bool:
    """Whether nothing differs between them but what rules can do something about."""
    if {k: v for k, v in old.attributes.items() if k not in _FREE} != {
        k: v for k, v in new.attributes.items() if k not in _FREE
    }:
        return False
    return old.attributes["rows can go"] == new.attributes["rows can go"]


class _Groups:
    """One derivation, put together table by table."""

    def __init__(
        self, old: Stored, wanted: Wanted, was: GroupAggregateSpec, now: GroupAggregateSpec, keys: KeyMap
    ) -> None:
        self._old, self._new, self._node = old, wanted.state, wanted.node
        self._was, self._now, self._keys = was, now, keys
        self._reasons: dict[tuple[str, str], str] = {}
        self._missing: set[tuple[str, str]] = set()

    def derived(self) -> Derived | None:
        tables = [self._accumulators(self._new.spec.state.tables[0])]
        if tables[0] is None:
            return None
        for multiset in self._now.multisets:
            tables.append(self._multiset(self._new.spec.state.table(multiset.name)))
        derivation = Derivation("groups", tuple(t for t in tables if t is not None))
        return Derived(derivation, self._keys.reason, self._reasons, frozenset(self._missing))

    def _accumulators(self, table: StateTable) -> DerivedTable | None:
        acc = self._old.table(table.name)
        if acc is None or acc.layout != table.layout:
            return None
        there = self._old.fields(acc.value)
        items, known = [], 0
        for field in table.value:
            meaning = self._new.meaning(field)
            found = there.get(meaning) if meaning is not None else None
            # Distinct values are not told apart in a number of them: it does not add up over groups.
            if found is None or not (self._keys.one_to_one or field.name in self._node.accumulators):
                if field.name == self._now.presence:
                    return None
                self._missing.add((table.name, field.name))
                items.append(f"CAST(NULL AS {field.type}) AS {quote_identifier(field.name)}")
                continue
            known += 1
            text = quote_identifier(found.name)
            if found.type != field.type:
                text = f"CAST({text} AS {field.type})"
            items.append(f"{text} AS {quote_identifier(field.name)}")
        if table.value and not known:
            return None
        rows = _select(
            [*self._time(table), *self._keys.items, *items], f"old.{acc.name}", self._keys.condition
        )
        if self._now.seed is not None:
            # The group that exists even without a row: adding it to any other changes nothing.
            rows = f"{rows}\nUNION ALL BY NAME\n{self._now.seed}"
        return DerivedTable(table.name, (acc.name,), rows, self._merged(table))

    def _merged(self, table: StateTable) -> str | None:
        if self._keys.one_to_one and self._now.seed is None:
            return None
        merges = {c.name: m for c, m in zip(self._now.accumulators, self._now.merge, strict=True)}
        by = [quote_identifier(name) for name in table.key_columns]
        items = [f"CAST({merges[f.name]} AS {f.type}) AS {quote_identifier(f.name)}" for f in table.value]
        return _grouped(by, items)

    def _multiset(self, table: StateTable) -> DerivedTable | None:
        before = self._old.table(table.name)
        there = {} if before is None else self._old.fields(before.sub_key)
        items = []
        for field in table.sub_key:
            meaning = self._new.meaning(field)
            found = there.get(meaning) if meaning is not None else None
            if before is None or found is None or found.type != field.type:
                self._missing.add((table.name, ""))
                return None
            items.append(f"{quote_identifier(found.name)} AS {quote_identifier(field.name)}")
        assert before is not None
        items = [*self._time(table), *self._keys.items, *items, '"count"']
        rows = _select(items, f"old.{before.name}", self._keys.condition)
        merged = None
        if not self._keys.one_to_one:
            by = [quote_identifier(name) for name in table.key_columns]
            merged = _grouped(by, ['CAST(sum("count") AS BIGINT) AS "count"'], 'sum("count") <> 0')
        return DerivedTable(table.name, (before.name,), rows, merged)

    @staticmethod
    def _time(table: StateTable) -> list[str]:
        return [quote_identifier(TIME)] if table.layout == "time" else []


def _select(items: list[str], relation: str, rest: str) -> str:
    return f"SELECT {', '.join(items)}\nFROM {quote_identifier(relation)}{rest}"


def _grouped(by: list[str], items: list[str], having: str = "count(*) > 0") -> str:
    """An aggregate over all rows; without keys over no rows at all it is no row."""
    group = f"\nGROUP BY {', '.join(by)}" if by else ""
    return f'SELECT {", ".join([*by, *items])}\nFROM "rows"{group}\nHAVING {having}'
