"""What the epoch loop runs, and with which settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlstream.connectors.api import Dimension, Sink, Source
from sqlstream.runtime.loop.admission import Admission
from sqlstream.runtime.loop.dead_letter_budget import DeadLetterBudget
from sqlstream.runtime.loop.transition import NO_TRANSITION, Transition
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import Diagnostic

#: How long to wait when no source has anything new, unless a source asks for another interval.
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How the loop runs a program: shards, limits, and the directories that tasks need.

    `tasks` says how many splits of a source are useful (tasks that run at the same time), `poll_s` how long to
    wait when nothing is new, and at most between epochs that read little; `interval_s` is what the user wants there.
    `letters` is how many dead letters there may be.
    `max_epochs` ends the run early, for tests. `drain`: at the end of what the sources have, their watermarks go to the end,
    so that all that is open closes; without it windows stay open for the next run.
    """

    parallelism: int
    base_dir: str
    local_dir: str
    admission: Admission = field(default_factory=Admission)
    tasks: Callable[[], int] = lambda: 4
    poll_s: float = POLL_S
    interval_s: float | None = None
    max_epochs: int | None = None
    letters: DeadLetterBudget = field(default_factory=DeadLetterBudget)
    drain: bool = False


@dataclass(frozen=True, slots=True)
class FormerSink:
    """The driver's half of a sink of the program that wrote the last manifest, to commit that once more.

    `not_there` is the error if it has other options now and does not have what was committed. `left`: it is written no
    more where it is. `emptied`: its target is begun anew where it is, and what it had is gone.
    """

    sink: Sink
    not_there: Diagnostic | None = None
    left: bool = False
    emptied: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What the loop runs: the plan, as text too, its fingerprint, and the driver's halves of its connectors.

    `sql` is what it was made of, rendered and without secrets (None: it is not known). `source_folders` are the sources' own
    in the state directory. `former_sinks` are those of the program that wrote the last manifest, by their names in it;
    `known_as` has the names that targets know the sinks by, where these are others. `transition` is what the edit since
    that program means. `secrets` are what references in the plan stand for.
    `ends` are for sources that are read again up to a position: the watermark (µs) that each had there, which it is at when
    it has ended, and never beyond. Any other source is at +infinity once it is drained. `of_history`: the program reads
    again what was read before; tasks leave what they have for sinks in the checkpoint store, for the driver's halves to
    keep. `dimensions` are the tables that lookup joins read.
    """

    plan: PhysicalPlan
    text: bytes
    fingerprint: str
    sources: Mapping[str, Source]
    source_folders: Mapping[str, str]
    sinks: Mapping[str, Sink]
    former_sinks: Mapping[str, FormerSink]
    transition: Transition = NO_TRANSITION
    known_as: Mapping[str, str] = field(default_factory=dict)
    sql: str | None = None
    ends: Mapping[str, int] = field(default_factory=dict)
    of_history: bool = False
    dimensions: Mapping[str, Dimension] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)
