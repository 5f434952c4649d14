"""The sources' history, as the epoch adopts it that carries an edit out: computed when the loop asks for it, and checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlstream.connectors.api import ConnectorContext, SinkPart, SinkWriter
from sqlstream.runtime.edits.consent import ConsentNeededError
from sqlstream.runtime.edits.history.backfill import Backfilled
from sqlstream.runtime.edits.history.backfilled_rows import written as as_written
from sqlstream.runtime.edits.plan.consents import consents_of
from sqlstream.runtime.edits.plan.plan_parts import EditPlan
from sqlstream.runtime.loop.program import Program
from sqlstream.runtime.loop.source_positions import go_on
from sqlstream.storage import dead_letter
from sqlstream.storage.manifest import Manifest, SourceState
from sqlstream.storage.mended_rows import MendedRow, mended_rows, not_among
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.version import ShardVersion
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted

#: So many rows are named, each with so many characters.
_NAMED, _SHOWN = 3, 80

#: Computes states and sinks' rows of a program over what its sources have read by a manifest; None if it was stopped.
RunBackfill = Callable[[Program, Manifest], Backfilled | None]
#: Makes what writes the rows of history for a sink.
WriterOf = Callable[[SinkSpec, ConnectorContext], SinkWriter]


class OtherRowsError(Exception):
    """Of some sources not as many rows can be read again as were read first: states that are kept are not of the same."""

    def __init__(self, sources: Collection[str]) -> None:
        super().__init__(", ".join(sources))
        self.sources = frozenset(sources)


@dataclass(frozen=True, slots=True)
class FromHistory:
    """What a backfill made, for the epoch that adopts it; see `loop.transition.History`."""

    made: Backfilled
    program: Program
    decided: EditPlan
    store: CheckpointStore
    base_dir: str
    writer: WriterOf

    @property
    def versions(self) -> Mapping[str, tuple[ShardVersion, ...]]:
        """The states, by their ids."""
        return self.made.versions

    @property
    def sources(self) -> Mapping[str, SourceState]:
        """The sources as the run goes on with them."""
        return self.made.sources

    def letters(self, epoch: int) -> tuple[str, int] | None:
        """The rows of sources that could not be read, staged as dead letters; see `dead_letter.report_again`."""
        whole = self.decided.withdrawn.keys()
        return dead_letter.report_again(
            self.store, self.made.folder, whole, self.decided.other_rows - whole, epoch
        )

    def rows_for(self, sink: SinkSpec, epoch: int) -> tuple[SinkPart, ...]:
        """The rows that the history has for a sink, as parts that `epoch` commits."""
        context = ConnectorContext(self.store, self.base_dir)
        writer = self.writer(self.program.secrets.resolved(sink), context)
        return as_written(sink, self.made.parts.get(sink.name, ()), self.store, writer, epoch)


def read_history(
    run: RunBackfill,
    program: Program,
    decided: EditPlan,
    until: Manifest,
    store: CheckpointStore,
    base_dir: str,
    writer: WriterOf,
) -> FromHistory | None:
    """What the history that ends with `until` has for an edit that was `decided`; None if it was stopped.

    Raises ConsentNeededError if history is gone, OtherRowsError if not the same rows can be read as before, and
    DiagnosticError (STA034) if rows would be counted twice that were mended.
    """
    with _consents_for_gone_history(program, decided):
        made = run(program, until)
    if made is None:
        return None
    _check_mended(program, until, made, store)
    unlike = _read_otherwise(program, decided, until, made)
    if unlike:
        raise OtherRowsError(unlike)
    return FromHistory(made, program, decided, store, base_dir, writer)


def _read_otherwise(program: Program, decided: EditPlan, until: Manifest, made: Backfilled) -> frozenset[str]:
    """The sources of which more or fewer rows could be read than when they were read first, and that it is not known of."""
    known = go_on(until.positions, program.plan.sources)
    return frozenset(
        name
        for name, malformed in made.malformed.items()
        if name not in decided.other_rows
        and name in known
        and (known[name].malformed or 0) != malformed
        and (known[name].malformed is not None or not until.tally.total)
    )


def _check_mended(program: Program, until: Manifest, made: Backfilled, store: CheckpointStore) -> None:
    """Raise DiagnosticError (STA034) if rows can be read now in whose place mended ones are read: both would count."""
    known = go_on(until.positions, program.plan.sources)
    for name in made.malformed.keys() & known.keys():
        mended = mended_rows(store, known[name].folder) if known[name].folder else []
        if not mended:
            continue
        readable = not_among(mended, list(dead_letter.malformed_in(store, made.folder, name)))
        if readable:
            raise DiagnosticError(_counted_twice(name, readable), exit_code=4)


def _counted_twice(name: str, readable: Sequence[MendedRow]) -> Diagnostic:
    """The diagnostic for rows that an edit reads, and that were dead letters, mended and replayed."""
    notes = [
        f"{row.origin}, line {row.row.get('line', '?')}: {str(row.row.get('row', ''))[:_SHOWN]}"
        for row in readable[:_NAMED]
    ]
    if len(readable) > _NAMED:
        notes.append(f"and {counted(len(readable) - _NAMED, 'row')} more")
    return Diagnostic(
        "STA034",
        f"source `{name}`: {counted(len(readable), 'row')} would be counted as read, and as mended and replayed",
        notes=(*notes, "they could not be read when they were replayed, and the edited file can read them"),
        help="keep the columns of the table as they were; or begin a new state directory, which reads the rows as they are: "
        "--state-dir NEW",
    )


@contextmanager
def _consents_for_gone_history(program: Program, decided: EditPlan) -> Iterator[None]:
    """Says of history that is gone what would need to begin now without it. Raises ConsentNeededError."""
    change = program.transition
    try:
        yield
    except DiagnosticError as error:
        if any(d.code != "DAT008" for d in error.diagnostics):
            raise
        names = [spec.name for spec in program.plan.sources]
        gone = getattr(error, "gone", [(name, d) for d in error.diagnostics for name in names])
        states = change.needs_history
        edits = [e for e in decided.edits if e.new is not None and e.new.state.state_id in states]
        found = [
            consent
            for name, why in gone
            for consent in consents_of(edits, change.from_history, program.plan, why, {name})
        ]
        raise ConsentNeededError(*found) from error
