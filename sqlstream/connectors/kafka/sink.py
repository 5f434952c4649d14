"""Both halves of the sinks `kafka` and `upsert-kafka`: tasks stage rows, the driver writes an epoch's in a transaction."""

from __future__ import annotations

from functools import partial

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.database.keyed_writer import KeyedWriter
from sqlstream.connectors.exactly_once.sink import ExactlyOnceSink
from sqlstream.connectors.exactly_once.staged import StagingWriter
from sqlstream.connectors.kafka.descriptor import DESCRIPTOR
from sqlstream.connectors.kafka.options import KafkaOptions
from sqlstream.connectors.kafka.records import RecordMaker
from sqlstream.connectors.kafka.topic import Topic
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.diagnostics import DiagnosticError


class TopicSinkFactory:
    """Makes sinks of one connector; `upsert`: a record is the last of its key, and a tombstone where its row is gone."""

    def __init__(self, descriptor: ConnectorDescriptor, *, upsert: bool) -> None:
        self._descriptor, self._upsert = descriptor, upsert

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> ExactlyOnceSink:
        """The driver's half. Raises DiagnosticError for options that a sink can't have."""
        wrong = self._descriptor.wrong_sink(spec)
        if wrong is not None:
            raise DiagnosticError(wrong)
        options = KafkaOptions.read(spec.options, descriptor=self._descriptor)
        format_ = self._descriptor.row_format(spec.options)
        changelog = format_ is not None and format_.changelog
        secrets = [
            spec.options[o.name] for o in self._descriptor.options if o.secret and o.name in spec.options
        ]
        maker = partial(RecordMaker, spec, options, upsert=self._upsert, changelog=changelog, secrets=secrets)
        return ExactlyOnceSink(spec, context, Topic(spec, options, context, maker))

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> StagingWriter:
        """The task's half."""
        return KeyedWriter(spec, context) if self._upsert else StagingWriter(spec, context)


class KafkaSinkFactory(TopicSinkFactory):
    """Sinks of the connector `kafka`."""

    def __init__(self) -> None:
        super().__init__(DESCRIPTOR, upsert=False)
