"""How far sources were read travels to every shard of every level, before its stages run."""

from __future__ import annotations

import random

import pytest

from sqlstream_operators.codec.exchange import Message
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_operators.task.epoch import EpochContext
from sqlstream_operators.task.watermark_messages import gathered, to_next_level, to_shards
from tests.operators.pipelines import Driver, MemoryStores, Row, table_of, window_plan

from .test_task import DUCK, cascaded

PLAN = window_plan(WindowSpec(WindowKind.TUMBLE, 10, 10))


def messages_of(marks: Watermarks, *read: int | None) -> list[Message]:
    epoch = EpochContext(3, 2, 16, {"bid": marks})
    return [
        m
        for at, watermark in enumerate(read)
        for m in to_shards(PLAN, epoch, "bid", {} if watermark is None else {"": watermark}, at)
    ]


def test_each_shard_knows_the_greatest_watermark_of_all_splits() -> None:
    made = messages_of(Watermarks(5, 5, 5, WATERMARK_MAX), 30, None, 40, 4)
    random.Random(1).shuffle(made)
    for shard in range(2):
        assert gathered(m for m in made if m.shard == shard) == {"bid": {"": 40}}
    # A message is known by edge, shard and producer: none replaces another.
    assert len({(m.edge, m.shard, m.producer) for m in made}) == len(made) == 4


@pytest.mark.parametrize("marks", [Watermarks(5, 5, 5), Watermarks(5, 5, WATERMARK_MAX, WATERMARK_MAX)])
def test_nothing_is_told_where_nothing_can_rise(marks: Watermarks) -> None:
    assert messages_of(marks, 30) == []


def test_the_last_level_tells_nobody() -> None:
    assert list(to_next_level(PLAN, 1, 0, {"bid": {"": 4}})) == []
    [message] = to_next_level(cascaded(), 1, 1, {"bid": {"": 4}})
    assert (message.shard, gathered([message])) == (1, {"bid": {"": 4}})


def test_windows_over_windows_close_together_in_the_epoch_that_reads_past_them() -> None:
    driver = Driver(cascaded(), 3, MemoryStores(3, 16), duck=DUCK)
    driver.run(
        [table_of([Row(t, "a", t, None, t) for t in (3, 14, 17)]), table_of([Row(45, "b", 0, None, 9)])]
    )
    assert [(row["k"], row["c"], row["windows"]) for row in driver.output] == [("a", 3, 2)]
    assert driver.previous == 45
    assert driver.letters == []


def test_a_plan_of_an_older_version_closes_as_it_was_planned() -> None:
    assert Watermarks(*[1, 2, 3]).raised(99) == Watermarks(1, 2, 3, WATERMARK_MIN)
