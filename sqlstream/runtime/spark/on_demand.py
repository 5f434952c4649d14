"""Spark that starts when the first epoch runs: what has nothing to do, or can't be done, does not wait for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlstream.runtime.spark.early import EarlyJvm
from sqlstream.runtime.spark.masters import check_master, cores, is_local
from sqlstream.runtime.spark.session import begin
from sqlstream.runtime.tasks.job import EpochJob, EpochOutcome

if TYPE_CHECKING:
    from sqlstream.runtime.spark.stages import SparkJobRunner


class SparkOnDemand:
    """A JobRunner; see there. `on_start` is called before Spark starts, which takes seconds; `begun` may have its JVM.

    Raises DiagnosticError (ENV002) at once if `master` is none.
    """

    def __init__(
        self,
        master: str = "local[*]",
        conf: Mapping[str, str] | None = None,
        *,
        on_start: Callable[[], None] = lambda: None,
        begun: EarlyJvm | None = None,
    ) -> None:
        check_master(master)
        self._master = master
        self._conf = dict(conf or {})
        self._on_start = on_start
        self._begun = begun
        self._runner: SparkJobRunner | None = None

    @property
    def parallelism(self) -> int:
        """The cores that Spark has; a cluster is asked, and started for it."""
        if self._runner is None:
            known = cores(self._master, self._conf)
            if known is not None:
                return known
        return self._started().parallelism

    @property
    def known_parallelism(self) -> int | None:
        """The cores as far as they are known without starting Spark."""
        return cores(self._master, self._conf) if self._runner is None else self._runner.parallelism

    def make_ready(self) -> bool:
        """Start Spark, if it does not run. Raises DiagnosticError as `SparkJobRunner.start` does."""
        if self._runner is not None:
            return False
        self._started()
        return True

    def run(self, job: EpochJob) -> EpochOutcome:
        """Run one epoch; see `SparkJobRunner`."""
        return self._started().run(job)

    def close(self) -> None:
        """Stop Spark, if it was started here."""
        if self._runner is not None:
            self._runner.close()

    def _started(self) -> SparkJobRunner:
        if self._runner is None:
            self._on_start()
            begun = self._begun.take() if self._begun is not None else None
            if begun is None and is_local(self._master):
                begun = begin(self._master, self._conf)  # Java starts while PySpark is imported
            from sqlstream.runtime.spark.stages import SparkJobRunner

            with _own_signals():
                self._runner = SparkJobRunner.start(self._master, self._conf, begun)
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
