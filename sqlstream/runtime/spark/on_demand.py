"""Spark that starts when an epoch needs it: what has little to do, or can't be done, does not wait for it.

Where all tasks share a machine, an epoch that is not worth distributing runs in this process: the same tasks, by the same
code, with the same files and reports, so that a replay may run either way (docs/adr/0019-small-epochs-in-the-driver.md).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlstream.runtime.spark.masters import check_answers, check_master, cores, is_local
from sqlstream.runtime.spark.session import begin
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome
from sqlstream.runtime.tasks.local_runner import run_here
from sqlstream.runtime.tasks.paces import Paces
from sqlstream.runtime.tasks.small import (
    BEFORE_SPARK_ROWS,
    is_done_before_spark,
    is_small,
    is_sooner_here,
    rows_read,
)
from sqlstream_operators.state.open_caches import OpenCaches
from sqlstream_planner.diagnostics import SqlstreamError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sqlstream.runtime.spark.jvm import Jvm
    from sqlstream.runtime.spark.stages import SparkJobRunner


#: Settings that say what the processes are in which Spark's tasks run: where they are given, none runs here.
_OF_WORKERS = ("spark.executorEnv.", "spark.pyspark.", "spark.python.")


class SparkOnDemand:
    """A JobRunner; see there. `on_start` is called before Spark starts, which takes seconds; `on_wait` is called for a
    cluster that gives no executor.

    Raises DiagnosticError (ENV002) at once if `master` is none.
    """

    def __init__(
        self,
        master: str = "local[*]",
        conf: Mapping[str, str] | None = None,
        *,
        on_start: Callable[[], None] = lambda: None,
        on_wait: Callable[[str], None] = lambda text: None,
    ) -> None:
        check_master(master)
        self._master = master
        self._conf = dict(conf or {})
        self._on_start = on_start
        self._on_wait = on_wait
        self._begun: Jvm | None = None
        self._may_run_here = is_local(master) and not any(name.startswith(_OF_WORKERS) for name in self._conf)
        self._rows_before_spark = BEFORE_SPARK_ROWS
        self._runner: SparkJobRunner | None = None
        self._paces = Paces()
        self._kept = OpenCaches()
        self._killed = False

    @property
    def parallelism(self) -> int:
        """The cores that Spark has; a cluster's are counted, and it is started for that."""
        if self._runner is None:
            known = cores(self._master, self._conf)
            if known is not None:
                return known
        return self._started().parallelism

    @property
    def known_parallelism(self) -> int | None:
        """The cores as far as they are known without starting Spark."""
        return cores(self._master, self._conf) if self._runner is None else self._runner.parallelism

    def session(self) -> SparkSession:
        """Spark, started if it does not run."""
        return self._started().session()

    def make_ready(self, job: EpochJob | None = None) -> bool:
        """Start Spark, if it does not run and `job` needs it. Raises DiagnosticError as `SparkJobRunner.start` does."""
        if self._runner is not None or (job is not None and self._runs_here(job)):
            return False
        self._started()
        return True

    def run(self, job: EpochJob) -> EpochOutcome:
        """Run one epoch, here or on Spark; see `JobRunner`."""
        here = self._runs_here(job)
        rows = rows_read(job) if self._may_run_here and job.plan.reads else 0
        runner = None if here else self._started()
        begun = time.monotonic()
        if runner is None:
            if self._runner is None:
                self._rows_before_spark -= rows
            outcome = run_here(job, kept=self._kept)
        else:
            self._kept.close()  # Spark's workers need the slots
            try:
                outcome = runner.run(job)
            except SqlstreamError:
                if runner.is_lost:
                    self._give_up(runner)
                raise
        self._paces.note(rows, time.monotonic() - begun, here=here)
        return outcome

    def _runs_here(self, job: EpochJob) -> bool:
        if not self._may_run_here:
            return False
        return (
            is_small(job)
            or (self._runner is None and is_done_before_spark(job, self._rows_before_spark))
            or is_sooner_here(job, self._paces, spark_runs=self._runner is not None)
        )

    def close(self) -> None:
        """Close what is open, and stop Spark if it was started here."""
        self._kept.close(settle=not self._killed)
        if self._runner is not None:
            self._runner.close()

    def kill(self) -> None:
        """End Spark's JVM, whatever it does: this process may be waiting for it. Nothing is waited for from now on."""
        self._killed = True
        if self._begun is not None and self._begun.process is not None:
            self._begun.process.kill()

    def _give_up(self, runner: SparkJobRunner) -> None:
        """The next epoch that needs Spark starts it anew."""
        runner.give_up()
        self._runner = None

    def _started(self) -> SparkJobRunner:
        if self._runner is not None and self._runner.has_ended:  # between two epochs
            self._give_up(self._runner)
        if self._runner is None:
            self._on_start()
            check_answers(self._master)
            # Java starts while PySpark is imported.
            self._begun = begin(self._master, self._conf)
            from sqlstream.runtime.spark.stages import SparkJobRunner

            with _own_signals():
                self._runner = SparkJobRunner.start(
                    self._master, self._conf, self._begun, on_wait=self._on_wait
                )
        return self._runner


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keeps the handler of Ctrl-C, in whose place Spark puts one of its own when it starts."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        ours = before not in (None, signal.default_int_handler)
        if ours and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
