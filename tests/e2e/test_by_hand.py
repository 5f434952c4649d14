"""Whole files, from their input to their output, against rows that were worked out by hand.

DuckDB's batch of the same file can't see what the binder gets wrong: both sides start from its plan.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from tests.properties.in_process import run_here

BIDS = """2020-04-15 08:05,4.00,supplier1
2020-04-15 08:07,2.00,supplier1
2020-04-15 08:09,5.00,supplier2
2020-04-15 08:11,3.00,supplier2
2020-04-15 08:13,1.00,supplier1
2020-04-15 08:17,6.00,supplier2
"""
BID = """CREATE TABLE bid (
  bidtime TIMESTAMP(3), price DECIMAL(10, 2), supplier STRING,
  WATERMARK FOR bidtime AS bidtime - INTERVAL '1' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'input.csv', 'format' = 'csv');
"""
HOPPED = BID + (
    "CREATE VIEW hopped AS SELECT window_start AS s, window_end AS e, window_time AS t, SUM(price) AS p FROM TABLE("
    "HOP(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)) "
    "GROUP BY window_start, window_end, window_time;\n"
)
HOPPED_TWICE = [
    "08:00 08:10 11.00",
    "08:05 08:15 26.00",
    "08:10 08:20 25.00",
    "08:15 08:25 16.00",
    "08:20 08:30 6.00",
]


def run(
    folder: Path, declarations: str, query: str, data: str, rows_per_epoch: int | None = None
) -> list[str]:
    """The rows that a file gives, cells separated by a space, timestamps of BIDS' day as HH:MM."""
    folder.mkdir(exist_ok=True)
    (folder / "input.csv").write_text(data, encoding="utf-8")
    options = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'parquet'"
    (folder / "p.sql").write_text(
        f"{declarations}CREATE TABLE o WITH ({options}) AS {query};", encoding="utf-8"
    )
    run_here(plan_file(folder / "p.sql"), folder, rows_per_epoch=rows_per_epoch)
    files = [str(f) for f in (folder / "out").glob("*.parquet")]
    rows = duckdb.connect().execute("SELECT * FROM read_parquet(?)", [files]).fetchall() if files else []
    return sorted(" ".join(_shown(cell) for cell in row) for row in rows)


def _shown(cell: object) -> str:
    text = str(cell)
    return text.removeprefix("2020-04-15 ").removesuffix(":00") if text.startswith("2020-04-15 ") else text


@pytest.mark.parametrize("rows_per_epoch", [None, 1])
@pytest.mark.parametrize(
    "query",
    [
        "SELECT window_start, window_end, SUM(p) AS p FROM TABLE(HOP(TABLE hopped, DESCRIPTOR(t), "
        "INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)) GROUP BY window_start, window_end",
        "SELECT HOP_START(t, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE), "
        "HOP_END(t, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE), SUM(p) "
        "FROM hopped GROUP BY HOP(t, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)",
    ],
    ids=["table function", "group window"],
)
def test_windows_over_the_same_windows_are_windows_of_their_own(
    query: str, rows_per_epoch: int | None, tmp_path: Path
) -> None:
    """The first window's bounds are columns of the second's rows: they must not be taken for its bounds."""
    assert run(tmp_path, HOPPED, query, BIDS, rows_per_epoch) == HOPPED_TWICE


def test_bounds_of_an_inner_window_can_be_aggregated_and_grouped_by(tmp_path: Path) -> None:
    again = "TABLE(HOP(TABLE hopped, DESCRIPTOR(t), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))"
    query = f"SELECT window_end, MIN(s) AS s, MAX(e) AS e FROM {again} GROUP BY window_start, window_end"
    assert run(tmp_path, HOPPED, query, BIDS) == [
        "08:10 08:00 08:10",
        "08:15 08:00 08:15",
        "08:20 08:05 08:20",
        "08:25 08:10 08:25",
        "08:30 08:15 08:25",
    ]


def test_inner_bounds_are_keys_like_others_beside_the_window(tmp_path: Path) -> None:
    again = "TABLE(HOP(TABLE hopped, DESCRIPTOR(t), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))"
    query = f"SELECT window_end, e, SUM(p) AS p FROM {again} GROUP BY window_start, window_end, e"
    assert run(tmp_path, HOPPED, query, BIDS, rows_per_epoch=1) == [
        "08:10 08:10 11.00",
        "08:15 08:10 11.00",
        "08:15 08:15 15.00",
        "08:20 08:15 15.00",
        "08:20 08:20 10.00",
        "08:25 08:20 10.00",
        "08:25 08:25 6.00",
        "08:30 08:25 6.00",
    ]


@pytest.mark.parametrize("time", ["window_time", "t"])
def test_a_windows_columns_hide_columns_of_the_same_name(time: str, tmp_path: Path) -> None:
    """Flink's documentation cascades windows so: the inner query gives window_start and window_end too."""
    alias = "" if time == "window_time" else " AS t"
    declarations = (
        f"{BID}CREATE VIEW per_supplier AS SELECT window_start, window_end, window_time{alias}, SUM(price) AS p "
        "FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(bidtime), INTERVAL '5' MINUTE)) "
        "GROUP BY supplier, window_start, window_end, window_time;\n"
    )
    outer = f"TABLE(TUMBLE(TABLE per_supplier, DESCRIPTOR({time}), INTERVAL '10' MINUTE))"
    query = f"SELECT window_start, window_end, SUM(p) AS p FROM {outer} GROUP BY window_start, window_end"
    assert run(tmp_path, declarations, query, BIDS) == ["08:00 08:10 11.00", "08:10 08:20 10.00"]
    [warning] = plan_file(tmp_path / "p.sql").warnings
    assert warning.code == "SQL103"
    assert "`window_start`, `window_end`" in warning.message


