"""One attempt of a run: what it goes on from, what an edit means, and the loop over its epochs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex

from sqlstream.connectors.api import ConnectorContext, Source, TargetEdit
from sqlstream.connectors.capabilities import Divided
from sqlstream.runtime.coordination.lease import Lease
from sqlstream.runtime.edits.adopted_history import read_history
from sqlstream.runtime.edits.deciding import decide
from sqlstream.runtime.edits.history.backfill import Backfilled, backfill
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream.runtime.edits.savepoints import fork
from sqlstream.runtime.edits.sinks.sink_places import Looks, looking
from sqlstream.runtime.edits.sources import moved_sources, shared_data
from sqlstream.runtime.edits.sources.moved_sources import Moves
from sqlstream.runtime.loop.dead_letter_budget import DeadLetterBudget
from sqlstream.runtime.loop.drained import check_ends
from sqlstream.runtime.loop.epochs import EpochLoop
from sqlstream.runtime.loop.program import LoopSettings, Program
from sqlstream.runtime.loop.progress import EpochReport, RunResult
from sqlstream.runtime.loop.recovery import Recovered, committed_epoch, program_fingerprint, recover
from sqlstream.runtime.loop.reporting import Totals
from sqlstream.runtime.loop.restarts import Restarts
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.run.programs import program_of
from sqlstream.runtime.run.request import RunRequest
from sqlstream.runtime.run.resources import admission_of, former_caches, shards_of
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.storage import local_cache, run_folder
from sqlstream.storage.garbage import GarbageCollector
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest, RunInfo
from sqlstream.storage.object_copies import sweep_copies
from sqlstream.storage.savepoint_copies import begin_from
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.plan.spec import PhysicalPlan, SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic


@dataclass(slots=True)
class Attempts:
    """What all attempts of one run share.

    `who` runs, `begun_at` is the epoch that the last attempt began behind, `warned` are the warnings that were printed.
    """

    request: RunRequest
    journal: Journal
    runner: JobRunner
    stop: StopFlag
    who: RunInfo
    lease: Lease
    totals: Totals
    restarts: Restarts
    warned: list[Diagnostic]
    begun_at: int | None = None

    @property
    def store(self) -> CheckpointStore:
        """The state directory."""
        return self.journal.store

    @property
    def looks(self) -> Looks:
        """What is seen at the places of sinks."""
        request, store = self.request, self.store
        return looking(lambda spec, known_as: request.sink_of(spec, store, known_as), base_dir=request.base)


def attempt(run: Attempts, other_rows: frozenset[str]) -> RunResult:
    """Go on from the last epoch until all is read, or the run is to stop; of the sources `other_rows` other rows are read.

    Raises OtherRowsError before anything is adopted if more sources are of that kind, and DiagnosticError.
    """
    run.lease.check()
    _begin(run)
    _move_sources(run)
    found = recover(run.journal)
    run.begun_at = 0 if found.last is None else found.last.epoch
    decided = _decide(run, found, other_rows)
    if found.last is not None and shared_data.write_down(run.journal, run.request.plan, run.who):
        found = recover(run.journal)
    caches = _Caches(run, found)
    caches.prepare()
    program = _program(run, found.last, decided)
    return _loop(run, program, decided, caches).run()


def _begin(run: Attempts) -> None:
    """Begin a new state directory with the savepoint that was named, if one was, and the run would not be refused then."""
    request, origin = run.request, run.request.origin
    if origin is None or run.restarts.is_up or fork.has_begun(origin, run.store):
        return
    # The history of sources is looked at once those that have moved are found.
    manifest, rewrite = origin.savepoint.manifest, request.rewrite
    from_there = Journal(origin.store)
    decide(request.edited, from_there, manifest, looks=run.looks, rewrite=rewrite, origin=origin).check()
    begin_from(origin.store, origin.savepoint, run.store, run.who, origin.stores)


def _move_sources(run: Attempts) -> None:
    """Write down which sources' data is elsewhere now, if the run would not be refused then."""
    request, moved = run.request, run.request.moved
    if moved is None or not (moved.tables or moved.respelled) or run.restarts.is_up:
        return
    _check_moved(run, moved)
    for warning in moved_sources.write_down(run.journal, request.plan, moved, run.who, request.source_of):
        request.tell(warning)


def _check_moved(run: Attempts, moved: Moves) -> None:
    """Raise DiagnosticError if the run would be refused once the sources have moved."""
    request, journal, found = run.request, run.journal, recover(run.journal)
    if found.last is None:
        return
    with run_folder.RunFolder("moved-") as scratch:
        here = CheckpointStore(scratch.path, sync=False)
        made, _ = moved_sources.taken_over(journal, found.last, request.plan, moved, here, request.source_of)

        def known(spec: SourceSpec, folder: str) -> Source:
            return request.source_of(spec, here if here.list(folder) else journal.store, folder)

        requested = request.rewrite if request.origin is None else ()
        rewrite = _rewritten(requested, found, request.plan)
        decide(request.edited, journal, made, looks=run.looks, rewrite=rewrite, source_of=known).check()


