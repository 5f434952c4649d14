"""Rows between two levels: messages survive being cut into parts and arriving in any order."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.runtime.tasks import message_batches, task_failure
from sqlstream.runtime.tasks.failures import error_of
from sqlstream.runtime.tasks.job import EpochJob
from sqlstream.runtime.tasks.message_batches import from_batches, to_batches
from sqlstream.runtime.tasks.task_failure import describe, failure_in
from sqlstream.runtime.tasks.task_program import TaskProgram, registered
from sqlstream.storage.manifest import EpochPlan, PlannedSource, PlannedSplit
from sqlstream_operators.codec.exchange import Message
from sqlstream_operators.errors import DataError, StateCorruptionError
from sqlstream_operators.plan.watermarks import WATERMARK_MIN, Watermarks
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, InternalError
from tests.operators.pipelines import window_plan
from tests.runtime.support import TUMBLE
from tests.storage.test_manifest import RUN


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["e1", "e2"]), st.integers(0, 3), st.integers(0, 3)),
        st.binary(max_size=40),
        max_size=12,
    ),
    st.integers(0, 1000),
)
def test_messages_survive_parts_in_any_order(blobs: dict[tuple[str, int, int], bytes], seed: int) -> None:
    messages = [Message(edge, shard, producer, blob) for (edge, shard, producer), blob in blobs.items()]
    size = message_batches.PART_BYTES
    try:
        message_batches.PART_BYTES = 7
        rows = [row for batch in to_batches(messages) for row in batch.to_pylist()]
    finally:
        message_batches.PART_BYTES = size
    assert all(len(row["blob"]) <= 7 for row in rows)
    random.Random(seed).shuffle(rows)
    batches = [
        pa.RecordBatch.from_pylist(rows[i : i + 3], schema=message_batches.ROW)
        for i in range(0, len(rows), 3)
    ]
    key = lambda m: (m.edge, m.shard, m.producer)  # noqa: E731
    assert sorted(from_batches(batches), key=key) == sorted(messages, key=key)


def test_a_missing_part_is_an_error() -> None:
    rows = [{"shard": 0, "edge": "e", "producer": 1, "part": part, "blob": b"x"} for part in (0, 2)]
    with pytest.raises(RuntimeError, match="parts of a blob"):
        from_batches([pa.RecordBatch.from_pylist(rows, schema=message_batches.ROW)])


def job(splits: int, shards: int, rows: int | None = 1) -> EpochJob:
    source = PlannedSource(
        "bid",
        "filesystem",
        {},
        {},
        tuple(PlannedSplit({"i": i}, rows, None, f"lane {i}") for i in range(splits)),
        False,
        Watermarks(WATERMARK_MIN, 3, 3),
    )
    plan = EpochPlan(1, None, "l", RUN, "f", shards, (source,))
    return EpochJob(window_plan(TUMBLE), plan, {}, "/tmp/s", "/tmp/l", "/tmp/b")


@pytest.mark.parametrize(("splits", "tasks"), [(0, 1), (1, 1), (8, 8), (9, 8), (100, 8)])
def test_splits_are_spread_in_order(splits: int, tasks: int) -> None:
    program = TaskProgram.of(job(splits, 2))
    assert len(program.tasks) == tasks
    ordinals = [one.ordinal for task in program.tasks for one in task]
    assert ordinals == list(range(splits))
    assert [one.split.payload["i"] for task in program.tasks for one in task] == ordinals


def test_a_task_program_travels_as_bytes() -> None:
    program = TaskProgram.of(job(3, 2))
    plan = program.plan_bytes()
    assert TaskProgram.from_bytes(plan, program.epoch_bytes()) == program
    assert TaskProgram.from_bytes(plan, program.epoch_bytes(tasks=False)) == replace(program, tasks=())


COMBINING = replace(registered(), combines=lambda connector: True)


@pytest.mark.parametrize(
    ("rows", "together"),
    [(1, [7]), (3000, [3, 3, 1]), (5000, [2, 2, 2, 1]), (5001, [1] * 7), (99_999, [1] * 7), (None, [1] * 7)],
)
def test_small_splits_are_combined_where_the_connector_can(rows: int | None, together: list[int]) -> None:
    program = TaskProgram.of(job(7, 2, rows), COMBINING)
    found = [one for task in program.tasks for one in task]
    assert [len(one.split.lanes) for one in found] == together
    assert [one.ordinal for one in found] == list(itertools.accumulate([0, *together[:-1]]))
    assert program.ordinals == tuple(one.ordinal for one in found)
    assert [lane for one in found for lane in one.split.lanes] == [f"lane {i}" for i in range(7)]
    assert [p.payload["i"] for one in found for p in one.split.parts or (one.split,)] == list(range(7))
    assert [one.split.rows for one in found] == [None if rows is None else rows * n for n in together]
    plan = program.plan_bytes()
    assert TaskProgram.from_bytes(plan, program.epoch_bytes()) == program
    assert TaskProgram.of(job(7, 2, rows)).ordinals == tuple(range(7))  # files are not


def test_splits_of_two_sources_are_not_combined() -> None:
    one = job(2, 2)
    (source,) = one.plan.sources
    two = replace(one, plan=replace(one.plan, sources=(source, replace(source, name="other"))))
    found = [s for task in TaskProgram.of(two, COMBINING).tasks for s in task]
    assert [(s.ordinal, s.split.source, len(s.split.parts)) for s in found] == [
        (0, "bid", 2),
        (2, "other", 2),
    ]


def wrapped(error: Exception) -> str:
    """The text of what Spark makes of a task's error."""
    try:
        with task_failure.failures_as_text():
            raise error
    except task_failure.TaskFailureError as failure:
        return f"An exception was thrown from the Python worker:\nTraceback …\n{type(failure)}: {failure}\n  at x"
    raise AssertionError


def test_errors_of_tasks_are_told_without_a_stack() -> None:
    reported = failure_in(wrapped(DataError('division by "zero"\nin a row', "SELECT 1")))
    assert reported is not None
    error = error_of(reported, 7)
    assert isinstance(error, DiagnosticError)
    assert error.diagnostics[0].message == 'division by "zero"\nin a row'
    assert "epoch 7" in error.diagnostics[0].notes[0]

    reported = failure_in(wrapped(StateCorruptionError("state/x.delta", "is truncated")))
    assert reported is not None
    error = error_of(reported, 7)
    assert isinstance(error, DiagnosticError)
    assert (error.exit_code, error.diagnostics[0].code) == (4, "STA003")

    reported = failure_in(
        wrapped(DiagnosticError(Diagnostic("OPT001", "no such file", help="look"), exit_code=1))
    )
    assert reported is not None
    error = error_of(reported, 7)
    assert isinstance(error, DiagnosticError)
    assert error.diagnostics[0] == Diagnostic("OPT001", "no such file", help="look")

    reported = failure_in(wrapped(KeyError("ours")))
    assert reported is not None
    error = error_of(reported, 7)
    assert isinstance(error, InternalError)
    assert "KeyError: 'ours'" in str(error)

    assert failure_in("java.lang.OutOfMemoryError") is None
    assert describe(ValueError("x"))["kind"] == "other"