def test_group_windows_over_columns_called_like_their_own(tmp_path: Path) -> None:
    """A recipe of the Flink SQL cookbook: the event-time column of a view is called window_end."""
    five, ten = "INTERVAL '5' MINUTE", "INTERVAL '10' MINUTE"
    view = (
        f"{BID}CREATE VIEW fives AS SELECT TUMBLE_START(bidtime, {five}) AS window_start, "
        f"TUMBLE_ROWTIME(bidtime, {five}) AS window_end, SUM(price) AS p FROM bid GROUP BY TUMBLE(bidtime, {five});\n"
    )
    query = (
        f"SELECT TUMBLE_START(window_end, {ten}) AS window_start, MIN(window_start) AS first, SUM(p) AS p "
        f"FROM fives GROUP BY TUMBLE(window_end, {ten})"
    )
    assert run(tmp_path, view, query, BIDS) == ["08:00 08:05 11.00", "08:10 08:10 10.00"]


def test_group_windows_beside_bounds_of_an_inner_window(tmp_path: Path) -> None:
    hop = "(t, INTERVAL '5' MINUTE, INTERVAL '600' SECOND)"
    query = f"SELECT e, HOP_END{hop}, SUM(p) FROM hopped GROUP BY e, HOP{hop.replace('600', '600.0')}"
    assert run(tmp_path, HOPPED, query, BIDS, rows_per_epoch=1) == [
        "08:10 08:10 11.00",
        "08:10 08:15 11.00",
        "08:15 08:15 15.00",
        "08:15 08:20 15.00",
        "08:20 08:20 10.00",
        "08:20 08:25 10.00",
        "08:25 08:25 6.00",
        "08:25 08:30 6.00",
    ]


def test_a_map_is_unnested_into_keys_and_values(tmp_path: Path) -> None:
    table = """CREATE TABLE t (id INT, m MAP<STRING, INT>)
        WITH ('connector' = 'filesystem', 'path' = 'input.csv', 'format' = 'json');
    """
    data = '{"id": 1, "m": {"a": 5, "b": null}}\n{"id": 2, "m": {}}\n{"id": 3, "m": null}\n'
    named = "SELECT id, k, v FROM t CROSS JOIN UNNEST(m) AS u (k, v)"
    assert run(tmp_path, table, named, data) == ["1 a 5", "1 b None"]


def test_a_row_without_elements_has_no_ordinality(tmp_path: Path) -> None:
    table = """CREATE TABLE t (id INT, a ARRAY<STRING>, m MAP<STRING, INT>)
        WITH ('connector' = 'filesystem', 'path' = 'input.csv', 'format' = 'json');
    """
    data = '{"id": 1, "a": ["x", null], "m": {"k": 5}}\n{"id": 2, "a": [], "m": {}}\n{"id": 3}\n'
    numbered = "SELECT id, e, n FROM t {} UNNEST(a) WITH ORDINALITY AS u (e, n)"
    assert run(tmp_path / "inner", table, numbered.format("CROSS JOIN"), data) == ["1 None 2", "1 x 1"]
    assert run(tmp_path / "outer", table, numbered.format("LEFT JOIN") + " ON TRUE", data) == [
        "1 None 2",
        "1 x 1",
        "2 None None",
        "3 None None",
    ]
    of_map = "SELECT id, k, v, n FROM t LEFT JOIN UNNEST(m) WITH ORDINALITY AS u (k, v, n) ON TRUE"
    assert run(tmp_path / "map", table, of_map, data) == ["1 k 5 1", "2 None None None", "3 None None None"]


def test_an_option_can_be_a_string_with_unicode_escapes(tmp_path: Path) -> None:
    table = """CREATE TABLE t (a STRING, b INT) WITH ('connector' = 'filesystem', 'path' = 'input.csv',
        'format' = 'csv', 'csv.field-delimiter' = U&'\\0009');
    """
    query = "SELECT a || U&'\\00e9\\+01F389\\\\' AS a, b FROM t"
    assert run(tmp_path, table, query, "x\t1\n") == ["xé🎉\\ 1"]


def test_options_of_generated_columns_that_no_query_reads(tmp_path: Path) -> None:
    table = """CREATE TABLE g (id BIGINT, k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH (
        'connector' = 'datagen', 'rows-per-second' = '10', 'fields.k.min' = '1', 'fields.k.max' = '3',
        'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '100');
    """
    windows = "TABLE(TUMBLE(TABLE g, DESCRIPTOR(ts), INTERVAL '5' SECOND))"
    query = f"SELECT COUNT(*) AS n FROM {windows} GROUP BY window_start, window_end"
    assert run(tmp_path, table, query, "") == ["50", "50"]


def test_flinks_options_of_partition_commits_are_taken(tmp_path: Path) -> None:
    """As in Nexmark's query 10; files are visible when their epoch is committed, whatever these say."""
    (tmp_path / "p.sql").write_text(
        BID + "CREATE TABLE o (price DECIMAL(10, 2), day STRING) PARTITIONED BY (day) WITH ("
        "'connector' = 'filesystem', 'path' = 'out', 'format' = 'csv', "
        "'sink.partition-commit.trigger' = 'partition-time', 'sink.partition-commit.delay' = '1 min', "
        "'sink.partition-commit.policy.kind' = 'success-file', "
        "'partition.time-extractor.timestamp-pattern' = '$day 00:00:00');\n"
        "INSERT INTO o SELECT price, DATE_FORMAT(bidtime, 'yyyy-MM-dd') FROM bid;",
        encoding="utf-8",
    )
    assert plan_file(tmp_path / "p.sql").physical.sinks[0].partitioned_by == ("day",)
