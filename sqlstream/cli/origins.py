"""The savepoint that `--from` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlstream.runtime.loop.fork import Origin


def named_origin(savepoint: str, own: str, state: str) -> Origin:
    """The savepoint that is meant: of the pipeline's own state directory, of the new one (imported), or an exported one.

    Raises DiagnosticError (SAV001, SAV004) if there is none.
    """
    from sqlstream.runtime.loop.fork import Origin
    from sqlstream.storage.savepoint_copies import the_savepoint_in
    from sqlstream.storage.savepoints import Savepoints
    from sqlstream_operators.state.checkpoint_store import CheckpointStore

    folder, _, name = savepoint.rpartition("@")
    if folder:
        store = CheckpointStore(folder)
        return Origin(store, Savepoints(store).find(name))
    if "/" in savepoint:
        exported = CheckpointStore(savepoint)
        return Origin(exported, the_savepoint_in(exported))
    given = CheckpointStore(state)
    if savepoint in Savepoints(given).names():
        return Origin(given, Savepoints(given).find(savepoint))
    store = CheckpointStore(own)
    return Origin(store, Savepoints(store).find(savepoint))
