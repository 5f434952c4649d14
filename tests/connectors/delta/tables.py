"""Delta tables that another writer makes, and reading them as a pipeline does: the driver plans, tasks read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.delta.source.source import DeltaSource
from sqlstream_operators.plan.spec import SourceSpec
from tests.connectors.harness import source_spec
from tests.connectors.lakehouse.reading import LakeReading

deltalake = pytest.importorskip("deltalake")

Row = tuple[Any, ...]
SCHEMA = {"k": "BIGINT", "v": "VARCHAR"}


@dataclass
class Table:
    """A table of `k`, `v` in a folder; its rows are numbered by `k`."""

    path: Path
    partitioned: bool = False
    rows: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)

    def append(self, count: int, *, files: int = 1, group: int = 3) -> list[Row]:
        """Add a version with some files of rows; those rows."""
        added: list[Row] = []
        for number in range(files):
            size = count * (number + 1) // files - count * number // files
            added += [(self.rows + i, f"v{(self.rows + i) % 3}") for i in range(size)]
            self.rows += size
        per_file = max(1, -(-count // files))
        deltalake.write_deltalake(
            str(self.path),
            pa.table(
                {
                    "k": pa.array([k for k, _ in added], pa.int64()),
                    "v": pa.array([v for _, v in added], pa.string()),
                }
            ),
            mode="append",
            partition_by=["v"] if self.partitioned else None,
            configuration=dict(self.properties),
            writer_properties=deltalake.WriterProperties(
                max_row_group_size=group, write_batch_size=min(group, per_file)
            ),
        )
        return added

    @property
    def delta(self) -> Any:
        """The table as it is now."""
        return deltalake.DeltaTable(str(self.path))

    @property
    def version(self) -> int:
        return int(self.delta.version())

    def commit(self, version: int) -> Path:
        """The file of a commit."""
        return self.path / "_delta_log" / f"{version:020d}.json"

    def actions(self, version: int) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.commit(version).read_text().splitlines()]

    def write_commit(self, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
        """Write a commit by hand: what Delta's library writes none of."""
        self.commit(version).write_text("".join(json.dumps(one) + "\n" for one in actions))

    def clean_log(self, before: int) -> None:
        """Delete the commits before a version, of which there is a checkpoint, as a writer does after a month."""
        self.delta.create_checkpoint()
        for version in range(before):
            self.commit(version).unlink(missing_ok=True)

    def vacuum(self) -> None:
        """Delete the files that the table has no more."""
        self.delta.vacuum(0, dry_run=False, enforce_retention_duration=False)

    def make_anew(self) -> None:
        """Another table in its place, without rows."""
        shutil.rmtree(self.path)
        self.rows = 0


def table_spec(
    options: Mapping[str, str] | None = None,
    *,
    path: str = "lake",
    metadata: Sequence[tuple[str, str, str]] = (),
) -> SourceSpec:
    """A table of `k`, `v` that is read."""
    given = {"table-path": path, **(options or {})}
    return source_spec(SCHEMA, given, connector="delta", metadata=metadata)


class Reading(LakeReading):
    """A Delta table that is read epoch by epoch."""

    def made(self, context: ConnectorContext) -> DeltaSource:
        return DeltaSource(self.spec, context, clock=lambda: self.now)

    @property
    def kinds(self) -> bool:
        return self.spec.options.get("readChangeFeed") == "true"
