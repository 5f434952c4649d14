"""Values of every type come out of the state as they went in, and are found where they are keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.state.committed import find_committed
from sqlstream.state.query import StateDatabase
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.properties.in_process import run_here

#: A type, values of it in JSON, and how one of them is written in SQL.
TYPES: dict[str, tuple[list[Any], str]] = {
    "BIGINT": ([-1, 9223372036854775807, None], "9223372036854775807"),
    "TINYINT": ([-128, 127, None], "'-128'"),
    "STRING": (["", "ä'\"\\", "x" * 300, "a\x00b", None], "'ä''\"\\'"),
    "BOOLEAN": ([True, False, None], "true"),
    "DECIMAL(38, 10)": ([1.5, -2.25, None], "-2.25"),
    "DOUBLE": ([1.5, 0.0, -7.25, 1e300, None], "1.5"),
    "DATE": (["2024-02-29", "0001-01-01", None], "DATE '2024-02-29'"),
    "TIMESTAMP(6)": (
        ["2024-02-29 10:00:00.123456", "1969-12-31 23:59:59.999999", None],
        "'1969-12-31 23:59:59.999999'",
    ),
    "TIMESTAMP_LTZ(3)": (["2024-02-29 10:00:00", None], "TIMESTAMPTZ '2024-02-29 12:00:00+02'"),
    "TIMESTAMP_NS": (
        ["2024-02-29 10:00:00.123456789", "1969-12-31 23:59:59.999999999", None],
        "'1969-12-31 23:59:59.999999999'",
    ),
    "TIMETZ": (["10:00:00.5+02:30", "07:30:00.5+00", "23:59:59-01", None], "TIMETZ '07:30:00.5+00'"),
    "BIT": (["0", "00", "101", None], "'00'"),
    "ENUM('sad', 'ok', 'it''s')": (["ok", "it's", "sad", None], "'ok'"),
    "TIME(0)": (["10:00:00", "23:59:59", None], "TIME '23:59:59'"),
}
#: DuckDB does not tell which keys it wants of types that Arrow has none of.
SCANNED = ("DOUBLE", "TIMESTAMP_NS", "TIMETZ", "BIT", "ENUM('sad', 'ok', 'it''s')")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", TYPES)
def test_a_key_of_each_type(type_: str, tmp_path: Path) -> None:
    values, literal = TYPES[type_]
    (tmp_path / "in").mkdir()
    rows = [{"k": value} for value in values for _ in range(2)]
    (tmp_path / "in/1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = f"""CREATE TABLE t (k {type_}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
    CREATE TABLE o (k {type_}, n BIGINT) WITH ('connector' = 'blackhole');
    INSERT INTO o SELECT k, COUNT(*) AS n FROM t GROUP BY k;"""
    planned = plan_file(text, file="q.sql")
    run_here(planned, tmp_path, sql=planned.masked_sql, parallelism=3)
    in_duckdb = {
        "STRING": "VARCHAR",
        "TIMESTAMP(6)": "TIMESTAMP",
        "TIMESTAMP_LTZ(3)": "TIMESTAMPTZ",
        "TIME(0)": "TIME",
    }
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"CREATE TABLE t (k {in_duckdb.get(type_, type_)})")
    connection.executemany("INSERT INTO t VALUES (?)", [[row["k"]] for row in rows])
    for where in (
        "true",
        f"k = {literal}",
        f"k IN ({literal})",
        "k IS NULL",
        f"k > {literal}",
        f"k <> {literal}",
    ):
        sql = f"SELECT CAST(k AS VARCHAR), CAST(n AS VARCHAR) FROM {{}} WHERE {where} ORDER BY ALL"
        wanted = connection.execute(sql.format("(SELECT k, count(*) AS n FROM t GROUP BY k)")).fetchall()
        with StateDatabase(find_committed(CheckpointStore(tmp_path / "state", sync=False))) as database:
            assert [tuple(row) for row in database.query(sql.format("group_aggregate_1")).rows] == wanted, (
                where
            )
            if where.startswith("k =") and type_ not in SCANNED:
                assert (database.counts.rows, database.counts.shards_scanned) == (1, 0)
