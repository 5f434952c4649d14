"""Values of DuckDB's further types in every place, over rows that come and that go: DuckDB's answer after every epoch."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.updating import check

#: What a text of `s` is a value of, and texts that are: of those that only look alike, too.
TYPES = {
    "ENUM('sad', 'ok', 'happy', 'it''s')": ["happy", "sad", "ok", "it's"],
    "TIMETZ": ["12:00:00+02", "11:00:00+01", "10:00:00+00", "23:59:59.5-03:30", "00:00:00+15:59:59"],
    "BIT": ["101", "0", "00", "1", "1" * 20],
    "TIMESTAMP_NS": [
        "2024-01-01 00:00:00.123456789",
        "2024-01-01 00:00:00.123456788",
        "1960-01-01 00:00:00.000000001",
    ],
    "ENUM('x', 'b', 'a')[]": ["[a, b]", "[b, a]", "[x, NULL]"],
    "STRUCT(z TIMETZ, b BIT[])": ["{'z': 12:00:00+02, 'b': [1, 01]}", "{'z': 11:00:00+01, 'b': NULL}"],
}
#: Of each value `x`, its group `k` and its number `v`.
QUERIES = [
    "SELECT x, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY x",
    "SELECT k, MIN(x) AS lo, MAX(x) AS hi, ARRAY_AGG(x) AS l, COUNT(DISTINCT x) AS d, MAX_BY(v, x) AS b, MODE(x) AS m "
    "FROM t GROUP BY k",
    "SELECT x, v FROM t ORDER BY x DESC NULLS LAST, v LIMIT 3",
    "SELECT k, x, v, LAG(x) OVER (PARTITION BY k ORDER BY x, v) AS before FROM t",
    "SELECT a.x, [b.x] AS l, {'x': a.x} AS r, a.x < b.x AS less FROM t AS a LEFT JOIN t AS b ON a.x = b.x AND a.v < b.v",
    "SELECT x FROM t UNION SELECT x FROM t WHERE v > 5",
]


def _rows(texts: list[str], seed: int) -> list[dict[str, object]]:
    random_ = random.Random(seed)
    return [
        {"k": random_.randrange(3), "s": random_.choice([*texts, None]), "v": number % 9}
        for number in range(24)
    ]


@pytest.mark.sampled(14)
@pytest.mark.parametrize("goes", [False, True], ids=["comes", "goes"])
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("type_", TYPES)
def test_every_place(type_: str, query: str, goes: bool, tmp_path: Path) -> None:
    source = f"(SELECT k, CAST(s AS {type_}) AS x, v FROM t)"
    if goes:  # the last row of each number, as rows come
        last = "ROW_NUMBER() OVER (PARTITION BY v ORDER BY ts DESC, k, s) AS place"
        source = (
            f"(SELECT k, x, v FROM (SELECT k, CAST(s AS {type_}) AS x, v, {last} FROM t) WHERE place = 1)"
        )
    rows = [
        row | {"ts": f"2024-01-01 00:00:{n:02d}"} for n, row in enumerate(_rows(TYPES[type_], len(query)))
    ]
    text = f"WITH w AS {source} {query.replace('FROM t', 'FROM w').replace('JOIN t', 'JOIN w')}"
    check(tmp_path, text, rows, rows_per_epoch=5)


def test_a_type_has_a_name(tmp_path: Path) -> None:
    """A name stands for its type wherever one can be written, nested and in another type too, in any case."""
    text = """
    CREATE TYPE mood AS ENUM ('sad', 'ok');
    CREATE TYPE IF NOT EXISTS mood AS INT;
    CREATE TYPE pair AS STRUCT(a Mood, b MOOD[2]);
    CREATE TABLE t (m mood, p pair, l mood[]) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
    CREATE TABLE out WITH ('connector' = 'blackhole')
    AS SELECT m, p.b AS b, l, 'ok'::mood AS o, TRY_CAST('x' AS mood) AS n, m > 'sad' AS c FROM t;
    """
    planned = plan_file(text, file="f.sql")
    mood = "ENUM('sad', 'ok')"
    types = [str(column.type) for column in planned.physical.sinks[0].schema]
    assert types == [mood, f"{mood}[]", f"{mood}[]", mood, mood, "BOOLEAN"]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("CREATE TYPE a AS ENUM ('x'); CREATE TYPE A AS INT;", "the type `A` is declared twice"),
        ("CREATE TYPE a AS ENUM ('x', 'y', 'x');", "'x' stands twice in an ENUM"),
        ("SELECT 'x'::a; CREATE TYPE a AS ENUM ('x');", "unknown type `a`"),
        ("CREATE TYPE mood AS ENUM ('x'); SELECT 'x'::moot;", "unknown type `moot`"),
        ("SELECT 'y'::ENUM('x', 'z');", "Could not convert string 'y'"),
        (
            "CREATE TABLE o (e ENUM('a', 'b')) WITH ('connector' = 'print'); INSERT INTO o SELECT 'a'::ENUM('b', 'a') AS e;",
            "is ENUM('b', 'a'), but column `e`",
        ),
    ],
)
def test_what_is_no_type(text: str, reported: str) -> None:
    with pytest.raises(DiagnosticError) as refused:
        plan_file(text, file="f.sql")
    assert reported in str(refused.value)
