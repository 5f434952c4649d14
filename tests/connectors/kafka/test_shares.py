"""An epoch in several transactions is there once, whichever of them a driver has committed when it dies."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import TargetEdit
from sqlstream.connectors.kafka import epoch_group, shares
from sqlstream.connectors.kafka.producing import Producing
from sqlstream.connectors.kafka.shares import EpochCut
from sqlstream_operators.errors import InternalError, TargetError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.kafka.sink_job import new_job, values
from tests.connectors.kafka.topics import Topics
from tests.connectors.sink_job import SinkJob
from tests.connectors.staged_parts import come
from tests.examples import examples

#: Producers of an epoch that is large enough, below.
MOST = 3


class _DeathError(BaseException):
    """The driver is gone."""


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "ROWS", 2)
    monkeypatch.setattr(epoch_group, "_STABLE_S", 0.3)  # nobody ends a dead driver's transaction


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Commits:
    return Commits(monkeypatch)


class Commits:
    """Which shares commit; a driver dies at the others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.only: set[int] | None = None
        self.done: list[int] = []
        commit, begun = Producing.commit, self

        def instead(producing: Producing) -> None:
            if not producing.in_transaction:
                return
            share = _share(producing)
            if begun.only is not None and share not in begun.only:
                raise _DeathError
            commit(producing)
            begun.done.append(share)

        monkeypatch.setattr(Producing, "commit", instead)


def _share(producing: Producing) -> int:
    name = producing._transactions or ""
    return int(name[-1]) if name[-2] == "-" and name[-1].isdigit() else 0


def job_of(
    made: list[SinkJob], folder: Path, topics: Topics, topic: str, most: int = MOST, **options: str
) -> SinkJob:
    return new_job(made, folder, topics, topic, sink_parallelism=str(MOST))


def with_parallelism(job: SinkJob, most: int) -> None:
    job.spec = replace(job.spec, options={**job.spec.options, "sink.parallelism": str(most)})


def rows_of(start: int, *sizes: int) -> list[list[Any]]:
    """A list of rows for each task."""
    number = itertools.count(start)
    return [list(come(*((next(number), f"{task}") for _ in range(size)))) for task, size in enumerate(sizes)]


def there(topics: Topics, topic: str) -> Counter[int]:
    return Counter(row["k"] for row in values(topics, topic))


def test_a_large_epoch_is_written_by_several(
    made: list[SinkJob], tmp_path: Path, topics: Topics, commits: Commits
) -> None:
    topic = topics.create(4)
    job = job_of(made, tmp_path, topics, topic)
    job.epoch(*rows_of(0, 1, 1))
    assert commits.done[-1:] == [0], "a small one is one transaction"
    commits.done.clear()
    job.epoch(*rows_of(2, 4, 3, 3, 5))
    assert commits.done[0] == 0, "marks are there before what they mark"
    assert sorted(commits.done[1:]) == [0, 1, 2]
    assert commits.done[-1] == 0, "the one that says that the epoch is there is the last"
    commits.done.clear()
    job.epoch(*rows_of(17, 9, 9, 9))
    assert sorted(commits.done) == [0, 1, 2]
    job.epoch(*rows_of(44, 1))
    assert there(topics, topic) == Counter(range(45))
    records = topics.records(topic)
    for partition, task in itertools.product(range(4), "0123"):
        mine = [r.value for r in records if r.partition == partition and f'"v":"{task}"' in str(r.value)]
        numbers = [int(str(value).split(":")[1].split(",")[0]) for value in mine]
        assert numbers == sorted(numbers), "a task's rows stay in order"


