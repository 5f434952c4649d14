"""New sinks whose answer is in no state: they get the rows of all the history, in one epoch, and then what comes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.registry import REGISTERED
from sqlstream.runtime.edits.history import backfilled_rows
from sqlstream.runtime.edits.history.backfill import Backfilled
from sqlstream.runtime.edits.history.backfilled_rows import written
from sqlstream.runtime.loop.admission import Admission
from sqlstream_operators.errors import StateError
from tests.properties.referee import assert_same
from tests.properties.updating import collecting
from tests.runtime.edits.backfilling import World
from tests.runtime.edits.test_backfilled_windows import EVENTS, OLD, QUERIES, table
from tests.runtime.support import Crash, crash_at

STATELESS = "SELECT k, v + 1 AS w, ts FROM t WHERE v > 1"


def sinks(connector: str, query: str, options: str = "") -> str:
    return f"CREATE TABLE out WITH ('connector' = '{connector}'{options}) AS {query};"


@pytest.fixture
def made(tmp_path: Path) -> World:
    """The old query has read four epochs of seven rows; seventeen rows are still there."""
    world = World(tmp_path, table())
    world.lines("t/0.json", EVENTS)
    with collecting():
        world.run(OLD, rows_per_epoch=7, max_epochs=4)
    return world


def small(world: World) -> Any:
    """Settings with which the history is several epochs."""
    return world.settings(admission=Admission(fixed_rows=5))


def give(world: World, query: str, found: Backfilled, epoch: int = 1) -> tuple[SinkPart, ...]:
    """One epoch of the sink `out` with all that was backfilled for it."""
    (spec,) = world.plan(query).physical.sinks
    context = ConnectorContext(world.store(), str(world.folder))
    parts = written(spec, found.parts["out"], world.store(), REGISTERED.writer(spec, context), epoch)
    sink = REGISTERED.sink(spec, context)
    sink.prepare(epoch, parts, previous=0)
    sink.commit(epoch, parts, previous=0)
    close = getattr(sink, "close", None)
    if close is not None:
        close()
    return parts


def everything(world: World, query: str) -> Any:
    """What the query gives over all the input, had it always been the query."""
    with collecting() as collected:
        world.run(query, state="whole", rows_per_epoch=7)
        return collected.folded("out")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["tumble", "hop", "windows of windows", "top of windows", "stateless"])
def test_a_sink_has_all_rows_once(made: World, name: str) -> None:
    query = QUERIES.get(name, STATELESS)
    before = made.kept()
    found = made.backfill(query, sinks=["out"], settings=small(made))
    assert made.kept() == before
    with collecting() as collected:
        give(made, query, found)
        made.adopt(query, found)
        made.run(query, rows_per_epoch=7)
    assert_same(collected.folded("out"), everything(made, query))


@pytest.mark.parametrize("part_bytes", [1, backfilled_rows.PART_BYTES])
def test_a_changelog_whose_answer_is_not_all_in_state(
    made: World, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    monkeypatch.setattr(backfilled_rows, "PART_BYTES", part_bytes)
    query = "SELECT k, COUNT(*) AS n FROM t GROUP BY k UNION ALL SELECT k, v FROM t"
    found = made.backfill(query, sinks=["out"], settings=small(made))
    with collecting() as collected:
        give(made, query, found)
        made.adopt(query, found)
        made.run(query, rows_per_epoch=7)
    assert_same(collected.folded("out"), everything(made, query))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", ["run", "published", "committed"])
@pytest.mark.parametrize("epoch", [1, 3])
def test_killed_anywhere_no_row_is_lost_or_doubled(made: World, point: str, epoch: int) -> None:
    query = QUERIES["tumble"]
    with pytest.raises(Crash):
        made.backfill(query, sinks=["out"], settings=small(made), faults=crash_at(point, epoch))
    found = made.backfill(query, sinks=["out"], settings=small(made))
    with collecting() as collected:
        give(made, query, found)
        made.adopt(query, found)
        made.run(query, rows_per_epoch=7)
    assert_same(collected.folded("out"), everything(made, query))


def test_files_are_written_a_part_at_a_time(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    query = sinks("filesystem", STATELESS, ", 'path' = 'given', 'format' = 'json'")
    found = made.backfill(query, sinks=["out"], settings=small(made))
    folder = made.folder / "given"
    assert not folder.exists()  # until one epoch has it all, nothing is there
    monkeypatch.setattr(backfilled_rows, "PART_BYTES", 1)
    parts = give(made, query, found)
    assert len(parts) > 2
    again = written_again(made, query, found)
    assert [part.payload for part in again] == [part.payload for part in parts]
    read = [json.loads(line) for file in folder.glob("*.json") for line in file.read_text().splitlines()]
    assert sorted((row["k"], row["w"]) for row in read) == sorted(
        (row["k"], row["v"] + 1) for row in EVENTS[:28] if row["v"] > 1
    )


def written_again(world: World, query: str, found: Backfilled) -> tuple[SinkPart, ...]:
    """The parts of a retry."""
    (spec,) = world.plan(query).physical.sinks
    context = ConnectorContext(world.store(), str(world.folder))
    return written(spec, found.parts["out"], world.store(), REGISTERED.writer(spec, context), 1)


def test_a_table_takes_the_staged_rows_as_they_are(made: World) -> None:
    query = sinks("duckdb", STATELESS, ", 'path' = 'given.duckdb', 'table-name' = 'given'")
    found = made.backfill(query, sinks=["out"], settings=small(made))
    assert give(made, query, found) == found.parts["out"]
    with duckdb.connect(str(made.folder / "given.duckdb"), read_only=True) as con:
        rows = con.sql("SELECT k, w FROM given ORDER BY ALL").fetchall()
    assert rows == sorted((row["k"], row["v"] + 1) for row in EVENTS[:28] if row["v"] > 1)


def test_rows_that_are_gone_are_an_error(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlstream.runtime.tasks import task_program

    monkeypatch.setattr(task_program, "STAGED_INLINE_BYTES", 0)
    query = sinks("filesystem", STATELESS, ", 'path' = 'given', 'format' = 'json'")
    found = made.backfill(query, sinks=["out"], settings=small(made))
    names = [name for part in found.parts["out"] if part.staged for name in part.staged.names]
    assert len(names) > 3  # of all epochs: those whose manifests are collected too
    assert all(made.store().exists(name) for name in names)
    made.store().delete(names[0])
    with pytest.raises(StateError, match="gone"):
        give(made, query, found)


def test_staged_rows_stay_as_long_as_a_manifest_names_them(
    made: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlstream.runtime.tasks import task_program
    from sqlstream.storage.journal import Journal
    from sqlstream.storage.manifest import CommittedPart

    monkeypatch.setattr(task_program, "STAGED_INLINE_BYTES", 0)
    query = sinks("duckdb", STATELESS, ", 'path' = 'given.duckdb', 'table-name' = 'given'")
    found = made.backfill(query, sinks=["out"], settings=small(made))
    parts = give(made, query, found)
    names = {name for part in parts if part.staged for name in part.staged.names}
    # What makes it so in earnest: the manifest that adopts the states has the parts too.
    real = Journal.publish

    def publish(journal: Journal, manifest: Any) -> bool:
        committed = tuple(CommittedPart(part.rows, part.payload, part.staged) for part in parts)
        return real(journal, replace(manifest, void=False, origin="", sinks={"out": committed}))

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "publish", publish)
        made.adopt(query, found)
    assert names
    assert names <= made.last().staged_files
