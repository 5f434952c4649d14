"""Reading a published version of a shard without being its run: in a folder of the reader's own, nothing is written back.

A few keys are read out of the snapshot's files as they lie in the checkpoint store, linked and not copied, and out of
the deltas behind it, one at a time in memory. All rows are read out of a RocksDB that is put together as a task's is,
some thousands at a time.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from sqlstream_operators.errors import MachineError, StateCorruptionError, machine_trouble
from sqlstream_operators.plan.state_schema import StateSchema

from .cache import SEGMENTS, check_chain, download, fetch, local_name
from .checkpoint_store import CheckpointStore
from .delta import DeltaRows
from .memory import MemoryBytes
from .overlay import Row, SortedBytes, scan_each
from .rocks import RocksBytes
from .segments import Segments
from .shard_store import ShardStore
from .state_tables import StateTables
from .version import ShardVersion, StateFile

Ranges = Sequence[tuple[bytes, bytes]]

#: Rows that a page has at least, unless there are no more.
PAGE_ROWS = 20_000


class PublishedShard:
    """Shard `shard` of `shards` of a state at a published version, for reading only.

    `folder` is a local directory of the reader, who removes it. Methods raise StateCorruptionError for a file that is
    damaged, or gone because a collector took it, and MachineError where the machine refuses.
    """

    def __init__(
        self,
        schema: StateSchema,
        shard: int,
        shards: int,
        max_parallelism: int,
        version: ShardVersion,
        *,
        checkpoint: CheckpointStore,
        folder: Path,
    ) -> None:
        self.schema = schema
        self.shard = shard
        self.version = version
        self._place = (shard, shards, max_parallelism)
        self._checkpoint = checkpoint
        self._folder = folder
        check_chain(version)

    def tables(self, base: SortedBytes) -> StateTables:
        """The tables of the shard over some of its rows."""
        return StateTables(self.schema, *self._place, base, self.version.schemas)

    def rows_in(self, ranges: Ranges) -> MemoryBytes:
        """The rows of some ranges of keys, in memory; the other rows are not read."""
        found: dict[bytes, bytes] = {}
        if self.version.snapshot:
            folder = Path(tempfile.mkdtemp(prefix="snapshot-", dir=self._folder))
            try:
                found = self._of_snapshot(folder, ranges)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        for delta in self.version.deltas:
            for first, last in delta.deleted_ranges:
                low, high = bytes.fromhex(first), bytes.fromhex(last)
                found = {key: value for key, value in found.items() if not low <= key < high}
            if delta.file is None:
                continue
            try:
                rows = DeltaRows.of(fetch(self._checkpoint, delta.file))
            except ValueError as error:
                raise StateCorruptionError(self._checkpoint.path(delta.file.name), str(error)) from error
            for low, high in ranges:
                for key, value in zip(*rows.between(low, high), strict=True):
                    if value is None:
                        found.pop(key, None)
                    else:
                        found[key] = value
        segments = Segments(self._checkpoint, self.version.segments, self._folder / SEGMENTS)
        memory = MemoryBytes()
        memory.add(dict(zip(found, segments.values(list(found.values())), strict=True)))
        return memory

    def whole(self) -> ShardStore:
        """All rows, in a RocksDB in the folder; to be closed."""
        shard, shards, max_parallelism = self._place
        return ShardStore.open(
            self.schema,
            shard,
            shards,
            max_parallelism,
            self.version,
            checkpoint=self._checkpoint,
            local_dir=self._folder,
            epoch=self.version.version + 1,
        )

    def _of_snapshot(self, folder: Path, ranges: Ranges) -> dict[bytes, bytes]:
        for file in self.version.snapshot:
            self._place_file(file, folder / local_name(file))
        # RocksDB looks at the checksum of each block that it reads, so the files are not hashed first.
        found: dict[bytes, bytes] = {}
        try:
            rocks = RocksBytes(folder)
            try:
                if rocks.marker() != self.version.base_chain:
                    raise StateCorruptionError(
                        self._checkpoint.path(self.version.snapshot[0].name),
                        "the snapshot has another version than the manifest says",
                    )
                for low, high in ranges:
                    found.update(zip(*rocks.scan(low, high), strict=True))
            finally:
                rocks.close()
        except StateCorruptionError:
            raise
        except Exception as error:  # rocksdict raises nothing narrower
            trouble = machine_trouble(error)
            if trouble is not None:
                raise MachineError(trouble) from error
            where = self._checkpoint.path(self.version.snapshot[0].name.rpartition("/")[0])
            raise StateCorruptionError(where, f"a snapshot can't be read: {error}") from error
        return found

    def _place_file(self, file: StateFile, target: Path) -> None:
        """Bring a file of the snapshot to a local path: what RocksDB never changes is linked."""
        if not self._checkpoint.is_local or target.suffix not in (".sst", ".blob"):
            download(self._checkpoint, file, target)
            return
        try:
            self._checkpoint.link(file.name, target)
            size = target.stat().st_size
        except FileNotFoundError:
            raise StateCorruptionError(self._checkpoint.path(file.name), "is missing") from None
        if size != file.bytes:
            raise StateCorruptionError(
                self._checkpoint.path(file.name), f"has {size} bytes instead of {file.bytes}"
            )


class _Page:
    """A map of which one range is known: rows of it come from `keys` and `values`, all others from below."""

    def __init__(
        self, base: SortedBytes, known: tuple[bytes, bytes], keys: list[bytes], values: list[bytes]
    ) -> None:
        self._base = base
        self._known = known
        self._page = MemoryBytes()
        self._page.add(dict(zip(keys, values, strict=True)))

    def _of(self, first: bytes) -> SortedBytes:
        return self._page if self._known[0] <= first < self._known[1] else self._base

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `SortedBytes.get_many`."""
        return self._base.get_many(keys)

    def scan(self, first: bytes, last: bytes, most: int | None = None) -> tuple[list[bytes], list[bytes]]:
        """See `SortedBytes.scan`."""
        return self._of(first).scan(first, last, most)

    def measure(self, first: bytes, last: bytes, most: int | None = None) -> tuple[int, int]:
        """See `SortedBytes.measure`."""
        return self._of(first).measure(first, last, most)

    def scan_many(
        self, ranges: Sequence[tuple[bytes, bytes]], most: Sequence[int] | None = None
    ) -> tuple[list[bytes], list[bytes], list[int]]:
        """See `SortedBytes.scan_many`."""
        return scan_each(self, ranges, most)

    def scan_back(self, first: bytes, last: bytes, most: int) -> tuple[list[bytes], list[bytes]]:
        """See `SortedBytes.scan_back`."""
        return self._of(first).scan_back(first, last, most)

    def seek(self, first: bytes, last: bytes) -> bytes | None:
        """See `SortedBytes.seek`."""
        return self._of(first).seek(first, last)

    def edges(self, ranges: Sequence[tuple[bytes, bytes]], *, backwards: bool) -> list[Row | None]:
        """See `SortedBytes.edges`."""
        return [self._of(first).edges([(first, last)], backwards=backwards)[0] for first, last in ranges]


def pages(
    shard: PublishedShard, store: StateTables, table: str, rows: int = PAGE_ROWS
) -> Iterator[StateTables]:
    """The shard again and again, each time with another part of `table`, and all of its other tables.

    A part has at least `rows` rows, and all rows (sub-keys) of the keys that it has.
    """
    whole = store.range_of(table)
    first, last = whole
    by_sub_key = bool(store.schema.table(table).sub_key)
    while True:
        keys, values = store.base.scan(first, last, rows)
        if not keys:
            return
        end = keys[-1] + b"\x00"
        if by_sub_key and len(keys) == rows:
            [(_, after)] = store.ranges_of(table, store.decoded(table, keys[-1:], values[-1:]))
            more_keys, more_values = store.base.scan(end, after)
            keys, values, end = keys + more_keys, values + more_values, after
        yield shard.tables(_Page(store.base, whole, keys, values))
        if len(keys) < rows:
            return
        first = end