@pytest.mark.parametrize("partitions", [1, 2])
def test_not_more_than_partitions(
    made: list[SinkJob], tmp_path: Path, topics: Topics, commits: Commits, partitions: int
) -> None:
    topic = topics.create(partitions)
    job = job_of(made, tmp_path, topics, topic)
    job.epoch(*rows_of(0, 4, 4, 4))
    assert {*commits.done} == {*range(partitions)}
    assert there(topics, topic) == Counter(range(12))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("only", [(), (1,), (2,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("parallelism", [1, 2, MOST])
def test_a_driver_that_dies_between_commits(
    made: list[SinkJob],
    tmp_path: Path,
    topics: Topics,
    commits: Commits,
    only: tuple[int, ...],
    parallelism: int,
) -> None:
    topic = topics.create(3)
    job = job_of(made, tmp_path, topics, topic)
    job.epoch(*rows_of(0, 2, 2, 2))
    parts = job.prepare(*rows_of(6, 3, 4, 3, 3))
    commits.only = {*only}
    try:
        job.commit(parts)
    except _DeathError:
        job.last = 2
    commits.only = None
    with_parallelism(job, parallelism)
    seen = there(topics, topic)
    assert sum(seen.values()) >= 6
    assert max(seen.values()) == 1
    job.start(close=False).abort_uncommitted(2)
    job.commit_again(parts)
    job.committed = 2
    assert there(topics, topic) == Counter(range(19))
    job.start(close=False).abort_uncommitted(2)
    job.commit_again(parts)
    job.epoch(*rows_of(19, 3, 3, 3))
    assert there(topics, topic) == Counter(range(28))


@pytest.mark.parametrize("first", [True, False])
def test_a_driver_that_dies_before_the_manifest(
    made: list[SinkJob], tmp_path: Path, topics: Topics, commits: Commits, first: bool
) -> None:
    topic = topics.create(3)
    job = job_of(made, tmp_path, topics, topic)
    job.epoch(*(rows_of(0, 1) if first else rows_of(0, 3, 3, 3)))
    before = there(topics, topic)
    job.prepare(*rows_of(100, 3, 3, 3))
    job.start(close=False).abort_uncommitted(1)
    job.epoch(*rows_of(200, 1))
    assert there(topics, topic) == before + Counter([200])
    # Its producers had open transactions, which readers would wait at.
    job.epoch(*rows_of(300, 3, 3))
    assert there(topics, topic) == before + Counter([200, *range(300, 306)])


def test_a_driver_that_wakes_up_can_commit_no_share(
    made: list[SinkJob], tmp_path: Path, topics: Topics, commits: Commits
) -> None:
    topic = topics.create(3)
    job = job_of(made, tmp_path, topics, topic)
    job.epoch(*rows_of(0, 1))
    parts = job.prepare(*rows_of(1, 3, 3, 3))
    asleep = job.sinks[-1]
    job.last = 2
    job.start(close=False).abort_uncommitted(2)
    job.commit_again(parts)
    job.committed = 2
    assert there(topics, topic) == Counter(range(10))
    asleep.commit(2, parts, previous=1)  # the epoch is there
    parts = job.prepare(*rows_of(10, 3, 3, 3))
    with pytest.raises(TargetError, match="has epoch 2, but its state is at epoch 1"):
        asleep.prepare(2, parts, previous=1)
    job.commit(parts)
    assert there(topics, topic) == Counter(range(19))


@pytest.mark.parametrize("known", [False, True])
def test_a_driver_that_wakes_up_while_the_next_one_is_at_it(
    made: list[SinkJob], tmp_path: Path, topics: Topics, commits: Commits, known: bool
) -> None:
    """It writes nothing, and fences no producer of the other one; also where the shares had epochs before."""
    topic = topics.create(3)
    job = job_of(made, tmp_path, topics, topic)
    job.epoch(*(rows_of(0, 3, 3, 3) if known else rows_of(0, 1)))
    before = there(topics, topic)
    parts = job.prepare(*rows_of(10, 3, 3, 3))
    asleep = job.sinks[-1]
    job.last = 2
    job.start(close=False).abort_uncommitted(2)
    commits.only = set()
    with pytest.raises(_DeathError):
        job.commit_again(parts)  # all is written, nothing committed
    commits.only = None
    with pytest.raises((TargetError, DiagnosticError)):
        asleep.commit(2, parts, previous=1)
    assert there(topics, topic) == before
    job.commit_again(parts)
    job.committed = 2
    job.epoch(*rows_of(20, 3, 3, 3))
    assert there(topics, topic) == before + Counter([*range(10, 19), *range(20, 29)])


def test_a_large_epoch_is_written_behind_its_manifest(
    made: list[SinkJob], tmp_path: Path, topics: Topics
) -> None:
    topic = topics.create(3)
    job = job_of(made, tmp_path, topics, topic)
    parts = job.prepare(*rows_of(0, 1, 1))
    behind = job.sink.is_behind
    assert not behind, "a small one is refused, if it is, while it can be given up"
    job.commit(parts)
    parts = job.prepare(*rows_of(2, 3, 3, 3))
    behind = job.sink.is_behind
    assert behind
    assert topics.records(topic, committed=False) == topics.records(topic)
    job.commit(parts)
    behind = job.sink.is_behind
    assert not behind
    assert there(topics, topic) == Counter(range(11))


def test_a_state_directory_from_before_an_epoch_that_is_there_in_parts(
    made: list[SinkJob], tmp_path: Path, topics: Topics, commits: Commits
) -> None:
    topic = topics.create(3)
    job = job_of(made, tmp_path, topics, topic)
    job.epoch(*rows_of(0, 3, 3, 3))
    parts = job.prepare(*rows_of(9, 3, 3, 3))
    commits.only = {1}
    with pytest.raises(_DeathError):
        job.commit(parts)
    commits.only = None
    job.last = 1
    with pytest.raises(TargetError, match="has epoch 2, but its state is at epoch 1"):
        job.start(close=False).abort_uncommitted(1)
    with pytest.raises(TargetError, match="has epoch 2, but its state is at epoch 1"):
        job.sink.prepare(2, [job.part(come((100, "x")))], previous=1)
    with pytest.raises(TargetError, match="has epoch 2, but its state is at epoch 1"):
        job.sink.look([0, 1])
    job.sink.look([1, 2])


@pytest.mark.parametrize("only", [(), (1,), (1, 2)])
@pytest.mark.parametrize("ended", [True, False])
def test_a_rewritten_topic(
    made: list[SinkJob], tmp_path: Path, topics: Topics, commits: Commits, only: tuple[int, ...], ended: bool
) -> None:
    topic = topics.create(3)
    job = job_of(made, tmp_path, topics, topic)
    job.epoch(*rows_of(0, 3, 3, 3))
    if ended:  # else the former driver ends when the new topic is there
        job.sink.close()
    topics.delete(topic)
    topics.create(3, name=topic)
    job.start().begin_with(TargetEdit.REWRITE)
    parts = job.prepare(*rows_of(0, 5, 5, 5))
    commits.only = {*only}
    with pytest.raises(_DeathError):
        job.commit(parts)
    commits.only = None
    job.start(close=False).begin_with(TargetEdit.REWRITE)
    job.sink.abort_uncommitted(2)
    job.commit_again(parts)
    job.committed = 2
    job.epoch(*rows_of(15, 3, 3))
    assert there(topics, topic) == Counter(range(21))


def test_rows_that_change_are_one_transaction(
    made: list[SinkJob], tmp_path: Path, topics: Topics, commits: Commits
) -> None:
    topic = topics.create(3)
    job = new_job(
        made,
        tmp_path,
        topics,
        topic,
        key=("k",),
        upsert=True,
        sink_parallelism="3",
    )
    job.epoch(*rows_of(0, 3, 3, 3))
    assert {*commits.done} == {0}
    assert there(topics, topic) == Counter(range(9))


def test_another_epoch_is_not_taken_for_the_one_that_is_there_in_parts(
    made: list[SinkJob], tmp_path: Path, topics: Topics, commits: Commits
) -> None:
    topic = topics.create(3)
    job = job_of(made, tmp_path, topics, topic)
    job.epoch(*rows_of(0, 3, 3, 3))
    parts = job.prepare(*rows_of(9, 3, 3, 3))
    commits.only = {2}
    with pytest.raises(_DeathError):
        job.commit(parts)
    commits.only = None
    with pytest.raises(InternalError, match="9 rows in 3 parts is to be completed, not 6 in 2"):
        job.start(close=False).commit(2, parts[:2], previous=1)


@given(
    epochs=st.lists(
        st.tuples(
            st.lists(st.integers(0, 6), min_size=1, max_size=5),
            st.integers(1, 4),
            st.none() | st.sets(st.integers(0, 3)),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_epochs_and_deaths(
    topics: Topics, commits: Commits, tmp_path_factory: pytest.TempPathFactory, epochs: list[Any]
) -> None:
    """Of each epoch: rows a task, parallelism, the shares that commit (all if None), and whether it has a manifest."""
    made: list[SinkJob] = []
    topic = topics.create(4)
    job = job_of(made, tmp_path_factory.mktemp("job"), topics, topic)
    wanted: Counter[int] = Counter()
    try:
        for number, (sizes, most, only, has_manifest) in enumerate(epochs):
            rows = rows_of(number * 100, *sizes)
            with_parallelism(job, most)
            sink = job.start(close=False)
            sink.abort_uncommitted(job.committed)
            parts = job.prepare(*rows)
            if only is not None and not has_manifest:
                continue
            commits.only = only
            try:
                job.commit(parts)
            except _DeathError:
                commits.only = None
                job.start(close=False).abort_uncommitted(job.last)
                job.commit_again(parts)
                job.committed = job.last
            commits.only = None
            wanted += Counter(row[0] for part in rows for row, _ in part)
            assert there(topics, topic) == wanted
    finally:
        for sink in job.sinks:
            sink.close()


@pytest.mark.parametrize(
    ("parts", "rows", "most", "count"),
    [(5, 10, 3, 3), (2, 10, 3, 2), (5, 3, 3, 1), (5, 5, 3, 2), (9, 99, 99, 8), (0, 0, 3, 1)],
)
def test_how_many(parts: int, rows: int, most: int, count: int) -> None:
    class Epoch:
        pass

    epoch: Any = Epoch()
    epoch.parts, epoch.rows = parts, rows
    assert EpochCut.of(epoch, most).count == count
