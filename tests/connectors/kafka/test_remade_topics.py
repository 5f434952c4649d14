"""Topics that are not what was read of them any more: made anew or cut off, before a run and under it; or elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from sqlstream.connectors.api import ConnectorContext, Limits
from sqlstream.connectors.kafka.consume import CONSUMERS
from sqlstream.connectors.kafka.descriptor import DESCRIPTOR
from sqlstream.connectors.kafka.history import KafkaHistory
from sqlstream.connectors.kafka.same_topics import continues
from sqlstream.connectors.kafka.source import KafkaSource
from sqlstream.planning import plan_file
from sqlstream.runtime.edits.declared_moves import known_sources
from sqlstream.runtime.loop.faults import Faults, Point, no_faults
from sqlstream.storage.journal import Journal
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.connectors.kafka.broker import Broker, new_broker
from tests.connectors.kafka.sources import Reading, table
from tests.connectors.kafka.topics import Topics
from tests.properties.in_process import run_here
from tests.properties.updating import Collected, collecting

QUERY = """CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'kafka', 'topic' = '{topic}',
  'properties.bootstrap.servers' = '{brokers}', 'scan.startup.mode' = 'earliest-offset',
  'scan.bounded.mode' = 'latest-offset', 'format' = 'json');
CREATE TABLE out WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k;
"""


class Clock:
    """Seconds that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def another() -> Iterator[Broker]:
    """A broker of another cluster."""
    broker = new_broker()
    yield broker
    broker.close()


def values(numbers: Sequence[int]) -> list[str]:
    return [json.dumps({"k": n % 3, "v": n}) for n in numbers]


def result(numbers: Sequence[int]) -> Counter[tuple[Any, ...]]:
    """The rows of `out` for these records."""
    return Counter(
        (k, len(mine), sum(mine)) for k in range(3) if (mine := [n for n in numbers if n % 3 == k])
    )


def at_work(topics: Topics, topic: str, folder: Path, duck: DuckSession, clock: Clock) -> Reading:
    """A reading whose source tells the time by `clock`."""
    option = "topic-pattern" if topic.endswith("*") else "topic"
    spec = table(topics.bootstrap, {option: topic})
    reading = Reading(spec, folder, duck)
    context = ConnectorContext(CheckpointStore(str(folder / "store")), str(folder))
    reading._source = KafkaSource(spec, context, DESCRIPTOR, clock)
    return reading


def pattern_of_two(topics: Topics, folder: Path, duck: DuckSession, clock: Clock) -> tuple[str, Reading]:
    """A topic with the record 1, and a reading of it and of another one, whose name begins with its, with 2 and 3."""
    prefix = topics.create()
    topics.create(name=f"{prefix}-b")
    topics.produce(prefix, values([1]))
    topics.produce(f"{prefix}-b", values([2, 3]))
    return prefix, at_work(topics, f"{prefix}.*", folder, duck, clock)


@pytest.mark.parametrize("pause_s", [0.0, 6.0])
@pytest.mark.parametrize("records", [3, 30])
def test_a_topic_that_is_made_anew_under_a_run(
    topics: Topics, duck: DuckSession, tmp_path: Path, records: int, pause_s: float
) -> None:
    """Also if it has more records than were read of the former one, so that no offset is missing."""
    topic = topics.create()
    topics.produce(topic, values(range(10)))
    clock = Clock()
    reading = at_work(topics, topic, tmp_path, duck, clock)
    [epoch] = reading.epochs()
    clock.now += 0.1
    assert not reading.epoch(epoch.after).splits
    topics.delete(topic)
    topics.create(name=topic)
    topics.produce(topic, values(range(100, 100 + records)))
    clock.now += pause_s
    with pytest.raises(DiagnosticError, match="DAT015") as raised:
        reading.epoch(epoch.after)
    assert raised.value.diagnostics[0].notes == (
        f"topic '{topic}', partition 0: offset 10 is wanted, the topic was recreated, and begins at 0",
    )
    assert "retention" not in str(raised.value.diagnostics[0].help), "nothing has expired"
    with pytest.raises(DiagnosticError, match="DAT008") as raised:
        reading.source.until(epoch.after)
    assert "it was recreated" in str(raised.value.diagnostics[0].notes)


def test_a_topic_that_was_made_anew_with_more_partitions(
    topics: Topics, duck: DuckSession, tmp_path: Path
) -> None:
    """Those that it did not have are new; those that it had are not what they were."""
    topic = topics.create()
    topics.produce(topic, values(range(3)))
    reading = Reading(table(topics.bootstrap, {"topic": topic}), tmp_path, duck)
    [epoch] = reading.epochs()
    topics.delete(topic)
    topics.create(2, name=topic)
    for partition in range(2):
        topics.produce(topic, values(range(100, 110)), partition=partition)
    with pytest.raises(DiagnosticError, match="DAT015") as raised:
        reading.again().epoch(epoch.after)
    assert "partition 0: offset 3 is wanted, the topic was recreated" in raised.value.diagnostics[0].notes[0]
    agreed = reading.again(accepted=("lost:t",))
    assert sorted(row[1] for row in agreed.rows(epoch.after)) == sorted([*range(100, 110)] * 2)
    assert [d.code for d in agreed.told] == ["DAT015"]


