"""Folders of backfills in a state directory: `backfills/<digest>/`, each with a journal, state and staged rows of its own.

The versions that a backfill has made are named by the manifest that adopts them, where they are; the collector keeps
these files like any others. All else in such a folder is of use as long as the epoch is the last one whose positions the
backfill ends at. No later one uses the folder again: what was adopted goes file by file, with the manifests that name it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass

from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream.storage.journal import digest_of
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.state.checkpoint_store import CheckpointStore

FOLDER = "backfills"
_KIND = "backfill"
_BEGUN = "begun.json"


@dataclass(frozen=True, slots=True)
class Begun:
    """A backfill that has begun: the wall clock (µs since 1970) that all of it goes by, and what stands for the epoch whose
    positions it ends at.
    """

    now_us: int
    sources: str


def folder_of(digest: str) -> str:
    """Where the backfill of this digest is."""
    return f"{FOLDER}/{digest}"


def begin(store: CheckpointStore, folder: str, until: Manifest, *, now_us: int) -> Begun:
    """Begin a backfill up to a manifest's positions, or go on with the one that has begun in this folder."""
    found = _read(store, f"{folder}/{_BEGUN}")
    if found is not None:
        return found
    begun = Begun(now_us, _end_digest(until))
    store.put(f"{folder}/{_BEGUN}", encode(_KIND, {"now_us": begun.now_us, "sources": begun.sources}))
    return begun


def forget(store: CheckpointStore, folder: str, keep: Collection[str] = ()) -> None:
    """Delete what is in a backfill's folder, but for the names in `keep`: it was adopted, or given up."""
    names = [name for name in store.list(folder) if name not in keep]
    # First what says that it can go on.
    for name in sorted(names, key=lambda name: name != f"{folder}/{_BEGUN}"):
        store.delete(name)


def unwanted(store: CheckpointStore, last: Manifest | None) -> list[str]:
    """The names of all files of backfills that can't go on where `last`, the last manifest, stands."""
    names = store.list(FOLDER)
    folders = {"/".join(name.split("/")[:2]) for name in names}
    here = None if last is None else _end_digest(last)
    alive = {folder for folder in folders if here and _goes_on(store, folder, here)}
    return [name for name in names if "/".join(name.split("/")[:2]) not in alive]


def _goes_on(store: CheckpointStore, folder: str, sources: str) -> bool:
    begun = _read(store, f"{folder}/{_BEGUN}")
    return begun is not None and begun.sources == sources


def _read(store: CheckpointStore, name: str) -> Begun | None:
    try:
        content = decode(_KIND, name, store.get(name))
        return Begun(content["now_us"], content["sources"])
    except (FileNotFoundError, DamagedFileError, KeyError):
        return None


def _end_digest(manifest: Manifest) -> str:
    """What stands for an epoch and how far the sources are; void ones after it leave both as they are."""
    positions = [[s.name, s.folder, dict(s.position), s.applied] for s in manifest.sources]
    return digest_of(json.dumps([manifest.committed, positions], sort_keys=True).encode())
