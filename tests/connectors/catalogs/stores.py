"""Stores with a table `orders` to read and a table `totals` to write, and the CREATE CATALOG of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog

from tests.connectors.postgres_server import PASSWORD, Database

ORDERS = [(1, "a", Decimal("1.50")), (2, "b", Decimal("2.00")), (3, "a", Decimal("4.25"))]
_TOTALS = pa.schema({"k": pa.string(), "total": pa.decimal128(38, 2), "n": pa.int64()})


@dataclass(frozen=True, slots=True)
class Store:
    """What it is created by, the database of its tables, what `totals` has, and what CREATE TABLE would say of `orders`."""

    created: str
    database: str
    totals: Callable[[], list[tuple[Any, ...]]]
    options: str


def orders() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([row[0] for row in ORDERS], pa.int64()),
            "k": [row[1] for row in ORDERS],
            "amount": pa.array([row[2] for row in ORDERS], pa.decimal128(10, 2)),
        }
    )


def in_postgres(database: Database, name: str = "bank") -> Store:
    database.rows(
        "CREATE TABLE orders (id bigint, k text, amount numeric(10,2));"
        "INSERT INTO orders VALUES (1, 'a', 1.5), (2, 'b', 2), (3, 'a', 4.25);"
        "CREATE TABLE totals (k text, total numeric(38,2), n bigint)"
    )
    place = f"'url' = '{database.server.url(database.name, password=None)}', 'password' = '{PASSWORD}'"
    return Store(
        f"CREATE CATALOG {name} WITH ('type' = 'postgres', {place});",
        "public",
        lambda: database.rows("SELECT k, total, n FROM totals ORDER BY 1, 3"),
        f"'connector' = 'postgres', {place}, 'table-name' = 'public.orders'",
    )


def in_delta(folder: Path, name: str = "bank") -> Store:
    write_deltalake(str(folder / "delta/sales/orders"), orders(), partition_by=["k"])
    write_deltalake(str(folder / "delta/sales/totals"), _TOTALS.empty_table())

    def totals() -> list[tuple[Any, ...]]:
        found = DeltaTable(str(folder / "delta/sales/totals")).to_pyarrow_table()
        return sorted(tuple(row.values()) for row in found.to_pylist())

    return Store(
        f"CREATE CATALOG {name} WITH ('type' = 'delta', 'path' = 'delta/');",
        "sales",
        totals,
        "'connector' = 'delta', 'table-path' = 'delta/sales/orders'",
    )


def in_iceberg(folder: Path, name: str = "bank") -> Store:
    (folder / "ice").mkdir()
    uri = f"sqlite:///{folder}/ice/catalog.db"
    catalog = load_catalog("default", type="sql", uri=uri, warehouse=f"file://{folder}/ice")
    catalog.create_namespace("sales")
    catalog.create_table("sales.orders", orders().schema).append(orders())
    catalog.create_table("sales.totals", _TOTALS)

    def totals() -> list[tuple[Any, ...]]:
        found = catalog.load_table("sales.totals").scan().to_arrow()
        return sorted(tuple(row.values()) for row in found.to_pylist())

    place = "'catalog-type' = 'sql', 'uri' = 'sqlite:///ice/catalog.db', 'warehouse' = 'ice'"
    return Store(
        f"CREATE CATALOG {name} WITH ('type' = 'iceberg', {place}, 'default-database' = 'sales');",
        "sales",
        totals,
        f"'connector' = 'iceberg', {place}, 'catalog-database' = 'sales', 'catalog-table' = 'orders'",
    )


def in_duckdb(folder: Path, name: str = "marts") -> str:
    """The CREATE CATALOG of a file with `rates` to look up and `totals` by key to write."""
    with duckdb.connect(str(folder / "marts.duckdb")) as file:
        file.execute(
            "CREATE TABLE rates (k VARCHAR PRIMARY KEY, rate INTEGER NOT NULL, colour ENUM('red', 'blue'));"
            "INSERT INTO rates VALUES ('a', 10, 'red'), ('b', 20, NULL);"
            "CREATE SCHEMA fin; CREATE TABLE fin.Totals (k VARCHAR PRIMARY KEY, total DECIMAL(38,2), n BIGINT)"
        )
    return f"CREATE CATALOG {name} WITH ('type' = 'duckdb', 'path' = 'marts.duckdb');"


def in_duckdb_totals(folder: Path) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(folder / "marts.duckdb"), read_only=True) as file:
        found: list[tuple[Any, ...]] = file.execute(
            "SELECT k, total, n FROM fin.totals ORDER BY 1"
        ).fetchall()
        return found
