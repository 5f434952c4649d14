"""Tables of catalogs from end to end: read, looked up and written without a CREATE TABLE, in one file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.sql.statements import PhysicalColumn
from tests.connectors.postgres_server import PASSWORD, USER, Database
from tests.properties.in_process import run_here


@dataclass(frozen=True)
class Store:
    """A store with a table `orders`, one `totals` to write and one `rates` beside; `created` is its CREATE CATALOG."""

    created: str
    database: str
    totals: Callable[[], list[tuple[Any, ...]]]


ORDERS = [(1, "a", Decimal("1.50")), (2, "b", Decimal("2.00")), (3, "a", Decimal("4.25"))]


def in_postgres(database: Database) -> Store:
    database.rows(
        "CREATE TABLE orders (id bigint PRIMARY KEY, k text NOT NULL, amount numeric(10,2), place point);"
        "INSERT INTO orders VALUES (1, 'a', 1.5, '(1,2)'), (2, 'b', 2, NULL), (3, 'a', 4.25, NULL);"
        "CREATE TABLE totals (k text, total numeric(38,2), n bigint);"
        "CREATE TABLE rates (k text PRIMARY KEY, rate int); INSERT INTO rates VALUES ('a', 10), ('b', 20)"
    )
    created = (
        f"CREATE CATALOG bank WITH ('type' = 'postgres', 'url' = '{database.server.url(database.name, password=None)}', "
        f"'password' = '{PASSWORD}');"
    )
    return Store(
        created, "public", lambda: database.rows("SELECT k, total, n FROM totals ORDER BY n")
    )


def in_delta(folder: Path) -> Store:
    rows = pa.table(
        {
            "id": pa.array([r[0] for r in ORDERS], pa.int64()),
            "k": [r[1] for r in ORDERS],
            "amount": pa.array([r[2] for r in ORDERS], pa.decimal128(10, 2)),
        }
    )
    write_deltalake(str(folder / "lake/sales/orders"), rows, partition_by=["k"])
    empty = pa.schema({"k": pa.string(), "total": pa.decimal128(38, 2), "n": pa.int64()}).empty_table()
    write_deltalake(str(folder / "lake/sales/totals"), empty)

    def totals() -> list[tuple[Any, ...]]:
        found = pa.table(DeltaTable(str(folder / "lake/sales/totals")).to_pyarrow_table()).to_pylist()
        return sorted(tuple(row.values()) for row in found)

    return Store("CREATE CATALOG bank WITH ('type' = 'delta', 'path' = 'lake/');", "sales", totals)


def in_iceberg(folder: Path) -> Store:
    (folder / "lake").mkdir()
    uri = f"sqlite:///{folder}/lake/catalog.db"
    catalog = load_catalog("default", type="sql", uri=uri, warehouse=f"file://{folder}/lake")
    catalog.create_namespace("sales")
    orders = pa.table(
        {
            "id": pa.array([r[0] for r in ORDERS], pa.int64()),
            "k": [r[1] for r in ORDERS],
            "amount": pa.array([r[2] for r in ORDERS], pa.decimal128(10, 2)),
        }
    )
    catalog.create_table("sales.orders", orders.schema).append(orders)
    schema = pa.schema({"k": pa.string(), "total": pa.decimal128(38, 2), "n": pa.int64()})
    catalog.create_table("sales.totals", schema)

    def totals() -> list[tuple[Any, ...]]:
        found = catalog.load_table("sales.totals").scan().to_arrow().to_pylist()
        return sorted(tuple(row.values()) for row in found)

    created = (
        "CREATE CATALOG bank WITH ('type' = 'iceberg', 'catalog-type' = 'sql', "
        "'uri' = 'sqlite:///lake/catalog.db', 'warehouse' = 'lake', 'default-database' = 'sales');"
    )
    return Store(created, "sales", totals)


@pytest.fixture(params=["postgres", "delta", "iceberg"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "postgres":
        return in_postgres(request.getfixturevalue("database"))
    return in_delta(tmp_path) if request.param == "delta" else in_iceberg(tmp_path)


def planned(folder: Path, text: str) -> Planned:
    file = folder / "p.sql"
    file.write_text(text)
    return plan_file(file)


def test_a_table_is_read_and_another_is_written(store: Store, tmp_path: Path) -> None:
    made = planned(
        tmp_path,
        f"{store.created} USE CATALOG bank; USE {store.database};\n"
        "INSERT INTO totals SELECT k, amount, id FROM orders WHERE id <> 2;",
    )
    run_here(made, tmp_path)
    assert [s.name for s in made.physical.sources] == [f"bank.{store.database}.orders"]
    assert store.totals() == [("a", Decimal("1.50"), 1), ("a", Decimal("4.25"), 3)]