def _decide(run: Attempts, found: Recovered, other_rows: frozenset[str]) -> EditPlan:
    """What the edit means, which may be carried out. Raises DiagnosticError if not, ConsentNeededError."""
    request = run.request
    # The same command, repeated, goes on: what it was to begin with has been done.
    begun = request.origin is not None and bool(committed_epoch(found.last))
    rewrite = request.rewrite
    if found.last is not None:
        rewrite = () if run.restarts.is_up else _rewritten(() if begun else rewrite, found, request.plan)
    decided = decide(
        request.edited,
        run.journal,
        found.last,
        looks=run.looks,
        rewrite=rewrite,
        source_of=lambda spec, folder: request.source_of(spec, run.store, folder),
        other_rows=other_rows,
    )
    decided.check()
    for warning in () if run.restarts.is_up else decided.warnings:
        if warning not in run.warned:
            request.tell(warning)
    run.warned.extend(decided.warnings)
    return decided


def _program(run: Attempts, last: Manifest | None, decided: EditPlan) -> Program:
    """What the loop is to run, of which the sources can do what was requested."""
    request = run.request
    context = ConnectorContext(
        run.store,
        request.base,
        orders=request.orders,
        tell=request.tell,
        ends=request.drain,
        accepted=request.accept,
        runs=True,
        spark=request.spark,
    )
    program = program_of(request, run.journal, last, decided, context, run.who)
    sources = program.sources.values()
    if request.orders is not None and not run.restarts.is_up:
        request.orders.check(p for source in sources if isinstance(source, Divided) for p in source.paths())
    run.restarts.watching = not all(source.bounded for source in sources)
    if request.drain:
        check_ends(program.sources)
    return program


class _Caches:
    """The caches of state on this machine, for as many shards as the run has."""

    def __init__(self, run: Attempts, found: Recovered) -> None:
        request = run.request
        self._uri, self._last = request.uri, found.last
        self.shards = shards_of(request.plan, request.parallelism, found.plan, found.last, run.runner)
        given = request.local_dir
        self.folder = Path(given) if given is not None else local_cache.default_directory(request.uri)
        self._states = {state.state_id for state in request.plan.states}
        self._former = former_caches(found.last) - self._states

    def prepare(self) -> None:
        """Make room, and delete what no run uses any more."""
        local_cache.prepare(self.folder, self._uri, self._states | self._former, self.shards)
        local_cache.remove_unused(self.folder.parent, self.folder)
        run_folder.sweep()
        sweep_copies()

    def after(self, epoch: int) -> None:
        """Delete what was of former states: that of the edit is done, and one in which every state was opened."""
        if self._former and self._last is not None and epoch == self._last.epoch + 2:
            local_cache.prepare(self.folder, self._uri, self._states, self.shards)


def _loop(run: Attempts, program: Program, decided: EditPlan, caches: _Caches) -> EpochLoop:
    request, store, runner = run.request, run.store, run.runner
    options = request.plan.options

    def on_up() -> None:
        run.restarts.is_up = True

    def reported(report: EpochReport) -> None:
        caches.after(report.epoch)
        request.on_epoch(report)

    settings = LoopSettings(
        parallelism=caches.shards,
        base_dir=request.base,
        local_dir=str(caches.folder),
        admission=admission_of(request.plan, request.max_rows_per_epoch),
        tasks=lambda: max(runner.known_parallelism or caches.shards, 1),
        interval_s=None if options.epoch_interval_us is None else options.epoch_interval_us / 1e6,
        max_epochs=request.max_epochs,
        letters=DeadLetterBudget(options.max_dead_letters, options.max_dead_letter_share),
        drain=request.drain or options.drain,
        **({} if request.poll_s is None else {"poll_s": request.poll_s}),
    )
    run_backfill = partial(_backfilled, run, settings, decided)
    return EpochLoop(
        program,
        run.journal,
        runner,
        GarbageCollector(run.journal, retained=request.retained_epochs, pins=Savepoints(store).pinned),
        settings,
        run.who,
        lineage=token_hex(16),
        stop=run.stop,
        on_epoch=reported,
        on_up=on_up,
        on_phase=request.on_phase,
        on_lag=request.on_lag,
        totals=run.totals,
        check_lease=run.lease.check,
        faults=request.faults,
        read_history=lambda until: read_history(
            run_backfill, program, decided, until, store, request.base, request.writer
        ),
        wall_clock=request.wall_clock,
        tell=request.tell,
    )


def _backfilled(
    run: Attempts, settings: LoopSettings, decided: EditPlan, program: Program, until: Manifest
) -> Backfilled | None:
    return backfill(
        program,
        states=program.transition.needs_history,
        sinks=program.transition.from_history,
        reported_again=decided.withdrawn,
        until=until,
        store=run.store,
        runner=run.runner,
        settings=settings,
        run=run.who,
        stop=run.stop,
        check_lease=run.lease.check,
        wall_clock=run.request.wall_clock,
    )


def _rewritten(requested: Collection[str], found: Recovered, plan: PhysicalPlan) -> tuple[str, ...]:
    """The sinks that are begun anew: those that were requested, and those of an epoch that was begun and is done again."""
    begun = found.plan
    if begun is None or begun.fingerprint != program_fingerprint(plan):
        return tuple(requested)
    more = [name for name, edit in begun.sink_edits.items() if edit == TargetEdit.REWRITE]
    return (*requested, *(name for name in more if name not in requested))
