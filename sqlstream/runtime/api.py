"""Runs a physical plan on a state directory: what the command line, the golden check and tests call."""

from __future__ import annotations

import os
import shutil
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Protocol

from sqlstream.connectors.api import ConnectorContext, Dimension, Sink, SinkPart, Source, TargetEdit
from sqlstream.connectors.filesystem.orders import FileOrders
from sqlstream.connectors.registry import REGISTERED
from sqlstream.runtime.coordination import fencing
from sqlstream.runtime.coordination.lease import BEAT_S, Lease
from sqlstream.runtime.edits.backfill import Backfilled, backfill
from sqlstream.runtime.edits.backfilled_rows import written as as_written
from sqlstream.runtime.edits.consents import consents_of
from sqlstream.runtime.edits.edit_plan import edit_plan, first_plan
from sqlstream.runtime.edits.plan_parts import EditPlan
from sqlstream.runtime.loop import fork, moved_sources, shared_data
from sqlstream.runtime.loop.admission import DEFAULT_TARGET_S, Admission
from sqlstream.runtime.loop.consent import ConsentNeededError
from sqlstream.runtime.loop.drained import check_ends
from sqlstream.runtime.loop.epochs import EpochLoop
from sqlstream.runtime.loop.faults import Faults, no_faults
from sqlstream.runtime.loop.former_sinks import all_have_it, can_be_reached, check_passwords
from sqlstream.runtime.loop.letter_budget import LetterBudget
from sqlstream.runtime.loop.moved_sources import Moves
from sqlstream.runtime.loop.program import LoopSettings, Program
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.recovery import (
    Recovered,
    committed_epoch,
    is_fresh_fork,
    physical_plan,
    program_fingerprint,
    recover,
)
from sqlstream.runtime.loop.reporting import Totals
from sqlstream.runtime.loop.restarts import Restart, Restarts, RestartStrategy, strategy_of
from sqlstream.runtime.loop.sink_edit import NOWHERE, SinkEdit
from sqlstream.runtime.loop.sink_edits import check_rewrite
from sqlstream.runtime.loop.sink_places import Looks, looking, same_place, target_refused
from sqlstream.runtime.loop.source_positions import go_on, own_folders
from sqlstream.runtime.loop.stop import StopFlag, stop_on_signals
from sqlstream.runtime.spark.masters import is_local
from sqlstream.runtime.tasks.failures import error_of, machine_refuses, not_as_listed
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.runtime.tasks.task_failure import describe
from sqlstream.storage import dead_letter, local_cache, run_folder
from sqlstream.storage.checked_json import DamagedFileError
from sqlstream.storage.garbage import RETAINED, GarbageCollector
from sqlstream.storage.journal import Journal, damaged, digest_of
from sqlstream.storage.manifest import EpochPlan, Manifest, RunInfo, SourceState
from sqlstream.storage.savepoint_copies import begin_from
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.errors import (
    DataError,
    InputFileError,
    ListedFileError,
    MachineError,
    StateError,
    TargetError,
    TargetRowError,
    machine_trouble,
)
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.spec import DimensionSpec, PhysicalPlan, SinkSpec, SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Written
from sqlstream_planner.physical.state_node import NO_NODES, StateNodes
from sqlstream_planner.secrets.references import Secrets


class _StoppedWaitingError(Exception):
    """The run was asked to stop while it waited for another to give the state directory up."""


class _OtherRowsError(Exception):
    """Of some sources not as many rows can be read again as were read first: states that are kept are not of the same."""

    def __init__(self, sources: Collection[str]) -> None:
        super().__init__(", ".join(sources))
        self.sources = frozenset(sources)


