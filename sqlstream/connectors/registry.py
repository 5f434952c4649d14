"""The connectors by the name that `'connector' = '…'` gives them: one line each.

A descriptor is plain data, so that a file can be checked at once; it is imported when a file names it, and what reads and
writes when it is used.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlstream_planner.catalog.descriptor import ONE_ROW, ConnectorDescriptor, Connectors
from sqlstream_planner.catalog.lazy import Lazy, loaded
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.text.name_lists import names_in

if TYPE_CHECKING:
    from sqlstream.connectors.api import (
        BatchInput,
        ConnectorContext,
        Dimension,
        DimensionFactory,
        Position,
        Sink,
        SinkFactory,
        SinkWriter,
        Source,
        SourceFactory,
        SplitReader,
    )
    from sqlstream_operators.plan.spec import DimensionSpec, SinkSpec, SourceSpec


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector: its descriptor, and where the rest of it is, as `module:name` or as it is.

    `described` is the descriptor, or what imports it. `source` and `sink` are factories (a SourceFactory, a SinkFactory, or
    a class whose instance is one). `batch_input` says which files of a source DuckDB can read by itself in a golden run;
    None: all goes through the connector.
    `dimension` makes tables for lookup joins. `tasks` are modules that factories import when a task needs them. `combines`:
    its readers read several splits at once (`Split.parts`). `internal`: no table can name it.
    """

    described: ConnectorDescriptor | Lazy[ConnectorDescriptor]
    source: str | SourceFactory | None = None
    sink: str | SinkFactory | None = None
    batch_input: str | BatchInput | None = None
    dimension: str | DimensionFactory | None = None
    tasks: tuple[str, ...] = ()
    combines: bool = False
    internal: bool = False

    @property
    def name(self) -> str:
        """What `'connector' = '…'` calls it."""
        return self.described.name

    @property
    def descriptor(self) -> ConnectorDescriptor:
        """What it says of itself."""
        return loaded(self.described)


class Registry:
    """Connectors by name. Makes both halves of their sources and sinks, on the driver and in tasks."""

    def __init__(self, *connectors: Connector, elsewhere: frozenset[str] = frozenset()) -> None:
        self._by_name = {connector.name: connector for connector in connectors}
        self.descriptors = Connectors(
            tuple(c.described for c in connectors if not c.internal), elsewhere=elsewhere
        )

    def __iter__(self) -> Iterator[Connector]:
        return iter(self._by_name.values())

    def with_connector(self, connector: Connector) -> Registry:
        """The same with one more, or with another of its name."""
        others = [c for c in self if c.name != connector.name]
        return Registry(*others, connector, elsewhere=self.descriptors.elsewhere)

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> Dimension:
        """The driver's half of a dimension table. Raises InternalError if the connector has none."""
        name = spec.source.connector
        found: DimensionFactory = _made(
            self._by_name[name].dimension, f"the connector {name} has no dimensions"
        )
        return found.dimension(spec, context)

    def source_factory(self, name: str) -> SourceFactory:
        """What makes the halves of a source. Raises InternalError if the connector is none."""
        found: SourceFactory = _made(self._by_name[name].source, f"the connector {name} is no source")
        return found

    def sink_factory(self, name: str) -> SinkFactory:
        """What makes the halves of a sink. Raises InternalError if the connector is none."""
        found: SinkFactory = _made(self._by_name[name].sink, f"the connector {name} is no sink")
        return found

    def batch_input(self, name: str) -> BatchInput | None:
        """What says which files DuckDB can read, None if it can't read any."""
        given = self._by_name[name].batch_input
        found: BatchInput | None = None if given is None else _loaded(given)
        return found

    def preload(self) -> None:
        """Import everything, as a process does that others are forked from."""
        for connector in self:
            loaded(connector.described)
            for part in (connector.source, connector.sink):
                if part is not None:
                    _loaded(part)
            for module in connector.tasks:
                _loaded(module)

    def place_of(self, name: str, position: Position) -> str:
        """Where a source of this connector goes on, for people."""
        from sqlstream.connectors.api import Placing

        known = self._by_name.get(name)
        factory: object = None if known is None or known.source is None else self.source_factory(name)
        if isinstance(factory, Placing):
            return factory.place_of(position)
        return fields_in_words(position)

    # What the runtime asks: `runtime.api.DriverConnectors` on the driver, `runtime.worker.Connectors` in a task.

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Source:
        """The driver's half of a source."""
        return self.source_factory(spec.connector).source(spec, context)

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Sink:
        """The driver's half of a sink."""
        return self.sink_factory(spec.connector).sink(spec, context)

    def reader(self, spec: SourceSpec, base_dir: str) -> SplitReader:
        """The task's half of a source."""
        return self.source_factory(spec.connector).reader(spec, base_dir)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> SplitReader:
        """The task's half of a source for a split with unreadable rows."""
        return self.source_factory(spec.connector).lenient_reader(spec, base_dir)

    def combines(self, connector: str) -> bool:
        """Whether the readers of a connector read several splits at once."""
        return self._by_name[connector].combines

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> SinkWriter:
        """The task's half of a sink."""
        return self.sink_factory(spec.connector).writer(spec, context)


