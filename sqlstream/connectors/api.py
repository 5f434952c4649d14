"""The protocols of connectors: a source plans splits on the driver and reads them in tasks; a sink writes parts in
tasks and makes them visible on the driver after the epoch's manifest is published.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlstream_operators.duck.session import DuckSession
    from sqlstream_operators.plan.spec import DimensionSpec, Schema, SinkSpec, SourceSpec
    from sqlstream_operators.plan.types import SqlType
    from sqlstream_operators.state.checkpoint_store import CheckpointStore
    from sqlstream_operators.state.staged_rows import StagedRows
    from sqlstream_planner.catalog.descriptor import BatchFiles
    from sqlstream_planner.catalog.options import OptionValue
    from sqlstream_planner.diagnostics import Diagnostic

#: A JSON object that says how far a source has been read. Written to plans and manifests.
Position = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a source may plan for one epoch. `rows` and `files` are hard limits where the format allows it
    (a compressed or ORC file is read whole), None is no limit. `bytes` is what is aimed at where a source can only
    estimate them. `tasks` is how many splits are useful. With `about`, `rows` is what admission aims at: a source that
    would need to read its input to count rows estimates them.
    """

    rows: int | None = None
    files: int | None = None
    bytes: int | None = None
    tasks: int = 4
    about: bool = False


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a source that one task reads; `payload` is a JSON object that only the connector reads.

    Splits of an epoch are in source order: reading them one after the other gives the rows in the order in
    which the source has them, whatever the cutting. `rows` is exact or None, `bytes` an estimate. `lane` is which part of
    the source goes through event time by itself (of Kafka "topic/partition"): a split that a source plans is of one lane;
    most sources are one. `parts`: of a connector that combines splits it is these, one after the other, without a payload.
    """

    source: str
    payload: Mapping[str, Any]
    rows: int | None = None
    bytes: int | None = None
    lane: str = ""
    parts: tuple[Split, ...] = ()

    @classmethod
    def combined(cls, parts: Sequence[Split]) -> Split:
        """Neighbouring splits of one source as one; a single one as it is."""
        if len(parts) == 1:
            return parts[0]
        rows, sizes = [part.rows for part in parts], [part.bytes for part in parts]
        return cls(
            parts[0].source,
            {},
            None if None in rows else sum(filter(None, rows)),
            None if None in sizes else sum(filter(None, sizes)),
            parts=tuple(parts),
        )

    @property
    def lanes(self) -> tuple[str, ...]:
        """The lanes of its rows: with parts, that of each part."""
        return tuple(part.lane for part in self.parts) or (self.lane,)


@dataclass(frozen=True, slots=True)
class SourcePlan:
    """What one epoch reads of a source.

    `exhausted`: a bounded source has nothing after `next_position` now. `final`: nor can it ever have, since the number of
    its rows is fixed; into a folder new files may come. `lanes` are all lanes that the source has now, also those without
    rows (`Split.lane`); none where it is one. Each plan has them, also those of `Rereadable.until`; one that is left out is
    forgotten.
    """

    splits: tuple[Split, ...]
    next_position: Position
    exhausted: bool
    files: int = 0
    final: bool = False
    lanes: tuple[str, ...] = ()


class Source(Protocol):
    """The driver's half of a source. It may be `Rereadable`, `Accountable` and `Movable`, and what `capabilities` has."""

    @property
    def bounded(self) -> bool:
        """Whether the source ends."""
        ...

    def initial_position(self) -> Position:
        """Where reading starts without a checkpoint; of a source that is `StartingOnce` each call may decide anew."""
        ...

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """Decide what the next epoch reads, starting at `position`. Reads no rows."""
        ...

    def lag(self, position: Position) -> int | None:
        """Roughly how many rows (or None if unknown) are waiting after `position`."""
        ...


@runtime_checkable
class Rereadable(Source, Protocol):
    """A source whose rows can be read again: most are, and a source that is not has no history to read."""

    def until(self, position: Position) -> Source:
        """What this source has read up to `position`, from its beginning: the same rows in the same order.

        It is bounded, is exhausted once it is at `position`, and keeps nothing; it may be `Measured`. Raises
        DiagnosticError (DAT008) if some of these rows can't be read any more as they were, or are gone; it says which.
        """
        ...


@runtime_checkable
class Accountable(Source, Protocol):
    """A source whose positions do not say by themselves which rows were read: those of others are equal if the rows are."""

    def read_up_to(self, position: Position) -> Sequence[Any] | None:
        """What was read up to `position`, in its order; equal for two state directories only if the rows are the same.

        None if that is not known any more. Nothing but what this source has written down is looked at.
        """
        ...


