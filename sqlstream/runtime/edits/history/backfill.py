"""Computes states that no older state has: from the sources' history, up to exactly where a manifest says that they are.

It is the ordinary epoch loop, on the new plan cut down to what is missing, over sources that end at these positions, with
a journal of its own in a folder of the state directory. Nothing else there is touched: no epoch, no sink, no dead letter,
no source's list of files. Killed anywhere, the next call goes on; nothing is adopted before a manifest of the main
journal names the versions.

- *Watermarks.* A source that has ended is at the watermark that the manifest says was applied to it, and never beyond. So
  a window that is open there has dropped no row as late, and one that is closed there is closed. Rows that were late once
  are late again, or not (the cuts between epochs are others), but only for windows that are closed at the end.
- *Input that had ended* goes on at its resume watermark, as where more has come: what was given stays closed, and a window
  that reaches beyond it, which nobody has been given, stays open. It is emitted when the run sees that there is no more.
- *Rows that could not be read or were late* were reported when they were read first; here they are counted.
- *Time to live.* The clock stands still at the time when the backfill began: all of the history counts as touched then.
- *Order.* Rows of one source come in its order. Those of several sources meet in another order than they did at first.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlstream.connectors.api import Limits, Position, Rereadable, SinkPart, Source, SourcePlan
from sqlstream.runtime.edits.history.backfilled_rows import KeptRows
from sqlstream.runtime.loop import watermarks
from sqlstream.runtime.loop.admission import Admission
from sqlstream.runtime.loop.dead_letter_budget import DeadLetterBudget
from sqlstream.runtime.loop.epochs import EpochLoop
from sqlstream.runtime.loop.faults import Faults, no_faults
from sqlstream.runtime.loop.program import FormerSink, LoopSettings, Program
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.loop.recovery import program_fingerprint
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.storage import backfills, local_cache
from sqlstream.storage.garbage import GarbageCollector
from sqlstream.storage.journal import Journal, digest_of
from sqlstream.storage.manifest import Manifest, RunInfo, SourceState
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.plan.watermarks import WATERMARK_MIN
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, InternalError

#: Nobody waits for the results of a backfill's epochs: they are longer than others, which costs less per row.
TARGET_S = 10.0


@dataclass(frozen=True, slots=True)
class Backfilled:
    """What a backfill has made.

    `versions`: of each requested state, one per shard; their files are in `folder` of the state directory and have
    names of its store. `sources`: how far the new plan's sources are, by name: where the manifest says, with the
    watermarks that new windows need. `rows_read` by source, in the run that ended it. `dead_letters` is how many rows of
    the history could not be used: most were reported when they were read first; `malformed` says by source how many could
    not be read. `parts` are, by requested sink, the
    rows that the history has for it, staged in the same folder: `backfilled_rows.written` makes what one epoch commits.
    """

    folder: str
    versions: Mapping[str, tuple[ShardVersion, ...]]
    sources: Mapping[str, SourceState]
    rows_read: Mapping[str, int]
    dead_letters: int = 0
    malformed: Mapping[str, int] = field(default_factory=dict)
    parts: Mapping[str, tuple[SinkPart, ...]] = field(default_factory=dict)


class HistoryGoneError(DiagnosticError):
    """What sources had read can't be read again: DAT008, of each by name."""

    def __init__(self, gone: Sequence[tuple[str, Diagnostic]]) -> None:
        self.gone = gone
        super().__init__(*(diagnostic for _, diagnostic in gone))


