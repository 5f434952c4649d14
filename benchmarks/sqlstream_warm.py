"""Run one pipeline several times in this process, each time from nothing, with the JVM kept, and time it.

Prints one JSON line with the fields that the peers' harness prints: ``runs`` (seconds, the first one cold),
``input_rows``, ``rows_out``, ``batches`` (epochs), ``epoch_seconds`` (of the last run, by step of the loop).
`peers.py` calls it; by hand:
``python benchmarks/sqlstream_warm.py benchmarks/pipelines/q12.sql --data HARNESS/data/1000000``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sqlstream.planning import plan_file
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.spark.stages import SparkJobRunner
from sqlstream.runtime.tasks.job import JobRunner


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took (seconds, reading the file to the last commit), read and wrote (rows), by epoch."""

    seconds: float
    epochs: tuple[EpochReport, ...] = field(repr=False)

    @property
    def rows_in(self) -> int:
        return sum(sum(e.rows_read.values()) for e in self.epochs)

    @property
    def rows_out(self) -> int:
        return sum(sum(e.rows_written.values()) for e in self.epochs)


def run_sqlstream(
    pipeline: Path,
    state_dir: Path,
    variables: Mapping[str, str],
    start_runner: Callable[[], JobRunner],
    parallelism: int,
    max_rows_per_epoch: int | None,
) -> Run:
    """Run the pipeline on an empty state directory until its input is drained and all is committed.

    ``start_runner`` gives the runner to use; starting Spark in it counts as part of the (cold) run.
    Raises RuntimeError if the run did not end with its input exhausted, DiagnosticError as `run_pipeline`.
    """
    epochs: list[EpochReport] = []
    start = time.perf_counter()
    plan = plan_file(pipeline, variables=variables).physical
    result = run_pipeline(
        RunRequest(
            plan,
            state_dir=state_dir / "state",
            local_dir=state_dir / "cache",  # a fresh one too: no run finds the RocksDB of the last
            runner=start_runner(),
            parallelism=parallelism,
            max_rows_per_epoch=max_rows_per_epoch,
            on_epoch=epochs.append,
            drain=True,  # as the peers do at the end of bounded input
        )
    )
    seconds = time.perf_counter() - start
    if result.outcome != "exhausted":
        raise RuntimeError(f"the run ended with {result.outcome!r}")
    return Run(seconds, tuple(epochs))


def main() -> None:
    p = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    p.add_argument("pipeline", type=Path)
    p.add_argument("--data", type=Path, required=True, help="folder of one size, such as data/10000000")
    p.add_argument("--parallelism", type=int, default=4)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--max-rows-per-epoch", type=int)
    args = p.parse_args()
    runner: JobRunner | None = None

    def started() -> JobRunner:
        nonlocal runner
        if runner is None:
            runner = SparkJobRunner.start(f"local[{args.parallelism}]")
        return runner

    runs = []
    try:
        for _ in range(args.repeat):
            directory = Path(tempfile.mkdtemp(prefix="sqlstream-bench-"))
            try:
                variables = {"data": str(args.data.resolve())}
                runs.append(
                    run_sqlstream(
                        args.pipeline,
                        directory,
                        variables,
                        started,
                        args.parallelism,
                        args.max_rows_per_epoch,
                    )
                )
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    finally:
        if runner is not None:
            runner.close()
    last = runs[-1]
    print(
        json.dumps(
            {
                "system": "sqlstream",
                "query": args.pipeline.stem,
                "runs": [round(r.seconds, 3) for r in runs],
                "input_rows": last.rows_in,
                "rows_out": last.rows_out,
                "batches": len(last.epochs),
                "epoch_seconds": [e.to_json()["seconds"] for e in last.epochs],
                "epochs": [e.to_json() for e in last.epochs],
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
