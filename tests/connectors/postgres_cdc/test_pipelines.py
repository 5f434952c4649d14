"""Pipelines over the changes of tables: joins and aggregates, crashes at each point, edits, and what commands say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.cli.main import run_cli
from sqlstream.connectors.postgres_cdc.factory import CdcFactory
from sqlstream.planning import plan_file
from sqlstream.runtime.edits.declared_moves import known_sources
from sqlstream.runtime.loop.progress import RunResult
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_cdc.reading import cdc_spec, slot_of
from tests.connectors.postgres_server import PASSWORD, Database
from tests.properties.in_process import run_here
from tests.properties.updating import collecting
from tests.runtime.support import Crash, crash_at

SOURCES = """
CREATE TABLE orders (id INT, customer INT, amount BIGINT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'postgres-cdc', 'url' = '{url}', 'slot.name' = '{slot}');
CREATE TABLE customers (id INT, city STRING)
WITH ('connector' = 'postgres-cdc', 'url' = '{url}', 'slot.name' = '{slot}', 'table-name' = 'sales.customers');
"""
CITIES = """
CREATE TABLE cities (city STRING, n BIGINT, amount BIGINT, PRIMARY KEY (city) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
INSERT INTO cities SELECT c.city, COUNT(*), CAST(SUM(o.amount) AS BIGINT)
FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
"""
EXPECTED = (
    "SELECT c.city, count(*), sum(o.amount)::bigint "
    "FROM orders o JOIN sales.customers c ON o.customer = c.id GROUP BY 1"
)


@pytest.fixture
def shop(cdc: Database) -> Database:
    for sql in (
        "CREATE SCHEMA sales",
        "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount bigint, note text)",
        "CREATE TABLE sales.customers (id int, city text)",
        "ALTER TABLE sales.customers REPLICA IDENTITY FULL",
        "INSERT INTO orders SELECT i, i % 5, i * 10 FROM generate_series(1, 40) i",
        "INSERT INTO sales.customers SELECT i, 'city' || i % 3 FROM generate_series(0, 5) i",
    ):
        cdc.rows(sql)
    return cdc


def change(shop: Database, number: int) -> None:
    shop.rows(f"UPDATE orders SET amount = amount + {number} WHERE id % 7 = {number % 7}")
    shop.rows(f"DELETE FROM orders WHERE id % 11 = {number % 11}")
    shop.rows(
        f"INSERT INTO orders SELECT i, i % 5, i FROM generate_series({100 * number}, {100 * number + 9}) i"
    )
    shop.rows(f"UPDATE sales.customers SET city = 'city{number % 4}' WHERE id = {number % 6}")


def run(folder: Path, shop: Database, sql: str, **options: Any) -> RunResult:
    """Run a pipeline to the end of what is there, as `sqlstream run --drain` does."""
    file = folder / "p.sql"
    file.write_text(sql.replace("{url}", shop.url).replace("{slot}", slot_of(shop)))
    planned, moved = known_sources(
        plan_file(file),
        str(folder / "state"),
        None,
        (),
        str(folder),
        lambda known: plan_file(file, moved=known),
    )
    given = {"rows_per_epoch": 15, "moved": moved, **options}
    return run_here(planned, folder, ends=True, sql=planned.masked_sql, **given)


def cities(folder: Path) -> Counter[Any]:
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as con:
        return Counter(con.execute("SELECT * FROM cities").fetchall())


def test_a_join_of_two_tables_by_one_slot(shop: Database, tmp_path: Path) -> None:
    for number in range(1, 5):
        assert run(tmp_path, shop, SOURCES + CITIES).outcome == "exhausted"
        assert cities(tmp_path) == Counter(shop.rows(EXPECTED))
        change(shop, number)
    slots = shop.rows("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()")
    assert slots == [(1,)]


@pytest.mark.parametrize("epoch", [1, 3])
@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed", "collected"])
@pytest.mark.sampled(3)
def test_crashes(shop: Database, tmp_path: Path, point: Any, epoch: int) -> None:
    for number in range(1, 4):
        with pytest.raises(Crash):
            run(
                tmp_path,
                shop,
                SOURCES + CITIES,
                faults=crash_at(point, epoch if number == 1 else epoch + number),
            )
        change(shop, number)
    # An epoch that is read again may be where the run before was to end, and so does this one.
    while run(tmp_path, shop, SOURCES + CITIES).outcome != "nothing new":
        pass
    assert cities(tmp_path) == Counter(shop.rows(EXPECTED))


def test_edits(shop: Database, tmp_path: Path) -> None:
    """What is above the state may change; what needs rows that the log has no more is refused, and nothing is changed."""
    first = (
        SOURCES.split("CREATE TABLE customers")[0]
        + "CREATE TABLE counts WITH ('connector' = 'blackhole') AS "
        + "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;\n"
    )
    counts = "SELECT customer, count(*) FROM orders GROUP BY customer"
    with collecting() as collected:
        run(tmp_path, shop, first)
        change(shop, 1)
        least = "CREATE TABLE least WITH ('connector' = 'blackhole') AS SELECT MIN(id) AS id FROM orders;\n"
        with pytest.raises(DiagnosticError, match="DAT008"):
            run(tmp_path, shop, first + least)
        run(tmp_path, shop, first)
        assert Counter(collected.folded("counts")) == Counter(shop.rows(counts))


def test_a_table_that_comes_later_by_the_same_slot(shop: Database, tmp_path: Path) -> None:
    count = "WITH ('connector' = 'blackhole') AS SELECT {0}, COUNT(*) AS n FROM {1} GROUP BY {0};\n"
    orders, customers = SOURCES.split("CREATE TABLE customers")
    first = f"{orders}CREATE TABLE counts {count.format('customer', 'orders')}"
    second = f"CREATE TABLE customers{customers}CREATE TABLE places {count.format('city', 'customers')}"
    with collecting() as collected:
        run(tmp_path, shop, first)
        change(shop, 1)
        run(tmp_path, shop, first + second)
        change(shop, 2)
        run(tmp_path, shop, first + second)
        for name, sql in (
            ("counts", "SELECT customer, count(*) FROM orders GROUP BY customer"),
            ("places", "SELECT city, count(*) FROM sales.customers GROUP BY city"),
        ):
            assert Counter(collected.folded(name)) == Counter(shop.rows(sql)), name


def test_the_server_by_another_address(shop: Database, tmp_path: Path) -> None:
    run(tmp_path, shop, SOURCES + CITIES)
    change(shop, 1)
    run(tmp_path, shop, (SOURCES + CITIES).replace("{url}", f"{shop.url}?application_name=other"))
    assert cities(tmp_path) == Counter(shop.rows(EXPECTED))


def test_plan_makes_nothing(shop: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.sql"
    file.write_text((SOURCES + CITIES).replace("{url}", shop.url).replace("{slot}", slot_of(shop)))
    assert run_cli(["plan", str(file)]) == 0, capsys.readouterr().err
    assert shop.rows("SELECT 1 FROM pg_publication") == []
    assert shop.rows("SELECT 1 FROM pg_replication_slots WHERE database = current_database()") == []


def test_errors_of_runs(shop: Database, tmp_path: Path) -> None:
    """What a task can't read, and a slot that is gone, end the run with what can be done; nothing is written."""
    run(tmp_path, shop, SOURCES + CITIES)
    there = cities(tmp_path)
    shop.rows("ALTER TABLE orders ADD COLUMN x int, ALTER COLUMN note TYPE numeric(5, 1) USING NULL")
    shop.rows("UPDATE orders SET note = 'NaN' WHERE id = 1")
    other = SOURCES.replace("amount BIGINT", "amount BIGINT, note DECIMAL(5, 1)", 1)
    other += "CREATE TABLE sums WITH ('connector' = 'blackhole') AS SELECT SUM(note) AS s FROM orders;\n"
    with pytest.raises(DiagnosticError, match="another state directory has made the slot") as raised:
        run(tmp_path, shop, other, state="other")
    assert [d.code for d in raised.value.diagnostics] == ["DAT020"]
    shop.rows(f"SELECT pg_drop_replication_slot('{slot_of(shop)}')")
    with pytest.raises(DiagnosticError, match="a numeric of PostgreSQL is NaN"):
        run(tmp_path, shop, other, state="other")
    for _ in range(2):  # the slot is the other's now, and then there is none
        with pytest.raises(DiagnosticError) as raised:
            run(tmp_path, shop, SOURCES + CITIES)
        assert ([d.code for d in raised.value.diagnostics], raised.value.exit_code) == (["DAT015"], 4)
        shop.rows(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            f"WHERE slot_name = '{slot_of(shop)}'"
        )
    assert cities(tmp_path) == there


@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({}, True),
        ({"username": "other", "password": "other"}, True),
        ({"url": "jdbc:postgresql://127.0.0.1:{port}/{name}?sslmode=prefer"}, True),
        ({"table-name": "public.orders"}, True),
        ({"table-name": "sales.orders"}, False),
        ({"url": "postgresql://127.0.0.1:{port}/other"}, False),
        ({"url": "postgresql://127.0.0.2:{port}/{name}"}, False),
    ],
)
def test_the_table_that_is_read_is_known(shop: Database, options: dict[str, str], same: bool) -> None:
    source = cdc_spec(shop, "orders")
    given = {key: value.format(port=shop.server.port, name=shop.name) for key, value in options.items()}
    sink = SinkSpec("orders", "postgres", {"url": shop.url, **given}, ())
    assert (CdcFactory().feeds_on(source, sink, "") is not None) == same


def test_a_pipeline_does_not_read_what_it_writes(
    shop: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.sql").write_text(
        SOURCES.format(url=shop.url, slot=slot_of(shop))
        + "CREATE TABLE o (id INT, customer INT, amount BIGINT, PRIMARY KEY (id) NOT ENFORCED)\n"
        + f"WITH ('connector' = 'postgres', 'url' = '{shop.url}', 'table-name' = 'orders');\n"
        + "INSERT INTO o SELECT id, customer, amount + 1 FROM orders;\n"
    )
    assert run_cli(["run", str(tmp_path / "p.sql")]) == 1
    printed = capsys.readouterr().err
    assert "error[SQL017]: source `orders` would read what the pipeline writes" in printed
    assert "sink `o` writes the same table" in printed
    assert PASSWORD not in printed