def backfill(
    program: Program,
    *,
    states: Collection[str],
    until: Manifest,
    store: CheckpointStore,
    runner: JobRunner,
    settings: LoopSettings,
    run: RunInfo,
    stop: StopFlag,
    sinks: Collection[str] = (),
    reported_again: Collection[str] = (),
    on_epoch: Callable[[EpochReport], None] = lambda report: None,
    check_lease: Callable[[], None] = lambda: None,
    faults: Faults = no_faults,
    wall_clock: Callable[[], float] = time.time,
) -> Backfilled | None:
    """Compute these states of `program` over what its sources have read by `until`; None if it was stopped.

    `sinks` are new ones that are to have the rows of all the history because no state has their result: windows that are
    closed, rows that no operator keeps. Of the sources `reported_again` what is malformed is reported once more.
    `store` is the state directory, `settings` are those of the run that takes the states over: the versions have its
    parallelism. A source that `until` does not know has read nothing. Raises DiagnosticError: DAT008 if history is gone,
    and as a run.
    """
    plan = _without_setting_aside(cut_down(program.plan, states, sinks))
    known = _going_on(until, program.plan, plan)
    ends = {
        spec.name: known[spec.name].applied if spec.name in known else WATERMARK_MIN for spec in plan.sources
    }
    sources = _history(plan, program.sources, known)
    side = _Side(store, plan, ends, known, until, settings)
    begun = backfills.begin(store, side.folder, until, now_us=int(wall_clock()) * 1_000_000)
    side.prepare()
    rows = {spec.name: KeptRows(side.journal.store, spec.name) for spec in plan.sinks}
    loop = EpochLoop(
        Program(
            plan=plan,
            text=side.text,
            fingerprint=side.fingerprint,
            sources=sources,
            source_folders={spec.name: program.source_folders[spec.name] for spec in plan.sources},
            sinks=rows,
            former_sinks={name: FormerSink(kept) for name, kept in rows.items()},
            ends=ends,
            of_history=True,
            secrets=program.secrets,
            dimensions=program.dimensions,
        ),
        side.journal,
        runner,
        GarbageCollector(
            side.journal, pins=lambda: frozenset(name for kept in rows.values() for name in kept.files())
        ),
        side.settings,
        run,
        lineage=until.lineage,
        stop=stop,
        on_epoch=on_epoch,
        check_lease=check_lease,
        faults=faults,
        wall_clock=lambda: begun.now_us / 1e6,
    )
    try:
        result = loop.run()
    except DiagnosticError as error:
        raise DiagnosticError(*map(_about_history, error.diagnostics), exit_code=error.exit_code) from error
    if result.outcome == "stopped":
        return None
    last = None if result.last_epoch is None else side.journal.manifest(result.last_epoch)
    reached = {} if last is None else {state.name: state for state in last.sources}
    _check_reached(reached, sources, known, ends)
    side.close(states)
    return Backfilled(
        folder=side.folder,
        versions={state: side.versions(last, state) for state in states},
        sources={
            name: _with_marks(state, reached.get(name), reported_again=name in reported_again)
            for name, state in known.items()
        },
        malformed={name: state.malformed or 0 for name, state in reached.items()},
        rows_read=result.rows_read,
        dead_letters=0 if last is None else last.tally.total,
        parts={name: kept.parts(side.folder) for name, kept in rows.items()},
    )


class _Side:
    """Where a backfill is: its folder, named by what is computed, with a journal, and its caches."""

    def __init__(
        self,
        store: CheckpointStore,
        plan: PhysicalPlan,
        ends: Mapping[str, int],
        known: Mapping[str, SourceState],
        until: Manifest,
        settings: LoopSettings,
    ) -> None:
        self.text = plan_json.to_text(plan).encode()
        self.fingerprint = program_fingerprint(plan)
        read = {
            spec.name: dict(known[spec.name].position) if spec.name in known else None
            for spec in plan.sources
        }
        # The epoch too: files that were adopted go with it, and would be missing in one that goes on there later.
        computed = [self.fingerprint, until.lineage, until.committed, settings.parallelism, read, dict(ends)]
        digest = digest_of(json.dumps(computed, sort_keys=True).encode())[:16]
        self.folder = backfills.folder_of(digest)
        self.journal = Journal(store.below(self.folder))
        self._plan = plan
        self._base = until.epoch
        self._main_cache = Path(settings.local_dir)
        self._cache = self._main_cache.with_name(f"{self._main_cache.name}-{digest}")
        self.settings = replace(
            settings,
            local_dir=str(self._cache),
            admission=_admission(settings.admission, until),
            max_epochs=None,
            letters=DeadLetterBudget(),
        )

    def prepare(self) -> None:
        """Make the folder for caches."""
        states = [state.state_id for state in self._plan.states]
        local_cache.prepare(self._cache, self.journal.store.uri, states, self.settings.parallelism)

    def close(self, states: Collection[str]) -> None:
        """Leave the caches of what is adopted to the run that adopts it."""
        local_cache.hand_over(self._cache, self._main_cache, states)

    def versions(self, last: Manifest | None, state_id: str) -> tuple[ShardVersion, ...]:
        """The versions of a state as the main store names them."""
        found = (
            next((s.shards for s in last.states if s.state_id == state_id), ()) if last is not None else ()
        )
        shards = [ShardVersion.from_json(shard) for shard in found]
        if not shards:
            return (ShardVersion.empty(),) * self.settings.parallelism
        return tuple(shard.below(self.folder, self._base) for shard in shards)


