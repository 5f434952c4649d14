"""Any byte of any file of a state directory flipped, and any file cut short: told by name, or without any effect."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import DiagnosticError
from tests.examples import is_long
from tests.runtime.support import Crash, crash_at

KEYS, ROWS, FILE = 400, 1_600, 400
SUMS = {f"key {k:040d}": sum(range(k, ROWS, KEYS)) for k in range(KEYS)}
LETTERS = 4


def pipeline(folder: Path) -> Path:
    """Changes into a DuckDB table, many enough for staged files; rows into files; a row of each file is malformed."""
    (folder / "in").mkdir(parents=True)
    for number in range(4):
        rows = range(number * FILE, number * FILE + FILE)
        lines = [json.dumps({"k": f"key {n % KEYS:040d}", "v": n}) for n in rows]
        (folder / f"in/{number}.json").write_text("\n".join([*lines, '{"k": "bad", "v": "x"}\n']))
    (folder / "p.sql").write_text(
        """
        CREATE TABLE t (k STRING, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
        CREATE TABLE sums (k STRING, v BIGINT, PRIMARY KEY (k) NOT ENFORCED)
          WITH ('connector' = 'duckdb', 'path' = 'db.duckdb');
        CREATE TABLE copies (v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
        INSERT INTO sums SELECT k, CAST(SUM(v) AS BIGINT) FROM t GROUP BY k;
        INSERT INTO copies SELECT v FROM t;
        """
    )
    return folder / "p.sql"


def run(folder: Path, **options: Any) -> str:
    result = run_pipeline(
        RunRequest(
            plan_file(folder / "p.sql").physical,
            state_dir=folder / "state",
            base_dir=folder,
            local_dir=folder / "cache",
            runner=InProcessRunner(2),
            parallelism=2,
            sync=False,
            **{"max_rows_per_epoch": FILE, **options},
        )
    )
    return result.outcome


def check(folder: Path) -> None:
    """Everything is there, once."""
    with duckdb.connect(str(folder / "db.duckdb"), read_only=True) as connection:
        assert dict(connection.execute("SELECT k, v FROM sums").fetchall()) == SUMS
    copies = [
        json.loads(line)["v"] for f in (folder / "out").glob("*.json") for line in f.read_text().splitlines()
    ]
    assert sorted(copies) == list(range(ROWS))
    letters = [line for f in (folder / "state/dead-letter").glob("*") for line in f.read_text().splitlines()]
    assert len(letters) == LETTERS


@pytest.fixture(scope="module", params=["prepared", "published"])
def broken_off(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that broke off in its third epoch, before or behind its manifest."""
    folder = tmp_path_factory.mktemp("broken") / str(request.param)
    pipeline(folder)
    with pytest.raises(Crash):
        run(folder, faults=crash_at(str(request.param), 3))
    shutil.rmtree(folder / "cache")
    return folder


def damaged(content: bytes, rng: random.Random) -> list[bytes]:
    """One bit of the file flipped somewhere, the file cut short, and nothing left of it."""
    places = {rng.randrange(len(content))} if content else set()
    flipped = [
        content[:n] + bytes([content[n] ^ (1 << rng.randrange(8))]) + content[n + 1 :] for n in sorted(places)
    ]
    return [*flipped, content[: len(content) // 2], b""]


def refusal(folder: Path) -> DiagnosticError | None:
    """What a run says, None if it comes to its end."""
    try:
        run(folder)
    except DiagnosticError as error:
        return error
    return None


def test_a_damaged_file_is_told_or_has_no_effect(broken_off: Path, tmp_path: Path) -> None:
    rng = random.Random(7)
    files = [f for f in (broken_off / "state").rglob("*") if f.is_file()]
    # What is in dead-letter/ is the user's already.
    names = sorted(
        str(f.relative_to(broken_off)) for f in files if f.parent.name != "dead-letter" or "staging" in str(f)
    )
    kinds = {name.split("/")[1] for name in names}
    assert {"epochs", "plans", "state", "staged", "sources", "sinks"} <= kinds
    # The last of a kind is what is read again; of the earlier ones, one.
    by_kind = [[n for n in names if n.split("/")[1] == kind] for kind in sorted(kinds)]
    names = [name for of_kind in by_kind for name in dict.fromkeys([*of_kind[:1], *of_kind[-3:]])]
    reported: Counter[str] = Counter()
    for place, name in enumerate(names):
        content = (broken_off / name).read_bytes()
        for number, bad in enumerate(damaged(content, rng)):
            # In CI each file is damaged in one way, and the files of a kind in turn in all.
            if bad == content or ((number + place) % 3 and not is_long()):
                continue
            folder = tmp_path / "case"
            shutil.copytree(broken_off, folder)
            (folder / name).write_bytes(bad)
            error = refusal(folder)
            if error is not None:
                (diagnostic,) = error.diagnostics
                assert (error.exit_code, diagnostic.code[:3]) == (4, "STA"), (name, number, diagnostic)
                assert Path(name).name in diagnostic.message + str(diagnostic.notes), diagnostic
                reported[name.split("/")[1]] += 1
                (folder / name).write_bytes(content)
                assert refusal(folder) is None
            check(folder)
            shutil.rmtree(folder)
    # Staged rows are read again where a manifest names them that may not have been committed.
    read = {"epochs", "state", "sources", "sinks"} | ({"staged"} if broken_off.name == "published" else set())
    assert read <= reported.keys()
