from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from benchmarks.peers import BENCHMARKS, UPDATING
from benchmarks.sqlstream_warm import run_sqlstream
from sqlstream.runtime.tasks.local_runner import InProcessRunner

BIDS = """SELECT range % 7 AS auction, range % 3 AS bidder, range AS price, 'c' AS channel, 'u' AS url,
  TIMESTAMP '2024-01-01' + to_milliseconds(range * 100) AS dateTime, 'x' AS extra FROM range(1000)"""
# 100 s of event time, so that windows close long before the input ends.
WINDOWS = "time_bucket(INTERVAL '2 seconds', dateTime) - to_seconds(2 * k)"
ROWS_OUT = {
    "q0": "SELECT count(*) FROM bid",
    "q2": "SELECT count(*) FROM bid WHERE auction % 123 = 0",
    "q12": """SELECT count(*)
        FROM (SELECT DISTINCT bidder, time_bucket(INTERVAL '10 seconds', dateTime) FROM bid)""",
    "q5_hop": f"""SELECT count(*) FROM (SELECT DISTINCT auction, {WINDOWS}
        FROM bid, (SELECT unnest(range(5)) AS k))""",
    "q15": "SELECT 1",
    "q16": "SELECT 1",
    "q17": "SELECT count(DISTINCT auction) FROM bid",
    "q18": "SELECT count(DISTINCT (auction, bidder)) FROM bid",
    "q19": "SELECT 70",
}


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_pipeline_runs_and_writes_as_many_rows_as_duckdb(name: str, tmp_path: Path) -> None:
    benchmark = BENCHMARKS[name]
    folder = tmp_path / benchmark.format / "bid"
    folder.mkdir(parents=True)
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE bid AS {BIDS}")
        con.execute(f"COPY bid TO '{folder}/part-0.{benchmark.format}' (FORMAT {benchmark.format})")
        row = con.execute(ROWS_OUT[benchmark.query]).fetchone()
    run = run_sqlstream(benchmark.pipeline, tmp_path, tmp_path, InProcessRunner, 2, 300)
    assert run.rows_in == 1000
    # Rows out of an updating query are changes: at least the rows that are there in the end.
    assert row is not None
    assert run.rows_out >= row[0] if name in UPDATING else run.rows_out == row[0]
    assert len(run.epochs) >= 4
