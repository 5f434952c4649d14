"""Tables of a plan: what is read, looked up and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlstream_operators.plan.plain_data import stored
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.types import SqlType, quote_identifier


@dataclass(frozen=True, slots=True)
class MetadataColumn:
    """A column that the connector fills: `key` is the connector's name of it (`file.path` …)."""

    name: str
    key: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class WatermarkSpec:
    """How a source's watermark is computed: the maximum of `expression` (DuckDB SQL over the source relation).

    `tick_us` is the resolution of event time: a window with end E is closed at watermark W iff
    E - tick <= W. 1,000 µs for TIMESTAMP(p <= 3), else 1 µs; of an operator it is less by how long after their time
    rows come to it, so it may be below 0. `rises_with` is a physical column that the expression never falls with (`ts` for
    `ts - INTERVAL '5' SECOND`): its maximum alone gives the watermark. A row whose `expression` is more than
    `max_ahead_us` ahead of the epoch's clock is no part of the maximum (None: every row is). `time` is SQL for an event time
    that is computed; None: it is the column itself.
    """

    column: str
    expression: str
    tick_us: int
    idle_timeout_us: int | None = None
    rises_with: str | None = None
    max_ahead_us: int | None = None
    time: str | None = None

    @property
    def time_sql(self) -> str:
        """The event time of a row, over the source relation."""
        return self.time or quote_identifier(self.column)


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One table that is read: what the reader must deliver as the relation named `name`.

    `columns` are the physical columns to deliver (already pruned to what the query needs), `physical` all
    that the table declares (a CSV reader needs their order). `filter` is a DuckDB predicate over `columns`
    that the reader may use to skip data; the fragment applies it again. `identity` says which data it is, whatever
    the table is called: positions are kept under it.
    """

    name: str
    connector: str
    options: Mapping[str, str]
    physical: Schema
    columns: tuple[str, ...]
    metadata: tuple[MetadataColumn, ...] = ()
    filter: str | None = None
    watermark: WatermarkSpec | None = None
    needed_paths: tuple[str, ...] = ()  # dotted nested fields that are used (`bid.price`); () = unknown
    partitioned_by: tuple[str, ...] = ()  # columns whose values are in the files' paths (`k=v/`)
    primary_key: tuple[str, ...] = ()  # of a changelog: an update without its 'before' image will do
    identity: str = ""

    def __post_init__(self) -> None:
        declared = {column.name for column in self.physical}
        missing = [name for name in self.columns if name not in declared]
        if missing:
            raise ValueError(f"source {self.name}: columns {missing} are not declared")

    @property
    def whole(self) -> SourceSpec:
        """The same with all the columns that are declared: rows as dead letters keep them."""
        return replace(self, columns=tuple(column.name for column in self.physical), needed_paths=())


@dataclass(frozen=True, slots=True)
class DimensionSpec:
    """A table that lookup joins read: of each epoch all tasks read one copy of the `columns` of `source`.

    No two rows have one `primary_key`. `reload_us`: how old the copy may be when an epoch is planned, µs; 0: the table is
    looked at for each.
    """

    source: SourceSpec
    reload_us: int = 0

    @property
    def name(self) -> str:
        """The table's name."""
        return self.source.name

    @property
    def schema(self) -> Schema:
        """The columns of the copy."""
        read = set(self.source.columns)
        metadata = (Column(m.name, m.type) for m in self.source.metadata)
        return (*(c for c in self.source.physical if c.name in read), *metadata)


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """One table that is written. `schema` is its declared schema; rows arrive with exactly these columns.

    `identity` says what it holds, as JSON text that only the planner reads: a run goes on with a sink that holds the same.
    Specs that differ in it alone are equal.
    """

    name: str
    connector: str
    options: Mapping[str, str]
    schema: Schema
    primary_key: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    changelog: str = "append"  # 'append' | 'retract': whether rows arrive with WEIGHT_COLUMN
    key: tuple[str, ...] | None = (
        None  # columns that are unique together in what the query gives; None: none known
    )
    on_conflict: str = ""  # 'error': two rows may claim a key, which is an error of the data
    forgets: bool = (
        False  # state has a time to live: a row of a key may come though the one before never went
    )
    identity: str = field(default="", compare=False)
    metadata: tuple[tuple[str, str], ...] = (
        field(  # columns that are no data: (name, what the connector calls it)
            default=(), metadata=stored(if_default=False)
        )
    )
