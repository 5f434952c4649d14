"""Reading relations out of committed state: the rows of a few keys, or all of them, shard by shard."""

from __future__ import annotations

import itertools
import math
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.state.committed import Committed
from sqlstream.state.pushed import Values
from sqlstream.state.relations import Relation
from sqlstream_operators.codec.arrow_types import conform, to_arrow
from sqlstream_operators.codec.keys import key_groups, shard_of
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.operators.views import view
from sqlstream_operators.plan.epoch_values import EPOCH_RELATION
from sqlstream_operators.plan.state_schema import TIME, StateSchema, StateTable
from sqlstream_operators.plan.watermarks import WATERMARK_MIN, Watermarks, clock_watermark
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_operators.state.memory import MemoryBytes
from sqlstream_operators.state.published import PublishedShard, Ranges, pages
from sqlstream_operators.state.state_tables import StateTables
from sqlstream_operators.state.version import ShardVersion

#: More keys than this are not looked up one by one.
MAX_KEYS = 10_000


@dataclass(slots=True)
class ReadCounts:
    """What was read: stored rows, and shards that were opened for a few keys and for all of their rows."""

    rows: int = 0
    shards_looked_into: int = 0
    shards_scanned: int = 0


class _HeldFiles(CheckpointStore):
    """Links to files of a local store, which stay when a collector deletes these; messages name the store's own."""

    def __init__(self, folder: Path, origin: CheckpointStore) -> None:
        super().__init__(folder, sync=False)
        self._origin = origin

    def hold(self, name: str) -> None:
        """Have a file of the store under its name; who reads it reports one that is gone."""
        target = Path(self.uri) / name
        if target.is_symlink() or target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._origin.link(name, target)
        except FileNotFoundError:
            return

    def path(self, name: str) -> str:
        """The full path of the file itself."""
        return self._origin.path(name)


