"""Random updating queries over small domains: nested aggregates, DISTINCT, Top-N, set operations, HAVING, LIMIT."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

#: Aggregates of a whole-number column `{c}` whose result is a whole number.
WHOLE = (
    "COUNT(*)",
    "COUNT({c})",
    "CAST(SUM({c}) AS BIGINT)",
    "MIN({c})",
    "MAX({c})",
    "COUNT(DISTINCT {c})",
    "CAST(SUM(DISTINCT {c}) AS BIGINT)",
    "COUNT(*) FILTER (WHERE {c} > 1)",
    "COUNT(DISTINCT {c}) FILTER (WHERE {c} <> 2)",
    "CAST(SUM({c}) FILTER (WHERE {c} >= 0) AS BIGINT)",
    "MAX({c}) - MIN({c})",
    "COUNT_IF({c} = 1)",
)
#: Aggregates whose result only ends up in the answer.
OTHER = (
    "AVG({c})",
    "STDDEV_POP({c})",
    "BOOL_OR({c} > 1)",
    "BOOL_AND({c} > 0)",
    "LISTAGG(CAST({c} AS STRING), ',')",
    "ARRAY_AGG({c})",
    "ARRAY_AGG(DISTINCT {c})",
    "ANY_VALUE({c})",
    "MEDIAN({c})",
    "AVG(DISTINCT {c})",
    "BIT_XOR({c})",
    "VAR_SAMP({c})",
    "MODE({c} ORDER BY {c} DESC)",
    "ANY_VALUE({c} ORDER BY {c} DESC)",
    "ARRAY_AGG({c} ORDER BY {c} DESC NULLS FIRST)",
    "CASE WHEN MAX({c}) > 1 THEN MIN({c}) ELSE '7' END",
)


@dataclass(frozen=True)
class Relation:
    """A query that gives the whole-number columns `columns`, and how it nests."""

    sql: str
    columns: tuple[str, ...]
    depth: int = 0


def rows() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows of `t`: few values, many duplicates, NULLs."""
    small = st.none() | st.integers(0, 3)
    row = st.fixed_dictionaries(
        {"k": small, "v": small, "s": st.sampled_from(["a", "b", None]), "b": st.booleans()}
    )
    return st.lists(row, max_size=25)


_BASES = (
    Relation("SELECT k AS c0, v AS c1 FROM t", ("c0", "c1")),
    Relation("SELECT k AS c0, v AS c1 FROM t WHERE b", ("c0", "c1")),
    Relation("SELECT v AS c0, k + 1 AS c1, ascii(s) AS c2 FROM t", ("c0", "c1", "c2")),
)