class DriverConnectors(Protocol):
    """Makes the driver's halves of connectors."""

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Source:
        """The driver's half of a source."""
        ...

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Sink:
        """The driver's half of a sink."""
        ...

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> Dimension:
        """The driver's half of a table that lookup joins read."""
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
    on_phase: Callable[[str], None] = lambda text: None,
    on_restart: Callable[[Restart], None] = lambda restart: None,
    restart: RestartStrategy | None = None,
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
    nodes: StateNodes = NO_NODES,
    accept: Collection[str] = (),
    rewrite: Collection[str] = (),
    written: Mapping[str, Written] = NOWHERE,
    orders: FileOrders | None = None,
    moved: Moves | None = None,
    tell: Callable[[Diagnostic], None] = lambda warning: None,
    drain: bool = False,
) -> RunResult:
    """Run a plan until all that its bounded sources have now is read and everything is committed, or `stop` is set.

    Windows, and all else that waits for the watermark, stay open at the end for the next run; with `drain`, as if the plan's
    options said so, they close for good, and watched sources end, too.

    `secrets` are what references in the plan stand for (`Planned.secrets`); they are kept nowhere.
    `state_dir` is a path or a URI; a run goes on where the last one on it stopped. `parallelism` is the
    number of shards (default: the plan's option, else that of the last run, else the cores). Without a
    `runner` Spark is started on `master` with `conf` for the first epoch that needs it, and stopped at the end.
    `local_dir` is where machines cache state (default: under the temporary folder). With `handle_signals`, Ctrl-C and
    SIGTERM set `stop`, and a second one ends the run at once (Interrupted). `on_phase` is told in words what takes
    its time before the first epoch. `restart` goes before the strategy that the plan asks for; `on_restart` is told
    of each.
    `sql` is the text that the plan was made of, rendered and without secrets: it is kept with the manifests. `written`
    says where in the user's file the sinks stand, `origin` is the savepoint that a new state directory begins with,
    `nodes` are what the plan's states were made of (`Planned.state_nodes`): without them, edits can't derive a state from
    another. `accept` is what may begin in the middle of the input (`fresh:<operator or sink>`, `fresh:all`), and which
    tables may be altered (`alter:<sink>`). `rewrite` are sinks whose empty places get all that the query has given so far.
    `orders` what to do about single files of the sources, `moved` which sources' data is elsewhere now (the plan was made
    with it); `tell` takes warnings about what the run meets.
    `wall_clock` (seconds since 1970) is what state with a time to live goes by; each epoch's is in its plan.
    Raises DiagnosticError: exit code 4 if the state does not fit the plan, is damaged, or another run works
    on it; 1 if the data can't be computed or read; 5 if the machine, Spark or a sink's database refuses.
    """
    stop = stop or StopFlag()
    own_runner = None
    if runner is None:
        from sqlstream.runtime.spark.on_demand import SparkOnDemand

        runner = own_runner = SparkOnDemand(
            master, conf, on_start=lambda: on_phase("starting Spark"), on_wait=on_phase
        )
        stop.on_interrupt = own_runner.kill
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
    started = time.monotonic()
    lease = Lease(store, run, beat_s=lease_beat_s)
    totals = Totals()
    restarts = Restarts(restart or strategy_of(plan.options.restart), stop, totals, on_restart)
    restarts.watching = _is_to_watch(
        plan, connectors or REGISTERED
    )  # as declared, until the sources are there

    def source_of(spec: SourceSpec, store: CheckpointStore, folder: str) -> Source:
        known = (secrets or Secrets()).resolved(spec)
        return (connectors or REGISTERED).source(known, ConnectorContext(store, base, folder=folder))

    def sink_of(spec: SinkSpec, known_as: str) -> Sink:
        known = (secrets or Secrets()).resolved(spec)
        return (connectors or REGISTERED).sink(known, ConnectorContext(store, base, known_as=known_as))

    decide = partial(edit_plan, program=plan, sql=sql, written=written, nodes=nodes, accept=accept)

    other_rows: set[str] = set()
    warned: list[Diagnostic] = []
    begun_at: int | None = None

    def attempt() -> RunResult:
        while True:
            try:
                return attempt_with(frozenset(other_rows))
            except _OtherRowsError as found:
                # An edit that reads more columns than the former query: some rows can't be read now. Nothing was adopted.
                other_rows.update(found.sources)

    def attempt_with(of_others: frozenset[str]) -> RunResult:
        nonlocal begun_at
        lease.check()
        if origin is not None and not restarts.is_up and not fork.has_begun(origin, store):
            # The history of sources is looked at below, where those that have moved are found.
            decide(
                Journal(origin.store),
                origin.savepoint.manifest,
                savepoint=origin.savepoint,
                apart=origin.apart,
                rewrite=rewrite,
                looks=looking(sink_of),
            ).check()
            begin_from(origin.store, origin.savepoint, store, run, origin.stores)
        if moved is not None and (moved.tables or moved.respelled) and not restarts.is_up:
            to_begin = rewrite if origin is None else ()
            _check_moved(journal, plan, moved, source_of, decide, to_begin, looking(sink_of))
            for warning in moved_sources.write_down(journal, plan, moved, run, source_of):
                tell(warning)
        found = recover(journal)
        begun_at = 0 if found.last is None else found.last.epoch
        # The same command, said again, goes on: what it was told to begin with has been done.
        begun = origin is not None and bool(committed_epoch(found.last))
        if found.last is None:
            check_rewrite(rewrite, plan)
            decided = first_plan(plan, looking(sink_of))
            decided.check()
        else:
            decided = decide(
                journal,
                found.last,
                source_of=lambda spec, folder: source_of(spec, store, folder),
                rewrite=() if restarts.is_up else _rewritten(() if begun else rewrite, found, plan),
                looks=looking(sink_of),
                other_rows=of_others,
            )
            decided.check()
            for warning in () if restarts.is_up else decided.warnings:
                if warning not in warned:
                    tell(warning)
            warned.extend(decided.warnings)
            if shared_data.write_down(journal, plan, run):
                found = recover(journal)
        shards = _shards(plan, parallelism, found.plan, found.last, runner)
        cache = Path(local_dir) if local_dir is not None else local_cache.default_directory(uri)
        states = {state.state_id for state in plan.states}
        edited = _former_caches(found.last) - states
        local_cache.prepare(cache, uri, states | edited, shards)
        local_cache.remove_unused(cache.parent, cache)
        run_folder.sweep()
        context = ConnectorContext(store, base, orders=orders, tell=tell, ends=drain)
        program = _program(
            plan,
            secrets or Secrets(),
            journal,
            found.last,
            connectors or REGISTERED,
            context,
            sql,
            decided,
        )
        if orders is not None and not restarts.is_up:
            orders.check(
                path for source in program.sources.values() for path in getattr(source, "paths", list)()
            )
        restarts.watching = not all(source.bounded for source in program.sources.values())
        if drain:
            check_ends(program.sources)

        def on_up() -> None:
            restarts.is_up = True

        def reported(report: EpochReport) -> None:
            # Two epochs later that of the edit is done, and one in which every state was opened.
            if edited and found.last is not None and report.epoch == found.last.epoch + 2:
                local_cache.prepare(cache, uri, states, shards)
            on_epoch(report)

        job = LoopSettings(
            parallelism=shards,
            base_dir=base,
            local_dir=str(cache),
            admission=_admission(plan, max_rows_per_epoch),
            tasks=lambda: max(runner.known_parallelism or shards, 1),
            max_epochs=max_epochs,
            letters=LetterBudget(plan.options.max_dead_letters, plan.options.max_dead_letter_share),
            drain=drain or plan.options.drain,
            **({} if poll_s is None else {"poll_s": poll_s}),
        )

        def from_history(
            program: Program, *, states: Collection[str], sinks: Collection[str], until: Manifest
        ) -> _FromHistory | None:
            with _history_told(program, states, sinks):
                made = backfill(
                    program,
                    states=states,
                    sinks=sinks,
                    until=until,
                    store=store,
                    runner=runner,
                    settings=job,
                    run=run,
                    stop=stop,
                    check_lease=lease.check,
                    wall_clock=wall_clock,
                )
            if made is None:
                return None
            unlike = _read_otherwise(program, until, made)
            if unlike:
                raise _OtherRowsError(unlike)
            return _FromHistory(made, store, base, program.secrets)

        return EpochLoop(
            program,
            journal,
            runner,
            GarbageCollector(journal, retained=retained_epochs, pins=Savepoints(store).pinned),
            job,
            run,
            lineage=token_hex(16),
            stop=stop,
            on_epoch=reported,
            on_up=on_up,
            on_phase=on_phase,
            totals=totals,
            check_lease=lease.check,
            faults=faults,
            backfill=from_history,
            wall_clock=wall_clock,
            tell=tell,
        ).run()

    def patient(seconds: float) -> None:
        stop.wait(seconds)
        if stop.requested:
            raise _StoppedWaitingError

    def told() -> RunResult:
        with _errors_told(store):
            try:
                return attempt()
            except Exception as error:
                try:  # what another run did since is no fault of the data
                    lease.check(look=True)
                    if begun_at is not None:
                        fencing.check_whose(journal, begun_at, run)
                except DiagnosticError as other:
                    raise other from error
                if isinstance(error, DiagnosticError) and secrets is not None:
                    shown = secrets.hidden_in(error)
                    if shown is not error:
                        raise shown from None
                raise

    with stop_on_signals(stop) if handle_signals else nullcontext():
        try:
            with _errors_told(store):
                if own_runner is not None and store.is_local and is_local(master):
                    _begin_private(Path(store.path("")))
                lease.acquire(patient)
            return replace(restarts.run(told), seconds=time.monotonic() - started)
        except _StoppedWaitingError:
            return totals.result("stopped", None, 0.0)
        except (Exception, KeyboardInterrupt):
            if stop.interrupted is not None:  # a library has made another error of it
                raise stop.interrupted from None
            raise
        finally:
            if own_runner is not None:
                own_runner.close()
            lease.release()


