"""A run from its beginning to its end: who it is, the lease, Spark, and one attempt after another."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from sqlstream.runtime.coordination import fencing
from sqlstream.runtime.coordination.lease import Lease
from sqlstream.runtime.coordination.stop_request import is_stop_requested, withdraw
from sqlstream.runtime.edits.adopted_history import OtherRowsError
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.loop.reporting import Totals
from sqlstream.runtime.loop.restarts import Restarts, strategy_of
from sqlstream.runtime.loop.stop import StopFlag, stop_on_signals
from sqlstream.runtime.run.attempt import Attempts, attempt
from sqlstream.runtime.run.errors import errors_as_diagnostics
from sqlstream.runtime.run.request import RunRequest
from sqlstream.runtime.run.resources import begin_private
from sqlstream.runtime.run.status_reporter import StatusReporter
from sqlstream.runtime.spark.masters import is_local
from sqlstream.runtime.tasks.failures import at_their_places
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import RunInfo
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError


class _StoppedWaitingError(Exception):
    """The run was stopped while it waited for another to give the state directory up."""


def run(request: RunRequest) -> RunResult:
    """Carry a request out; see `runtime.api.run_pipeline`."""
    started = time.monotonic()
    stop = request.stop or StopFlag()
    store, who = CheckpointStore(request.uri, sync=request.sync), RunInfo.here()
    # What a crash of the machine takes of it, nobody misses.
    status = StatusReporter(CheckpointStore(request.uri, sync=False), who, request.name, request.base)
    request = status.observing(request)
    own_runner, runner = None, request.runner
    if runner is None:
        from sqlstream.runtime.spark.on_demand import SparkOnDemand

        on_phase = request.on_phase
        runner = own_runner = SparkOnDemand(
            request.master, request.conf, on_start=lambda: on_phase("starting Spark"), on_wait=on_phase
        )
        stop.on_interrupt = own_runner.kill
        request = replace(request, runner=runner)

    def beat() -> None:
        status.write()
        if is_stop_requested(store, who.run_id):
            stop.request()

    lease, totals = Lease(store, who, beat_s=request.lease_beat_s, on_beat=beat), Totals()
    strategy = request.restart or strategy_of(request.plan.options.restart)
    restarts = Restarts(strategy, stop, totals, request.on_restart)
    # As declared, until the sources are there.
    restarts.watching = _is_to_watch(request.plan, request.driver_connectors)
    attempts = Attempts(request, Journal(store), runner, stop, who, lease, totals, restarts, [])
    with stop_on_signals(stop) if request.handle_signals else nullcontext():
        try:
            with errors_as_diagnostics(store):
                if own_runner is not None and store.is_local and is_local(request.master):
                    begin_private(Path(store.path("")))
                lease.acquire(_patient(stop))
            result = restarts.run(_with_diagnostics(attempts))
            status.ended(result.outcome)
            return replace(result, seconds=time.monotonic() - started)
        except _StoppedWaitingError:
            return totals.result("stopped", None, 0.0)
        except (Exception, KeyboardInterrupt) as error:
            status.failed(stop.interrupted or error)
            if stop.interrupted is not None:  # a library has made another error of it
                raise stop.interrupted from None
            raise
        finally:
            if own_runner is not None:
                own_runner.close()
            if lease.stop_beating():
                status.write()
                withdraw(store, who.run_id)
            lease.release()


def _patient(stop: StopFlag) -> Callable[[float], None]:
    """Waits for another run to give the state directory up."""

    def wait(seconds: float) -> None:
        stop.wait(seconds)
        if stop.requested:
            raise _StoppedWaitingError

    return wait


def _with_diagnostics(attempts: Attempts) -> Callable[[], RunResult]:
    """An attempt whose errors are diagnostics, without secrets, and not the data's if another run is at work."""
    other_rows: set[str] = set()
    secrets = attempts.request.secrets

    def until_rows_are_known() -> RunResult:
        while True:
            try:
                return attempt(attempts, frozenset(other_rows))
            except OtherRowsError as found:
                # An edit that reads more columns than the former query: some rows can't be read now. Nothing was adopted.
                other_rows.update(found.sources)

    def with_diagnostics() -> RunResult:
        with errors_as_diagnostics(attempts.store):
            try:
                return until_rows_are_known()
            except Exception as error:
                try:  # what another run did since is no fault of the data
                    attempts.lease.check(look=True)
                    if attempts.begun_at is not None:
                        fencing.check_whose(attempts.journal, attempts.begun_at, attempts.who)
                except DiagnosticError as other:
                    raise other from error
                if isinstance(error, DiagnosticError):
                    shown = at_their_places(error, attempts.request.place_of)
                    shown = shown if secrets is None else secrets.hidden_in(shown)
                    if shown is not error:
                        raise shown from None
                raise

    return with_diagnostics


def _is_to_watch(plan: PhysicalPlan, connectors: object) -> bool:
    """Whether a source is declared without an end, as far as its connector describes itself."""
    described = getattr(connectors, "descriptors", None)
    if described is None:
        return False
    found = ((spec, described.get(spec.connector)) for spec in plan.sources)
    return any(one is not None and not one.bounded(spec.options) for spec, one in found)
