"""What users call tables, columns, fields, aliases and CTEs changes no answer, however often one name is used.

Queries are templates whose names are drawn from a tiny pool; their answers are computed in Python. The referee's SQL is
written by the planner as well, so it stands on the same side here: both are judged.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import collecting, fetched

#: Names that SQL of ours has, or that numbering makes of others, and one with a dot.
POOL = ("s", "t", "s_2", "l", "r", "d", "s.t", "m", "s_3", "t_2", "u")

#: Rows of the two tables, by the templates' names for their columns and fields.
ONE: tuple[Mapping[str, Any], ...] = tuple(
    {
        "c1": number % 3,
        "c2": {"f1": number % 2 + 5, "f2": {"g1": None if number == 4 else number, "g2": "xyz"[number % 3]}},
        "c3": [number, 7],
        "c4": [{"h1": number * 10, "h2": n} for n in range(number % 3)],
    }
    for number in range(7)
)
TWO: tuple[Mapping[str, Any], ...] = tuple(
    {"d1": number % 4, "d2": {"e1": number % 3 + 4, "e2": number * 100}} for number in range(6)
)
#: Rows with a time inside of a column.
THREE: tuple[Mapping[str, Any], ...] = tuple(
    {"x1": {"y1": f"2024-01-01 00:00:{number * 4:02d}", "y2": number}, "x3": number % 2}
    for number in range(8)
)
#: Names that stand side by side, and so are different.
NON_SEMANTIC: tuple[tuple[str, ...], ...] = (
    ("t1", "t2", "out"), ("c1", "c2", "c3", "c4"), ("f1", "f2"), ("g1", "g2"), ("h1", "h2"), ("d1", "d2"), ("e1", "e2"),
    ("x1", "x2", "x3", "window_start", "window_end", "window_time"), ("y1", "y2"), ("t1", "t2", "t3", "out"), ("t3", "w"),
    ("a", "b", "w", "u"), ("o1", "o2", "o3"), ("k1", "k2", "k3"), ("p", "q", "a", "b"), ("w", "t1", "t2"),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A query in the names of the templates, and its answer; `apart`: what more must be different."""

    query: str
    answer: Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], list[tuple[Any, ...]]]
    changelog: bool = False
    apart: tuple[tuple[str, ...], ...] = ()


#: In a sub-query the columns of its own tables come before the tables of the query around it.
INSIDE = (("a", "d1", "d2"),)