def _check_moved(
    journal: Journal,
    plan: PhysicalPlan,
    moved: Moves,
    source_of: moved_sources.SourceOf,
    decide: Callable[..., EditPlan],
    rewrite: Collection[str],
    looks: Looks,
) -> None:
    """Raise DiagnosticError if the run would be refused once the sources have moved: then the move is not written down."""
    found = recover(journal)
    if found.last is None:
        return
    with run_folder.RunFolder("moved-") as scratch:
        here = CheckpointStore(scratch.path, sync=False)
        made, _ = moved_sources.taken_over(journal, found.last, plan, moved, here, source_of)

        def known(spec: SourceSpec, folder: str) -> Source:
            return source_of(spec, here if here.list(folder) else journal.store, folder)

        rewritten = _rewritten(rewrite, found, plan)
        decide(journal, made, source_of=known, rewrite=rewritten, looks=looks).check()


@dataclass(frozen=True, slots=True)
class _FromHistory:
    """What a backfill made, for the epoch that adopts it."""

    made: Backfilled
    store: CheckpointStore
    base_dir: str
    secrets: Secrets

    @property
    def versions(self) -> Mapping[str, tuple[ShardVersion, ...]]:
        """The states, by their ids."""
        return self.made.versions

    @property
    def sources(self) -> Mapping[str, SourceState]:
        """The sources as the run goes on with them."""
        return self.made.sources

    def letters(self, whole: Collection[str], more: Collection[str], epoch: int) -> tuple[str, int] | None:
        """The rows of sources that could not be read, staged as dead letters; see `dead_letter.told_again`."""
        return dead_letter.told_again(self.store, self.made.folder, whole, more, epoch)

    def rows_for(self, sink: SinkSpec, epoch: int) -> tuple[SinkPart, ...]:
        """The rows that the history has for a sink, as parts that `epoch` commits."""
        context = ConnectorContext(self.store, self.base_dir)
        writer = REGISTERED.writer(self.secrets.resolved(sink), context)
        return as_written(sink, self.made.parts.get(sink.name, ()), self.store, writer, epoch)