@dataclass(slots=True)
class StateReader:
    """Reads the state of `committed`; what it needs on disk is in `folder`, which its maker removes.

    `counts` say what was read so far.
    """

    committed: Committed
    folder: Path
    counts: ReadCounts = field(default_factory=ReadCounts)
    _duck: DuckSession | None = None

    def rows(self, relation: Relation, values: Values) -> Iterator[pa.Table]:
        """Rows of a relation, with its columns under their names, as Arrow types have them.

        All rows that have one of `values` in each of these columns are among them. Raises StateCorruptionError for files
        that are damaged or gone.
        """
        schema = relation.spec.state
        versions = self._versions(schema)
        keys = _keys(relation, values)
        times = _times(relation, values)
        for number, version in enumerate(versions):
            if version.is_empty:
                continue
            own = None if keys is None else self._own(relation, keys, number, len(versions))
            if own is not None and not own.num_rows:
                continue
            yield from self._of_shard(relation, version, (number, len(versions)), own, times)

    def close(self) -> None:
        """Close DuckDB, if it was needed."""
        if self._duck is not None:
            self._duck.close()

    def _versions(self, schema: StateSchema) -> Sequence[ShardVersion]:
        states = self.committed.manifest.states
        for state in states:
            if state.state_id == schema.state_id:
                return [ShardVersion.from_json(shard) for shard in state.shards]
        if states:
            raise InternalError(f"{self.committed.title} has no state {schema.state_id}, which its plan has")
        return []  # the first epoch was given up

    def _own(self, relation: Relation, keys: pa.Table, shard: int, shards: int) -> pa.Table:
        """Those of some keys that belong to a shard."""
        fields = [f.name for f in _table(relation).key]
        most = self.committed.manifest.max_parallelism
        groups = key_groups([keys.column(name) for name in fields], most, rows=keys.num_rows)
        return keys.filter(pa.array(shard_of(groups, shards, most) == shard))

    def _of_shard(
        self,
        relation: Relation,
        version: ShardVersion,
        place: tuple[int, int],
        keys: pa.Table | None,
        times: Sequence[int] | None,
    ) -> Iterator[pa.Table]:
        spec, most = relation.spec, self.committed.manifest.max_parallelism
        with self._folder() as folder:
            store = self._held(folder, version)
            shard = PublishedShard(spec.state, *place, most, version, checkpoint=store, folder=folder)
            ranges = self._ranges(relation, shard, keys, times)
            if ranges is not None:
                self.counts.shards_looked_into += 1
                found = shard.rows_in(ranges)
                self.counts.rows += len(found.rows)
                if found.rows:
                    yield self._shown(relation, place, shard.tables(found))
                return
            self.counts.shards_scanned += 1
            with shard.whole() as whole:
                for part in self._parts(relation, shard, whole):
                    yield self._shown(relation, place, part)

    def _parts(self, relation: Relation, shard: PublishedShard, whole: StateTables) -> Iterator[StateTables]:
        """The shard with some thousand rows at a time of what is shown, if these can be shown by themselves."""
        table, shown = relation.table, relation.spec.facts.view
        if table is None and shown is not None:
            table = shown.paged_by
        if table is None:
            self.counts.rows += shard.version.rows
            yield whole
            return
        for part in pages(shard, whole, table):
            self.counts.rows += len(part.base.scan(*part.range_of(table))[0])
            yield part

    def _ranges(
        self, relation: Relation, shard: PublishedShard, keys: pa.Table | None, times: Sequence[int] | None
    ) -> Ranges | None:
        """Where in the shard the rows lie; None: all over it."""
        schema = relation.spec.state
        empty = shard.tables(MemoryBytes())
        if relation.table is not None:
            tables = [schema.table(relation.table)]
        else:  # not the keys by the time that they are forgotten
            tables = [table for table in schema.tables if table.layout == schema.tables[0].layout]
        ranges: list[tuple[bytes, bytes]] = []
        for table in tables:
            if table.layout == "time" and times is None:
                return None
            if keys is not None:
                wanted = keys if table.layout != "time" else _timed(relation, keys, times or ())
                ranges += empty.ranges_of(table.name, wanted)
            elif table.layout == "time" and relation.table is not None:
                ranges += [empty.range_of(table.name, time, time + 1) for time in times or ()]
            else:
                return None
        return ranges

    def _shown(self, relation: Relation, place: tuple[int, int], tables: StateTables) -> pa.Table:
        """The rows of a relation that some tables have."""
        spec = relation.spec
        if relation.table is not None:
            rows = tables.scan_all(relation.table)
        else:
            context = OperatorContext(
                *place,
                self.committed.manifest.max_parallelism,
                self._watermarks(relation),
                tables,
                self._session(),
            )
            rows = view(spec, context)
        arrays = []
        for column in relation.columns:
            if column.before_us:
                found = pc.subtract(rows.column(TIME), column.before_us)
            else:
                found = rows.column(column.source)
            arrays.append(conform(found, to_arrow(column.type)))
        return pa.Table.from_arrays(arrays, names=[column.name for column in relation.columns])

    def _watermarks(self, relation: Relation) -> Watermarks:
        """The operator's watermark after the epoch: the least of its sources'."""
        manifest = self.committed.manifest
        applied = {source.name: source.applied for source in manifest.sources}
        applied[EPOCH_RELATION] = clock_watermark(manifest.now_us)
        close = min(
            (applied.get(name, WATERMARK_MIN) for name in relation.spec.watermark_sources),
            default=WATERMARK_MIN,
        )
        return Watermarks(close, close, close)

    def _session(self) -> DuckSession:
        """DuckDB for operators: the connection of the query is busy with the scan."""
        if self._duck is None:
            self._duck = DuckSession(temp_directory=str(self.folder / "spill"))
        return self._duck

    def _held(self, folder: Path, version: ShardVersion) -> CheckpointStore:
        """The store of a version's files, which stay there while they are read, where that can be had for nothing."""
        store = self.committed.store
        if not store.is_local:
            return store
        held = _HeldFiles(folder / "held", store)
        deltas = [delta.file for delta in version.deltas if delta.file is not None]
        segments = [segment.file for segment in version.segments]
        for file in (*version.snapshot, *segments, *deltas):
            held.hold(file.name)
        return held

    @contextmanager
    def _folder(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="shard-", dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _table(relation: Relation) -> StateTable:
    schema = relation.spec.state
    return schema.tables[0] if relation.table is None else schema.table(relation.table)


def _keys(relation: Relation, values: Values) -> pa.Table | None:
    """The keys that rows with these values can have, one column per field of the state's key; None: any, or too many."""
    fields = _table(relation).key
    if not fields or not all(relation.key.get(f.name) in values for f in fields):
        return None
    choices = [values[relation.key[f.name]] for f in fields]
    if math.prod(map(len, choices)) > MAX_KEYS:
        return None
    columns = list(zip(*itertools.product(*choices), strict=True)) or [()] * len(fields)
    return pa.table(
        {f.name: pa.array(column, to_arrow(f.type)) for f, column in zip(fields, columns, strict=True)}
    )


def _times(relation: Relation, values: Values) -> list[int] | None:
    """The times (µs) of stored rows that rows with these values can have; None: any."""
    if relation.time is None or relation.time not in values:
        return None
    found = pa.array([time for time in values[relation.time] if time is not None], pa.timestamp("us"))
    times: list[int] = found.cast(pa.int64()).to_pylist()
    return times


def _timed(relation: Relation, keys: pa.Table, times: Sequence[int]) -> pa.Table:
    """Keys with each of some times, or with the time that is in the key itself."""
    inside = next((name for name, column in relation.key.items() if column == relation.time), None)
    if inside is not None:
        known = keys.filter(pc.is_valid(keys.column(inside)))
        return known.append_column(TIME, known.column(inside).cast(pa.int64()))
    every = np.repeat(np.arange(keys.num_rows), len(times))
    return keys.take(pa.array(every)).append_column(TIME, pa.array(list(times) * keys.num_rows, pa.int64()))
