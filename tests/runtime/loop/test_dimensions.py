"""When a table that is looked up is read: at first, when its copy is due and it may have changed, and after a sweep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.runtime.loop.dimensions import Dimensions
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InputFileError
from sqlstream_operators.plan.spec import Column, DimensionSpec, SourceSpec
from sqlstream_operators.plan.types import BIGINT
from sqlstream_operators.state.checkpoint_store import CheckpointStore

SECOND = 1_000_000


@dataclass
class Table:
    """A table of so many rows; `reads` is how often it was read, `breaks` how often that is to fail."""

    rows_there: int = 1
    reported: str | None = "first"
    reads: int = 0
    breaks: int = 0

    def version(self) -> str | None:
        return self.reported

    def rows(self, duck: DuckSession) -> Iterator[pa.RecordBatch]:
        self.reads += 1
        yield pa.record_batch({"id": pa.array(range(self.rows_there), pa.int64())})
        if self.breaks:
            self.breaks -= 1
            raise InputFileError("it was changed meanwhile", "put it back")


@dataclass
class World:
    folder: Path
    reload_us: int = 0
    table: Table = field(default_factory=Table)
    now: float = 0.0

    def __post_init__(self) -> None:
        source = SourceSpec("d", "files", {}, (Column("id", BIGINT),), ("id",))
        store = CheckpointStore(str(self.folder), sync=False)
        spec = DimensionSpec(source, self.reload_us)
        self.dimensions = Dimensions((spec,), {"d": self.table}, store, lambda: self.now)

    def rows(self, now: float) -> int:
        """How many rows the next epoch finds."""
        self.now = now
        return self.dimensions.copies()["d"].rows


def test_without_an_interval_each_epoch_looks_and_reads_what_may_have_changed(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert [world.rows(0), world.rows(0), world.table.reads] == [1, 1, 1]
    world.table.rows_there, world.table.reported = 3, "second"
    assert [world.rows(0), world.rows(1), world.table.reads] == [3, 3, 2]
    world.table.reported = None
    assert [world.rows(1), world.rows(1), world.table.reads] == [3, 3, 4]
    assert len(world.dimensions.files) == 1
    assert len(CheckpointStore(str(tmp_path)).list("dimensions")) == 2


def test_with_an_interval_it_is_looked_at_when_that_is_over(tmp_path: Path) -> None:
    world = World(tmp_path, 10 * SECOND)
    world.rows(5)
    world.table.rows_there, world.table.reported = 2, "second"
    assert [world.rows(now) for now in (5.1, 14.9, 15, 16)] == [1, 1, 2, 2]
    assert [world.rows(now) for now in (24.9, 25, 30)] == [2, 2, 2]
    world.table.rows_there, world.table.reported = 4, "third"
    assert [world.rows(now) for now in (34.9, 35)] == [2, 4]
    assert world.table.reads == 3
    world.dimensions.forget()
    assert world.dimensions.files == ()
    assert [world.rows(35), world.table.reads] == [4, 4]


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.table.breaks = 1
    assert [world.rows(0), world.table.reads] == [1, 2]
    world.table.breaks, world.table.reported = 2, "second"
    with pytest.raises(InputFileError):
        world.rows(0)
