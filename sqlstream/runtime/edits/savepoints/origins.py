"""The savepoint that `--from` names, or several that are put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from sqlstream.connectors.api import ConnectorContext, Source
from sqlstream.connectors.registry import REGISTERED
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.runtime.edits.savepoints.merging import put_together
from sqlstream.storage.run_folder import RunFolder
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.catalog.secrets import Secrets
from sqlstream_planner.diagnostics import DiagnosticError


class NamedTwiceError(ValueError):
    """A savepoint is named twice, which can't be put together with itself."""


@contextmanager
def origin_of(
    savepoints: Sequence[str], own: str, state: str, base_dir: str, secrets: Secrets
) -> Iterator[Origin | None]:
    """What a run begins with: nothing, a savepoint, or what several have; that is kept for as long as the context.

    `own` is the pipeline's own state directory, `state` the one that is begun. Raises NamedTwiceError for a savepoint
    that is named twice, DiagnosticError (SAV001, SAV004, SAV008) if there is none, or they can't go together.
    """
    found = [named_origin(name, own, state) for name in savepoints]
    if not found:
        yield None
        return
    named = [f"{origin.store.uri} {origin.savepoint}" for origin in found]
    if len(set(named)) < len(named):
        raise NamedTwiceError(f"--from names a savepoint twice: {', '.join(savepoints)}")
    if len(found) == 1:
        yield found[0]
        return

    def source_of(spec: SourceSpec, store: CheckpointStore, folder: str) -> Source:
        return REGISTERED.source(secrets.resolved(spec), ConnectorContext(store, base_dir, folder=folder))

    with RunFolder("savepoints-") as scratch:
        yield put_together(found, CheckpointStore(scratch.path, sync=False), source_of)


def named_origin(savepoint: str, own: str, state: str) -> Origin:
    """The savepoint that is meant: of the pipeline's own state directory, of the new one (imported), or an exported one.

    Raises DiagnosticError (SAV001, SAV004) if there is none.
    """
    folder, _, name = savepoint.rpartition("@")
    if folder:
        store = CheckpointStore(folder)
        return Origin(store, Savepoints(store).find(name))
    if "/" in savepoint:
        # It loads RocksDB, which is not needed to look at the savepoints of a state directory.
        from sqlstream.storage.savepoint_copies import the_savepoint_in

        exported = CheckpointStore(savepoint)
        return Origin(exported, the_savepoint_in(exported))
    given = CheckpointStore(state)
    if savepoint in Savepoints(given).names():
        return Origin(given, Savepoints(given).find(savepoint))
    store = CheckpointStore(own)
    try:
        return Origin(store, Savepoints(store).find(savepoint))
    except DiagnosticError as error:
        [diagnostic] = error.diagnostics
        elsewhere = f"one of another pipeline is DIR@{savepoint}, DIR being its state directory"
        raise DiagnosticError(
            replace(diagnostic, help=diagnostic.help or elsewhere), exit_code=error.exit_code
        ) from None