def fields_in_words(position: Position) -> str:
    """The fields of a position.

    >>> fields_in_words({"row": 1200})
    'row 1,200'
    """
    return ", ".join(
        f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in position.items()
    )


def _made(part: Any, missing: str) -> Any:
    if part is None:
        raise InternalError(missing)
    found = _loaded(part)
    return found() if isinstance(found, type) else found


def _loaded(part: Any) -> Any:
    return pkgutil.resolve_name(f"sqlstream.connectors.{part}") if isinstance(part, str) else part


def _lazy(name: str) -> Lazy[ConnectorDescriptor]:
    """The descriptor in the folder that is called as the connector is."""
    return Lazy(name, partial(_loaded, f"{name.replace('-', '_')}.descriptor:DESCRIPTOR"))


REGISTERED = Registry(
    Connector(
        _lazy("filesystem"),
        source="filesystem.factory:FileSourceFactory",
        sink="filesystem.factory:FileSinkFactory",
        batch_input="filesystem.batch_input:batch_input",
        dimension="filesystem.dimension:FileDimensionFactory",
        tasks=("filesystem.reader", "filesystem.sink"),
    ),
    Connector(_lazy("datagen"), source="datagen.source:DatagenFactory"),
    Connector(_lazy("nexmark"), source="nexmark.source:NexmarkFactory"),
    Connector(_lazy(ONE_ROW), source="one_row.source:OneRowFactory", internal=True),
    Connector(_lazy("print"), sink="print.sink:PrintSinkFactory"),
    Connector(_lazy("blackhole"), sink="blackhole.sink:Blackhole"),
    Connector(
        _lazy("duckdb"),
        sink="database.factory:DuckSinkFactory",
        dimension="database.duckdb_dimension:DuckDimension",
    ),
    Connector(
        _lazy("postgres"),
        source="postgres.source:PostgresSourceFactory",
        sink="database.factory:PostgresSinkFactory",
        dimension="database.postgres_dimension:PostgresDimension",
    ),
    Connector(
        _lazy("kafka"),
        source="kafka.factory:KafkaSourceFactory",
        sink="kafka.sink:KafkaSinkFactory",
        tasks=("kafka.reader",),
        combines=True,
    ),
    Connector(
        _lazy("upsert-kafka"),
        source="upsert_kafka.factory:UpsertKafkaSourceFactory",
        sink="upsert_kafka.sink:UpsertKafkaSinkFactory",
        tasks=("kafka.reader",),
        combines=True,
    ),
    Connector(
        _lazy("delta"),
        source="delta.source.factory:DeltaSourceFactory",
        sink="delta.sink.factory:DeltaSinkFactory",
        tasks=("delta.source.reader", "delta.sink.writer"),
    ),
    Connector(
        _lazy("postgres-cdc"),
        source="postgres_cdc.factory:CdcFactory",
        tasks=("postgres_cdc.reader",),
    ),
    Connector(
        _lazy("iceberg"),
        source="iceberg.source.factory:IcebergSourceFactory",
        sink="iceberg.sink.factory:IcebergSinkFactory",
        tasks=("iceberg.source.reader", "iceberg.sink.writer"),
    ),
    Connector(_lazy("spark"), source="spark.factory:SparkFactory", dimension="spark.factory:SparkLookups"),
    Connector(_lazy("jdbc"), source="jdbc.factory:JdbcFactory", dimension="jdbc.factory:JdbcLookups"),
    # Known to users of Flink, and not here.
    elsewhere=frozenset(
        names_in(
            """
            hive elasticsearch-6 elasticsearch-7 elasticsearch-8 opensearch
            mongodb kinesis firehose dynamodb pulsar hbase-1.4 hbase-2.2 paimon hudi
            faker socket rabbitmq mysql-cdc rest starrocks clickhouse redis
            prometheus
            """
        )
    ),
)
