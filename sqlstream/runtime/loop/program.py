"""What the epoch loop runs, and with which settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlstream.connectors.api import Dimension, Sink, Source, TargetEdit
from sqlstream.runtime.loop.admission import Admission
from sqlstream.runtime.loop.letter_budget import LetterBudget
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.edits.verdict import StateEdit
from sqlstream_planner.secrets.references import Secrets

#: How long to wait when no source has anything new, unless a source asks for another interval.
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """How the loop runs a program: shards, limits, and the directories that tasks need.

    `tasks` says how many splits of a source are useful (tasks that run at the same time), `poll_s` how long to
    wait when nothing is new, and between epochs that read little. `letters` is how many dead letters there may be.
    `max_epochs` ends the run early, for tests. `drain`: at the end of what the sources have, their watermarks go to the end,
    so that all that is open closes; without it windows stay open for the next run.
    """

    parallelism: int
    base_dir: str
    local_dir: str
    admission: Admission = field(default_factory=Admission)
    tasks: Callable[[], int] = lambda: 4
    poll_s: float = POLL_S
    max_epochs: int | None = None
    letters: LetterBudget = field(default_factory=LetterBudget)
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What the loop runs: the plan, as text too, its fingerprint, and the driver's halves of its connectors.

    `sql` is what it was made of, rendered and without secrets (None: it is not told). `source_folders` are the sources' own
    in the state directory. `former_sinks` are those of the program that wrote the last manifest, to commit it again; of
    them `moved` have other options now, and say themselves whether they have what was committed, and `left` are not written
    any more where they are. `former_names` are what sinks were called in that program, `known_as` the names that their
    targets know them by, where these are others.
    `secrets` are what references in the plan stand for. `restated` are sinks whose query was edited above its state, and
    which are to get the new answer for the old one; `new_sinks` get it for the first time, those in
    `from_history` from what the sources have read so far. `sink_edits` is what is done to targets before: those that are
    begun anew or have their rows replaced get the whole answer, too. `edits` are what becomes of
    the states since the plan that wrote the last manifest, empty if that is this one.
    `ends` are for sources that are read again up to a position: the watermark (µs) that each had there, which it is at when
    it has ended, and never beyond. Any other source is at +infinity once it is drained. `of_history`: the program reads
    again what was read before; tasks leave what they have for sinks in the checkpoint store, for the driver's halves to
    keep. `dimensions` are the tables that lookup joins read. Of the sources with `other_rows` an edit may read rows that
    could not be read before; `withdrawn` are those of which all that was told of such rows is told anew, with the names of
    their tables so far.
    """

    plan: PhysicalPlan
    text: bytes
    fingerprint: str
    sources: Mapping[str, Source]
    source_folders: Mapping[str, str]
    sinks: Mapping[str, Sink]
    former_sinks: Mapping[str, Sink]
    moved: frozenset[str] = frozenset()
    restated: tuple[str, ...] = ()
    new_sinks: tuple[str, ...] = ()
    from_history: tuple[str, ...] = ()
    sink_edits: Mapping[str, TargetEdit] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    former_names: Mapping[str, str] = field(default_factory=dict)
    known_as: Mapping[str, str] = field(default_factory=dict)
    edits: tuple[StateEdit, ...] = ()
    sql: str | None = None
    ends: Mapping[str, int] = field(default_factory=dict)
    of_history: bool = False
    dimensions: Mapping[str, Dimension] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=Secrets)
    other_rows: frozenset[str] = frozenset()
    withdrawn: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
