"""The connectors by the name that `'connector' = '…'` gives them: one line each.

A descriptor is plain data, so that a file can be checked at once; what reads and writes is imported when it is used.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlstream.connectors.blackhole.descriptor import DESCRIPTOR as BLACKHOLE
from sqlstream.connectors.datagen.descriptor import DESCRIPTOR as DATAGEN
from sqlstream.connectors.delta.descriptor import DESCRIPTOR as DELTA
from sqlstream.connectors.duckdb.descriptor import DESCRIPTOR as DUCKDB
from sqlstream.connectors.filesystem.descriptor import DESCRIPTOR as FILESYSTEM
from sqlstream.connectors.iceberg.descriptor import DESCRIPTOR as ICEBERG
from sqlstream.connectors.jdbc.descriptor import DESCRIPTOR as JDBC
from sqlstream.connectors.kafka.descriptor import DESCRIPTOR as KAFKA
from sqlstream.connectors.nexmark.descriptor import DESCRIPTOR as NEXMARK
from sqlstream.connectors.one_row.descriptor import DESCRIPTOR as ONE_ROW
from sqlstream.connectors.postgres.descriptor import DESCRIPTOR as POSTGRES
from sqlstream.connectors.postgres_cdc.descriptor import DESCRIPTOR as POSTGRES_CDC
from sqlstream.connectors.print.descriptor import DESCRIPTOR as PRINT
from sqlstream.connectors.spark.descriptor import DESCRIPTOR as SPARK
from sqlstream.connectors.upsert_kafka.descriptor import DESCRIPTOR as UPSERT_KAFKA
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor, Connectors
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

    `source` and `sink` are factories (a SourceFactory, a SinkFactory, or a class whose instance is one). `batch_input`
    says which files of a source DuckDB can read by itself in a golden run; None: all goes through the connector.
    `dimension` makes tables for lookup joins. `tasks` are modules that factories import when a task needs them. `combines`:
    its readers read several splits at once (`Split.parts`).
    """

    descriptor: ConnectorDescriptor
    source: str | SourceFactory | None = None
    sink: str | SinkFactory | None = None
    batch_input: str | BatchInput | None = None
    dimension: str | DimensionFactory | None = None
    tasks: tuple[str, ...] = ()
    combines: bool = False


class Registry:
    """Connectors by name. Makes both halves of their sources and sinks, on the driver and in tasks."""

    def __init__(self, *connectors: Connector, elsewhere: frozenset[str] = frozenset()) -> None:
        self._by_name = {connector.descriptor.name: connector for connector in connectors}
        # Those that a table can be on.
        self.descriptors = Connectors(
            tuple(c.descriptor for c in connectors if c.descriptor.roles), elsewhere=elsewhere
        )

    def __iter__(self) -> Iterator[Connector]:
        return iter(self._by_name.values())

    def with_connector(self, connector: Connector) -> Registry:
        """The same with one more, or with another of its name."""
        others = [c for c in self if c.descriptor.name != connector.descriptor.name]
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


REGISTERED = Registry(
    Connector(
        FILESYSTEM,
        source="filesystem.factory:FileSourceFactory",
        sink="filesystem.factory:FileSinkFactory",
        batch_input="filesystem.batch_input:batch_input",
        dimension="filesystem.dimension:FileDimensionFactory",
        tasks=("filesystem.reader", "filesystem.sink"),
    ),
    Connector(DATAGEN, source="datagen.source:DatagenFactory"),
    Connector(NEXMARK, source="nexmark.source:NexmarkFactory"),
    Connector(ONE_ROW, source="one_row.source:OneRowFactory"),
    Connector(PRINT, sink="print.sink:PrintSinkFactory"),
    Connector(BLACKHOLE, sink="blackhole.sink:Blackhole"),
    Connector(
        DUCKDB, sink="database.factory:DuckSinkFactory", dimension="database.duckdb_dimension:DuckDimension"
    ),
    Connector(
        POSTGRES,
        source="postgres.source:PostgresSourceFactory",
        sink="database.factory:PostgresSinkFactory",
        dimension="database.postgres_dimension:PostgresDimension",
    ),
    Connector(
        KAFKA,
        source="kafka.factory:KafkaSourceFactory",
        sink="kafka.sink:KafkaSinkFactory",
        tasks=("kafka.reader",),
        combines=True,
    ),
    Connector(
        UPSERT_KAFKA,
        source="upsert_kafka.factory:UpsertKafkaSourceFactory",
        sink="upsert_kafka.sink:UpsertKafkaSinkFactory",
        tasks=("kafka.reader",),
        combines=True,
    ),
    Connector(
        DELTA,
        source="delta.source.factory:DeltaSourceFactory",
        sink="delta.sink.factory:DeltaSinkFactory",
        tasks=("delta.source.reader", "delta.sink.writer"),
    ),
    Connector(
        POSTGRES_CDC,
        source="postgres_cdc.factory:CdcFactory",
        tasks=("postgres_cdc.reader",),
    ),
    Connector(
        ICEBERG,
        source="iceberg.source.factory:IcebergSourceFactory",
        sink="iceberg.sink.factory:IcebergSinkFactory",
        tasks=("iceberg.source.reader", "iceberg.sink.writer"),
    ),
    Connector(SPARK, source="spark.factory:SparkFactory", dimension="spark.factory:SparkLookups"),
    Connector(JDBC, source="jdbc.factory:JdbcFactory", dimension="jdbc.factory:JdbcLookups"),
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
