"""Sources whose data is elsewhere now, as a command finds them in the state that it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream.runtime.loop.fork import Origin
    from sqlstream.runtime.loop.moved_sources import Moves
    from sqlstream.storage.journal import Journal
    from sqlstream.storage.manifest import Manifest
    from sqlstream_operators.plan.spec import SourceSpec
    from sqlstream_operators.state.checkpoint_store import CheckpointStore
    from sqlstream_planner.pipeline import Planned


def known_sources(
    planned: Planned,
    state: str,
    origin: Origin | None,
    tables: Sequence[str],
    base_dir: str,
    again: Callable[[Mapping[str, str]], Planned],
) -> tuple[Planned, Moves]:
    """The plan with the sources that the state knows under another identity, and what is known of them.

    `state` is the state directory, `origin` what it is to begin with, `tables` what the user says has moved, `base_dir` what
    relative paths refer to; `again` plans the file with `Catalog.moved`. Raises DiagnosticError (STA018, exit code 2).
    """
    from sqlstream.runtime.loop.moved_sources import Moves
    from sqlstream.storage.journal import Journal
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    try:
        store, prefix = CheckpointStore(state), ""
        last = last_manifest(Journal(store))
    except OSError:  # the run itself says it better
        if tables:
            raise
        return planned, Moves()
    if last is None and origin is not None:
        last, store, prefix = origin.savepoint.manifest, origin.store, origin.savepoint.prefix
    moved = declared_moves(last, planned.physical.sources, tables, store, prefix, base_dir)
    return (again(moved.known_as) if moved.known_as else planned), moved


def declared_moves(
    last: Manifest | None,
    sources: Sequence[SourceSpec],
    tables: Sequence[str],
    store: CheckpointStore,
    prefix: str,
    base_dir: str,
) -> Moves:
    """What is known of sources that state knows under another identity: `tables` moved, others are declared in other words.

    `store` has what sources have written down, below `prefix`. Raises DiagnosticError (STA018, exit code 2).
    """
    from sqlstream.connectors.api import ConnectorContext
    from sqlstream.connectors.registry import REGISTERED
    from sqlstream.runtime.loop.moved_sources import moves
    from sqlstream.runtime.loop.respelled_sources import continuing, with_respelled

    def context_of(folder: str) -> ConnectorContext:
        return ConnectorContext(store, base_dir, folder=f"{prefix}{folder}")

    moved = moves(last, sources, tables)
    return with_respelled(moved, last, sources, continuing(REGISTERED.source_factory, context_of))


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
