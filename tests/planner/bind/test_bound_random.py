"""Random joins, sub-queries and OVERs over random rows: what the bound tree means is what DuckDB makes of the SQL.

So does what it means when its sub-queries are joins.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import duckdb
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from sqlstream_planner.batch.queries import query_of
from sqlstream_planner.logical import Apply, walk
from sqlstream_planner.rules import DECORRELATE, NORMALIZE, optimize
from tests.duckdb_batch import empty_duckdb
from tests.examples import examples
from tests.planner.bind.bound import TABLES, bound

_WHOLE = {"t": ("k", "x"), "u": ("k", "w"), "q": ("a", "b")}
_COMPARE = ("=", "=", "=", "<", "<>", ">=")
_CALLS = ("COUNT(*)", "MAX({c})", "SUM({c})", "COUNT(DISTINCT {c})")


@dataclass(frozen=True)
class Source:
    """An item of FROM, and its columns of numbers as they are written behind it."""

    sql: str
    columns: tuple[str, ...]


@dataclass
class Names:
    """Names that no other item has."""

    count: int = 0

    def new(self) -> str:
        self.count += 1
        return f"r{self.count}"


@st.composite
def sources(draw: st.DrawFn, names: Names, depth: int) -> Source:
    """A table, or a sub-query in FROM, under a new name."""
    name = names.new()
    if depth > 0 and draw(st.booleans()):
        query, count = draw(queries(names, (), depth - 1))
        columns = tuple(f"c{n}" for n in range(count))
        return Source(f"({query}) AS {name}", tuple(f"{name}.{c}" for c in columns))
    table = draw(st.sampled_from(sorted(_WHOLE)))
    return Source(f"{table} AS {name}", tuple(f"{name}.{c}" for c in _WHOLE[table]))


@st.composite
def froms(draw: st.DrawFn, names: Names, depth: int) -> Source:
    """One to three items that are joined."""
    made = draw(sources(names, depth))
    for _ in range(draw(st.integers(0, 2 if depth > 0 else 1))):
        other = draw(sources(names, depth - 1))
        kind = draw(
            st.sampled_from(
                ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN", "SEMI JOIN", "ANTI JOIN"]
            )
        )
        on = ""
        if kind != "CROSS JOIN":
            left, right = draw(st.sampled_from(made.columns)), draw(st.sampled_from(other.columns))
            on = f" ON {left} {draw(st.sampled_from(_COMPARE))} {right}"
        columns = made.columns if kind in ("SEMI JOIN", "ANTI JOIN") else made.columns + other.columns
        made = Source(f"{made.sql} {kind} {other.sql}{on}", columns)
    return made


@st.composite
def conditions(draw: st.DrawFn, names: Names, columns: tuple[str, ...], depth: int) -> str:
    """A condition over `columns`, perhaps with a sub-query that reads them too."""
    column = draw(st.sampled_from(columns))
    kind = draw(st.sampled_from(["plain", "in", "exists", "scalar", "any"] if depth > 0 else ["plain"]))
    negated = draw(st.sampled_from(["", "NOT "]))
    if kind == "plain":
        return f"{negated}{column} {draw(st.sampled_from(_COMPARE))} {draw(st.integers(0, 4))}"
    inner = draw(froms(names, depth - 1))
    where = draw(conditions(names, (*inner.columns, *columns), depth - 1))
    if draw(st.booleans()):
        tied = draw(st.sampled_from(inner.columns)), draw(st.sampled_from(columns))
        where += f" AND {tied[0]} = {tied[1]}"
    given_ = draw(st.sampled_from(inner.columns))
    if kind == "exists":
        return f"{negated}EXISTS (SELECT 1 FROM {inner.sql} WHERE {where})"
    if kind == "in":
        return f"{column} {negated}IN (SELECT {given_} FROM {inner.sql} WHERE {where})"
    if kind == "any":
        quantifier = draw(st.sampled_from(["ANY", "ALL"]))
        compared = draw(st.sampled_from(_COMPARE))
        return f"{column} {compared} {quantifier} (SELECT {given_} FROM {inner.sql} WHERE {where})"
    call = draw(st.sampled_from(_CALLS)).format(c=given_)
    return f"{negated}{column} < (SELECT {call} FROM {inner.sql} WHERE {where})"


@st.composite
def queries(draw: st.DrawFn, names: Names, outer: tuple[str, ...], depth: int = 2) -> tuple[str, int]:
    """A query whose columns are called c0, c1 …, and how many there are."""
    source = draw(froms(names, depth))
    chosen = draw(st.lists(st.sampled_from(source.columns), min_size=1, max_size=3, unique=True))
    where = ""
    if draw(st.booleans()):
        where = f" WHERE {draw(conditions(names, (*source.columns, *outer), depth))}"
    kind = draw(st.sampled_from(["plain", "plain", "group", "over", "value", "distinct"]))
    items = [f"{c} AS c{n}" for n, c in enumerate(chosen)]
    tail = ""
    if kind == "group":
        call = draw(st.sampled_from(_CALLS)).format(c=draw(st.sampled_from(source.columns)))
        items.append(f"CAST({call} AS DOUBLE) AS c{len(items)}")
        tail = f" GROUP BY {', '.join(chosen)}"
        if depth > 0 and draw(st.booleans()):
            tail += f" HAVING {draw(conditions(names, tuple(chosen), depth - 1))}"
    if kind == "over":
        call = draw(st.sampled_from(["SUM({c})", "COUNT(*)", "MAX({c})", "RANK()"]))
        by = draw(st.sampled_from(source.columns))
        over = f"PARTITION BY {draw(st.sampled_from(source.columns))} ORDER BY {by} NULLS FIRST"
        items.append(
            f"CAST({call.format(c=draw(st.sampled_from(source.columns)))} OVER ({over}) AS DOUBLE) AS c{len(items)}"
        )
    if kind == "value" and depth > 0:
        inner = draw(froms(names, depth - 1))
        tied = f"{draw(st.sampled_from(inner.columns))} = {draw(st.sampled_from(source.columns))}"
        call = draw(st.sampled_from(_CALLS)).format(c=draw(st.sampled_from(inner.columns)))
        items.append(f"CAST((SELECT {call} FROM {inner.sql} WHERE {tied}) AS DOUBLE) AS c{len(items)}")
    word = "SELECT DISTINCT" if kind == "distinct" else "SELECT"
    return f"{word} {', '.join(items)} FROM {source.sql}{where}{tail}", len(items)


_SMALL = st.none() | st.integers(0, 3)
#: Of a DOUBLE also what is no finite number, and two zeros that are one value.
_NUMBER = _SMALL | st.sampled_from([math.nan, math.inf, -math.inf, -0.0])
_DATA = {t: st.lists(st.tuples(_SMALL, _NUMBER if t == "t" else _SMALL), max_size=6) for t in _WHOLE}


def _rows(con: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """The rows of a SELECT, sorted; which of two zeros stands for both is open."""
    found = con.execute(text).fetchall()
    return sorted(repr(tuple(0.0 if v == 0 else v for v in row)) for row in found)


@for_all(
    query=st.builds(Names).flatmap(lambda names: queries(names, ())),
    data=st.fixed_dictionaries(_DATA),
)
@settings(max_examples=examples(30), deadline=None)
def test_random_queries_are_bound_to_what_they_mean(
    query: tuple[str, int], data: dict[str, list[tuple[int | None, float | None]]]
) -> None:
    root = bound(query[0])
    text = query_of(root)
    [joined] = optimize((root,), (*NORMALIZE, *DECORRELATE))
    assert not any(isinstance(node, Apply) for node in walk((joined,)))
    with empty_duckdb() as con:
        con.execute(TABLES)
        for table, rows in data.items():
            for row in rows:
                con.execute(f"INSERT INTO {table} ({', '.join(_WHOLE[table])}) VALUES (?, ?)", row)
        theirs = _rows(con, query[0])
        assert _rows(con, text) == theirs, text
        assert _rows(con, query_of(joined)) == theirs, query_of(joined)