@st.composite
def relations(draw: st.DrawFn, depth: int = 2) -> Relation:
    """A query of at most `depth` operators one over the other."""
    if depth == 0:
        return draw(st.sampled_from(_BASES))
    kind = draw(
        st.sampled_from(
            ["group", "group", "distinct", "top", "set", "filter", "global", "limit", "unnest", "star"]
        )
    )
    below = draw(relations(depth=draw(st.integers(0, depth - 1))))
    names = st.sampled_from(below.columns)
    if kind == "filter":
        column = draw(names)
        bound = draw(st.integers(0, 3))
        listed = ", ".join(below.columns)
        return Relation(
            f"SELECT {listed} FROM ({below.sql}) AS f WHERE {column} <= {bound}", below.columns, below.depth
        )
    if kind == "unnest":
        first, second = draw(names), draw(names)
        arrays = draw(
            st.sampled_from(
                [
                    (f"UNNEST([{first}, {second}])",),
                    (f"UNNEST([{first}]) + 1", f"UNNEST([{second}, 1, NULL])"),
                    (f"UNNEST(range(CAST({first} AS BIGINT)))", f"UNNEST([{first}])"),
                ]
            )
        )
        unnested = [f"{first} AS c0", *(f"{a} AS c{n}" for n, a in enumerate(arrays, 1))]
        return Relation(
            f"SELECT {', '.join(unnested)} FROM ({below.sql}) AS n",
            tuple(f"c{n}" for n in range(len(unnested))),
            below.depth,
        )
    if kind == "star":
        if len(below.columns) < 2:
            return Relation(f"SELECT * FROM ({below.sql}) AS s", below.columns, below.depth)
        dropped, changed = draw(st.permutations(below.columns))[:2]
        return Relation(
            f"SELECT * EXCLUDE ({dropped}) REPLACE ({changed} - 1 AS {changed}) FROM ({below.sql}) AS s",
            tuple(c for c in below.columns if c != dropped),
            below.depth,
        )
    if kind == "distinct":
        kept = draw(st.lists(names, min_size=1, max_size=2, unique=True))
        items = ", ".join(f"{c} AS c{i}" for i, c in enumerate(kept))
        return Relation(
            f"SELECT DISTINCT {items} FROM ({below.sql}) AS d",
            tuple(f"c{i}" for i in range(len(kept))),
            below.depth + 1,
        )
    if kind == "group":
        keys = draw(st.lists(names, min_size=1, max_size=2, unique=True))
        calls = [draw(st.sampled_from(WHOLE)).format(c=draw(names)) for _ in range(draw(st.integers(1, 3)))]
        grouped = [f"{c} AS c{i}" for i, c in enumerate(keys)]
        grouped += [f"{call} AS c{i}" for i, call in enumerate(calls, len(keys))]
        having = f" HAVING COUNT(*) >= {draw(st.integers(1, 3))}" if draw(st.booleans()) else ""
        return Relation(
            f"SELECT {', '.join(grouped)} FROM ({below.sql}) AS g GROUP BY {', '.join(keys)}{having}",
            tuple(f"c{i}" for i in range(len(grouped))),
            below.depth + 1,
        )
    if kind == "global":
        calls = [draw(st.sampled_from(WHOLE)).format(c=draw(names)) for _ in range(draw(st.integers(1, 3)))]
        called = [f"{call} AS c{i}" for i, call in enumerate(calls)]
        return Relation(
            f"SELECT {', '.join(called)} FROM ({below.sql}) AS g",
            tuple(f"c{i}" for i in range(len(called))),
            below.depth + 1,
        )
    if kind == "top":
        function = draw(st.sampled_from(["ROW_NUMBER", "RANK", "DENSE_RANK"]))
        partition = draw(st.lists(names, max_size=1))
        terms = draw(st.lists(names, min_size=1, max_size=2, unique=True))
        ordered = ", ".join(
            f"{c}{draw(st.sampled_from(['', ' DESC', ' NULLS FIRST', ' DESC NULLS FIRST']))}" for c in terms
        )
        by = f"PARTITION BY {partition[0]} " if partition else ""
        condition = draw(st.sampled_from(["= 1", "<= 2", "< 4", "BETWEEN 2 AND 3"]))
        listed = ", ".join(below.columns)
        shown = draw(st.booleans())
        columns = (*below.columns, "rn") if shown else below.columns
        inner = f"SELECT {listed}, {function}() OVER ({by}ORDER BY {ordered}) AS rn FROM ({below.sql}) AS i"
        return Relation(
            f"SELECT {', '.join(columns)} FROM ({inner}) AS o WHERE rn {condition}", columns, below.depth + 1
        )
    if kind == "limit":
        listed = ", ".join(below.columns)
        direction = draw(st.sampled_from(["", " DESC"]))
        offset = draw(st.sampled_from(["", " OFFSET 1"]))
        return Relation(
            f"SELECT {listed} FROM ({below.sql}) AS l ORDER BY {draw(names)}{direction} "
            f"LIMIT {draw(st.integers(1, 4))}{offset}",
            below.columns,
            below.depth + 1,
        )
    other = draw(relations(depth=draw(st.integers(0, depth - 1))))
    width = min(len(below.columns), len(other.columns), 2)
    operator = draw(
        st.sampled_from(["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
    )
    sides = []
    for side in (below, other):
        items = ", ".join(f"CAST({c} AS BIGINT) AS c{i}" for i, c in enumerate(side.columns[:width]))
        sides.append(f"SELECT {items} FROM ({side.sql}) AS x")
    return Relation(
        f"{sides[0]} {operator} {sides[1]}",
        tuple(f"c{i}" for i in range(width)),
        max(below.depth, other.depth) + 1,
    )


@st.composite
def queries(draw: st.DrawFn, depth: int = 3) -> str:
    """A query whose last step may give any kind of column."""
    below = draw(relations(depth=depth))
    if not draw(st.booleans()):
        return below.sql
    names = st.sampled_from(below.columns)
    keys = draw(st.lists(names, max_size=1))
    calls = [
        draw(st.sampled_from(WHOLE + OTHER)).format(c=draw(names)) for _ in range(draw(st.integers(1, 3)))
    ]
    items = ", ".join([*keys, *(f"{call} AS a{i}" for i, call in enumerate(calls))])
    group = f" GROUP BY {keys[0]}" if keys else ""
    return f"SELECT {items} FROM ({below.sql}) AS q{group}"
