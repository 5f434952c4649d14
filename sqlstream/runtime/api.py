"""Runs a physical plan on a state directory: what the command line, the golden check and tests call."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from sqlstream.connectors.api import ConnectorContext, Sink, Source
from sqlstream.connectors.filesystem.orders import FileOrders
from sqlstream.connectors.registry import REGISTERED
from sqlstream.runtime.coordination.lease import BEAT_S, Lease
from sqlstream.runtime.loop import fork
from sqlstream.runtime.loop.admission import DEFAULT_TARGET_S, Admission
from sqlstream.runtime.loop.epochs import EpochLoop
from sqlstream.runtime.loop.faults import Faults, no_faults
from sqlstream.runtime.loop.program import LoopSettings, Program
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.recovery import (
    check_compatible,
    is_fresh_fork,
    physical_plan,
    program_fingerprint,
    recover,
)
from sqlstream.runtime.loop.source_positions import go_on, own_folders
from sqlstream.runtime.loop.stop import StopFlag, stop_on_signals
from sqlstream.runtime.tasks.failures import error_of
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.runtime.tasks.task_failure import describe
from sqlstream.storage import local_cache
from sqlstream.storage.garbage import RETAINED, GarbageCollector
from sqlstream.storage.journal import Journal, digest_of
from sqlstream.storage.manifest import EpochPlan, Manifest, RunInfo
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.errors import DataError, InputFileError, StateError
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec, SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.secrets.references import Secrets


class DriverConnectors(Protocol):
    """Makes the driver's halves of connectors."""

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Source:
        """The driver's half of a source."""
        ...

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Sink:
        """The driver's half of a sink."""
        ...


