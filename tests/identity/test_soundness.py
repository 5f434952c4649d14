"""Soundness by search: states with one identity hold the same rows, whatever queries they are of.

Random queries and ones that differ from them in one thing (a literal, a column, a key, a function, a window, a
direction, NULLS FIRST, a limit, an array, a table) are grouped by the identity of their last operator's state. In
each group DuckDB must give the same rows for what the state of each member holds, over random data.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.edits.derivations.spelled import spelled, spelling_of
from sqlstream_planner.edits.derivations.stored import stored
from sqlstream_planner.identity.form import to_json
from tests.examples import seeds
from tests.identity.adapter import State, identities
from tests.identity.meaning import Kept, Worlds, kept_by
from tests.properties.file_generator import (
    Chance,
    Form,
    Query,
    draw_form,
    draw_window,
    filtered,
    related,
    renamed,
    table_of,
    unnested,
)
from tests.properties.sources import Source

Identify = Callable[[str], list[State]]
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
    """A query, the query below its last operator, and what the state of the last operator holds."""

    sql: str
    below: str
    kept: Kept


def scanned(source: Source) -> Query:
    """All columns; `v` is used as a number whatever it is declared as, and where that can't be the query is none."""
    whole = source.of_type("INT", "BIGINT")
    if "v" in source.columns and "v" not in whole:
        whole = (*whole, "v")
    texts = tuple(c for c in source.of_type("STRING") if c != "v")
    return table_of(source.name, Query("", "", whole, texts, source.of_type("ARRAY<INT>"), source.time))


@dataclass(frozen=True)
class Chain:
    """A table and forms over it, one over the other; the last is the one whose state is looked at."""

    source: Source
    forms: tuple[Form, ...]

    def below(self, count: int) -> Query:
        """The query of the first `count` forms."""
        query = scanned(self.source)
        for form in self.forms[:count]:
            query = form.over(query)
        return query


def _drawn(chance: Chance) -> Chain:
    """A table, perhaps unnested, filtered, renamed or aggregated, and a last form."""
    chain = Chain(chance.one(SOURCES), ())
    below = scanned(chain.source)
    if below.arrays and chance.maybe(0.6):
        arrays = [(chance.one(below.arrays), chance.maybe()) for _ in range(chance.number(1, 3))]
        kept = chance.some((*below.whole, *below.texts)) + ([below.time] if below.time else [])
        chain = replace(chain, forms=(Form(unnested, {"arrays": arrays, "kept": kept}),))
    for number in range(chance.number(0, 2)):
        below = chain.below(number + 2)
        if not below.whole:
            break
        form = draw_form(chance, below) if chance.maybe(0.8) else Form(renamed, {"prefix": f"r{number}_"})
        chain = replace(chain, forms=(*chain.forms, form))
    below = chain.below(9)
    if not below.whole:
        return chain
    last = draw_window(chance, None, below) if below.time and chance.maybe() else draw_form(chance, below)
    return replace(chain, forms=(*chain.forms, last))


def _mutated(chance: Chance, chain: Chain) -> Chain:
    """Another table, another parameter of one form, or one form less."""
    kind = chance.one(["source", "form", "form", "form", "form", "less"])
    if kind == "source":
        return replace(chain, source=chance.one(SOURCES))
    at = chance.number(0, len(chain.forms) - 1)
    before, after = chain.forms[:at], chain.forms[at + 1 :]
    if kind == "less" or not chain.below(at).whole:
        return replace(chain, forms=(*before, *after))
    return replace(chain, forms=(*before, related(chance, chain.forms[at], chain.below(at)), *after))


def _text(source: Source, query: Query) -> str:
    return f"{source.statement}\n{query.ours};"


def _member(chain: Chain, worlds: Worlds) -> Member | None:
    """The query of a chain; None if its last form keeps nothing, or does not fit what is below."""
    if not chain.forms or not chain.below(len(chain.forms) - 1).whole:
        return None
    below, last = chain.below(len(chain.forms) - 1), chain.forms[-1]
    kept = kept_by(last, below, changing=chain.source.changelog or below.stateful > 0)
    whole = last.over(below)
    if kept is None or not worlds.fits(kept.sql) or not worlds.fits(whole.judge):
        return None
    return Member(_text(chain.source, whole), _text(chain.source, below), kept)


def drawn_members(seeds: Iterable[int], worlds: Worlds) -> Iterator[Member]:
    """Random queries, each with some that differ from it in one thing."""
    for seed in seeds:
        chance = Chance(seed)
        chain = _drawn(chance)
        for each in (chain, *(_mutated(chance, chain) for _ in range(7))):
            found = _member(each, worlds)
            if found is not None:
                yield found


def search(members: Iterable[Member], worlds: Worlds, identify: Identify) -> list[tuple[Member, Member]]:
    """Pairs of queries whose states have one identity and hold other rows."""
    groups: dict[tuple[State, ...], dict[Kept, Member]] = defaultdict(dict)
    for member in members:
        try:
            added = Counter(identify(member.sql)) - Counter(identify(member.below))
        except DiagnosticError:  # `v` is no number there, or a window's rows go
            continue
        if added:
            groups[tuple(sorted(added.elements()))].setdefault(member.kept, member)
    different = []
    for same in groups.values():
        first, *others = same.values()
        different += [
            (first, other) for other in others if worlds.rows(other.kept) != worlds.rows(first.kept)
        ]
    return different