@dataclass(frozen=True, slots=True)
class _Unread:
    """A source of which nothing was read: where that would begin does not matter, and may be decided anew each time."""

    @property
    def bounded(self) -> bool:
        return True

    def initial_position(self) -> Position:
        return {}

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        return SourcePlan((), position, True)

    def lag(self, position: Position) -> int | None:
        return 0


def _without_setting_aside(plan: PhysicalPlan) -> PhysicalPlan:
    """Rows of operators over which an expression fails stop a backfill: its own dead letters are not kept."""
    if plan.options.failing_rows != "dead-letter":
        return plan
    return replace(plan, options=replace(plan.options, failing_rows="dead-letter-as-read"))


def _going_on(until: Manifest, whole: PhysicalPlan, plan: PhysicalPlan) -> dict[str, SourceState]:
    """The sources as they go on from a manifest; those that `plan` reads and that were drained, as if there were more."""
    read = {spec.name for spec in plan.sources}
    known = go_on(until.positions, whole.sources)
    return {
        name: watermarks.resumed(state) if state.drained and name in read else state
        for name, state in known.items()
    }


def _history(
    plan: PhysicalPlan, sources: Mapping[str, Source], known: Mapping[str, SourceState]
) -> dict[str, Source]:
    """The sources of a plan up to where they have been read. Raises HistoryGoneError for all that are not there."""
    found: dict[str, Source] = {}
    gone: list[tuple[str, Diagnostic]] = []
    for spec in plan.sources:
        source, state = sources[spec.name], known.get(spec.name)
        if state is None or state.position == source.initial_position():
            found[spec.name] = _Unread()
        elif not isinstance(source, Rereadable):
            message = (
                f"source `{spec.name}` can't be read again: its connector '{spec.connector}' keeps no history"
            )
            gone.append((spec.name, Diagnostic("DAT008", message)))
        else:
            try:
                found[spec.name] = source.until(state.position)
            except DiagnosticError as error:
                gone += [(spec.name, diagnostic) for diagnostic in error.diagnostics]
    if gone:
        raise HistoryGoneError(gone)
    return found


def _about_history(diagnostic: Diagnostic) -> Diagnostic:
    """A file that is not what it was can't be skipped here: it was read."""
    if diagnostic.code != "DAT003":
        return diagnostic
    help_ = "put the files back as they were; what was computed from them before is not touched"
    return replace(diagnostic, code="DAT008", help=help_)


def _admission(given: Admission, until: Manifest) -> Admission:
    """How much an epoch reads: as much as memory is known to allow, unless settings limit it."""
    return replace(given, cap=until.rows_cap, target_s=max(given.target_s, TARGET_S))


def _check_reached(
    reached: Mapping[str, SourceState],
    sources: Mapping[str, Source],
    known: Mapping[str, SourceState],
    ends: Mapping[str, int],
) -> None:
    """Raise InternalError unless all sources are where the backfill was to end."""
    for name, source in sources.items():
        unread = isinstance(source, _Unread)
        wanted = {} if unread else known[name].position
        state = reached.get(name) or SourceState(name, "", {} if unread else source.initial_position())
        if (not unread and dict(state.position) != dict(wanted)) or state.applied != ends[name]:
            raise InternalError(
                f"a backfill ended with {name} at {dict(state.position)} and watermark {state.applied}, "
                f"not at {dict(wanted)} and {ends[name]}"
            )


def _with_marks(state: SourceState, reached: SourceState | None, *, reported_again: bool) -> SourceState:
    """A source as it goes on: what was closed over its history stays closed, should it have ended and go on later.

    Where it had a watermark it goes on with that: another delay holds from the next row on, whether anything is read again
    or not, so that no row is late by a watermark that nobody was given.
    """
    if reached is None:
        return state
    state = replace(state, malformed=reached.malformed if reported_again else state.malformed)
    if state.seen > WATERMARK_MIN:
        return state
    return replace(state, seen=reached.seen, lanes=reached.lanes, resume=max(state.resume, reached.resume))
