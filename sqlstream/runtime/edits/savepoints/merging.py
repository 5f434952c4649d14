"""Several savepoints put together into one, as if one pipeline had made them all: what a file begins with that joins others.

State is found by what it means, so all that must be decided is what goes together:

- *Positions.* State is of the rows that were read up to a position. Data that several savepoints have read goes on from
  where one of them stands: the one that has read most of it, the first of equals. What another one has of this data goes
  along if it has read the very same rows; otherwise it is left out, and computed anew if it is wanted.
- *Watermarks.* Windows go along if the watermark that was applied is the same too: where it is behind, windows are open that
  would not be given any more, where it is ahead, some are gone that would be given again. Input that has ended has closed
  all of them.
- *Names.* Ids of states, which say what they mean, are kept; of two with one id either will do. All else that may collide
  is named anew: folders of sources, tables of other data, ids of fields, stages.
- *Sinks* are none: all are new beside a savepoint. What is only appended to goes on where the data does: if the savepoints
  do not stand at one place, one of them has not given on what is before that, and that must be agreed to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlstream.connectors.api import Accountable, Source
from sqlstream.connectors.capabilities import close
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.runtime.edits.sources.source_folders import copied_folder
from sqlstream.runtime.loop.forgotten_keys import known_forgotten
from sqlstream.runtime.loop.recovery import former_plan, program_fingerprint
from sqlstream.storage.journal import Journal, digest_of
from sqlstream.storage.manifest import DeadLetterTally, Manifest, SourceState, StateVersions, alike
from sqlstream.storage.savepoints import Savepoint
from sqlstream_operators.plan import plan_json
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.spec import LateStep, OperatorStep, PhysicalPlan, SourceSpec
from sqlstream_operators.plan.united import united
from sqlstream_operators.plan.watermarks import WATERMARK_MIN
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted

#: Makes the driver's half of a source, which has this folder of this store for itself.
SourceOf = Callable[[SourceSpec, CheckpointStore, str], Source]
#: Which data a source has: its connector, and its identity.
_Data = tuple[str, str]


@dataclass(slots=True)
class _Part:
    """One of the savepoints: its plan, which of its states are taken, and what becomes of its sources, by their names."""

    origin: Origin
    plan: PhysicalPlan
    states: dict[str, StateVersions]
    sources: dict[str, SourceState]
    called: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.origin.store.uri}@{self.origin.savepoint.name}"

    @property
    def manifest(self) -> Manifest:
        return self.origin.savepoint.manifest

    def tables(self, data: _Data) -> list[SourceState]:
        return [state for state in self.sources.values() if _data(state) == data]

    def made_of(self, data: _Data) -> list[str]:
        """The states that have rows of some data."""
        names = {state.name for state in self.manifest.sources if _data(state) == data}
        return [id_ for id_ in self.states if names & {s.name for s in cut_down(self.plan, {id_}).sources}]

    def leave(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            del self.states[id_]


def put_together(origins: Sequence[Origin], scratch: CheckpointStore, source_of: SourceOf) -> Origin:
    """One savepoint with what several have, in `scratch`, which is empty; the files of the states stay where they are.

    Raises DiagnosticError: SAV008 if they can't go together, STA001 for a damaged file.
    """
    if len(origins) == 1:
        return origins[0]
    parts = [_part(origin) for origin in origins]
    _check(parts)
    notes: dict[_Data, list[str]] = {}
    folders = _Folders(scratch)
    sources: list[SourceState] = []
    for data in dict.fromkeys(_data(state) for part in parts for state in part.manifest.sources):
        sources += _together(data, parts, folders, source_of, notes)
    detached = _parked(parts, {_data(state) for state in sources}, folders)
    now_us = max(part.manifest.now_us for part in parts)
    found_notes = [
        note for part in parts if part.manifest.now_us < now_us for note in _behind_the_clock(part)
    ]
    states: list[StateVersions] = []
    seen: set[str] = set()
    last_id = 0
    forgotten: dict[str, int] = {}
    for part in parts:
        part.leave([id_ for id_ in part.states if id_ in seen])
        seen |= part.states.keys()
        for versions in part.states.values():
            stored = tuple(replace(f, id=f.id + last_id) for f in versions.fields)
            states.append(replace(versions, fields=stored))
        counted_there = known_forgotten(part.manifest, part.plan)
        forgotten |= {id_: keys for id_, keys in counted_there.items() if id_ in part.states}
        last_id += part.manifest.last_field_id
    plan = united((part.plan, part.states.keys(), part.called) for part in parts)
    manifests = [part.manifest for part in parts]
    journal = Journal(scratch)
    caps = [m.rows_cap for m in manifests if m.rows_cap is not None]
    manifest = replace(
        manifests[0],
        epoch=max(m.epoch for m in manifests),
        fingerprint=program_fingerprint(plan),
        plan_digest=journal.put_physical_plan(plan_json.to_text(plan).encode()),
        sql_digest=_sql(parts, journal),
        parallelism=max(m.parallelism for m in manifests),
        sources=tuple(sources),
        detached=tuple(detached),
        states=tuple(states),
        last_field_id=last_id,
        now_us=now_us,
        forgotten=forgotten,
        rows_cap=min(caps, key=lambda cap: cap.rows) if caps else None,
        tally=DeadLetterTally(
            *(
                sum(n)
                for n in zip(
                    *((m.tally.total, m.tally.rows, m.tally.letters, m.tally.failed) for m in manifests),
                    strict=True,
                )
            )
        ),
        moved={known: as_ for m in manifests for known, as_ in m.moved.items()},
        rows={},
        metrics={},
        origin="",
    )
    named = [part.origin.savepoint for part in parts]
    savepoint = Savepoint(
        " + ".join(s.name for s in named),
        digest_of(" ".join(map(str, named)).encode())[:8],
        max(s.created for s in named),
        manifest,
    )
    found_notes += [note for of_data in notes.values() for note in of_data]
    return Origin(scratch, savepoint, tuple(origins), tuple(found_notes), frozenset(notes))


def _part(origin: Origin) -> _Part:
    manifest = origin.savepoint.manifest
    return _Part(
        origin,
        former_plan(Journal(origin.store), manifest),
        {state.state_id: state for state in manifest.states},
        {source.name: source for source in manifest.sources},
    )


def _check(parts: Sequence[_Part]) -> None:
    """Raise DiagnosticError (SAV008) for what can't go together."""
    groups = {part.manifest.max_parallelism: part.name for part in parts}
    if len(groups) > 1:
        raise _apart(
            "the savepoints have their keys in other key groups",
            [f"max-parallelism is {groups_:,} in `{name}`" for groups_, name in groups.items()],
            "run one of the pipelines with the max-parallelism of the other (its next start brings its state to it), and "
            "make another savepoint of it",
        )
    moved: dict[str, str] = {}
    for part in parts:
        for declared, known_as in part.manifest.moved.items():
            if moved.setdefault(declared, known_as) != known_as:
                raise _apart(
                    "the savepoints do not agree on where the data of a source was before it moved",
                    [f"it is declared as {json.loads(declared).get('options')} now"],
                    "begin with one of them: what it lacks is read from the sources' history",
                )


