"""Epochs that don't fit into memory: given up, and their input read in smaller ones, by the run itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from sqlstream.runtime.loop.admission import CALM_EPOCHS, FEWEST_ROWS, Admission
from sqlstream.runtime.spark.lost_jvm import Ended
from sqlstream.runtime.spark.stages import SparkJobRunner, job_error
from sqlstream.runtime.tasks.failures import EpochTooLargeError, error_of
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream.runtime.tasks.task_failure import describe
from sqlstream.runtime.tasks.task_program import Connectors
from sqlstream.storage.manifest import RowsCap
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import MemoryExhaustedError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.runtime.support import Crash, RowReader, World, crash_at, manifests, rows_of, tumbling

ROWS = rows_of(*((n, "abc"[n % 3]) for n in range(900)))


@dataclass
class Cramped(InProcessRunner):
    """Runs epochs of at most `fits` rows; `ends` says that a larger one ends the whole process, without a word."""

    world: World
    fits: int
    ends: bool = False
    tried: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(
            2,
            Connectors(
                lambda spec, base: RowReader(self.world.rows),
                lambda spec, base: RowReader(self.world.rows),
                lambda spec, base: self.world.the_sink,
            ),
        )

    def run(self, job: EpochJob) -> EpochOutcome:
        rows = sum(s.payload["to"] - s.payload["from"] for source in job.plan.sources for s in source.splits)
        self.tried.append(rows)
        if rows > self.fits:
            if rows > FEWEST_ROWS:
                self.world.the_sink.write(pa.table({"k": ["lost"]}), epoch=job.plan.epoch, task="0-00000")
            if self.ends:
                raise Crash
            raise error_of(describe(MemoryExhaustedError("too much", "agg")), job.plan.epoch)
        return super().run(job)


def world(folder: Path) -> World:
    made = World(folder, ROWS)
    made.the_source.split_rows = 100
    return made


def check_result(world: World) -> None:
    assert world.visible() == tumbling(ROWS)
    assert world.dead_letters() == []
    assert not list((world.folder / "out" / "staged").glob("*"))
    assert not list((world.state / "epochs").glob("*.replays"))


def test_an_epoch_that_does_not_fit_is_planned_anew_smaller(tmp_path: Path) -> None:
    here = world(tmp_path)
    runner = Cramped(here, fits=100)
    result = here.run(rows=900, runner=runner)
    assert result.outcome == "exhausted"
    assert result.rows_read == {"bid": 900}
    assert runner.tried[:3] == [900, 225, FEWEST_ROWS]
    assert set(runner.tried[3:-1]) == {FEWEST_ROWS}
    assert here.reports[0].epoch == 3
    check_result(here)


def test_a_written_plan_that_does_not_fit_is_not_replayed_for_ever(tmp_path: Path) -> None:
    here = world(tmp_path)
    with pytest.raises(Crash):
        here.run(rows=900, faults=crash_at("run", 1))
    runner = Cramped(here, fits=300)
    here.run(rows=900, runner=runner, max_epochs=1)
    assert runner.tried == [900, 225]
    assert [m["void"] for m in manifests(here.state).values()] == [True, False]
    here.run(rows=900, runner=Cramped(here, fits=300))
    check_result(here)


def test_what_fits_is_remembered_by_the_next_run(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.run(rows=900, runner=Cramped(here, fits=300), max_epochs=1)
    again = Cramped(here, fits=300)
    here.run(rows=900, runner=again)
    assert max(again.tried) == 225
    check_result(here)


def test_where_the_smallest_does_not_fit_the_run_stops_and_says_what_to_do(tmp_path: Path) -> None:
    here = world(tmp_path)
    here.run(rows=300, max_epochs=1)
    committed = here.visible()
    with pytest.raises(DiagnosticError) as caught:
        here.run(rows=300, runner=Cramped(here, fits=10))
    [diagnostic] = caught.value.diagnostics
    assert diagnostic.code == "ENV007"
    assert "too much, in agg" in diagnostic.message
    assert "the state is as epoch 1 left it" in diagnostic.notes
    assert diagnostic.help is not None
    assert "execution.task-memory" in diagnostic.help
    assert "max-rows" not in diagnostic.help
    assert here.visible() == committed
    here.run(rows=300)
    check_result(here)


def test_input_that_can_not_be_cut_is_not_tried_again_and_again(tmp_path: Path) -> None:
    here = world(tmp_path)

    class Whole(type(here.the_source)):  # type: ignore[misc]
        def plan(self, position, limits):  # type: ignore[no-untyped-def]
            return super().plan(position, type(limits)())

    here.the_source = Whole(here.rows, split_rows=100)
    runner = Cramped(here, fits=10)
    with pytest.raises(DiagnosticError) as caught:
        here.run(rows=900, runner=runner)
    assert caught.value.diagnostics[0].code == "ENV007"
    assert runner.tried == [900, 900]


def test_a_replay_that_ends_its_driver_twice_is_given_up(tmp_path: Path) -> None:
    """The system ended the driver itself, so that there was nobody to plan anew."""
    here = world(tmp_path)
    for _ in range(3):
        with pytest.raises(Crash):
            here.run(rows=900, runner=Cramped(here, fits=300, ends=True))
    runner = Cramped(here, fits=300, ends=True)
    here.run(rows=900, runner=runner)
    assert runner.tried == [225, 225, 225, 225]
    check_result(here)


def test_an_older_driver_can_not_commit_what_was_given_up(tmp_path: Path) -> None:
    here = world(tmp_path)

    def take_over(at: str, epoch: int) -> None:
        if (at, epoch) == ("run", 1):
            here.run(rows=900, runner=Cramped(here, fits=300), max_epochs=1, lease_beat_s=0.01)

    with pytest.raises(DiagnosticError) as caught:
        here.run(rows=900, faults=take_over, lease_beat_s=1000)
    assert caught.value.diagnostics[0].code == "STA002"
    here.run(rows=900)
    check_result(here)


def test_more_is_tried_after_a_while() -> None:
    admission = Admission(fixed_rows=1_000).capped(100)
    for _ in range(CALM_EPOCHS):
        assert admission.limit == 100
        admission = admission.after(100, 0.1)
    assert admission.cap == RowsCap(200)
    assert admission.after(10, 0.1).cap == RowsCap(200)  # it says nothing about more
    for _ in range(3 * CALM_EPOCHS):
        admission = admission.after(admission.limit, 0.1)
    assert (admission.cap, admission.limit) == (None, 1_000)


def test_duckdb_says_that_its_memory_ran_out_and_where() -> None:
    duck = DuckSession(memory_limit=8 << 20)
    duck.connection.execute("SET temp_directory = ''")
    with pytest.raises(MemoryExhaustedError) as caught:
        duck.query("SELECT list(i) AS l FROM range(10000000) AS t(i)")
    error = error_of(describe(caught.value), 7)
    assert isinstance(error, EpochTooLargeError)
    assert "DuckDB may use 8 MiB of memory in a task" in error.diagnostics[0].message
    assert isinstance(error_of(describe(MemoryError()), 7), EpochTooLargeError)


@pytest.mark.parametrize(
    "text",
    [
        "Job aborted: java.lang.OutOfMemoryError: Java heap space",
        "SparkException: Python worker exited unexpectedly (crashed)",
        "ExecutorLostFailure (executor 1 exited caused by ...) Reason: Command exited with code 137",
        "Container killed by YARN for exceeding memory limits",
    ],
)
def test_signs_of_memory_in_what_spark_says(text: str) -> None:
    assert isinstance(job_error(text, 7), EpochTooLargeError)
    assert not isinstance(job_error("Job aborted: no route to host", 7), EpochTooLargeError)


def test_a_runner_whose_jvm_is_gone_is_closed_without_another_error() -> None:
    class Session:
        def stop(self) -> None:
            raise ConnectionRefusedError

    runner = object.__new__(SparkJobRunner)
    runner._owner, runner._owned = Session(), True
    runner.close()


def test_a_jvm_that_is_gone_ends_the_run_and_the_next_reads_less(tmp_path: Path) -> None:
    here = world(tmp_path)

    class Gone(Cramped):
        def run(self, job: EpochJob) -> EpochOutcome:
            raise job_error(
                "An error occurred while calling",
                job.plan.epoch,
                lost=Ended("it was ended by SIGKILL", for_memory=True),
            )

    with pytest.raises(EpochTooLargeError) as caught:
        here.run(rows=900, runner=Gone(here, fits=900))
    assert "the next run reads its input in smaller epochs" in caught.value.diagnostics[0].notes
    runner = Cramped(here, fits=900)
    here.run(rows=900, runner=runner)
    assert runner.tried[0] == 225
    check_result(here)
