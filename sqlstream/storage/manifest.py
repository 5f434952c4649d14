"""The two files that decide an epoch, as plain data: its plan, written before it runs, and its manifest.

`epochs/000042.plan.json` says what epoch 42 reads and which watermarks apply; a replay runs exactly it.
`epochs/000042.manifest.json` says what epoch 42 made; the epoch has happened if and only if it is there.
Both are created exclusively, so of two drivers on one directory one loses. Each carries a format version
and a checksum of itself, so a damaged file is found when it is read and never believed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, ClassVar, TypeVar

from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream.storage.field_ids import FieldIds, StoredField
from sqlstream_operators.plan.plain_data import PlainData, PlainRow, stored
from sqlstream_operators.plan.watermarks import WATERMARK_MIN, Watermarks, clock_watermark
from sqlstream_operators.state.dimension_copies import DimensionCopy
from sqlstream_operators.state.staged_rows import StagedRows

#: Once a tally has more rows than these, it counts half of them.
LAST_ROWS = 100_000

FileT = TypeVar("FileT", bound=PlainData)


@dataclass(frozen=True, slots=True)
class RunInfo(PlainData):
    """Who runs: a random id, the host, the process and when it started (ISO 8601, UTC)."""

    run_id: str
    host: str
    pid: int
    started: str

    @classmethod
    def here(cls) -> RunInfo:
        """This process, as a run of its own that starts now."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(token_hex(8), socket.gethostname(), os.getpid(), started)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.started}"


@dataclass(frozen=True, slots=True)
class PlannedSplit(PlainData):
    """A split as its connector planned it; `rows` is exact or None, `bytes` an estimate or None."""

    payload: Mapping[str, Any]
    rows: int | None = None
    bytes: int | None = None
    lane: str = field(default="", metadata=stored(if_default=False))


