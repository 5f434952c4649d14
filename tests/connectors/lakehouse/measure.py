"""What a merge costs: `python -m tests.connectors.lakehouse.measure delta FOLDER`, or `iceberg`.

docs/connectors/delta.md and iceberg.md have the figures.
"""

from __future__ import annotations

import random
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.exactly_once.staged import staging_folder
from sqlstream_operators.plan.spec import WEIGHT_COLUMN
from sqlstream_operators.state.staged_rows import stage
from tests.connectors.delta.keyed import spec_of as delta_spec
from tests.connectors.iceberg.keyed import spec_of as iceberg_spec
from tests.connectors.iceberg.tables import catalog, table
from tests.connectors.lakehouse.keyed import Driver

ROWS, FILES = 500_000, 8


def rows_of(keys: Sequence[int], text: str, weight: int) -> pa.Table:
    """A row for each key."""
    numbers = np.asarray(keys, np.int64)
    return pa.table(
        {
            "k": pa.array(numbers),
            "a": pa.array(numbers * 0.5),
            "v": pa.array([f"{text} {number * 7919}" for number in numbers]),
            WEIGHT_COLUMN: pa.array(np.full(len(numbers), weight, np.int64)),
        }
    )


def files(driver: Driver) -> set[str]:
    """The files that the table has."""
    if driver.spec.connector == "delta":
        place = str(driver.folder / "table")
        return set(DeltaTable(place).file_uris()) if DeltaTable.is_deltatable(place) else set()
    if not catalog(driver.folder).table_exists(("db", "table")):
        return set()
    return {task.file.file_path for task in table(driver.folder).scan().plan_files()}


def epoch(driver: Driver, what: str, rows: pa.Table) -> None:
    """Give the table an epoch, and print how long that took."""
    folder = f"{staging_folder(driver.spec.name)}/{driver.last + 1:06d}"
    part = SinkPart(rows.num_rows, staged=stage(driver.store, folder, "0-00000", rows, inline_bytes=0))
    before = files(driver)
    begun = time.monotonic()
    driver.sink.prepare(driver.last + 1, [part], previous=driver.last)
    prepared = time.monotonic()
    driver.commit([part])
    committed = time.monotonic()
    print(
        f"{what}: prepared in {prepared - begun:.1f} s, committed in {committed - prepared:.1f} s, "
        f"{len(before - files(driver))} files written anew, "
        f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB",
        flush=True,
    )


def main(kind: str, folder: Path) -> None:
    """Fill a table, then change few of its rows."""
    shape = {"k": "BIGINT", "a": "DOUBLE", "v": "VARCHAR"}
    driver = Driver(folder, delta_spec(shape) if kind == "delta" else iceberg_spec(shape))
    for number in range(FILES):
        keys = range(number * ROWS, number * ROWS + ROWS)
        epoch(driver, f"{ROWS:,} rows", rows_of(keys, "first", 1))
    everything = ROWS * FILES
    for what, changed in (
        ("100 neighbours", range(2 * ROWS, 2 * ROWS + 100)),
        ("1,000 neighbours", range(2 * ROWS + 100, 2 * ROWS + 1100)),
        ("100 in half", sorted(random.Random(1).sample(range(everything // 2, everything), 100))),
    ):
        both = [rows_of(changed, "first", -1), rows_of(changed, "second", 1)]
        epoch(driver, what, pa.concat_tables(both))
    driver.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
