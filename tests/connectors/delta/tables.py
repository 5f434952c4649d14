"""Delta tables that another writer makes, and reading them as a pipeline does: the driver plans, tasks read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sqlstream.connectors.api import ConnectorContext, Limits, Position, Split
from sqlstream.connectors.delta.source.source import DeltaSource
from sqlstream.connectors.filesystem.orders import FileOrders
from sqlstream.connectors.registry import REGISTERED
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.connectors.harness import source_spec

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


@dataclass(frozen=True)
class Epoch:
    """What an epoch has read, and the position behind it."""

    rows: list[Row]
    after: Position
    exhausted: bool
    splits: list[Split]


@dataclass
class Reading:
    """A table that is read epoch by epoch; `accepted` and `told` are the run's."""

    spec: SourceSpec
    folder: Path
    duck: DuckSession
    accepted: tuple[str, ...] = ()
    ends: bool = False
    orders: FileOrders | None = None
    told: list[Diagnostic] = field(default_factory=list)
    now: float = 0.0
    _source: DeltaSource | None = None

    @property
    def source(self) -> DeltaSource:
        if self._source is None:
            context = ConnectorContext(
                CheckpointStore(self.folder / "store", sync=False),
                str(self.folder),
                accepted=self.accepted,
                ends=self.ends,
                tell=self.told.append,
                orders=self.orders,
            )
            self._source = DeltaSource(self.spec, context, clock=lambda: self.now)
        return self._source

    def again(self, **changed: Any) -> Reading:
        """As another run has it."""
        given = {"accepted": self.accepted, "ends": self.ends, **changed}
        return Reading(given.pop("spec", self.spec), self.folder, self.duck, **given)

    def epoch(self, position: Position, limits: Limits | None = None, source: Any = None) -> Epoch:
        self.now += 2.0  # what was not there is asked for again
        plan = (source or self.source).plan(position, limits or Limits())
        position_written = json.loads(json.dumps(plan.next_position))
        rows = [row for split in plan.splits for row in self.read(split)]
        return Epoch(rows, position_written, plan.exhausted, list(plan.splits))

    def read(self, split: Split) -> list[Row]:
        """As a task does it: the split comes to it as JSON."""
        kind = [KIND_COLUMN] if self.spec.options.get("readChangeFeed") == "true" else []
        read = (*self.spec.columns, *(m.name for m in self.spec.metadata), *kind)
        names = ", ".join(f'"{name}"' for name in read)
        split = Split(split.source, json.loads(json.dumps(split.payload)), split.rows, split.bytes)
        reader = REGISTERED.reader(self.spec, str(self.folder))
        try:
            reader.open_strict(self.duck, "rows", split, queries=1)
            found = self.duck.query(f"SELECT {names} FROM rows")
        except DataError:
            self.duck.drop("rows")
            lenient = REGISTERED.lenient_reader(self.spec, str(self.folder))
            assert not lenient.open_lenient(self.duck, "rows", split)
            found = self.duck.query(f"SELECT {names} FROM rows")
        self.duck.drop("rows")
        rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        assert split.rows is None or split.rows == len(rows)
        return rows

    def epochs(
        self, position: Position | None = None, limits: Limits | None = None, source: Any = None
    ) -> Iterator[Epoch]:
        """Until nothing more is read."""
        at = (source or self.source).initial_position() if position is None else position
        while True:
            epoch = self.epoch(at, limits, source)
            yield epoch
            if epoch.exhausted or not epoch.splits:
                return
            at = epoch.after

    def all(
        self, position: Position | None = None, limits: Limits | None = None
    ) -> tuple[list[Row], Position]:
        """All rows that are there, and the position behind them."""
        rows: list[Row] = []
        at: Position = {}
        for epoch in self.epochs(position, limits):
            rows += epoch.rows
            at = epoch.after
        return rows, at

    def history(self, position: Position, limits: Limits | None = None) -> list[Row]:
        """What was read up to a position, read again; it ends there."""
        source = self.again().source.until(position)
        rows: list[Row] = []
        at = source.initial_position()
        for epoch in self.epochs(at, limits, source):
            rows += epoch.rows
            at = epoch.after
            assert epoch.splits or epoch.exhausted, "a history goes on to its end"
        assert at == position
        return rows

    def refused(self, position: Position | None = None) -> Diagnostic:
        """What is said of a table that can't be read."""
        with pytest.raises(DiagnosticError) as raised:
            self.all(position)
        (diagnostic,) = raised.value.diagnostics
        return diagnostic