def _groups(pairs: Sequence[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for key, value in pairs:
        found[key].append(value)
    return found


def _or_least(value: Any) -> Any:
    return -1 if value is None else value


def _known(values: Sequence[Any]) -> list[Any]:
    return [v for v in values if v is not None]


CASES = {
    "projection": Case(
        "SELECT a.c2.f1 AS o1, a.c1 AS o2, a.c2.f2.g2 || '!' AS o3 FROM t1 AS a",
        lambda one, two: [(x["c2"]["f1"], x["c1"], x["c2"]["f2"]["g2"] + "!") for x in one],
    ),
    "table's own name": Case(
        "SELECT t1.c2.f1 AS o1, t1.c1 AS o2, t1.c2.f2.g1 AS o3 FROM t1",
        lambda one, two: [(x["c2"]["f1"], x["c1"], x["c2"]["f2"]["g1"]) for x in one],
    ),
    "filter": Case(
        "SELECT a.c1 AS o1, a.c2.f2 AS o2 FROM t1 AS a WHERE a.c2.f1 = 6 AND a.c2.f2.g1 > a.c1",
        lambda one, two: [
            (x["c1"], x["c2"]["f2"])
            for x in one
            if x["c2"]["f1"] == 6 and x["c2"]["f2"]["g1"] is not None and x["c2"]["f2"]["g1"] > x["c1"]
        ],
    ),
    "groups": Case(
        "SELECT a.c2.f1 AS o1, SUM(a.c1) AS o2, COUNT(a.c2.f2.g1) AS o3 FROM t1 AS a GROUP BY a.c2.f1",
        lambda one, two: [
            (key, sum(x["c1"] for x in rows), len(_known([x["c2"]["f2"]["g1"] for x in rows])))
            for key, rows in _groups([(x["c2"]["f1"], x) for x in one]).items()
        ],
    ),
    "having": Case(
        "SELECT a.c2.f2.g2 AS o1, SUM(a.c2.f1) AS o2, MAX(a.c2.f2.g1) AS o3 FROM t1 AS a GROUP BY a.c2.f2.g2 "
        "HAVING SUM(a.c2.f1) > 10 AND COUNT(DISTINCT a.c2.f1) = 2",
        lambda one, two: [
            (key, sum(x["f1"] for x in rows), max(_known([x["f2"]["g1"] for x in rows])))
            for key, rows in _groups([(x["c2"]["f2"]["g2"], x["c2"]) for x in one]).items()
            if sum(x["f1"] for x in rows) > 10 and len({x["f1"] for x in rows}) == 2
        ],
    ),
    "join": Case(
        "SELECT a.c2.f1 AS o1, a.c1 AS o2, b.d2.e2 AS o3 FROM t1 AS a JOIN t2 AS b "
        "ON a.c2.f1 = b.d2.e1 AND a.c2.f2.g1 * 100 <> b.d2.e2",
        lambda one, two: [
            (x["c2"]["f1"], x["c1"], y["d2"]["e2"])
            for x in one
            for y in two
            if x["c2"]["f1"] == y["d2"]["e1"]
            and x["c2"]["f2"]["g1"] is not None
            and x["c2"]["f2"]["g1"] * 100 != y["d2"]["e2"]
        ],
    ),
    "outer join": Case(
        "SELECT a.c2.f1 AS o1, b.d1 AS o2, b.d2.e2 AS o3 FROM t1 AS a LEFT JOIN t2 AS b "
        "ON a.c1 = b.d2.e1 - 4 AND a.c2.f1 + b.d1 < 8",
        lambda one, two: [
            row
            for x in one
            for row in [
                (x["c2"]["f1"], y["d1"], y["d2"]["e2"])
                for y in two
                if x["c1"] == y["d2"]["e1"] - 4 and x["c2"]["f1"] + y["d1"] < 8
            ]
            or [(x["c2"]["f1"], None, None)]
        ],
    ),
    "a table with itself": Case(
        "SELECT a.c2.f1 AS o1, b.c1 AS o2, b.c2.f2.g2 AS o3 FROM t1 AS a JOIN t1 AS b ON a.c1 = b.c2.f2.g1",
        lambda one, two: [
            (x["c2"]["f1"], y["c1"], y["c2"]["f2"]["g2"])
            for x in one
            for y in one
            if x["c1"] == y["c2"]["f2"]["g1"]
        ],
    ),
    "with": Case(
        "WITH w AS (SELECT a.c1 AS k1, a.c2 AS k2, a.c2.f2 AS k3 FROM t1 AS a) "
        "SELECT b.k2.f1 AS o1, b.k1 AS o2, b.k3.g1 + b.k2.f2.g1 AS o3 FROM w AS b",
        lambda one, two: [
            (x["c2"]["f1"], x["c1"], None if (g := x["c2"]["f2"]["g1"]) is None else 2 * g) for x in one
        ],
    ),
    "a sub-query that groups": Case(
        "SELECT b.k2.f1 AS o1, b.k1 AS o2 FROM (SELECT a.c2 AS k2, SUM(a.c1) AS k1 FROM t1 AS a GROUP BY a.c2) AS b",
        lambda one, two: [(x["c2"]["f1"], x["c1"]) for x in one],
    ),
    "over": Case(
        "SELECT a.c2.f1 AS o1, a.c1 AS o2, SUM(a.c2.f2.g1) OVER (PARTITION BY a.c2.f1) AS o3 FROM t1 AS a",
        lambda one, two: [
            (
                x["c2"]["f1"],
                x["c1"],
                sum(_known([y["c2"]["f2"]["g1"] for y in one if y["c2"]["f1"] == x["c2"]["f1"]])),
            )
            for x in one
        ],
    ),
    "ranks": Case(
        "SELECT b.k2.f1 AS o1, b.k2.f2.g2 AS o2 FROM (SELECT a.c2 AS k2, ROW_NUMBER() OVER "
        "(PARTITION BY a.c2.f1 ORDER BY a.c2.f2.g1 DESC NULLS LAST) AS k1 FROM t1 AS a) AS b WHERE b.k1 <= 2",
        lambda one, two: [
            (key, x["f2"]["g2"])
            for key, rows in _groups([(x["c2"]["f1"], x["c2"]) for x in one]).items()
            for x in sorted(rows, key=lambda x: _or_least(x["f2"]["g1"]))[-2:]
        ],
    ),
    "limit": Case(
        "SELECT a.c2.f2.g1 AS o1, a.c2.f1 AS o2 FROM t1 AS a ORDER BY a.c2.f1, a.c2.f2.g1 DESC NULLS LAST LIMIT 2",
        lambda one, two: [(6, 5), (2, 5)],
    ),
    "distinct": Case(
        "SELECT DISTINCT a.c2.f1 AS o1, a.c2.f2.g2 AS o2 FROM t1 AS a",
        lambda one, two: list({(x["c2"]["f1"], x["c2"]["f2"]["g2"]) for x in one}),
    ),
    "union": Case(
        "SELECT a.c2.f1 AS o1, a.c1 AS o2 FROM t1 AS a UNION ALL SELECT b.d2.e1, b.d1 FROM t2 AS b",
        lambda one, two: [(x["c2"]["f1"], x["c1"]) for x in one] + [(y["d2"]["e1"], y["d1"]) for y in two],
    ),
    "intersect": Case(
        "SELECT a.c2.f1 AS o1 FROM t1 AS a INTERSECT SELECT b.d2.e1 FROM t2 AS b",
        lambda one, two: [(v,) for v in {x["c2"]["f1"] for x in one} & {y["d2"]["e1"] for y in two}],
    ),
    "unnest": Case(
        "SELECT a.c2.f1 AS o1, u.k1 AS o2, u.k2 + a.c1 AS o3 FROM t1 AS a CROSS JOIN UNNEST(a.c4) AS u (k1, k2)",
        lambda one, two: [
            (x["c2"]["f1"], h["h1"], h["h2"] + x["c1"]) for x in one for h in x["c4"]
        ],
    ),
    "lambda": Case(
        "SELECT list_transform(a.c3, lambda p: p + a.c1) AS o1, list_transform(a.c4, lambda p: p.h1 + a.c2.f1) AS o2 "
        "FROM t1 AS a",
        lambda one, two: [
            ([v + x["c1"] for v in x["c3"]], [h["h1"] + x["c2"]["f1"] for h in x["c4"]]) for x in one
        ],
    ),
    "lambdas inside": Case(
        "SELECT list_transform(a.c3, lambda p: list_transform(a.c4, lambda q: q.h2 + p * a.c1)) AS o1, "
        "list_filter(a.c3, lambda p: p = a.c3[2]) AS o2 FROM t1 AS a",
        lambda one, two: [
            ([[h["h2"] + v * x["c1"] for h in x["c4"]] for v in x["c3"]], [v for v in x["c3"] if v == 7])
            for x in one
        ],
    ),
    "a lambda over what was computed": Case(
        "SELECT list_transform(b.k1, lambda p: p + b.k2) AS o1, b.k3 AS o2 "
        "FROM (SELECT a.c3 AS k1, a.c1 * 2 AS k2, a.c2.f1 AS k3 FROM t1 AS a) AS b",
        lambda one, two: [([v + 2 * x["c1"] for v in x["c3"]], x["c2"]["f1"]) for x in one],
    ),
    "correlated": Case(
        "SELECT a.c2.f1 AS o1, (SELECT MAX(b.d2.e2) FROM t2 AS b WHERE b.d2.e1 = a.c2.f1) AS o2 FROM t1 AS a",
        lambda one, two: [
            (x["c2"]["f1"], max(y["d2"]["e2"] for y in two if y["d2"]["e1"] == x["c2"]["f1"])) for x in one
        ],
        apart=INSIDE,
    ),
    "exists": Case(
        "SELECT a.c2.f1 AS o1, a.c1 AS o2 FROM t1 AS a WHERE EXISTS (SELECT 1 FROM t2 AS b WHERE b.d1 = a.c2.f2.g1) "
        "AND a.c2.f1 NOT IN (SELECT b.d2.e1 + 2 FROM t2 AS b WHERE b.d1 < 1)",
        lambda one, two: [
            (x["c2"]["f1"], x["c1"])
            for x in one
            if x["c2"]["f2"]["g1"] in {y["d1"] for y in two}
            and x["c2"]["f1"] not in {y["d2"]["e1"] + 2 for y in two if y["d1"] < 1}
        ],
        apart=INSIDE,
    ),
    "lateral": Case(
        "SELECT a.c1 AS o1, b.k1 AS o2 FROM t1 AS a CROSS JOIN LATERAL "
        "(SELECT SUM(w.d2.e2) AS k1 FROM t2 AS w WHERE w.d2.e1 = a.c2.f1) AS b",
        lambda one, two: [
            (x["c1"], sum(y["d2"]["e2"] for y in two if y["d2"]["e1"] == x["c2"]["f1"])) for x in one
        ],
        apart=INSIDE,
    ),
    "aggregates of structs": Case(
        "SELECT a.c1 AS o1, SUM(a.c2.f1) FILTER (WHERE a.c2.f2.g1 > 2) AS o2, ARG_MAX(a.c2.f2.g2, a.c2.f2.g1) AS o3 "
        "FROM t1 AS a GROUP BY a.c1",
        lambda one, two: [
            (
                key,
                sum(x["f1"] for x in rows if (x["f2"]["g1"] or 0) > 2) or None,
                max((x["f2"]["g1"], x["f2"]["g2"]) for x in rows if x["f2"]["g1"] is not None)[1],
            )
            for key, rows in _groups([(x["c1"], x["c2"]) for x in one]).items()
        ],
    ),
    "windows": Case(
        "SELECT a.x3 AS o1, SUM(a.x1.y2) AS o2, COUNT(*) FILTER (WHERE a.x1.y2 > a.x3) AS o3 "
        "FROM TABLE(TUMBLE(TABLE t3, DESCRIPTOR(x2), INTERVAL '10' SECOND)) AS a GROUP BY window_start, window_end, a.x3",
        lambda one, two: [
            (key[1], sum(x["x1"]["y2"] for x in rows), sum(1 for x in rows if x["x1"]["y2"] > key[1]))
            for key, rows in _groups([((x["x1"]["y2"] * 4 // 10, x["x3"]), x) for x in THREE]).items()
        ],
    ),
    "sessions": Case(
        "SELECT a.x3 AS o1, SUM(a.x1.y2) AS o2 FROM TABLE(SESSION(TABLE t3 PARTITION BY x3, DESCRIPTOR(x2), "
        "INTERVAL '5' SECOND)) AS a GROUP BY window_start, window_end, a.x3",
        lambda one, two: [(x["x3"], x["x1"]["y2"]) for x in THREE],
    ),
    "interval join": Case(
        "SELECT a.x1.y2 AS o1, b.x1.y2 AS o2, b.x3 AS o3 FROM t3 AS a JOIN t3 AS b ON a.x1.y2 = b.x1.y2 + b.x3 "
        "AND b.x2 BETWEEN a.x2 - INTERVAL '4' SECOND AND a.x2",
        lambda one, two: [
            (x["x1"]["y2"], y["x1"]["y2"], y["x3"])
            for x in THREE
            for y in THREE
            if x["x1"]["y2"] == y["x1"]["y2"] + y["x3"]
        ],
    ),
    "over by time": Case(
        "SELECT a.x1.y2 AS o1, SUM(a.x3) OVER (ORDER BY a.x2) AS o2, "
        "COUNT(*) OVER (PARTITION BY a.x1.y2 ORDER BY a.x2) AS o3 FROM t3 AS a",
        lambda one, two: [
            (x["x1"]["y2"], sum(y["x3"] for y in THREE if y["x1"]["y2"] <= x["x1"]["y2"]), 1) for x in THREE
        ],
    ),
    "changes": Case(
        "SELECT a.c2.f1 AS o1, a.c1 AS o2, a.c2.f2.g2 AS o3 FROM t1 AS a",
        lambda one, two: [
            (x["c2"]["f1"], x["c1"], x["c2"]["f2"]["g2"]) for x in {x["c1"]: x for x in one}.values()
        ],
        changelog=True,
    ),
    "changes twice": Case(
        "SELECT a.c2.f1 AS o1, b.c1 AS o2, b.c2.f2.g1 AS o3 FROM t1 AS a JOIN t1 AS b ON a.c2.f1 = b.c2.f1",
        lambda one, two: [
            (x["c2"]["f1"], y["c1"], y["c2"]["f2"]["g1"])
            for last in [{x["c1"]: x for x in one}.values()]
            for x in last
            for y in last
            if x["c2"]["f1"] == y["c2"]["f1"]
        ],
        changelog=True,
    ),
}  # fmt: skip

CASES["changes behind another table"] = Case(
    "SELECT b.d1 AS o1, a.c1 AS o2, a.c2.f2.g1 AS o3 FROM t2 AS b JOIN t1 AS a ON a.c1 = b.d1",
    lambda one, two: [
        (y["d1"], x["c1"], x["c2"]["f2"]["g1"])
        for y in two
        for x in {x["c1"]: x for x in one}.values()
        if x["c1"] == y["d1"]
    ],
    changelog=True,
)


def naming(seed: object, pool: Sequence[str], apart: tuple[tuple[str, ...], ...]) -> dict[str, str]:
    """Names for those of the templates, out of a pool: different only where they stand side by side."""
    draw = random.Random(str(seed))
    # What a window gives is called so by nobody.
    found = {name: name for name in ("window_start", "window_end", "window_time")}
    for name in dict.fromkeys(name for group in NON_SEMANTIC for name in group if name not in found):
        near = {
            found[other]
            for group in (*NON_SEMANTIC, *apart)
            if name in group
            for other in group
            if other in found
        }
        with_dot = name[0] in "cdefghkoxy" and name != "out"
        found[name] = draw.choice([n for n in pool if n not in near and (with_dot or "." not in n)])
    return found


def written(template: str, names: Mapping[str, str]) -> str:
    """A template in other names."""
    words: list[str] = []
    word = ""
    quoted = False
    for letter in template + " ":
        if letter == "'":
            quoted = not quoted
        if not quoted and (letter.isalnum() or letter == "_"):
            word += letter
            continue
        words.append(f"`{names[word]}`" if word in names else word)
        words.append(letter)
        word = ""
    return "".join(words).strip()


def renamed(value: Any, names: Mapping[str, str]) -> Any:
    """Data in other names."""
    if isinstance(value, Mapping):
        return {names.get(key, key): renamed(v, names) for key, v in value.items()}
    return [renamed(v, names) for v in value] if isinstance(value, list) else value


TABLES = """
CREATE TABLE t1 (c1 INT, c2 ROW<f1 INT, f2 ROW<g1 INT, g2 STRING>>, c3 ARRAY<INT>, c4 ARRAY<ROW<h1 INT, h2 INT>> {key})
WITH ('connector' = 'filesystem', 'path' = 'one', 'format' = '{format}');
CREATE TABLE t2 (d1 INT, d2 ROW<e1 INT, e2 INT>) WITH ('connector' = 'filesystem', 'path' = 'two', 'format' = 'json');
CREATE TABLE t3 (x1 ROW<y1 TIMESTAMP(3), y2 INT>, x2 AS x1.y1, x3 INT, WATERMARK FOR x2 AS x1.y1 - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'three', 'format' = 'json');
CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};
"""


def check(folder: Path, case: Case, names: Mapping[str, str]) -> None:
    """The stream and the referee give the case's answer under these names."""
    one: Sequence[Any] = [renamed(row, names) for row in ONE]
    two = [renamed(row, names) for row in TWO]
    if case.changelog:
        one = [{"op": "+I", "data": row} for row in one]
    for path, rows in (("one", one), ("two", two), ("three", [renamed(row, names) for row in THREE])):
        (folder / path).mkdir(parents=True)
        (folder / path / "0.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    given = {
        "format": "changelog-json" if case.changelog else "json",
        "key": ", PRIMARY KEY (c1) NOT ENFORCED" if case.changelog else "",
    }
    text = written(TABLES.format(query=case.query, **given), names)
    (folder / "p.sql").write_text(text)
    expected: Rows = [renamed(row, names) for row in map(list, case.answer(ONE, TWO))]
    expected = [tuple(row) for row in expected]
    assert expected, "a case without rows shows nothing"
    planned = plan_file(folder / "p.sql")
    script = to_duckdb(planned, lambda spec: [f"{folder}/{spec.options['path']}/0.json"])
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        judged = fetched(con, script.sinks[0][1])
    with collecting() as collected:
        run_here(planned, folder, rows_per_epoch=3, parallelism=1)
        ran = collected.folded(names["out"])
    for who, rows in (("the referee", judged), ("the stream", ran)):
        try:
            assert_same(rows, expected)
        except AssertionError as error:
            raise AssertionError(f"{who}: {error}\n{text}\n{script.sinks[0][1]}") from None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_names_that_differ_give_the_answer(case: str, tmp_path: Path) -> None:
    """That the answers are right, where nothing collides."""
    check(
        tmp_path,
        CASES[case],
        {name: name if "_" in name else f"{name}x" for group in NON_SEMANTIC for name in group},
    )


@pytest.mark.sampled(24, each_value=False)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("case", CASES)
def test_names_that_collide_give_the_same(case: str, seed: int, tmp_path: Path) -> None:
    names = naming(f"{case} {seed}", POOL[seed % 5 : seed % 5 + 7], CASES[case].apart)
    check(tmp_path, CASES[case], names)


#: What SQL of ours calls its own columns and relations, DuckDB its functions and columns, and what ids are made of.
OURS = (
    (
        "__rivals",
        "__first",
        "__changes",
        "__keys",
        "__sort",
        "__us",
        "__event_time",
        "__number",
        "__slice_end",
        "__key_1",
    ),
    ("__rows", "__left", "__right_1", "__query", "rows", "_split", "w", "i", "n", "by"),
    (
        "rowid",
        "filename",
        "struct_extract",
        "value",
        "x",
        "element",
        "sum",
        "count",
        "grouped",
        "current_date",
    ),
    ("__hash", "__count", "__part", "__at", "__group", "__copy", "__place", "__present", "__is", "__was"),
    ("_x", "x_", "a b", "A.B", "__x", "x_2", "column", "\u00e9", "c__x", "select"),
)


@pytest.mark.sampled(12, each_value=False)
@pytest.mark.parametrize("number", range(len(OURS)))
@pytest.mark.parametrize("case", CASES)
def test_names_that_are_ours_give_the_same(case: str, number: int, tmp_path: Path) -> None:
    check(tmp_path, CASES[case], naming(f"{case} {number}", OURS[number], CASES[case].apart))


def test_a_key_is_not_taken_for_the_column_that_is_called_like_its_number(tmp_path: Path) -> None:
    """The second column `s` of a plan has the id `s_2`, and so is a column of its table called."""
    case = CASES["changes behind another table"]
    names = {
        **naming("key", POOL[:7], case.apart),
        "d1": "s",
        "d2": "l",
        "c1": "s",
        "c2": "s_2",
        "c3": "l",
        "c4": "r",
    }
    check(tmp_path, case, names)
