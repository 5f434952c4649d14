"""A reader beside a run that commits and collects: it never sees half of an epoch, and begins anew when its epoch goes."""

from __future__ import annotations

import io
import os
from pathlib import Path
from unittest import mock

import pytest

from sqlstream.state.committed import find_committed
from sqlstream.state.query import StateDatabase, run_query
from sqlstream.state.reading import StateReader
from sqlstream.storage.garbage import RETAINED
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.errors import StateCorruptionError
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.state.world import ROWS_PER_EPOCH, World

GROUPS = "SELECT k, c, COUNT(*) AS n FROM t GROUP BY k, c"
TOTAL = "SELECT sum(n) AS rows FROM group_aggregate_1"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, GROUPS, "k STRING, c STRING, n BIGINT", rows=2000)
    made.run(max_epochs=2)
    return made


def queried(world: World, sql: str, at: str | None = None) -> str:
    out = io.StringIO()
    run_query(world.store, at, sql, "csv", out)
    return out.getvalue()


def test_an_epoch_that_is_collected_while_it_is_read(world: World) -> None:
    """The run commits so many epochs after the first shard was read that the other shards' files are gone."""
    rows = StateReader._of_shard
    overtaken: list[int] = []

    def slow(self: StateReader, *arguments: object) -> object:
        yield from rows(self, *arguments)  # type: ignore[arg-type]
        if not overtaken:
            overtaken.append(self.committed.manifest.epoch)
            world.run(max_epochs=RETAINED + 1, parallelism=2)

    with mock.patch.object(StateReader, "_of_shard", slow):
        assert queried(world, TOTAL) == f"rows\n{(2 + RETAINED + 1) * ROWS_PER_EPOCH}\n"
    assert overtaken == [2]


def test_it_is_told_where_that_epoch_was_asked_for(world: World) -> None:
    rows = StateReader._of_shard

    def slow(self: StateReader, *arguments: object) -> object:
        yield from rows(self, *arguments)  # type: ignore[arg-type]
        world.run(max_epochs=RETAINED + 1, parallelism=2)

    with (
        mock.patch.object(StateReader, "_of_shard", slow),
        pytest.raises(DiagnosticError, match="STA025"),
    ):
        queried(world, TOTAL, "2")


def test_a_savepoint_stays(world: World) -> None:
    Savepoints(world.store).create("kept")
    rows = StateReader._of_shard

    def slow(self: StateReader, *arguments: object) -> object:
        yield from rows(self, *arguments)  # type: ignore[arg-type]
        world.run(max_epochs=RETAINED + 1, parallelism=2)

    with mock.patch.object(StateReader, "_of_shard", slow):
        assert queried(world, TOTAL, "kept") == f"rows\n{2 * ROWS_PER_EPOCH}\n"


def test_what_was_opened_stays_readable(world: World) -> None:
    """The files of a shard are linked before it is read, so that a collector can't take them away in the middle."""
    with StateDatabase(find_committed(world.store)) as database:
        [relation] = [one for one in database.relations if str(one) == "group_aggregate_1"]
        reader = database._reader
        linked, link = [], CheckpointStore.link

        def once(store: CheckpointStore, name: str, target: Path) -> None:
            link(store, name, target)
            linked.append(name)
            if target.suffix == ".delta":
                (world.state / name).unlink()

        with mock.patch.object(CheckpointStore, "link", once):
            rows = sum(table.num_rows for table in reader.rows(relation, {}))
    assert rows > 50
    assert linked
    assert not any((world.state / name).exists() for name in linked if name.endswith(".delta"))


def test_a_damaged_file_is_named(world: World) -> None:
    committed = find_committed(world.store)
    for path in list((world.state / "state").rglob("*.delta")):
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(StateCorruptionError, match=str(world.state / "state")):
        queried(world, TOTAL)
    with pytest.raises(StateCorruptionError, match=str(world.state / "state")):
        queried(world, "SELECT * FROM group_aggregate_1 WHERE k = 'a' AND c = 'x'")
    assert committed.is_there


def test_temporary_folders_go(world: World, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    with mock.patch("tempfile.tempdir", str(tmp_path / "tmp")):
        queried(world, TOTAL)
        with pytest.raises(DiagnosticError):
            queried(world, "SELECT nothing FROM group_aggregate_1")
    # What stays is the folder of this user, with the gate that keeps runs from sweeping each other.
    kept = {f"sqlstream-{os.getuid()}", "runs", ".gate"}
    left = [path for path in (tmp_path / "tmp").rglob("*") if path.name not in kept]
    assert not left
