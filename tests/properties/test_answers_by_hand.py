"""Answers that were computed by hand: the stream, in several cuts, and the referee must both give them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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


@dataclass(frozen=True)
class Case:
    """A query over `t`, whose columns and rows are given; `settings` stand before it."""

    columns: str
    rows: Sequence[Mapping[str, Any]]
    query: str
    answer: Rows
    settings: str = ""


_REMAINDER = [{"k": 1, "v": v} for v in (9007199254740992.0, 1.0, 1.0, 0.0)]
_BITS = [{"k": 1, "s": "0101"}, {"k": 1, "s": "0011"}]

CASES = {
    "FSUM keeps what a part of the rows rounds away": Case(
        "k INT, v DOUBLE",
        _REMAINDER,
        "SELECT k, FSUM(v) AS s, FAVG(v) AS a FROM t GROUP BY k",
        [(1, 9007199254740994.0, 2251799813685248.5)],
    ),
    "FSUM in windows": Case(
        "k INT, v DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
        [{**row, "ts": "2024-01-01 00:00:01"} for row in _REMAINDER],
        "SELECT k, FSUM(v) AS s FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) "
        "GROUP BY k, window_start, window_end",
        [(1, 9007199254740994.0)],
    ),
    "BIT_XOR of what cancels itself has as many bits": Case(
        "k INT, s STRING",
        _BITS,
        "SELECT BIT_XOR(CAST(x AS BIT)) AS b FROM "
        "(SELECT MAX(s) AS x FROM t GROUP BY k UNION ALL SELECT MAX(s) FROM t GROUP BY k)",
        [("0000",)],
    ),
    "BIT_XOR beside what cancels itself": Case(
        "k INT, s STRING",
        _BITS,
        "SELECT BIT_XOR(CAST(x AS BIT)) AS b FROM (SELECT MAX(s) AS x FROM t GROUP BY k "
        "UNION ALL SELECT MAX(s) FROM t GROUP BY k UNION ALL SELECT MIN(s) FROM t GROUP BY k)",
        [("0011",)],
    ),
    "OUTER APPLY keeps rows that the query has none for": Case(
        "k INT, v INT",
        [{"k": 1, "v": 1}, {"k": 2, "v": 5}],
        "SELECT k, x FROM t OUTER APPLY (SELECT s.v AS x FROM t AS s WHERE s.k = t.k + 1) AS u",
        [(1, 5), (2, None)],
    ),
    "OUTER APPLY of an array": Case(
        "k INT, a ARRAY<INT>",
        [{"k": 1, "a": []}, {"k": 2, "a": [7, 8]}],
        "SELECT k, x FROM t OUTER APPLY UNNEST(a) AS u (x)",
        [(1, None), (2, 7), (2, 8)],
    ),
    "GROUP BY DISTINCT has each grouping set once": Case(
        "k INT, v INT",
        [{"k": 1, "v": 1}, {"k": 2, "v": 5}],
        "SELECT k, SUM(v) AS s FROM t GROUP BY DISTINCT ROLLUP (k), ROLLUP (k)",
        [(1, 1), (2, 5), (None, 6)],
    ),
    "GROUP BY without it has it as often as it is written": Case(
        "k INT, v INT",
        [{"k": 1, "v": 1}, {"k": 2, "v": 5}],
        "SELECT k, SUM(v) AS s FROM t GROUP BY ROLLUP (k), ROLLUP (k)",
        [(1, 1), (2, 5), (1, 1), (2, 5), (1, 1), (2, 5), (None, 6)],
    ),
    "years before Christ of instants": Case(
        "s STRING",
        [{"s": "0045-03-15 (BC) 01:00:00"}, {"s": "2024-01-01 00:00:00"}, {"s": "epoch"}],
        "SELECT YEAR(x) AS y, EXTRACT(DECADE FROM x) AS d, EXTRACT(ERA FROM x) AS e, EPOCH(x) = 0 AS z "
        "FROM (SELECT CAST(s AS TIMESTAMPTZ) AS x FROM t)",
        [(45, 4, 0, False), (2024, 202, 1, False), (1970, 197, 1, True)],
        "SET 'table.local-time-zone' = 'Europe/Berlin';\n",
    ),
    "decades, centuries and millennia of instants before Christ": Case(
        "s STRING",
        [
            {"s": "0045-03-15 (BC) 01:00:00"},
            {"s": "0007-01-01 (BC) 03:00:00"},
            {"s": "1234-06-01 (BC) 03:00:00"},
            {"s": "2000-12-31 23:30:00"},
            {"s": "infinity"},
            {"s": None},
        ],
        "SELECT CAST(DATE_TRUNC('decade', x) AS STRING) AS d, CAST(DATE_TRUNC('century', x) AS STRING) AS c, "
        "CAST(DATE_TRUNC('millennium', x) AS STRING) AS m FROM (SELECT CAST(s AS TIMESTAMPTZ) AS x FROM t)",
        [
            ("0040-01-01 (BC) 00:00:00+00:53", "0001-01-01 00:00:00+00:53", "0001-01-01 00:00:00+00:53"),
            ("0001-01-01 00:00:00+00:53", "0001-01-01 00:00:00+00:53", "0001-01-01 00:00:00+00:53"),
            (
                "1230-01-01 (BC) 00:00:00+00:53",
                "1200-01-01 (BC) 00:00:00+00:53",
                "1000-01-01 (BC) 00:00:00+00:53",
            ),
            ("2000-01-01 00:00:00+01", "2000-01-01 00:00:00+01", "2000-01-01 00:00:00+01"),
            ("infinity", "infinity", "infinity"),
            (None, None, None),
        ],
        "SET 'table.local-time-zone' = 'Europe/Berlin';\n",
    ),
    "ARRAY_JOIN with the separator of each row": Case(
        "a ARRAY<STRING>, n ARRAY<INT>, s STRING",
        [
            {"a": ["x", None, "y"], "n": [1, 2], "s": "-"},
            {"a": [], "n": [None], "s": "é€"},
            {"a": ["p", "q", "r"], "n": [3, None, 4], "s": "é€"},
            {"a": None, "n": None, "s": ","},
            {"a": ["x"], "n": [1], "s": None},
        ],
        "SELECT ARRAY_JOIN(a, s) AS x, ARRAY_JOIN(n, s) AS y, ARRAY_JOIN(a, s, '?') AS z, ARRAY_JOIN(n, s, s) AS w FROM t",
        [
            ("x-y", "1-2", "x-?-y", "1-2"),
            ("", "", "", "é€"),
            ("pé€qé€r", "3é€4", "pé€qé€r", "3é€é€é€4"),
            (None, None, None, None),
            (None, None, None, None),
        ],
    ),
    "formats with an offset and without": Case(
        "s STRING",
        [{"s": "2024-01-01"}, {"s": "2024-07-01 01:00:00 +0500"}, {"s": None}],
        "SELECT CAST(strptime(s, ['%Y-%m-%d', '%Y-%m-%d %H:%M:%S %z']) AS STRING) AS x, "
        "CAST(try_strptime(s, ['%Y-%m-%d %H:%M:%S %z']) AS STRING) AS y FROM t",
        [
            ("2024-01-01 00:00:00+01", None),
            ("2024-06-30 22:00:00+02", "2024-06-30 22:00:00+02"),
            (None, None),
        ],
        "SET 'table.local-time-zone' = 'Europe/Berlin';\n",
    ),
    "parts of an instant beyond their ranges": Case(
        "y INT, m INT, d INT, h INT, n INT, s DOUBLE",
        [
            {"y": 2021, "m": -1, "d": 1, "h": 0, "n": 0, "s": 0.0},
            {"y": 2021, "m": 13, "d": 1, "h": 25, "n": 0, "s": 0.0},
            {"y": 2021, "m": 2, "d": 30, "h": 0, "n": 70, "s": 61.5},
            {"y": 2021, "m": 1, "d": 1, "h": 0, "n": 0, "s": -5.5},
            {"y": 2024, "m": 3, "d": 31, "h": 2, "n": 30, "s": 0.0},
            {"y": -5, "m": 1, "d": 1, "h": 0, "n": 0, "s": 0.0},
            {"y": None, "m": 1, "d": 1, "h": 0, "n": 0, "s": 0.0},
        ],
        "SELECT CAST(make_timestamptz(y, m, d, h, n, s) AS STRING) AS x FROM t",
        [
            ("2020-11-01 00:00:00+01",),
            ("2022-01-02 01:00:00+01",),
            ("2021-03-02 01:11:01.5+01",),
            ("2020-12-31 23:59:54.5+01",),
            ("2024-03-31 03:30:00+02",),
            ("0005-01-01 (BC) 00:00:00+00:53",),
            (None,),
        ],
        "SET 'table.local-time-zone' = 'Europe/Berlin';\n",
    ),
    "a parameter that is called like a column": Case(
        "x ARRAY<ARRAY<INT>>",
        [{"x": [[1, 2], [3]]}],
        "SELECT list_transform(t.x, lambda x: t.x[1]) AS a, list_transform(t.x, lambda x: x[1]) AS b FROM t",
        [([[1, 2], [1, 2]], [1, 3])],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_answer(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "0.json").write_text("".join(f"{json.dumps(row)}\n" for row in case.rows))
    (tmp_path / "p.sql").write_text(
        f"{case.settings}CREATE TABLE t ({case.columns}) "
        "WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');\n"
        f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {case.query};\n"
    )
    planned = plan_file(tmp_path / "p.sql")
    script = to_duckdb(planned, lambda _: [str(tmp_path / "input" / "0.json")])
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        assert_same(fetched(con, script.sinks[0][1]), case.answer)
    for cut in (1, 2, None):
        with collecting() as collected:
            run_here(planned, tmp_path, rows_per_epoch=cut, parallelism=1, state=f"state-{cut}")
        assert_same(collected.folded("out"), case.answer)
