"""The plan of an edit: what happens to every state, source and sink when a pipeline goes on with another file.

Made before anything runs, without Spark and without looking at rows: `sqlstream plan` shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlstream.connectors.api import TargetEdit
from sqlstream.runtime.edits.consent import Consent
from sqlstream.runtime.edits.history.readings import (
    SourceOf,
    needs_of,
    speed_of,
)
from sqlstream.runtime.edits.plan.consents import sink_consent
from sqlstream.runtime.edits.plan.plan_parts import (
    Against,
    EditPlan,
    SinkChange,
    Size,
    SourceChange,
    SourcePart,
)
from sqlstream.runtime.edits.plan.sink_parts import sink_parts, with_history
from sqlstream.runtime.edits.plan.source_parts import (
    drained_remarks,
    source_parts,
    source_problems,
    watermark_notes,
)
from sqlstream.runtime.edits.plan.state_parts import (
    agreed,
    fresh_results,
    history_of,
    read_again_whole,
    state_consents,
    state_part,
)
from sqlstream.runtime.edits.sinks.sink_edit import NOWHERE, Given, SinkEdit, holds_rows
from sqlstream.runtime.edits.sinks.sink_edits import (
    begun_sinks,
    sink_edits,
    still_to_rewrite,
    untouched_sinks,
)
from sqlstream.runtime.edits.sinks.sink_places import Looks
from sqlstream.runtime.edits.sources.left_out_rows import (
    failed_later_problems,
    left_out_problems,
    read_in_part,
)
from sqlstream.runtime.edits.sources.shared_data import Feeds, other_feeds, unclear_tables
from sqlstream.runtime.edits.sources.unread_rows import UnreadRows, both
from sqlstream.runtime.edits.states.forgetting import forgetful_states, forgotten_by
from sqlstream.runtime.loop.recovery import (
    committed_epoch,
    former_plan,
    is_fresh_fork,
    program_fingerprint,
)
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage.journal import Journal, digest_of
from sqlstream.storage.manifest import Manifest, SourceState
from sqlstream.storage.savepoints import Savepoint
from sqlstream_operators.plan.cut_down import cut_down
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.diagnostics import Written
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import StateEdit
from sqlstream_planner.physical.state_node import NO_NODES, StateNodes
from sqlstream_planner.text.masking import without_password


def edit_plan(
    journal: Journal,
    manifest: Manifest,
    program: PhysicalPlan,
    *,
    sql: str | None = None,
    written: Mapping[str, Written] = NOWHERE,
    savepoint: Savepoint | None = None,
    apart: Collection[tuple[str, str]] = (),
    source_of: SourceOf | None = None,
    nodes: StateNodes = NO_NODES,
    accept: Collection[str] = (),
    rewrite: Collection[str] = (),
    looks: Looks | None = None,
    other_rows: Collection[str] = (),
) -> EditPlan:
    """What happens when `program`, made of the text `sql`, goes on from what `manifest` names.

    `savepoint`: it begins a new state directory with it, where every sink is new; data (connector and identity) that is
    `apart` is of several savepoints, which do not stand at one place of it. `written` says where in the user's file
    the sinks stand, `nodes` what the program's states were made of. `source_of` makes the driver's half of a source, to see
    whether what must be read again is still there; without it that is taken for granted. `accept` is what was consented to,
    `rewrite` are sinks that are begun anew; `looks` sees what is at the places of sinks. Of the sources with `other_rows`
    reading them again has shown that not the same rows can be read as before.
    Raises DiagnosticError: STA001 if the old plan is damaged, STA026 (exit code 2) for a sink to rewrite that is not there.
    """
    is_same = manifest.fingerprint == program_fingerprint(program) and _states(manifest) == {
        state.state_id: state.schema_id for state in program.states
    }
    before = program if is_same else former_plan(journal, manifest)
    same_text = is_same or (sql is not None and manifest.sql_digest == digest_of(sql.encode()))
    sizes = {state.state_id: Size(state.rows, state.bytes) for state in manifest.states}
    fresh = savepoint is not None or is_fresh_fork(manifest)
    given = Given(
        same_text=same_text,
        written=written,
        accept=accept,
        rewrite=rewrite if fresh else still_to_rewrite(rewrite, manifest, program, looks or Looks()),
        names={} if fresh else manifest.sink_names,
        looks=looks or Looks(),
        epochs=_epochs(manifest),
        apart={s.name for s in program.sources if (s.connector, s.identity) in apart},
    )
    return _compare(
        _Before(
            before,
            manifest.sources,
            sizes,
            manifest.max_parallelism,
            rows_per_second=speed_of(manifest),
            detached=manifest.positions[len(manifest.sources) :],
            given=bool(committed_epoch(manifest)),
            forgetful=forgetful_states(manifest, before),
            letters=bool(manifest.tally.total),
            other_rows=frozenset(other_rows),
        ),
        program,
        against=Against(
            without_password(journal.store.uri),
            manifest.epoch,
            "" if savepoint is None else savepoint.name,
            _made_at(journal, manifest, savepoint),
            sum(size.rows for size in sizes.values()),
            sum(size.bytes for size in sizes.values()),
        ),
        given=given,
        new_sinks=fresh,
        source_of=source_of,
        nodes=nodes,
        last=None if fresh else manifest,
    )


def edit_diff(
    before: PhysicalPlan,
    program: PhysicalPlan,
    *,
    written: Mapping[str, Written] = NOWHERE,
    nodes: StateNodes = NO_NODES,
    base_dir: str | None = None,
) -> EditPlan:
    """What would happen if a state of `before` went on with `program`: sizes and positions are not known.

    `base_dir` is what relative paths of both refer to; without it, only paths in the same words are one.
    """
    read = [SourceState(s.name, s.connector, {}, identity=s.identity, folder=s.name) for s in before.sources]
    found = _compare(
        _Before(before, read, {}, before.options.max_parallelism, given=True),
        program,
        against=None,
        given=Given(written=written, looks=Looks(base_dir=base_dir)),
        new_sinks=False,
        source_of=None,
        nodes=nodes,
    )
    return replace(
        found, is_diff=True, sources=tuple(replace(s, position=None, rows=None) for s in found.sources)
    )


def first_plan(program: PhysicalPlan, looks: Looks | None = None) -> EditPlan:
    """What a first run does: all is read from its beginning. `looks` sees what is at the places of sinks."""
    refusal = (looks or Looks()).refusal
    refused = (refusal(spec, spec.name, (0,), None) for spec in program.sinks)
    return EditPlan(
        None,
        problems=tuple(one for one in refused if one is not None),
        sources=tuple(SourcePart(s.name, s.connector, SourceChange.NEW) for s in program.sources),
        sinks=tuple(sink_parts(None, program, (), ())),
    )


@dataclass(frozen=True, slots=True)
class _Before:
    """What there is: the plan, how far its sources are, how large its states are. `given`: sinks were given rows.

    `detached` are sources that an older plan read. `letters`: there are dead letters; of the sources with `other_rows` not
    the same rows can be read as before.
    """

    plan: PhysicalPlan
    sources: Sequence[SourceState]
    sizes: Mapping[str, Size]
    max_parallelism: int
    given: bool
    forgetful: frozenset[str] = frozenset()
    rows_per_second: float | None = None
    detached: Sequence[SourceState] = ()
    letters: bool = False
    other_rows: frozenset[str] = frozenset()

    @property
    def positions(self) -> tuple[SourceState, ...]:
        """All that are known, those of the plan first."""
        return (*self.sources, *self.detached)


def _compare(
    before: _Before,
    now: PhysicalPlan,
    *,
    against: Against | None,
    given: Given,
    new_sinks: bool,
    source_of: SourceOf | None,
    nodes: StateNodes,
    last: Manifest | None = None,
) -> EditPlan:
    requested = given
    known = go_on(before.positions, now.sources)
    feeds = Feeds(before.plan, now, before.sources, before.positions, known)
    unread = UnreadRows(
        before.plan, now, before.sources, known, letters=before.letters, anew=before.other_rows
    )
    problems = [
        *source_problems(before.positions, lambda: before.plan, now),
        *unclear_tables(before.positions, now.sources),
        *(failed_later_problems(before.plan, now) if last is not None and last.tally.failed else ()),
    ]
    edits = [
        edit.fresh() if given.accepts("fresh", edit.step) else edit
        for edit in decide(
            before.plan,
            now,
            nodes,
            forgetful=before.forgetful,
            same_rows=both(feeds.same_state, unread.same_state),
        )
    ]
    edits = [read_again_whole(edit, now, unread) for edit in edits]
    forgotten = forgotten_by(edits, before.forgetful)
    given = replace(
        given,
        unread=frozenset(spec.name for spec in now.sources if spec.name not in known),
        forgotten=forgotten,
        other_rows=unread,
    )
    if new_sinks:
        decided = begun_sinks(now, given)
    elif before.given:
        decided = sink_edits(before.plan, now, given)
    else:
        decided = untouched_sinks(now, given)
    decided = tuple(_seen(edit, given, last) for edit in decided)
    goes_on = ((e.former.name, e.spec.name) for e in decided if e.former is not None and not e.is_new)
    problems += other_feeds(feeds, goes_on)
    sinks = sink_parts(
        before.plan if before.given else None,
        now,
        tuple(known.values()),
        decided,
        new_sinks=new_sinks,
        forgotten=forgotten,
    )
    there = history_of(edits, sinks, now, known, None if problems else source_of, before.rows_per_second)
    consents: list[Consent] = []
    states = []
    for edit in edits:
        part = state_part(agreed(edit, now, there), before.sizes, now, there)
        states.append(part)
        if not given.accepts("fresh", part.name):
            consents += state_consents(part, now, there)
    specs = {spec.name: spec for spec in now.sinks}
    for number, sink in enumerate(sinks):
        if sink.from_history:
            sinks[number] = found = with_history(sink, specs[sink.name], now, there)
            if found.change is SinkChange.FROM_NOW_ON:
                why = there.gone(needs_of(now, (), {found.name}))
                consents += [sink_consent(found.name, why)] if why is not None else []
    for sink_edit in decided:
        consents += sink_edit.consents
    again = {e.new.state.state_id for e in edits if e.new is not None and e.needs_history}
    anew = {s.spec.name for s in decided if s.from_history}
    in_part = read_in_part(now, again, anew, unread.unread)
    if not in_part <= before.other_rows:
        return _compare(
            replace(before, other_rows=before.other_rows | in_part),
            now,
            against=against,
            given=requested,
            new_sinks=new_sinks,
            source_of=source_of,
            nodes=nodes,
            last=last,
        )
    problems += left_out_problems(now, anew, in_part)
    diagnostics = [one for sink in sinks for one in sink.diagnostics]
    # Another source makes another result: that is reported, and not what follows from it.
    diagnostics = [] if problems else diagnostics
    problems = problems or [d for d in diagnostics if d.severity == "error"]
    return EditPlan(
        against,
        states=tuple(states),
        sources=tuple(source_parts(before.sources, before.detached, now, known)),
        sinks=tuple(sinks),
        problems=tuple(problems),
        warnings=tuple(d for d in diagnostics if d.severity == "warning"),
        consents=tuple(replace(one, why=replace(one.why, severity="warning")) for one in consents),
        results=(*fresh_results(states), *(s.result for s in sinks if s.result)),
        notes=(
            *_key_groups(before.max_parallelism, now),
            *watermark_notes(before.plan, before.positions, now, known),
        ),
        remarks=tuple(drained_remarks(now, known)),
        counts=Counter(f.verdict.value for part in states for f in part.fields),
        sink_edits=decided,
        other_rows=unread.sources,
        withdrawn={
            name: _names(name, known, before.positions, now)
            for name in _withdrawn(edits, decided, now, unread)
        },
    )


def _names(
    name: str, known: Mapping[str, SourceState], positions: Iterable[SourceState], now: PhysicalPlan
) -> tuple[str, ...]:
    """What the table of a source is called, and was called before."""
    taken = {spec.name for spec in now.sources}
    was = [s.name for s in positions if name in known and s.folder == known[name].folder]
    return tuple(dict.fromkeys([name, *(other for other in was if other not in taken)]))


def _withdrawn(
    edits: Iterable[StateEdit], sinks: Iterable[SinkEdit], now: PhysicalPlan, unread: UnreadRows
) -> tuple[str, ...]:
    """The sources whose dead letters are reported again, as they are read again whole."""
    if not unread.sources:
        return ()
    states = {e.new.state.state_id for e in edits if e.new is not None and e.needs_history}
    anew = {sink.spec.name for sink in sinks if sink.from_history}
    kept = [
        sink.spec.name
        for sink in sinks
        if not (sink.reemitted or sink.is_new or sink.begins is not None) and holds_rows(sink.spec)
    ]
    return unread.withdrawn([source.name for source in cut_down(now, states, anew).sources], kept)


def _epochs(manifest: Manifest) -> tuple[int, ...]:
    """At which epoch a target is that was moved with all that it has: the last one may not be in it yet."""
    return (committed_epoch(manifest), *(() if manifest.void else (manifest.previous,)))


def _seen(edit: SinkEdit, given: Given, last: Manifest | None) -> SinkEdit:
    """What becomes of a sink, with why its target can't go on so. `last` is what it goes on from, if that gave it rows."""
    if edit.target is TargetEdit.REWRITE or any(d.severity == "error" for d in edit.diagnostics):
        return edit
    epochs: set[int] = {0}
    target: TargetEdit | None = edit.target
    if last is not None and edit.former is not None:
        epochs = {committed_epoch(last)}
        if not last.void:  # what it did may not be in the target yet
            was = edit.former.name
            epochs.add(last.before(was))
            if last.sink_edits.get(was) == TargetEdit.REWRITE:
                return edit  # committing it once more begins the target anew once more, if need be
            target = target or (TargetEdit(last.sink_edits[was]) if was in last.sink_edits else None)
    refused = given.looks.refusal(edit.spec, edit.known_as, epochs, target)
    if refused is None:
        return edit
    at = given.written.get(edit.spec.name, Written()).table
    return replace(edit, begins=None, diagnostics=(replace(refused, span=at),), consents=())


def _states(manifest: Manifest) -> dict[str, str]:
    return {state.state_id: state.schema_id for state in manifest.states}


def _made_at(journal: Journal, manifest: Manifest, savepoint: Savepoint | None) -> int | None:
    """When the epoch was planned, µs; None if that is not there any more."""
    if savepoint is not None:
        return int(datetime.fromisoformat(savepoint.created).timestamp() * 1e6)
    try:
        plan = journal.plan(manifest.epoch)
    except FileNotFoundError:
        return None
    return plan.now_us if plan is not None and plan.now_us else None


def _key_groups(before: int, now: PhysicalPlan) -> Iterable[str]:
    if before != now.options.max_parallelism:
        yield (
            f"max-parallelism was {before:,} and is {now.options.max_parallelism:,}: "
            "every key goes to its new key group"
        )
