"""Which options of a table on Kafka may change while the records that were read so far stay the same."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.connectors.api import Position
from sqlstream.connectors.kafka.positions import KafkaPosition
from sqlstream.connectors.kafka.shared_options import BROKERS
from sqlstream_planner.catalog.options import OptionValue

#: What says where reading begins if that is where a group is.
_OF_GROUPS = ("properties.group.id", "properties.auto.offset.reset")
_BOUNDED = "scan.bounded."


def continues(
    was: Mapping[str, OptionValue], now: Mapping[str, OptionValue], position: Position, *, closed: bool
) -> bool:
    """Whether a table with the options `now` has all that one with `was` had read, and would have read no more.

    The start is written in the position: a group means something to 'group-offsets' alone. An end may come, go or change
    as long as nothing was closed for good. Brokers may be named otherwise, if they say that they are of one cluster.
    """
    free = set[str]()
    if was.get("scan.startup.mode", "group-offsets") != "group-offsets":
        free |= set(_OF_GROUPS)
    if not closed:
        free |= {name for name in (*was, *now) if name.startswith(_BOUNDED)}
    if was.get(BROKERS) != now.get(BROKERS):
        cluster = KafkaPosition.from_json(position).cluster
        if not cluster or not _is_of(str(now.get(BROKERS, "")), cluster):
            return False
        free.add(BROKERS)
    return {k: v for k, v in was.items() if k not in free} == {k: v for k, v in now.items() if k not in free}


def _is_of(brokers: str, cluster: str) -> bool:
    """Whether the brokers answer, without any password, and say that they are the cluster's.

    Identities have no secrets: of brokers that ask for one nothing is known, so that they count as others.
    """
    from sqlstream.connectors.kafka.client import confluent_kafka

    kafka = confluent_kafka()
    from confluent_kafka.admin import AdminClient

    try:
        found = AdminClient({"bootstrap.servers": brokers, "log_level": "2"}).list_topics(timeout=5)
    except kafka.KafkaException:
        return False
    return bool(found.cluster_id == cluster)
