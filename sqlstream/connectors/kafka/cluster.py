"""What the driver asks the brokers: which topics there are, and how far they go."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar

from sqlstream.connectors.exactly_once.target import LostConnectionError
from sqlstream.connectors.kafka.bootstrap import check_reachable
from sqlstream.connectors.kafka.client import admin_config, confluent_kafka, made
from sqlstream.connectors.kafka.failures import LOGIN
from sqlstream.connectors.kafka.options import KafkaOptions
from sqlstream.connectors.kafka.positions import Offsets, Part
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_T = TypeVar("_T")
#: How long one request may take before it is repeated, s.
_ASK_S = 10.0
_PAUSE_S = 0.2
#: How long the first request of a client may take, s.
_MEET_S = 2.0
#: How long brokers that never took a connection are tried, s: the client would try for all of the table's patience.
_FIRST_S = 5.0
#: For so long brokers must say that there is no such partition: one may hear of a new topic later than another, s.
_GONE_S = 5.0
#: How long a group's offsets are tried to be written, s.
_COMMIT_S = 5.0


class Cluster:
    """The brokers of a table, by one client, which is made with the first request.

    A request that they don't answer is repeated until the table's patience ends; then DiagnosticError (ENV010) is raised.
    Brokers that take no connection when they are asked first are given a few seconds only.
    """

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options
        self._admin: Any = None
        self._trouble = self._refusal = ""
        self._was_reached = False
        self._ask_s = min(_ASK_S, options.patience_s)
        self._gone_s = min(_GONE_S, options.patience_s / 2)

    def topics(self) -> dict[str, Sequence[int]]:
        """The partitions of all topics that this user may see."""
        found = self._call(lambda admin: admin.list_topics(timeout=self._ask_s))
        return {name: sorted(topic.partitions) for name, topic in found.topics.items() if topic.error is None}

    def cluster_id(self) -> str:
        """What the cluster calls itself."""
        return str(self._call(lambda admin: admin.list_topics(timeout=self._ask_s)).cluster_id or "")

    def ids(self, topics: Sequence[str]) -> dict[str, str]:
        """What the brokers know topics by, without those that are not there; "" from brokers that give topics no id."""
        kafka = confluent_kafka()

        def ask(admin: Any) -> dict[str, str]:
            found: dict[str, str] = {}
            futures = admin.describe_topics(kafka.TopicCollection(list(topics)), request_timeout=self._ask_s)
            for name, future in futures.items():
                try:
                    found[name] = str(future.result().topic_id or "")
                except kafka.KafkaException as error:
                    if error.args[0].code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
            return found

        return self._call(ask) if topics else {}

    def recreated(self, ids: Mapping[str, str], topics: Iterable[str]) -> list[str]:
        """The topics that are others than those with these ids. One that is gone, or has no id, is not known to be."""
        known = sorted({topic for topic in topics if ids.get(topic)})
        return [topic for topic, now in self.ids(known).items() if now and now != ids[topic]]

    def earliest(self, parts: Iterable[Part]) -> dict[Part, int]:
        """The first offsets that are there, without partitions that are not."""
        return self._offsets({part: _spec().earliest() for part in parts})

    def latest(self, parts: Iterable[Part]) -> dict[Part, int]:
        """The offsets behind the last record, without partitions that are not there; with read_committed behind the last
        record that is decided.
        """
        return self._offsets({part: _spec().latest() for part in parts})

    def at_time(self, parts: Sequence[Part], timestamp_ms: int) -> dict[Part, int]:
        """The first offsets of records with that time or a later one; behind the last one if there is none."""
        found = self._offsets({part: _spec().for_timestamp(timestamp_ms) for part in parts})
        missing = [part for part, offset in found.items() if offset < 0]
        return {**found, **(self.latest(missing) if missing else {})}

    def group_offsets(self, group: str, parts: Sequence[Part]) -> dict[Part, int]:
        """The offsets that a group has committed, of the partitions where it has."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        def ask(admin: Any) -> dict[Part, int]:
            wanted = [ConsumerGroupTopicPartitions(group, [TopicPartition(*part) for part in parts])]
            answer = admin.list_consumer_group_offsets(wanted, request_timeout=self._ask_s)[group].result()
            return {(p.topic, p.partition): p.offset for p in answer.topic_partitions if p.offset >= 0}

        return self._call(ask) if parts else {}

    def compacted(self, topics: Sequence[str]) -> dict[str, str]:
        """The topics whose records may be gone by compaction, and why that is thought."""
        kafka, kinds = confluent_kafka(), _admin_module()

        def ask(admin: Any) -> dict[str, str]:
            found: dict[str, str] = {}
            wanted = [kinds.ConfigResource(kinds.ResourceType.TOPIC, topic) for topic in topics]
            for resource, future in admin.describe_configs(wanted, request_timeout=self._ask_s).items():
                try:
                    policy = future.result()["cleanup.policy"].value
                except kafka.KafkaException as error:
                    if error.args[0].code() != kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED:
                        raise
                    found[resource.name] = "this user may not see whether it is compacted (DESCRIBE_CONFIGS)"
                    continue
                if "compact" in policy:
                    found[resource.name] = (
                        f"it is compacted (cleanup.policy={policy}), so records may be gone"
                    )
            return found

        return self._call(ask) if topics else {}

    def commit(self, group: str, offsets: Offsets) -> None:
        """Write down the offsets of a group; not as patiently as else, as the run waits, and does not need them."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        wanted = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]

        def ask(admin: Any) -> None:
            futures = admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=self._ask_s
            )
            for future in futures.values():
                for part in future.result().topic_partitions:
                    if part.error is not None:
                        raise confluent_kafka().KafkaException(part.error)

        self._call(ask, patience_s=min(self._options.patience_s, _COMMIT_S))

    def close(self) -> None:
        """Let go of the connections."""
        self._admin = None

    def _offsets(self, wanted: Mapping[Part, Any]) -> dict[Part, int]:
        from confluent_kafka import IsolationLevel, TopicPartition

        level = (
            IsolationLevel.READ_COMMITTED if self._options.committed_only else IsolationLevel.READ_UNCOMMITTED
        )

        kafka, begun = confluent_kafka(), time.monotonic()

        def ask(admin: Any) -> dict[Part, int]:
            futures = admin.list_offsets(
                {TopicPartition(*part): spec for part, spec in wanted.items()},
                isolation_level=level,
                request_timeout=self._ask_s,
            )
            found, unknown = dict[Part, int](), dict[Part, Exception]()
            for place, future in futures.items():
                part = (place.topic, place.partition)
                try:
                    found[part] = int(future.result().offset)
                except kafka.KafkaException as error:
                    # A client that knows of no leader of any says _NOENT.
                    if error.args[0].code() not in (
                        kafka.KafkaError.UNKNOWN_TOPIC_OR_PART,
                        kafka.KafkaError._NOENT,
                    ):
                        raise
                    unknown[part] = error
            if unknown and (
                time.monotonic() < begun + self._gone_s or self._listed(admin).intersection(unknown)
            ):
                raise next(iter(unknown.values()))
            return found

        return self._call(ask) if wanted else {}

    def _listed(self, admin: Any) -> set[Part]:
        topics = admin.list_topics(timeout=self._ask_s).topics
        return {(name, number) for name, topic in topics.items() for number in topic.partitions}

    def _client(self) -> Any:
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            config = {**admin_config(self._options), "error_cb": self._heard}
            self._refusal = ""
            self._admin = made(AdminClient, config)
            self._meet(self._admin)
        return self._admin

    def _meet(self, admin: Any) -> None:
        """Ask a new client something small: who is not let in hears that, while other requests wait for their time to end.

        Raises DiagnosticError (ENV010) if the brokers refuse the login.
        """
        with contextlib.suppress(confluent_kafka().KafkaException):  # the next request says why
            admin.describe_cluster(request_timeout=min(_MEET_S, self._ask_s)).result()
        admin.poll(0)
        if self._refusal:
            raise self._refused(self._refusal)

    def _heard(self, error: Any) -> None:
        self._trouble = error.str()
        if error.name() in LOGIN:
            self._refusal = self._trouble

    def _call(self, ask: Callable[[Any], _T], *, patience_s: float | None = None) -> _T:
        kafka = confluent_kafka()
        patience_s = self._options.patience_s if patience_s is None else patience_s
        self._reach(min(patience_s, _FIRST_S))
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return ask(self._client())
            except kafka.KafkaException as error:
                reason = error.args[0]
                if reason.code() in _refusals(kafka):
                    raise self._refused(reason.str()) from error
                if time.monotonic() > deadline:
                    raise self._away(self._trouble or reason.str(), patience_s) from error
                # What a client knows of leaders it may go on asking by, though these have changed.
                self._admin = None
                time.sleep(_PAUSE_S)

    def _reach(self, patience_s: float) -> None:
        deadline = time.monotonic() + patience_s
        while not self._was_reached:
            try:
                check_reachable(self._options.brokers)
            except LostConnectionError as error:
                if time.monotonic() > deadline:
                    raise self._away(str(error), patience_s) from error
                time.sleep(_PAUSE_S)
            else:
                self._was_reached = True

    def _refused(self, reason: str) -> DiagnosticError:
        return DiagnosticError(
            Diagnostic(
                "ENV010",
                f"Kafka's brokers at {self._options.brokers} refuse: {reason}",
                help="look at 'properties.security.protocol' and 'properties.sasl.*', and at the user's rights (ACLs)",
            ),
            exit_code=5,
        )

    def _away(self, reason: str, patience_s: float) -> DiagnosticError:
        return DiagnosticError(
            Diagnostic(
                "ENV010",
                f"Kafka's brokers can't be reached at {self._options.brokers}",
                notes=(reason, f"no answer for {patience_s:.0f} s"),
                help="start them, or fix 'properties.bootstrap.servers'; a run goes on where it stopped",
            ),
            exit_code=5,
        )


def _spec() -> Any:
    return _admin_module().OffsetSpec


def _admin_module() -> Any:
    """Of which its stubs export less than it does."""
    return import_module("confluent_kafka.admin")


def _refusals(kafka: Any) -> frozenset[int]:
    error = kafka.KafkaError
    return frozenset(
        (
            error._AUTHENTICATION,
            error.SASL_AUTHENTICATION_FAILED,
            error.TOPIC_AUTHORIZATION_FAILED,
            error.GROUP_AUTHORIZATION_FAILED,
            error.CLUSTER_AUTHORIZATION_FAILED,
            error.UNSUPPORTED_VERSION,
        )
    )
