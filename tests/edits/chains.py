"""Random chains of edits, and what is decided about each: how often state goes on. The planner alone, so it is quick.

    python -m tests.edits.chains [CHAINS] [FIRST SEED]

prints, by the kind of the edit, the share of states that are kept or adapted.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.pipeline import Planned

TABLES = """
CREATE TABLE t (k INT, g STRING, v INT, w BIGINT NOT NULL, b BOOLEAN, who ROW<name STRING, age INT>, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE c (id INT, k INT, v INT, g STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'changelog-json');
"""

#: Ways to say one thing: an item of a query is a row here, and which of its ways.
CONDITIONS = (
    (
        "v > 4",
        "v >= 5",
        "NOT v < 5",
        "v > 4 AND TRUE",
        "v > 4 AND v IS NOT NULL",
        "(v > 4) = TRUE",
        "v > '4'",
    ),
    ("v IN (1, 2)", "v = 1 OR v = 2", "v = 2 OR v = 1"),
    ("g IN ('a', 'b')", "g = 'a' OR g = 'b'"),
    ("LEFT(g, 1) = 'a'", "SUBSTR(g, 1, 1) = 'a'"),
    ("MOD(k, 2) = 1", "k % 2 = 1"),
    ("v > 10 * 100", "v > 1000", "1000 < v"),
    ("COALESCE(k, 0) > 0", "CASE WHEN k IS NULL THEN 0 ELSE k END > 0"),
)
TIMED = (
    ("b", "b = TRUE", "b IS TRUE"),
    ("ts > '2024-01-01 00:00:00'", "ts > TIMESTAMP '2024-01-01 00:00:00'", "ts > DATE '2024-01-01'"),
    ("who.name = 'x'", "who.NAME = 'x'"),
)
CALLS = (
    ("COUNT(*)", "COUNT(1)", "SUM(1)"),
    (
        "COUNT(*) FILTER (WHERE v > 4)",
        "SUM(CASE WHEN v > 4 THEN 1 ELSE 0 END)",
        "COUNT(CASE WHEN v >= 5 THEN 1 END)",
    ),
    ("COUNT_IF(v > 4)", "COUNT_IF(v >= 5)"),
    ("SUM(v)", "SUM(CAST(v AS BIGINT))"),
    ("SUM(v) FILTER (WHERE g = 'a')", "SUM(CASE WHEN g = 'a' THEN v END)", "SUM(CASE g WHEN 'a' THEN v END)"),
    ("AVG(v)", "MEAN(v)"),
    ("MIN(v)",),
    ("MAX(v)",),
    ("STDDEV_POP(v)",),
    ("COUNT(DISTINCT g)",),
    ("MAX_BY(g, v)", "ARG_MAX(g, v)"),
    ("ARRAY_AGG(v)",),
    ("MEDIAN(v)",),
)
KEYS = (
    ("k",),
    ("g",),
    ("v % 2", "MOD(v, 2)"),
    ("LEFT(g, 2)", "SUBSTR(g, 1, 2)"),
    ("COALESCE(k, 0)", "CASE WHEN k IS NOT NULL THEN k ELSE 0 END"),
)
TIMED_KEYS = (
    ("YEAR(ts)", "EXTRACT(YEAR FROM ts)", "DATE_PART('year', ts)"),
    ("DATE(ts)", "CAST(ts AS DATE)"),
    ("who.name", "who.NAME"),
)
Item = tuple[int, int]


@dataclass(frozen=True)
class Query:
    """A query by its items: each is one of a pool, and how it is said."""

    table: str
    shape: str
    where: tuple[Item, ...]
    keys: tuple[Item, ...]
    calls: tuple[Item, ...]
    limit: int = 3
    minutes: int = 10

    @property
    def pools(self) -> Mapping[str, tuple[tuple[str, ...], ...]]:
        timed = self.table == "t"
        return {
            "where": CONDITIONS + (TIMED if timed else ()),
            "keys": KEYS + (TIMED_KEYS if timed else ()),
            "calls": CALLS,
        }

    def of(self, part: str, items: tuple[Item, ...]) -> Query:
        match part:
            case "where":
                return replace(self, where=items)
            case "keys":
                return replace(self, keys=items)
        return replace(self, calls=items)

    def terms(self, part: str) -> list[str]:
        return [self.pools[part][n][way] for n, way in getattr(self, part)]

    @property
    def sql(self) -> str:
        where = f" WHERE {' AND '.join(f'({c})' for c in self.terms('where'))}" if self.where else ""
        keys, calls = self.terms("keys"), self.terms("calls")
        items = [f"{k} AS k{n}" for n, k in enumerate(keys)] + [f"{c} AS a{n}" for n, c in enumerate(calls)]
        match self.shape:
            case "groups":
                by = f" GROUP BY {', '.join(keys)}" if keys else ""
                return f"SELECT {', '.join(items)} FROM {self.table}{where}{by}"
            case "windows":
                rows = f"TABLE(TUMBLE(TABLE {self.table}, DESCRIPTOR(ts), INTERVAL '{self.minutes}' MINUTE))"
                by = ", ".join(["window_start", "window_end", *keys])
                return f"SELECT window_end, {', '.join(items)} FROM {rows}{where} GROUP BY {by}"
            case "top":
                by = f"PARTITION BY {', '.join(keys)} " if keys else ""
                rank = f"ROW_NUMBER() OVER ({by}ORDER BY v DESC, g) AS rn"
                return f"SELECT k, v, g FROM (SELECT *, {rank} FROM {self.table}{where}) WHERE rn <= {self.limit}"
        listed = ", ".join(items)
        join = "SELECT k, v FROM c WHERE v > 0"
        return (
            f"SELECT {listed} FROM (SELECT x.*, y.v AS z FROM {self.table} AS x JOIN ({join}) AS y ON x.k = y.k)"
            + where
            + (f" GROUP BY {', '.join(keys)}" if keys else "")
        )


def drawn(chosen: random.Random) -> Query:
    table = chosen.choice(("t", "t", "c"))
    shape = chosen.choice(
        ("groups", "groups", "windows", "top", "join") if table == "t" else ("groups", "top")
    )
    query = Query(table, shape, (), (), ())
    return replace(
        query,
        where=_some(chosen, query, "where", 0, 2),
        keys=_some(chosen, query, "keys", 1, 2),
        calls=_some(chosen, query, "calls", 1, 3),
    )


def _some(chosen: random.Random, query: Query, part: str, least: int, most: int) -> tuple[Item, ...]:
    pool = query.pools[part]
    numbers = chosen.sample(range(len(pool)), chosen.randint(least, most))
    return tuple((n, chosen.randrange(len(pool[n]))) for n in numbers)


def in_other_words(chosen: random.Random, query: Query) -> Query:
    """One item said in another way."""
    several = [
        (part, place)
        for part in ("where", "keys", "calls")
        for place, (n, _) in enumerate(getattr(query, part))
        if len(query.pools[part][n]) > 1 and not (part == "calls" and query.shape == "top")
    ]
    if not several:
        return query
    part, place = chosen.choice(several)
    items = list(getattr(query, part))
    number, way = items[place]
    items[place] = (
        number,
        (way + chosen.randrange(1, len(query.pools[part][number]))) % len(query.pools[part][number]),
    )
    return query.of(part, tuple(items))


def _more(part: str) -> Callable[[random.Random, Query], Query]:
    def edit(chosen: random.Random, query: Query) -> Query:
        there = {n for n, _ in getattr(query, part)}
        left = [n for n in range(len(query.pools[part])) if n not in there]
        added = chosen.choice(left)
        return query.of(part, (*getattr(query, part), (added, 0)))

    return edit


def _less(part: str, least: int) -> Callable[[random.Random, Query], Query]:
    def edit(chosen: random.Random, query: Query) -> Query:
        items = list(getattr(query, part))
        if len(items) > least:
            items.pop(chosen.randrange(len(items)))
        return query.of(part, tuple(items))

    return edit


EDITS: Mapping[str, Callable[[random.Random, Query], Query]] = {
    "in other words": in_other_words,
    "an aggregate more": _more("calls"),
    "an aggregate less": _less("calls", 1),
    "a condition more": _more("where"),
    "a condition less": _less("where", 0),
    "a key more": _more("keys"),
    "a key less": _less("keys", 1),
    "another limit": lambda chosen, q: replace(q, limit=chosen.randint(1, 5)),
    "another window": lambda chosen, q: replace(q, minutes=chosen.choice((5, 10, 20, 30))),
}


def planned(query: Query) -> Planned:
    return plan_file(f"{TABLES}CREATE TABLE o WITH ('connector' = 'print') AS {query.sql};", file="p.sql")


def shares(chains: int, length: int = 6, first: int = 0) -> Mapping[str, Counter[Verdict]]:
    """The verdicts about states of random chains, by the kind of the edit; edits that change no text are none.

    `first` is the seed of the first chain.
    """
    found: dict[str, Counter[Verdict]] = defaultdict(Counter)
    for seed in range(first, first + chains):
        chosen = random.Random(seed)
        query = drawn(chosen)
        old = planned(query)
        for _ in range(length):
            kind = chosen.choice(list(EDITS))
            edited = EDITS[kind](chosen, query)
            if edited.sql == query.sql:
                continue
            try:
                new = planned(edited)
            except DiagnosticError:
                continue
            edits = decide(old.physical, new.physical, new.state_nodes)
            found[kind].update(e.verdict for e in edits if e.new is not None)
            query, old = edited, new
    return found


def share(counts: Counter[Verdict]) -> float:
    """Of states that are needed, those that go on."""
    return (counts[Verdict.KEEP] + counts[Verdict.ADAPT]) / max(1, sum(counts.values()))


def main() -> None:
    chains, first = (int(sys.argv[n]) if len(sys.argv) > n else default for n, default in ((1, 100), (2, 0)))
    found = shares(chains, first=first)
    for kind, counts in found.items():
        reported = ", ".join(f"{v} {n}" for v, n in sorted(counts.items()))
        print(f"{share(counts):6.1%}  {kind} ({reported})")
    print(f"{share(sum(found.values(), Counter())):6.1%}  of all")


if __name__ == "__main__":
    main()
