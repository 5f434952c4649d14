"""Sources whose data is in another place now (`run --source-moved TABLE`): given once, checked, and written down.

State knows a source by its identity, of which its place is a part. The manifest keeps under which identity the state knows
what a file declares now (`Manifest.moved`), and the file is planned with that: nothing else needs to know of the move.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlstream.connectors.api import Movable, Source
from sqlstream.connectors.capabilities import close
from sqlstream.runtime.coordination import fencing
from sqlstream.runtime.edits.sources.source_folders import free_folder
from sqlstream.runtime.loop.recovery import committed_epoch, physical_plan, recover
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest, RunInfo, SourceState
from sqlstream_operators.plan.spec import PhysicalPlan, SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean

#: Makes the driver's half of a source, which has this folder of this store for itself.
SourceOf = Callable[[SourceSpec, CheckpointStore, str], Source]


@dataclass(frozen=True, slots=True)
class Moves:
    """What is known of sources that have moved.

    `known_as` has identities that state knows by those that are declared (`Manifest.moved`), `tables` those whose move is
    not in the state yet; `respelled` are those whose data is declared in other words, with the former values of
    the options that are others (`respelled_sources`).
    """

    known_as: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    respelled: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def moves(last: Manifest | None, sources: Sequence[SourceSpec], tables: Sequence[str]) -> Moves:
    """What `last` knows of moved sources, and that `tables` have moved too; `sources` are as the file declares them.

    A table that goes on as it is was moved before, which is no mistake. Raises DiagnosticError (STA018, exit code 2) if
    there is no such table, or nothing that it could go on from.
    """
    known_as = {} if last is None else dict(last.moved)
    new = []
    for table in tables:
        spec = next((s for s in sources if s.name.lower() == table.lower()), None)
        if spec is None:
            raise _wrong(
                f"the query reads no table `{table}`", did_you_mean(table, [s.name for s in sources])
            )
        if last is None:
            raise _wrong(f"nothing was read of the table `{spec.name}` yet: there is no state")
        former = _former(last, sources, known_as, spec)
        if former is None:
            continue
        away = [text for text, kept in known_as.items() if kept == former.identity]
        known_as |= dict.fromkeys([*away, former.identity], "")
        known_as[spec.identity] = former.identity
        new.append(spec.name)
    return Moves(known_as, tuple(new))


def _former(
    last: Manifest, sources: Sequence[SourceSpec], known_as: Mapping[str, str], spec: SourceSpec
) -> SourceState | None:
    """The source of the state whose data a table has; None if it goes on from it anyway."""
    named = [
        replace(s, identity=known_as.get(s.identity, s.identity) or f"not {s.identity}") for s in sources
    ]
    known = go_on(last.positions, named)
    if spec.name in known:
        return None
    used = {state.folder for state in known.values()}
    left = [
        state
        for state in last.positions
        if state.folder not in used and state.connector == spec.connector and state.identity
    ]
    chosen = [state for state in left if state.name.lower() == spec.name.lower()] or left
    if len(chosen) != 1:
        have = ", ".join(f"`{state.name}`" for state in left) or "none"
        raise _wrong(
            f"it is not known which table `{spec.name}` was before",
            notes=(f"tables of the connector '{spec.connector}' whose data is not read any more: {have}",),
        )
    return chosen[0]


def write_down(
    journal: Journal, program: PhysicalPlan, moved: Moves, run: RunInfo, source_of: SourceOf
) -> tuple[Diagnostic, ...]:
    """Make a move a part of the state, whole or not at all: it need not be given again. Warnings of what can't be checked.

    A void epoch carries the state on with what each source has taken over; an epoch that was begun is given up by it.
    Raises DiagnosticError (STA018) if the data is not the same.
    """
    last = recover(journal).last
    if last is None or dict(last.moved) == dict(moved.known_as):
        return ()
    made, warnings = taken_over(journal, last, program, moved, journal.store, source_of)
    void = made.carried_on(last.epoch + 1, run, previous=committed_epoch(last))
    if not journal.publish(replace(void, moved=moved.known_as)):
        raise fencing.lost_manifest(journal, void.epoch)
    journal.forget_replays(void.epoch)
    return warnings


def taken_over(
    journal: Journal,
    last: Manifest,
    program: PhysicalPlan,
    moved: Moves,
    store: CheckpointStore,
    source_of: SourceOf,
    prefix: str = "",
) -> tuple[Manifest, tuple[Diagnostic, ...]]:
    """`last` with sources that have moved, which have new folders of their own in `store`; and what can't be checked.

    `prefix` is where the journal has the folders of `last`. Raises DiagnosticError (STA018) if the data is not the same.
    """
    known = go_on(last.positions, program.sources)
    former = {spec.name: spec for spec in physical_plan(journal, last).sources}
    found = {state.folder: state for state in last.positions}
    warnings = []
    for spec in program.sources:
        again = moved.respelled.get(spec.name)
        if (spec.name not in moved.tables and again is None) or spec.name not in known:
            continue
        state = found[known[spec.name].folder]
        folder = free_folder(store, spec.name, [*found, *(one.folder for one in found.values())])
        source = source_of(spec, store, folder)
        if isinstance(source, Movable):
            if again is not None:
                was = replace(spec, options={**spec.options, **again})
            elif state.name not in former:
                raise _wrong(
                    f"the table `{spec.name}` was not read when it moved",
                    notes=("run the query over its former place once, and then again with its new place",),
                )
            else:
                was = former[state.name]
            try:
                source.take_over(was, journal.store, f"{prefix}{state.folder}", state.position)
            finally:
                close(source)
            found[state.folder] = replace(state, folder=folder)
        elif again is None:
            warnings.append(
                Diagnostic(
                    "STA018",
                    f"the table `{spec.name}` goes on from its offset, as `--source-moved` says",
                    notes=(
                        f"what the connector '{spec.connector}' gives can't be compared with what was read",
                    ),
                    severity="warning",
                )
            )
    made = replace(
        last,
        sources=tuple(found[state.folder] for state in last.sources),
        detached=tuple(found[state.folder] for state in last.detached if state.folder in found),
    )
    return made, tuple(warnings)


def _wrong(what: str, near: str | None = None, notes: tuple[str, ...] = ()) -> DiagnosticError:
    help_ = f"did you mean `{near}`?" if near else None
    return DiagnosticError(
        Diagnostic("STA018", f"--source-moved: {what}", notes=notes, help=help_), exit_code=2
    )
