"""Both halves of the sink `upsert-kafka`."""

from __future__ import annotations

from sqlstream.connectors.kafka.sink import TopicSinkFactory
from sqlstream.connectors.upsert_kafka.descriptor import DESCRIPTOR


class UpsertKafkaSinkFactory(TopicSinkFactory):
    """Sinks of the connector `upsert-kafka`."""

    def __init__(self) -> None:
        super().__init__(DESCRIPTOR, upsert=True)
