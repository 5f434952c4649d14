"""What a session begins with: a pipeline's file, whose mistakes do not keep it from being opened, and its state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlstream.project import Project, plan, rendered, state_directory
from sqlstream.shell.pieces import Piece, composed, split
from sqlstream_operators.plan.spec import Schema
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.sql.parse import parse_rendered
from sqlstream_planner.sql.rendered import RenderedSql

_DECLARING = ("CREATE", "SET", "USE")
#: No mistake here: a file of declarations is something to ask questions of.
_WRITES_NOTHING = "SQL050"


@dataclass(frozen=True, slots=True)
class Opened:
    """A file as a session has it, or none.

    `declared` are its statements that declare something, as far as they can be read, `sinks` the columns of the tables that
    it writes, by their names in lower case. `store` is where its state is, None where that is not known, and `mistakes`
    is what is wrong with the file.
    """

    file: Path | None = None
    base_dir: Path = field(default_factory=Path)
    declared: tuple[Piece, ...] = ()
    sinks: Mapping[str, Schema] = field(default_factory=dict)
    store: CheckpointStore | None = None
    mistakes: tuple[Diagnostic, ...] = ()


def opened(
    file: Path | None, project: Project, variables: Mapping[str, str], state_dir: str | None
) -> Opened:
    """Open a file. Raises DiagnosticError (PRJ001, exit code 2) if there is none; its mistakes are in what it gives."""
    store = CheckpointStore(state_dir) if state_dir is not None else None
    if file is None:
        return Opened(store=store)
    planned: Planned | None = None
    mistakes: tuple[Diagnostic, ...] = ()
    try:
        planned = plan(file, project, variables)
    except DiagnosticError as error:
        if error.exit_code == 2:
            raise
        mistakes = tuple(found for found in error.diagnostics if found.code != _WRITES_NOTHING)
    if planned is None:
        return Opened(file, file.parent, _readable(_rendered(file, project, variables)), {}, store, mistakes)
    if store is None:
        store = CheckpointStore(state_directory(planned, file, project, None))
    sinks = {sink.name.lower(): sink.schema for sink in planned.physical.sinks}
    return Opened(file, file.parent, _declaring(split(planned.rendered, whole=True).pieces), sinks, store)


def _rendered(file: Path, project: Project, variables: Mapping[str, str]) -> RenderedSql | None:
    try:
        return rendered(file, project, variables)
    except DiagnosticError:  # it is among the mistakes
        return None


def _declaring(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(p for p in pieces if p.words[0].upper in _DECLARING)


def _readable(text: RenderedSql | None) -> tuple[Piece, ...]:
    """The declarations of a file with mistakes that can be read."""
    if text is None:
        return ()
    try:
        pieces = _declaring(split(text).pieces)
    except DiagnosticError:
        return ()
    found: list[Piece] = []
    for piece in pieces:
        try:
            parse_rendered(composed([*found, piece]))
        except DiagnosticError:
            continue
        found.append(piece)
    return tuple(found)
