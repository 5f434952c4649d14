"""Groups of several grouping sets from groups of others, or of none: each new set from the smallest old one that has its
keys.

Every old set is a GROUP BY of all rows, so that any one of them suffices. `grouping_id` distinguishes their groups: its bits
say, in the order in which the query lists the keys, which of them a set does not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlstream_operators.plan.state_schema import StateField
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.keys import KeyMap, key_sql, narrowed
from sqlstream_planner.edits.derivations.rule import Wanted
from sqlstream_planner.edits.derivations.stored import Grouped, Stored
from sqlstream_planner.identity.form import Form


def mapped_sets(old: Stored, was: Grouped, wanted: Wanted, now: Grouped) -> KeyMap | None:
    """How the keys of all sets of `wanted` follow from those of `old`; None if they don't for one of them."""
    if was.base != now.base or was.given != now.given:
        return None
    before, after = _sets(old), _sets(wanted.state)
    if before is None or after is None or (len(before) == len(after) == 1):
        return None
    stored = {m: f for m, f in old.keys().items() if m.op != "grouping"}
    found = []
    for one in after:
        ways = (_mapped(old, was, wanted, now, one, other, stored) for other in sorted(before, key=len))
        best = min(filter(None, ways), key=lambda way: not way.one_to_one, default=None)
        if best is None:
            return None
        found.append(best)
    first, *rest = found
    return KeyMap(first.keys, first.where, first.one_to_one, len(stored), tuple(rest))


def _sets(state: Stored) -> list[frozenset[Form]] | None:
    """What each grouping set of a state groups by."""
    sets = state.attributes.get("grouping sets")
    if not isinstance(sets, list | tuple):
        return None
    return [frozenset(a for a in one.args if isinstance(a, Form)) for one in sets if isinstance(one, Form)]


def _mapped(
    old: Stored,
    was: Grouped,
    wanted: Wanted,
    now: Grouped,
    new_set: frozenset[Form],
    old_set: frozenset[Form],
    stored: dict[Form, StateField],
) -> KeyMap | None:
    """The groups of one new set from those of one old set."""
    there = {m: f for m, f in stored.items() if m in old_set}
    if len(there) != len(old_set):
        return None
    where = narrowed(old, was, wanted, now, there)
    if where is None:
        return None
    keys = {}
    for meaning, field in wanted.state.keys().items():
        if meaning.op == "grouping":
            text: str | None = str(_grouping_id(meaning, new_set))
        elif meaning in new_set:
            text = key_sql(old, wanted, there, meaning, field)
        else:
            text = "NULL"
        if text is None:
            return None
        keys[field.name] = f"CAST({text} AS {field.type})"
    if len(keys) != len(wanted.state.spec.state.tables[0].key):
        return None
    return KeyMap(keys, (*_of_set(old, old_set), *where), old_set == new_set, len(stored))


def _of_set(old: Stored, chosen: frozenset[Form]) -> Iterator[str]:
    """The condition on old groups that are of one set."""
    for meaning, field in old.keys().items():
        if meaning.op == "grouping":
            yield f"{quote_identifier(field.name)} = {_grouping_id(meaning, chosen)}"


def _grouping_id(grouping: Form, chosen: frozenset[Form]) -> int:
    """GROUPING() of all keys, as the query lists them, in the groups of one set.

    >>> from sqlstream_planner.identity.form import form
    >>> a, b = form("column", "a"), form("column", "b")
    >>> _grouping_id(form("grouping", a, b), frozenset({a})), _grouping_id(form("grouping", a, b), frozenset())
    (1, 3)
    """
    listed: Sequence[Form] = [a for a in grouping.args if isinstance(a, Form)]
    return sum(1 << n for n, key in enumerate(reversed(listed)) if key not in chosen)
