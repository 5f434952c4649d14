"""Savepoints that leave their state directory: exported, imported, and made the beginning of another one.

Files are copied under their names before the one that names them, so what breaks off in the middle leaves nothing that
could be taken for a savepoint or a state, and can be done again. What leaves or enters a state directory is copied, so that
damage to one is none to the other; one that begins with the savepoint of another, on one local file system, has links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

from sqlstream.storage import mended_rows
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest, RunInfo
from sqlstream.storage.savepoints import Savepoint, Savepoints, imported_folder
from sqlstream.storage.verification import damaged_descriptions
from sqlstream_operators.errors import MachineError
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.version import ShardVersion, StateFile, file_digest
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def export_savepoint(store: CheckpointStore, savepoint: Savepoint, target: CheckpointStore) -> None:
    """Copy a savepoint with all that it needs into an empty folder; nothing else is needed to import it.

    One that was broken off goes on where it was. Raises DiagnosticError: SAV004 if the folder has other files, SAV005 if a
    file of the savepoint is missing or damaged.
    """
    _check_folder(target)
    listed = [name for folder in savepoint.source_folders for name in _listed(store, savepoint, folder)]
    own = {*savepoint.files, *(name.removeprefix(savepoint.prefix) for name in listed)}
    if set(target.list()) - own:
        raise DiagnosticError(
            Diagnostic("SAV004", f"{target.uri} is not empty", help="give a folder that does not exist yet"),
            exit_code=2,
        )
    target.sweep_temporary()
    _copy_all(store, savepoint, target, "", verify=True)
    Savepoints(target).put(replace(savepoint, prefix=""))


def _check_folder(target: CheckpointStore) -> None:
    """Raise DiagnosticError (SAV004) if a file, or something in its path that is none, is where a folder should be."""
    if not target.is_local:
        return
    place = Path(target.path("")).absolute()
    place = next(p for p in (place, *place.parents) if p.exists())
    if not place.is_dir():
        raise DiagnosticError(
            Diagnostic(
                "SAV004", f"{place} is a file, no folder", help="give a folder that does not exist yet"
            ),
            exit_code=2,
        )


def import_savepoint(exported: CheckpointStore, store: CheckpointStore, name: str | None = None) -> Savepoint:
    """Copy an exported savepoint into a state directory, under its name or `name`; what is there is left alone.

    Raises DiagnosticError: SAV002 if the name is taken, SAV004 if the folder has no savepoint, or several, SAV005 if a file
    is missing or damaged.
    """
    savepoint = the_savepoint_in(exported)
    name = name or savepoint.name
    savepoints = Savepoints(store)
    savepoints.check_new(name)
    id_ = token_hex(4)
    imported = replace(savepoint, name=name, id=id_, prefix=f"{imported_folder(id_)}/")
    _copy_all(exported, savepoint, store, imported.prefix, verify=True)
    savepoints.put(imported)
    return imported


def the_savepoint_in(exported: CheckpointStore) -> Savepoint:
    """The only savepoint of a folder. Raises DiagnosticError (SAV004) if there is none, or several."""
    found = Savepoints(exported).all()
    if len(found) != 1:
        names = ", ".join(s.name for s in found)
        raise DiagnosticError(
            Diagnostic(
                "SAV004",
                f"{exported.uri} has {'several savepoints' if found else 'no savepoint'}",
                notes=(f"there are {names}",) if found else (),
                help="give the folder that `sqlstream savepoint export` made",
            ),
            exit_code=2,
        )
    return found[0]


def begin_from(
    store: CheckpointStore,
    savepoint: Savepoint,
    target: CheckpointStore,
    run: RunInfo,
    stores: Sequence[CheckpointStore] = (),
) -> Manifest:
    """Make a savepoint of `store` the beginning of the state directory `target`, which has no epoch yet.

    The first manifest is void: it carries the savepoint's state and positions and made nothing itself, so that no sink takes
    itself to be written already. From then on the two have nothing in common but files that never change. Files that `store`
    does not have are in one of `stores`.
    Raises DiagnosticError (SAV005) if a file of the savepoint is missing or damaged.
    """
    _copy_all(store, savepoint, target, "", verify=False, stores=stores)
    before = savepoint.manifest
    void = before.carried_on(before.epoch + 1, run, previous=0)
    manifest = replace(void, lineage=token_hex(16), origin=str(savepoint))
    Journal(target).publish(manifest)
    return manifest


def _copy_all(
    store: CheckpointStore,
    savepoint: Savepoint,
    target: CheckpointStore,
    prefix: str,
    *,
    verify: bool,
    stores: Sequence[CheckpointStore] = (),
) -> None:
    """Copy all that a savepoint names; what its sources have listed goes under `prefix`.

    With `verify` the content of every state file is compared with its digest. Otherwise only its size is: a task that opens
    the state looks at the digests anyway.
    """
    files = {file.name: file for file in _state_files(savepoint.manifest)}
    if verify:
        for name, what in damaged_descriptions(store, savepoint.manifest, savepoint.prefix):
            raise _damaged(store, name, what)
    for name in sorted(savepoint.files):
        file = files.get(name)
        if file is not None and _is_there(target, file, verify=True):
            continue  # a name says what is in it: a state that both have is the same
        _copy(
            next((s for s in stores if s.exists(name)), (store, *stores)[-1]),
            name,
            target,
            name,
            link=not verify,
        )
        if file is not None and not _is_there(target, file, verify=verify):
            target.delete(name)
            raise _damaged(store, name, f"is not the one that savepoint `{savepoint.name}` names")
    for folder in sorted(savepoint.source_folders):
        for name in _listed(store, savepoint, folder):
            _copy(store, name, target, f"{prefix}{name.removeprefix(savepoint.prefix)}", link=not verify)


def _listed(store: CheckpointStore, savepoint: Savepoint, folder: str) -> list[str]:
    """What a source has in its folder: what it has listed, and the mended rows that it has read.

    A mended row that was read later, or not yet, is none of the savepoint's: the row itself may not have been read by then.
    """
    where = f"{savepoint.prefix}{folder}"
    positions = [source.position for source in savepoint.manifest.positions if source.folder == folder]
    read = {name for position in positions for name in mended_rows.read_by(store, where, position)}
    return [name for name in store.list(where) if not mended_rows.is_mended(name, where) or name in read]


def _copy(store: CheckpointStore, name: str, target: CheckpointStore, new: str, *, link: bool) -> None:
    try:
        target.copy_from(store, name, new, link=link)
    except FileNotFoundError as error:
        if store.exists(name):  # as in /proc, where nobody can make a folder
            raise MachineError(f"{target.path(new)} can't be written: {error.strerror}") from None
        raise _damaged(store, name, "is missing") from None


def _is_there(store: CheckpointStore, file: StateFile, *, verify: bool) -> bool:
    """Whether a store has this file: of its size, and with `verify` of its content."""
    if store.size(file.name) != file.bytes:
        return False
    return not verify or file_digest(store.get(file.name), file.digest) == file.digest


def _state_files(manifest: Manifest) -> list[StateFile]:
    shards = (ShardVersion.from_json(shard) for state in manifest.states for shard in state.shards)
    return [file for shard in shards for file in shard.state_files]


def _damaged(store: CheckpointStore, name: str, what: str) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            "SAV005",
            f"the file {store.path(name)} {what}",
            notes=("the savepoint can't be restored without it; nothing was changed",),
            help="restore this file from a copy, or take another savepoint",
        ),
        exit_code=4,
    )
