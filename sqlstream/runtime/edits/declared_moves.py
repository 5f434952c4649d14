"""Sources whose data is elsewhere now, or declared in other words, as a command finds them in the state that it is about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sqlstream.connectors.api import ConnectorContext, Continuing
from sqlstream.connectors.registry import REGISTERED
from sqlstream.runtime.edits.sources.moved_sources import Moves, moves
from sqlstream.runtime.edits.sources.respelled_sources import continuing, with_respelled
from sqlstream.runtime.loop.recovery import last_manifest
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest, SourceState
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore

if TYPE_CHECKING:
    from sqlstream.runtime.edits.savepoints.fork import Origin
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

    def context_of(folder: str) -> ConnectorContext:
        return ConnectorContext(store, base_dir, folder=f"{prefix}{folder}")

    moved = moves(last, sources, tables)
    read = () if last is None else last.positions
    return with_respelled(moved, read, sources, continuing(REGISTERED.source_factory, context_of))


def respelled_in(old: Sequence[SourceSpec], new: Sequence[SourceSpec], base_dir: str) -> Mapping[str, str]:
    """The identities of sources of a former file by those of the same data in other words in a new one.

    Relative paths of both refer to `base_dir`. Nothing is known of what was read, so that a folder and a pattern are two.
    """
    with RunFolder("diff-") as nothing:
        context = ConnectorContext(CheckpointStore(nothing.path, sync=False), base_dir, folder="sources/none")
        read = []
        for spec in old:
            factory = REGISTERED.source_factory(spec.connector)
            if isinstance(factory, Continuing):
                begins = factory.source(spec, context).initial_position()
                read.append(
                    SourceState(spec.name, spec.connector, begins, identity=spec.identity, folder=spec.name)
                )
        continues = continuing(REGISTERED.source_factory, lambda folder: context)
        return with_respelled(Moves(), read, new, continues).known_as
