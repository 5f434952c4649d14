"""What may become of a sink when its pipeline is edited: the words for it, and what it begins with where it is new."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Protocol

from sqlstream.connectors.api import TargetEdit
from sqlstream.runtime.edits.consent import Consent
from sqlstream.runtime.edits.sinks.sink_places import Looks
from sqlstream.runtime.edits.states.forgetting import NOTHING_FORGOTTEN, Forgotten
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_operators.plan.cut_down import sources_of_sink
from sqlstream_operators.plan.spec import PhysicalPlan, SinkSpec
from sqlstream_planner.diagnostics import Diagnostic, Written
from sqlstream_planner.identity.sink import Holds, read_sink_identity

NOWHERE: Mapping[str, Written] = MappingProxyType({})

NOTHING_CHANGED = "nothing was changed"

START_OVER = "run the file that wrote this state, or give another --state-dir and an empty table or folder to start over"


class Begins(Enum):
    """What a sink begins with that is new, or begins anew."""

    ANSWER = "the full result, which is in the state"
    NOTHING_READ = "all of its input, of which nothing was read so far"
    NOW = "what is read from now on, as was accepted"
    HISTORY = "what the sources have had for it so far"


class OtherRows(Protocol):
    """Knows which sources have other rows for a new plan than they had for the old one."""

    def other_sinks(self, sinks: Iterable[tuple[str, str]]) -> frozenset[str]:
        """Those sinks, of pairs of old and new names, that hold what was computed of other rows; by their new names."""
        ...


@dataclass(frozen=True, slots=True)
class Given:
    """The options of a command, and what is known beside the two plans.

    `same_text`: both plans were made of the same SQL. Of the sources `unread` nothing was read so far. `accept` is what was
    consented to, `rewrite` are sinks that are to begin anew. Of the sources `apart` several savepoints, which are put
    together, have given on different parts. `names`: by which targets know the former tables. States may
    have `forgotten` keys. A target that goes on is at one of the `epochs`. `other_rows` says what was computed of rows of
    which others could be read than now.
    """

    same_text: bool = False
    written: Mapping[str, Written] = field(default_factory=lambda: NOWHERE)
    unread: Collection[str] = ()
    apart: Collection[str] = ()
    accept: Collection[str] = ()
    rewrite: Collection[str] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    looks: Looks = field(default_factory=Looks)
    epochs: Collection[int] = ()
    forgotten: Forgotten = NOTHING_FORGOTTEN
    other_rows: OtherRows | None = None

    def holds_other_rows(self, former: SinkSpec, spec: SinkSpec) -> bool:
        """Whether the content of a sink was computed from other rows than its query reads now."""
        return self.other_rows is not None and bool(self.other_rows.other_sinks([(former.name, spec.name)]))

    def accepts(self, what: str, name: str) -> bool:
        """Whether it was consented to `what` (`fresh`, `alter`) of a sink."""
        return f"{what}:{name}" in self.accept or f"{what}:all" in self.accept


@dataclass(frozen=True, slots=True)
class SinkEdit:
    """What becomes of one sink.

    `former` is the sink that it goes on from (None: it is new, or elsewhere), `known_as` the name that its target knows it
    by. `begins` is what it is given first where it does not simply go on, `reemitted`: it is reconciled with the new
    result, both being in the state. `target` is what is done to its target. `diagnostics` are warnings, and errors
    that refuse it; `consents` are those that are required.
    """

    spec: SinkSpec
    former: SinkSpec | None
    known_as: str
    begins: Begins | None = None
    reemitted: bool = False
    target: TargetEdit | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    consents: tuple[Consent, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether nothing of this state directory is in its target."""
        return self.former is None or self.target is TargetEdit.REWRITE

    @property
    def from_history(self) -> bool:
        """Whether the sources' history is read again for it."""
        return self.begins is Begins.HISTORY


def beginning(spec: SinkSpec, now: PhysicalPlan, given: Given) -> Begins:
    """What a sink begins with of which nothing is there."""
    if answer_is_kept(now, spec, given.forgotten):
        return Begins.ANSWER
    if set(sources_of_sink(now, spec.name)).issubset(given.unread):
        return Begins.NOTHING_READ
    if given.accepts("fresh", spec.name) and spec.changelog == "append":
        return Begins.NOW
    return Begins.HISTORY


def answer_is_kept(now: PhysicalPlan, spec: SinkSpec, forgotten: Forgotten) -> bool:
    """Whether a new sink is given its result from the state: all of it, or what state that has forgotten keys still has.

    That is what such state will retract; rows that are never retracted are whole only in the sources' history.
    """
    forgetful = () if spec.changelog == "retract" else forgotten.now
    return not missing_answers(now, spec.name, forgetful=forgetful)


def holds_rows(spec: SinkSpec) -> bool:
    """Whether anything that a sink was given stays anywhere; of one that is not known, it does."""
    identity = read_sink_identity(spec.identity)
    return identity is None or identity.holds is not Holds.NOTHING


def not_there(name: str) -> Diagnostic:
    """What is reported of a sink whose options say that it is elsewhere now, if it has not there what was committed."""
    return Diagnostic(
        "STA015",
        f"the table `{name}` has other options than before, and is not at that target",
        notes=("a table may be moved with all that it has, and is found there then",),
        help=f"{START_OVER}; {NOTHING_CHANGED}",
    )
