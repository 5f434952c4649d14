"""How tests read Delta tables: by Delta's library, and as DuckDB reads the files that the log names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

Row = tuple[Any, ...]


def rows_of(folder: Path, columns: str = "*") -> list[Row]:
    """All rows, as the library's own engine reads them, in no order."""
    found = QueryBuilder().register("t", DeltaTable(str(folder))).execute(f"SELECT {columns} FROM t")
    table = pa.table(found.read_all())
    return list(zip(*(table.column(i).to_pylist() for i in range(table.num_columns)), strict=True))


def in_files(folder: Path, columns: str = "*") -> list[Row]:
    """All rows of a table without partitions, as DuckDB reads its files, in no order."""
    files = DeltaTable(str(folder)).file_uris()
    if not files:
        return []
    found = duckdb.sql(f"SELECT {columns} FROM read_parquet({files!r}, union_by_name = true)")
    return list(found.fetchall())


def compact(folder: Path) -> None:
    """What a job at night does."""
    DeltaTable(str(folder)).optimize.compact()