def test_a_topic_of_a_pattern_that_comes_again(topics: Topics, duck: DuckSession, tmp_path: Path) -> None:
    """Nothing is missed of the one that was deleted; the one that has its name now is read from its beginning."""
    clock = Clock()
    prefix, reading = pattern_of_two(topics, tmp_path, duck, clock)
    at = reading.source.initial_position()
    for expected in ([1, 2, 3], [1]):
        epoch = reading.epoch(at)
        assert sorted(row[1] for row in epoch.rows) == expected
        topics.delete(prefix)
        clock.now += 400  # it looks for topics
        at = reading.epoch(epoch.after).after
        topics.create(name=prefix)
        topics.produce(prefix, values([1]))
        clock.now += 400
    assert sorted(row[1] for row in reading.epoch(at).rows) == [1]


def test_a_topic_of_a_pattern_that_is_gone_before_it_looks_for_topics(
    topics: Topics, duck: DuckSession, tmp_path: Path
) -> None:
    """It goes on with the others at once; a process that begins there, too."""
    clock = Clock()
    prefix, reading = pattern_of_two(topics, tmp_path, duck, clock)
    epoch = reading.epoch(reading.source.initial_position())
    topics.delete(prefix)
    topics.produce(f"{prefix}-b", values([5]))
    for one in (reading, at_work(topics, f"{prefix}.*", tmp_path, duck, clock)):
        clock.now += 0.1
        assert one.source.lag(epoch.after) in (1, 0), "as far as it was seen"
        following = one.epoch(epoch.after)
        assert [row[1] for row in following.rows] == [5]
        assert not one.epoch(following.after).rows


def test_a_topic_that_is_gone_is_told_by_its_name(topics: Topics, duck: DuckSession, tmp_path: Path) -> None:
    """And not that the brokers can't be reached."""
    topic = topics.create()
    topics.produce(topic, values([1]))
    clock = Clock()
    reading = at_work(topics, topic, tmp_path, duck, clock)
    epoch = reading.epoch(reading.source.initial_position())
    topics.delete(topic)
    clock.now += 0.1
    with pytest.raises(DiagnosticError, match=f"DAT004.*{topic}"):
        reading.epoch(epoch.after)


def test_a_log_that_was_cut_off(duck: DuckSession, tmp_path: Path) -> None:
    """As behind an unclean election of a leader: the topic is the same, and its last records are not there."""
    broker = new_broker()
    try:
        topics = Topics(broker)
        topic = topics.create()
        topics.produce(topic, values(range(5)))
        reading = Reading(table(topics.bootstrap, {"topic": topic}), tmp_path, duck)
        [epoch] = reading.epochs()
        broker.stop()
        for file in (broker.folder / "data" / f"{topic}-0").iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        broker.start()
        with pytest.raises(DiagnosticError, match="DAT015") as raised:
            reading.again().epoch(epoch.after)
        assert raised.value.exit_code == 4
        assert raised.value.diagnostics[0].notes == (
            f"topic '{topic}', partition 0: offset 5 is wanted, the log ends at 0",
        )
        CONSUMERS.close()  # another process goes on
        agreed = reading.again(accepted=("lost:t",))
        after = agreed.epoch(epoch.after).after
        topics.produce(topic, values([7]))
        assert [row[1] for row in agreed.rows(after)] == [7], "said once, it goes on"
        assert [d.severity for d in agreed.told] == ["warning"]
    finally:
        broker.close()


def last(folder: Path) -> Manifest:
    journal = Journal(CheckpointStore(folder / "state", sync=False))
    return journal.manifest(journal.epochs()[1][-1])


def run(
    folder: Path,
    topic: str,
    brokers: str,
    *moved: str,
    accept: Sequence[str] = (),
    rows_per_epoch: int | None = None,
    faults: Faults = no_faults,
) -> list[Diagnostic]:
    """Run the query, as `sqlstream run --source-moved … --accept …` does; the warnings."""
    file = folder / "p.sql"
    file.write_text(QUERY.format(topic=topic, brokers=brokers))
    planned, found = known_sources(
        plan_file(file),
        str(folder / "state"),
        None,
        moved,
        str(folder),
        lambda known: plan_file(file, moved=known),
    )
    told: list[Diagnostic] = []
    run_here(
        planned,
        folder,
        moved=found,
        sql=planned.masked_sql,
        tell=told.append,
        accept=accept,
        drain=False,
        rows_per_epoch=rows_per_epoch,
        faults=faults,
    )
    return told


@pytest.fixture
def begun(topics: Topics, tmp_path: Path) -> Iterator[tuple[str, Collected]]:
    """A topic of ten records that a pipeline in `tmp_path` has read."""
    topic = topics.create()
    topics.produce(topic, values(range(10)))
    with collecting() as collected:
        run(tmp_path, topic, topics.bootstrap)
        assert Counter(collected.folded("out")) == result(range(10))
        yield topic, collected


