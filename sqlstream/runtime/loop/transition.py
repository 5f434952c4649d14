"""An edit of the query as the loop sees it: one plain value, which one epoch carries out before anything more is read.

What it says is decided in `runtime/edits/transition.py`. What the sources' history gives is computed only once the epoch
that began is decided, so that comes through a port (`ReadHistory`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlstream.connectors.api import SinkPart, TargetEdit
from sqlstream.runtime.tasks.job import EpochJob, JobRunner
from sqlstream.storage.manifest import Manifest, SourceState
from sqlstream_operators.plan.spec import FragmentStep, PhysicalPlan, SinkSpec
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.edits.verdict import NOW_US

Versions = Mapping[str, tuple[ShardVersion, ...]]
#: A job that makes states reads those of the old plan, and what was backfilled, under their ids with these endings.
BEFORE, BACKFILLED = "~before", "~backfilled"


@dataclass(frozen=True, slots=True)
class StateChanges:
    """Where the states of the new plan come from, all by their ids.

    `kept` go on with the versions of an old state, `empty` begin with nothing, `backfilled` are what the sources' history
    gave. All others are made by `job` (None: there are none), whose stages read states in place of sources.
    """

    kept: Mapping[str, str] = field(default_factory=dict)
    empty: frozenset[str] = frozenset()
    backfilled: frozenset[str] = frozenset()
    job: PhysicalPlan | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """What an edit of the query means to the program that runs from now on; nothing, if it was not edited.

    `due`: an epoch must carry it out; else it was done, or there is nothing to do. `given` are sinks that get the full
    result which the state has by then: those that are `new_sinks`, those whose `targets` are filled anew, and those whose
    result by the plan with the digest `retracts` is retracted ("": none is). `targets` says what is done to targets
    before, `former_names` what sinks were called in the plan before this one. With `adapts` the epoch makes the `states` of
    the new plan (None: they are those of the old one). `needs_history` are states and `from_history` sinks that get what
    the sources have had so far. `came_from` has old ids of states by their new ones, `forgotten` how many keys the states
    have forgotten once they are made (None: as before), `edits` what the manifest says of all this, `withdrawn` the tables
    whose malformed rows are reported anew.
    """

    due: bool = False
    given: tuple[str, ...] = ()
    retracts: str = ""
    adapts: bool = False
    new_sinks: tuple[str, ...] = ()
    targets: Mapping[str, TargetEdit] = field(default_factory=dict)
    former_names: Mapping[str, str] = field(default_factory=dict)
    states: StateChanges | None = None
    needs_history: frozenset[str] = frozenset()
    from_history: tuple[str, ...] = ()
    came_from: Mapping[str, str] = field(default_factory=dict)
    forgotten: Mapping[str, int] | None = None
    edits: tuple[Mapping[str, Any], ...] = ()
    withdrawn: tuple[str, ...] = ()

    @property
    def reads_history(self) -> bool:
        """Whether anything of it needs what the sources have had so far."""
        return bool(self.needs_history or self.from_history)


NO_TRANSITION = Transition()


class History(Protocol):
    """What was computed from the sources' history: states, rows for sinks, and how far the sources are, by name."""

    @property
    def versions(self) -> Versions:
        """The states, by their ids."""
        ...

    def rows_for(self, sink: SinkSpec, epoch: int) -> tuple[SinkPart, ...]:
        """The rows that the history has for a sink, as parts that `epoch` commits."""
        ...

    @property
    def sources(self) -> Mapping[str, SourceState]:
        """The sources as the run goes on with them."""
        ...

    def letters(self, epoch: int) -> tuple[str, int] | None:
        """The rows of sources that could not be read, staged as dead letters of `epoch`: a file, and how many."""
        ...


#: Computes what a transition needs of the history that ends with a manifest; None if it was stopped.
ReadHistory = Callable[[Manifest], History | None]


def states_after(
    changes: StateChanges, job: EpochJob, runner: JobRunner, history: History | None
) -> dict[str, tuple[ShardVersion, ...]]:
    """The states of the new plan; `job` is that of the epoch that carries the transition out, with the old states."""
    backfilled: Versions = {} if history is None else history.versions
    states = {id_: job.states.get(was, ()) for id_, was in changes.kept.items()}
    states |= dict.fromkeys(changes.empty, ())
    states |= {id_: backfilled[id_] for id_ in changes.backfilled}
    if changes.job is not None:
        read = {f"{id_}{BEFORE}": versions for id_, versions in job.states.items()}
        read |= {f"{id_}{BACKFILLED}": versions for id_, versions in backfilled.items()}
        plan = replace(job.plan, sources=(), reemitted=())
        program = with_clock(changes.job, job.plan.now_us)
        made = runner.run(replace(job, program=program, plan=plan, states=read)).states
        # The epoch itself goes on from them.
        before = job.plan.epoch - 1
        states |= {id_: tuple(replace(v, version=before) for v in shards) for id_, shards in made.items()}
    return states


def with_clock(plan: PhysicalPlan, now_us: int) -> PhysicalPlan:
    """A plan that makes states, with the clock of the epoch that carries it out (µs since 1970) in its SQL."""
    return replace(
        plan,
        stages=tuple(
            replace(
                stage,
                steps=tuple(
                    replace(step, sql=step.sql.replace(NOW_US, str(now_us)))
                    if isinstance(step, FragmentStep)
                    else step
                    for step in stage.steps
                ),
            )
            for stage in plan.stages
        ),
    )
