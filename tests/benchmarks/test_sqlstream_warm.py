from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from benchmarks.peers import BENCHMARKS, UPDATING
from benchmarks.sqlstream_warm import run_sqlstream
from sqlstream.runtime.tasks.local_runner import InProcessRunner

TABLES = {
    "bid": """SELECT range % 7 AS auction, range % 3 AS bidder, range * 10000 AS price,
      ['Apple', 'c'][1 + range % 2] AS channel, 'u' || CASE WHEN range % 5 = 1 THEN '&channel_id=7' ELSE '' END AS url,
      TIMESTAMP '2024-01-01' + to_milliseconds(range * 100) AS dateTime, 'x' AS extra FROM range(1000)""",
    "auction": """SELECT range AS id, 'i' AS itemName, 'd' AS description, range AS initialBid, range AS reserve,
      TIMESTAMP '2024-01-01' + to_milliseconds(range * 200) AS dateTime,
      TIMESTAMP '2024-01-01 00:01:00' + to_milliseconds(range * 1000) AS expires,
      range % 50 AS seller, 10 + range % 2 AS category, 'x' AS extra FROM range(300)""",
    "person": """SELECT range AS id, 'n' || range AS name, 'e' AS emailAddress, 'c' AS creditCard, 'c' AS city,
      ['OR', 'ID', 'NY'][1 + range % 3] AS state,
      TIMESTAMP '2024-01-01' + to_milliseconds(range * 400) AS dateTime, 'x' AS extra FROM range(150)""",
}
# 100 s of event time, so that windows close long before the input ends.
WINDOWS = "time_bucket(INTERVAL '2 seconds', dateTime) - to_seconds(2 * k)"
TEN = "time_bucket(INTERVAL '10 seconds', dateTime)"
ROWS_OUT = {
    "q0": "SELECT count(*) FROM bid",
    "q1": "SELECT count(*) FROM bid",
    "q14": "SELECT count(*) FROM bid WHERE price BETWEEN 1101322 AND 55066079",
    "q21": "SELECT count(*) FROM bid WHERE channel = 'Apple' OR url LIKE '%channel_id%'",
    "q22": "SELECT count(*) FROM bid",
    "q2": "SELECT count(*) FROM bid WHERE auction % 123 = 0",
    "q12": """SELECT count(*)
        FROM (SELECT DISTINCT bidder, time_bucket(INTERVAL '10 seconds', dateTime) FROM bid)""",
    "q5_hop": f"""SELECT count(*) FROM (SELECT DISTINCT auction, {WINDOWS}
        FROM bid, (SELECT unnest(range(5)) AS k))""",
    "q3": """SELECT count(*) FROM auction JOIN person ON seller = person.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
    "q4": "SELECT count(DISTINCT category) FROM auction WHERE id < 7",
    "q5": f"""SELECT count(*) FROM (SELECT count(*) AS n, {WINDOWS} AS w
        FROM bid, (SELECT unnest(range(5)) AS k) GROUP BY auction, w QUALIFY n = max(n) OVER (PARTITION BY w))""",
    "q7": f"SELECT count(DISTINCT {TEN}) FROM bid",
    "q8": f"""SELECT count(*) FROM (SELECT DISTINCT seller, {TEN} AS w FROM auction) AS s
        JOIN (SELECT id, {TEN} AS w FROM person) AS p ON s.seller = p.id AND s.w = p.w""",
    "q9": "SELECT 7",
    "q11": "SELECT 3",
    "q20": "SELECT count(*) FROM bid JOIN auction ON id = auction WHERE category = 10",
    "q15": "SELECT 1",
    "q16": "SELECT 1",
    "q17": "SELECT count(DISTINCT auction) FROM bid",
    "q18": "SELECT count(DISTINCT (auction, bidder)) FROM bid",
    "q19": "SELECT 70",
}
READ = dict.fromkeys(("q4", "q9", "q20"), ("auction", "bid")) | dict.fromkeys(
    ("q3", "q8"), ("auction", "person")
)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_pipeline_runs_and_writes_as_many_rows_as_duckdb(name: str, tmp_path: Path) -> None:
    benchmark = BENCHMARKS[name]
    with duckdb.connect() as con:
        for table, rows in TABLES.items():
            folder = tmp_path / benchmark.format / table
            folder.mkdir(parents=True)
            con.execute(f"CREATE TABLE {table} AS {rows}")
            con.execute(f"COPY {table} TO '{folder}/part-0.{benchmark.format}' (FORMAT {benchmark.format})")
        read = sum(con.table(t).shape[0] for t in READ.get(name, ("bid",)))
        row = con.execute(ROWS_OUT[benchmark.query]).fetchone()
    run = run_sqlstream(benchmark.pipeline, tmp_path, {"data": str(tmp_path)}, InProcessRunner, 2, 300)
    assert run.rows_in == read
    # Rows out of an updating query are changes: at least the rows that are there in the end.
    assert row is not None
    assert run.rows_out >= row[0] if name in UPDATING else run.rows_out == row[0]
    assert len(run.epochs) >= (2 if name in READ else 4)