def _read_otherwise(program: Program, until: Manifest, made: Backfilled) -> frozenset[str]:
    """The sources of which more or fewer rows could be read than when they were read first, and that it is not known of."""
    known = go_on(until.positions, program.plan.sources)
    return frozenset(
        name
        for name, malformed in made.malformed.items()
        if name not in program.other_rows
        and name in known
        and (known[name].malformed or 0) != malformed
        and (known[name].malformed is not None or not until.tally.total)
    )


@contextmanager
def _history_told(program: Program, states: Collection[str], sinks: Collection[str]) -> Iterator[None]:
    """Says of history that is gone what would have to begin now without it. Raises ConsentNeededError."""
    try:
        yield
    except DiagnosticError as error:
        if any(d.code != "DAT008" for d in error.diagnostics):
            raise
        names = [spec.name for spec in program.plan.sources]
        gone = getattr(error, "gone", [(name, d) for d in error.diagnostics for name in names])
        edits = [e for e in program.edits if e.new is not None and e.new.state.state_id in states]
        found = [
            consent for name, why in gone for consent in consents_of(edits, sinks, program.plan, why, {name})
        ]
        raise ConsentNeededError(*found) from error


def _is_to_watch(plan: PhysicalPlan, connectors: object) -> bool:
    """Whether a source is declared without an end, as far as its connector describes itself."""
    described = getattr(connectors, "descriptors", None)
    if described is None:
        return False
    found = ((spec, described.get(spec.connector)) for spec in plan.sources)
    return any(one is not None and not one.bounded(spec.options) for spec, one in found)


