"""Distinct values against COUNT(DISTINCT), SUM(DISTINCT) with FILTER in DuckDB, after every epoch."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from tests.examples import examples
from tests.operators.aggregate.test_group_aggregate import Change, add, histories
from tests.operators.weighted_cases import DUCK, Folded, Shards, batch, partials, rows_of, table

INPUT: Schema = (Column("k", t.INTEGER), Column("j", t.VARCHAR), Column("v", t.INTEGER))
OUTPUT: Schema = (
    Column("k", t.INTEGER),
    Column("j", t.VARCHAR),
    Column("n", t.BIGINT),
    Column("s", t.BIGINT),
    Column("few", t.BIGINT),
)
CAME = '("{0}.after"::BIGINT - "{0}.before"::BIGINT)'
EMIT = (
    f"SELECT k, j, sum({CAME.format('every')})::BIGINT AS n, sum(x * {CAME.format('every')})::BIGINT AS s, "
    f"sum({CAME.format('some')})::BIGINT AS few FROM changed GROUP BY k, j"
)
SPEC = DistinctValuesSpec(
    state=StateSchema(
        "d1",
        "distinct_values",
        "test",
        (
            StateTable.of(
                "seen",
                "key",
                key=[
                    StateField("k", t.INTEGER, "k"),
                    StateField("j", t.VARCHAR, "j"),
                    StateField("x", t.INTEGER, "x"),
                ],
                value=[StateField("every", t.BIGINT, "every"), StateField("some", t.BIGINT, "some")],
            ),
        ),
    ),
    keys=INPUT[:2],
    values=(Column("x", t.INTEGER),),
    flags=("every", "some"),
    retracting=True,
    emit=EMIT,
    output=OUTPUT,
)
KEYS = ["j", "k", "x"]
PARTIAL = (
    "SELECT k, j, v AS x, sum(__weight)::BIGINT AS every, "
    "sum(CASE WHEN v % 2 = 0 THEN __weight END)::BIGINT AS some FROM t WHERE v IS NOT NULL GROUP BY k, j, v"
)
BATCH = (
    "SELECT k, j, count(DISTINCT v) AS n, sum(DISTINCT v)::BIGINT AS s, "
    "count(DISTINCT v) FILTER (v % 2 = 0) AS few FROM t WHERE v IS NOT NULL GROUP BY k, j"
)
FOLD = (
    "SELECT k, j, sum(n)::BIGINT AS n, sum(s)::BIGINT AS s, sum(few)::BIGINT AS few FROM t "
    "GROUP BY k, j HAVING sum(n) <> 0 OR sum(s) <> 0 OR sum(few) <> 0"
)


def sent(changes: list[Change], chance: random.Random) -> pa.Table:
    """The counts of random splits, shuffled."""
    nothing = table((*SPEC.keys, *SPEC.values, *(Column(flag, t.BIGINT) for flag in SPEC.flags)), [])
    splits: list[list[Change]] = [[], []]
    for change in changes:
        splits[chance.randrange(2)].append(change)
    pieces = [partials(PARTIAL, INPUT, split).cast(nothing.schema) for split in splits if split]
    rows = pa.concat_tables([nothing, *pieces])
    return rows.take(pa.array(chance.sample(range(rows.num_rows), rows.num_rows), pa.int64()))


def check(
    spec: DistinctValuesSpec, job: Shards, epochs: list[list[Change]], chance: random.Random
) -> Counter[tuple[Any, ...]]:
    emitted, rows = [], Counter[tuple[Any, ...]]()
    for changes in epochs:
        add(rows, changes)
        emitted += job.run([sent(changes, chance)])
        found = DUCK.query(FOLD, {"t": pa.concat_tables(emitted)})
        assert Counter(rows_of(found)) == batch(BATCH, INPUT, rows)
    there = {row for row, count in rows.items() if count and row[2] is not None}
    assert job.state_rows() == len(there)
    return rows


@settings(max_examples=examples(7))
@given(histories(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_after_every_epoch_the_sums_are_the_batch_answer(
    epochs: list[list[Change]], shards: int, chance: random.Random
) -> None:
    check(SPEC, Shards(SPEC, shards, KEYS), epochs, chance)


@settings(max_examples=examples(5))
@given(histories(), st.integers(1, 3), st.randoms(use_true_random=False))
def test_append_only_input_keeps_flags_and_writes_a_value_once(
    epochs: list[list[Change]], shards: int, chance: random.Random
) -> None:
    spec = replace(SPEC, retracting=False)
    appended = [[change for change in changes if change[-1] > 0] for changes in epochs]
    job = Shards(spec, shards, KEYS)
    check(spec, job, appended, chance)
    flags = [row for store in job._memory for row in store.scan_all("seen").to_pylist()]
    assert all(row["every"] == 1 and row["some"] == (row["x"] % 2 == 0) for row in flags)
    again = [change for changes in appended for change in changes]
    before = sum(len(store.overlay.rows) for store in job._memory)
    assert all(output.num_rows == 0 for output in job.run([sent(again, chance)]))
    assert before == 0
    assert [m["state_rows_added"] for m in job.metrics[-shards:]] == [0] * shards


@settings(max_examples=examples(3))
@given(histories(), st.randoms(use_true_random=False))
def test_on_rocksdb(
    tmp_path_factory: pytest.TempPathFactory, epochs: list[list[Change]], chance: random.Random
) -> None:
    check(SPEC, Shards(SPEC, 2, KEYS, directory=tmp_path_factory.mktemp("job")), epochs, chance)


@settings(max_examples=examples(7))
@given(histories(), st.integers(0, 1 << 30))
def test_the_order_of_the_input_does_not_matter(epochs: list[list[Change]], seed: int) -> None:
    outputs = []
    for number in range(2):
        job, chance = Shards(SPEC, 2, KEYS), random.Random(seed + number)
        outputs.append(
            [
                Counter(rows_of(output))
                for changes in epochs
                for output in job.run([sent(chance.sample(changes, len(changes)), chance)])
            ]
        )
    assert outputs[0] == outputs[1]


def counts(*rows: tuple[Any, ...]) -> pa.Table:
    return table((*SPEC.keys, *SPEC.values, *(Column(flag, t.BIGINT) for flag in SPEC.flags)), rows)


def test_a_value_comes_and_goes_with_the_first_and_the_last_of_its_rows() -> None:
    job = Shards(SPEC, 1, KEYS)
    steps = [
        (counts((1, "a", 4, 2, None)), [(1, "a", 1, 4, 0)]),
        (counts((1, "a", 4, 1, 1), (1, "a", 4, None, 1)), [(1, "a", 0, 0, 1)]),
        (counts((1, "a", 4, -2, -2), (1, "a", 6, 1, 0), (1, "a", 6, -1, 0)), [(1, "a", 0, 0, -1)]),
        (counts((1, "a", 4, -1, 0)), [(1, "a", -1, -4, 0)]),
    ]
    for rows, wanted in steps:
        assert rows_of(job.run([rows])[0]) == wanted
    assert job.state_rows() == 0


def test_a_delete_before_its_insert_is_owed() -> None:
    job = Shards(SPEC, 1, KEYS)
    assert job.run([counts((1, "a", 4, -1, 0))])[0].num_rows == 0
    assert job.state_rows() == 1
    assert job.run([counts((1, "a", 4, 1, 0))])[0].num_rows == 0
    assert job.state_rows() == 0


def test_a_delete_from_append_only_input_is_a_bug() -> None:
    job = Shards(replace(SPEC, retracting=False), 1, KEYS)
    with pytest.raises(InternalError, match="append-only"):
        job.run([counts((1, "a", 4, -1, 0))])


def test_state_of_another_shape_is_refused() -> None:
    with pytest.raises(InternalError, match="columns"):
        Shards(replace(SPEC, flags=("every",)), 1, KEYS)
    assert Folded().rows == Counter()
