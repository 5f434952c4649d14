"""The source on a real broker: where it begins and ends, what it reads, and what is gone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from sqlstream.connectors.api import Limits
from sqlstream.connectors.kafka.shared_options import METADATA
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import BIGINT, VARCHAR, array
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.kafka.broker import new_broker
from tests.connectors.kafka.sources import Reading, table
from tests.connectors.kafka.topics import Topics

Reads = Callable[..., Reading]
#: Records of 1970 are older than any retention.
KEPT = {"retention.ms": "-1"}


@pytest.fixture
def reads(topics: Topics, duck: DuckSession, tmp_path: Path) -> Reads:
    def make(options: Mapping[str, str], *args: Any, ends: bool = False, **named: Any) -> Reading:
        return Reading(table(topics.bootstrap, options, *args, **named), tmp_path, duck, ends=ends)

    return make


def values(numbers: Sequence[int], key: str = "a") -> list[str]:
    return [json.dumps({"k": key, "v": n}) for n in numbers]


def numbers(rows: Sequence[tuple[Any, ...]]) -> list[int]:
    return [row[1] for row in rows]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"scan.startup.mode": "earliest-offset"}, [0, 1, 2, 3, 4, 5]),
        ({"scan.startup.mode": "latest-offset"}, [5]),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "3000"}, [2, 3, 4, 5]),
        ({"scan.startup.mode": "timestamp", "scan.startup.timestamp-millis": "90000"}, [5]),
        (
            {
                "scan.startup.mode": "specific-offsets",
                "scan.startup.specific-offsets": "partition:0,offset:4",
            },
            [4, 5],
        ),
        ({"scan.startup.mode": "group-offsets"}, [3, 4, 5]),
        ({"scan.bounded.mode": "latest-offset"}, [0, 1, 2, 3, 4]),
        ({"scan.bounded.mode": "timestamp", "scan.bounded.timestamp-millis": "3000"}, [0, 1]),
        (
            {
                "scan.bounded.mode": "specific-offsets",
                "scan.bounded.specific-offsets": "partition:0,offset:2",
            },
            [0, 1],
        ),
        ({"scan.bounded.mode": "group-offsets"}, [0, 1, 2]),
    ],
)
def test_where_it_begins_and_ends_is_decided_once(
    topics: Topics, reads: Reads, options: Mapping[str, str], expected: list[int]
) -> None:
    topic, group = topics.create(config=KEPT), "group-of-starts"
    for n in range(5):
        topics.produce(topic, values([n]), timestamp=1000 * (n + 1))
    options = {"topic": topic, "properties.group.id": group, **options}
    reading = reads(options)
    reading.source.committed({"cluster": "", "topics": {}, "start": {}, "next": {topic: {"0": 3}}})
    start = reading.source.initial_position()
    topics.produce(topic, values([5]), timestamp=1)
    assert numbers(reading.again().rows(start)) == expected
    if "scan.bounded.mode" in options:
        [*_, last] = reading.again().epochs(start)
        assert last.exhausted
        assert reading.source.bounded


def test_a_group_that_has_no_offsets_is_an_error_unless_something_is_said(
    topics: Topics, reads: Reads
) -> None:
    topic = topics.create()
    topics.produce(topic, values([1]))
    options = {"topic": topic, "scan.startup.mode": "group-offsets", "properties.group.id": "new-group"}
    with pytest.raises(DiagnosticError, match="group 'new-group' has no offset"):
        reads(options).source.initial_position()
    assert numbers(reads({**options, "properties.auto.offset.reset": "earliest"}).rows()) == [1]
    assert reads({**options, "properties.auto.offset.reset": "latest"}).rows() == []


def test_a_topic_that_is_not_there_is_told_with_those_that_are(topics: Topics, reads: Reads) -> None:
    topic = topics.create(name="orders-of-the-shop")
    with pytest.raises(DiagnosticError, match="there is no topic 'orders-of-the-shpo'") as raised:
        reads({"topic": "orders-of-the-shpo"}).source.initial_position()
    told = raised.value.diagnostics[0]
    assert (told.code, told.help) == ("DAT004", f"did you mean '{topic}'?")


def test_partitions_are_read_in_turn_within_the_limits(topics: Topics, reads: Reads) -> None:
    topic = topics.create(3)
    for partition, count in enumerate((50, 2, 9)):
        topics.produce(topic, values(range(100 * partition, 100 * partition + count)), partition=partition)
    found = list(reads({"topic": topic}).epochs(limits=Limits(rows=20)))
    assert all(len(epoch.rows) <= 20 for epoch in found)
    assert len(found[0].splits) == 3
    assert sorted(numbers([row for epoch in found for row in epoch.rows])) == [
        *range(50), 100, 101, *range(200, 209)
    ]  # fmt: skip


def test_new_partitions_and_topics_are_found_while_it_runs(topics: Topics, reads: Reads) -> None:
    one = topics.create(name="found-1")
    topics.produce(one, values([1]))
    reading = reads(
        {
            "topic-pattern": "found-.",
            "scan.topic-partition-discovery.interval": "1 ms",
            "scan.startup.mode": "latest-offset",
        }
    )
    at = reading.source.initial_position()
    two = topics.create(name="found-2")
    topics.produce(two, values([2]))
    from confluent_kafka.cimpl import NewPartitions

    admin: AdminClient = topics.admin
    admin.create_partitions([NewPartitions(one, 2)])[one].result(20)
    topics.produce(one, values([3]), partition=1)
    assert sorted(numbers(reading.rows(at))) == [2, 3], "what is new is read from its beginning"


def test_limits_of_bytes_are_met_by_the_size_of_records(topics: Topics, reads: Reads) -> None:
    topic = topics.create(2)
    small, large = (
        [f'{{"v": {n}}}' for n in range(1000)],
        [json.dumps({"v": n, "k": "x" * 990}) for n in range(50)],
    )
    topics.produce(topic, small, partition=0)
    topics.produce(topic, large, partition=1)
    epochs = list(reads({"topic": topic}).epochs(limits=Limits(bytes=20_000)))
    read = [[n for _, n in epoch.rows] for epoch in epochs]
    assert sorted(n for rows in read for n in rows) == sorted([*range(1000), *range(50)])
    sizes = [sum(8 if key is None else 1010 for key, _ in epoch.rows) for epoch in epochs]
    assert max(sizes) < 24_000
    assert len(epochs) == 4
    few = topics.create(2)
    topics.produce(few, small[:20], partition=0)
    topics.produce(few, large[:5], partition=1)
    one = list(reads({"topic": few}).epochs(limits=Limits(bytes=1)))
    assert len(one) == 25, "an epoch has a record at least"


def test_metadata_and_keys(topics: Topics, reads: Reads) -> None:
    topic = topics.create(2, config=KEPT)
    headers = [("h", b"1"), ("n", None), ("h", b"2")]
    topics.produce(topic, ['{"v": 7}'], partition=1, keys=['{"k": "x"}'], timestamp=1500, headers=headers)
    topics.produce(topic, ['{"v": 8}'], partition=1, timestamp=2500)
    options = {
        "topic": topic,
        "key.format": "json",
        "key.fields": "key_k",
        "key.fields-prefix": "key_",
        "value.format": "json",
        "value.fields-include": "EXCEPT_KEY",
    }
    columns = (Column("key_k", VARCHAR), Column("v", BIGINT))
    first, second = reads(options, columns, METADATA).rows()
    at = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert first == ("x", 7, topic, 1, [("n", None), ("h", b"2")], 0, 0, at, "CreateTime")
    assert second[:4] == (None, 8, topic, 1)
    assert second[4] == []


def test_metadata_of_the_value_is_beside_that_of_the_record(topics: Topics, reads: Reads) -> None:
    """One message gives several rows, and one none, so that rows are no longer records."""
    topic = topics.create()
    rows = '"data": [{"v": 1}, {"v": 2}], "type": "INSERT"'
    topics.produce(
        topic,
        ['{"type": "CREATE"}', "{" + rows + ', "table": "a", "pkNames": ["v"]}', "{", "{" + rows + "}"],
    )
    keys = {"value.table": VARCHAR, "offset": BIGINT, "value.pk-names": array(VARCHAR)}
    reading = reads({"topic": topic, "format": "canal-json"}, (Column("v", BIGINT),), keys)
    assert reading.rows() == [
        (1, "a", 1, ["v"], "+I"),
        (2, "a", 1, ["v"], "+I"),
        (1, None, 3, None, "+I"),
        (2, None, 3, None, "+I"),
    ]
    assert [(bad.position or {})["offset"] for bad in reading.bad] == [2]


def test_columns_of_the_key_are_those_of_the_value_where_both_have_them(topics: Topics, reads: Reads) -> None:
    topic = topics.create()
    topics.produce(topic, ['{"k": "v", "v": 7}'], keys=['{"k": "x"}'])
    options = {"topic": topic, "key.format": "json", "key.fields": "k", "value.format": "json"}
    assert reads(options).rows() == [("v", 7)]


def test_what_is_malformed_is_given_with_its_place_key_and_bytes(topics: Topics, reads: Reads) -> None:
    topic = topics.create()
    topics.produce(topic, [*values([1]), b"\xff{", None, *values([2])], keys=["a", "b", "c", "d"])
    reading = reads({"topic": topic})
    assert numbers(reading.rows()) == [1, 2], "a record without a value has no row"
    [bad] = reading.bad
    assert (bad.origin, bad.position, bad.raw, bad.key) == (
        f"topic {topic}",
        {"partition": 0, "offset": 1},
        b"\xff{",
        b"b",
    )


def test_only_committed_transactions_are_read_and_markers_are_no_loss(topics: Topics, reads: Reads) -> None:
    topic = topics.create()
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    for n, ends in enumerate(
        (producer.commit_transaction, producer.abort_transaction, producer.commit_transaction)
    ):
        producer.begin_transaction()
        producer.produce(topic, values([n])[0])
        producer.flush()
        ends()
    reading = reads({"topic": topic})
    at = reading.source.initial_position()
    assert numbers(reading.rows(at)) == [0, 2]
    assert numbers(reading.rows(at, Limits(rows=1))) == [0, 2], "also an offset at a time"
    producer.begin_transaction()
    producer.produce(topic, values([3])[0])
    producer.flush()
    assert numbers(reading.rows(at)) == [0, 2], "nothing of what is open"
    assert numbers(reads({"topic": topic, "properties.isolation.level": "read_uncommitted"}).rows()) == [
        0,
        1,
        2,
        3,
    ]
    producer.commit_transaction()
    assert numbers(reading.rows(at)) == [0, 2, 3]


def test_upserts(topics: Topics, reads: Reads) -> None:
    topic = topics.create()
    topics.produce(topic, ['{"v": 1}', '{"v": 2}', None, '{"v": 3}'], keys=["a", "b", "a", "c"])
    options = {
        "topic": topic,
        "key.format": "csv",
        "value.format": "json",
        "value.fields-include": "EXCEPT_KEY",
        "scan.bounded.mode": "latest-offset",
    }
    found = reads(options, connector="upsert-kafka", primary_key=("k",)).rows()
    assert found == [("a", 1, "+U"), ("b", 2, "+U"), ("a", None, "-D"), ("c", 3, "+U")]


def test_upserts_whose_values_have_the_key_too(topics: Topics, reads: Reads) -> None:
    topic = topics.create()
    topics.produce(topic, ['{"k": "a", "v": 1}', None], keys=['{"k": "a"}', '{"k": "a"}'])
    options = {"topic": topic, "key.format": "json", "value.format": "json"}
    found = reads(options, connector="upsert-kafka", primary_key=("k",)).rows()
    assert found == [("a", 1, "+U"), ("a", None, "-D")]


def test_an_empty_topic_and_a_message_of_10_mb(topics: Topics, reads: Reads) -> None:
    topic = topics.create(config={"max.message.bytes": str(16 << 20)})
    reading = reads({"topic": topic, "scan.bounded.mode": "latest-offset"})
    assert reading.rows() == []
    assert reading.source.plan(reading.source.initial_position(), Limits()).exhausted
    topics.produce(topic, [*values([1]), json.dumps({"k": "x" * (10 << 20), "v": 2}), *values([3])])
    found = reads({"topic": topic}).rows()
    assert [len(row[0]) for row in found] == [1, 10 << 20, 1]


def test_offsets_that_retention_took_need_consent(topics: Topics, reads: Reads) -> None:
    topic = topics.create()
    topics.produce(topic, values(range(10)))
    reading = reads({"topic": topic})
    at = reading.source.initial_position()
    after = reading.epoch(at, Limits(rows=3)).after
    admin = topics.admin
    part = TopicPartition(topic, 0, 7)
    admin.delete_records([part])[part].result(20)
    with pytest.raises(DiagnosticError, match="gone before they were read: 4 records") as raised:
        reading.again().rows(after)
    assert raised.value.exit_code == 4
    [told] = raised.value.diagnostics
    assert told.notes == (f"topic '{topic}', partition 0: offset 3 is wanted, the log begins at 7",)
    agreed = reading.again(accepted=("lost:t",))
    assert numbers(agreed.rows(after)) == [7, 8, 9]
    assert [d.severity for d in agreed.told] == ["warning"], "said once"
    assert agreed.source.passed_over() == [f"{topic}/0: 4 offsets that were gone"]
    with pytest.raises(DiagnosticError, match="DAT008"):
        reading.again().source.until(after)


def test_a_topic_that_was_made_anew_is_another_one(topics: Topics, reads: Reads) -> None:
    topic = topics.create()
    topics.produce(topic, values(range(3)))
    reading = reads({"topic": topic})
    [epoch] = reading.epochs()
    topics.delete(topic)
    topics.create(name=topic)
    topics.produce(topic, values(range(10, 20)))
    with pytest.raises(DiagnosticError, match="gone before they were read") as raised:
        reading.again().rows(epoch.after)
    assert "the topic was recreated, and begins at 0" in raised.value.diagnostics[0].notes[0]
    assert numbers(reading.again(accepted=("lost:all",)).rows(epoch.after)) == [*range(10, 20)]


def test_what_was_read_is_read_again_the_same(topics: Topics, reads: Reads) -> None:
    topic = topics.create(2)
    topics.produce(topic, values(range(5)), partition=0)
    topics.produce(topic, values(range(50, 53)), partition=1)
    reading = reads(
        {
            "topic": topic,
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": "partition:0,offset:2",
        }
    )
    epochs = list(reading.epochs(limits=Limits(rows=4)))
    topics.produce(topic, values([99]))
    history = reading.again().source.until(epochs[-1].after)
    at, rows = history.initial_position(), []
    while at != epochs[-1].after:
        epoch = reading.epoch(at, Limits(rows=2), source=history)
        rows += epoch.rows
        at = epoch.after
    assert (
        sorted(numbers(rows)) == sorted(numbers([r for e in epochs for r in e.rows])) == [2, 3, 4, 50, 51, 52]
    )


def test_a_compacted_topic_has_no_history_of_its_own(topics: Topics, reads: Reads) -> None:
    topic = topics.create(config={"cleanup.policy": "compact"})
    topics.produce(topic, values([1]), keys=["a"])
    reading = reads({"topic": topic})
    [epoch] = reading.epochs()
    with pytest.raises(DiagnosticError, match="DAT008"):
        reading.source.until(epoch.after)


def test_offsets_of_the_group_are_committed(topics: Topics, reads: Reads) -> None:
    topic = topics.create()
    topics.produce(topic, values(range(4)))
    reading = reads({"topic": topic, "properties.group.id": "told"})
    [epoch] = reading.epochs()
    reading.source.committed(epoch.after)
    again = reads({"topic": topic, "properties.group.id": "told", "scan.startup.mode": "group-offsets"})
    assert again.source.initial_position()["next"] == {topic: {"0": 4}}


def test_brokers_that_are_away(duck: DuckSession, tmp_path: Path) -> None:
    broker = new_broker()
    try:
        topics = Topics(broker)
        topic = topics.create()
        topics.produce(topic, values([1, 2]))
        options = {"topic": topic, "properties.default.api.timeout.ms": "1500"}
        reading = Reading(table(broker.bootstrap, options), tmp_path, duck)
        epoch = reading.epoch(reading.source.initial_position(), Limits(rows=1))
        broker.kill()
        for way in (reading, reading.again()):
            with pytest.raises(DiagnosticError, match="can't be reached") as raised:
                way.rows(epoch.after)
            assert (raised.value.exit_code, raised.value.diagnostics[0].code) == (5, "ENV010")
        broker.start()
        assert numbers(reading.rows(epoch.after)) == [2], "nothing is lost"
    finally:
        broker.close()


def test_a_user_who_has_no_right_is_told_so(topics: Topics, duck: DuckSession, tmp_path: Path) -> None:
    topic = topics.create()
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="{}";'
    options = {
        "topic": topic,
        "properties.security.protocol": "SASL_PLAINTEXT",
        "properties.sasl.mechanism": "PLAIN",
    }
    topics.produce(topic, values([1]))
    good = {**options, "properties.sasl.jaas.config": login.format("reader", "reader-not-shown")}
    assert numbers(Reading(table(topics.broker.sasl, good), tmp_path, duck).rows()) == [1]
    bad = {**options, "properties.sasl.jaas.config": login.format("reader", "wrong-password")}
    with pytest.raises(DiagnosticError, match="ENV010") as raised:
        Reading(table(topics.broker.sasl, bad), tmp_path, duck).rows()
    [told] = raised.value.diagnostics
    assert "refuse: " in told.message, "it is not tried until the table's patience ends"
    assert "Invalid username or password" in told.message
    assert "properties.sasl" in str(told.help)
    assert "wrong-password" not in str(told)