def run_pipeline(
    plan: PhysicalPlan,
    *,
    state_dir: str | Path,
    secrets: Secrets | None = None,
    parallelism: int | None = None,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    max_rows_per_epoch: int | None = None,
    on_epoch: Callable[[EpochReport], None] = lambda report: None,
    stop: StopFlag | None = None,
    handle_signals: bool = False,
    base_dir: str | Path = ".",
    local_dir: str | Path | None = None,
    runner: JobRunner | None = None,
    connectors: DriverConnectors | None = None,
    retained_epochs: int = RETAINED,
    max_epochs: int | None = None,
    poll_s: float | None = None,
    faults: Faults = no_faults,
    lease_beat_s: float = BEAT_S,
    sync: bool = True,
    wall_clock: Callable[[], float] = time.time,
    sql: str | None = None,
    origin: fork.Origin | None = None,
    orders: FileOrders | None = None,
    tell: Callable[[Diagnostic], None] = lambda warning: None,
) -> RunResult:
    """Run a plan until its bounded sources are exhausted and everything is committed, or `stop` is set.

    `secrets` are what references in the plan stand for (`Planned.secrets`); they are kept nowhere.
    `state_dir` is a path or a URI; a run goes on where the last one on it stopped. `parallelism` is the
    number of shards (default: the plan's option, else that of the last run, else the cores). Without a
    `runner` Spark is started on `master` with `conf`, and stopped at the end. `local_dir` is where machines
    cache state (default: under the temporary folder). With `handle_signals`, Ctrl-C and SIGTERM set `stop`
    once Spark runs (Spark installs a handler of its own when it starts).
    `sql` is the text that the plan was made of, rendered and without secrets: it is kept with the manifests.
    `origin` is the savepoint that a new state directory begins with.
    `orders` is what to do about single files of the sources, `tell` takes warnings about what the run meets.
    `wall_clock` (seconds since 1970) is what state with a time to live goes by; each epoch's is in its plan.
    Raises DiagnosticError: exit code 4 if the state does not fit the plan, is damaged, or another run works
    on it; 1 if the data can't be computed or read, or Spark can't run.
    """
    stop = stop or StopFlag()
    uri = str(state_dir) if "://" in str(state_dir) else str(Path(state_dir).absolute())
    base = str(Path(base_dir).absolute())
    store = CheckpointStore(uri, sync=sync)
    journal = Journal(store)
    run = RunInfo(
        run_id=token_hex(8),
        host=socket.gethostname(),
        pid=os.getpid(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    lease = Lease(store, run, beat_s=lease_beat_s)
    try:
        lease.acquire()
        if origin is not None:
            fork.begin(origin, store, plan, run)
        found = recover(journal)
        if found.last is not None:
            check_compatible(journal, found.last, plan, new_sinks=is_fresh_fork(found.last))
        own_runner = None
        if runner is None:
            from sqlstream.runtime.spark.stages import SparkJobRunner

            runner = own_runner = SparkJobRunner.start(master, conf)
        try:
            shards = _shards(plan, parallelism, found.plan, found.last, runner)
            cache = Path(local_dir) if local_dir is not None else local_cache.default_directory(uri)
            local_cache.prepare(cache, uri, [state.state_id for state in plan.states], shards)
            local_cache.remove_unused(cache.parent, cache)
            context = ConnectorContext(store, base, orders=orders, tell=tell)
            program = _program(
                plan, secrets or Secrets(), journal, found.last, connectors or REGISTERED, context, sql
            )
            if orders is not None:
                orders.check(
                    path for source in program.sources.values() for path in getattr(source, "paths", list)()
                )
            loop = EpochLoop(
                program,
                journal,
                runner,
                GarbageCollector(journal, retained=retained_epochs, pins=Savepoints(store).pinned),
                LoopSettings(
                    parallelism=shards,
                    base_dir=base,
                    local_dir=str(cache),
                    admission=_admission(plan, max_rows_per_epoch),
                    tasks=max(runner.parallelism, 1),
                    max_epochs=max_epochs,
                    **({} if poll_s is None else {"poll_s": poll_s}),
                ),
                run,
                lineage=token_hex(16),
                stop=stop,
                on_epoch=on_epoch,
                check_lease=lease.check,
                faults=faults,
                wall_clock=wall_clock,
            )
            with stop_on_signals(stop) if handle_signals else nullcontext():
                return loop.run()
        finally:
            if own_runner is not None:
                own_runner.close()
    except InputFileError as error:
        raise error_of(describe(error)) from error
    except DataError as error:
        raise DiagnosticError(Diagnostic("DAT002", error.message)) from error
    except StateError as error:
        raise error_of(describe(error)) from error
    except OSError as error:
        raise DiagnosticError(
            Diagnostic(
                "ENV005",
                f"a file can't be read or written: {error}",
                notes=(f"the state directory is {uri}",),
                help="run again when this is mended: the run goes on where it stopped",
            )
        ) from error
    finally:
        lease.release()


def _shards(
    plan: PhysicalPlan,
    asked: int | None,
    begun: EpochPlan | None,
    last: Manifest | None,
    runner: JobRunner,
) -> int:
    """The number of shards; at most one for each key group."""
    before = begun.parallelism if begun is not None else last.parallelism if last is not None else None
    wanted = asked or plan.options.parallelism or before or runner.parallelism
    return max(1, min(wanted, plan.options.max_parallelism))


def _admission(plan: PhysicalPlan, max_rows: int | None) -> Admission:
    options = plan.options
    target = DEFAULT_TARGET_S if options.target_epoch_us is None else options.target_epoch_us / 1e6
    return Admission(
        fixed_rows=max_rows or options.max_rows_per_epoch,
        files=options.max_files_per_epoch,
        target_s=target,
    )


def _program(
    plan: PhysicalPlan,
    secrets: Secrets,
    journal: Journal,
    last: Manifest | None,
    connectors: DriverConnectors,
    context: ConnectorContext,
    sql: str | None,
) -> Program:
    text = plan_json.to_text(plan).encode()
    sinks = {spec.name: connectors.sink(secrets.resolved(spec), context) for spec in plan.sinks}
    former = {}
    if last is not None and not is_fresh_fork(last):
        specs = {spec.name: spec for spec in plan.sinks}
        before = plan if last.plan_digest == digest_of(text) else physical_plan(journal, last)
        former = {
            spec.name: sinks[spec.name]
            if specs.get(spec.name) == spec or _takes_over(sinks.get(spec.name), spec)
            else connectors.sink(secrets.resolved(spec), context)
            for spec in before.sinks
        }
    folders = own_folders(go_on(() if last is None else last.sources, plan.sources), plan.sources)
    return Program(
        plan=plan,
        text=text,
        fingerprint=program_fingerprint(plan),
        sources={
            spec.name: connectors.source(secrets.resolved(spec), replace(context, folder=folders[spec.name]))
            for spec in plan.sources
        },
        source_folders=folders,
        sinks=sinks,
        former_sinks=former,
        secrets=secrets,
        sql=sql,
    )


def _takes_over(sink: Sink | None, former: SinkSpec) -> bool:
    """Whether a sink says that it can commit what one with the spec `former` prepared (a new password …)."""
    takes_over = getattr(sink, "takes_over", None)
    return takes_over is not None and bool(takes_over(former))
