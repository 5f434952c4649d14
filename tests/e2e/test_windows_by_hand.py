"""Windows, cascades of them and grouping sets in them, against SQL that says what a window is in plain joins.

The kinds of queries are those of other systems' public tests; DuckDB joins the rows with a list of windows here, so that
nothing of the planner is on both sides.
"""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from tests.properties.in_process import run_here
from tests.properties.updating import collecting

#: id, k, v, seconds after the first minute of 2024; out of order, with NULLs, and on the windows' bounds.
ROWS: list[tuple[int, str | None, int | None, str]] = [
    (1, "a", 10, "02"), (2, "b", 20, "04"), (3, "a", 30, "09.999"), (4, "a", 5, "10"), (5, "b", 7, "11"),
    (8, "a", 2, "08"), (6, "a", 1, "25"), (7, None, 3, "31"), (9, "b", None, "31.5"),
]  # fmt: skip
TABLE = """
CREATE TABLE t (id INT, k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '60' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE VIEW fives AS SELECT k, window_time AS moment, COUNT(*) AS n, SUM(v) AS s
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, window_time, k;
CREATE VIEW older AS SELECT TUMBLE_ROWTIME(ts, INTERVAL '5' SECOND) AS moment, COUNT(*) AS n FROM t
GROUP BY TUMBLE(ts, INTERVAL '5' SECOND);
CREATE VIEW mixed AS SELECT ts, v FROM t WHERE k = 'a' UNION ALL SELECT ts, -v FROM t WHERE v > 5;
"""
#: What the views hold, and `sec(n)`, n seconds after the first minute of 2024.
JUDGE = """
CREATE MACRO sec(n) AS TIMESTAMP '2024-01-01' + to_milliseconds(CAST(n * 1000 AS BIGINT));
CREATE VIEW fives AS SELECT k, sec(5 * i + 4.999) AS moment, count(*) AS n, sum(v) AS s
FROM t JOIN range(20) AS r(i) ON ts >= sec(5 * i) AND ts < sec(5 * i + 5) GROUP BY k, i;
CREATE VIEW mixed AS SELECT ts, v FROM t WHERE k = 'a' UNION ALL SELECT ts, -v FROM t WHERE v > 5;
"""


def every(first: float, step: float, size: float) -> str:
    """Windows that begin at `first` and each `step` seconds later."""
    return f"(SELECT sec({first} + {step} * i) AS ws, sec({first} + {step} * i + {size}) AS we FROM range(99) AS r(i))"


def growing(first: float, step: float, size: float) -> str:
    """Windows that begin each `size` seconds and grow by `step`."""
    return (
        f"(SELECT sec({first} + {size} * i) AS ws, sec({first} + {size} * i + {step} * (j + 1)) AS we "
        f"FROM range(20) AS r(i), range({int(size / step)}) AS q(j))"
    )


def rows_in(windows: str, table: str = "t", time: str = "ts") -> str:
    return f"{table} JOIN {windows} AS w ON {time} >= ws AND {time} < we"


def tvf(kind: str, *lengths: str, table: str = "t", time: str = "ts") -> str:
    listed = ", ".join(f"INTERVAL '{n}' SECOND" for n in lengths)
    return f"TABLE({kind}(TABLE {table}, DESCRIPTOR({time}), {listed}))"