def _apart(what: str, notes: Iterable[str], help_: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic("SAV008", what, notes=tuple(notes), help=help_), exit_code=4)


# ----------------------------------------------------------------------------------------------- sources


@dataclass(slots=True)
class _Folders:
    """The folders of sources in the new savepoint."""

    scratch: CheckpointStore
    used: list[str] = field(default_factory=list)

    def taken(self, state: SourceState, part: _Part) -> SourceState:
        """A source's state with a folder that has what it has listed."""
        if not state.folder:
            return state
        where = f"{part.origin.savepoint.prefix}{state.folder}"
        folder = copied_folder(part.origin.store, where, state.name, self.used, self.scratch)
        self.used.append(folder)
        return replace(state, folder=folder)


def _together(
    data: _Data, parts: Sequence[_Part], folders: _Folders, source_of: SourceOf, notes: dict[_Data, list[str]]
) -> Iterable[SourceState]:
    """The tables of some data as they go on; states that are not of the same rows as theirs are left out."""
    read = [part for part in parts if part.tables(data)]
    even = [part for part in read if data[1] and alike(part.tables(data))]
    first = max(even or read[:1], key=lambda part: _weight(part, data))
    source = first.tables(data)[0]
    same = {id(first): source}
    for part in read:
        if part is first:
            continue
        theirs = part.tables(data)[0]
        if (
            part not in even
            or first not in even
            or not _same_rows((first, source), (part, theirs), source_of)
        ):
            left = part.made_of(data)
            what = "was read up to another place"
        elif not _same_marks(source, theirs):
            left = [id_ for id_ in part.made_of(data) if _by_time(part.plan, id_)]
            what = "was closed up to another time"
            same[id(part)] = theirs
        else:
            same[id(part)] = theirs
            continue
        note = f"`{theirs.name}` {what} in `{part.name}` than in `{first.name}`"
        if left:
            note += f": {counted(len(left), 'state')} of what that has of it {'is' if len(left) == 1 else 'are'} left out"
        notes.setdefault(data, []).append(note)
        part.leave(left)
    if first in even:
        equal = [s for s in same.values() if _same_marks(source, s)]
        source = replace(
            source,
            seen=max(s.seen for s in equal),
            resume=max(s.resume for s in equal),
            lanes={lane: max(s.lanes.get(lane, WATERMARK_MIN) for s in equal) for lane in source.lanes},
        )
    taken = {name for part in parts for name in part.called.values()}
    made: dict[str, SourceState] = {}
    for part in read:
        if id(part) not in same:
            continue
        for table in part.tables(data):
            if table.name not in made:
                name = _free_name(table.name, taken)
                taken.add(name)
                # All that are equally far are one position, and which table was which is not known.
                stands = source if first in even else table
                made[table.name] = folders.taken(replace(stands, name=name), first)
            part.called[table.name] = made[table.name].name
    return made.values()


