"""Sources whose data is elsewhere now, as a command finds them in the state that it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream.runtime.loop.fork import Origin
    from sqlstream.runtime.loop.moved_sources import Moves
    from sqlstream.storage.journal import Journal
    from sqlstream.storage.manifest import Manifest
    from sqlstream_planner.pipeline import Planned


def known_sources(
    planned: Planned,
    state: str,
    origin: Origin | None,
    tables: Sequence[str],
    again: Callable[[Mapping[str, str]], Planned],
) -> tuple[Planned, Moves]:
    """The plan with the sources that the state knows under another identity, and what is known of them.

    `state` is the state directory, `origin` what it is to begin with, `tables` what the user says has moved; `again` plans
    the file with `Catalog.moved`. Raises DiagnosticError (STA018, exit code 2).
    """
    from sqlstream.runtime.loop.moved_sources import Moves, moves
    from sqlstream.storage.journal import Journal
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    try:
        last = last_manifest(Journal(CheckpointStore(state)))
    except OSError:  # the run itself says it better
        if tables:
            raise
        return planned, Moves()
    if last is None and origin is not None:
        last = origin.savepoint.manifest
    moved = moves(last, planned.physical.sources, tables)
    return (again(moved.known_as) if moved.known_as else planned), moved


def last_manifest(journal: Journal) -> Manifest | None:
    """The last manifest; a driver may be running, and collect it while it is looked for."""
    while True:
        _, manifests = journal.epochs()
        if not manifests:
            return None
        try:
            return journal.manifest(manifests[-1])
        except FileNotFoundError:
            continue
