"""The local cache of one shard: a RocksDB directory at a published version, moved forward to the version
that an epoch needs.

Layout of a slot: `lock`, `db/` (RocksDB), `digests.json` (digests of its immutable files), `pending/` (the
delta that this machine uploaded last), `segments/` (copies of those of a store that is elsewhere). Whoever
holds the lock owns the slot; a second task on the same shard (speculation) works in a scratch slot of its
own. The lock is the kernel's, so a killed task leaves none behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from sqlstream_operators.errors import StateCorruptionError

from .checkpoint_store import CheckpointStore
from .delta import decode_delta
from .private_folder import make_private
from .rocks import RocksBytes
from .version import Delta, ShardVersion, StateFile, chain_after, file_digest

SEGMENTS = "segments"
#: What an open cache may have in memory only, bytes of deltas.
UNFLUSHED_BYTES = 1 << 20


class Cache:
    """An open slot at exactly the requested version; use `Cache.open`, and `close` at the end."""

    def __init__(self, slot: Path, lock: int, scratch: bool, checkpoint: CheckpointStore) -> None:
        self.slot = slot
        self.scratch = scratch
        self.rebuilt = False
        self._lock = lock
        self._checkpoint = checkpoint
        self._rocks: RocksBytes | None = None
        self._unflushed = 0

    @classmethod
    def open(
        cls,
        local_dir: Path,
        name: str,
        checkpoint: CheckpointStore,
        chain: str,
        catch_up: Callable[[Cache, str], bool],
        build: Callable[[Cache], None],
        former: Sequence[str] = (),
        opened: Cache | None = None,
    ) -> Cache:
        """The slot `name` under `local_dir`, or a scratch slot if another task has it, holding the version
        `chain`.

        `catch_up(cache, marker)` brings a cache that is at `marker` to `chain`, or returns False if it can't;
        `build(cache)` makes it from nothing. `former` are slots in which the content may be, as it was another state's
        before an edit of the query: the first that is free is copied, which costs the same for every size.
        `opened` is this slot's, if it was kept open.
        """
        cache = opened or cls._acquire(local_dir, name, checkpoint)
        try:
            if not cache.scratch and not cache.db_directory.exists():
                cache._copy_one_of(local_dir / other for other in former)
            cache._bring_to(chain, catch_up, build)
        except BaseException:
            cache.close()
            raise
        return cache

    @classmethod
    def _acquire(cls, local_dir: Path, name: str, checkpoint: CheckpointStore) -> Cache:
        slot = local_dir / name
        lock = _try_lock(slot)
        if lock is not None:
            _sweep(local_dir, name)
            return cls(slot, lock, False, checkpoint)
        while True:
            slot = local_dir / f"{name}.scratch-{uuid.uuid4().hex[:12]}"
            lock = _try_lock(slot)
            if lock is not None:
                return cls(slot, lock, True, checkpoint)

    def _copy_one_of(self, others: Iterable[Path]) -> None:
        """Make the database here a copy of another slot's, in hard links: what is in it is looked at afterwards."""
        for other in others:
            lock = _try_lock(other) if (other / "db").exists() else None
            if lock is None:
                continue
            # Under another name until it is whole, as `restore` does. rocksdict raises nothing narrower for a broken one.
            partial = self.slot / "db.partial"
            shutil.rmtree(partial, ignore_errors=True)
            try:
                rocks = RocksBytes(other / "db")
                try:
                    rocks.checkpoint(partial)
                finally:
                    rocks.close()
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(other / "digests.json", self.slot / "digests.json")
                _link_all(other / SEGMENTS, self.segments)
                partial.rename(self.db_directory)
                return
            except Exception:
                continue
            finally:
                os.close(lock)

    def _bring_to(
        self, chain: str, catch_up: Callable[[Cache, str], bool], build: Callable[[Cache], None]
    ) -> None:
        if self.db_directory.exists():
            try:
                if self._rocks is None:
                    self._rocks = RocksBytes(self.db_directory)
                marker = self._rocks.marker()
                if marker is not None and (marker == chain or catch_up(self, marker)):
                    return
            except Exception:
                # A broken cache (rocksdict raises nothing narrower), or a damaged delta that only this cache
                # needs. If the version itself is damaged, building it raises that again.
                pass
        self.rebuild(chain, build)

    def reopened(self, checkpoint: CheckpointStore) -> bool:
        """Go on with a cache that was kept open, for another epoch; False if its folder is gone."""
        self._checkpoint = checkpoint
        self.rebuilt = False
        return self.is_there

    @property
    def is_there(self) -> bool:
        """Whether the folder is there that was opened."""
        return bool(os.fstat(self._lock).st_nlink) and self.db_directory.exists()

    def rebuild(self, chain: str, build: Callable[[Cache], None]) -> None:
        """Throw the local directory away and make it again from the checkpoint."""
        self._close_rocks()
        shutil.rmtree(self.db_directory, ignore_errors=True)
        shutil.rmtree(self.segments, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            (self.slot / "digests.json").unlink()
        self.rebuilt = True
        build(self)
        if self.rocks.marker() != chain:
            raise StateCorruptionError(
                str(self.db_directory), "the rebuilt state is not the requested version"
            )

    @property
    def db_directory(self) -> Path:
        """Where RocksDB is, or will be."""
        return self.slot / "db"

    @property
    def segments(self) -> Path:
        """Where copies of segments are."""
        return self.slot / SEGMENTS

    @property
    def is_open(self) -> bool:
        """Whether there is a RocksDB: not once it was found to be damaged."""
        return self._rocks is not None

    @property
    def rocks(self) -> RocksBytes:
        """The open RocksDB."""
        assert self._rocks is not None
        return self._rocks

    def create(self) -> RocksBytes:
        """Open RocksDB in the slot, new or as it was restored."""
        self._rocks = RocksBytes(self.db_directory)
        return self._rocks

    def restore(self, snapshot: Sequence[StateFile], base_chain: str) -> RocksBytes:
        """Download a snapshot's files, verified, and open them; an empty snapshot is an empty RocksDB."""
        if not snapshot:
            rocks = self.create()
            rocks.apply((), (), (), base_chain)
            return rocks
        # Under another name until all is there and verified: half of a snapshot must not look like a cache.
        partial = self.slot / "db.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        digests = {}
        for file in snapshot:
            local = local_name(file)
            download(self._checkpoint, file, partial / local)
            digests[local] = [file.bytes, file.digest]
        self.save_digests(digests)
        partial.rename(self.db_directory)
        try:
            rocks = self.create()
        except Exception as error:
            raise StateCorruptionError(snapshot[0].name, f"the snapshot can't be opened: {error}") from error
        if rocks.marker() != base_chain:
            raise StateCorruptionError(
                snapshot[0].name, "the snapshot has another version than the manifest says"
            )
        return rocks

    def apply(self, deltas: Sequence[Delta], chain: str, *, stays_open: bool = False) -> None:
        """Apply deltas to the cache, which is at `chain`. Those of one that `stays_open` may be in memory only."""
        for delta in deltas:
            chain = chain_after(chain, delta)
            ranges = [(bytes.fromhex(first), bytes.fromhex(last)) for first, last in delta.deleted_ranges]
            keys, values = self._read_delta(delta)
            self.rocks.apply(ranges, keys, values, chain)
            self._unflushed += 1 + (delta.file.bytes if delta.file is not None else 0)
        if not stays_open or self._unflushed > UNFLUSHED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write to files what is in memory only."""
        if self._unflushed:
            self.rocks.flush()
            self._unflushed = 0

    def _read_delta(self, delta: Delta) -> tuple[list[bytes], list[bytes | None]]:
        if delta.file is None:
            return [], []
        content = None
        with contextlib.suppress(FileNotFoundError):
            content = (self.slot / "pending" / Path(delta.file.name).name).read_bytes()
        if content is None or not _is_of(content, delta.file):
            content = fetch(self._checkpoint, delta.file)
        try:
            return decode_delta(content)
        except ValueError as error:
            raise StateCorruptionError(delta.file.name, str(error)) from error

    def save_pending(self, name: str, content: bytes) -> None:
        """Keep the delta that was just uploaded, so that the next epoch here need not fetch it from afar."""
        if self._checkpoint.is_local:
            return
        pending = self.slot / "pending"
        pending.mkdir(exist_ok=True)
        for old in pending.iterdir():
            old.unlink()
        (pending / Path(name).name).write_bytes(content)

    def load_digests(self) -> dict[str, list[object]]:
        """The size and digest of the files in `db/` that were hashed before."""
        try:
            loaded: dict[str, list[object]] = json.loads((self.slot / "digests.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return loaded

    def save_digests(self, digests: dict[str, list[object]]) -> None:
        """Remember the digests of immutable files."""
        (self.slot / "digests.json").write_text(json.dumps(digests))

    def close(self) -> None:
        """Close RocksDB, give the slot back, and remove it if it was scratch."""
        try:
            self._close_rocks()
        except Exception as error:  # rocksdict raises nothing narrower
            if not is_damage(error):
                raise
            self.discard()
        finally:
            if self.scratch:
                shutil.rmtree(self.slot, ignore_errors=True)
            os.close(self._lock)

    def discard(self) -> None:
        """Remove what is here, which is damaged: the next one to open the slot builds it from the checkpoint."""
        with contextlib.suppress(Exception):
            self._close_rocks()
        shutil.rmtree(self.db_directory, ignore_errors=True)

    def _close_rocks(self) -> None:
        if self._rocks is not None:
            rocks, self._rocks = self._rocks, None
            self._unflushed = 0
            rocks.close()


def is_damage(error: Exception) -> bool:
    """Whether RocksDB says that one of its files has another content than it wrote."""
    return "Corruption" in str(error)


def local_name(file: StateFile) -> str:
    """The name in the RocksDB directory of a snapshot's file: what follows its digest."""
    return Path(file.name).name.split("-", 1)[1]


def catch_up_from(version: ShardVersion, marker: str) -> tuple[Delta, ...] | None:
    """The deltas that lead from content `marker` to `version`; None if `version` does not know it."""
    chain = version.earlier_chain
    deltas = (*version.earlier, *version.deltas)
    for i, delta in enumerate(deltas):
        if chain == marker:
            return deltas[i:]
        chain = chain_after(chain, delta)
    return () if chain == marker else None


def check_chain(version: ShardVersion) -> None:
    """Raise StateCorruptionError unless the version's deltas lead from its base_chain to its chain."""
    chain = version.base_chain
    for delta in version.deltas:
        chain = chain_after(chain, delta)
    if chain != version.chain:
        raise StateCorruptionError("manifest", f"the deltas of version {version.version} do not lead to it")


def fetch(checkpoint: CheckpointStore, file: StateFile) -> bytes:
    """The bytes of a checkpoint file, verified; raises StateCorruptionError."""
    try:
        content = checkpoint.get(file.name)
    except FileNotFoundError:
        raise StateCorruptionError(checkpoint.path(file.name), "is missing") from None
    _verify(checkpoint, file, content)
    return content


def download(checkpoint: CheckpointStore, file: StateFile, target: Path) -> None:
    """Copy a checkpoint file to a local path, verified; raises StateCorruptionError."""
    try:
        checkpoint.download(file.name, target)
    except FileNotFoundError:
        raise StateCorruptionError(checkpoint.path(file.name), "is missing") from None
    _verify(checkpoint, file, target)


def mapped(checkpoint: CheckpointStore, file: StateFile, nearer: Iterable[Path]) -> pa.Buffer:
    """The bytes of a checkpoint file, verified: of a local one in one of the folders, or mapped where the store is local.

    Raises StateCorruptionError.
    """
    if not checkpoint.is_local:
        for folder in nearer:
            with contextlib.suppress(OSError):
                content = (folder / local_name(file)).read_bytes()
                if _is_of(content, file):
                    return pa.py_buffer(content)
    try:
        with checkpoint.open(file.name) as source:
            buffer = source.read_buffer()
    except FileNotFoundError:
        raise StateCorruptionError(checkpoint.path(file.name), "is missing") from None
    _verify(checkpoint, file, memoryview(buffer))
    return buffer


def _verify(checkpoint: CheckpointStore, file: StateFile, content: bytes | memoryview | Path) -> None:
    size = _size(content)
    if size != file.bytes:
        raise StateCorruptionError(checkpoint.path(file.name), f"has {size} bytes instead of {file.bytes}")
    if not _is_of(content, file):
        raise StateCorruptionError(
            checkpoint.path(file.name), "has other content than was written (digest differs)"
        )


def _is_of(content: bytes | memoryview | Path, file: StateFile) -> bool:
    """Whether these are the bytes that the file was made with."""
    return _size(content) == file.bytes and file_digest(content, like=file.digest) == file.digest


def _size(content: bytes | memoryview | Path) -> int:
    return content.stat().st_size if isinstance(content, Path) else len(content)


def _link_all(source: Path, target: Path) -> None:
    """Link the files of a folder, if it is there, into another one."""
    if source.exists():
        target.mkdir(exist_ok=True)
        for file in source.iterdir():
            with contextlib.suppress(FileExistsError):
                os.link(file, target / file.name)


def _try_lock(slot: Path) -> int | None:
    make_private(slot.parent)
    slot.mkdir(exist_ok=True)
    handle = os.open(slot / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The slot may have been swept between the open and the lock: then the lock is on a file that is gone.
        if os.fstat(handle).st_nlink:
            return handle
    except BlockingIOError:
        pass
    os.close(handle)
    return None


def _sweep(local_dir: Path, name: str) -> None:
    """Remove the scratch slots of this shard that no living task holds."""
    for scratch in local_dir.glob(f"{name}.scratch-*"):
        lock = None
        with contextlib.suppress(OSError):
            lock = _try_lock(scratch)
        if lock is not None:
            shutil.rmtree(scratch, ignore_errors=True)
            os.close(lock)
