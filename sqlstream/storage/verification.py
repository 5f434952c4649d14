"""Whether the files that a manifest needs are what was written, by their checksums.

A run does not look at all of them: what its machine has in the local cache is not read again.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlstream.storage.checked_json import DamagedFileError, check
from sqlstream.storage.journal import digest_of, physical_plan_name, sql_name
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.version import ShardVersion, StateFile, file_digest


def damaged_descriptions(
    store: CheckpointStore, manifest: Manifest, prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """The names of the plan, the SQL and the lists of files that are not what was written, each with what is seen.

    `prefix` is the folder of what the sources have listed, as a savepoint has it.
    """
    kept = {physical_plan_name(manifest.plan_digest): manifest.plan_digest}
    if manifest.sql_digest is not None:
        kept[sql_name(manifest.sql_digest)] = manifest.sql_digest
    for name, digest in kept.items():
        try:
            content = store.get(name)
        except FileNotFoundError:
            yield name, "is missing"
            continue
        if digest_of(content) != digest:
            yield name, "has another content than its name says"
    for folder, segments in sorted(_listings(manifest).items()):
        there = store.list(f"{prefix}{folder}")
        for name in (f"{prefix}{folder}/{number:06d}.json" for number in range(segments)):
            if name not in there:
                yield name, "is missing: the list of files is incomplete"
        for name in there:
            try:
                check(name, store.get(name))
            except DamagedFileError as error:
                yield name, error.what


def _listings(manifest: Manifest) -> dict[str, int]:
    """The folders of what sources have listed, each with how many files the furthest position in it needs."""
    found: dict[str, int] = {}
    for source in manifest.positions:
        if source.folder:
            needed = int(source.position.get("segments", 0))
            found[source.folder] = max(needed, found.get(source.folder, 0))
    return found


def damaged_state(store: CheckpointStore, manifest: Manifest) -> Iterator[tuple[str, str]]:
    """The names of the files of state that are not what was written, each with what is seen. Reads all of them."""
    for file in state_of(manifest):
        try:
            content = store.get(file.name)
        except FileNotFoundError:
            yield file.name, "is missing"
            continue
        if len(content) != file.bytes:
            yield file.name, f"has {len(content):,} bytes instead of {file.bytes:,}"
        elif file_digest(content, file.digest) != file.digest:
            yield file.name, "has another content than was written"


def state_of(manifest: Manifest) -> list[StateFile]:
    """The files of state that a manifest names, each once, by name."""
    shards = (ShardVersion.from_json(shard) for state in manifest.states for shard in state.shards)
    return sorted({file.name: file for shard in shards for file in shard.state_files}.values(), key=_name)


def _name(file: StateFile) -> str:
    return file.name