TENS = tvf("TUMBLE", "10")
WITH_OFFSETS = {
    "tumble, later": (tvf("TUMBLE", "10", "3"), every(-37, 10, 10)),
    "tumble, earlier": (tvf("TUMBLE", "10", "-3"), every(-43, 10, 10)),
    "tumble, by more than its size": (tvf("TUMBLE", "10", "73"), every(-37, 10, 10)),
    "tumble, below a second": (tvf("TUMBLE", "0.5"), every(0, 0.5, 0.5)),
    "hop, no multiple": (tvf("HOP", "4", "10"), every(-40, 4, 10)),
    "hop, earlier": (tvf("HOP", "5", "10", "-2"), every(-42, 5, 10)),
    "hop, with gaps": (tvf("HOP", "10", "3"), every(-40, 10, 3)),
    "cumulate": (tvf("CUMULATE", "5", "20"), growing(-40, 5, 20)),
    "cumulate, earlier": (tvf("CUMULATE", "5", "20", "-2"), growing(-42, 5, 20)),
    "minutes to seconds": (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '0:15' MINUTE TO SECOND))",
        every(-45, 15, 15),
    ),
}
CASES = {
    name: (
        f"SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM {call} GROUP BY window_start, window_end, k",
        f"SELECT ws, we, k, count(*), sum(v) FROM {rows_in(windows)} GROUP BY ws, we, k",
    )
    for name, (call, windows) in WITH_OFFSETS.items()
} | {
    "tumble over tumble": (
        "SELECT window_start, window_end, SUM(n) AS n, MAX(s) AS m, COUNT(*) AS c "
        f"FROM {tvf('TUMBLE', '15', table='fives', time='moment')} GROUP BY window_start, window_end",
        f"SELECT ws, we, sum(n), max(s), count(*) FROM {rows_in(every(-45, 15, 15), 'fives', 'moment')} GROUP BY ws, we",
    ),
    "hop over tumble": (
        f"SELECT window_end, k, SUM(n) AS n FROM {tvf('HOP', '5', '10', table='fives', time='moment')} "
        "GROUP BY window_start, window_end, k",
        f"SELECT we, k, sum(n) FROM {rows_in(every(-45, 5, 10), 'fives', 'moment')} GROUP BY we, k",
    ),
    "cumulate over tumble": (
        f"SELECT window_start, window_end, SUM(s) AS s FROM {tvf('CUMULATE', '5', '10', table='fives', time='moment')} "
        "GROUP BY window_start, window_end",
        f"SELECT ws, we, sum(s) FROM {rows_in(growing(-40, 5, 10), 'fives', 'moment')} GROUP BY ws, we",
    ),
    "older spelling over older spelling": (
        "SELECT TUMBLE_START(moment, INTERVAL '15' SECOND) AS s, SUM(n) AS n FROM older "
        "GROUP BY TUMBLE(moment, INTERVAL '15' SECOND)",
        f"SELECT ws, count(*) FROM {rows_in(every(-45, 15, 15))} GROUP BY ws",
    ),
    "same windows again": (
        "SELECT window_start, window_end, MAX(n) AS m FROM (SELECT window_start, window_end, k, COUNT(*) AS n "
        f"FROM {tvf('HOP', '5', '10')} GROUP BY window_start, window_end, k) GROUP BY window_start, window_end",
        f"SELECT ws, we, max(n) FROM (SELECT ws, we, k, count(*) AS n FROM {rows_in(every(-45, 5, 10))} GROUP BY ws, we, k) "
        "GROUP BY ws, we",
    ),
    "grouping sets": (
        f"SELECT window_start, k, id, COUNT(*) AS n, GROUPING(k) AS g FROM {tvf('HOP', '5', '10')} GROUP BY GROUPING SETS ("
        "(window_start, window_end, k), (window_start, window_end, id), (window_start, window_end))",
        f"SELECT ws, k, id, count(*), GROUPING(k) FROM {rows_in(every(-45, 5, 10))} "
        "GROUP BY GROUPING SETS ((ws, k), (ws, id), (ws))",
    ),
    "cube of an expression": (
        f"SELECT window_end, k, v > 5 AS big, COUNT(*) AS n, GROUPING_ID(k, v > 5) AS g "
        f"FROM {tvf('CUMULATE', '10', '20')} GROUP BY window_start, window_end, CUBE (k, v > 5)",
        "SELECT we, k, big, count(*), GROUPING(k, big) FROM (SELECT *, v > 5 AS big "
        f"FROM {rows_in(growing(-40, 10, 20))}) GROUP BY ws, we, CUBE (k, big)",
    ),
    "rollup and having": (
        f"SELECT window_start, k, SUM(v) AS s FROM {TENS} GROUP BY window_start, window_end, ROLLUP (k) HAVING SUM(v) > 7",
        f"SELECT ws, k, sum(v) FROM {rows_in(every(-40, 10, 10))} GROUP BY ws, ROLLUP (k) HAVING sum(v) > 7",
    ),
    "rows of windows": (
        f"SELECT id, window_start, window_end, window_time FROM {tvf('HOP', '5', '10')} WHERE k = 'b'",
        f"SELECT id, ws, we, we - INTERVAL 1 MILLISECOND FROM {rows_in(every(-45, 5, 10))} WHERE k = 'b'",
    ),
    "first rows of windows": (
        "SELECT window_end, id, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
        f"ORDER BY v DESC, id) AS place FROM {TENS}) WHERE place <= 2",
        "SELECT we, id, place FROM (SELECT we, id, row_number() OVER (PARTITION BY ws, k ORDER BY v DESC NULLS LAST, id) "
        f"AS place FROM {rows_in(every(-40, 10, 10))}) WHERE place <= 2",
    ),
    "best groups of windows": (
        "SELECT window_end, COALESCE(k, '') AS k, s FROM "
        "(SELECT *, RANK() OVER (PARTITION BY window_start, window_end ORDER BY s DESC) AS place "
        f"FROM (SELECT window_start, window_end, k, SUM(v) AS s FROM {TENS} GROUP BY window_start, window_end, k)) "
        "WHERE place = 1",
        f"SELECT we, arg_max(k, s), max(s) FROM (SELECT we, coalesce(k, '') AS k, sum(v) AS s "
        f"FROM {rows_in(every(-40, 10, 10))} GROUP BY we, k) GROUP BY we",
    ),
    "not by the window": (
        f"SELECT k, COUNT(*) AS n, COUNT(DISTINCT window_start) AS w FROM {tvf('HOP', '5', '10')} GROUP BY k",
        f"SELECT k, count(*), count(DISTINCT ws) FROM {rows_in(every(-45, 5, 10))} GROUP BY k",
    ),
    "expressions over the bounds": (
        "SELECT SECOND(window_end) AS e, TIMESTAMPDIFF(SECOND, window_start, window_end) AS d, "
        f"SUM(v) FILTER (WHERE k = 'a') AS s, COUNT(DISTINCT k) AS u FROM {TENS} GROUP BY window_start, window_end",
        f"SELECT second(we), 10, sum(v) FILTER (k = 'a'), count(DISTINCT k) FROM {rows_in(every(-40, 10, 10))} GROUP BY we",
    ),
    "a condition on the bounds": (
        f"SELECT window_start, COUNT(*) AS n FROM {TENS} WHERE window_start >= TIMESTAMP '2024-01-01 00:00:10' "
        "AND k IS NOT NULL GROUP BY window_start, window_end",
        f"SELECT ws, count(*) FROM {rows_in(every(10, 10, 10))} WHERE k IS NOT NULL GROUP BY ws",
    ),
    "windows over a union": (
        f"SELECT window_start, SUM(v) AS s FROM {tvf('TUMBLE', '10', table='mixed')} GROUP BY window_start, window_end",
        f"SELECT ws, sum(v) FROM {rows_in(every(-40, 10, 10), 'mixed')} GROUP BY ws",
    ),
    "a union of windows": (
        f"SELECT window_start, COUNT(*) AS n FROM {TENS} GROUP BY window_start, window_end UNION ALL "
        f"SELECT window_start, COUNT(*) FROM {tvf('TUMBLE', '20')} GROUP BY window_start, window_end",
        f"SELECT ws, count(*) FROM {rows_in(every(-40, 10, 10))} GROUP BY ws UNION ALL "
        f"SELECT ws, count(*) FROM {rows_in(every(-40, 20, 20))} GROUP BY ws",
    ),
}


def _expected(query: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (id INT, k VARCHAR, v INT, ts TIMESTAMP)")
        rows = [(id_, k, v, datetime.fromisoformat(_time(seconds))) for id_, k, v, seconds in ROWS]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        connection.execute(JUDGE)
        return Counter(connection.execute(query).fetchall())


def _time(seconds: str) -> str:
    whole, _, fraction = seconds.partition(".")
    return f"2024-01-01 00:00:{whole}.{fraction:0<3}"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
def test_windows_are_what_a_join_with_them_gives(name: str, tmp_path: Path) -> None:
    query, judge = CASES[name]
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": i, "k": k, "v": v, "ts": _time(seconds)}) for i, k, v, seconds in ROWS]
    (tmp_path / "in" / "rows.json").write_text("\n".join(lines))
    (tmp_path / "p.sql").write_text(f"{TABLE}CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};")
    with collecting() as collected:
        run_here(plan_file(tmp_path / "p.sql"), tmp_path, parallelism=1, rows_per_epoch=4, tasks=1)
        rows = collected.folded("out")
    assert rows
    assert Counter(rows) == _expected(judge)
