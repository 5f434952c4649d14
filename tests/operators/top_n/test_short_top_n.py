"""Top-N whose answer is one value of state a partition: after every epoch the batch answer, and what is kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.groups import Int64s
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.operators.top_n.short_top_n import ShortTopN
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.top_n_spec import Ordering, TopNSpec
from sqlstream_operators.plan.types import BIGINT, SqlType
from tests.examples import examples
from tests.operators.ranked_cases import (
    COLUMNS,
    NAMES,
    RANK,
    Case,
    Change,
    Row,
    Shards,
    answer,
    cases,
    changes_of,
    cut,
    cuts,
    fold,
    inserts,
    outcome_of,
    ranked_state,
    shuffled,
    typed_rows,
)

first_rows = cases().map(lambda case: replace(case, function="row_number"))


def spec_of(case: Case) -> TopNSpec:
    fields = {c.name: StateField(c.name, c.type, f"of {c.name[::-1]}") for c in COLUMNS}
    table = StateTable.of(
        "rows",
        "list",
        key=[fields[name] for name in case.partition],
        value=[fields[name] for name in NAMES if name not in case.partition],
    )
    return TopNSpec(
        StateSchema("top", "TopN", "", (table,)),
        COLUMNS,
        case.partition,
        case.order,
        case.function,
        case.limit,
        case.offset,
        RANK.name if case.rank else None,
        case.columns,
        retracting=False,
    )


def shards_of(case: Case, shards: int = 1, root: Path | None = None) -> Shards:
    spec = spec_of(case)
    return Shards(operator_of(spec), spec.state, shards, root)


def check(
    case: Case, epochs: list[list[Change]], job: Shards, shards: list[int] | None = None
) -> Counter[Row]:
    """Run epochs, comparing after each the folded output with the answer, and at the end the state."""
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
    whole = Case(case.partition, case.order, "row_number", 0, case.offset + case.limit, False, tuple(NAMES))
    kept = Counter(tuple(row[name] for name in NAMES) for row in job.stored())
    assert kept == answer(whole, there)
    return folded


TIES = Case((), (Ordering("count", descending=True),), "row_number", 2, 2, True, tuple(NAMES))
NO_RANK = replace(TIES, rank=False, offset=1)


@settings(max_examples=examples(25))
@given(first_rows, inserts, cuts, st.integers(1, 4))
@example(TIES, [((1, 0, "a", None), 2), ((1, 0, "a", None), 2), ((1, 0, "", None), 1)], [1, 2], 1)
@example(NO_RANK, [((1, 0, "a", None), 3), ((1, 1, "b", None), 1), ((1, 1, "b", None), 2)], [1, 2], 1)
def test_the_first_rows_of_each_key(case: Case, changes: list[Change], ends: list[int], shards: int) -> None:
    check(case, cut(changes, ends), shards_of(case, shards))


@settings(max_examples=examples(4))
@given(first_rows, inserts, cuts, st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_on_rocksdb_with_rescaling(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    changes: list[Change],
    ends: list[int],
    shards: list[int],
) -> None:
    check(case, cut(changes, ends), shards_of(case, 1, tmp_path_factory.mktemp("job")), shards)


@settings(max_examples=examples(10))
@given(first_rows, inserts, cuts, st.integers(0, 99))
def test_the_order_of_rows_in_an_epoch_means_nothing(
    case: Case, changes: list[Change], ends: list[int], seed: int
) -> None:
    epochs = cut(changes, ends)
    mixed = [shuffled(epoch, seed) for epoch in epochs]
    assert outcome_of(shards_of(case, 2), mixed) == outcome_of(shards_of(case, 2), epochs)


@settings(max_examples=examples(20))
@given(typed_rows(), st.booleans(), st.booleans(), st.sampled_from(["order", "tie", "partition"]))
def test_values_of_every_type_are_ranked_as_the_other_top_n_ranks_them(
    drawn: tuple[SqlType, list[pa.Array]], descending: bool, nulls_first: bool, place: str
) -> None:
    type_, epochs = drawn
    schema = (Column("k", BIGINT), Column("v", type_))
    by = "v" if place == "partition" else "k"
    order = (Ordering("v", descending, nulls_first),) if place == "order" else ()
    fields = {c.name: StateField(c.name, c.type, c.name) for c in schema}
    key, value = [fields[by]], [field for name, field in fields.items() if name != by]
    [other] = ranked_state(Case((), (), "row_number", 0, 2, True, ())).tables
    tables = (
        StateTable.of("rows", "list", key=key, value=value),
        StateTable.of("rows", "key", key=key, sub_key=other.sub_key, value=[*value, other.value[0]]),
    )
    jobs = []
    for table in tables:
        state = StateSchema("top", "TopN", "", (table,))
        spec = TopNSpec(
            state, schema, (by,), order, "row_number", 2, 0, "rn", (*schema, RANK), retracting=False
        )
        jobs.append(Shards(operator_of(spec), state))
    for values in epochs:
        numbers = pa.array([i % 2 for i in range(len(values))], pa.int64())
        rows = pa.table({"k": numbers, "v": values})
        outputs = [job.run(rows) for job in jobs]
        assert _sorted(outputs[0]) == _sorted(outputs[1])


def _sorted(output: pa.Table) -> list[str]:
    def same(value: Any) -> Any:
        if isinstance(value, float):
            return value + 0.0
        if isinstance(value, pa.MonthDayNano):
            return (value[0] * 30 + value[1]) * 86_400_000_000 + value[2] // 1000
        return value

    return sorted(repr([same(value) for value in row.values()]) for row in output.to_pylist())


# ----------------------------------------------------------------------------------------------- by hand


GREATEST = Case(("p",), (Ordering("count", descending=True),), "row_number", 0, 2, True, tuple(NAMES))


def row(count: int | None, name: str = "a", key: int = 1) -> Row:
    return (key, count, name, None)


def changed(output: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((r["rn"], r["count"], r[WEIGHT_COLUMN]) for r in output.to_pylist())


def test_a_row_that_enters_moves_the_others_down() -> None:
    job = shards_of(GREATEST)
    job.run(changes_of([(row(5), 1), (row(3), 1), (row(1), 1)], weighted=False))
    output = job.run(changes_of([(row(4), 1)], weighted=False))
    assert changed(output) == [(2, 3, -1), (2, 4, 1)]
    output = job.run(changes_of([(row(9), 1)], weighted=False))
    assert changed(output) == [(1, 5, -1), (1, 9, 1), (2, 4, -1), (2, 5, 1)]


def test_rows_that_look_alike_change_nothing() -> None:
    """The columns that are emitted don't show which of the rows is the greatest: nothing is taken back and given anew."""
    job = shards_of(replace(GREATEST, limit=1, rank=False, output=("p",)))
    first = job.run(changes_of([(row(5), 1), (row(3), 1)], weighted=False))
    assert [(r["p"], r[WEIGHT_COLUMN]) for r in first.to_pylist()] == [(row(5)[0], 1)]
    then = job.run(changes_of([(row(9), 1)], weighted=False))
    assert then is None or not then.num_rows


