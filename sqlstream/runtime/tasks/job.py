"""What runs an epoch, as a protocol: the loop hands over an `EpochJob` and gets an `EpochOutcome` back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sqlstream.storage.epoch_history import SHOWN_TASKS, TaskFigures
from sqlstream.storage.manifest import EpochPlan
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.catalog.secrets import Secrets

if TYPE_CHECKING:
    from sqlstream.connectors.api import SinkPart


@dataclass(frozen=True, slots=True)
class EpochJob:
    """An epoch to run: the program, what it reads, and the state that it starts from.

    `states` has the shards' versions of every state at the parent epoch (none: empty), `states_max_parallelism` what they
    were written with (0: the program's). `store_uri` is the state directory, `local_dir` scratch on each machine for caches
    of state, `base_dir` what relative paths in connector options refer to. `secrets` are what references in the program
    stand for: they go with the job. `retracts`: it retracts the results that the epoch re-emits, as a former program gave
    them. `of_history`: it reads again what main epochs have read: what is for sinks stays in the checkpoint store,
    whatever their connectors are, and its rows are before any that come from then on. `latest` are the watermarks (µs) that
    sources had where that ends: a row beyond it was too far ahead of the clock then, and does not count now.
    """

    program: PhysicalPlan
    plan: EpochPlan
    states: Mapping[str, tuple[ShardVersion, ...]]
    store_uri: str
    local_dir: str
    base_dir: str
    secrets: Secrets = field(default_factory=Secrets)
    retracts: bool = False
    of_history: bool = False
    latest: Mapping[str, int] = field(default_factory=dict)
    states_max_parallelism: int = 0


@dataclass(frozen=True, slots=True)
class SourceOutcome:
    """What was read of a source: rows, and the greatest watermark expression in µs (None: no row had one).

    `malformed`: how many of the rows could not be read, and are dead letters. `ahead` rows are too far ahead of the epoch's
    clock to count for the watermark. `lanes` has the watermark by lane; a source of one lane calls it "".
    """

    rows: int = 0
    watermark: int | None = None
    malformed: int = 0
    ahead: int = 0
    lanes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EpochOutcome:
    """What an epoch's tasks made, put together and in a fixed order.

    `states`: the new versions by state, one per shard. `parts`: by sink, in the order of tasks. `closed`: by
    operator step, the greatest end (µs) of a window that was emitted. `dead_letters`: rows by kind, which are in the
    staged `dead_letter_files`. `metrics`: sums over all tasks. `forgotten`: by operator step, how many keys its state has
    forgotten, if any. `uncounted`: by table and operator, its rows that were late or had no time. `made`: by operator step,
    the rows that it gave. `tasks`: what each task did.
    """

    sources: Mapping[str, SourceOutcome]
    states: Mapping[str, tuple[ShardVersion, ...]]
    parts: Mapping[str, tuple[SinkPart, ...]]
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    dead_letter_files: tuple[str, ...] = ()
    closed: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    forgotten: Mapping[str, int] = field(default_factory=dict)
    uncounted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    made: Mapping[str, int] = field(default_factory=dict)
    tasks: tuple[TaskFigures, ...] = field(default=(), compare=False)

    @property
    def slowest_tasks(self) -> tuple[TaskFigures, ...]:
        """Those of its tasks that are shown, the slowest first."""
        return tuple(sorted(self.tasks, key=lambda task: task.total_us, reverse=True)[:SHOWN_TASKS])


class JobRunner(Protocol):
    """Runs epochs. The same job gives the same outcome, however often and wherever it runs."""

    def make_ready(self, job: EpochJob | None = None) -> bool:
        """Start what runs `job` (None: what runs any), which may take seconds; False if it ran already.

        Raises DiagnosticError.
        """
        ...

    def run(self, job: EpochJob) -> EpochOutcome:
        """Run one epoch. Raises DiagnosticError: exit code 1 for the user's data, 4 for damaged state."""
        ...

    @property
    def parallelism(self) -> int:
        """How many tasks run at the same time: the default number of shards. May start what runs them."""
        ...

    @property
    def known_parallelism(self) -> int | None:
        """The same as far as it is known before the first epoch runs; None: it is not."""
        ...

    def close(self) -> None:
        """Give back what the runner holds."""
        ...
