"""Types that DuckDB checks and rounds by: arrays of a size, TIMESTAMP_S and TIMESTAMP_MS; and those that are refused."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import batch_of, collecting

_ROWS: list[dict[str, Any]] = [
    {"k": 1, "a": [1, 2, 3], "ts": "2024-01-01 00:00:00.600"},
    {"k": 2, "a": [4, None, 6], "ts": "1960-01-01 00:00:00.5004"},
    {"k": 1, "a": None, "ts": None},
    {"k": 3, "a": [1, 2, 3], "ts": "1969-12-31 23:59:58.5"},
]


def _run(folder: Path, columns: str, query: str, sink: str | None = None) -> Rows:
    """What the query gives over `_ROWS`, into a table with the columns `sink` or with its own; DuckDB gives the same."""
    (folder / "in").mkdir()
    (folder / "in" / "0.json").write_text("".join(json.dumps(row) + "\n" for row in _ROWS))
    text = (
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
    )
    if sink is None:
        text += f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};"
    else:
        text += f"CREATE TABLE out ({sink}) WITH ('connector' = 'blackhole'); INSERT INTO out {query};"
    (folder / "p.sql").write_text(text)
    planned = plan_file(folder / "p.sql")
    with collecting() as collected:
        run_here(planned, folder, parallelism=2, rows_per_epoch=2)
    given = collected.folded("out")
    assert_same(given, batch_of(to_duckdb(planned, lambda _: [str(folder / "in" / "0.json")])))
    return given


def test_times_are_rounded_as_duckdb_rounds_them(tmp_path: Path) -> None:
    """Half a second goes away from 1970; TIMESTAMP(0) cuts, as Flink does."""
    query = (
        "SELECT MAX(k) AS k, ts::TIMESTAMP_S AS s, CAST(ts AS TIMESTAMP_MS) AS m, CAST(ts AS TIMESTAMP(0)) AS cut, "
        "CAST(CAST(ts AS TIMESTAMP(0)) AS TIMESTAMP_S) AS both FROM t WHERE ts IS NOT NULL GROUP BY ts"
    )
    given = _run(tmp_path, "k INT, ts TIMESTAMP", query)
    first, second, third = datetime(2024, 1, 1), datetime(1960, 1, 1), datetime(1969, 12, 31, 23, 59, 58)
    wanted = [
        (1, datetime(2024, 1, 1, 0, 0, 1), first.replace(microsecond=600_000), first, first),
        (2, datetime(1960, 1, 1, 0, 0, 1), second.replace(microsecond=500_000), second, second),
        (3, third, third.replace(microsecond=500_000), third, third),
    ]
    assert_same(given, wanted)


def test_arrays_of_a_size_are_keys_values_and_columns_of_sinks(tmp_path: Path) -> None:
    query = "SELECT a, COUNT(*) AS n, [ANY_VALUE(a)] AS nested FROM t GROUP BY a"
    given = _run(tmp_path, "k INT, a INT[3]", query, "a INT[3], n BIGINT, nested BIGINT[3][1]")
    assert_same(given, [([1, 2, 3], 2, [[1, 2, 3]]), ([4, None, 6], 1, [[4, None, 6]]), (None, 1, [None])])


def test_an_array_of_another_size_is_no_value(tmp_path: Path) -> None:
    query = (
        "SELECT k, TRY_CAST(a AS INT[2]) AS two, TRY_CAST([k, k] AS INT[2])[2] AS there FROM t WHERE k > 1"
    )
    assert_same(_run(tmp_path, "k INT, a INT[]", query), [(2, None, 2), (3, None, 3)])


@pytest.mark.parametrize(
    ("columns", "query", "sink"),
    [
        ("k INT, a INT[2]", "SELECT a FROM t", None),
        ("k INT, a INT[]", "SELECT CAST(a AS INT[2]) AS a FROM t", None),
        ("k INT, a INT[]", "SELECT a FROM t", "a INT[2]"),
        ("k INT, a INT[3]", "SELECT {'x': a} AS r FROM t", "r STRUCT(x INT[4])"),
    ],
)
def test_an_array_of_another_size_stops_the_run(
    columns: str, query: str, sink: str | None, tmp_path: Path
) -> None:
    with pytest.raises(DiagnosticError, match="with length 3 to array with length"):
        _run(tmp_path, columns, query, sink)


@pytest.mark.parametrize(
    ("type_", "why"),
    [
        ("TIME_NS", "TIME_NS: time is kept in microseconds"),
        ("UHUGEINT", "UHUGEINT: whole numbers are kept with a sign"),
        ("ENUM('a', 'a')", "'a' stands twice in an ENUM"),
        ("ENUM(1)", "an ENUM is written with its texts"),
        ("INT[0]", "there is no type `INT[0]`"),
        ("INT[100001]", "there is no type `INT[100001]`"),
        ("STRUCT(x UNION(a INT, b TEXT))", "a value is kept with one type"),
    ],
)
def test_what_can_not_be_kept_exactly_is_refused(type_: str, why: str) -> None:
    table = (
        "CREATE TABLE t (k INT, x {}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');"
    )
    for columns, item in ((type_, "k"), ("VARCHAR", f"CAST(x AS {type_})")):
        text = (
            table.format(columns)
            + f"CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT {item} AS z FROM t;"
        )
        with pytest.raises(DiagnosticError) as refused:
            plan_file(text, file="f.sql")
        assert why in str(refused.value)
