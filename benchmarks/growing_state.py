"""What an epoch costs while the state of a join grows: `python benchmarks/growing_state.py ROWS [FOLDER [PER_EPOCH]]`.

Two made-up tables of half as many rows each are joined by a BIGINT that is random among as many values, so that each epoch
reads and writes all over the state and pairs a row with about one other. Rows have 56 bytes, 40 of them text that does not
pack well. It runs in this process, without Spark, over two shards. One line of JSON an epoch; FOLDER keeps the state, and a
run with the same FOLDER goes on.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.tasks.local_runner import InProcessRunner

TABLE = """CREATE TABLE {name} (k BIGINT, v BIGINT, s STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '{rows}',
  'fields.k.min' = '1', 'fields.k.max' = '{rows}', 'fields.s.length' = '40', 'seed' = '{seed}',
  'fields.v.kind' = 'sequence', 'fields.v.start' = '1', 'fields.v.end' = '{rows}');
"""
JOIN = """CREATE TABLE pairs WITH ('connector' = 'blackhole') AS
SELECT l.k, l.v, r.v AS w, l.s, r.s AS t FROM l JOIN r ON l.k = r.k;
"""


class Growth:
    """Prints what each epoch took and left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cpu = time.process_time()

    def __call__(self, epoch: EpochReport) -> None:
        cpu = time.process_time()
        line = {
            "epoch": epoch.epoch,
            "state_rows": epoch.state_rows,
            "pairs": sum(epoch.rows_written.values()),
            "cpu_s": round(cpu - self._cpu, 2),
            "local_mb": megabytes(self._folder / "cache"),
            "checkpoint_mb": megabytes(self._folder / "state"),
            "rss_mb": resident_megabytes(),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        self._cpu = time.process_time()


def megabytes(folder: Path) -> int:
    """What the files below a folder take on disk; some may go meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total >> 20


def resident_megabytes() -> int:
    """The memory that this process has now."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) >> 10


def run(folder: Path, rows: int, per_epoch: int) -> None:
    """Read all rows."""
    tables = (TABLE.format(name=name, rows=rows // 2, seed=seed) for seed, name in enumerate("lr"))
    run_pipeline(
        RunRequest(
            plan_file("".join(tables) + JOIN, file="growing_state.sql").physical,
            state_dir=folder / "state",
            local_dir=folder / "cache",
            base_dir=folder,
            parallelism=2,
            max_rows_per_epoch=per_epoch,
            runner=InProcessRunner(2),
            on_epoch=Growth(folder),
            poll_s=0.0,
        )
    )


if __name__ == "__main__":
    ROWS, FOLDER, PER_EPOCH = (*sys.argv[1:], "", "")[:3]
    with tempfile.TemporaryDirectory() as temporary:
        run(Path(FOLDER or temporary), int(ROWS), int(PER_EPOCH or 1_000_000))
