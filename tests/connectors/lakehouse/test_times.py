"""Dates and times at the ends of their types: written as they are, or refused before their epoch is decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

import deltalake

from sqlstream.connectors.lakehouse.times import check_times
from sqlstream.planning import plan_file
from sqlstream_operators.errors import DataError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.iceberg import tables as iceberg
from tests.properties.in_process import run_here

OPTIONS = {
    "delta": "'connector' = 'delta', 'table-path' = 'table'",
    "iceberg": iceberg.OPTIONS.format(name="table"),
}


def _run(folder: Path, lake: str, value: str, type_: str, *, key: bool) -> None:
    """Give a table a row with a value, in an epoch of its own behind one with NULL."""
    (folder / "in").mkdir(exist_ok=True)
    for k in (1, 2):
        (folder / "in" / f"{k}.json").write_text(json.dumps({"k": k}) + "\n")
    of_row = f"CASE WHEN k = 2 THEN {value} END"
    query = f"SELECT k, MAX({of_row}) FROM t GROUP BY k" if key else f"SELECT k, {of_row} FROM t"
    sql = (
        "CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        f"CREATE TABLE o (k INT, z {type_}{', PRIMARY KEY (k) NOT ENFORCED' if key else ''}) "
        f"WITH ({OPTIONS[lake]});\nINSERT INTO o {query};\n"
    )
    run_here(plan_file(sql, file="p.sql"), folder, rows_per_epoch=1)


def _rows(folder: Path, lake: str) -> list[tuple[int, str | None]]:
    if lake == "delta":
        there = deltalake.DeltaTable(str(folder / "table")).to_pyarrow_table()
    else:
        there = iceberg.table(folder).scan().to_arrow()
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("there", there)
    return sorted(connection.sql("SELECT k, CAST(z AS VARCHAR) FROM there").fetchall())


@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize(
    ("lake", "type_", "value"),
    [
        (lake, type_, value)
        for lake in OPTIONS
        for type_, value in (
            ("DATE", "infinity"),
            ("DATE", "0044-03-15 (BC)"),
            ("TIMESTAMP(6)", "-infinity"),
            ("TIMESTAMP(6)", "12345-06-07"),
            ("TIMESTAMP_LTZ(6)", "infinity"),
        )
    ],
)
def test_refused_before_the_epoch(lake: str, type_: str, value: str, key: bool, tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError) as raised:
        _run(tmp_path, lake, f"CAST('{value}' AS {type_})", type_, key=key)
    [told] = raised.value.diagnostics
    assert told.code == ("DAT002" if key else "DAT001")
    assert "a row of `o` has " in told.message
    assert "of the years 1 to 9999: write CASE WHEN z BETWEEN " in told.message
    assert _rows(tmp_path, lake) == [(1, None)]
    # The state stands before the epoch, so an edit as the message says goes on.
    kept = (
        f"CASE WHEN CAST('{value}' AS {type_}) BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN NULL END"
    )
    _run(tmp_path, lake, f"CAST({kept} AS {type_})", type_, key=key)
    assert _rows(tmp_path, lake) == [(1, None), (2, None)]


@pytest.mark.parametrize("lake", [*OPTIONS])
@pytest.mark.parametrize("key", [False, True])
@pytest.mark.parametrize(
    ("type_", "value"),
    [("DATE", "0001-01-01"), ("DATE", "9999-12-31"), ("TIMESTAMP(6)", "9999-12-31 23:59:59.999999")],
)
def test_the_first_and_the_last(lake: str, type_: str, value: str, key: bool, tmp_path: Path) -> None:
    _run(tmp_path, lake, f"CAST('{value}' AS {type_})", type_, key=key)
    assert _rows(tmp_path, lake) == [(1, None), (2, value)]


def test_times_inside_of_others() -> None:
    day, stamp = 2**31 - 1, 2**63 - 1
    of_type: dict[pa.DataType, list[Any]] = {
        pa.list_(pa.date32()): [[0, day]],
        pa.map_(pa.string(), pa.timestamp("us")): [[("a", stamp)]],
        pa.struct([("a", pa.int32()), ("b", pa.timestamp("us", tz="UTC"))]): [{"a": 1, "b": stamp}],
        pa.struct([("a", pa.list_(pa.date32()))]): [{"a": [day]}],
    }
    for type_, values in of_type.items():
        rows = pa.table({"z": pa.array([None, values[0], None], type=type_)})
        with pytest.raises(DataError, match="has infinity in `z`"):
            check_times("o", rows)
        check_times("o", rows.slice(2))
