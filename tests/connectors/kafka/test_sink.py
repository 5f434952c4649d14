"""The sinks `kafka` and `upsert-kafka` on a real broker: an epoch is there once, whatever the driver dies of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from sqlstream.connectors.api import TargetEdit
from sqlstream_operators.errors import DataError, TargetError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.kafka.sink_job import new_job, values
from tests.connectors.kafka.topics import Topics
from tests.connectors.sink_job import SinkJob
from tests.connectors.staged_parts import come, go


def table(topics: Topics, topic: str) -> dict[Any, Any]:
    """What a compacted topic holds: the last value of each key."""
    found: dict[Any, Any] = {}
    for record in topics.records(topic):
        found[record.key] = record.value
    return {key: json.loads(value) for key, value in found.items() if value is not None}


def test_rows_are_there_once_their_epoch_is_committed(
    made: list[SinkJob], tmp_path: Path, topics: Topics
) -> None:
    topic = topics.create(3)
    job = new_job(made, tmp_path, topics, topic)
    parts = job.prepare(come((1, "a"), (2, None)), come((3, "ü")))
    assert values(topics, topic) == []
    job.commit(parts)
    assert sorted(values(topics, topic), key=lambda row: row["k"]) == [
        {"k": 1, "v": "a"},
        {"k": 2, "v": None},
        {"k": 3, "v": "ü"},
    ]
    job.commit_again(parts)
    job.start().abort_uncommitted(1)
    job.commit_again(parts)
    job.epoch()
    job.epoch(come((4, "d")))
    assert len(values(topics, topic)) == 4


def test_a_driver_that_dies_before_the_commit(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create(2)
    job = new_job(made, tmp_path, topics, topic)
    job.epoch(come((1, "a")))
    parts = job.prepare(come((2, "b")))
    job.start(close=False)  # the former one's transaction stays open until it is fenced
    job.last += 1
    job.sink.commit(2, parts, previous=1)
    job.committed = 2
    job.epoch(come((3, "c")))
    assert sorted(row["k"] for row in values(topics, topic)) == [1, 2, 3]


def test_a_driver_that_dies_before_the_manifest(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create(2)
    job = new_job(made, tmp_path, topics, topic)
    job.epoch(come((1, "a")))
    job.prepare(come((2, "b")))
    job.start(close=False).abort_uncommitted(1)
    job.epoch(come((2, "c")))
    assert sorted((row["k"], row["v"]) for row in values(topics, topic)) == [(1, "a"), (2, "c")]


@pytest.mark.parametrize("when", ["prepare", "commit"])
def test_a_driver_that_wakes_up_writes_nothing(
    made: list[SinkJob], tmp_path: Path, topics: Topics, when: str
) -> None:
    topic = topics.create(2)
    job = new_job(made, tmp_path, topics, topic)
    job.epoch(come((1, "a")))
    paused = job.sink
    parts = job.prepare(come((2, "b"))) if when == "commit" else [job.part(come((2, "b")))]
    job.start(close=False)
    others = job.prepare(come((2, "by the other")))
    step = paused.commit if when == "commit" else paused.prepare
    with pytest.raises(DiagnosticError) as caught:
        step(2, parts, previous=1)
    assert [d.code for d in caught.value.diagnostics] == ["ENV012"]
    job.commit(others)
    assert sorted((row["k"], row["v"]) for row in values(topics, topic)) == [(1, "a"), (2, "by the other")]
    job.epoch(come((3, "c")))  # the other one goes on


def test_a_state_directory_that_was_restored(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create()
    job = new_job(made, tmp_path, topics, topic)
    for number in range(3):
        job.epoch(come((number, "x")))
    job.last = job.committed = 1
    job.start()
    with pytest.raises(TargetError, match="has epoch 3, but its state is at epoch 1"):
        job.sink.abort_uncommitted(1)
    with pytest.raises(TargetError, match="has epoch 3, but its state is at epoch 1"):
        job.epoch(come((9, "y")))
    assert len(values(topics, topic)) == 3
    with pytest.raises(TargetError, match="has epoch 3, but its state is at epoch 5"):
        job.sink.prepare(6, [], previous=5)


def test_a_topic_that_was_deleted(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create()
    job = new_job(made, tmp_path, topics, topic)
    job.epoch(come((1, "a")))
    topics.delete(topic)
    job.start()
    with pytest.raises(TargetError, match="is gone"):
        job.epoch(come((2, "b")))
    topics.create(name=topic)
    job.start()
    with pytest.raises(TargetError, match="is gone"):
        job.epoch(come((2, "b")))
    job.start().begin_with(TargetEdit.REWRITE)
    job.epoch(come((1, "a"), (2, "b")))
    assert len(values(topics, topic)) == 2


def test_a_topic_is_made_by_the_broker(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    job = new_job(made, tmp_path, topics, f"made-{tmp_path.name}")
    job.epoch(come((1, "a")))
    assert values(topics, f"made-{tmp_path.name}") == [{"k": 1, "v": "a"}]


def test_looking_changes_nothing_and_fences_nobody(
    made: list[SinkJob], tmp_path: Path, topics: Topics
) -> None:
    topic = topics.create()
    job = new_job(made, tmp_path, topics, topic)
    look = job.start()
    look.look([0])
    assert look.epoch_there() is None
    assert look.is_vacant()
    assert not (tmp_path / "state" / "sinks").exists()
    job.start()
    job.epoch(come((1, "a")))
    parts = job.prepare(come((2, "b")))
    looker = job.start(close=False)
    job.sinks.pop()
    looker.look([1])
    assert looker.epoch_there() == 1
    assert not looker.is_vacant()
    with pytest.raises(TargetError):
        looker.look([2])
    looker.close()
    job.commit(parts)
    assert len(values(topics, topic)) == 2


def test_keys_go_where_javas_clients_put_them(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic, other = topics.create(5), topics.create(5)
    job = new_job(
        made, tmp_path, topics, topic, key_format="raw", key_fields="v", value_fields__include="EXCEPT_KEY"
    )
    names = [f"key {n}" for n in range(20)]
    job.epoch(come(*enumerate(names)))
    producer = Producer({"bootstrap.servers": topics.bootstrap, "partitioner": "murmur2_random"})
    for name in names:
        producer.produce(other, "x", name)
    producer.flush()
    assert {r.key: r.partition for r in topics.records(topic)} == {
        r.key: r.partition for r in topics.records(other)
    }
    assert sorted(values(topics, topic), key=lambda row: row["k"]) == [{"k": n} for n in range(20)]


@pytest.mark.parametrize(
    ("partitioner", "used"), [("fixed", {0: 8}), ("round-robin", {0: 2, 1: 2, 2: 2, 3: 2})]
)
def test_partitioners(
    made: list[SinkJob], tmp_path: Path, topics: Topics, partitioner: str, used: Mapping[int, int]
) -> None:
    topic = topics.create(4)
    job = new_job(made, tmp_path, topics, topic, sink_partitioner=partitioner)
    job.epoch(come(*((n, "x") for n in range(5))))
    job.epoch(come(*((n, "x") for n in range(3))))
    assert Counter(record.partition for record in topics.records(topic)) == used


def test_a_topic_of_upserts_holds_the_table(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create(3, config={"cleanup.policy": "compact"})
    job = new_job(made, tmp_path, topics, topic, key=("k",), upsert=True, changelog="retract")
    job.epoch(come((1, "a"), (2, "b"), (3, "c")))
    job.epoch(go((1, "a"), (2, "b")), come((1, "A")))
    job.epoch(come((4, "d")), go((4, "d")), go((1, "A")), come((1, "AA")))
    assert sorted(table(topics, topic).values(), key=lambda row: row["k"]) == [
        {"k": 1, "v": "AA"},
        {"k": 3, "v": "c"},
    ]
    records = topics.records(topic)
    assert Counter(json.loads(record.key or b"")["k"] for record in records) == {1: 3, 2: 2, 3: 1}
    assert [r.value for r in records if json.loads(r.key or b"")["k"] == 2][-1] is None


def test_appended_rows_are_upserts_of_their_keys(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create(3)
    job = new_job(made, tmp_path, topics, topic, key=("k",), upsert=True, value_fields__include="EXCEPT_KEY")
    job.epoch(come((1, "a"), (2, "b")))
    job.epoch(come((1, "c")))
    assert table(topics, topic) == {b'{"k":1}': {"v": "c"}, b'{"k":2}': {"v": "b"}}


def test_records_of_others_are_no_part_of_a_table(
    made: list[SinkJob], tmp_path: Path, topics: Topics
) -> None:
    topic = topics.create()
    topics.produce(topic, ["{}"], keys=["x"])
    job = new_job(made, tmp_path, topics, topic, key=("k",), upsert=True, changelog="retract")
    with pytest.raises(TargetError, match="has rows that this pipeline did not write"):
        job.epoch(come((1, "a")))
    append = new_job(made, tmp_path, topics, topic, state="other")
    append.epoch(come((1, "a")))
    assert len(topics.values(topic)) == 2


def test_a_changelog_takes_back_before_it_gives(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create(4)
    job = new_job(made, tmp_path, topics, topic, changelog="retract", unique=("k",), format="changelog-json")
    rows = {k: (k, "0") for k in range(10)}
    job.epoch(come(*rows.values()))
    for version in "123":
        job.epoch(come(*((k, version) for k in rows)), go(*((k, v) for k, v in rows.values())))
        rows = {k: (k, version) for k in rows}
    held: dict[int, list[str]] = {}
    places: dict[int, set[int]] = {}
    for record in topics.records(topic):
        change = json.loads(record.value or b"")
        row, kind = change["data"], change["op"]
        places.setdefault(row["k"], set()).add(record.partition)
        there = held.setdefault(row["k"], [])
        there.append(row["v"]) if kind[0] == "+" else there.remove(row["v"])
        assert len(there) <= 1
    assert held == {k: ["3"] for k in range(10)}
    assert all(len(found) == 1 for found in places.values())
    assert len(set.union(*places.values())) > 1


def test_rows_without_a_key_are_counted(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create(2)
    job = new_job(made, tmp_path, topics, topic, changelog="retract", format="changelog-json")
    job.epoch(come((1, "a"), (1, "a"), (1, "a")))
    job.epoch(go((1, "a"), (1, "a")))
    kinds = Counter(json.loads(value or b"")["op"] for value in topics.values(topic))
    assert kinds == {"+I": 3, "-D": 2}


def test_timestamps_and_headers(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    from datetime import UTC, datetime

    topic = topics.create()
    job = new_job(
        made,
        tmp_path,
        topics,
        topic,
        {"k": "BIGINT", "at": "TIMESTAMP WITH TIME ZONE", "h": "MAP(VARCHAR, BLOB)"},
        metadata=(("at", "timestamp"), ("h", "headers")),
    )
    job.epoch(come((1, datetime(2024, 7, 1, tzinfo=UTC), [("a", b"x"), ("b", None)]), (2, None, None)))
    one, other = sorted(topics.records(topic), key=lambda record: record.value or b"")
    assert (one.value, one.timestamp, one.headers) == (
        b'{"k":1}',
        1719792000000,
        (("a", b"x"), ("b", None)),
    )
    assert other.value == b'{"k":2}'
    assert other.timestamp > 1719792000000


@pytest.mark.parametrize("guarantee", ["at-least-once", "none"])
def test_weaker_guarantees(made: list[SinkJob], tmp_path: Path, topics: Topics, guarantee: str) -> None:
    topic = topics.create()
    job = new_job(made, tmp_path, topics, topic, sink_delivery__guarantee=guarantee)
    job.epoch(come((1, "a")))
    parts = job.prepare(come((2, "b")))
    assert len(topics.records(topic, committed=False)) <= 1
    job.commit(parts)
    job.start()
    job.commit_again(parts)  # a run that ended well has said so
    job.sink.abort_uncommitted(2)
    job.epoch(come((3, "c")))
    job.start()
    assert [row["k"] for row in values(topics, topic)] == [1, 2, 3]


def test_a_message_that_is_too_large(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create(config={"max.message.bytes": "2000"})
    job = new_job(made, tmp_path, topics, topic)
    job.epoch(come((1, "a")))
    with pytest.raises(DataError, match="too large"):
        job.epoch(come((2, "x" * 10_000)))
    with pytest.raises(DataError, match="too large"):
        job.epoch(come((2, "x" * 3_000_000)))
    job.epoch(come((2, "b")))
    assert [row["k"] for row in values(topics, topic)] == [1, 2]


def test_an_offset_that_kafka_forgot_is_remembered(
    made: list[SinkJob], tmp_path: Path, topics: Topics
) -> None:
    topic = topics.create()
    job = new_job(made, tmp_path, topics, topic)
    job.epoch(come((1, "a")))
    job.epoch(come((2, "b")))
    job.start()
    group = f"sqlstream-{json.loads((tmp_path / 'state/sinks/identity.json').read_text())['id']}-out"
    admin = topics.admin
    admin.delete_consumer_groups([group])[group].result(20)
    job.epoch(come((3, "c")))
    assert [row["k"] for row in values(topics, topic)] == [1, 2, 3]
    admin.delete_consumer_groups([group])[group].result(20)
    with pytest.raises(TargetError, match="has epoch 2, but its state is at epoch 3"):  # as was noted last
        job.epoch(come((4, "d")))


def test_another_topic_of_the_name_has_no_epoch(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    topic = topics.create()
    job = new_job(made, tmp_path, topics, topic)
    job.epoch(come((1, "a")))
    topics.delete(topic)
    topics.create(name=topic)
    job.start()  # the driver of the run before ends only now
    with pytest.raises(TargetError, match="epoch 1"):
        job.epoch(come((2, "b")))
    assert values(topics, topic) == []


def test_a_user_who_may_not_write(made: list[SinkJob], tmp_path: Path, topics: Topics) -> None:
    from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
    from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

    topic = topics.create()
    rule = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:reader",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    admin = topics.admin
    admin.create_acls([rule])[rule].result(20)
    job = new_job(
        made,
        tmp_path,
        topics,
        topic,
        properties_security_protocol="SASL_PLAINTEXT",
        properties_sasl_mechanism="PLAIN",
    )
    for password, told in (("reader-not-shown", "allow it"), ("wrong", "properties.sasl")):
        login = (
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="reader" '
            f'password="{password}";'
        )
        job.spec = replace(
            job.spec,
            options={
                **job.spec.options,
                "properties.bootstrap.servers": topics.broker.sasl,
                "properties.sasl.jaas.config": login,
            },
        )
        job.start()
        with pytest.raises(DiagnosticError) as caught:
            job.epoch(come((1, "a")))
        (found,) = caught.value.diagnostics
        assert found.code == "ENV006"
        assert told in (found.help or "")
        assert password not in str(found)
    assert topics.records(topic, settled=False) == []
