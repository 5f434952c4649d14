"""Reads the tables of pipelines/lake as others do: with the libraries of Iceberg and Delta, and DuckDB.

python show.py TABLE [CONDITION]    print a table, once it has a row that meets the condition
"""

import sys
import time
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

TABLES = Path(__file__).parent / "tables"


def rows_of(table: str) -> pa.Table | None:
    """The rows of a table as it is now; None if it is not there."""
    if table != "sales":
        path = str(TABLES / table)
        return DeltaTable(path).to_pyarrow_table() if DeltaTable.is_deltatable(path) else None
    if not (TABLES / "catalog.db").exists():
        return None
    catalog = SqlCatalog("default", uri=f"sqlite:///{TABLES}/catalog.db", warehouse=str(TABLES))
    place = ("shop", table)
    return catalog.load_table(place).scan().to_arrow() if catalog.table_exists(place) else None


def show(table: str, condition: str = "true", seconds: float = 120) -> None:
    """Print a table, once it has a row of which a condition is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        rows = rows_of(table)
        if rows is not None:
            with duckdb.connect() as connection:
                connection.register("rows", rows)
                if connection.execute(f"FROM rows WHERE {condition} LIMIT 1").fetchall():
                    print(*connection.execute("FROM rows ORDER BY ALL").fetchall(), sep="\n")
                    return
        time.sleep(0.1)
    sys.exit(f"no row of {table} meets {condition} after {seconds:g} s")


if __name__ == "__main__":
    show(*sys.argv[1:])
