"""What derivations say, carried out by the job that a run makes of them: the same states as the rules' own proof has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.runtime.edits.states.adaptation import adaptation_plan
from sqlstream.runtime.loop.transition import with_clock
from sqlstream_operators.codec.exchange import Message
from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_operators.task.task import EpochContext, run_shard_task
from tests.edits.derived import (
    APPEND,
    CHANGES,
    DUCK,
    GROUPS,
    NOW,
    PHASES,
    Loaded,
    data,
    loaded,
    needed,
    plan_changes,
    planned,
    same_rows,
    still_open,
)
from tests.edits.test_accumulators import DERIVED
from tests.edits.test_groups import ROLLED_UP
from tests.edits.test_ranked_rows import ALL_ROWS, BEST, WINDOWED
from tests.edits.test_time_to_live import QUERIES, TTL
from tests.edits.test_widened import SAME_VALUES, WIDER
from tests.edits.test_windows import SAME_SLICES
from tests.examples import examples
from tests.operators.pipelines import ListWriter, MemoryStores

SHARDS = 3
CASES: dict[str, tuple[str, tuple[str, str]]] = {
    "groups": (CHANGES, ROLLED_UP["a filter on a key that is dropped"]),
    "the grand total": (APPEND, ROLLED_UP["all keys dropped"]),
    "windows": (APPEND, SAME_SLICES["CUMULATE to TUMBLE of its steps"]),
    "the best": (APPEND, BEST["fewer"]),
    "the best of a long list": (APPEND, BEST["a long list becomes a short one"]),
    "all ranked anew": (CHANGES, ALL_ROWS["another partition"]),
    "sums of distinct values": (CHANGES, DERIVED["of distinct with filters"][1:]),
    "extremes of distinct values": (APPEND, DERIVED["extremes of distinct"][1:]),
    "sums of a multiset": (CHANGES, DERIVED["from a multiset, rolled up"][1:]),
    "extremes in windows": (APPEND, DERIVED["extremes in windows with a filter"][1:]),
    "wider types": (CHANGES, (SAME_VALUES["keys and accumulators"],) * 2),
    "a time to live": (CHANGES, (QUERIES["distinct values"], TTL + QUERIES["distinct values"])),
    "the best of windows": (APPEND, (WINDOWED.format("", "<= 3"), WINDOWED.format("", "<= 1"))),
}


def run(plan: PhysicalPlan, before: Loaded, now_us: int = 0) -> MemoryStores:
    """The stores after the job; the old states are in those of `before`."""
    stores = MemoryStores(SHARDS, GROUPS)
    stores.stores.update({(f"{id_}~before", n): store for (id_, n), store in before.stores.stores.items()})
    context: dict[str, Any] = {**before.driver.context, "now_us": now_us}
    epoch = EpochContext(99, SHARDS, GROUPS, {}, {}, **context)
    messages: list[Message] = []
    for level in (1, 2):
        made = []
        for shard in range(SHARDS):
            mine = [m for m in messages if m.shard == shard]
            opened = stores(epoch, shard)
            made += list(
                run_shard_task(
                    plan, level, shard, mine, epoch, opened, writers=lambda _: ListWriter(), duck=DUCK
                )
            )
        messages = [item for item in made if isinstance(item, Message)]
    assert not messages
    return stores


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CASES)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_the_job_makes_the_states_that_the_new_operators_have(name: str, draw: st.DataObject) -> None:
    format_, texts = CASES[name]
    old, new = planned(texts[0], format_), planned(texts[1], format_, **(WIDER if "wider" in name else {}))
    epochs = draw.draw(data(format_))
    before, after = loaded(old, epochs, shards=SHARDS), loaded(new, epochs, shards=SHARDS)
    wanted = [edit for edit in needed(old, new) if edit.derivation is not None]
    assert wanted
    job = with_clock(adaptation_plan(wanted, new.physical.options), NOW)
    made = Loaded(before.driver, run(job, before, NOW))
    for edit in wanted:
        for table in edit.state.tables:
            ours, theirs = made.rows(edit.state.state_id, table), after.rows(edit.state.state_id, table)
            for mine, wanted in zip(ours, theirs, strict=True):
                assert edit.new is not None
                kept = still_open(mine, edit.new, after.driver.previous)
                same_rows(kept, wanted, table, set(), sums=plan_changes(new.physical))
