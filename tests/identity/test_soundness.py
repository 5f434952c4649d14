"""Soundness by search: states with one identity hold the same rows, whatever queries they are of.

Random queries and ones that differ from them in one thing (a literal, a column, a key, a function, a window, a
direction, NULLS FIRST, a limit, an array, a table) are grouped by the identity of their last operator's state. In
each group DuckDB must give the same rows for what the state of each member holds, over random data.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace

from tests.examples import examples
from tests.identity.adapter import State, identities
from tests.identity.meaning import Kept, Worlds, kept_by
from tests.properties.file_generator import (
    Chance,
    Form,
    Query,
    draw_form,
    draw_window,
    related,
    renamed,
    scan,
    table_of,
    unnested,
)
from tests.properties.sources import Source

_COLUMNS = {
    "k": "INT",
    "v": "BIGINT",
    "s": "STRING",
    "xs": "ARRAY<INT>",
    "ys": "ARRAY<INT>",
    "ts": "TIMESTAMP(3)",
}
_LOG = Source("t", "log", _COLUMNS, {}, time="ts")
_CHANGES = {"id": "INT", "k": "INT", "w": "BIGINT", "s": "STRING"}
#: Tables of which some differ in one option, type or key.
SOURCES = (
    _LOG,
    replace(_LOG, name="same"),
    replace(_LOG, name="first_half", matching=".*/0.json"),
    replace(_LOG, name="second_half", matching=".*/1.json"),
    replace(_LOG, name="decimals", columns={**_COLUMNS, "v": "DECIMAL(10, 1)"}),
    replace(_LOG, name="texts", columns={**_COLUMNS, "v": "STRING"}),
    replace(_LOG, name="elsewhere", path="log2"),
    Source("c", "changes", _CHANGES, {}, changelog=True, key="id"),
    Source("d", "changes2", _CHANGES, {}, changelog=True),
)


@dataclass(frozen=True)
class Member:
    """A query and what the state of its last operator holds."""

    sql: str
    kept: Kept


def _below(chance: Chance) -> tuple[Source, Query]:
    """A table, perhaps filtered, renamed, unnested or aggregated."""
    source = chance.one(SOURCES)
    below = scan(source)
    if below.arrays and chance.maybe(0.6):
        arrays = [(chance.one(below.arrays), chance.maybe()) for _ in range(chance.number(1, 3))]
        below = unnested(below, arrays=arrays, kept=chance.some((*below.whole, *below.texts)))
    for number in range(chance.number(0, 1)):
        if chance.maybe(0.3):
            below = renamed(below, prefix=f"r{number}_")
        else:
            below = draw_form(chance, below).over(below)
    return source, below


def _over(query: Query, source: Source) -> str:
    return f"{source.statement}\n{query.ours};"


def members(seed: int) -> list[tuple[tuple[State, ...], Member]]:
    """A random query and ones like it, with the states that their last operators add to those below."""
    chance = Chance(seed)
    source, below = _below(chance)
    if not below.whole:
        return []
    form = (
        draw_window(chance, source.name, scan(source))
        if source.time and chance.maybe(0.25)
        else draw_form(chance, below)
    )
    if "view" in form.parameters:
        below = scan(source)
    forms: list[tuple[Form, Query, Source]] = [(form, below, source)]
    forms += [(related(chance, form, below), below, source) for _ in range(3)]
    for other in chance.some(SOURCES, 1, 1):  # the same query over another table
        if set(source.columns) <= set(other.columns) and set(below.whole) <= set(
            other.of_type("INT", "BIGINT")
        ):
            moved = replace(
                form,
                parameters={**form.parameters, **({"view": other.name} if "view" in form.parameters else {})},
            )
            forms.append((moved, replace(table_of(other.name, below), stateful=0, ties=False), other))
    found = []
    for one, input_, table in forms:
        changing = table.changelog or input_.stateful > 0
        kept = kept_by(one, input_, changing=changing)
        if kept is None:
            continue
        added = Counter(identities(_over(one.over(input_), table))) - Counter(
            identities(_over(input_, table))
        )
        if added:
            found.append((tuple(sorted(added.elements())), Member(_over(one.over(input_), table), kept)))
    return found


def test_one_identity_is_one_content() -> None:
    groups: dict[tuple[State, ...], dict[Kept, Member]] = defaultdict(dict)
    for seed in range(examples(60)):
        for states, member in members(seed):
            groups[states].setdefault(member.kept, member)
    worlds = Worlds(SOURCES)
    different = []
    for same in groups.values():
        first, *others = same.values()
        rows = worlds.rows(first.kept) if others else []
        different += [(first, other) for other in others if worlds.rows(other.kept) != rows]
    assert not different, _told(different)


def _told(different: list[tuple[Member, Member]]) -> str:
    one, other = min(different, key=lambda pair: len(pair[0].sql) + len(pair[1].sql))
    return (
        f"{len(different)} pairs have one identity and hold other rows, such as\n{one.sql}\nand\n{other.sql}"
    )
