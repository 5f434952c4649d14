"""Ranges of offsets: a partition that several sources read goes on for each of them where its own last range ended."""

from __future__ import annotations

import json

import pytest

from sqlstream.connectors.kafka.consume import CONSUMERS, OffsetRange, OpenPartition, read_range
from tests.connectors.kafka.topics import Topics


def test_two_sources_of_one_partition_do_not_drop_what_is_fetched_for_the_other(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.create()
    topics.produce(topic, [json.dumps({"v": n}) for n in range(60)])
    config = {
        "bootstrap.servers": topics.bootstrap,
        "group.id": "two-sources",
        "enable.partition.eof": "true",
        "auto.offset.reset": "error",
    }
    started: list[int] = []
    start = OpenPartition.start

    def counted(part: OpenPartition, offset: int) -> None:
        started.append(offset)
        start(part, offset)

    monkeypatch.setattr(OpenPartition, "start", counted)
    found: dict[str, list[int]] = {"one": [], "other": []}
    try:
        for begin in range(0, 60, 10):
            for reader, offsets in found.items():
                wanted = OffsetRange(topic, 0, begin, begin + 10)
                table = read_range(config, wanted, frozenset(), reader=reader)
                offsets += table["offset"].to_pylist()
    finally:
        CONSUMERS.close()
    assert found == {"one": list(range(60)), "other": list(range(60))}
    assert started == [0, 0], "each is started once"
