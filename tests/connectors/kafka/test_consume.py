"""Ranges of offsets: a partition that several sources read goes on for each of them where its own last range ended."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sqlstream.connectors.kafka.consume import CONSUMERS, OffsetRange, OpenPartition, read_range, start_ranges
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.kafka.topics import Topics


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The offsets at which partitions are started."""
    offsets: list[int] = []
    start = OpenPartition.start

    def counted(part: OpenPartition, offset: int) -> None:
        offsets.append(offset)
        start(part, offset)

    monkeypatch.setattr(OpenPartition, "start", counted)
    yield offsets
    CONSUMERS.close()


def config(topics: Topics) -> dict[str, str]:
    return {
        "bootstrap.servers": topics.bootstrap,
        "group.id": "ranges",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
        "allow.auto.create.topics": "false",
        "topic.metadata.propagation.max.ms": "100",  # how long a topic that is not there may still come
    }


def test_two_sources_of_one_partition_do_not_drop_what_is_fetched_for_the_other(
    topics: Topics, started: list[int]
) -> None:
    topic = topics.create()
    topics.produce(topic, [json.dumps({"v": n}) for n in range(60)])
    found: dict[str, list[int]] = {"one": [], "other": []}
    for begin in range(0, 60, 10):
        for reader, offsets in found.items():
            wanted = OffsetRange(topic, 0, begin, begin + 10)
            table = read_range(config(topics), wanted, frozenset(), reader=reader)
            offsets += table["offset"].to_pylist()
    assert found == {"one": list(range(60)), "other": list(range(60))}
    assert started == [0, 0], "each is started once"


def test_ranges_that_were_started_beside_each_other_are_not_started_again(
    topics: Topics, started: list[int]
) -> None:
    topic = topics.create(4)
    for partition in range(4):
        topics.produce(topic, [json.dumps({"v": n}) for n in range(9)], partition=partition)
    ranges = [OffsetRange(topic, partition, partition, 7) for partition in range(4)]
    start_ranges(config(topics), ranges)
    found = [read_range(config(topics), one, frozenset())["offset"].to_pylist() for one in ranges]
    assert found == [list(range(partition, 7)) for partition in range(4)]
    start_ranges(config(topics), [OffsetRange(topic, partition, 7, 9) for partition in range(4)])
    again = read_range(config(topics), OffsetRange(topic, 3, 7, 9), frozenset())
    assert again["offset"].to_pylist() == [7, 8]
    assert started == [0, 1, 2, 3]


def test_topics_that_are_gone_are_told_whichever_is_read_first(topics: Topics, started: list[int]) -> None:
    topic = topics.create()
    topics.produce(topic, [json.dumps({"v": n}) for n in range(3)])
    there = OffsetRange(topic, 0, 0, 3)
    gone = [OffsetRange(f"{topic}-gone-{n}", 0, 0, 3) for n in range(2)]
    start_ranges(config(topics), [there, *gone])
    assert read_range(config(topics), there, frozenset(), patience_s=20).num_rows == 3
    for one in gone:
        with pytest.raises(DiagnosticError, match=f"{one.topic}.*is gone"):
            read_range(config(topics), one, frozenset(), patience_s=20)
