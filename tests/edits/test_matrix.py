"""Every row of the edit matrix, cut at three places, over append-only rows and rows that go: see `matrix`."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.recovery import former_plan
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.pipeline import Planned
from tests.edits.matrix import MATRIX, RETRACTING, Edit
from tests.examples import is_long
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.test_edited_answers import held
from tests.properties.updating import TABLE, batch
from tests.runtime.support import Crash, crash_at

START = datetime(2024, 1, 1)
ROWS_PER_EPOCH = 15
#: Epochs before the edit, of four.
CUTS = (1, 2, 3)


def rows(seed: int = 7, number: int = 60) -> list[dict[str, Any]]:
    """Rows out of order by up to a minute, with NULLs and duplicates."""
    chance = random.Random(seed)
    made = []
    for n in range(number):
        at = START + timedelta(seconds=20 * n + chance.randint(-30, 30))
        made.append(
            {
                "k": chance.choice([0, 1, 2, 3, None]),
                "v": chance.choice([None, *range(6)]),
                "s": chance.choice(["a", "b", "B", None]),
                "b": chance.random() < 0.7,
                "ts": at.strftime("%Y-%m-%d %H:%M:%S"),
            }
        )
    return made


def planned(folder: Path, edit: Edit, query: str, source: str) -> Planned:
    if edit.windowed:
        columns = "w TIMESTAMP(3), g INT, a BIGINT, c BIGINT"
        sink = f"CREATE TABLE out ({columns}) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');\n"
    else:
        columns = "g STRING, a BIGINT, c BIGINT"
        sink = (
            f"CREATE TABLE out ({columns}) "
            "WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json');\n"
        )
    (folder / "p.sql").write_text(f"{TABLE}{sink}INSERT INTO out {query.format(t=source)};\n")
    return plan_file(folder / "p.sql")


def last_manifest(folder: Path) -> tuple[Journal, Manifest]:
    journal = Journal(CheckpointStore(str(folder / "state"), sync=False))
    return journal, journal.manifest(journal.epochs()[1][-1])


def verdicts(folder: Path, new: Planned) -> str:
    """What becomes of the new plan's states, each word once; KEEP only if nothing else does."""
    edits = decide(former_plan(*last_manifest(folder)), new.physical, new.state_nodes)
    found = {e.verdict.value for e in edits} - {Verdict.DROP.value}
    return " ".join(sorted(found - {Verdict.KEEP.value} or found))


def cases() -> list[Any]:
    made = []
    for edit in MATRIX:
        for kind in ("append", "retract"):
            if kind == "append" or edit.retracting is not None:
                made += [pytest.param(edit, kind, cut, id=f"{edit.id}-{kind}-{cut}") for cut in CUTS]
    return made


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("edit", "kind", "cut"), cases())
def test_an_edit_gives_what_the_new_query_gives_over_everything(
    tmp_path: Path, edit: Edit, kind: str, cut: int
) -> None:
    (tmp_path / "input").mkdir()
    given = rows()
    (tmp_path / "input" / "0.json").write_text("".join(json.dumps(row) + "\n" for row in given))
    source = "t" if kind == "append" else RETRACTING
    old = planned(tmp_path, edit, edit.old, source)
    run_here(old, tmp_path, parallelism=2, rows_per_epoch=ROWS_PER_EPOCH, max_epochs=cut, sql=old.masked_sql)
    _, at = last_manifest(tmp_path)
    before = batch(tmp_path, old, given)
    new = planned(tmp_path, edit, edit.new, source)
    assert verdicts(tmp_path, new) == (
        (edit.retracting or edit.verdicts) if kind == "retract" else edit.verdicts
    )
    before_ids = {state.state_id for state in old.physical.states}
    reported: list[Diagnostic] = []
    # Killed in the middle of the edit, and run again with another number of shards: at one point, in long searches at all.
    same = before_ids == {state.state_id for state in new.physical.states}
    points = ("planned", "published") if same else ("planned", "adapted", "published")
    for point in points if is_long() else (points[cut % len(points)],):
        with pytest.raises(Crash):
            run_here(new, tmp_path, parallelism=3, faults=crash_at(point, at.epoch + 1), sql=new.masked_sql)
        if last_manifest(tmp_path)[1].epoch > at.epoch:
            break
    run_here(
        new, tmp_path, parallelism=3, rows_per_epoch=ROWS_PER_EPOCH, sql=new.masked_sql, tell=reported.append
    )
    after = batch(tmp_path, new, given)
    if not edit.windowed:
        assert_same(held(tmp_path, ["g", "a", "c"]), after)
        return
    closed = at.sources[0].applied + edit.tick_us
    expected = [row for row in before if _us(row[0]) <= closed]
    expected += [row for row in after if _us(row[0]) > closed]
    assert_same(appended(tmp_path), expected)


def appended(folder: Path) -> Rows:
    """The rows of the sink's files."""
    found = []
    for file in sorted((folder / "out").glob("*.json")):
        for line in map(json.loads, file.read_text().splitlines()):
            found.append((datetime.fromisoformat(line["w"]), line.get("g"), line.get("a"), line.get("c")))
    return found


def _us(time: datetime) -> int:
    return round(time.replace(tzinfo=UTC).timestamp() * 1_000_000)