def test_a_row_that_equals_one_of_the_list_takes_the_place_behind_it() -> None:
    job = shards_of(GREATEST)
    job.run(changes_of([(row(5), 1), (row(3), 1)], weighted=False))
    assert changed(job.run(changes_of([(row(5), 1)], weighted=False))) == [(2, 3, -1), (2, 5, 1)]
    assert changed(job.run(changes_of([(row(5), 4)], weighted=False))) == []


def test_only_lists_that_change_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    job = shards_of(GREATEST)
    job.run(changes_of([(row(5), 1), (row(3), 1), (row(5, key=2), 1)], weighted=False))
    written: list[int] = []
    put = job.memory[0].put_lists

    def counted(table: str, keys: pa.Table, rows: pa.Table, sizes: Int64s) -> None:
        written.append(keys.num_rows)
        put(table, keys, rows, sizes)

    monkeypatch.setattr(job.memory[0], "put_lists", counted)
    assert job.run(changes_of([(row(1), 1), (row(None), 1)], weighted=False)).num_rows == 0
    assert sum(written) == 0
    job.run(changes_of([(row(1), 1), (row(7, key=2), 1), (row(1, key=3), 1)], weighted=False))
    assert sum(written) == 2


def test_changes_are_refused() -> None:
    with pytest.raises(InternalError, match="append-only"):
        shards_of(GREATEST).run(changes_of([(row(1), -1)], weighted=True))


def test_state_of_another_shape_and_other_ranks_are_refused() -> None:
    spec = spec_of(GREATEST)
    [table] = spec.state.tables
    keyed = StateTable("rows", "key", table.key, (), table.value)
    short = StateTable("rows", "list", table.key, (), table.value[1:])
    for wrong in (keyed, short):
        with pytest.raises(InternalError, match="has not the columns"):
            ShortTopN(replace(spec, state=StateSchema("top", "TopN", "", (wrong,))))
    for other in (replace(spec, function="rank"), replace(spec, retracting=True)):
        with pytest.raises(InternalError, match="only the first rows"):
            ShortTopN(other)