@runtime_checkable
class Movable(Source, Protocol):
    """A source that can check whether its data is what another one has read elsewhere; of others that is believed."""

    def take_over(self, former: SourceSpec, kept: CheckpointStore, folder: str, position: Position) -> None:
        """Write down what `former` had read up to `position`, as data of this source's own place, so that it goes on there.

        `former` had `folder` of `kept` for itself; this source's own folder is empty. Raises DiagnosticError (STA018) with
        what is not the same here.
        """
        ...


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read: goes to the dead-letter table.

    `origin` is the file, or whatever holds it, `line` the 1-based line or record in a file, `raw` the row as it is written,
    as bytes where it is no text. Elsewhere `position` is where it is, a JSON object ({"partition": 3, "offset": 17}), and
    `key` the key that it has beside it.
    """

    origin: str
    line: int | None
    raw: str | bytes
    reason: str
    position: Mapping[str, Any] | None = None
    key: bytes | None = None


class SplitReader(Protocol):
    """The task's half of a source: makes a split queryable in DuckDB as a view or table."""

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make `relation` queryable; reading may raise a DuckDB error when it is queried.

        `queries` says how many queries will read it: a reader whose parsing is expensive materialises the needed
        columns once if there are several.
        """
        ...

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """Make only the readable rows queryable as `relation` and return the others. Called when strict failed."""
        ...


@dataclass(frozen=True, slots=True)
class SinkPart:
    """What one task wrote.

    `payload` is a JSON object that only the connector reads. `staged` are rows in the checkpoint store that the driver
    applies: the manifest names their files, and they are collected with it. `table` are rows that the driver shows;
    they pass its memory and are gone after a crash.
    """

    rows: int
    payload: Mapping[str, Any] = field(default_factory=dict)
    table: pa.Table | None = None
    staged: StagedRows | None = None


class SinkWriter(Protocol):
    """The task's half of a sink. Writes must be invisible to readers and repeatable under the same names."""

    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        """Stage all rows that task `task` (unique in the epoch, the same in a retry) has for this sink."""
        ...


class TargetEdit(StrEnum):
    """What an epoch does to a sink's target before its rows, when the query or the table was edited."""

    ALTER = "alter"
    """It gets the columns that the sink has by now; its rows stay."""
    REPLACE = "replace"
    """It gets the columns and the PRIMARY KEY that the sink has by now; the epoch's rows are all that it has then."""
    REWRITE = "rewrite"
    """It begins anew, whatever it had before: it must be empty, or not there."""


class Sink(Protocol):
    """The driver's half of a sink; it may be `EditableSink`, and what `capabilities` has.

    `previous` is the last epoch before this one that was committed, 0 before the first (numbers of epochs that were
    given up are left out). A target that keeps its own epoch must be at it; `exactly_once` is the base of such sinks.
    """

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """Before the manifest is published: anything that may still fail."""
        ...

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int) -> None:
        """After the manifest is published: make the epoch visible. Idempotent; repeated after a crash."""
        ...

    def abort_uncommitted(self, last_epoch: int) -> None:
        """At start: remove what epochs after `last_epoch` staged."""
        ...


@runtime_checkable
class EditableSink(Sink, Protocol):
    """A sink whose target can be altered to another schema, or begun anew, by the epoch that carries an edit out."""

    def begin_with(self, edit: TargetEdit) -> None:
        """The next epoch that is checked, prepared or committed does this first, as a part of it."""
        ...

    def is_vacant(self) -> bool:
        """Whether the target is empty or not there, so that it can be begun anew."""
        ...

    def epoch_there(self) -> int | None:
        """The last epoch of this state directory and table that the target says it has; None if it has or records none."""
        ...

    def look(self, epochs: Collection[int]) -> None:
        """Whether the target is as one of these epochs left it (0: nothing was given to it); changes nothing, anywhere.

        Raises TargetError if it is not.
        """
        ...


class Orders(Protocol):
    """The orders of a run about single parts of its sources (files): each to be carried out once by each source.

    A source is known by its folder in the state directory.
    """

    def take(self, source: str, paths: Iterable[str]) -> Mapping[str, Literal["skip", "again"]]:
        """What a source is to do about these paths of its own; given once."""
        ...

    def wanted(self, source: str, path: str) -> bool:
        """Whether a source has something to do about a path that was not done yet."""
        ...

    def check(self, paths: Iterable[str]) -> None:
        """Settle which of all sources' `paths` are meant. Raises DiagnosticError (exit code 2) for what means none."""
        ...


@dataclass(frozen=True, slots=True)
class SparkRead:
    """What Spark is to read: a `table` of its catalog, or a format with options and paths.

    `location` is what messages call it.
    """

    location: str
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    table: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SparkColumn:
    """A column that Spark reads: its name, its type (None: there is none of ours), and that type as Spark writes it."""

    name: str
    type: SqlType | None
    written: str


@dataclass(frozen=True, slots=True)
class CopiedPart:
    """A file of a copy: its name in the store, and how many rows and bytes it has."""

    name: str
    rows: int
    bytes: int


