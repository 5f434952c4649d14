"""What a plan of an edit consists of, as plain data: against what it is, and a part for each source, state and sink."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from sqlstream.runtime.edits.consent import Consent, ConsentNeededError
from sqlstream.runtime.edits.history.readings import Reading
from sqlstream.runtime.edits.sinks.sink_edit import SinkEdit
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span
from sqlstream_planner.edits.verdict import FieldEdit, StateEdit, Verdict
from sqlstream_planner.explain.meaning import shown_meanings


@dataclass(frozen=True, slots=True)
class Against:
    """The state that a plan is made against: that after `epoch` of a state directory, or a savepoint of it.

    `at` is when it was made, µs since 1970 (None: not known). Rows and bytes are those of all states.
    """

    state_dir: str
    epoch: int
    savepoint: str
    at: int | None
    rows: int
    bytes: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return dataclasses.asdict(self) | {"savepoint": self.savepoint or None}


@dataclass(frozen=True, slots=True)
class Size:
    """How large the old state is, keys and values: an estimate where rows were written over."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StatePart:
    """What becomes of one operator's state.

    `edit` is the verdict and `fields` those about its fields; of a state that is dropped these are all that it has. `size`
    is that of the old state (None: there is none, or it is not known), `readings` what is read again to compute the rest.
    """

    edit: StateEdit
    title: str
    was: str
    fields: tuple[FieldEdit, ...]
    size: Size | None = None
    readings: tuple[Reading, ...] = ()

    @property
    def name(self) -> str:
        """The operator's name in its plan, as `explain` shows it."""
        return self.edit.step

    @property
    def shown_verdict(self) -> str:
        """The verdict in one word: of a state that is kept but for some fields, what becomes of these."""
        found = {self.edit.verdict, *(field.verdict for field in self.fields)}
        order = (Verdict.BACKFILL, Verdict.FRESH, Verdict.ADAPT, Verdict.KEEP)
        return next((verdict for verdict in order if verdict in found), self.edit.verdict).value

    @property
    def changes(self) -> bool:
        """Whether it is not simply kept, or means less than it did."""
        return self.edit.verdict is not Verdict.KEEP or any(
            f.verdict is not Verdict.KEEP for f in self.fields
        )

    @property
    def reason(self) -> str:
        """Why the verdict is so, "" where that is plain."""
        lost = [f for f in self.fields if f.verdict is Verdict.BACKFILL]
        if self.edit.reason or self.edit.old is None or not lost:
            return self.edit.reason
        names = shown_meanings(f.meaning for f in lost)
        return f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} not kept"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        derivation = self.edit.derivation
        return {
            "name": self.name,
            "state": self.edit.state.state_id,
            "title": self.title,
            "was": self.was or None,
            "verdict": self.edit.verdict.value,
            "reason": self.reason,
            "rule": None if derivation is None else derivation.rule,
            "place": place(self.edit.at),
            "rows": None if self.size is None else self.size.rows,
            "bytes": None if self.size is None else self.size.bytes,
            "reads": [reading.to_json() for reading in self.readings],
            "fields": [
                {
                    "verdict": f.verdict.value,
                    "table": f.table,
                    "part": f.part,
                    "name": f.name,
                    "meaning": f.meaning,
                    "reason": f.reason,
                    "place": place(f.at),
                }
                for f in self.fields
            ],
        }


class SourceChange(StrEnum):
    """What a source is to the state."""

    READS_ON = "reads on"
    NEW = "new"
    GONE = "no longer read"
    OTHER = "other data"


@dataclass(frozen=True, slots=True)
class SourcePart:
    """What is read of one source: `position` is where it goes on (None: at its beginning), `rows` how many it has read.

    `was` is the name of its table before, "" if it had the same.
    """

    name: str
    connector: str
    change: SourceChange
    was: str = ""
    position: Mapping[str, Any] | None = None
    rows: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "name": self.name,
            "connector": self.connector,
            "change": self.change.value,
            "was": self.was or None,
            "position": None if self.position is None else dict(self.position),
            "rows": self.rows,
        }


class SinkChange(StrEnum):
    """What an edit means to a sink."""

    GOES_ON = "goes on"
    BROUGHT = "reconciled with the new result"
    WHOLE = "gets the full result"
    REPLACED = "gets the full result anew"
    FROM_NOW_ON = "from now on"
    DROPPED = "no longer written"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SinkPart:
    """What one sink gets: `detail` says more, `notes` what differs, `at` is the place in the new file.

    `result` is a sentence about what it does not have, "" if it is all of the new query's result. `diagnostics` are what a
    run reports of it: a refusal is an error. One that `is_new` was not there before in the state's pipeline;
    `from_history` it is given what the sources have had for it so far, which `readings` read again.
    """

    name: str
    connector: str
    change: SinkChange
    detail: str = ""
    notes: tuple[str, ...] = ()
    at: Span | None = None
    result: str = ""
    diagnostics: tuple[Diagnostic, ...] = ()
    is_new: bool = False
    from_history: bool = False
    readings: tuple[Reading, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "name": self.name,
            "connector": self.connector,
            "change": self.change.value,
            "detail": self.detail,
            "notes": list(self.notes),
            "reads": [reading.to_json() for reading in self.readings],
            "place": place(self.at),
        }


