"""Whether the files that a manifest needs are what was written, by their checksums.

A run does not look at all of them: what its machine has in the local cache is not read again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlstream.storage import dead_letter, identity, mended_rows
from sqlstream.storage.checked_json import DamagedFileError, check
from sqlstream.storage.journal import Journal, digest_of, physical_plan_name, sql_name
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.state import dimension_copies, staged_rows
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.version import ShardVersion, StateFile, file_digest
from sqlstream_operators.task import dead_letters


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
            if name.startswith(f"{prefix}{folder}/{mended_rows.TEXT}/"):
                what = mended_rows.damage(name, store.get(name))
                if what is not None:
                    yield name, what
                continue
            try:
                check(name, store.get(name))
            except DamagedFileError as error:
                yield name, error.what


@dataclass(frozen=True, slots=True)
class Damage:
    """A file that is not what was written, and what is seen; `heals` says why that does no harm, "" that it does."""

    name: str
    what: str
    heals: str = ""


def damaged_beside(store: CheckpointStore, manifest: Manifest, *, all_have_it: bool) -> Iterator[Damage]:
    """Files beside the state of the last epoch that are not what was written: of sinks, dimension tables and dead letters.

    `all_have_it`: every sink is known to have the epoch. Reads all of them.
    """
    yield from _damaged_sinks(store, manifest, all_have_it=all_have_it)
    for name in store.list(dimension_copies.FOLDER):
        if not dimension_copies.is_whole(store, name):
            yield Damage(
                name, "has another content than its name says", "the next run reads the dimension table anew"
            )
    journal = Journal(store)
    kept = [journal.manifest(epoch) for epoch in journal.epochs()[1] if epoch < manifest.epoch]
    for staged in (name for one in (*kept, manifest) for name in one.dead_letter_files):
        visible = dead_letter.visible_name(staged)
        if staged in manifest.dead_letter_files and not (store.exists(staged) or store.exists(visible)):
            yield Damage(staged, "is missing", "no run reads it; its rows are in the files that were read")
        for name in (staged, visible):
            if not store.exists(name):
                continue
            with store.open(name) as file:
                whole = dead_letters.digest(file) == staged.removesuffix(".jsonl").rsplit("-", 1)[-1]
            if not whole:
                reason = "" if name == staged else "no run reads it; its rows are in the files that were read"
                yield Damage(name, "has another content than was written", reason)


def _damaged_sinks(store: CheckpointStore, manifest: Manifest, *, all_have_it: bool) -> Iterator[Damage]:
    staged = [part.staged for parts in manifest.sinks.values() for part in parts if part.staged is not None]
    try:
        if store.exists(identity.NAME):
            identity.identity(store)
        elif staged:
            yield Damage(identity.NAME, "is missing: tables don't know this state directory without it")
    except (DamagedFileError, KeyError) as error:
        yield Damage(identity.NAME, getattr(error, "what", "is damaged"))
    reason = f"all sinks have the rows of epoch {manifest.epoch}" if all_have_it else ""
    for file in (file for one in staged for file in one.files):
        what = staged_rows.is_damaged(store, file)
        if what is not None:
            yield Damage(file.name, what, reason)


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
