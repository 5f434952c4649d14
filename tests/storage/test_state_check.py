"""`sqlstream state check` beside the state itself: damage to what sinks, dimension tables and dead letters have there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sqlstream.cli.state_text import check_lines
from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.state.committed import find_committed
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.runtime.support import Crash, crash_at
from tests.storage.test_damaged_files import check as check_results
from tests.storage.test_damaged_files import pipeline, refusal, run


def checked(folder: Path) -> tuple[list[str], list[str]]:
    """What is told to be damaged, and of what else."""
    lines: list[str] = []
    found = check_lines(find_committed(CheckpointStore(str(folder / "state")), None))
    try:
        lines.extend(iter(lambda: next(found, ""), ""))
    except DiagnosticError as error:
        return [diagnostic.message for diagnostic in error.diagnostics], lines
    return [], lines


def flipped(file: Path) -> None:
    content = file.read_bytes()
    place = len(content) // 2
    file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


@pytest.fixture(scope="module", params=["published", "ended"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory whose last epoch is in no sink yet, or in all."""
    folder = tmp_path_factory.mktemp("left") / str(request.param)
    pipeline(folder)
    if request.param == "published":
        with pytest.raises(Crash):
            run(folder, faults=crash_at("published", 3))
    else:
        run(folder)
    return folder


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "name", ["sinks/identity.json", "staged/sinks/*/*/*", "staging/dead-letter/*", "dead-letter/*"]
)
@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_it_says_what_a_run_says(left: Path, tmp_path: Path, name: str, how: str) -> None:
    folder = tmp_path / "case"
    shutil.copytree(left, folder)
    assert checked(folder)[0] == []
    files = sorted((folder / "state").glob(name))
    if name.startswith("staged"):  # those of other epochs are not read again
        manifest = find_committed(CheckpointStore(str(folder / "state")), None).manifest
        files = sorted(folder / "state" / one for one in manifest.staged_files)
        assert files or left.name == "ended"
    if not files:
        assert name.startswith("stag")
        return
    file = files[-1]
    if how == "flipped":
        flipped(file)
    else:
        file.unlink()
    reported, lines = checked(folder)
    refused = refusal(folder)
    assert bool(reported) == (refused is not None), (reported, refused)
    if reported:
        assert refused is not None
        assert str(file) in reported[0]
    elif how == "flipped" or name.startswith("staging"):
        assert any(str(file) in line and "it does no harm" in line for line in lines)
    if refused is None and "dead-letter" not in name:
        check_results(folder)


LOOKUP = """
CREATE TABLE t (k INT, at AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE d (k INT, name STRING, PRIMARY KEY (k) NOT ENFORCED)
  WITH ('connector' = 'filesystem', 'path' = 'd.json', 'format' = 'json');
CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json') AS
  SELECT t.k, d.name FROM t JOIN d FOR SYSTEM_TIME AS OF t.at ON t.k = d.k;
"""


def looked_up(folder: Path, **options: object) -> None:
    run_pipeline(
        RunRequest(
            plan_file(folder / "p.sql").physical,
            state_dir=folder / "state",
            base_dir=folder,
            local_dir=folder / "cache",
            runner=InProcessRunner(2),
            sync=False,
            **options,  # type: ignore[arg-type]
        )
    )


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_a_copy_of_a_dimension_table_is_made_anew(tmp_path: Path, begun: bool, how: str) -> None:
    """Also where an epoch that was begun names it: it is given up, and what it reads is read anew."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"k": 1}\n')
    (tmp_path / "d.json").write_text('{"k": 1, "name": "one"}\n{"k": 2, "name": "two"}\n')
    (tmp_path / "p.sql").write_text(LOOKUP)
    looked_up(tmp_path)
    (tmp_path / "in/2.json").write_text('{"k": 2}\n')
    if begun:
        with pytest.raises(Crash):
            looked_up(tmp_path, faults=crash_at("planned", 2))
    [copy] = (tmp_path / "state/dimensions").iterdir()
    if how == "flipped":
        flipped(copy)
        reported, lines = checked(tmp_path)
        assert reported == []
        assert any(
            str(copy) in line and "the next run reads the dimension table anew" in line for line in lines
        )
    else:
        copy.unlink()
    looked_up(tmp_path)
    rows = [
        json.loads(line) for f in (tmp_path / "out").glob("*.json") for line in f.read_text().splitlines()
    ]
    assert sorted(row["name"] for row in rows) == ["one", "two"]
    assert checked(tmp_path) == ([], checked(tmp_path)[1])
