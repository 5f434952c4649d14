"""Which epochs run in the driver's process: few rows, splits and shards, little state; more before Spark is started."""

from __future__ import annotations

from dataclasses import replace

from sqlstream.planning import plan_file
from sqlstream.runtime.tasks.job import EpochJob
from sqlstream.runtime.tasks.paces import Paces
from sqlstream.runtime.tasks.small import (
    BEFORE_SPARK_ROWS,
    is_done_before_spark,
    is_small,
    is_sooner_here,
    rows_read,
)
from sqlstream.storage.manifest import EpochPlan, PlannedSource, PlannedSplit
from sqlstream_operators.plan.watermarks import WATERMARK_MIN, Watermarks
from sqlstream_operators.state.version import ShardVersion
from tests.storage.test_manifest import RUN

PLAN = plan_file(
    "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
    "CREATE TABLE o WITH ('connector' = 'blackhole') AS SELECT a FROM t;",
    file="p.sql",
).physical
ROW = PlannedSplit({}, 1, 80)


def job(
    *splits: PlannedSplit, shards: int = 2, state: int = 0, size: int = 0, most: int | None = None
) -> EpochJob:
    plan = replace(PLAN, options=replace(PLAN.options, single_task_rows=most))
    source = PlannedSource("t", "filesystem", {}, {}, splits, False, Watermarks(WATERMARK_MIN, 3, 3))
    epoch = EpochPlan(1, None, "l", RUN, "f", shards, (source,))
    version = replace(ShardVersion.empty(), rows=state, bytes=size)
    return EpochJob(plan, epoch, {"s": (version,)}, "/tmp/s", "/tmp/l", "/tmp/b")


def test_what_a_small_epoch_is() -> None:
    assert is_small(job(ROW))
    assert is_small(job(PlannedSplit({}, 1000, None)))
    assert is_small(job(PlannedSplit({}, None, 256_000)))
    assert is_small(job(state=1000))
    assert not is_small(job(state=1001)), "what reads nothing may work through its state"
    assert not is_small(job(PlannedSplit({}, 0, 0), state=1001))
    assert not is_small(job(size=256_001))
    assert is_small(job(ROW, size=256_001))
    assert not is_small(job(most=0))
    assert not is_small(job(PlannedSplit({}, 1001, None)))
    assert not is_small(job(PlannedSplit({}, None, 256_001)))
    assert not is_small(job(PlannedSplit({}, None, None)))
    assert not is_small(job(ROW, ROW, ROW, ROW, ROW))
    assert not is_small(job(ROW, shards=5))
    assert not is_small(job(ROW, state=1_000_001))
    assert not is_small(job(ROW, most=0))


def test_where_rows_are_set_more_splits_and_shards_are_small() -> None:
    assert is_small(job(*[ROW] * 6, most=1000))
    assert is_small(job(ROW, shards=16, most=1000))
    assert not is_small(job(*[ROW] * 65, most=1000))
    assert not is_small(job(*[ROW] * 6, most=5))


def test_what_is_done_before_spark_is_there() -> None:
    assert is_done_before_spark(job(PlannedSplit({}, 900, None), shards=16), 900)
    assert is_done_before_spark(job(*[ROW] * 64), 900)
    assert is_done_before_spark(job(state=100_000), 0)
    assert not is_done_before_spark(job(state=100_001), 900)
    assert not is_done_before_spark(job(state=1, most=0), 900)
    assert not is_done_before_spark(job(PlannedSplit({}, 901, None)), 900)
    assert not is_done_before_spark(job(PlannedSplit({}, None, None)), 900)
    assert not is_done_before_spark(job(*[ROW] * 65), 900)
    assert not is_done_before_spark(job(ROW, shards=17), 900)
    assert not is_done_before_spark(job(ROW, state=1_000_001), 900)
    assert not is_done_before_spark(job(ROW), 0)
    # What was asked for decides.
    assert not is_done_before_spark(job(PlannedSplit({}, 2, None), most=1), 900)
    assert is_done_before_spark(job(ROW, most=1), 0)


def test_rows_are_counted_or_guessed_from_bytes() -> None:
    assert rows_read(job(ROW, PlannedSplit({}, None, 257))) == 3
    assert rows_read(job(PlannedSplit({}, None, None))) == BEFORE_SPARK_ROWS + 1


def test_what_is_sooner_here() -> None:
    paces = Paces()
    paces.note(8000, 0.05, here=True)
    assert is_sooner_here(job(PlannedSplit({}, 8000, None)), paces, spark_runs=True)
    assert is_sooner_here(job(*[PlannedSplit({}, 100, None)] * 64, shards=16), paces, spark_runs=True)
    assert not is_sooner_here(job(PlannedSplit({}, 8000, None)), Paces(), spark_runs=True)
    assert not is_sooner_here(job(PlannedSplit({}, 8000, None), most=9000), paces, spark_runs=True), (
        "what was set decides alone"
    )
    assert not is_sooner_here(job(state=8000), paces, spark_runs=True), "it reads nothing"
    assert not is_sooner_here(job(PlannedSplit({}, 100_001, None)), paces, spark_runs=True)
    assert not is_sooner_here(job(PlannedSplit({}, None, None)), paces, spark_runs=True)
    assert not is_sooner_here(job(ROW, state=1_000_001), paces, spark_runs=True)
    assert not is_sooner_here(job(*[ROW] * 65), paces, spark_runs=True)


def test_a_trickle_of_more_partitions_than_a_small_epoch_has_needs_no_spark() -> None:
    """Of six partitions even epochs of a few rows went to Spark, once 100,000 rows had been read."""
    few = job(*[PlannedSplit({}, 1, None)] * 6)
    assert not is_small(few)
    paces = Paces()
    paces.note(6, 0.03, here=True)
    assert is_sooner_here(few, paces, spark_runs=False)
