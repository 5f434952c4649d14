"""Backfills that are killed, stopped, refused or given up: the original is unharmed, and the next one goes on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors.api import Limits, Position, SourcePlan
from sqlstream.connectors.filesystem.source import FileSource
from sqlstream.runtime.loop.admission import Admission
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.storage import backfills
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoints import Savepoints
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.referee import assert_same
from tests.properties.test_updating_queries import ROWS
from tests.properties.updating import TABLE, batch, collecting
from tests.runtime.edits.backfilling import World, versions_of
from tests.runtime.support import Crash, crash_at

OLD = "SELECT s, COUNT(*) AS old FROM t GROUP BY s"
NEW = "SELECT k, COUNT(*) AS n, COUNT(DISTINCT v) AS d, MAX(s) AS m FROM t GROUP BY k"
POINTS = ["planned", "run", "prepared", "published", "committed", "collected"]


@pytest.fixture
def made(tmp_path: Path) -> World:
    """The old query has read two epochs of four rows; the last four are still there."""
    world = World(tmp_path, TABLE)
    world.lines("input/0.json", ROWS)
    with collecting():
        world.run(OLD, rows_per_epoch=4, max_epochs=2)
        world.run(NEW, state="plain", rows_per_epoch=4, max_epochs=2)
    return world


def small(world: World) -> Any:
    """Settings with which the history is three epochs."""
    return world.settings(admission=Admission(fixed_rows=3))


def expected(world: World) -> dict[str, list[Any]]:
    return world.tables_of(world.plan(NEW).physical, versions_of(world.last("plain")), "plain")


def tables(world: World, found: Any) -> dict[str, list[Any]]:
    return world.tables_of(world.plan(NEW).physical, found.versions)


def side(world: World) -> set[str]:
    return set(world.store().list("backfills"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_killed_anywhere_it_goes_on(made: World, point: str, epoch: int) -> None:
    before, plain = made.kept(), expected(made)
    with pytest.raises(Crash):
        made.backfill(NEW, settings=small(made), faults=crash_at(point, epoch))
    assert made.kept() == before
    reports: list[EpochReport] = []
    found = made.backfill(NEW, settings=small(made), on_epoch=reports.append)
    committed = epoch - (point in ("planned", "run", "prepared"))
    assert [report.epoch for report in reports] == list(range(committed + 1, 4))
    assert tables(made, found) == plain
    assert made.kept() == before


def test_one_that_is_done_is_not_done_again(made: World) -> None:
    reports: list[EpochReport] = []
    first = made.backfill(NEW, settings=small(made), on_epoch=reports.append)
    again = made.backfill(NEW, settings=small(made), on_epoch=reports.append)
    assert len(reports) == 3
    assert again.versions == first.versions
    assert again.sources == first.sources


def test_it_stops_when_it_is_asked_to(made: World) -> None:
    stop, before = StopFlag(), made.kept()

    def enough(report: EpochReport) -> None:
        stop.request()

    assert made.try_backfill(NEW, settings=small(made), stop=stop, on_epoch=enough) is None
    assert made.kept() == before
    assert tables(made, made.backfill(NEW, settings=small(made))) == expected(made)


def test_the_clock_stands_still(made: World) -> None:
    """All of the history counts as touched when the backfill began, also what is read by a later run."""
    query = (
        "SET 'table.exec.state.ttl' = '10 s'; CREATE TABLE out WITH ('connector' = 'blackhole') AS "
        + NEW
        + ";"
    )
    times = iter(range(1_000, 100_000, 100))
    with pytest.raises(Crash):
        made.backfill(
            query, settings=small(made), wall_clock=lambda: next(times), faults=crash_at("planned", 2)
        )
    found = made.backfill(query, settings=small(made), wall_clock=lambda: next(times))
    kept = made.tables_of(made.plan(query).physical, found.versions)
    (touched,) = (rows for name, rows in kept.items() if name.endswith("group_aggregate touched"))
    assert {row["$at"] for row in touched} == {1_000_000_000}
    counts = {name.split()[-1]: len(rows) for name, rows in expected(made).items()}
    assert len(touched) == counts["acc"]


# ------------------------------------------------------------------------------------------- what is collected


def test_the_folder_stays_while_the_original_stands_still(made: World) -> None:
    with pytest.raises(Crash):
        made.backfill(NEW, settings=small(made), faults=crash_at("committed", 2))
    begun = side(made)
    assert begun
    with collecting():
        made.run(OLD, rows_per_epoch=4, max_epochs=0)  # it starts, and sweeps
        assert side(made) == begun
        made.run(OLD, rows_per_epoch=4, max_epochs=1)
        assert side(made) == begun  # the start of it swept
        made.run(OLD, rows_per_epoch=4, max_epochs=0)
    assert side(made) == set()


def test_what_is_adopted_is_kept_and_the_rest_swept(made: World) -> None:
    found = made.backfill(NEW, settings=small(made))
    adopted = {name for shards in found.versions.values() for shard in shards for name in shard.files()}
    assert adopted
    assert all(name.startswith(f"{found.folder}/state/") for name in adopted)
    assert side(made) > adopted
    made.adopt(NEW, found)
    Savepoints(made.store()).create("kept")
    with collecting() as collected:
        made.run(NEW, rows_per_epoch=1)
        assert_same(collected.folded("out"), batch(made.folder, made.plan(NEW), ROWS))
        made.run(NEW)
    assert side(made) == adopted
    Savepoints(made.store()).delete("kept")
    with collecting():
        made.lines("input/9.json", ROWS[:1])
        made.run(NEW)
        made.run(NEW, max_epochs=0)
    last = made.last()
    named = {name for shards in versions_of(last).values() for shard in shards for name in shard.files()}
    assert side(made) <= named | adopted


def test_what_was_adopted_goes_with_its_state(made: World) -> None:
    found = made.backfill(NEW)
    backfills.forget(made.store(), found.folder)
    assert side(made) == set()


def test_another_query_is_another_backfill(made: World) -> None:
    first = made.backfill(NEW)
    second = made.backfill("SELECT k, MIN(v) AS lo FROM t GROUP BY k")
    assert first.folder != second.folder


def test_caches_are_left_to_the_run_that_adopts(made: World) -> None:
    found = made.backfill(NEW)
    folders = {path.name for path in made.folder.iterdir()}
    assert not {name for name in folders if name.startswith("cache-")}
    slots = {path.name.rsplit("-", 3)[0] for path in (made.folder / "cache").iterdir()}
    assert set(found.versions) <= slots


# ------------------------------------------------------------------------------------------- what there is to read


def test_only_what_is_asked_for_is_computed(made: World) -> None:
    query = (
        "CREATE TABLE a WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;"
        "CREATE TABLE b WITH ('connector' = 'blackhole') AS SELECT s, SUM(v) AS n FROM t GROUP BY s;"
    )
    one, other = (state.state_id for state in made.plan(query).physical.states)
    found = made.backfill(query, states=[one])
    assert set(found.versions) == {one}
    journal = Journal(made.store().below(found.folder))
    assert {state.state_id for state in journal.manifest(journal.epochs()[1][-1]).states} == {one}
    assert set(made.backfill(query, states=[other]).versions) == {other}


def test_nothing_is_computed_where_nothing_was_read(tmp_path: Path) -> None:
    made = World(tmp_path, TABLE)
    made.lines("input/0.json", ROWS)
    with collecting():
        made.run("SELECT COUNT(*) AS n FROM t", rows_per_epoch=4, max_epochs=1)
    tables_ = TABLE.replace("TABLE t", "TABLE u").replace("'input'", "'others'")
    made.lines("others/0.json", ROWS)
    made.tables += tables_
    query = "SELECT k, COUNT(*) AS n FROM u GROUP BY k"
    found = made.backfill(query)
    assert all(shard.is_empty for shards in found.versions.values() for shard in shards)
    assert all(len(shards) == made.shards for shards in found.versions.values())


@pytest.mark.parametrize("ending", ["json.gz", "csv", "parquet"])
def test_files_of_every_kind(tmp_path: Path, ending: str) -> None:
    columns = "(k INT, v BIGINT)"
    made = World(
        tmp_path,
        f"CREATE TABLE t {columns} WITH ('connector' = 'filesystem', 'path' = 'in', "
        f"'format' = '{ending.removesuffix('.gz')}');",
    )
    (tmp_path / "in").mkdir()
    for number in range(4):
        values = [(n % 3, n) for n in range(number * 5, number * 5 + 5)]
        (tmp_path / f"in/{number}.{ending}").write_bytes(content(ending, values))
    old, new = "SELECT COUNT(*) AS n FROM t", "SELECT k, SUM(v) AS s FROM t GROUP BY k"
    with collecting():
        original = made.run(old, rows_per_epoch=7, max_epochs=2)
        plain = made.run(new, state="plain", rows_per_epoch=7, max_epochs=2)
    assert [s.position for s in original.sources] == [s.position for s in plain.sources]
    plan = made.plan(new).physical
    found = made.backfill(new, settings=made.settings(admission=Admission(fixed_rows=4)))
    assert made.tables_of(plan, found.versions) == made.tables_of(plan, versions_of(plain), "plain")


def content(ending: str, values: list[tuple[int, int]]) -> bytes:
    if ending == "parquet":
        out = pa.BufferOutputStream()
        pq.write_table(pa.table({"k": [k for k, _ in values], "v": [v for _, v in values]}), out)
        return bytes(out.getvalue())
    if ending == "csv":
        return "".join(f"{k},{v}\n" for k, v in values).encode()
    return gzip.compress("".join(json.dumps({"k": k, "v": v}) + "\n" for k, v in values).encode())


def test_generated_rows(tmp_path: Path) -> None:
    made = World(
        tmp_path,
        "CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '5000', "
        "'rows-per-second' = '2000000', 'fields.k.min' = '1', 'fields.k.max' = '9');",
    )
    new = "SELECT k, COUNT(*) AS n, MAX(v) AS hi FROM t GROUP BY k"
    with collecting():
        original = made.run("SELECT COUNT(*) AS n FROM t", rows_per_epoch=1500, max_epochs=2)
        made.run(new, state="plain", rows_per_epoch=1500, max_epochs=2)
    found = made.backfill(new)
    assert found.rows_read == {"t": original.sources[0].position["row"]}
    plan = made.plan(new).physical
    if made.last("plain").sources[0].position == original.sources[0].position:
        assert made.tables_of(plan, found.versions) == made.tables_of(
            plan, versions_of(made.last("plain")), "plain"
        )


def test_malformed_rows_are_counted_and_not_told_twice(tmp_path: Path) -> None:
    made = World(tmp_path, TABLE)
    made.lines("input/0.json", ROWS[:5])
    with (tmp_path / "input/0.json").open("a") as file:
        file.write("nonsense\n")
    with collecting():
        made.run(OLD)
        before = made.kept()
        found = made.backfill(NEW)
    assert found.dead_letters == 1
    assert made.kept() == before


def test_history_that_is_gone_is_told_before_anything_is_done(made: World) -> None:
    before = made.kept()
    made.lines("input/0.json", ROWS[1:])
    with pytest.raises(DiagnosticError) as raised:
        made.backfill(NEW)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "DAT008"
    assert diagnostic.message.startswith("source `t` can't be read again")
    assert made.kept() == before
    assert side(made) == set()


def test_all_that_is_gone_is_told_together(tmp_path: Path) -> None:
    tables_ = TABLE + TABLE.replace("TABLE t", "TABLE u").replace("'input'", "'others'")
    both = "(SELECT k, s FROM t UNION ALL SELECT k, s FROM u) AS b"
    made = World(tmp_path, tables_)
    made.lines("input/0.json", ROWS)
    made.lines("others/0.json", ROWS)
    with collecting():
        made.run(f"SELECT s, COUNT(*) AS n FROM {both} GROUP BY s")
    (tmp_path / "input/0.json").unlink()
    (tmp_path / "others/0.json").unlink()
    with pytest.raises(DiagnosticError) as raised:
        made.backfill(f"SELECT k, COUNT(*) AS n FROM {both} GROUP BY k")
    assert [diagnostic.code for diagnostic in raised.value.diagnostics] == ["DAT008", "DAT008"]


@dataclass(frozen=True)
class Once:
    """A source that can be read once only."""

    source: FileSource

    @property
    def bounded(self) -> bool:
        return True

    def initial_position(self) -> Position:
        return self.source.initial_position()

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        return self.source.plan(position, limits)

    def lag(self, position: Position) -> int | None:
        return None


def test_a_connector_without_history(made: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = World.program

    def program(world: World, query: str, state: str = "state") -> Any:
        from dataclasses import replace

        found = real(world, query, state)
        return replace(found, sources={name: Once(source) for name, source in found.sources.items()})

    monkeypatch.setattr(World, "program", program)
    with pytest.raises(DiagnosticError, match="keeps no history") as raised:
        made.backfill(NEW)
    assert raised.value.diagnostics[0].code == "DAT008"


@pytest.mark.parametrize("planned", [True, False])
def test_a_file_that_changes_meanwhile_ends_it(made: World, planned: bool) -> None:
    """Whether the driver finds it, which counts the rows of an epoch, or a task."""
    settings_ = made.settings(admission=Admission(fixed_rows=3 if planned else None, files=1))
    made.lines("input/1.json", ROWS)
    made.lines("input/2.json", ROWS)
    with collecting():
        made.run(OLD, rows_per_epoch=12)
        made.run(NEW, state="plain", rows_per_epoch=12)
    before, plain = made.kept(), expected(made)

    def change(report: EpochReport) -> None:
        made.lines(f"input/{0 if planned else 1}.json", [{**row, "v": 99} for row in ROWS])

    with pytest.raises(DiagnosticError) as raised:
        made.backfill(NEW, settings=settings_, on_epoch=change)
    assert raised.value.diagnostics[0].code == "DAT008"
    assert "put the files back" in str(raised.value.diagnostics[0].help)
    made.lines("input/0.json", ROWS)
    made.lines("input/1.json", ROWS)
    assert made.kept() == before
    assert tables(made, made.backfill(NEW, settings=small(made))) == plain
