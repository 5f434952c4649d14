"""What an epoch costs: 10,000 rows while state grows from 10 thousand to 10 million keys, and almost no rows.

Prints a Markdown table. Everything is on (Spark, state, checkpoints); the state is one window of a day, so nothing
closes; half of an epoch's keys are in the state already. Run it on a quiet machine:
`python benchmarks/epochs.py [--keys 10000000] [--epochs 30] [--master local[2]] [--reports F]`
(`--reports`: a JSON line for each epoch, with where its time went).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.spark.stages import SparkJobRunner
from sqlstream.runtime.tasks.job import JobRunner

SQL = """
CREATE TABLE t (k BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet', 'source.monitor-interval' = '1 s');
CREATE TABLE o (k BIGINT, n BIGINT, v BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO o SELECT k, COUNT(*), CAST(SUM(v) AS BIGINT) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY))
GROUP BY window_start, window_end, k;
"""
#: More than a file has: an epoch reads one file, whole, however long the last one took.
MOST_ROWS = 2_000_000
START_US = 1_704_067_200_000_000


def write(path: Path, keys: np.ndarray) -> None:
    """One input file with these keys, its times within one day."""
    times = START_US + (np.arange(len(keys)) % 3_600_000) * 1000
    table = pa.table(
        {"k": keys, "v": np.ones(len(keys), np.int64), "ts": pa.array(times, pa.timestamp("us"))}
    )
    pq.write_table(table, path)


def worker_peak_mb(driver: int) -> float:
    """The largest resident memory (VmHWM, MB) that any Python worker has had."""
    found = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    peak = 0.0
    for line in found.splitlines()[1:]:
        pid, _, command = line.split(None, 2)
        if ("pyspark" in command and "daemon" in command) or "worker_daemon" in command:
            try:
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            peak = max(peak, int(status.split("VmHWM:")[1].split()[0]) / 1024)
    return peak


@dataclass
class Growing:
    """A pipeline whose state grows: `feed` adds input, `measure` runs epochs of so many rows and keeps their times."""

    folder: Path
    runner: JobRunner
    parallelism: int
    epochs: int
    reports: Path | None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(1))
    files: int = 0
    keys: int = 0

    def __post_init__(self) -> None:
        (self.folder / "in").mkdir(parents=True)
        (self.folder / "p.sql").write_text(SQL)
        self.plan = plan_file(self.folder / "p.sql").physical

    def feed(self, fresh: int, known: int = 0) -> None:
        """A file with new keys and random known ones."""
        keys = [np.arange(self.keys, self.keys + fresh), self.rng.integers(0, max(self.keys, 1), known)]
        write(self.folder / "in" / f"{self.files:06d}.parquet", self.rng.permutation(np.concatenate(keys)))
        self.files += 1
        self.keys += fresh

    def run(self, epochs: int) -> list[EpochReport]:
        """That many epochs, a file each."""
        reports: list[EpochReport] = []
        run_pipeline(
            RunRequest(
                replace(self.plan, options=replace(self.plan.options, max_files_per_epoch=1)),
                state_dir=self.folder / "state",
                local_dir=self.folder / "cache",
                base_dir=self.folder,
                runner=self.runner,
                parallelism=self.parallelism,
                on_epoch=reports.append,
                max_epochs=epochs,
                max_rows_per_epoch=MOST_ROWS,
            )
        )
        if self.reports is not None:
            with self.reports.open("a") as file:
                file.writelines(json.dumps(report.to_json()) + "\n" for report in reports)
        return reports

    def measure(self, name: str, rows: int) -> None:
        """Print a line of the table: epochs of `rows` rows, half of them new keys."""
        for _ in range(self.epochs):
            self.feed((rows + 1) // 2, rows // 2)
        reports = self.run(self.epochs)
        seconds = [report.total_seconds for report in reports]
        figures = (min(seconds), statistics.median(seconds), max(seconds))
        shown = " | ".join(f"{s * 1000:.0f}" for s in figures)
        last = reports[-1]
        print(f"| {name} | {last.state_rows:,} | {last.state_bytes / 2**20:.0f} | {shown} |", flush=True)


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--keys", type=int, default=10_000_000)
    arguments.add_argument("--epochs", type=int, default=30)
    arguments.add_argument("--master", default="local[2]")
    arguments.add_argument("--parallelism", type=int, default=2)
    arguments.add_argument("--reports", type=Path)
    asked = arguments.parse_args()
    runner = SparkJobRunner.start(asked.master, None)
    with tempfile.TemporaryDirectory() as scratch:

        def growing(name: str) -> Growing:
            made = Growing(Path(scratch) / name, runner, asked.parallelism, asked.epochs, asked.reports)
            made.feed(10_000)
            made.run(1)
            return made

        print(
            "| epoch | keys in state | state MiB | min ms | median ms | max ms |\n|---|---|---|---|---|---|"
        )
        large = growing("large")
        large.measure("10,000 rows, small state, the JVM still cold", 10_000)
        for _ in range(max(1, asked.keys // 1_000_000)):
            large.feed(1_000_000)
        large.run(max(1, asked.keys // 1_000_000))
        # The same JVM, in turns, so that neither has the warmer one.
        small = growing("small")
        for _ in range(2):
            small.measure("10,000 rows, small state", 10_000)
            large.measure("10,000 rows, large state", 10_000)
        for _ in range(2):
            small.measure("10 rows, small state", 10)
            large.measure("10 rows, large state", 10)
        print(f"\nlargest worker: {worker_peak_mb(0):.0f} MB resident at its peak")
    runner.close()


if __name__ == "__main__":
    main()
