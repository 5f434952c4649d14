"""Top-N after every epoch against DuckDB's window functions over the rows so far."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.operators.top_n import ranked_state as ranked_state_module
from sqlstream_operators.operators.top_n.top_n import TopN
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.top_n_spec import RANKS, Ordering, TopNSpec
from sqlstream_operators.plan.types import BIGINT, BLOB
from sqlstream_operators.plan.watermarks import Watermarks
from tests.examples import examples
from tests.operators.ranked_cases import (
    COLUMNS,
    DUCK,
    GROUPS,
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
    rows,
    shuffled,
)


@st.composite
def updates(draw: st.DrawFn) -> list[Change]:
    """Rows that come and go: mostly of rows that are there, sometimes of rows that never came."""
    few = draw(st.lists(rows, min_size=1, max_size=8, unique=True))
    there: Counter[Row] = Counter()
    found = []
    for _ in range(draw(st.integers(0, 24))):
        row = draw(st.sampled_from(few))
        weight = draw(st.sampled_from([-2, -1, 1, 1, 1, 2]))
        if weight < 0 and there[row] + weight < 0 and draw(st.integers(0, 3)):
            weight = -weight
        there[row] += weight
        found.append((row, weight))
    return found


def spec_of(case: Case, *, retracting: bool) -> TopNSpec:
    return TopNSpec(
        ranked_state(case),
        COLUMNS,
        case.partition,
        case.order,
        case.function,
        case.limit,
        case.offset,
        RANK.name if case.rank else None,
        case.columns,
        retracting,
    )


def shards_of(case: Case, shards: int, *, retracting: bool, root: Path | None = None) -> Shards:
    spec = spec_of(case, retracting=retracting)
    return Shards(operator_of(spec), spec.state, shards, root)


def check(
    case: Case, epochs: list[list[Change]], job: Shards, *, retracting: bool, shards: list[int] | None = None
) -> tuple[Counter[Row], Counter[Row]]:
    """Run epochs, comparing after each; gives the rows that are there and the folded output."""
    there: Counter[Row] = Counter()
    folded: Counter[Row] = Counter()
    for number, epoch in enumerate(epochs):
        if shards is not None:
            job.shards = shards[number % len(shards)]
        output = job.run(changes_of(epoch, weighted=retracting))
        assert (output is None) == (not epoch)
        for row, weight in epoch:
            there[row] += weight
        if output is not None:
            fold(folded, output, case.columns)
        assert folded == answer(case, there)
    return there, folded


def check_kept(case: Case, job: Shards, there: Counter[Row]) -> None:
    """Over append-only rows, the state holds the first offset + limit and no more."""
    upto = case.offset + case.limit
    plain = Case(case.partition, case.order, case.function, 0, upto, False, tuple(NAMES))
    kept: Counter[Row] = Counter()
    for found in job.stored():
        assert found["$count"] > 0
        kept[tuple(found[name] for name in NAMES)] += found["$count"]
    assert kept == answer(plain, there)
    if case.function == "row_number":
        sizes: dict[Row, int] = defaultdict(int)
        for row, count in kept.items():
            sizes[tuple(row[NAMES.index(name)] for name in case.partition)] += count
        assert all(size <= upto for size in sizes.values())


ONE = Case((), (), "row_number", 0, 1, True, tuple(NAMES))


@settings(max_examples=examples(15))
@given(cases(), inserts, cuts, st.integers(1, 4))
@example(ONE, [((1, 0, "a", None), 2), ((1, 0, "", None), 1)], [1], 1)
def test_appended_rows(case: Case, changes: list[Change], ends: list[int], shards: int) -> None:
    job = shards_of(case, shards, retracting=False)
    there, _ = check(case, cut(changes, ends), job, retracting=False)
    check_kept(case, job, there)


@settings(max_examples=examples(7))
@given(cases(), updates(), cuts, st.integers(1, 4), st.sampled_from([1, 16]))
@example(ONE, [((1, 0, "a", None), -1), ((1, 0, "a", None), 1), ((1, 0, "a", None), 1)], [1, 2], 1, 1)
def test_updates_and_deletes_of_everything(
    case: Case, changes: list[Change], ends: list[int], shards: int, slack: int
) -> None:
    job = shards_of(case, shards, retracting=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_state_module, "_SLACK", slack)
        there, folded = check(case, cut(changes, ends), job, retracting=True)
    stored = {tuple(row[name] for name in NAMES): row["$count"] for row in job.stored()}
    assert stored == {row: count for row, count in there.items() if count}
    undone = [(row, -count) for row, count in there.items() if count]
    output = job.run(changes_of(undone, weighted=True))
    if output is not None:
        fold(folded, output, case.columns)
    assert folded == Counter()
    assert job.stored() == []


@settings(max_examples=examples(7))
@given(cases(), updates(), cuts, st.booleans(), st.integers(0, 99))
def test_the_order_of_rows_in_an_epoch_means_nothing(
    case: Case, changes: list[Change], ends: list[int], retracting: bool, seed: int
) -> None:
    if not retracting:
        changes = [(row, abs(weight)) for row, weight in changes]
    epochs = cut(changes, ends)
    mixed = [shuffled(epoch, seed) for epoch in epochs]
    found = [
        outcome_of(shards_of(case, 2, retracting=retracting), run, weighted=retracting)
        for run in (epochs, mixed)
    ]
    assert found[0] == found[1]


@settings(max_examples=examples(4))
@given(cases(), updates(), cuts, st.booleans(), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_on_rocksdb_with_rescaling(
    tmp_path_factory: pytest.TempPathFactory,
    case: Case,
    changes: list[Change],
    ends: list[int],
    retracting: bool,
    shards: list[int],
) -> None:
    if not retracting:
        changes = [(row, abs(weight)) for row, weight in changes]
    job = shards_of(case, 1, retracting=retracting, root=tmp_path_factory.mktemp("job"))
    there, folded = check(case, cut(changes, ends), job, retracting=retracting, shards=shards)
    if retracting:
        output = job.run(changes_of([(row, -n) for row, n in there.items() if n], weighted=True))
        if output is not None:
            fold(folded, output, case.columns)
        assert folded == Counter()
        assert all(version.is_empty for version in job.versions)
    else:
        check_kept(case, job, there)


@st.composite
def long_partitions(draw: st.DrawFn) -> tuple[Case, list[list[Change]]]:
    """One partition of many rows with few orders, of which a few come and go an epoch."""
    case = replace(draw(cases()), partition=(), limit=draw(st.integers(1, 3)))
    case = replace(case, order=case.order or (Ordering("count"),))
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    wide = draw(st.sampled_from([3, 40]))

    def some() -> Row:
        return (1, chance.randrange(wide), chance.choice("ab"), Decimal(chance.randrange(3)))

    epochs = [[(some(), 1) for _ in range(60)]]
    there = [row for row, _ in epochs[0]]
    for _ in range(3):
        going = chance.sample(there, 6) if chance.random() < 0.5 else sorted(there)[:6]
        coming = [some() for _ in range(3)]
        epochs.append([*((row, -1) for row in going), *((row, 1) for row in coming)])
        there = [*(Counter(there) - Counter(going)).elements(), *coming]
    return case, epochs


@settings(max_examples=examples(7))
@given(long_partitions(), st.sampled_from([1, 4]))
def test_of_a_long_partition_only_the_beginning_is_read(
    drawn: tuple[Case, list[list[Change]]], slack: int
) -> None:
    case, epochs = drawn
    job = shards_of(case, 1, retracting=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_state_module, "_SLACK", slack)
        check(case, epochs, job, retracting=True)


# ----------------------------------------------------------------------------------------------- by hand


def hand(*, retracting: bool = True, rank: bool = True) -> Shards:
    """The two greatest `count` of each p."""
    case = Case(("p",), (Ordering("count", descending=True),), "row_number", 0, 2, rank, tuple(NAMES))
    return shards_of(case, 1, retracting=retracting)


def row(count: int | None, name: str = "a") -> Row:
    return (1, count, name, Decimal("0.50"))


def changed(output: pa.Table) -> list[tuple[Any, ...]]:
    return sorted((r["rn"], r["count"], r[WEIGHT_COLUMN]) for r in output.to_pylist())


def test_a_row_that_enters_moves_the_others_down() -> None:
    job = hand()
    job.run(changes_of([(row(5), 1), (row(3), 1), (row(1), 1)], weighted=True))
    output = job.run(changes_of([(row(9), 1)], weighted=True))
    assert changed(output) == [(1, 5, -1), (1, 9, 1), (2, 3, -1), (2, 5, 1)]
    output = job.run(changes_of([(row(9), -1), (row(5), -1)], weighted=True))
    assert changed(output) == [(1, 3, 1), (1, 9, -1), (2, 1, 1), (2, 5, -1)]


def test_what_comes_and_goes_in_one_epoch_reads_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    job = hand()
    job.run(changes_of([(row(5), 1)], weighted=True))
    for method in ("scan_prefix", "scan_first", "get", "put", "delete"):
        monkeypatch.setattr(job.memory[0], method, lambda *_: pytest.fail("state"))
    output = job.run(changes_of([(row(7), 1), (row(7), 1), (row(7), -2)], weighted=True))
    assert output.num_rows == 0
    assert output.column_names == ["rn", *NAMES, WEIGHT_COLUMN]


def test_a_row_far_from_the_answer_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    job = hand(retracting=False)
    job.run(changes_of([(row(5), 1), (row(3), 1)], weighted=False))
    for method in ("put", "delete"):
        monkeypatch.setattr(job.memory[0], method, lambda *_: pytest.fail("state"))
    assert job.run(changes_of([(row(1), 1), (row(None), 1)], weighted=False)).num_rows == 0


@pytest.mark.parametrize("function", RANKS)
def test_the_work_does_not_grow_with_the_partition(function: str) -> None:
    case = Case(("p",), (Ordering("count"),), function, 1, 2, True, tuple(NAMES))
    job = shards_of(case, 1, retracting=True)
    there: Counter[Row] = Counter()
    folded: Counter[Row] = Counter()
    for epoch, most in (
        ([(row(count), 1) for count in range(5000)], 0),
        ([(row(-1), 1), (row(4999), -1), (row(7000), 1)], 30),
        ([(row(-1), -1), (row(0), -1), (row(2), -1)], 30),
        ([(row(count, "b"), 1) for count in range(3, 5)], 30),
    ):
        table = changes_of(epoch, weighted=True)
        with job.store(0) as store:
            result = job.operator.process([table], OperatorContext(0, 1, GROUPS, Watermarks(), store, DUCK))
            store.commit()
        assert result.metrics["read_rows"] <= most
        there.update(dict(epoch))
        fold(folded, result.output, case.columns)
        assert folded == answer(case, there)


@pytest.mark.parametrize("function", RANKS)
def test_rows_that_went_before_they_came_take_no_place(
    function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """State has them before those that are there: of these no fewer are read, and none is ranked as if they were there."""
    monkeypatch.setattr(ranked_state_module, "_SLACK", 1)
    case = Case(("p",), (Ordering("count"),), function, 0, 2, True, tuple(NAMES))
    early = [row(count) for count in range(20)]
    epochs = [
        [*((one, -1) for one in early), *((row(count), 1) for count in range(100, 106))],
        [(row(100), -1), (row(107), 1)],
        [(row(101), -1), (row(102), -1)],
        [(one, 1) for one in early],
        [(row(5), 2), (row(6), 1)],
    ]
    check(case, epochs, shards_of(case, 1, retracting=True), retracting=True)


def test_only_the_copies_that_matter_are_kept() -> None:
    job = hand(retracting=False)
    job.run(changes_of([(row(5), 7), (row(3), 1)], weighted=False))
    assert [(r["count"], r["$count"]) for r in job.stored()] == [(5, 2)]
    job.run(changes_of([(row(6), 1)], weighted=False))
    assert sorted((r["count"], r["$count"]) for r in job.stored()) == [(5, 1), (6, 1)]


def test_state_lies_in_the_order_of_the_query() -> None:
    job = hand()
    job.run(changes_of([(row(c), 1) for c in (3, None, -4, 10, 0)], weighted=True))
    assert [r["count"] for r in job.stored()] == [10, 3, 0, -4, None]


def test_changes_are_refused_where_the_plan_says_appended_rows() -> None:
    with pytest.raises(InternalError, match="append-only"):
        hand(retracting=False).run(changes_of([(row(1), -1)], weighted=True))


def test_state_of_another_shape_is_refused() -> None:
    case = Case(("p",), (), "row_number", 0, 2, False, tuple(NAMES))
    spec = spec_of(case, retracting=True)
    [table] = spec.state.tables
    swapped = StateTable.of(
        "rows",
        "key",
        key=table.key,
        sub_key=[StateField("$sort", BLOB, "1"), StateField("$row", BLOB, "0")],
        value=[*table.value],
    )
    short = StateTable("rows", "key", table.key, table.sub_key, table.value[1:])
    timed = StateTable("rows", "time", table.key, table.sub_key, table.value)
    for wrong in (swapped, short, timed):
        with pytest.raises(InternalError, match="has not the columns"):
            TopN(
                TopNSpec(
                    StateSchema("top", "TopN", "", (wrong,)),
                    COLUMNS,
                    ("p",),
                    (),
                    "rank",
                    1,
                    0,
                    None,
                    COLUMNS,
                    True,
                )
            )


def test_nested_values_are_ranked_as_duckdb_orders_them() -> None:
    # Descending, DuckDB puts [NULL] before [9]; in state it is the last.
    schema = (Column("v", t.array(BIGINT)),)
    table = StateTable(
        "rows",
        "key",
        (),
        (StateField("sort", BLOB, "0"), StateField("row", BLOB, "1")),
        (StateField("count", BIGINT, "count"), StateField("v", schema[0].type, "v")),
    )
    state = StateSchema("top", "TopN", "", (table,))
    order = (Ordering("v", descending=True),)
    job = Shards(
        operator_of(TopNSpec(state, schema, (), order, "row_number", 1, 0, None, schema, True)), state
    )

    def run(values: list[int | None], weight: int) -> dict[str, int]:
        lists = pa.array([[value] for value in values], to_arrow(schema[0].type))
        output = job.run(pa.table({"v": lists, WEIGHT_COLUMN: [weight] * len(values)}))
        return {str(r["v"]): r[WEIGHT_COLUMN] for r in output.to_pylist()}

    assert run([None, *range(30)], 1) == {"[None]": 1}
    assert run([100], 1) == {}
    assert run([None], -1) == {"[None]": -1, "[100]": 1}


def test_without_rows_there_is_nothing_to_do() -> None:
    operator = hand().operator
    assert operator.idle([changes_of([], weighted=True)], Watermarks(), stateless=False)
    assert not operator.idle([changes_of([(row(1), 1)], weighted=True)], Watermarks(), stateless=True)


def test_a_rank_may_be_called_as_a_column_that_is_not_emitted() -> None:
    state = ranked_state(Case(("p",), (), "row_number", 0, 2, False, tuple(NAMES)))
    output = (Column("p", BIGINT), Column("count", BIGINT))
    spec = TopNSpec(state, COLUMNS, ("p",), (), "row_number", 2, 0, "count", output, True)
    job = Shards(operator_of(spec), state)
    found = job.run(changes_of([(row(77), 1)], weighted=True))
    assert found.to_pylist() == [{"p": 1, "count": 1, WEIGHT_COLUMN: 1}]