def test_brokers_by_another_name(
    topics: Topics, another: Broker, tmp_path: Path, begun: tuple[str, Collected]
) -> None:
    """They are asked which cluster they are; those that don't answer are others."""
    topic, collected = begun
    elsewhere = topics.bootstrap.replace("127.0.0.1", "localhost")
    position = last(tmp_path).positions[0].position
    options = {"topic": topic, "scan.startup.mode": "earliest-offset"}
    for brokers, expected in ((elsewhere, True), (another.bootstrap, False), ("127.0.0.1:1", False)):
        was, now = ({**options, "properties.bootstrap.servers": name} for name in (topics.bootstrap, brokers))
        assert continues(was, now, position, closed=True) is expected
        assert not continues(was, {**now, "topic": "x"}, position, closed=True)
    topics.produce(topic, values(range(10, 15)))
    run(tmp_path, topic, elsewhere)
    assert Counter(collected.folded("out")) == result(range(10)), "its end was decided"


def test_topics_that_were_moved_to_another_cluster(
    topics: Topics, another: Broker, tmp_path: Path, begun: tuple[str, Collected]
) -> None:
    """Said once, with all offsets there, it goes on; with some missing it is refused, and nothing is changed."""
    topic, collected = begun
    there = Topics(another)
    there.create(name=topic)
    before = last(tmp_path)
    with pytest.raises(DiagnosticError, match="STA011") as refused:
        run(tmp_path, topic, another.bootstrap)
    assert "--source-moved t" in (refused.value.diagnostics[0].help or "")
    there.produce(topic, values(range(4)))
    with pytest.raises(DiagnosticError, match="STA018") as refused:
        run(tmp_path, topic, another.bootstrap, "t")
    assert refused.value.exit_code == 4
    assert refused.value.diagnostics[0].notes == (
        f"topic '{topic}', partition 0: offset 10 is wanted, 0 to 4 are there",
    )
    assert last(tmp_path) == before
    there.produce(topic, values(range(4, 12)))
    run(tmp_path, topic, another.bootstrap, "t")
    run(tmp_path, topic, another.bootstrap)  # it was said once
    assert Counter(collected.folded("out")) == result(range(10)), "its end was decided where it began"
    part = TopicPartition(topic, 0, 5)
    admin = there.admin
    admin.delete_records([part])[part].result(20)
    assert run(tmp_path, topic, another.bootstrap) == [], "what was read may go"


class DiedError(Exception):
    """A process ends."""


@pytest.mark.parametrize("dies", [False, True])
def test_a_topic_that_is_made_anew_behind_the_plan_of_an_epoch(
    topics: Topics, tmp_path: Path, dies: bool
) -> None:
    """The offsets are there, and other records: also for a process that runs the epoch again after the first one died."""
    topic = topics.create()
    topics.produce(topic, values(range(10)))
    remade = list[int]()

    def remake(point: Point, epoch: int) -> None:
        if point == "planned" and epoch == 2 and not remade:
            remade.extend(range(100, 150))
            topics.delete(topic)
            topics.create(name=topic)
            topics.produce(topic, values(remade))
            if dies:
                raise DiedError

    with collecting() as collected:
        if dies:
            with pytest.raises(DiedError):
                run(tmp_path, topic, topics.bootstrap, rows_per_epoch=5, faults=remake)
            CONSUMERS.close()
        for _ in range(2):
            with pytest.raises(DiagnosticError, match="DAT015") as raised:
                run(tmp_path, topic, topics.bootstrap, rows_per_epoch=5, faults=remake)
            assert raised.value.exit_code == 4
            assert raised.value.diagnostics[0].notes == (
                f"topic '{topic}', partition 0: offset 5 is wanted, the topic was recreated, and begins at 0",
            )
            assert Counter(collected.folded("out")) == result(range(5)), "nothing of the other one"
        assert remade
        told = run(tmp_path, topic, topics.bootstrap, accept=["lost:t"])
        assert [diagnostic.code for diagnostic in told] == ["DAT015"]
        assert Counter(collected.folded("out")) == result([*range(5), *remade[:10]]), "its end was decided"


def test_a_history_is_refused_whose_topic_is_made_anew_while_it_is_read(
    topics: Topics, duck: DuckSession, tmp_path: Path
) -> None:
    topic = topics.create()
    topics.produce(topic, values(range(10)))
    reading = Reading(table(topics.bootstrap, {"topic": topic}), tmp_path, duck)
    [epoch] = reading.epochs()
    history = reading.source.until(epoch.after)
    assert isinstance(history, KafkaHistory)
    plan = history.plan(history.initial_position(), Limits(rows=None, tasks=1))
    assert history.confirm(plan.next_position, plan.splits)
    topics.delete(topic)
    topics.create(name=topic)
    topics.produce(topic, values(range(50)))
    with pytest.raises(DiagnosticError, match="DAT008") as raised:
        history.confirm(plan.next_position, plan.splits)
    assert raised.value.diagnostics[0].notes == (f"topic '{topic}': it was recreated",)