class SparkTables(Protocol):
    """What Spark reads, for connectors, which know nothing of Spark; it is started when it is first asked.

    Methods raise DiagnosticError: DAT004 for what is not there, ENV006 for what can't be read, ENV023 for what Spark lacks
    to read it, and what starting Spark does.
    """

    def columns(self, read: SparkRead) -> Sequence[SparkColumn]:
        """The columns that there are."""
        ...

    def copy(
        self, read: SparkRead, columns: Schema, store: str, folder: str, most: int | None
    ) -> Sequence[CopiedPart]:
        """Have tasks write these columns, each at its Arrow type, to files in a folder of a store (its URI).

        Of `most` rows at most (None: all). Files that are not among the parts may be left of tasks that ran twice.
        """
        ...


def _nobody(warning: Diagnostic) -> None:
    """Nothing is reported."""


@dataclass(frozen=True, slots=True)
class ConnectorContext:
    """What a connector may use, on the driver and, for sinks, in tasks: the job's checkpoint store (its own folder of
    it) and the base directory that relative paths in options refer to. `folder` is what a source has for itself in the
    store, whatever its table is called; without one it goes by the table's name. `paced`: a source makes its rows when they
    are due; the referee has no time for that. `orders` is what the command line says about single files, `tell` takes
    warnings. `accepted` is what was agreed to (`lost:TABLE`: records that were gone before they were read). `ends`: a
    source that is watched ends, too, once all that is there is read. `runs`: it is the run that owns the state directory,
    which may make what a source needs elsewhere (a replication slot); all others only look. `shared` is what sources of one
    run have together, by keys of their own. `spark` reads tables for connectors; None: nothing starts Spark here.
    `whole`: who looks wants all rows, not only as many as the limits of a plan say. `known_as` is the name that a
    sink's target knows its table by: what it was called when it was first written ("": as it is called now);
    `left_columns` are those that a former query gave the table, and that it is given no more.
    """

    store: CheckpointStore
    base_dir: str
    folder: str = ""
    paced: bool = True
    orders: Orders | None = None
    tell: Callable[[Diagnostic], None] = _nobody
    known_as: str = ""
    left_columns: tuple[str, ...] = ()
    ends: bool = False
    accepted: Collection[str] = ()
    runs: bool = False
    shared: dict[Hashable, Any] = field(default_factory=dict)
    spark: SparkTables | None = None
    whole: bool = False

    def may_lose(self, table: str) -> bool:
        """Whether it was agreed to go on without records of a table that were gone before they were read."""
        return not {f"lost:{table}", "lost:all"}.isdisjoint(self.accepted)


class Dimension(Protocol):
    """The driver's half of a table that lookup joins read."""

    def version(self) -> str | None:
        """What is another one if the table may have changed, at a look that costs little; None: it must be read."""
        ...

    def rows(self, duck: DuckSession) -> Iterator[pa.RecordBatch]:
        """All rows as they are now, with the columns of the spec's copy in their Arrow types; `duck` may be used meanwhile.

        Raises DiagnosticError (DAT009) for a table that is not there, or has other columns, or can't be read.
        """
        ...


class DimensionFactory(Protocol):
    """Makes a dimension."""

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> Dimension:
        """The driver's half."""
        ...


class SourceFactory(Protocol):
    """Makes both halves of a source; one for each connector, registered in `connectors.registry`."""

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Source:
        """The driver's half."""
        ...

    def reader(self, spec: SourceSpec, base_dir: str) -> SplitReader:
        """The task's half; made in the task, so it must come from plain data."""
        ...

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> SplitReader:
        """As `reader` of the whole rows, for a split that has unreadable ones.

        What `spec` does not read must not make a row unreadable.
        """
        ...


@runtime_checkable
class Placing(Protocol):
    """A `SourceFactory` that describes its positions in other words than their fields."""

    def place_of(self, position: Position) -> str:
        """Where a source goes on, for people."""
        ...


@runtime_checkable
class Feeding(Protocol):
    """A `SourceFactory` whose sources could read what a sink of the same pipeline writes, without an end."""

    def feeds_on(self, source: SourceSpec, sink: SinkSpec, base_dir: str) -> str | None:
        """How the sink's rows come to the source, for people; None: they don't."""
        ...


@runtime_checkable
class Continuing(Protocol):
    """A source factory that can recognise the same data by other options; what is not recognised is other data."""

    def continues(
        self,
        was: Mapping[str, OptionValue],
        now: Mapping[str, OptionValue],
        position: Position,
        context: ConnectorContext,
        *,
        closed: bool,
    ) -> bool:
        """Whether a source with the options `now` has all that one with `was` had read up to `position`, and would have
        read no more by then.

        The options are those of identities: values as read, without those at their defaults. The store and folder of
        `context` are what the former source has written down. `closed`: the former source had ended, and windows over it are
        closed for good, so that rows that it has now and had not then would be late.
        """
        ...


class SinkFactory(Protocol):
    """Makes both halves of a sink."""

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Sink:
        """The driver's half."""
        ...

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> SinkWriter:
        """The task's half; made in the task, so it must come from plain data."""
        ...


class BatchInput(Protocol):
    """Which files of a source DuckDB can read by itself, for the referee."""

    def __call__(self, spec: SourceSpec, base_dir: str) -> BatchFiles | None:
        """The files, or None if DuckDB would read something else there than the connector does."""
        ...