@contextmanager
def _errors_told(store: CheckpointStore) -> Iterator[None]:
    """Turns what is raised inside about data, state and files into a DiagnosticError."""
    try:
        yield
    except ListedFileError as error:
        raise not_as_listed(error) from error
    except InputFileError as error:
        raise error_of(describe(error)) from error
    except TargetError as error:
        told = target_refused(error)
        if isinstance(error, TargetRowError):  # which may be the input's fault as well as the table's
            raise DiagnosticError(replace(told, code="DAT002")) from error
        raise DiagnosticError(told, exit_code=4) from error
    except DataError as error:
        raise DiagnosticError(Diagnostic("DAT002", error.message)) from error
    except StateError as error:
        raise error_of(describe(error)) from error
    except DamagedFileError as error:
        raise damaged(error, store) from error
    except (OSError, MachineError) as error:
        what = str(error) if isinstance(error, MachineError) else machine_trouble(error)
        notes = [f"the state directory is {store.uri}"]
        if store.is_local:
            with suppress(OSError):
                free = shutil.disk_usage(store.path("")).free
                notes.append(f"its disk has {free >> 20:,} MiB left")
        raise machine_refuses(what or str(error), *notes) from error


def _begin_private(folder: Path) -> None:
    """Make a state directory for this user alone: it holds rows. One that is there stays as it is."""
    with suppress(OSError):  # what can't be made is told when it is written to
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)


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


