"""Both halves of `upsert-kafka` as a source."""

from __future__ import annotations

from typing import ClassVar

from sqlstream.connectors.kafka.factory import KafkaSourceFactory
from sqlstream.connectors.upsert_kafka.descriptor import DESCRIPTOR
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor


class UpsertKafkaSourceFactory(KafkaSourceFactory):
    """Topics as a source of the last record of each key."""

    descriptor: ClassVar[ConnectorDescriptor] = DESCRIPTOR
