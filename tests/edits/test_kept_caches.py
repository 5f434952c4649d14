"""An edit that keeps a state reads nothing of it from the checkpoint: the local cache goes on under the new state."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.storage.journal import Journal
from sqlstream_operators.state import cache as caches
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.rocks import RocksBytes
from sqlstream_operators.state.version import StateFile
from tests.properties.in_process import run_here

SQL = """
CREATE TABLE t (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
CREATE TABLE o (k BIGINT, n BIGINT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'o.duckdb');
INSERT INTO o SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k;
"""


def run(folder: Path, sql: str) -> set[str]:
    """Run to the end of the input; the ids of the states."""
    (folder / "p.sql").write_text(sql)
    planned = plan_file(folder / "p.sql")
    run_here(planned, folder, rows_per_epoch=20, sql=planned.masked_sql)
    return {state.state_id for state in planned.physical.states}


def more(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    lines = "".join(f"{n % 7},{n * number}\n" for n in range(60))
    (folder / "in" / f"{number}.csv").write_text(f"k,v\n{lines}")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("figure", ["NULL", "COUNT(*) * 10"])
def test_nothing_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figure: str, at_once: bool
) -> None:
    """The run with the edit has something new to read, or the one after it."""
    more(tmp_path, 1)
    before = run(tmp_path, SQL)
    fetched: list[str] = []

    def noted(checkpoint: CheckpointStore, file: StateFile) -> bytes:
        fetched.append(file.name)
        return fetch(checkpoint, file)

    fetch = caches.fetch
    monkeypatch.setattr(caches, "fetch", noted)
    monkeypatch.setattr(caches.Cache, "restore", lambda *_: pytest.fail("a cache was built again"))
    manifests = Journal(CheckpointStore(tmp_path / "state")).epochs()[1]
    edited = SQL.replace("SUM(v)", figure)
    if not at_once:
        run(tmp_path, edited)
    more(tmp_path, 2)
    after = run(tmp_path, edited)
    assert before.isdisjoint(after)
    # What the caches lack is the last delta of each shard; what came later was written by this run.
    read = {name for name in fetched if int(Path(name).name.partition("-")[0]) <= max(manifests)}
    assert len(read) <= 2, read
    with duckdb.connect(str(tmp_path / "o.duckdb")) as found:
        rows = found.sql("SELECT * FROM o ORDER BY k").fetchall()
        files = f"read_csv('{tmp_path / 'in'}/*.csv')"
        wanted = found.sql(f"SELECT k, COUNT(*), {figure} FROM {files} GROUP BY k ORDER BY k").fetchall()
    assert rows == wanted
    left = {path.name.partition("-0000")[0] for path in (tmp_path / "cache").glob("*-of-*")}
    assert left == after


def test_caches_of_a_state_that_is_dropped_are_closed_before_their_folders_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RocksDB waits for a second in its close where it can't write its memory: the end of such a run was late."""
    more(tmp_path, 1)
    before = run(tmp_path, SQL)
    there: dict[str, bool] = {}
    close = RocksBytes.close

    def noted(rocks: RocksBytes) -> None:
        there[rocks.directory.parent.name] = rocks.directory.exists()
        close(rocks)

    monkeypatch.setattr(RocksBytes, "close", noted)
    more(tmp_path, 2)
    after = run(tmp_path, SQL.replace("SUM(v)", "MAX(v)"))
    dropped = before - after
    closed = {slot for slot in there if slot.startswith(tuple(dropped))}
    assert len(closed) == 2
    assert all(there.values())
    assert not [slot.name for slot in (tmp_path / "cache").iterdir() if slot.name in closed]