@pytest.fixture(scope="module")
def worlds() -> Worlds:
    return Worlds(SOURCES)


@pytest.fixture(scope="module")
def members(worlds: Worlds) -> list[Member]:
    return list(drawn_members(seeds(60), worlds))


def test_one_identity_is_one_content(members: list[Member], worlds: Worlds) -> None:
    different = search(members, worlds, cache(identities))
    assert not different, _described(different)


def meant(text: str) -> list[State]:
    """The states of a pipeline by what they mean, in whatever words."""
    found = []
    for step in plan_file(text, file="pipeline.sql").physical.operators:
        written = stored(step.operator)
        assert written is not None
        state = spelled(written, spelling_of(written))
        tables = [
            [t.name, [sorted([m.digest, str(f.type)] for f in part if (m := state.meaning(f)) is not None) for part in
                      (t.key, t.sub_key, t.value)]]
            for t in step.operator.state.tables
        ]  # fmt: skip
        apart = to_json({name: value for name, value in state.attributes.items() if name != "time to live"})
        content = json.dumps([state.rows.digest, apart, tables], sort_keys=True)
        found.append(State(step.operator.state.operator, content))
    return sorted(found)


#: Conditions of which some pass the same rows, and some only look as if they did.
_CLAUSES = (
    (
        "{c} < 2",
        "{c} <= 1",
        "NOT {c} > 1",
        "2 > {c} AND TRUE",
        "{c} < 2 AND {c} IS NOT NULL",
        "({c} < 2) = TRUE",
    ),
    ("{c} <= 2", "{c} < 1", "{c} < 2 OR {c} IS NULL", "{c} < 2 AND {o} IS NOT NULL", "{c} < 2 IS NOT FALSE"),
    (
        "{c} IN (1, 2)",
        "{c} = 1 OR {c} = 2",
        "{c} = 1 + 1 OR 1 = {c}",
        "{c} BETWEEN 1 AND 2",
        "{c} IN (1, 2, NULL)",
    ),
    ("{c} NOT IN (1, 2)", "{c} <> 1 AND {c} <> 2", "{c} <> 1 OR {c} <> 2", "NOT {c} IN (1, 2, NULL)"),
    ("COALESCE({c}, 2) < 2", "CASE WHEN {c} IS NULL THEN 2 ELSE {c} END < 2", "COALESCE({c}, 1) < 2"),
    ("MOD({c}, 2) = 1", "{c} % 2 = 1", "{c} % (3 - 1) = 1", "{c} % 2 <> 0"),
)


def _in_other_words(seeds: Iterable[int], worlds: Worlds) -> Iterator[Member]:
    """Random queries over rows that pass a condition, each with others of which some are the same in other words."""
    for seed in seeds:
        chance = Chance(seed)
        chain = _drawn(chance)
        below = scanned(chain.source)
        column, other = chance.one(below.whole), chance.one(below.whole)
        for where in (
            clause for several in (chance.one(_CLAUSES), chance.one(_CLAUSES)) for clause in several
        ):
            first = Form(filtered, {"where": where.format(c=column, o=other)})
            found = _member(replace(chain, forms=(first, *chain.forms)), worlds)
            if found is not None:
                yield found


def test_one_meaning_is_one_content(worlds: Worlds) -> None:
    by_meaning, by_words = cache(meant), cache(identities)
    several = list(_in_other_words(seeds(10), worlds))
    different = search(several, worlds, by_meaning)
    assert not different, _described(different)
    planned = []
    for member in several:
        with suppress(DiagnosticError):
            planned.append((tuple(by_meaning(member.sql)), tuple(by_words(member.sql))))
    words, meanings = {words for _, words in planned}, {meaning for meaning, _ in planned}
    assert len(words) > len(meanings) + 10, "few were the same in other words"


@pytest.mark.parametrize(
    "left_out",
    [
        r"\d+",
        r"'source[^']*' = '[^']*'",
        r"DISTINCT ",
        r"(BIGINT|DECIMAL\(10, 1\)|STRING)(?=,)",
        r"\b[kvw]\b",
        r"LEFT|CROSS| ON TRUE",
    ],
    ids=["literals", "options", "DISTINCT", "types", "columns", "kinds of joins"],
)
def test_the_search_finds_what_an_identity_leaves_out(
    left_out: str, members: list[Member], worlds: Worlds
) -> None:
    """The text of a query as its identity, from which something is missing."""

    def crippled(text: str) -> list[State]:
        return [State("", re.sub(left_out, "", re.sub(r"CREATE TABLE \w+|FROM \w+", "", text)))]

    assert search(members, worlds, crippled)


def _described(different: list[tuple[Member, Member]]) -> str:
    one, other = min(different, key=lambda pair: len(pair[0].sql) + len(pair[1].sql))
    return (
        f"{len(different)} pairs have one identity and hold other rows, such as\n{one.sql}\nand\n{other.sql}"
    )