@dataclass(frozen=True, slots=True)
class EditPlan:
    """All that happens when a pipeline goes on from a state with another file: what `plan` shows and `run` does.

    `against` is None where there is no state: two files that are compared (`is_diff`), or a first run. `problems` say why it
    is refused, `warnings` what a run would warn of. `results` are sentences about what the results are not, or from when on;
    nothing if they are exactly those of the new query over all of the input. `sink_edits` is what was decided about sinks.
    `remarks` are of the state as it is, and no change: which sources were drained.
    """

    against: Against | None
    states: tuple[StatePart, ...] = ()
    sources: tuple[SourcePart, ...] = ()
    sinks: tuple[SinkPart, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    consents: tuple[Consent, ...] = ()
    results: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    is_diff: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    sink_edits: tuple[SinkEdit, ...] = ()
    other_rows: frozenset[str] = frozenset()
    withdrawn: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def beside(self, state_dirs: str, notes: Sequence[str]) -> EditPlan:
        """The same against a savepoint that is in `state_dirs`; `notes` is about it."""
        if self.against is None:
            return self
        return dataclasses.replace(
            self,
            against=dataclasses.replace(self.against, state_dir=state_dirs),
            notes=(*self.notes, *notes),
        )

    def check(self) -> None:
        """Raise DiagnosticError unless a run may carry it out: refused (exit code 4), or ConsentNeededError (3)."""
        if self.problems:
            raise DiagnosticError(*self.problems, exit_code=4)
        if self.consents:
            raise ConsentNeededError(*self.consents)

    @property
    def edits(self) -> tuple[StateEdit, ...]:
        """What becomes of the states; nothing if all go on as they are."""
        edits = tuple(state.edit for state in self.states)
        return () if all(edit.is_same for edit in edits) else edits

    @property
    def reemitted(self) -> tuple[str, ...]:
        """The sinks that have the result of another query and are reconciled with the new one's."""
        return tuple(sink.name for sink in self.sinks if sink.change is SinkChange.BROUGHT)

    @property
    def new_sinks(self) -> tuple[str, ...]:
        """The sinks that were not there before."""
        return tuple(sink.name for sink in self.sinks if sink.is_new)

    @property
    def from_history(self) -> tuple[str, ...]:
        """Those of the new sinks that are given what the sources have had for them."""
        return tuple(sink.name for sink in self.sinks if sink.from_history)

    @property
    def exit_code(self) -> int:
        """0 nothing to consent to, 3 consent needed, 4 refused."""
        return 4 if self.problems else 3 if self.consents else 0

    @property
    def is_first(self) -> bool:
        """Whether there is nothing to go on from."""
        return self.against is None and not self.is_diff

    @property
    def changes(self) -> bool:
        """Whether anything at all is other than before."""
        return bool(
            self.problems
            or self.notes
            or any(state.changes for state in self.states)
            or any(source.change is not SourceChange.READS_ON for source in self.sources)
            or any(sink.change is not SinkChange.GOES_ON for sink in self.sinks)
        )

    @property
    def summary(self) -> str:
        """All of it in one line."""
        if self.is_first:
            return "Nothing is kept yet: a run reads everything, and the result is exact."
        if self.problems:
            refused = len(self.problems)
            return f"Refused: {refused} error{'' if refused == 1 else 's'}."
        if not self.changes:
            return f"Nothing changes: all state is kept. {self._exact}"
        words = {
            "KEEP": "kept",
            "ADAPT": "adapted",
            "BACKFILL": "backfilled",
            "FRESH": "fresh",
            "DROP": "dropped",
        }
        found = [(self.counts.get(verdict, 0), word) for verdict, word in words.items()]
        counted = [f"{number} {word}" for number, word in found if number]
        if counted:
            number, _, rest = counted[0].partition(" ")
            counted[0] = f"{number} field{'' if number == '1' else 's'} {rest}"
        first = f"{', '.join(counted)}. " if counted else ""
        return first + (" ".join(self.results) or self._exact)

    @property
    def _exact(self) -> str:
        """The sentence where the results are the new query's; rows that come behind a drained end may be late."""
        return f"The result is exact{' for what was read before the drain' if self.remarks else ''}."

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "against": None if self.against is None else self.against.to_json(),
            "changes": self.changes,
            "exact": not self.results and not self.problems,
            "states": [state.to_json() for state in self.states],
            "sources": [source.to_json() for source in self.sources],
            "sinks": [sink.to_json() for sink in self.sinks],
            "notes": [*self.notes, *self.remarks],
            "problems": [problem.to_json() for problem in self.problems],
            "warnings": [warning.to_json() for warning in self.warnings],
            "consents": [consent.to_json() for consent in self.consents],
            "counts": dict(self.counts),
            "results": list(self.results),
            "summary": self.summary,
            "exit_code": self.exit_code,
        }


def place(at: Span | None) -> dict[str, Any] | None:
    """A place as JSON data."""
    return None if at is None else dataclasses.asdict(at)
