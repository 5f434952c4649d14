"""One RocksDB directory as a sorted map of bytes that holds exactly one published version.

The write-ahead log is off: what makes a directory consistent is that the marker (which version it is at) is
written in the same batch as the rows, and RocksDB's memtables reach the disk in order. A delta larger than
one batch sets the marker to "half-applied" first, and a directory with that marker is thrown away.

Memory is bounded whatever the size of the state: a block cache, two write buffers, and a bounded number of
open files, each with its index and filter. Compaction is levelled with small files, so that one step
rewrites some tens of MB at most; it runs in the background while a task works and is waited for, within a
budget, at close. Large values (whole rows) are kept in blob files beside the tree, and compaction moves the
keys only (WiscKey, Lu et al., FAST 2016): with the values in the tree it was a third of the CPU of Nexmark q18.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from rocksdict import (
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    ReadOptions,
    SliceTransform,
    WriteBatch,
    WriteOptions,
)

from .overlay import Row
from .segment_file import value_size

_Found: TypeAlias = tuple[list[bytes], list[bytes], list[int]]
"""Keys, values, and how many of them each range has."""

MARKER = b"\xff\xffversion"
HALF_APPLIED = "half-applied"
BLOCK_CACHE_BYTES = 64 << 20
WRITE_BUFFER_BYTES = 16 << 20
BATCH_BYTES = 8 << 20
LEVEL0_TRIGGER = 12
PENDING_TRIGGER_BYTES = 32 << 20
# Values of counts and sums stay in the tree: they are read with their key, and a blob costs some 20 bytes.
BLOB_MIN_VALUE_BYTES = 128
BLOB_FILE_BYTES = 16 << 20
STEPS_BEFORE_SEEK = 4
TRIED_RANGES = 32
WEIGHED_ROWS = 256
# The table, the key group and one BIGINT: what is looked up by a longer key shares it with few others.
PREFIX_BYTES = 12
COMPACTION_SOFT_SECONDS = 0.5
COMPACTION_HARD_SECONDS = 10.0


@functools.cache
def _block_cache() -> Cache:
    # One a worker process: the blocks of a shard's files stay warm from one epoch's task to the next.
    return Cache(BLOCK_CACHE_BYTES)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(2)
    options.set_max_open_files(256)
    options.set_max_file_opening_threads(1)  # 16 by default, started anew at each opening: 14 ms → 10
    options.set_skip_stats_update_on_db_open(True)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    options.set_keep_log_file_num(1)
    options.set_max_background_jobs(2)
    # Files of level 0 are read once more, by the next compaction: packing them was half of a flush.
    packed = DBCompressionType.lz4()
    options.set_compression_per_level([DBCompressionType.none(), *[packed] * 6])
    options.set_disable_auto_compactions(True)
    options.set_level_zero_file_num_compaction_trigger(LEVEL0_TRIGGER)
    options.set_level_zero_slowdown_writes_trigger(1 << 20)
    options.set_level_zero_stop_writes_trigger(1 << 20)
    options.set_target_file_size_base(4 << 20)
    options.set_max_bytes_for_level_base(16 << 20)
    options.set_max_bytes_for_level_multiplier(6)
    options.set_max_compaction_bytes(48 << 20)
    options.set_level_compaction_dynamic_level_bytes(True)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(BLOB_MIN_VALUE_BYTES)
    options.set_blob_file_size(BLOB_FILE_BYTES)
    # Compaction moves living values out of the older half of the blob files, and is started for it where half of
    # them is dead. 100,000 rows of 200 bytes, a fifth rewritten each epoch: 80 MB after 100 epochs; 190 MB with
    # the default (a quarter, never started); 47 MB if all files are looked into, for twice the longest epoch.
    options.set_enable_blob_gc(True)
    options.set_blob_gc_age_cutoff(0.5)
    options.set_blob_gc_force_threshold(0.5)
    # Filters of prefixes, too: to look for the rows of a key, files that have none are not read. 50,000 keys of
    # 5 M, 3.2 M rows in 16 flushes: 12 µs per key without them, 6 with them.
    options.set_prefix_extractor(SliceTransform.create_max_len_prefix(PREFIX_BYTES))
    table = BlockBasedOptions()
    table.set_block_cache(_block_cache())
    # Small blocks, and filters and indexes outside the cache: 10,000 random gets among 10 M keys in a store
    # just opened take 32 ms so; 66 ms with blocks of 4 KiB and partitioned filters in the cache.
    table.set_block_size(1 << 10)
    table.set_format_version(5)
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options


def _in_order() -> ReadOptions:
    """For iterators over any range: without it they would see the rows of one prefix only."""
    options = ReadOptions()
    options.set_total_order_seek(True)
    return options


def _in_one_prefix(first: bytes, last: bytes) -> bool:
    return len(first) >= PREFIX_BYTES and first[:PREFIX_BYTES] == last[:PREFIX_BYTES]


def _batches(keys: Sequence[bytes], values: Sequence[bytes | None]) -> list[int]:
    """Where to cut rows so that no batch is much larger than BATCH_BYTES: the first row of each, and the end."""
    n = len(keys)
    sizes = np.fromiter(map(len, keys), np.int64, n)
    filled = [b"" if value is None else value for value in values]
    sizes += np.fromiter(map(len, filled), np.int64, n)
    number = np.cumsum(sizes) // BATCH_BYTES
    return [0, *(np.flatnonzero(np.diff(number)) + 1).tolist(), n]


def _fill(batch: WriteBatch, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
    if None in values:
        for key, value in zip(keys, values, strict=True):
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
    else:
        collections.deque(map(batch.put, keys, values), maxlen=0)  # no step of Python a row


class RocksBytes:
    """A RocksDB directory, open. Raises the plain Exception of rocksdict if it is locked or broken."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        options = _options()
        # Without column_families rocksdict gives the options to a new database only; an existing one gets an
        # 8 MiB cache and no bloom filter (see `rocksdb.block-cache-capacity`, quixio/quix-streams#1136).
        self._db = Rdict(str(directory), options, column_families={"default": options})
        self._unlogged = WriteOptions()
        self._unlogged.disable_wal = True
        self._compacting = False

    def marker(self) -> str | None:
        """The chain of the version that this holds; None if nothing was written yet."""
        found = self._db.get(MARKER)
        return None if found is None else bytes(found).decode()

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See `SortedBytes.get_many`."""
        if not keys:
            return []
        found: list[bytes | None] = self._db.get(list(keys))
        return found

    def scan(self, first: bytes, last: bytes, most: int | None = None) -> tuple[list[bytes], list[bytes]]:
        """See `SortedBytes.scan`."""
        rows = self._from(first, last)
        keys: list[bytes] = []
        values: list[bytes] = []
        # Behind the last row `key` gives None: no call of `valid` for each row, and no look-up of a method.
        key_of, value_of, go_on, add_key, add_value = (
            rows.key,
            rows.value,
            rows.next,
            keys.append,
            values.append,
        )
        key = key_of()
        while key is not None and len(keys) != most:
            add_key(key)
            add_value(value_of())
            go_on()
            key = key_of()
        rows.status()  # raises if a block is damaged
        return keys, values

    def measure(self, first: bytes, last: bytes, most: int | None = None) -> tuple[int, int]:
        """See `SortedBytes.measure`: the first rows are weighed, all are counted."""
        keys, values = self.scan(first, last, WEIGHED_ROWS if most is None else min(most, WEIGHED_ROWS))
        size = sum(map(len, keys)) + sum(map(value_size, values))
        if len(keys) < WEIGHED_ROWS:
            return len(keys), size
        rows = self._from(keys[-1] + b"\x00", last)
        valid, go_on, count = rows.valid, rows.next, len(keys)
        while valid() and count != most:
            go_on()
            count += 1
        rows.status()  # raises if a block is damaged
        return count, size * count // len(keys)

    def scan_back(self, first: bytes, last: bytes, most: int) -> tuple[list[bytes], list[bytes]]:
        """See `SortedBytes.scan_back`."""
        keys: list[bytes] = []
        values: list[bytes] = []
        rows = self._db.iter(_in_order())
        rows.seek_for_prev(last)
        if rows.valid() and rows.key() == last:
            rows.prev()
        key = rows.key()
        while key is not None and key >= first and len(keys) != most:
            keys.append(key)
            values.append(rows.value())
            rows.prev()
            key = rows.key()
        rows.status()  # raises if a block is damaged
        return keys[::-1], values[::-1]

    def scan_many(
        self, ranges: Sequence[tuple[bytes, bytes]], most: Sequence[int] | None = None
    ) -> tuple[list[bytes], list[bytes], list[int]]:
        """See `SortedBytes.scan_many`: one iterator goes over ranges near each other, another one jumps from range to range.

        The first ranges show which it is. Where most of them need a seek, and lie within one `PREFIX_BYTES`, filters say of
        each file whether it can have any row of a range.
        """
        found: _Found = ([], [], [])
        seeks = self._step(ranges[:TRIED_RANGES], most, found)
        rest = ranges[TRIED_RANGES:]
        limits = None if most is None else most[TRIED_RANGES:]
        if 2 * seeks > TRIED_RANGES and all(_in_one_prefix(first, last) for first, last in rest):
            self._jump(rest, limits, found)
        else:
            self._step(rest, limits, found)
        return found

    def _step(self, ranges: Sequence[tuple[bytes, bytes]], most: Sequence[int] | None, found: _Found) -> int:
        """Add the rows of ranges by one iterator; how many seeks it took.

        It stands at the first key that no range before has passed: a range that ends before that key is empty, and costs
        nothing. A range that begins a few keys further on is gone to by steps, which cost a tenth of a seek.
        """
        if not ranges:
            return 0
        keys, values, sizes = found
        rows = self._from(ranges[0][0], ranges[-1][1])
        key_of, value_of, go_on, seek = rows.key, rows.value, rows.next, rows.seek
        key = key_of()
        seeks, done = 0, 0
        for number, (first, last) in enumerate(ranges):
            if key is None:  # behind the last row, or at a damaged one
                break
            steps = STEPS_BEFORE_SEEK
            while key is not None and key < first:
                if steps:
                    go_on()
                    steps -= 1
                else:
                    seek(first)
                    seeks += 1
                key = key_of()
            limit = None if most is None else most[number]
            before = len(keys)
            while key is not None and key < last and len(keys) - before != limit:
                keys.append(key)
                values.append(value_of())
                go_on()
                key = key_of()
            sizes.append(len(keys) - before)
            done += 1
        rows.status()  # raises if a block is damaged
        sizes += [0] * (len(ranges) - done)
        return seeks

    def _jump(self, ranges: Sequence[tuple[bytes, bytes]], most: Sequence[int] | None, found: _Found) -> None:
        """Add the rows of ranges, each in one prefix, by a seek each that the filters of prefixes serve."""
        keys, values, sizes = found
        options = ReadOptions()
        options.set_prefix_same_as_start(True)
        rows = self._db.iter(options)
        key_of, value_of, go_on, seek = rows.key, rows.value, rows.next, rows.seek
        for number, (first, last) in enumerate(ranges):
            seek(first)
            key = key_of()
            if key is None:
                rows.status()  # raises if a block is damaged; the next seek forgets it
            limit = None if most is None else most[number]
            before = len(keys)
            while key is not None and key < last and len(keys) - before != limit:
                keys.append(key)
                values.append(value_of())
                go_on()
                key = key_of()
                if key is None:
                    rows.status()
            sizes.append(len(keys) - before)

    def seek(self, first: bytes, last: bytes) -> bytes | None:
        """See `SortedBytes.seek`."""
        rows = self._from(first, last)
        if rows.valid():
            key: bytes = rows.key()
            return key
        rows.status()
        return None

    def edges(self, ranges: Sequence[tuple[bytes, bytes]], *, backwards: bool) -> list[Row | None]:
        """See `SortedBytes.edges`."""
        edges: list[Row | None] = []
        rows = self._db.iter(_in_order())
        for first, last in ranges:
            if backwards:
                rows.seek_for_prev(last)
                if rows.valid() and rows.key() == last:
                    rows.prev()
            else:
                rows.seek(first)
            if not rows.valid():
                rows.status()  # raises if a block is damaged
                edges.append(None)
                continue
            key = rows.key()
            edges.append((key, rows.value()) if first <= key < last else None)
        return edges

    def chunks(
        self, first: bytes, last: bytes, rows: int = 20_000
    ) -> Iterator[tuple[list[bytes], list[bytes]]]:
        """The rows in [first, last), `rows` at a time."""
        found = self._from(first, last)
        while found.valid():
            keys: list[bytes] = []
            values: list[bytes] = []
            while len(keys) < rows and found.valid():
                keys.append(found.key())
                values.append(found.value())
                found.next()
            yield keys, values
        found.status()

    def _from(self, first: bytes, last: bytes) -> RdictIter:
        """The rows in [first, last). Check the status of one that ends.

        Not `Rdict.items`, which ends at a damaged block as if there were no more rows, and is no faster.
        """
        options = _in_order()
        options.set_iterate_upper_bound(last)
        rows = self._db.iter(options)
        rows.seek(first)
        return rows

    def apply(
        self,
        ranges: Sequence[tuple[bytes, bytes]],
        keys: Sequence[bytes],
        values: Sequence[bytes | None],
        marker: str,
    ) -> None:
        """Delete the ranges, write the rows (None: delete), and be at `marker` from then on."""
        batch = WriteBatch(raw_mode=True)
        for first, last in ranges:
            batch.delete_range(first, last)
        bounds = _batches(keys, values)
        for first_row, end in itertools.pairwise(bounds):
            if first_row:
                batch.put(MARKER, HALF_APPLIED.encode())
                self._db.write(batch, self._unlogged)
                batch = WriteBatch(raw_mode=True)
            _fill(batch, keys[first_row:end], values[first_row:end])
        batch.put(MARKER, marker.encode())
        self._db.write(batch, self._unlogged)

    def flush(self) -> None:
        """Write what is in memory to files, and start compacting if they have become many."""
        self._db.flush()
        pending = self._db.property_int_value("rocksdb.estimate-pending-compaction-bytes") or 0
        if self.level0_files() >= LEVEL0_TRIGGER or pending >= PENDING_TRIGGER_BYTES:
            self._db.set_options({"disable_auto_compactions": "false"})
            self._compacting = True

    def level0_files(self) -> int:
        """The number of files that every read must look into."""
        return int(self._db.property_value("rocksdb.num-files-at-level0") or 0)

    def settle(self) -> None:
        """Wait for started compaction, half a second or until its first step has ended.

        A step that is cut off is lost, so each needs to end, or files would pile up on a slow machine; and while
        level 0 is full it goes on.
        """
        if not self._compacting:
            return
        start, before = time.monotonic(), self._levels()
        while self._compacting:
            running = self._db.property_int_value("rocksdb.num-running-compactions")
            if not running and not self._db.property_int_value("rocksdb.compaction-pending"):
                self._compacting = False
            spent = time.monotonic() - start
            unfinished = self.level0_files() >= LEVEL0_TRIGGER or self._levels() == before
            if spent > (COMPACTION_HARD_SECONDS if unfinished else COMPACTION_SOFT_SECONDS):
                break
            time.sleep(0.001)

    def _levels(self) -> str | None:
        levels: str | None = self._db.property_value("rocksdb.levelstats")
        return levels

    def estimated_rows(self) -> int:
        """About how many rows there are; overwritten rows count several times until they are compacted."""
        return max(int(self._db.property_int_value("rocksdb.estimate-num-keys") or 0) - 1, 0)

    def live_files(self) -> dict[str, int]:
        """The bytes of each data file; of blob files also those that are about to be deleted."""
        files = {file["name"].lstrip("/"): int(file["size"]) for file in self._db.live_files()}
        for blob in self.directory.glob("*.blob"):
            with contextlib.suppress(FileNotFoundError):
                files[blob.name] = blob.stat().st_size
        return files

    def checkpoint(self, directory: Path) -> None:
        """A consistent copy as hard links in a new directory."""
        Checkpoint(self._db).create_checkpoint(str(directory))

    def close(self) -> None:
        """Close; the directory can be opened by others afterwards."""
        self._db.close()
