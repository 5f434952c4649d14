"""What is written down of an epoch: its manifest, with the program that it ran kept beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from sqlstream.runtime.loop import watermarks
from sqlstream.runtime.loop.forgotten_keys import forgotten_after
from sqlstream.runtime.loop.planning import EpochPlanner
from sqlstream.runtime.loop.program import LoopSettings, Program
from sqlstream.runtime.loop.recovery import committed_epoch, void_manifest
from sqlstream.runtime.loop.run_state import RunState
from sqlstream.runtime.tasks.job import EpochOutcome
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import (
    CommittedPart,
    DeadLetterTally,
    EpochPlan,
    Manifest,
    RunInfo,
    SourceState,
    StateVersions,
)
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.watermarks import WATERMARK_MIN, read_up_to
from sqlstream_operators.state.version import ShardVersion


class Manifests:
    """Makes the manifests of one run of a program, of epochs behind where `state` is; publishes none."""

    def __init__(
        self,
        program: Program,
        settings: LoopSettings,
        state: RunState,
        planner: EpochPlanner,
        run: RunInfo,
        journal: Journal,
    ) -> None:
        self._program = program
        self._settings = settings
        self._state = state
        self._planner = planner
        self._run = run
        self._journal = journal
        self._digest: str | None = None
        self._sql_digest: str | None = None

    def keep_program(self) -> str:
        """The digest under which the physical plan is kept, and beside it the SQL.

        It is written once an epoch is under way: from then on no other driver sweeps what no manifest names.
        """
        if self._digest is None:
            self._digest = self._journal.put_physical_plan(self._program.text)
            self._sql_digest = None if self._program.sql is None else self._journal.put_sql(self._program.sql)
        return self._digest

    def program_was_swept(self) -> None:
        """The program may have been deleted, as no manifest named it: it is written once more."""
        self._digest = None

    def tally(self, plan: EpochPlan, outcome: EpochOutcome) -> DeadLetterTally:
        """The dead letters with those of an epoch. Raises DiagnosticError if there may not be so many."""
        last = self._state.last
        before = DeadLetterTally() if last is None else last.tally
        rows = sum(source.rows for source in outcome.sources.values())
        if plan.edits and last is not None:
            known = {state.name: state for state in last.positions}
            names = self._program.transition.withdrawn
            gone = sum(known[name].malformed or 0 for name in names if name in known)
            before = replace(before, total=max(before.total - gone, 0))
        letters = outcome.dead_letters
        tally = before.after(rows, sum(letters.values()), letters.get("failed", 0))
        self._settings.letters.check(
            plan.epoch, tally, outcome.dead_letters, self._journal.store, outcome.dead_letter_files, rows
        )
        return tally

    def void(self, epoch: int) -> Manifest:
        """The manifest that gives an epoch up: nobody can commit it from then on."""
        void = void_manifest(epoch, self._state.last, self._run, self._nothing())
        return replace(void, rows_cap=self._planner.rows_cap)

    def _nothing(self) -> Manifest:
        """The manifest before the first epoch."""
        return Manifest(
            epoch=0,
            parent=None,
            lineage=self._state.lineage,
            run=self._run,
            fingerprint=self._program.fingerprint,
            plan_digest=self.keep_program(),
            parallelism=self._settings.parallelism,
            max_parallelism=self._program.plan.options.max_parallelism,
            sources=tuple(self._state.sources.values()),
            states=tuple(self._versions(state, ()) for state in self._program.plan.states),
            sql_digest=self._sql_digest,
            last_field_id=self._state.fields.last,
            sink_names=self._sink_names(),
            forgotten={},
        )

    def of(self, plan: EpochPlan, outcome: EpochOutcome, tally: DeadLetterTally) -> Manifest:
        """The manifest of an epoch whose tasks are done."""
        last, change = self._state.last, self._program.transition
        # An epoch that is about state and sinks does not touch the sources.
        sources = self._state.sources.values() if plan.is_state_only else self._read(plan, outcome)
        return Manifest(
            epoch=plan.epoch,
            parent=plan.parent,
            lineage=plan.lineage,
            run=self._run,
            fingerprint=self._program.fingerprint,
            plan_digest=self.keep_program(),
            parallelism=plan.parallelism,
            max_parallelism=self._program.plan.options.max_parallelism,
            sources=tuple(sources),
            states=tuple(
                self._versions(state, outcome.states[state.state_id]) for state in self._program.plan.states
            ),
            sinks={
                name: tuple(CommittedPart(part.rows, part.payload, part.staged) for part in parts)
                for name, parts in outcome.parts.items()
            },
            rows={name: source.rows for name, source in outcome.sources.items()},
            dead_letters=outcome.dead_letters,
            dead_letter_files=outcome.dead_letter_files,
            metrics=outcome.metrics,
            previous=committed_epoch(last),
            rows_cap=self._planner.rows_cap,
            sql_digest=self._sql_digest,
            last_field_id=self._state.fields.last,
            origin="" if last is None else last.origin,
            moved={} if last is None else last.moved,
            tally=tally,
            now_us=plan.clock_before_us if plan.is_state_only else plan.now_us,
            new_sinks=plan.new_sinks,
            detached=self._state.detached,
            sink_names=self._sink_names(),
            sink_edits=plan.sink_edits,
            edits=change.edits if plan.edits else (),
            withdrawn=change.withdrawn if plan.edits else (),
            forgotten=forgotten_after(
                last,
                change.forgotten if plan.edits else None,
                self._program.plan,
                {} if plan.is_state_only else outcome.forgotten,
            ),
            dimension_files=self._planner.dimensions.files,
        )

    def _sink_names(self) -> dict[str, str]:
        """By which names targets know sinks that are called otherwise."""
        return {name: was for name, was in self._program.known_as.items() if was != name}

    def _read(self, plan: EpochPlan, outcome: EpochOutcome) -> Iterator[SourceState]:
        """How far the sources are after an epoch."""
        for source in plan.sources:
            closed = [
                outcome.closed[ends.step] - ends.tick_us
                for ends in self._planner.window_ends
                if source.name in ends.sources and ends.step in outcome.closed
            ]
            read = outcome.sources[source.name]
            closes_up_to = read_up_to(source.active_lanes, read.lanes) if source.lanes else read.watermark
            yield watermarks.after_epoch(
                self._state.sources[source.name],
                position=source.next,
                drained=source.drains,
                read_up_to=read.watermark,
                applied=source.watermarks.raised(closes_up_to).close,
                closed_up_to=max(closed, default=None),
                rows=read.rows,
                malformed=read.malformed,
                lanes={
                    lane: max(mark, read.lanes.get(lane, WATERMARK_MIN))
                    for lane, mark in source.lanes.items()
                },
            )

    def _versions(self, state: StateSchema, shards: Iterable[ShardVersion]) -> StateVersions:
        return StateVersions(
            state.state_id,
            state.schema_id,
            tuple(shard.to_json() for shard in shards),
            self._state.fields.fields[state.state_id],
            json.loads(state.identity) if state.identity else None,
        )
