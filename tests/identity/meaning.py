"""What the state of a query's last operator holds: rows by DuckDB, by the query's construction alone.

The planner takes no part in it. A row comes as its keys and as the set of its other cells, both without regard to
order, as state does not depend on what a column is called or where it stands.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import duckdb

from tests.properties.file_generator import Form, Query, distinct, grouped, limited, ranked, windowed
from tests.properties.sources import Source

Row = tuple[tuple[str, ...], frozenset[str]]
_UPPER = {"= 1": 1, "<= 2": 2, "<= 3": 3, "BETWEEN 2 AND 3": 3}


@dataclass(frozen=True)
class Kept:
    """SQL of the rows that a state holds; the first `keys` columns are what they are kept by."""

    sql: str
    keys: int


def kept_by(form: Form, below: Query, *, changing: bool) -> Kept | None:
    """What `form` keeps over `below`, whose rows may go if `changing`; None if it keeps nothing."""
    given = form.parameters
    if form.build is distinct:
        columns = ", ".join(given["columns"])
        counts = ", COUNT(*)" if changing else ""
        text = f"SELECT {columns}{counts} FROM ({below.judge}) AS d GROUP BY {columns}"
        return Kept(text, len(given["columns"]))
    if form.build in (grouped, windowed):
        calls = [kept for call in given["calls"] for kept in accumulators(call, changing=changing)]
        changed: dict[str, object] = {"calls": ["COUNT(*)", *calls]}
        changed |= {"having": None} if form.build is grouped else {"early": False}
        made = replace(form, parameters={**given, **changed}).over(below)
        return Kept(made.judge, len(given["keys"]) + (2 if form.build is windowed else 0))
    if form.build is ranked:
        ordered = [column for column, _ in given["order"]]
        wanted = sorted({*given["partition"], *ordered, *given["payload"]})
        bound = None if changing else _UPPER[given["condition"]]
        return _first_rows(below, wanted, given["partition"], given["order"], given["function"], bound)
    if form.build is limited:
        wanted = sorted({*given["columns"], *(column for column, _ in given["order"])})
        bound = None if changing else given["limit"] + given["offset"]
        return _first_rows(below, wanted, [], given["order"], "ROW_NUMBER", bound)
    return None


def accumulators(call: str, *, changing: bool) -> list[str]:
    """What is kept of an aggregate: DISTINCT ones keep values, SUM a count too, MIN over changing rows all values."""
    inside, _, condition = call.removeprefix("CAST(").partition(" FILTER ")
    tail = f" FILTER {condition.removesuffix(' AS BIGINT)')}" if condition else ""
    function, _, argument = inside.removesuffix(" AS BIGINT)").partition("(")
    argument = argument.removesuffix(")")
    if function in ("MIN", "MAX"):
        argument = argument.removeprefix("DISTINCT ")
    if argument.startswith("DISTINCT "):
        column = argument.removeprefix("DISTINCT ")
        listed = f"list(DISTINCT {column} ORDER BY {column})"
        return [listed, f"{listed}{tail}"]  # a window keeps all values, with a flag for each FILTER
    if function in ("MIN", "MAX") and changing:
        return [f"list({argument} ORDER BY {argument}){tail}"]
    counted = [f"COUNT({argument}){tail}"] if function == "SUM" else []
    return [f"{function}({argument}){tail}", *counted]


def _first_rows(
    below: Query,
    columns: Sequence[str],
    partition: Sequence[str],
    order: Sequence[tuple[str, str]],
    function: str,
    bound: int | None,
) -> Kept:
    listed = ", ".join([*partition, *(c for c in columns if c not in partition)])
    terms = [f"{column}{direction}" for column, direction in order]
    if function == "ROW_NUMBER":  # which of equal rows are kept is tried elsewhere (tests/properties)
        terms += [f"{column} NULLS FIRST" for column in columns]
    by = f"PARTITION BY {', '.join(partition)} " if partition else ""
    rank = f"{function}() OVER ({by}ORDER BY {', '.join(terms)})"
    kept = f" WHERE place <= {bound}" if bound is not None else ""
    return Kept(
        f"SELECT {listed} FROM (SELECT *, {rank} AS place FROM ({below.judge}) AS i) AS o{kept}",
        len(partition),
    )


class Worlds:
    """Databases with random rows in each table; tables over one path have the same rows."""

    def __init__(self, sources: Sequence[Source], count: int = 3) -> None:
        self._sources, self._count = sources, count
        self._rows: dict[Kept, list[Counter[Row]]] = {}

    @cached_property
    def _opened(self) -> list[duckdb.DuckDBPyConnection]:
        made = []
        for seed in range(self._count):
            con = duckdb.connect(config={"threads": 1})
            rng = random.Random(seed)
            rows = {
                path: [_row(rng, n) for n in range(25)] for path in sorted({s.path for s in self._sources})
            }
            for source in self._sources:
                through = [
                    r
                    for r in rows[source.path]
                    if source.matching is None or f"/{r['file']}." in source.matching
                ]
                con.register(f"rows_of_{source.name}", replace(source, changelog=False).table(through))
                con.execute(f"CREATE VIEW {source.name} AS FROM rows_of_{source.name}")
            made.append(con)
        return made

    def fits(self, sql: str) -> bool:
        """Whether a query's columns are there."""
        try:
            self._opened[0].sql(sql)
        except duckdb.BinderException:
            return False
        return True

    def rows(self, kept: Kept) -> list[Counter[Row]]:
        """The rows that a state holds, in each world."""
        if kept not in self._rows:
            self._rows[kept] = self._fetched(kept)
        return self._rows[kept]

    def table(self, sql: str) -> list[Counter[tuple[str, ...]]]:
        """The rows of a query, by the names of its columns, in each world."""
        found = []
        for con in self._opened:
            result = con.execute(sql)
            names = [str(column[0]) for column in result.description or ()]
            order = sorted(range(len(names)), key=names.__getitem__)
            found.append(Counter(tuple(f"{names[i]} {row[i]}" for i in order) for row in result.fetchall()))
        return found

    def _fetched(self, kept: Kept) -> list[Counter[Row]]:
        return [
            Counter(_canonical(row, kept.keys) for row in con.execute(kept.sql).fetchall())
            for con in self._opened
        ]


def _canonical(row: tuple[Any, ...], keys: int) -> Row:
    cells = [f"{type(cell).__name__} {cell}" for cell in row]
    return tuple(sorted(cells[:keys])), frozenset(cells[keys:])


def _row(rng: random.Random, number: int) -> dict[str, Any]:
    """Columns have ranges of their own, so that one is not taken for another."""
    return {
        "file": rng.randrange(2),
        "id": number,
        "k": rng.choice([None, 0, 1, 2, 3]),
        "v": rng.choice([None, 1, 2, 4, 5]),
        "w": rng.choice([None, -1, 1, 2, 7]),
        "s": rng.choice(["a", "b", "c", None]),
        "xs": rng.choice([None, [], [1], [0, 2], [3, 1], [1, 1, 6], [None, 8]]),
        "ys": rng.choice([[], [1], [9, 2]]),
        "ts": f"2024-01-01 00:00:{rng.randrange(60):02d}",
    }
