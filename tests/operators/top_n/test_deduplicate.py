"""Deduplication after every epoch against the batch definition, and against Top-N with N = 1."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.top_n_spec import DeduplicateSpec, Ordering, TopNSpec
from sqlstream_operators.plan.types import SqlType
from sqlstream_operators.plan.watermarks import Watermarks
from tests.examples import examples
from tests.operators.ranked_cases import (
    COLUMNS,
    NAMES,
    Case,
    Change,
    Row,
    Shards,
    answer,
    cases,
    changes_of,
    cut,
    fold,
    outcome_of,
    ranked_state,
    rows,
    shuffled,
    table_of,
    typed_rows,
)

inserts = st.lists(st.tuples(rows, st.sampled_from([1, 1, 2])), max_size=30)
cuts = st.lists(st.integers(0, 30), max_size=4)


def state_of(schema: Schema, partition: tuple[str, ...]) -> StateSchema:
    fields = {c.name: StateField(c.name, c.type, f"of {c.name[::-1]}") for c in schema}
    table = StateTable.of(
        "row",
        "key",
        key=[fields[name] for name in partition],
        value=[field for name, field in fields.items() if name not in partition],
    )
    return StateSchema("first", "Deduplicate", "", (table,))


def first(case: Case) -> Case:
    return replace(case, function="row_number", offset=0, limit=1, rank=False)


def shards_of(case: Case, shards: int, root: Path | None = None) -> Shards:
    spec = DeduplicateSpec(
        state_of(COLUMNS, case.partition), COLUMNS, case.partition, case.order, case.columns
    )
    return Shards(operator_of(spec), spec.state, shards, root)


def check(case: Case, epochs: list[list[Change]], job: Shards, shards: list[int] | None = None) -> None:
    there: Counter[Row] = Counter()
    folded: Counter[Row] = Counter()
    for number, epoch in enumerate(epochs):
        if shards is not None:
            job.shards = shards[number % len(shards)]
        output = job.run(changes_of(epoch, weighted=False))
        for row, weight in epoch:
            there[row] += weight
        if output is not None:
            fold(folded, output, case.columns)
        assert folded == answer(case, there)
    whole = replace(case, output=tuple(NAMES))
    assert Counter(tuple(row[name] for name in NAMES) for row in job.stored()) == answer(whole, there)


LAST = Case(("p",), (Ordering("count", descending=True),), "row_number", 0, 1, False, tuple(NAMES))


@settings(max_examples=examples(20))
@given(cases().map(first), inserts, cuts, st.integers(1, 4))
@example(LAST, [((1, None, "a", None), 1), ((1, 0, "a", None), 1), ((1, 0, "", None), 1)], [1, 2], 1)
def test_the_first_row_of_each_key(case: Case, changes: list[Change], ends: list[int], shards: int) -> None:
    check(case, cut(changes, ends), shards_of(case, shards))


@settings(max_examples=examples(3))
@given(cases().map(first), inserts, cuts, st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_on_rocksdb_with_rescaling(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    changes: list[Change],
    ends: list[int],
    shards: list[int],
) -> None:
    check(case, cut(changes, ends), shards_of(case, 1, tmp_path_factory.mktemp("job")), shards)


@settings(max_examples=examples(10))
@given(cases().map(first), inserts, cuts, st.integers(0, 99))
def test_the_order_of_rows_in_an_epoch_means_nothing(
    case: Case, changes: list[Change], ends: list[int], seed: int
) -> None:
    epochs = cut(changes, ends)
    mixed = [shuffled(epoch, seed) for epoch in epochs]
    assert outcome_of(shards_of(case, 2), mixed) == outcome_of(shards_of(case, 2), epochs)


@settings(max_examples=examples(20))
@given(typed_rows(), st.booleans(), st.booleans(), st.booleans())
def test_values_of_every_type_are_ordered_as_top_n_orders_them(
    drawn: tuple[SqlType, list[pa.Array]], descending: bool, nulls_first: bool, tie: bool
) -> None:
    type_, epochs = drawn
    schema = (Column("k", t.BIGINT), Column("v", type_))
    order = () if tie else (Ordering("v", descending, nulls_first),)
    state = state_of(schema, ("k",))
    [row] = state.tables
    rows = StateTable.of(
        "rows",
        "key",
        key=row.key,
        sub_key=[StateField("sort", t.BLOB, "0"), StateField("row", t.BLOB, "1")],
        value=[*row.value, StateField("count", t.BIGINT, "count")],
    )
    top = TopNSpec(
        StateSchema("top", "TopN", "", (rows,)),
        schema, ("k",), order, "row_number", 1, 0, None, schema, retracting=False,
    )  # fmt: skip
    jobs = [
        Shards(operator_of(DeduplicateSpec(state, schema, ("k",), order, schema)), state),
        Shards(operator_of(top), top.state),
    ]
    for values in epochs:
        keys = pa.array([1] * len(values), pa.int64())
        table = pa.table([keys, values.cast(to_arrow(type_))], names=["k", "v"])
        found = [sorted(map(repr, job.run(table).to_pylist())) for job in jobs]
        assert found[0] == found[1]


def test_a_better_row_replaces_the_stored_one_and_others_write_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = shards_of(LAST, 1)
    job.run(table_of([(1, 5, "a", None), (2, None, "b", None), (None, 1, "n", None)]))
    output = job.run(
        table_of([(1, 6, "c", None), (1, 4, "d", None), (2, None, "b", None), (None, 0, "", None)])
    )
    assert sorted((r["p"], r["count"], r[WEIGHT_COLUMN]) for r in output.to_pylist()) == [
        (1, 5, -1),
        (1, 6, 1),
    ]
    written: list[int] = []
    monkeypatch.setattr(job.memory[0], "put", lambda _, new: written.append(new.num_rows))
    assert job.run(table_of([(1, 6, "d", None), (2, None, "z", None)])).num_rows == 0
    assert sum(written) == 0


def test_rows_without_other_columns_come_once() -> None:
    schema = (Column("a", t.BIGINT), Column("b", t.VARCHAR))
    state = state_of(schema, ("b", "a"))
    spec = DeduplicateSpec(state, schema, ("a", "b"), (Ordering("a"),), (schema[1], schema[0]))
    job = Shards(operator_of(spec), state)
    table = table_of([(1, "x"), (1, "x"), (None, None)], schema)
    assert sorted(map(repr, job.run(table).to_pylist())) == sorted(
        map(repr, [{"b": "x", "a": 1, WEIGHT_COLUMN: 1}, {"b": None, "a": None, WEIGHT_COLUMN: 1}])
    )
    assert job.run(table).num_rows == 0


def test_changes_and_state_of_another_shape_are_refused() -> None:
    with pytest.raises(InternalError, match="append-only"):
        shards_of(LAST, 1).run(changes_of([((1, 1, "a", None), 1)], weighted=True))
    spec = DeduplicateSpec(state_of(COLUMNS, ("row",)), COLUMNS, ("p",), (), COLUMNS)
    with pytest.raises(InternalError, match="has not the columns"):
        operator_of(spec)
    with pytest.raises(KeyError):
        operator_of(replace(spec, state=ranked_state(LAST)))


def test_without_rows_there_is_nothing_to_do() -> None:
    operator = shards_of(LAST, 1).operator
    assert operator.idle([table_of([])], Watermarks(), stateless=False)
    assert not operator.idle([table_of([(1, 1, "a", None)])], Watermarks(), stateless=True)
