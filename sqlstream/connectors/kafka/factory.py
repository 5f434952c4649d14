"""Both halves of a source on Kafka, as the registry wants them.

What reads is imported with the first that does: a plan of an edit only asks the brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from sqlstream.connectors.api import ConnectorContext, Position
from sqlstream.connectors.kafka.descriptor import DESCRIPTOR as KAFKA
from sqlstream.connectors.kafka.positions import KafkaPosition, in_words
from sqlstream.connectors.kafka.same_topics import continues
from sqlstream.connectors.kafka.source import KafkaSource
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.catalog.options import OptionValue

if TYPE_CHECKING:
    from sqlstream.connectors.kafka.reader import KafkaReader


class KafkaSourceFactory:
    """Topics as a source of rows, or of what the format says of changes."""

    descriptor: ClassVar[ConnectorDescriptor] = KAFKA

    def source(self, spec: SourceSpec, context: ConnectorContext) -> KafkaSource:
        """The driver's half."""
        return KafkaSource(spec, context, self.descriptor)

    def continues(
        self,
        was: Mapping[str, OptionValue],
        now: Mapping[str, OptionValue],
        position: Position,
        context: ConnectorContext,
        *,
        closed: bool,
    ) -> bool:
        """Whether other options mean the same records so far; see `Continuing`."""
        return continues(was, now, position, closed=closed)

    def place_of(self, position: Position) -> str:
        """The offset of each partition; see `Placing`."""
        return in_words(KafkaPosition.from_json(position).next)

    def reader(self, spec: SourceSpec, base_dir: str) -> KafkaReader:
        """The task's half."""
        from sqlstream.connectors.kafka.reader import KafkaReader

        return KafkaReader(spec, self.descriptor)

    def lenient_reader(self, spec: SourceSpec, base_dir: str) -> KafkaReader:
        """The task's half for whole rows."""
        from sqlstream.connectors.kafka.reader import KafkaReader

        return KafkaReader(spec, self.descriptor)
