"""The first rows to arrive of each key are given once: what is ranked by the clock that reads it can be appended."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.spec import WEIGHT_COLUMN
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.updating import collecting, fetched

TABLE = """
CREATE TABLE t (k INT, v INT, a ARRAY<INT>, ts TIMESTAMP(3), p AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');
"""
#: What is run, and what DuckDB is asked, over rows with their number.
GIVEN_ONCE = {
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) AS rn FROM t) WHERE rn = 1": ""
    "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) = 1",
    "SELECT k, v, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p ASC) AS rn FROM t) WHERE rn <= 2": ""
    "SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) AS rn FROM t QUALIFY rn <= 2",
    "SELECT v FROM t WHERE v > 1 QUALIFY ROW_NUMBER() OVER (PARTITION BY k, v ORDER BY PROCTIME()) = 1": ""
    "SELECT v FROM t WHERE v > 1 QUALIFY ROW_NUMBER() OVER (PARTITION BY k, v ORDER BY n) = 1",
    "SELECT k, e FROM (SELECT k, e, PROCTIME() AS q FROM t CROSS JOIN UNNEST(a) AS x (e)) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY q) = 1": ""
    "SELECT k, e FROM (SELECT k, n, unnest(a) AS e, unnest(range(len(a))) AS i FROM t) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n, i) = 1",
    "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k) = 1": ""
    "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) = 1",
    "SELECT DISTINCT ON (k) k, v FROM t": ""
    "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) = 1",
    "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY p) BETWEEN 2 AND 4": ""
    "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY n) BETWEEN 2 AND 4",
}
CHANGING = {
    "SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY p DESC) AS rn FROM t) WHERE rn = 1": ""
    "SELECT k, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) = 1",
    # What waits for a partner comes later than what arrived behind it.
    "SELECT k, v FROM t SEMI JOIN (SELECT k AS j, v AS w FROM t) ON v = w AND k < j "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY p) = 1": ""
    "SELECT k, v FROM t SEMI JOIN (SELECT k AS j, v AS w FROM t) ON v = w AND k < j "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n) = 1",
}


def _rows(seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "k": chance.choice([0, 1, 2, None]),
            "v": chance.randrange(5),
            "a": [chance.randrange(9) for _ in range(chance.randrange(3))],
            "ts": f"2024-01-01 00:00:{n * 2:02d}",
        }
        for n in range(20)
    ]


def _planned(folder: Path, sql: str, rows: list[dict[str, Any]]) -> Planned:
    (folder / "input").mkdir(parents=True, exist_ok=True)
    (folder / "input" / "0.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "p.sql").write_text(TABLE + sql)
    return plan_file(folder / "p.sql")


def _duckdb(rows: list[dict[str, Any]], query: str) -> list[tuple[Any, ...]]:
    with empty_duckdb() as con:
        con.execute("CREATE TABLE t (n INTEGER, k INTEGER, v INTEGER, a INTEGER[], ts TIMESTAMP)")
        con.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?, ?)", [(n, *row.values()) for n, row in enumerate(rows)]
        )
        return fetched(con, query)


@pytest.mark.parametrize("cut", [1, 3, None])
@pytest.mark.parametrize("query", [*GIVEN_ONCE, *CHANGING])
@pytest.mark.sampled(3)
def test_the_first_that_come_are_given_once(query: str, cut: int | None, tmp_path: Path) -> None:
    rows = _rows(len(query))
    planned = _planned(tmp_path, f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};", rows)
    with collecting() as collected:
        run_here(planned, tmp_path, rows_per_epoch=cut)
        assert_same(collected.folded("out"), _duckdb(rows, (GIVEN_ONCE | CHANGING)[query]))
        changes = any(WEIGHT_COLUMN in table.column_names for table in collected.tables["out"])
    assert changes == (query in CHANGING)


def test_what_is_given_once_can_be_appended_to_files(tmp_path: Path) -> None:
    for number, query in enumerate((*GIVEN_ONCE, *CHANGING)):
        sink = f"CREATE TABLE out WITH ('connector' = 'filesystem', 'path' = 'o{number}', 'format' = 'parquet') AS {query};"
        if query in CHANGING:
            with pytest.raises(DiagnosticError, match="SQL070"):
                _planned(tmp_path, sink, _rows(1))
        else:
            _planned(tmp_path, sink, _rows(1))


@pytest.mark.parametrize("cut", [1, 4, None])
def test_windows_can_follow(cut: int | None, tmp_path: Path) -> None:
    rows = [*_rows(3), {"k": None, "v": -1, "a": [], "ts": "2024-01-02 00:00:00"}]
    first = "SELECT k, v, ts FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k, v ORDER BY {}) = 1"
    planned = _planned(
        tmp_path,
        f"CREATE TEMPORARY VIEW d AS {first.format('p')};\n"
        "CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM "
        "TABLE(TUMBLE(TABLE d, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE v >= 0 GROUP BY window_start, window_end;",
        rows,
    )
    with collecting() as collected:
        run_here(planned, tmp_path, rows_per_epoch=cut)
        wanted = _duckdb(
            rows,
            "SELECT time_bucket(INTERVAL '10 seconds', ts) AS w, COUNT(*) AS n, SUM(v) AS s FROM "
            f"({first.format('n')}) WHERE v >= 0 GROUP BY 1",
        )
        assert_same(collected.folded("out"), wanted)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query", [q for q in GIVEN_ONCE if "UNNEST" not in q])
def test_a_later_run_gives_only_what_is_new(query: str, tmp_path: Path) -> None:
    rows = _rows(5)
    planned = _planned(tmp_path, f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};", rows[:8])
    with collecting() as collected:
        run_here(planned, tmp_path, rows_per_epoch=3, drain=False)
        (tmp_path / "input" / "1.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows[8:]))
        run_here(planned, tmp_path, rows_per_epoch=5, drain=False)
        assert_same(collected.folded("out"), _duckdb(rows, GIVEN_ONCE[query]))