def _former_caches(last: Manifest | None) -> set[str]:
    """The states that caches on this machine may be of: those of the last epoch, and those that wrote its files before an
    edit of the query. Who goes on with what they hold copies them.
    """
    if last is None:
        return set()
    versions = (ShardVersion.from_json(shard) for state in last.states for shard in state.shards)
    written = {writer.rsplit("-", 3)[0] for version in versions for writer in version.writers[:1]}
    return written | {state.state_id for state in last.states}


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
    decided: EditPlan,
) -> Program:
    text = plan_json.to_text(plan).encode()
    forgot = last is not None and bool(last.forgotten)
    edits = decided.sink_edits
    names = {sink.spec.name: sink.known_as for sink in edits}
    sinks = {
        spec.name: connectors.sink(
            replace(secrets.resolved(spec), forgets=spec.forgets or forgot),
            replace(
                context, known_as=names.get(spec.name, spec.name), left_columns=_left_columns(spec, edits)
            ),
        )
        for spec in plan.sinks
    }
    former: dict[str, Sink] = {}
    moved: set[str] = set()
    left: set[str] = set()
    is_edit = last is not None and bool(committed_epoch(last))
    goes_on = {sink.former.name: sink.spec for sink in edits if sink.former is not None}
    if last is not None and not is_fresh_fork(last):
        before = plan if last.plan_digest == digest_of(text) else physical_plan(journal, last)
        missing = tuple(check_passwords(journal, last, goes_on, secrets))
        if missing:
            raise DiagnosticError(*missing, exit_code=4)
        for spec in before.sinks:
            now = goes_on.get(spec.name)
            if now is not None and (now == spec or _takes_over(sinks[now.name], spec)):
                former[spec.name] = sinks[now.name]
                moved |= set() if now == spec or same_place(now, spec) else {spec.name}
                continue
            if now is not None:
                spec = replace(spec, options=now.options)
            elif is_edit:
                if not can_be_reached(spec, secrets) and all_have_it(journal.store, last):
                    continue
                left.add(spec.name)
            known_as = last.sink_names.get(spec.name, spec.name)
            former[spec.name] = connectors.sink(secrets.resolved(spec), replace(context, known_as=known_as))
    positions = () if last is None else last.positions
    known = go_on(positions, plan.sources)
    folders = own_folders(known, plan.sources, taken=[state.folder for state in positions])
    return Program(
        plan=plan,
        text=text,
        fingerprint=program_fingerprint(plan),
        sources={
            spec.name: connectors.source(secrets.resolved(spec), replace(context, folder=folders[spec.name]))
            for spec in plan.sources
        },
        source_folders=folders,
        dimensions={
            spec.name: connectors.dimension(replace(spec, source=secrets.resolved(spec.source)), context)
            for spec in plan.dimensions
        },
        sinks=sinks,
        former_sinks=former,
        moved=frozenset(moved),
        restated=decided.restated,
        new_sinks=decided.new_sinks if is_edit else (),
        from_history=decided.from_history,
        edits=decided.edits,
        sink_edits={sink.spec.name: sink.target for sink in edits if sink.target is not None},
        left=frozenset(left),
        former_names={sink.spec.name: sink.former.name for sink in edits if sink.former is not None},
        known_as=names,
        secrets=secrets,
        sql=sql,
        other_rows=decided.other_rows,
        withdrawn=decided.withdrawn,
    )


def _left_columns(spec: SinkSpec, edits: Iterable[SinkEdit]) -> tuple[str, ...]:
    """The columns that the former query gave a table which is a column less now."""
    former = next((e.former for e in edits if e.spec == spec and e.former is not None), None)
    given = {column.name.lower() for column in spec.schema}
    return tuple(c.name for c in former.schema if c.name.lower() not in given) if former is not None else ()


def _rewritten(asked: Collection[str], found: Recovered, plan: PhysicalPlan) -> tuple[str, ...]:
    """The sinks that are begun anew: those that were asked for, and those of an epoch that was begun and is done again."""
    begun = found.plan
    if begun is None or begun.fingerprint != program_fingerprint(plan):
        return tuple(asked)
    more = [name for name, edit in begun.sink_edits.items() if edit == TargetEdit.REWRITE]
    return (*asked, *(name for name in more if name not in asked))


def _takes_over(sink: Sink | None, former: SinkSpec) -> bool:
    """Whether a sink says that it can commit what one with the spec `former` prepared (a new password …)."""
    takes_over = getattr(sink, "takes_over", None)
    return takes_over is not None and bool(takes_over(former))
