"""Texts that are gone back to while no new input came: what an earlier edit read again is read once more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream.storage import backfills
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.test_edited_answers import held, planned
from tests.properties.updating import TABLE, batch
from tests.runtime.support import Crash, crash_at

ROWS = [{"k": n % 3, "v": n % 7, "s": "ab"[n % 2]} for n in range(20)]
SINK = "CREATE TABLE out WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json') AS "
#: Queries by a number; what each keeps follows from nothing that the others keep.
QUERIES = {
    "a group aggregate": "SELECT k, COUNT(*) AS n FROM t WHERE v > {0} GROUP BY k",
    "two of them": "SELECT s, MAX(m) AS m FROM (SELECT k, s, MIN(v) AS m FROM t WHERE v > {0} GROUP BY k, s) GROUP BY s",
    "a Top-N": "SELECT k, v FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, s) AS r "
    "FROM t WHERE v > {0}) WHERE r < 3",
}


def run(folder: Path, query: str, number: int) -> None:
    plan = planned(folder, f"{TABLE}{SINK}{query.format(number)};")
    run_here(plan, folder, sql=plan.masked_sql)
    assert_same(held(folder, [c.name for c in plan.physical.sinks[0].schema]), batch(folder, plan, ROWS))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("numbers", [(0, 1, 2, 3, 0, 1, 2), (0, 1, 0, 1, 0, 1, 0)])
def test_former_texts(name: str, numbers: tuple[int, ...], tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input/0.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    for number in numbers:
        run(tmp_path, QUERIES[name], number)


def test_a_savepoint_keeps_what_is_made_again_under_another_name(tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input/0.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    query = QUERIES["a group aggregate"]
    store = CheckpointStore(str(tmp_path / "state"), sync=False)
    for number in (0, 1):
        run(tmp_path, query, number)
    Savepoints(store).create("kept")
    kept = set(Savepoints(store).pinned())
    for number in (0, 1, 2, 0, 1, 2):
        run(tmp_path, query, number)
    assert all(store.exists(name) for name in kept)


def test_nothing_is_left_of_backfills_that_were_adopted(tmp_path: Path) -> None:
    """But the states that the last manifests name: no journals, which would never be swept while no input comes."""
    (tmp_path / "input").mkdir()
    (tmp_path / "input/0.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    store = CheckpointStore(str(tmp_path / "state"), sync=False)
    for number in (0, 1, 2, 3, 0, 1, 2):
        run(tmp_path, QUERIES["a group aggregate"], number)
    run(tmp_path, QUERIES["a group aggregate"], 2)
    names = store.list(backfills.FOLDER)
    assert names
    assert all("/state/" in name for name in names), names


@pytest.mark.parametrize("point", ["backfilled", "adapted", "prepared", "published"])
@pytest.mark.sampled(2)
def test_killed_on_the_way_back(point: str, tmp_path: Path) -> None:
    (tmp_path / "input").mkdir()
    (tmp_path / "input/0.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    query = QUERIES["a group aggregate"]
    for number in (0, 1, 2, 3, 0):
        run(tmp_path, query, number)
    plan = planned(tmp_path, f"{TABLE}{SINK}{query.format(1)};")
    epoch = 6 if point != "backfilled" else 5
    with pytest.raises(Crash):
        run_here(plan, tmp_path, sql=plan.masked_sql, faults=crash_at(point, epoch))
    for number in (1, 2, 3):
        run(tmp_path, query, number)
