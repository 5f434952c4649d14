"""Iceberg tables that another writer makes in a catalog in SQLite, and how tests read them: by Iceberg's library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table

Row = tuple[Any, ...]
#: The options of a table `table` in the namespace `db` of a catalog in a pipeline's folder.
OPTIONS = (
    "'connector' = 'iceberg', 'catalog-type' = 'sql', 'uri' = 'sqlite:///lake/catalog.db', 'warehouse' = 'lake', "
    "'catalog-database' = 'db', 'catalog-table' = '{name}'"
)


def catalog(folder: Path) -> SqlCatalog:
    """The catalog, as another program has it open."""
    (folder / "lake").mkdir(exist_ok=True)
    file = folder / "lake" / "catalog.db"
    return _opened(folder, file.stat().st_ino) if file.exists() else _opened.__wrapped__(folder, 0)


@lru_cache(maxsize=4)
def _opened(folder: Path, file: int) -> SqlCatalog:
    """To open it takes longer than to load a table. A `file` that is another one is not the same catalog."""
    return SqlCatalog("default", uri=f"sqlite:///{folder}/lake/catalog.db", warehouse=f"file://{folder}/lake")


def create(
    folder: Path,
    schema: Schema | pa.Schema,
    *,
    partitions: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    name: str = "table",
    properties: Mapping[str, str] | None = None,
) -> Table:
    """A table that is not there yet."""
    made = catalog(folder)
    made.create_namespace_if_not_exists("db")
    return made.create_table(
        ("db", name), schema, partition_spec=partitions, properties=dict(properties or {})
    )


def table(folder: Path, name: str = "table") -> Table:
    """The table as it is now."""
    return catalog(folder).load_table(("db", name))


def rows_of(folder: Path, columns: Sequence[str], name: str = "table") -> list[Row]:
    """All rows, as Iceberg's library reads them, in no order."""
    found = table(folder, name).scan(selected_fields=tuple(columns)).to_arrow()
    return list(zip(*(found.column(column).to_pylist() for column in columns), strict=True))


def compact(folder: Path, name: str = "table") -> None:
    """What a job at night does: the rows of all files in one, as a snapshot that replaces."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files
    from pyiceberg.table.snapshots import Operation, Summary

    there = table(folder, name)
    files = [task.file for task in there.scan().plan_files()]
    if not files:
        return
    with there.transaction() as transaction:
        producer = transaction.update_snapshot().overwrite()
        made = producer._summary

        def summary(snapshot_properties: dict[str, str]) -> Summary:
            found = made(snapshot_properties)
            return Summary(Operation.REPLACE, **found.additional_properties)

        producer._summary = summary  # type: ignore[method-assign, assignment]  # the library makes none
        with producer as snapshot:
            for file in files:
                snapshot.delete_data_file(file)
            rows = there.scan().to_arrow()
            for file in _dataframe_to_data_files(there.metadata, rows, there.io):
                snapshot.append_data_file(file)


def expire(folder: Path, name: str = "table") -> None:
    """Forget all snapshots but the current one."""
    there = table(folder, name)
    current = there.current_snapshot()
    old = [one.snapshot_id for one in there.snapshots() if current is None or one != current]
    if old:
        there.maintenance.expire_snapshots().by_ids(old).commit()
