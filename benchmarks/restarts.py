"""Restarts on Spark, by the size of the state: `python benchmarks/restarts.py [--folder F] [--master local[2]] ROWS ...`.

A pipeline that counts and sums by a key of 100 characters, over two shards: each row is a key of its own, and about 116
bytes of state, which are written without Spark first. Then Spark starts, and for each size in turns: a savepoint is made,
and the pipeline goes on to its first committed epoch of 1,000 rows with the local cache as it is (warm), after an edit
that keeps the state by field ids (the sum goes, the rest is read as it was written), and without a local cache (cold).
Seconds are from the start of `run_pipeline` to the manifest, Spark being up; each is the best of `--rounds`.

With `--folder` the states stay there, and are not written again the next time. `--backfill ROWS` compares the speed of a
backfill instead: the rows of Parquet files by the plain query, and the same query beside a kept one, whose state is
computed from their history.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.spark.stages import SparkJobRunner
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore

SQL = """CREATE TABLE t (id BIGINT, s STRING) WITH ('connector' = 'datagen', 'fields.s.length' = '100',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000000');
CREATE TABLE o (s STRING, n BIGINT, total DECIMAL(38, 0)) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT s, COUNT(*), SUM(id) FROM t GROUP BY s;
"""
#: Without the sum; its other fields are kept as they are.
EDITED = SQL.replace("SUM(id)", "NULL")
EPOCH = 250_000

FILES = """CREATE TABLE t (k BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet');
CREATE TABLE o (k BIGINT, n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k;
"""
#: Beside the same query, whose state is kept, another one, all of which is computed from history.
MORE = """CREATE TABLE more (k BIGINT, n BIGINT, least BIGINT, total DECIMAL(38, 0)) WITH ('connector' = 'blackhole');
INSERT INTO more SELECT k % 100000, COUNT(*), MIN(v), SUM(v) FROM t GROUP BY k % 100000;
"""


def run(
    folder: Path, sql: str, runner: JobRunner, epochs: int | None, rows: int | None = None
) -> list[EpochReport]:
    """Some epochs of so many rows."""
    planned = plan_file(sql, file="bench.sql")
    reports: list[EpochReport] = []
    run_pipeline(
        RunRequest(
            planned.physical,
            state_dir=folder / "state",
            local_dir=folder / "cache",
            base_dir=folder,
            parallelism=2,
            max_rows_per_epoch=rows,
            runner=runner,
            max_epochs=epochs,
            poll_s=0.0,
            sql=planned.masked_sql,
            nodes=planned.state_nodes,
            on_epoch=reports.append,
        )
    )
    return reports


def timed(what: Callable[[], Any]) -> float:
    """Seconds that it takes."""
    start = time.perf_counter()
    what()
    return time.perf_counter() - start


def build(folder: Path, rows: int) -> None:
    """A state of so many rows, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / "done"
    if done.exists():
        return
    shutil.rmtree(folder / "state", ignore_errors=True)
    epoch = min(rows, EPOCH)
    run(folder, SQL, InProcessRunner(2), max(1, rows // epoch), epoch)
    done.touch()


def measure(folder: Path, runner: JobRunner, rounds: int) -> str:
    """A line of the table in docs/performance/edits.md."""
    store = CheckpointStore(folder / "state")
    journal = Journal(store)
    points = Savepoints(store)

    def epoch(sql: str, folder: Path = folder, epochs: int = 1) -> float:
        return timed(lambda: run(folder, sql, runner, epochs, 1000))

    def keep() -> float:
        copy = (
            folder / "edited"
        )  # files of a state directory are never changed in place, those of a cache are
        shutil.copytree(folder / "state", copy / "state", copy_function=os.link)
        shutil.copytree(folder / "cache", copy / "cache")
        try:
            return epoch(EDITED, copy, 2)  # the first is the edit's own, and reads nothing
        finally:
            shutil.rmtree(copy)

    def cold() -> float:
        shutil.rmtree(folder / "cache")
        return epoch(SQL)

    size = sum(state.bytes for state in journal.manifest(journal.epochs()[1][-1]).states)
    epoch(SQL)  # the cache applies the last delta of the load
    savepoints, warm, edited, without = [], [], [], []
    for number in range(rounds):
        savepoints.append(timed(lambda n=number: points.create(f"s{time.time_ns()}-{n}")))  # type: ignore[misc]
        warm.append(epoch(SQL))
        edited.append(keep())
        without.append(cold())
    figures = (min(warm), min(edited), min(without))
    return (
        f"| {size / 1e6:,.0f} MB | {min(savepoints) * 1000:.1f} ms | "
        + " | ".join(f"{seconds:.2f} s" for seconds in figures)
        + " |"
    )


def backfill(folder: Path, rows: int, runner: JobRunner) -> str:
    """The line about a backfill: rows a second by the plain query, and by the backfill of the same."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    for number in range(8):
        keys, values = rng.integers(0, rows // 10, rows // 8), rng.integers(0, 1 << 40, rows // 8)
        pq.write_table(pa.table({"k": keys, "v": values}), folder / "in" / f"{number}.parquet")
    plain = FILES.partition("CREATE TABLE o")[0] + MORE
    found = []
    for turn in range(4):
        seconds = {}
        for name, first, then in (("plain", None, plain), ("backfill", FILES, FILES + MORE)):
            shutil.rmtree(folder / "state", ignore_errors=True)
            shutil.rmtree(folder / "cache", ignore_errors=True)
            if first is not None:
                run(folder, first, runner, None)
            seconds[name] = timed(lambda then=then: run(folder, then, runner, None))  # type: ignore[misc]
        if turn:  # the first is the JVM's
            found.append((seconds["plain"] / seconds["backfill"], seconds["plain"], seconds["backfill"]))
    ratio, plainly, again = sorted(found)[1]
    others = f"{min(found)[0]:.2f} to {max(found)[0]:.2f}"
    return f"| {rows:,} rows | {plainly:.2f} s | {again:.2f} s | {ratio:.2f} ({others}) |"


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("rows", type=int, nargs="*")
    arguments.add_argument("--folder", type=Path)
    arguments.add_argument("--master", default="local[2]")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--backfill", type=int)
    asked = arguments.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        for rows in asked.rows:
            build(folder / str(rows), rows)
        runner = SparkJobRunner.start(asked.master, None)
        try:
            if asked.rows:
                print("| state | savepoint | warm | KEEP by field ids | cold |\n|---|---|---|---|---|")
                build(folder / "first", 1000)
                measure(folder / "first", runner, 3)  # the JVM's
            for rows in asked.rows:
                print(measure(folder / str(rows), runner, asked.rounds), flush=True)
            if asked.backfill:
                print("| input | plain query | backfill | speed |\n|---|---|---|---|")
                print(backfill(Path(scratch) / "backfill", asked.backfill, runner))
        finally:
            runner.close()


if __name__ == "__main__":
    main()
