"""An edit that reads topics again: all of a pattern's, those that came while it ran too; what is missing is named."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.cimpl import NewPartitions

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import RunResult
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.kafka.topics import Topics
from tests.properties.in_process import run_here
from tests.properties.updating import collecting

TABLE = """CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'kafka', 'topic-pattern' = '{topics}',
  'properties.bootstrap.servers' = '{brokers}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'json',
  'scan.topic-partition-discovery.interval' = '1 ms');
"""
COUNTS = "CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) AS n FROM t GROUP BY k;"
LEAST = "CREATE TABLE least WITH ('connector' = 'blackhole') AS SELECT k, MIN(v) AS v FROM t GROUP BY k;"


def records(numbers: Sequence[int]) -> list[str]:
    return [json.dumps({"k": n % 3, "v": n}) for n in numbers]


def run(folder: Path, topics: Topics, pattern: str, queries: str, **options: Any) -> RunResult:
    """Read what is there, as `sqlstream run --drain` does."""
    file = folder / "p.sql"
    file.write_text(TABLE.format(topics=pattern, brokers=topics.bootstrap) + queries)
    planned = plan_file(file)
    return run_here(planned, folder, ends=True, sql=planned.masked_sql, **options)


def counted(numbers: Sequence[int]) -> Counter[tuple[Any, ...]]:
    return Counter(Counter(n % 3 for n in numbers).items())


def least(numbers: Sequence[int]) -> Counter[tuple[Any, ...]]:
    return Counter((k, min(n for n in numbers if n % 3 == k)) for k in {n % 3 for n in numbers})


@pytest.mark.parametrize("at_once", [True, False])
def test_topics_and_partitions_that_came_while_it_ran_are_read_again(
    topics: Topics, tmp_path: Path, at_once: bool
) -> None:
    """`at_once`: more records wait when the query is edited, and none of them is counted twice."""
    name = topics.create(name=f"first-{int(at_once)}")
    topics.produce(name, records(range(30, 50)))
    pattern = f"first-{int(at_once)}|later-{int(at_once)}-.*"
    with collecting() as collected:
        run(tmp_path, topics, pattern, COUNTS, rows_per_epoch=7)
        assert Counter(collected.folded("out")) == counted(range(30, 50))
        for number in range(2):
            came = topics.create(2, name=f"later-{int(at_once)}-{number}")
            for partition in range(2):
                topics.produce(came, records(range(10 * number, 10 * number + 5)), partition=partition)
        admin = topics.admin  # it goes with the answer that it gives later
        admin.create_partitions([NewPartitions(name, 2)])[name].result(20)
        topics.produce(name, records([7]), partition=1)
        known = [*range(30, 50), *[*range(5), *range(10, 15)] * 2, 7]
        if not at_once:
            run(tmp_path, topics, pattern, COUNTS, rows_per_epoch=7)
            assert Counter(collected.folded("out")) == counted(known)
        run(tmp_path, topics, pattern, COUNTS + LEAST, rows_per_epoch=7)
        assert Counter(collected.folded("out")) == counted(known)
        assert Counter(collected.folded("least")) == least(known)


def test_a_topic_of_the_pattern_that_is_gone_is_named(topics: Topics, tmp_path: Path) -> None:
    """What was read of it can't be read again: the edit is refused before anything is changed."""
    names = [topics.create(name=f"gone-{number}") for number in range(2)]
    for number, name in enumerate(names):
        topics.produce(name, records(range(10 * number, 10 * number + 10)))
    with collecting() as collected:
        run(tmp_path, topics, "gone-.*", COUNTS)
        topics.delete(names[0])
        with pytest.raises(DiagnosticError, match="DAT008") as refused:
            run(tmp_path, topics, "gone-.*", COUNTS + LEAST)
        assert refused.value.diagnostics[0].notes == ("topic 'gone-0', partition 0: is not there",)
        topics.produce(names[1], records([21]))
        run(tmp_path, topics, "gone-.*", COUNTS)
        assert Counter(collected.folded("out")) == counted([*range(20), 21])


def test_an_epoch_of_large_records_reads_what_memory_allows(topics: Topics, tmp_path: Path) -> None:
    """Of 90 MB waiting records tasks with 256 MB read a few at a time, also those that an edit reads again."""
    name = topics.create(name="large-records")
    for number in range(90):
        topics.produce(name, [json.dumps({"k": 0, "v": number, "text": "x" * 1_000_000})])
    rows = list[int]()

    def note(report: Any) -> None:
        rows.append(sum(report.rows_read.values()))

    small = "SET 'execution.task-memory' = '256 mb';\n"
    with collecting() as collected:
        run(tmp_path, topics, "large-records", small + COUNTS, on_epoch=note)
        assert Counter(collected.folded("out")) == {(0, 90): 1}
        assert 10 <= max(rows) <= 68, "two tasks of 32 MB each"
        run(tmp_path, topics, "large-records", small + COUNTS + LEAST)
        assert Counter(collected.folded("least")) == {(0, 0): 1}
