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
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sqlstream.runtime.api import run_pipeline
from sqlstream.runtime.progress import EpochReport
from sqlstream.runtime.stages import SparkJobRunner
from sqlstream_planner.pipeline import plan_file

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


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--keys", type=int, default=10_000_000)
    arguments.add_argument("--epochs", type=int, default=30)
    arguments.add_argument("--master", default="local[2]")
    arguments.add_argument("--parallelism", type=int, default=2)
    arguments.add_argument("--reports", type=Path)
    asked = arguments.parse_args()
    rng = np.random.default_rng(1)
    runner = SparkJobRunner.start(asked.master, None)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "in").mkdir()
        (folder / "p.sql").write_text(SQL)
        plan = plan_file(folder / "p.sql").physical
        number, known = 0, 0
        rows: list[tuple[str, list[float], int, int]] = []

        def feed(keys: np.ndarray) -> None:
            nonlocal number
            write(folder / "in" / f"{number:06d}.parquet", keys)
            number += 1

        def run(epochs: int) -> list[EpochReport]:
            reports: list[EpochReport] = []
            run_pipeline(
                replace(plan, options=replace(plan.options, max_files_per_epoch=1)),
                state_dir=folder / "state",
                local_dir=folder / "cache",
                base_dir=folder,
                runner=runner,
                parallelism=asked.parallelism,
                on_epoch=reports.append,
                max_epochs=epochs,
                max_rows_per_epoch=MOST_ROWS,
            )
            if asked.reports is not None:
                with asked.reports.open("a") as file:
                    file.writelines(json.dumps(report.to_json()) + "\n" for report in reports)
            return reports

        def measure(name: str, per_epoch: int) -> None:
            nonlocal known
            for _ in range(asked.epochs):
                fresh = np.arange(known, known + (per_epoch + 1) // 2)
                feed(np.concatenate([fresh, rng.integers(0, max(known, 1), per_epoch - len(fresh))]))
                known += len(fresh)
            reports = run(asked.epochs)
            seconds = [r.total_seconds for r in reports]
            rows.append((name, seconds, reports[-1].state_rows, reports[-1].state_bytes))

        feed(np.arange(10_000))
        known = 10_000
        run(1)
        measure("warm-up", 10_000)
        measure("10,000 rows, small state", 10_000)
        measure("10 rows, small state", 10)
        for _ in range(max(1, asked.keys // 1_000_000)):
            feed(rng.permutation(np.arange(known, known + 1_000_000)))
            known += 1_000_000
        run(max(1, asked.keys // 1_000_000))
        measure("after the growth, settling", 10_000)
        measure("10,000 rows, large state", 10_000)
        measure("10 rows, large state", 10)
        print(
            "| epoch | keys in state | state MiB | min ms | median ms | max ms |\n|---|---|---|---|---|---|"
        )
        for name, seconds, keys, size in rows:
            figures = (min(seconds), statistics.median(seconds), max(seconds))
            shown = " | ".join(f"{s * 1000:.0f}" for s in figures)
            print(f"| {name} | {keys:,} | {size / 2**20:.0f} | {shown} |")
        print(f"\nlargest worker: {worker_peak_mb(0):.0f} MB resident at its peak")
    runner.close()


if __name__ == "__main__":
    main()