@dataclass(frozen=True, slots=True)
class PlannedSource(PlainData):
    """What an epoch reads of one source, and the watermarks of that source in it (µs).

    `exhausted`: all that is there now is read with it. `drains`: nothing more comes, so that its watermark is at the end.
    `starts` is its identity where `start` is the first position, which was decided when the epoch was planned ("": a
    manifest has it, or it is always the same). `lanes` are those that the source has, with what was `seen` of each before
    (µs; none: it is one); its watermark is the least of them without `idle_lanes`.
    """

    name: str
    connector: str
    start: Mapping[str, Any]
    next: Mapping[str, Any]
    splits: tuple[PlannedSplit, ...]
    exhausted: bool
    watermarks: Watermarks
    drains: bool = False
    starts: str = field(default="", metadata=stored(if_default=False))
    lanes: Mapping[str, int] = field(default_factory=dict, metadata=stored(if_default=False))
    idle_lanes: tuple[str, ...] = field(default=(), metadata=stored(if_default=False))

    @classmethod
    def read_form(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """In plans of older versions the end of what was there was the end of time."""
        return {"drains": data.get("exhausted", False), **data}

    @property
    def active_lanes(self) -> dict[str, int]:
        """The lanes that its watermark is the least of, with what was seen of each before (µs)."""
        return {lane: mark for lane, mark in self.lanes.items() if lane not in self.idle_lanes}


@dataclass(frozen=True, slots=True)
class EpochPlan(PlainData):
    """Everything that decides what epoch `epoch` computes, except for the state that it starts from.

    `parent` is the epoch whose manifest it builds on (None for the first), `lineage` the random id that the
    first epoch of the state directory got, `fingerprint` that of the program (`program_fingerprint`). `now_us` is the
    wall clock when it was planned (µs since 1970): what a replay computes depends on it. `clock_before_us` is that of the
    epoch before (0: there is none), up to which windows over process time are closed. `admitted` is how many rows it
    was allowed to read. `reemitted` are sinks that are new beside their state, or whose query was edited: the epoch reads
    nothing, and gives them the whole result that the state has. `retracts` is the digest of the physical plan whose result
    they lose ("": none). `edits`: it carries out what an edit of the query means to the state,
    and reads nothing either. `new_sinks` are given rows for the first time, and lose none. `sink_edits` says by sink what is
    done to its target before its rows (`connectors.api.TargetEdit`). `dimensions` are the copies of tables that its lookup
    joins read.
    """

    _KIND: ClassVar[str] = "epoch plan"

    epoch: int
    parent: int | None
    lineage: str
    run: RunInfo
    fingerprint: str
    parallelism: int
    sources: tuple[PlannedSource, ...]
    now_us: int = 0
    clock_before_us: int = 0
    admitted: int = 0
    reemitted: tuple[str, ...] = field(default=(), metadata=stored("restated"))
    retracts: str = ""
    edits: bool = False
    new_sinks: tuple[str, ...] = ()
    sink_edits: Mapping[str, str] = field(default_factory=dict)
    dimensions: Mapping[str, DimensionCopy] = field(default_factory=dict)

    @property
    def clock_watermarks(self) -> Watermarks:
        """The watermarks of columns of process time: no row is read before the clock of the epoch that reads it."""
        before, now = clock_watermark(self.clock_before_us), clock_watermark(self.now_us)
        return Watermarks(before, before, before) if self.is_state_only else Watermarks(before, now, now)

    @property
    def is_state_only(self) -> bool:
        """Whether it is about state and sinks alone: no source goes on by it."""
        return bool(self.reemitted) or self.edits or bool(self.sink_edits)

    @property
    def reads(self) -> bool:
        """Whether it reads anything; an epoch that does not only moves the watermark."""
        return any(source.splits for source in self.sources)

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return encode(self._KIND, self.to_json())

    @classmethod
    def from_bytes(cls, path: str, data: bytes) -> EpochPlan:
        """Read what `to_bytes` wrote. Raises DamagedFileError."""
        return _read(cls, cls._KIND, path, data)


@dataclass(frozen=True, slots=True)
class RowsCap(PlainRow):
    """The most rows that an epoch may read, one with more having not fitted into memory.

    `epochs` is how many have read about so many since.
    """

    rows: int
    epochs: int = 0


@dataclass(frozen=True, slots=True)
class DeadLetterTally(PlainRow):
    """Dead letters since the state directory began (`total`), and, of the last so many `rows` that were read, `letters`.

    The older rows are, the less they count: a source that is wrong from now on shows, however long it was right. `failed`:
    how many of all were rows of operators.
    """

    total: int = 0
    rows: int = 0
    letters: int = 0
    failed: int = field(default=0, metadata=stored(if_default=False))

    def after(self, rows: int, letters: int, failed: int = 0) -> DeadLetterTally:
        """The tally after an epoch that read `rows` and had `letters`.

        >>> DeadLetterTally().after(10, 2).after(100_000, 0).after(10, 9)
        DeadLetterTally(total=11, rows=50015, letters=10, failed=0)
        """
        old = 2 if self.rows > LAST_ROWS else 1
        return DeadLetterTally(
            self.total + letters,
            self.rows // old + rows,
            self.letters // old + letters,
            self.failed + failed,
        )


@dataclass(frozen=True, slots=True)
class SourceState(PlainData):
    """How far a source is after an epoch; times in µs.

    `seen` is the greatest watermark expression of all rows read, `applied` the close watermark of the last
    epoch, `resume` the watermark that a later run starts with when the source was drained (its `applied`
    is +infinity then) and new input has come: everything up to it has been emitted.
    `identity` says which data it is, whatever the table is called (`SourceSpec.identity`), `folder` is the source's own
    in the state directory. `rows` is how many were read so far, `malformed` how many of them could not be read and are dead
    dead letters (None: an older version has not counted them). `lanes` has what is `seen` by lane, where there are several.
    """

    name: str
    connector: str
    position: Mapping[str, Any]
    drained: bool = field(default=False, metadata=stored("exhausted"))
    seen: int = WATERMARK_MIN
    applied: int = WATERMARK_MIN
    resume: int = WATERMARK_MIN
    identity: str = ""
    folder: str = ""
    rows: int | None = None
    malformed: int | None = None
    lanes: Mapping[str, int] = field(default_factory=dict, metadata=stored(if_default=False))

    @property
    def least_seen(self) -> int:
        """What is seen of all its lanes (µs)."""
        return min(self.lanes.values()) if self.lanes else self.seen


def still_of_use(read: Collection[SourceState], detached: Iterable[SourceState]) -> tuple[SourceState, ...]:
    """Those `detached` sources from which a table can go on: not where one of the same data is `read` and is elsewhere.

    No state has rows of the table that was left out, and what it was given into has gone on with the other: should it come
    back, it stands beside that one, like any table more of the same data.

    >>> t, u = (SourceState(name, "x", {"row": row}, identity="A") for name, row in (("t", 9), ("u", 8)))
    >>> still_of_use([t], [u]), len(still_of_use([], [u])), len(still_of_use([t], [replace(u, position={"row": 9})]))
    ((), 1, 1)
    """
    here: dict[tuple[str, str], list[SourceState]] = {}
    for state in read:
        if state.identity:
            here.setdefault((state.connector, state.identity), []).append(state)

    def is_of_use(state: SourceState) -> bool:
        others = here.get((state.connector, state.identity))
        return not others or any(alike((state, other)) for other in others)

    return tuple(filter(is_of_use, detached))


def alike(states: Sequence[SourceState]) -> bool:
    """Whether it does not matter which of some sources of one identity is which."""
    first, *others = (replace(s, name="", folder="", rows=None, malformed=None) for s in states)
    return all(other == first for other in others)


@dataclass(frozen=True, slots=True)
class StateVersions(PlainData):
    """The version of one state after an epoch: a ShardVersion as JSON for each shard, in order.

    `fields` are the fields that are stored, with ids that are never used again; `identity` is what the state means, a
    JSON object that only the planner reads (None: it is not known).
    """

    state_id: str
    schema_id: str
    shards: tuple[Mapping[str, Any], ...]
    fields: tuple[StoredField, ...] = ()
    identity: Mapping[str, Any] | None = None

    @property
    def rows(self) -> int:
        """Rows of all shards, an estimate where rows were written over."""
        return sum(int(shard["rows"]) for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Bytes of keys and values of all shards, as much of an estimate."""
        return sum(int(shard["bytes"]) for shard in self.shards)


@dataclass(frozen=True, slots=True)
class CommittedPart(PlainData):
    """What one task staged for a sink: as its connector says it, and its rows in the checkpoint store."""

    rows: int
    payload: Mapping[str, Any]
    staged: StagedRows | None = field(default=None, metadata=stored(if_default=False))


@dataclass(frozen=True, slots=True)
class Manifest(PlainData):
    """What epoch `epoch` made. It is the truth: what it names exists, what no manifest names is garbage.

    `void` marks a number that was given up: a plan that could not be replayed exactly. It carries on the
    parent's positions and state unchanged and fences a driver that may still be running that plan.
    `plan_digest` names the file with the physical plan (`plans/<digest>.json`), `sql_digest` the one with the SQL that it
    was made of, rendered and without secrets (`plans/<digest>.sql`; None: there was none). `dead_letters` counts rows
    by kind, `dead_letter_files` names the files that tasks staged with them. `previous` is the last epoch before
    this one that is not void, 0 if there is none: the epoch that a sink's target must be at before this one is applied.
    `rows_cap` holds for the epochs after it, `tally` counts dead letters up to it. `last_field_id` is the greatest id that a
    stored field ever had. `new_sinks` are those that it gave rows to for the first time. `edits` says what was decided about
    the state, if the query was edited before this epoch (`StateEdit` as plain data). `detached` are sources that the query
    no longer reads: should it do so again, they go on from there. `origin` names the savepoint that the
    state directory began with ("": with nothing). `moved` says of identities of sources, as files declare them, under which
    ones the state knows their data: it was elsewhere ("": this data is elsewhere now). `sink_names` says by which names the
    targets know the tables that are called otherwise now, `sink_edits` what was done to targets before its rows.
    `forgotten` says of states with a time to live how many keys they have ever forgotten (None: an older version has not
    counted them). `dimension_files` are the copies of dimension tables that the last epoch read: the next one may read
    them again. `now_us` is the clock of the last epoch that read (0: there is none, or an older version has not written
    it): none after it has an earlier one. Of the tables `withdrawn` no row is a dead letter any more that could not be
    read before this epoch: they were read again.
    """

    _KIND: ClassVar[str] = "epoch manifest"

    epoch: int
    parent: int | None
    lineage: str
    run: RunInfo
    fingerprint: str
    plan_digest: str = field(metadata=stored("plan"))
    parallelism: int
    max_parallelism: int
    sources: tuple[SourceState, ...]
    states: tuple[StateVersions, ...] = ()
    sinks: Mapping[str, tuple[CommittedPart, ...]] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    dead_letter_files: tuple[str, ...] = ()
    void: bool = False
    metrics: Mapping[str, int] = field(default_factory=dict)
    previous: int = 0
    rows_cap: RowsCap | None = None
    sql_digest: str | None = field(default=None, metadata=stored("sql"))
    last_field_id: int = 0
    origin: str = ""
    tally: DeadLetterTally = DeadLetterTally()
    new_sinks: tuple[str, ...] = ()
    edits: tuple[Mapping[str, Any], ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)
    detached: tuple[SourceState, ...] = field(default=(), metadata=stored("parked"))
    sink_names: Mapping[str, str] = field(default_factory=dict)
    sink_edits: Mapping[str, str] = field(default_factory=dict)
    forgotten: Mapping[str, int] | None = None
    dimension_files: tuple[str, ...] = ()
    now_us: int = 0
    withdrawn: tuple[str, ...] = ()

    @property
    def committed(self) -> int:
        """The last epoch up to this one that is not void, 0 if there is none."""
        return (self.parent or 0) if self.void else self.epoch

    @property
    def positions(self) -> tuple[SourceState, ...]:
        """Of all sources of which a position is of use: those that the query reads come first."""
        return (*self.sources, *still_of_use(self.sources, self.detached))

    def before(self, sink: str) -> int:
        """The epoch that a sink's target must be at before this one is applied."""
        return 0 if sink in self.new_sinks else self.previous

    def carried_on(self, epoch: int, run: RunInfo, *, previous: int) -> Manifest:
        """The void manifest of `epoch`: the state and positions of this one, and nothing that was made for sinks.

        `previous` is the last epoch that is not void, 0 if there is none.
        """
        return replace(
            self,
            epoch=epoch,
            parent=previous or None,
            previous=previous,
            run=run,
            sinks={},
            rows={},
            dead_letters={},
            dead_letter_files=(),
            void=True,
            metrics={},
            new_sinks=(),
            edits=(),
            sink_edits={},
            withdrawn=(),
        )

    @property
    def field_ids(self) -> FieldIds:
        """The ids of all fields in its states, and the greatest that was ever given."""
        return FieldIds({state.state_id: state.fields for state in self.states}, self.last_field_id)

    @property
    def staged_files(self) -> frozenset[str]:
        """The names of all files with rows that tasks staged for the driver."""
        parts = (part for made in self.sinks.values() for part in made)
        return frozenset(name for part in parts if part.staged is not None for name in part.staged.names)

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return encode(self._KIND, self.to_json())

    @classmethod
    def from_bytes(cls, path: str, data: bytes) -> Manifest:
        """Read what `to_bytes` wrote. Raises DamagedFileError."""
        return _read(cls, cls._KIND, path, data)


def _read(cls: type[FileT], kind: str, path: str, data: bytes) -> FileT:
    content = decode(kind, path, data)
    try:
        return cls.from_json(content)
    except ValueError as error:
        raise DamagedFileError(path, f"is not as it was written ({error})") from error