def _parked(parts: Iterable[_Part], known: Collection[_Data], folders: _Folders) -> Iterable[SourceState]:
    """The sources that no query reads any more, each as the first that knows of it left it."""
    known = set(known)
    for part in parts:
        found = [state for state in part.manifest.detached if _data(state) not in known]
        known |= {_data(state) for state in found}
        yield from (folders.taken(state, part) for state in found)


def _free_name(name: str, taken: Iterable[str]) -> str:
    """A name for a table that no table of other data has."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}.{number}"
    return found


def _weight(part: _Part, data: _Data) -> tuple[int, int]:
    """How much a savepoint has of some data: rows that were read of it, and states that go by its time."""
    ids = part.made_of(data)
    return part.tables(data)[0].rows or 0, sum(_by_time(part.plan, id_) for id_ in ids)


def _same_rows(one: tuple[_Part, SourceState], other: tuple[_Part, SourceState], source_of: SourceOf) -> bool:
    """Whether two savepoints have read the same rows of one data, in the same order."""
    return _read(*one, source_of) == (found := _read(*other, source_of)) and found is not None


def _read(part: _Part, state: SourceState, source_of: SourceOf) -> object:
    """What was read of a source; None if that is not known."""
    spec = next(spec for spec in part.plan.sources if spec.name == state.name)
    try:
        source = source_of(spec, part.origin.store, f"{part.origin.savepoint.prefix}{state.folder}")
    except DiagnosticError:  # a password that only the former file had
        return None
    try:
        return source.read_up_to(state.position) if isinstance(source, Accountable) else dict(state.position)
    finally:
        close(source)


def _same_marks(one: SourceState, other: SourceState) -> bool:
    """Whether windows over one data are open and closed alike."""
    if one.drained and other.drained:
        return True
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("drained", "seen", "applied", "resume", "lanes")
    )


def _by_time(plan: PhysicalPlan, state_id: str) -> bool:
    """Whether a state is one that a watermark moves, or has rows from one that is."""
    steps = (step for stage in cut_down(plan, {state_id}).stages for step in stage.steps)
    return any(
        isinstance(step, LateStep)
        or (isinstance(step, OperatorStep) and bool(step.operator.watermark_sources))
        for step in steps
    )


def _behind_the_clock(part: _Part) -> Iterable[str]:
    """Leave out the states with windows over process time of a savepoint whose clock is behind another's."""
    left = [id_ for id_ in part.states if _by_clock(part.plan, id_)]
    part.leave(left)
    if left:
        was = counted(len(left), "state")
        yield f"windows over process time were closed up to another time in `{part.name}`: {was} left out"


def _by_clock(plan: PhysicalPlan, state_id: str) -> bool:
    """Whether a state has windows that the epochs' clock closes, or what comes of such windows."""
    steps = (step for stage in cut_down(plan, {state_id}).stages for step in stage.steps)
    return any(
        EPOCH_RELATION in step.operator.watermark_sources for step in steps if isinstance(step, OperatorStep)
    )


def _data(state: SourceState) -> _Data:
    return state.connector, state.identity


def _sql(parts: Sequence[_Part], journal: Journal) -> str | None:
    """The queries as they were, one after the other."""
    texts = []
    for part in parts:
        digest = part.manifest.sql_digest
        if digest is not None:
            texts.append(f"-- {part.origin.savepoint.name}\n{Journal(part.origin.store).sql(digest)}")
    return journal.put_sql("\n".join(texts)) if texts else None
