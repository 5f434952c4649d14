"""A join of three tables on Spark, an aggregate over it, a Top-N above: restarted, rescaled, half of the rows in one key."""

from __future__ import annotations

import json
import random
from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.spark.stages import SparkJobRunner
from tests.properties.referee import assert_same

SQL = """SET 'execution.single-task-rows' = '0';
CREATE TABLE orders (id INT, customer INT, item INT) WITH ('connector' = 'filesystem', 'path' = 'orders', 'format' = 'json');
CREATE TABLE customers (id INT, city STRING) WITH ('connector' = 'filesystem', 'path' = 'customers', 'format' = 'json');
CREATE TABLE items (id INT, price INT) WITH ('connector' = 'filesystem', 'path' = 'items', 'format' = 'json');
CREATE TABLE best (city STRING, item INT, total BIGINT, n BIGINT, PRIMARY KEY (city, item) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'results.duckdb');
INSERT INTO best
SELECT city, item, total, n
FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY city ORDER BY total DESC, item) AS place
  FROM (
    SELECT coalesce(c.city, '?') AS city, o.item, CAST(SUM(i.price) AS BIGINT) AS total, COUNT(*) AS n
    FROM orders AS o LEFT JOIN customers AS c ON o.customer = c.id JOIN items AS i ON i.id = o.item
    GROUP BY coalesce(c.city, '?'), o.item
  )
)
WHERE place <= 3;
"""
EXPECTED = """SELECT city, item, total, n FROM (
  SELECT coalesce(c.city, '?') AS city, o.item, sum(i.price) AS total, count(*) AS n
  FROM read_json('{f}/orders/*.json') AS o
  LEFT JOIN read_json('{f}/customers/*.json') AS c ON o.customer = c.id
  JOIN read_json('{f}/items/*.json') AS i ON i.id = o.item
  GROUP BY ALL
) QUALIFY row_number() OVER (PARTITION BY city ORDER BY total DESC, item) <= 3"""
FILES = 4


def write(folder: Path, number: int) -> None:
    """A file of each table; half of the orders are of customer 7 and item 3, who are in the last file."""
    chance = random.Random(number)
    orders = []
    for n in range(60):
        hot = chance.random() < 0.5
        customer = 7 if hot else chance.choice([None, *range(20)])
        orders.append(
            {"id": 60 * number + n, "customer": customer, "item": 3 if hot else chance.randrange(8)}
        )
    mine = [c for c in range(12) if c % FILES == number]
    rows: dict[str, list[dict[str, object]]] = {
        "orders": orders,
        "customers": [{"id": c, "city": "ABC"[c % 3]} for c in mine],
        "items": [{"id": i, "price": 3 * i - 4} for i in range(8) if i % FILES == number],
    }
    for table, given in rows.items():
        (folder / table).mkdir(exist_ok=True)
        (folder / table / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in given))


@pytest.mark.spark
def test_three_tables_an_aggregate_and_the_best(tmp_path: Path, spark_runner: SparkJobRunner) -> None:
    plan = plan_file(SQL, file="p.sql").physical
    for number, shards in enumerate((3, 5, 2, 3)):
        write(tmp_path, number)
        result = run_pipeline(
            RunRequest(
                plan,
                state_dir=tmp_path / "state",
                local_dir=tmp_path / "cache",
                base_dir=tmp_path,
                parallelism=shards,
                max_rows_per_epoch=50,
                runner=spark_runner,
            )
        )
        assert result.outcome == "exhausted"
        with duckdb.connect(str(tmp_path / "results.duckdb"), read_only=True) as database:
            found = database.execute("SELECT city, item, total, n FROM best").fetchall()
        expected = duckdb.execute(EXPECTED.format(f=tmp_path)).fetchall()
        assert expected
        assert_same(found, expected)
