"""Files whose sinks look alike and are not: each gets its own rows, as it does alone. Expected rows are by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import collecting


@dataclass(frozen=True)
class Case:
    """Files, tables, and queries with the rows that each must give."""

    tables: str
    queries: Mapping[str, Rows]
    files: Mapping[str, str] = field(default_factory=dict)
    rows_per_epoch: int | None = None


def _files(name: str, *texts: str) -> dict[str, str]:
    return {f"{name}/{number}.json": text for number, text in enumerate(texts)}


def _table(name: str, columns: str, path: str = "in", format_: str = "json", **options: str) -> str:
    given = {"connector": "filesystem", "path": path, "format": format_}
    given |= {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    listed = ", ".join(f"'{k}' = '{v}'" for k, v in given.items())
    return f"CREATE TABLE {name} ({columns}) WITH ({listed});\n"


ITEMS = '{"k": 1, "a": [1, 2]}\n{"k": 2, "a": [3]}\n'
OVER_ITEMS = _table("t", "k INT, a ARRAY<INT>")
TIMES = "".join(f'{{"v": {n}, "ts": "2024-01-01 00:00:{n:02d}"}}\n' for n in (1, 6, 12, 19, 23))
OVER_TIMES = _table("t", "v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts")
RANKED = '{"k": 1, "s": "b", "d": 5, "o": 1}\n{"k": 1, "s": "a", "d": 7, "o": 1}\n'
OVER_RANKED = _table("t", "k INT, s STRING, d INT, o INT")
OVER_TWO_OF_ONE = _table("t", "v INT") + "CREATE VIEW q AS SELECT v AS a, v AS b FROM t;\n"
TWICE = "t CROSS JOIN UNNEST(a) AS u (x) CROSS JOIN UNNEST(a) AS w (y)"


def _at(text: str) -> datetime:
    return datetime.fromisoformat(f"2024-01-01 00:{text}")


CASES = {
    "files that a pattern lets through": Case(
        _table("a", "v INT", source_path_regex__pattern=".*/0.json")
        + _table("b", "v INT", source_path_regex__pattern=".*/1.json"),
        {"SELECT COUNT(*) AS n FROM a": [(1,)], "SELECT COUNT(*) AS n FROM b": [(2,)]},
        _files("in", '{"v": 1}\n', '{"v": 2}\n{"v": 3}\n'),
    ),
    "types of one column": Case(
        _table("a", "v BIGINT") + _table("b", "v STRING"),
        {"SELECT MAX(v) AS m FROM a": [(10,)], "SELECT MAX(v) AS m FROM b": [("9",)]},
        _files("in", '{"v": 9}\n{"v": 10}\n'),
    ),
    "types of one column that is grouped by": Case(
        _table("a", "v DOUBLE") + _table("b", "v INT"),
        {
            "SELECT COUNT(*) AS n FROM (SELECT v FROM a WHERE v > 1) AS q": [(2,)],
            "SELECT COUNT(*) AS n FROM (SELECT v FROM b WHERE v > 1) AS q": [(1,)],
        },
        _files("in", '{"v": 1.2}\n{"v": 2}\n'),
    ),
    "tables of a change stream": Case(
        _table("a", "v INT", format_="canal-json", canal__json_table_include="x")
        + _table("b", "v INT", format_="canal-json", canal__json_table_include="y"),
        {"SELECT COUNT(*) AS n FROM a": [(1,)], "SELECT COUNT(*) AS n FROM b": [(2,)]},
        _files(
            "in",
            "".join(
                f'{{"data": [{{"v": 1}}], "old": null, "type": "INSERT", "database": "d", "table": "{t}"}}\n'
                for t in "xyy"
            ),
        ),
    ),
    "how many rows are made": Case(
        "CREATE TABLE a (v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');\n"
        "CREATE TABLE b (v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '5');\n",
        {"SELECT COUNT(*) AS n FROM a": [(3,)], "SELECT COUNT(*) AS n FROM b": [(5,)]},
    ),
    "an array unnested twice": Case(
        OVER_ITEMS,
        {
            f"SELECT x, y, COUNT(*) AS n FROM {TWICE} GROUP BY x, y": [
                (1, 1, 1),
                (1, 2, 1),
                (2, 1, 1),
                (2, 2, 1),
                (3, 3, 1),
            ]
        },
        _files("in", ITEMS),
    ),
    "an array unnested twice, filtered": Case(
        OVER_ITEMS,
        {
            f"SELECT x, COUNT(*) AS n FROM {TWICE} WHERE y = 1 GROUP BY x": [
                (1, 1),
                (2, 1),
            ]
        },
        _files("in", ITEMS),
    ),
    "sums over one and over the other of two UNNESTs": Case(
        OVER_ITEMS,
        {
            f"SELECT k, SUM(x) AS n FROM {TWICE} WHERE x < y GROUP BY k": [(1, 1)],
            f"SELECT k, SUM(y) AS n FROM {TWICE} WHERE x < y GROUP BY k": [(1, 2)],
        },
        _files("in", ITEMS),
    ),
    "the first of pairs of elements": Case(
        OVER_ITEMS,
        {f"SELECT x, y FROM {TWICE} ORDER BY x, y DESC LIMIT 1": [(1, 2)]},
        _files("in", ITEMS),
    ),
    "elements of a view that has elements of the same array": Case(
        OVER_ITEMS + "CREATE VIEW e AS SELECT k, a, x FROM t CROSS JOIN UNNEST(a) AS u (x);\n",
        {
            "SELECT x, y, COUNT(*) AS n FROM e CROSS JOIN UNNEST(a) AS w (y) WHERE x > y GROUP BY x, y": [
                (2, 1, 1)
            ],
            "SELECT x, COUNT(*) AS n FROM e CROSS JOIN UNNEST(a) AS w (y) WHERE x < y GROUP BY x": [(1, 1)],
        },
        _files("in", ITEMS),
    ),
    "an inner and an outer UNNEST": Case(
        OVER_ITEMS,
        {
            "SELECT COUNT(*) AS n FROM t CROSS JOIN UNNEST(a) AS u (x)": [(1,)],
            "SELECT COUNT(*) AS n FROM t LEFT JOIN UNNEST(a) AS u (x) ON TRUE": [(2,)],
        },
        _files("in", '{"k": 1, "a": [1]}\n{"k": 2, "a": []}\n'),
    ),
    "two Top-Ns that differ in payload": Case(
        OVER_RANKED,
        {
            "SELECT k, s, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY o) AS rn FROM t) AS r WHERE rn = 1": [
                (1, "a", 7)
            ],
            "SELECT k, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY o) AS rn FROM t) AS r WHERE rn = 1": [
                (1, 5)
            ],
        },
        _files("in", RANKED),
    ),
    "two Top-Ns that differ in payload, the other way round": Case(
        OVER_RANKED,
        {
            "SELECT k, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY o) AS rn FROM t) AS r WHERE rn = 1": [
                (1, 5)
            ],
            "SELECT k, s, d FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY o) AS rn FROM t) AS r WHERE rn = 1": [
                (1, "a", 7)
            ],
        },
        _files("in", RANKED),
    ),
    "offsets of CUMULATE that are equal modulo the step": Case(
        OVER_TIMES,
        {
            "SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), "
            "INTERVAL '5' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end": [
                (_at("00:00"), _at("00:05"), 1),
                (_at("00:00"), _at("00:10"), 2),
                (_at("00:00"), _at("00:15"), 3),
                (_at("00:00"), _at("00:20"), 4),
                (_at("00:20"), _at("00:25"), 1),
                (_at("00:20"), _at("00:30"), 1),
                (_at("00:20"), _at("00:35"), 1),
                (_at("00:20"), _at("00:40"), 1),
            ],
            "SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), "
            "INTERVAL '5' SECOND, INTERVAL '20' SECOND, INTERVAL '5' SECOND)) WHERE v > 1 "
            "GROUP BY window_start, window_end": [
                (_at("00:05"), _at("00:10"), 1),
                (_at("00:05"), _at("00:15"), 2),
                (_at("00:05"), _at("00:20"), 3),
                (_at("00:05"), _at("00:25"), 4),
            ],
            "SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), "
            "INTERVAL '5' SECOND, INTERVAL '20' SECOND)) WHERE v > 1 GROUP BY window_start, window_end": [
                (_at("00:00"), _at("00:10"), 1),
                (_at("00:00"), _at("00:15"), 2),
                (_at("00:00"), _at("00:20"), 3),
                (_at("00:20"), _at("00:25"), 1),
                (_at("00:20"), _at("00:30"), 1),
                (_at("00:20"), _at("00:35"), 1),
                (_at("00:20"), _at("00:40"), 1),
            ],
        },
        _files("in", TIMES),
    ),
    "a rank that one sink shows and the other does not": Case(
        _table("t", "v INT"),
        {
            "SELECT v, rn FROM (SELECT v, RANK() OVER (ORDER BY v) AS rn FROM t) AS r WHERE rn <= 2": [
                (1, 1),
                (2, 2),
            ],
            "SELECT v FROM (SELECT v, RANK() OVER (ORDER BY v) AS rn FROM t) AS r WHERE rn <= 2": [
                (1,),
                (2,),
            ],
        },
        _files("in", '{"v": 2}\n{"v": 1}\n'),
        rows_per_epoch=1,
    ),
    "the first rows of a table that is read twice": Case(
        _table("t", "v INT"),
        {
            "SELECT v FROM (SELECT v FROM t UNION ALL SELECT v + 1 FROM t) AS q ORDER BY v LIMIT 3": [
                (1,),
                (2,),
                (3,),
            ]
        },
        _files("in", '{"v": 1}\n{"v": 3}\n'),
    ),
    "limits and ranks that no row reaches": Case(
        _table("t", "v INT"),
        {
            f"SELECT v FROM t ORDER BY v LIMIT {2**61} OFFSET 1": [(2,)],
            f"SELECT v FROM t LIMIT 1 OFFSET {2**61}": [],
            "SELECT v FROM t ORDER BY v DESC LIMIT 1000000": [(1,), (2,)],
            f"SELECT v FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY v) <= {10**20}": [(1,), (2,)],
            f"SELECT v FROM t QUALIFY RANK() OVER (ORDER BY v) BETWEEN 2 AND {10**20}": [(2,)],
        },
        _files("in", '{"v": 2}\n{"v": 1}\n'),
        rows_per_epoch=1,
    ),
    "first NULLs and last NULLs": Case(
        _table("t", "v INT"),
        {
            "SELECT v FROM t ORDER BY v NULLS FIRST LIMIT 1": [(None,)],
            "SELECT v FROM t ORDER BY v LIMIT 1": [(1,)],
            "SELECT v FROM t ORDER BY v DESC LIMIT 1": [(2,)],
            "SELECT v FROM t ORDER BY v LIMIT 1 OFFSET 1": [(2,)],
        },
        _files("in", '{"v": 1}\n{"v": null}\n{"v": 2}\n'),
    ),
    "grouping sets over columns that are equal": Case(
        OVER_TWO_OF_ONE,
        {
            "SELECT a, b, COUNT(*) AS n FROM q GROUP BY GROUPING SETS ((a), (b))": [
                (1, None, 2),
                (2, None, 1),
                (None, 1, 2),
                (None, 2, 1),
            ],
            "SELECT a, b, COUNT(*) AS n FROM q GROUP BY GROUPING SETS ((a, b), (b))": [
                (1, 1, 2),
                (2, 2, 1),
                (None, 1, 2),
                (None, 2, 1),
            ],
            "SELECT a, b, COUNT(DISTINCT a) AS n FROM q GROUP BY ROLLUP (b, a)": [
                (1, 1, 1),
                (2, 2, 1),
                (None, 1, 1),
                (None, 2, 1),
                (None, None, 2),
            ],
            "SELECT a, GROUPING(b) AS i, COUNT(*) AS n FROM q GROUP BY CUBE (a, b)": [
                (1, 0, 2),
                (2, 0, 1),
                (1, 1, 2),
                (2, 1, 1),
                (None, 0, 2),
                (None, 0, 1),
                (None, 1, 3),
            ],
        },
        _files("in", '{"v": 1}\n{"v": 2}\n{"v": 1}\n'),
        rows_per_epoch=2,
    ),
    "casts to types that differ in their scale": Case(
        _table("t", "v DECIMAL(10, 2)"),
        {
            "SELECT CAST(v AS DECIMAL(10, 0)) AS d, COUNT(*) AS n FROM t GROUP BY CAST(v AS DECIMAL(10, 0))": [
                (1, 2)
            ],
            "SELECT CAST(v AS DECIMAL(10, 1)) AS d, COUNT(*) AS n FROM t GROUP BY CAST(v AS DECIMAL(10, 1))": [
                (1.1, 1),
                (1.2, 1),
            ],
        },
        _files("in", '{"v": 1.10}\n{"v": 1.20}\n'),
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name",
    CASES,
)
def test_each_sink_has_its_own_rows(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    for path, text in case.files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    sinks = [
        f"CREATE TABLE out_{n} WITH ('connector' = 'blackhole') AS {query};\n"
        for n, query in enumerate(case.queries)
    ]
    (tmp_path / "p.sql").write_text(case.tables + "".join(sinks))
    with collecting() as collected:
        run_here(plan_file(tmp_path / "p.sql"), tmp_path, rows_per_epoch=case.rows_per_epoch)
        for n, rows in enumerate(case.queries.values()):
            assert_same(collected.folded(f"out_{n}"), [tuple(map(_number, row)) for row in rows])


def _number(value: object) -> object:
    """A decimal that is written as a float."""
    return Decimal(str(value)) if isinstance(value, float) else value
