"""The state of one shard in one epoch: open at a published version, read and write, commit the next version.

`commit` writes the epoch's delta to the checkpoint store and says which files the new version is made of,
but leaves the local cache as it is: only when a later epoch names the version (so it was published) is the
delta applied. A crash anywhere leaves a cache at a published version, and files that nothing names, which
are collected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import pyarrow as pa

from sqlstream_operators.errors import StateCorruptionError, StateError
from sqlstream_operators.plan.state_schema import StateSchema

from .cache import Cache, catch_up_from, check_chain, is_damage
from .checkpoint_store import CheckpointStore
from .delta import encode_delta
from .open_caches import OpenCaches
from .overlay import Row
from .published_rows import PublishedRows
from .rescaling import Rescaling
from .segment_writing import living_rows, with_moved, worn_out, write_segments
from .segments import Segments
from .slots import file_name, slot_name
from .snapshots import SnapshotPolicy, uploaded_snapshot
from .sst import UnreadableTableError
from .state_tables import StateTables
from .version import Delta, Segment, ShardVersion, StateFile, chain_after, file_digest

T = TypeVar("T")
#: From so many rows on, a whole table is read from the files of a version. Fewer are in RocksDB, which is open.
PACKED_ROWS = 20_000


class ShardStore(StateTables):
    """The versioned store of one shard (a `StateStore`), for one epoch: a context manager.

    Work per epoch is proportional to what the epoch reads and writes; catching up costs the missed deltas.
    """

    def __init__(
        self,
        schema: StateSchema,
        shard: int,
        shards: int,
        max_parallelism: int,
        version: ShardVersion | Sequence[ShardVersion],
        *,
        checkpoint: CheckpointStore,
        local_dir: Path,
        epoch: int,
        policy: SnapshotPolicy | None = None,
        written_with: int | None = None,
        kept: OpenCaches | None = None,
    ) -> None:
        self.epoch = epoch
        self._kept = kept
        self._policy = policy or SnapshotPolicy()
        self._checkpoint = checkpoint
        self._local_dir = local_dir
        self._folder = f"state/{file_name(schema.state_id)}/{shard:05d}-of-{shards:05d}"
        self._rescaling: Rescaling | None = None
        if isinstance(version, ShardVersion):
            self._version = version
            if written_with not in (None, max_parallelism) and not version.is_empty:
                raise StateError(
                    "keys that change their key groups may come from every shard: give all of them"
                )
        else:
            self._rescaling = Rescaling.of(
                version, written_with or max_parallelism, shard, shards, max_parallelism
            )
            self._version = self._rescaling.version
        self._check(epoch)
        super().__init__(
            schema, shard, shards, max_parallelism, self, self._version.schemas, self._version.chain
        )
        slot = slot_name(schema.state_id, shard, shards)
        self._slot = local_dir / slot
        former = () if self._rescaling else self._version.writers
        opened = None if kept is None else kept.take(self._slot, checkpoint)
        copied = (
            opened is None
            and not self._slot.exists()
            and any((local_dir / other).exists() for other in former)
        )
        if kept is not None and copied:
            kept.close()  # the former slots may be among them
        self._cache = Cache.open(
            local_dir,
            slot,
            checkpoint,
            self._version.chain,
            self._catch_up,
            self._build,
            former=former,
            opened=opened,
        )
        self._segments = self._segments_in(self._cache)
        self._segments.sweep()
        self._committed: ShardVersion | None = None
        self._drop_absent()

    @classmethod
    def open(
        cls,
        schema: StateSchema,
        shard: int,
        shards: int,
        max_parallelism: int,
        version: ShardVersion | Sequence[ShardVersion],
        *,
        checkpoint: CheckpointStore,
        local_dir: Path,
        epoch: int,
        policy: SnapshotPolicy | None = None,
        written_with: int | None = None,
        kept: OpenCaches | None = None,
    ) -> ShardStore:
        """Open shard `shard` of `shards` at `version`, to write `epoch`.

        A sequence of versions are those of all shards of another parallelism, in order: this shard takes
        its own key groups out of those that have any. `written_with` is the max_parallelism that they were written
        with (default: the same); with another one every key gets its new group. `local_dir` is any directory of this
        machine; it may be lost. What is there of another state, with which this one goes on, is used. With `kept` the
        cache stays open for the next epoch. Raises StateCorruptionError if a file that is needed is damaged,
        StateSchemaError if the keys differ.
        """
        return cls(
            schema,
            shard,
            shards,
            max_parallelism,
            version,
            checkpoint=checkpoint,
            local_dir=local_dir,
            epoch=epoch,
            policy=policy,
            written_with=written_with,
            kept=kept,
        )

    def __enter__(self) -> ShardStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._kept = None
        self.close()

    def close(self) -> None:
        """Close the local cache, unless it is kept; writes that were not committed are dropped."""
        self.forget()  # now: this object is its own `base`, a cycle that is only collected much later
        if self._kept is not None and self._kept.keep(self._slot, self._cache):
            self._segments.forget()
            return
        try:
            if self._cache.is_open:
                self._cache.rocks.settle()
        finally:
            self._segments.forget()
            self._cache.close()

    @property
    def version(self) -> ShardVersion:
        """The version that was opened."""
        return self._version

    @property
    def rebuilt(self) -> bool:
        """Whether the local cache needed to be built from the checkpoint."""
        return self._cache.rebuilt

    def commit(self) -> ShardVersion:
        """Write what the epoch changed to the checkpoint store; the version to publish in the manifest.

        The same writes give the same file names and bytes, whichever machine runs it and however often.
        """
        if self._committed is not None:
            raise StateError("an epoch of a store can be committed once")
        rows, size = self._counters()
        old = self._version
        delta, segments = self._write_delta(size)
        new = dataclasses.replace(
            old,
            version=self.epoch,
            deltas=old.deltas if delta is None else (*old.deltas, delta),
            chain=old.chain if delta is None else chain_after(old.chain, delta),
            rows=rows,
            bytes=size,
            schemas=self.schemas,
            segments=segments,
        )
        if self._rescaling or self._snapshot_due(new):
            try:
                new = self._with_snapshot(new, delta)
            except Exception as error:
                # What is damaged here is in the checkpoint, whose deltas do as well; a later epoch makes the snapshot.
                if self._rescaling or not is_damage(error):
                    raise
                self._cache.discard()
        self._committed = new
        return new

    def scan_all(self, table: str) -> pa.Table:
        """See `StateStore.scan_all`. A large table is read from the version's files, without RocksDB's calls per row."""
        if not self.overlay.empty or self._rescaling or self._version.rows < PACKED_ROWS:
            return super().scan_all(table)
        slots = (self._cache.slot, *(self._local_dir / name for name in self._version.writers))
        try:
            places = [slot / "db" for slot in slots]
            rows = PublishedRows(self._checkpoint, self._version, places, self._cache.segments)
            pieces = [self.unpacked(table, piece) for piece in rows.between(*self.range_of(table))]
        except (UnreadableTableError, StateCorruptionError):
            return super().scan_all(table)  # what is damaged in the checkpoint may be whole here
        return pa.concat_tables(pieces)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `SortedBytes.get_many`: the published version, without the epoch's writes."""
        return self._read(lambda: self._segments.values(self._cache.rocks.get_many(keys)))

    def scan(self, first: bytes, last: bytes, most: int | None = None) -> tuple[list[bytes], list[bytes]]:
        """See `SortedBytes.scan`: the published version, without the epoch's writes."""
        return self._read(lambda: self._with_values(*self._cache.rocks.scan(first, last, most)))

    def measure(self, first: bytes, last: bytes, most: int | None = None) -> tuple[int, int]:
        """See `SortedBytes.measure`: the published version, without the epoch's writes."""
        return self._read(lambda: self._cache.rocks.measure(first, last, most))

    def scan_many(
        self, ranges: Sequence[tuple[bytes, bytes]], most: Sequence[int] | None = None
    ) -> tuple[list[bytes], list[bytes], list[int]]:
        """See `SortedBytes.scan_many`: the published version, without the epoch's writes."""

        def read() -> tuple[list[bytes], list[bytes], list[int]]:
            keys, values, sizes = self._cache.rocks.scan_many(ranges, most)
            return keys, self._segments.values(values), sizes

        return self._read(read)

    def scan_back(self, first: bytes, last: bytes, most: int) -> tuple[list[bytes], list[bytes]]:
        """See `SortedBytes.scan_back`: the published version, without the epoch's writes."""
        return self._read(lambda: self._with_values(*self._cache.rocks.scan_back(first, last, most)))

    def seek(self, first: bytes, last: bytes) -> bytes | None:
        """See `SortedBytes.seek`: the published version, without the epoch's writes."""
        return self._read(lambda: self._cache.rocks.seek(first, last))

    def edges(self, ranges: Sequence[tuple[bytes, bytes]], *, backwards: bool) -> list[Row | None]:
        """See `SortedBytes.edges`: the published version, without the epoch's writes."""

        def read() -> list[Row | None]:
            rows = self._cache.rocks.edges(ranges, backwards=backwards)
            values = self._segments.values([row and row[1] for row in rows])
            return [
                row and (row[0], value) if value is not None else None
                for row, value in zip(rows, values, strict=True)
            ]

        return self._read(read)

    def _with_values(self, keys: list[bytes], values: list[bytes]) -> tuple[list[bytes], list[bytes]]:
        return keys, self._segments.values(values)

    def _drop_absent(self) -> None:
        """Delete what is in tables that the schema does not have.

        Nobody keeps them up to date from here on: a query that has such a table again must not find them.
        """
        order: dict[str, int] = {}
        for known in self.schemas:
            for table in known.tables:
                order.setdefault(table.name, len(order))
        for name in order.keys() - {table.name for table in self.schema.tables}:
            first, last = bytes([order[name]]), bytes([order[name] + 1])
            if self.seek(first, last) is not None:
                self.overlay.delete_range(first, last)

    def _read(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except Exception:  # a damaged block in the cache: rocksdict raises nothing narrower
            if self._cache.rebuilt:
                raise
        self._segments.forget()
        self._cache.rebuild(self._version.chain, self._build)
        return read()

    def _check(self, epoch: int) -> None:
        for old in (self._version,) if self._rescaling is None else self._rescaling.olds:
            check_chain(old)
            if old.version >= epoch:
                raise StateError(f"epoch {epoch} can't start from version {old.version}")

    def _catch_up(self, cache: Cache, marker: str) -> bool:
        deltas = None if self._rescaling else catch_up_from(self._version, marker)
        if deltas is None:
            return False
        cache.apply(deltas, marker, stays_open=self._kept is not None)
        return True

    def _build(self, cache: Cache) -> None:
        version = self._version
        if self._rescaling is None:
            cache.restore(version.snapshot, version.base_chain)
            cache.apply(version.deltas, version.base_chain)
            self._segments_in(cache).bring()
            return
        rocks = cache.create()
        rocks.apply((), (), (), "rescaling")
        for keys, values in self._rescaling.rows(self._checkpoint, self._local_dir):
            rocks.apply((), keys, values, "rescaling")
        rocks.apply((), (), (), version.chain)
        rocks.flush()

    def _counters(self) -> tuple[int, int]:
        if not self.has_rows():
            return 0, 0
        if self.overlay.empty and not self._rescaling:
            return self._version.rows, self._version.bytes
        rows, size = self.changed()
        rows_before, size_before = self._version.rows, self._version.bytes
        if self._rescaling:
            own = self._cache.rocks.estimated_rows()
            size_before = size_before * own // max(rows_before, own, 1)
            rows_before = own
        return max(rows_before + rows, 1), max(size_before + size, 1)

    def _segments_in(self, cache: Cache) -> Segments:
        return Segments(self._checkpoint, self._version.segments, cache.segments)

    def _write_delta(self, size: int) -> tuple[Delta | None, tuple[Segment, ...]]:
        """What the epoch changed; and the segments of the new version, in which `size` bytes live (0: no row)."""
        overlay, ranges = self.overlay, self.overlay.ranges
        present = {self._table(table.name).index for table in self.schema.tables}
        kept = [segment for segment in self._version.segments if segment.table in present and size]
        loaded, made = write_segments(overlay.loaded, kept, self._write_segment)
        single: Mapping[bytes, bytes | None] = overlay.single
        for worn in worn_out(kept, size, len(made)):
            single, loaded = with_moved(single, loaded, self._moved_out_of(worn))
            kept.remove(worn)
        segments = tuple({segment.file.digest: segment for segment in (*kept, *made)}.values())
        rows = sum(map(len, loaded)) + len(single)
        if not rows and not ranges:
            return None, tuple(kept)
        file = None
        if rows:
            content = encode_delta(single, loaded)
            digest = file_digest(content)
            file = StateFile(f"{self._folder}/{self.epoch:08d}-{digest}.delta", len(content), digest)
            self._checkpoint.put(file.name, content)
            self._cache.save_pending(file.name, content)
        deleted = tuple((first.hex(), last.hex()) for first, last in ranges)
        return Delta(self.epoch, file, deleted, rows), segments

    def _write_segment(self, content: bytes) -> StateFile:
        digest = file_digest(content)
        file = StateFile(f"{self._folder}/segments/{digest}", len(content), digest)
        self._checkpoint.put(file.name, content)
        self._segments.keep(file, content)
        return file

    def _moved_out_of(self, segment: Segment) -> dict[bytes, bytes]:
        """The rows of a segment that live, with their values."""

        def read() -> dict[bytes, bytes]:
            keys = self._segments.keys(segment)
            living = living_rows(segment, keys, self._cache.rocks.get_many(keys), self.overlay)
            return dict(zip(living, self._segments.values(list(living.values())), strict=True))

        return self._read(read)

    def _snapshot_due(self, new: ShardVersion) -> bool:
        return self._policy.due(
            len(new.deltas),
            new.delta_bytes,
            new.snapshot_bytes,
            self._new_bytes,
        )

    def _new_bytes(self) -> int:
        """The bytes of the files that a snapshot would need to upload."""
        self._cache.flush()
        have = {file.digest for file in self._version.snapshot}
        known = self._cache.load_digests()
        return sum(
            size
            for name, size in self._cache.rocks.live_files().items()
            if name not in known or known[name][1] not in have
        )

    def _with_snapshot(self, new: ShardVersion, delta: Delta | None) -> ShardVersion:
        """`new` with the version that was opened as its snapshot, and only the epoch's delta after it."""
        old = self._version
        rocks = self._cache.rocks
        self._cache.flush()
        if not self._rescaling:
            rocks.settle()
        snapshot = uploaded_snapshot(self._cache, self._checkpoint, self._folder, old.snapshot)
        earlier = (*old.earlier, *old.deltas)
        chains = [old.earlier_chain]
        for past in earlier:
            chains.append(chain_after(chains[-1], past))
        first = max(len(earlier) - self._policy.retained_deltas, 0)  # what is rescaled has none
        return dataclasses.replace(
            new,
            snapshot=snapshot,
            deltas=() if delta is None else (delta,),
            earlier=earlier[first:],
            # An empty cache has the chain of nothing: no deltas lead from there to what was rescaled.
            earlier_chain=old.chain if self._rescaling else chains[first],
            base_chain=old.chain,
        )
