"""Savepoints that releases have written are restored, and run on exactly."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.recovery import former_plan
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoint_copies import the_savepoint_in
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import Verdict
from tests.compat.cases import HERE, Case, cases, formats

#: Pipelines whose states a later release keeps in another way: all of it follows from what was kept.
KEPT_OTHERWISE = frozenset({"format2-arranged", "format2-joined"})


@pytest.mark.parametrize("case", cases(), ids=str)
def test_what_is_expected_is_what_duckdb_says(case: Case) -> None:
    assert case.judged() == case.expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("shards", "groups"), [(1, None), (3, None), (2, 50)])
@pytest.mark.parametrize("case", cases(), ids=str)
def test_a_savepoint_is_restored_and_runs_on(
    case: Case, shards: int, groups: int | None, tmp_path: Path
) -> None:
    got = case.restored(tmp_path, shards, groups)
    expected = case.expected
    assert got.keys() == expected.keys()
    for sink, rows in expected.items():
        assert got[sink] == rows, sink


def test_they_are_small() -> None:
    """They are in the repository for ever."""
    for format_ in formats():
        size = sum(file.stat().st_size for file in (HERE / f"format{format_}").rglob("*") if file.is_file())
        assert size < 400_000


_IDENTITIES = """
import json, sys
from pathlib import Path
from sqlstream.planning import plan_file
found = {
    path: [[s.state_id, s.schema_id, json.loads(s.identity)] for s in plan_file(Path(path)).physical.states]
    for path in sys.argv[1:]
}
print(json.dumps(found))
"""


def _identities(python: str, seed: str, paths: list[str], path: str) -> dict[str, object] | None:
    """The states of pipelines as another process plans them; None if it lacks what it needs."""
    ran = subprocess.run(
        [python, "-c", _IDENTITIES, *paths],
        env={
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": path,
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": os.environ.get("HOME", "/"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if "ImportError" in ran.stderr or "ModuleNotFoundError" in ran.stderr:
        return None
    assert not ran.returncode, ran.stderr
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def _stored(folder: Path) -> dict[str, object]:
    """The same as the savepoints have it."""
    return {
        str(case.folder / "pipeline.sql"): [
            [s.state_id, s.schema_id, s.identity]
            for s in the_savepoint_in(case.savepoint(folder / str(case))).manifest.states
        ]
        for case in cases()
        if str(case) not in KEPT_OTHERWISE
    }


@pytest.mark.parametrize("case", [case for case in cases() if str(case) in KEPT_OTHERWISE], ids=str)
def test_what_is_kept_otherwise_needs_no_history(case: Case, tmp_path: Path) -> None:
    exported = case.savepoint(tmp_path)
    old = former_plan(Journal(exported), the_savepoint_in(exported).manifest)
    new = plan_file(case.folder / "pipeline.sql")
    edits = decide(old, new.physical, new.state_nodes)
    assert {edit.verdict for edit in edits} <= {Verdict.KEEP, Verdict.ADAPT, Verdict.DROP}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", ["4711", "0", "1"])
def test_identities_are_those_of_the_savepoints_whatever_the_hash_seed(seed: str, tmp_path: Path) -> None:
    stored = _stored(tmp_path)
    assert _identities(sys.executable, seed, list(stored), ":".join(sys.path)) == stored


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_identities_are_the_same_in_other_versions_of_python(version: str, tmp_path: Path) -> None:
    """The planner is pure Python: it runs with the packages that are here, where there is another interpreter."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        pytest.skip("this is the version that runs")
    found = sorted(
        Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser().glob(f"versions/{version}.*/bin/python")
    )
    if not found:
        pytest.skip(f"there is no Python {version} here")
    # The connector datagen looks at its options with numpy, which is compiled for one version.
    stored = {path: states for path, states in _stored(tmp_path).items() if "generated" not in path}
    assert stored
    ours = [path for path in sys.path if path and not path.startswith(sys.base_prefix)]
    got = _identities(str(found[-1]), "5", list(stored), ":".join(ours))
    if got is None:
        pytest.skip(f"Python {version} can't load the packages that are here")
    assert got == stored
