"""Which epochs are not worth distributing: their tasks run faster one after the other, in the driver's process."""

from __future__ import annotations

from sqlstream.runtime.tasks.job import EpochJob
from sqlstream.runtime.tasks.paces import Paces

#: Epochs of at most so many rows (`execution.single-task-rows`) …
SINGLE_TASK_ROWS = 1000
#: … or, of a source that does not count them, bytes per row; over this many splits, shards and rows of state.
_ROW_BYTES = 256
_SPLITS = 4
_SHARDS = 4
_STATE_ROWS = 1_000_000

#: What epochs may read together before Spark runs, whose start takes as long as they do …
BEFORE_SPARK_ROWS = 100_000
#: … over this many splits and shards, each of which costs some time of its own.
_SPLITS_BEFORE_SPARK = 64
_SHARDS_BEFORE_SPARK = 16


def is_small(job: EpochJob) -> bool:
    """Whether an epoch takes longer to distribute than to run: an exchange alone costs about 50 ms.

    One that reads nothing (it closes windows, or carries out an edit of the query) may work through all of the state.
    """
    most = job.program.options.single_task_rows
    if most is not None:  # a topic of six partitions is read here, too, if settings say so
        return _is_within(job, most, _SPLITS_BEFORE_SPARK, _SHARDS_BEFORE_SPARK)
    return _is_within(job, SINGLE_TASK_ROWS, _SPLITS, _SHARDS)


def is_done_before_spark(job: EpochJob, rows: int) -> bool:
    """Whether an epoch is done sooner than Spark would be there for it; `rows` is what may still be read without it.

    One that reads nothing may have as many rows of state as others may read together. Where `execution.single-task-rows`
    is set, that alone decides.
    """
    if job.program.options.single_task_rows is not None:
        return is_small(job)
    most = rows if job.plan.reads else BEFORE_SPARK_ROWS
    return _is_within(job, most, _SPLITS_BEFORE_SPARK, _SHARDS_BEFORE_SPARK)


def is_sooner_here(job: EpochJob, paces: Paces, *, spark_runs: bool) -> bool:
    """Whether an epoch that reads rows is done in the driver before Spark would be done, by those that came before it.

    Where `execution.single-task-rows` is set, that alone decides.
    """
    if job.program.options.single_task_rows is not None or not job.plan.reads:
        return False
    return _is_within(
        job, BEFORE_SPARK_ROWS, _SPLITS_BEFORE_SPARK, _SHARDS_BEFORE_SPARK
    ) and paces.is_sooner_here(rows_read(job), spark_runs=spark_runs)


def rows_read(job: EpochJob) -> int:
    """About how many rows an epoch reads, of a split that has neither rows nor bytes as many as there may be."""
    return _rows(job, BEFORE_SPARK_ROWS)


def _is_within(job: EpochJob, rows: int, splits: int, shards: int) -> bool:
    versions = [version for versions in job.states.values() for version in versions]
    state = sum(version.rows for version in versions)
    # A row of state may hold the rows of a whole partition.
    worked = _rows(job, rows) or max(state, -(-sum(version.bytes for version in versions) // _ROW_BYTES))
    return (
        rows > 0
        and sum(len(source.splits) for source in job.plan.sources) <= splits
        and worked <= rows
        and job.plan.parallelism <= shards
        and state <= _STATE_ROWS
    )


def _rows(job: EpochJob, most: int) -> int:
    splits = [split for source in job.plan.sources for split in source.splits]
    return sum(s.rows if s.rows is not None else _about_rows(s.bytes, most) for s in splits)


def _about_rows(size: int | None, most: int) -> int:
    return most + 1 if size is None else -(-size // _ROW_BYTES)
