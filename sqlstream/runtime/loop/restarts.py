"""When a run whose database, disk or Spark refuses to work is begun again by itself: Flink's restart strategies.

A restart is what a new process would do: the state directory is read again, and the run goes on behind its last manifest.
So it is exactly once for the same reasons, and only the lease, Spark and the totals are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from sqlstream.runtime.loop.reporting import Totals
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.tasks.failures import EpochTooLargeError
from sqlstream_operators.plan.spec import RestartOptions
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_Result = TypeVar("_Result")

#: Codes of what may be over in a while: an epoch that Spark could not run, files, a sink's database, brokers,
#: transactions that were taken over where no other run has the lease, a schema registry that is away.
TRANSIENT = frozenset({"ENV004", "ENV005", "ENV006", "ENV008", "ENV010", "ENV012", "ENV025"})
#: Code of what is over when somebody closes a file: nothing that a run which is to watch needs to report.
HELD = "ENV008"


@dataclass(frozen=True, slots=True)
class RestartStrategy:
    """How often in a row (None: for ever), and after how many seconds, a run is begun again.

    The delay is `delay_s`, times `multiplier` for each further attempt, up to `longest_s`. A committed epoch ends the
    row. `once_up`: only a run that has reached all it needs once is begun again, or one that finds a file in use; one that
    can't start else says so.
    """

    attempts: int | None = None
    delay_s: float = 1.0
    longest_s: float = 60.0
    multiplier: float = 1.5
    once_up: bool = False

    def delay(self, attempt: int) -> float | None:
        """Seconds before the attempt (from 1); None: there is none.

        >>> [RestartStrategy(3, 1.0, 2.0).delay(n) for n in (1, 2, 3, 4)]
        [1.0, 1.5, 2.0, None]
        """
        if self.attempts is not None and attempt > self.attempts:
            return None
        grown = self.multiplier ** min(attempt - 1, 64)
        return min(self.delay_s * grown, max(self.longest_s, self.delay_s))


NEVER = RestartStrategy(attempts=0)
#: Flink's default, for runs that watch their sources, once they are up.
WATCHING = RestartStrategy(once_up=True)


def strategy_of(options: RestartOptions | None) -> RestartStrategy | None:
    """The strategy that a pipeline asks for; None: it does not say."""
    if options is None:
        return None
    if options.strategy == "none":
        return NEVER
    return RestartStrategy(
        options.attempts,
        options.delay_us / 1e6,
        max(options.longest_us, options.delay_us) / 1e6,
        options.multiplier,
    )


def chosen_strategy(attempts: int | None, delay_s: float | None) -> RestartStrategy | None:
    """The strategy that a command line asks for: a fixed delay, if one is given; None: it does not say."""
    if attempts is None and delay_s is None:
        return None
    if delay_s is None:
        return RestartStrategy(attempts)
    return RestartStrategy(attempts, delay_s, delay_s, 1.0)


@dataclass(frozen=True, slots=True)
class Restart:
    """A run that is begun again in `delay_s` seconds; `attempt` counts from 1, `of` is how many there may be."""

    diagnostics: tuple[Diagnostic, ...]
    attempt: int
    of: int | None
    delay_s: float


@dataclass(slots=True)
class Restarts:
    """Begins a run again as a strategy says; `strategy` None is the default, which depends on `watching`.

    Whoever runs says so in `is_up` once everything was reached, and in `watching` once it is known.
    """

    strategy: RestartStrategy | None
    stop: StopFlag
    totals: Totals
    on_restart: Callable[[Restart], None] = lambda restart: None
    is_up: bool = False
    watching: bool = False
    _attempts: int = 0
    _epochs: int = field(default=0)

    def run(self, attempt: Callable[[], _Result]) -> _Result:
        """Run `attempt` until it ends well, or with an error that is not begun again."""
        while True:
            try:
                return attempt()
            except DiagnosticError as error:
                restart = self._restart(error)
                if restart is None or self.stop.requested:
                    raise
                self.on_restart(restart)
                self.stop.wait(restart.delay_s)
                if self.stop.requested:
                    raise

    def _restart(self, error: DiagnosticError) -> Restart | None:
        # An epoch that ended its runner is planned smaller; the next attempt has another runner.
        smaller = isinstance(error, EpochTooLargeError) and error.runner_lost
        if not (smaller or all(diagnostic.code in TRANSIENT for diagnostic in error.diagnostics)):
            return None
        strategy = self.strategy or (WATCHING if self.watching else NEVER)
        held = all(diagnostic.code == HELD for diagnostic in error.diagnostics)
        if strategy.once_up and not self.is_up and not held:
            return None
        if self.totals.epochs > self._epochs:
            self._attempts, self._epochs = 0, self.totals.epochs
        self._attempts += 1
        delay = strategy.delay(self._attempts)
        if delay is None:
            return None
        return Restart(error.diagnostics, self._attempts, strategy.attempts, delay)
