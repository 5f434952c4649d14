"""Where a run stands after its last epoch: what the next epoch goes on from."""

from __future__ import annotations

from sqlstream.runtime.loop import watermarks
from sqlstream.runtime.loop.epoch import Epoch
from sqlstream.runtime.loop.program import Program
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage.field_ids import FieldIds
from sqlstream.storage.manifest import EpochPlan, Manifest, SourceState
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.version import ShardVersion


class RunState:
    """The last manifest, the sources' states, the versions of the operators' states, and which input has ended.

    `max_parallelism` is what the versions were written with (0: there are none), `fields` are the ids of the program's
    stored fields, `known` are the sources that the last manifest has, `finished` those from which this run has read all
    that is there now, `detached` those that the program does not read.
    """

    def __init__(self, lineage: str) -> None:
        self.lineage = lineage
        self.last: Manifest | None = None
        self.sources: dict[str, SourceState] = {}
        self.versions: dict[str, tuple[ShardVersion, ...]] = {}
        self.max_parallelism = 0
        self.known: set[str] = set()
        self.finished: set[str] = set()
        self.detached: tuple[SourceState, ...] = ()
        self.fields = FieldIds({})

    def start_from(self, last: Manifest | None, program: Program, begun: EpochPlan | None = None) -> None:
        """Go on from a manifest, or from the beginning of each source that it does not know.

        Of one that starts once, that is where the epoch starts that was `begun` after the manifest, whether it is replayed
        or given up.
        """
        self.last = last
        fields = FieldIds({}) if last is None else last.field_ids
        self.fields = fields.after(program.plan.states, program.transition.came_from)
        specs = program.plan.sources
        positions = () if last is None else last.positions
        known = go_on(positions, specs)
        taken = {(state.identity, state.folder) for state in known.values()}
        self.detached = tuple(state for state in positions if (state.identity, state.folder) not in taken)
        self.known = set(known)
        self.sources = {spec.name: known.get(spec.name) or _beginning(spec, program, begun) for spec in specs}
        if last is not None:
            self.lineage = last.lineage
            self.max_parallelism = last.max_parallelism
            self.versions = {
                state.state_id: tuple(ShardVersion.from_json(shard) for shard in state.shards)
                for state in last.states
            }

    def void(self, manifest: Manifest, program: Program) -> None:
        """Go on behind an epoch whose number was given up, from where it began."""
        self.start_from(manifest, program)

    def resume(self, plan: EpochPlan) -> None:
        """Take over what a plan says of drained sources that have new input; one about state and sinks reads none."""
        for source in () if plan.is_state_only else plan.sources:
            state = self.sources[source.name]
            if state.drained and (source.splits or not source.exhausted):
                self.sources[source.name] = watermarks.resumed(state)
            elif state.drained:
                self.finished.add(source.name)

    def adopt(self, facts: Epoch) -> None:
        """Go on from an epoch that is committed."""
        self.last = facts.manifest
        self.sources = {state.name: state for state in facts.manifest.sources}
        self.known = set(self.sources)
        self.versions = dict(facts.outcome.states)
        self.max_parallelism = facts.manifest.max_parallelism
        self.finished |= {source.name for source in facts.plan.sources if source.exhausted}


def _beginning(spec: SourceSpec, program: Program, begun: EpochPlan | None) -> SourceState:
    """The state of a source of which nothing was read."""
    decided = {
        source.name: source.start
        for source in (() if begun is None else begun.sources)
        if (source.connector, source.starts) == (spec.connector, spec.identity) and spec.identity
    }
    if decided:
        start = decided.get(spec.name, next(iter(decided.values())))
    else:
        start = program.sources[spec.name].initial_position()
    return SourceState(
        spec.name,
        spec.connector,
        start,
        identity=spec.identity,
        folder=program.source_folders[spec.name],
        rows=0,
        malformed=0,
    )
