"""Joins after every epoch against DuckDB's JOIN over the rows so far, and against itself with the work cut otherwise."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.plan.join_spec import JOINS, JoinSideSpec, JoinSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import BIGINT, BLOB, DOUBLE, VARCHAR
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.memory import MemoryShardStore
from tests.examples import examples
from tests.operators.weighted_cases import DUCK, GROUPS, Folded, Shards, rows_of, table

#: Two columns are called as the state's own fields are.
LEFT: Schema = (Column("k", BIGINT), Column("j", VARCHAR), Column("row", BIGINT))
RIGHT: Schema = (Column("rk", BIGINT), Column("rj", VARCHAR), Column("count", BIGINT))
KEYS = (Column("__key_1", BIGINT), Column("__key_2", VARCHAR))
CONDITIONS = (None, '"row" < "count"', '"row" IS DISTINCT FROM "count"', '"row" > 1', "FALSE")
BATCH = duckdb.connect(config={"threads": 1})

Row = tuple[Any, ...]
Change = tuple[int, Row, int]  # side, row, weight


@dataclass(frozen=True)
class Case:
    """A join by `equalities` of k = rk and j = rj; `computed`: the first key is no column as it stands.

    `distinct`: of the sides whose rows can go, which have none twice. `bare`: the right has only the columns of its keys.
    """

    type: str
    equalities: int
    condition: str | None
    retracting: tuple[bool, bool]
    computed: bool = False
    distinct: tuple[bool, bool] = (False, False)
    bare: bool = False

    @property
    def keys(self) -> Schema:
        return KEYS[: self.equalities]

    @property
    def columns(self) -> tuple[Schema, Schema]:
        return LEFT, RIGHT[: self.equalities] if self.is_bare else RIGHT

    @property
    def is_bare(self) -> bool:
        return self.bare and self.equalities > 0 and '"count"' not in (self.condition or "")

    def is_distinct(self, number: int) -> bool:
        return self.distinct[number] and self.retracting[number]

    def side(self, number: int) -> JoinSideSpec:
        columns = self.columns[number]
        names = tuple(c.name for c in columns[: self.equalities])
        if self.computed and names and not (number == 1 and self.is_bare):
            names = ("", *names[1:])
        return JoinSideSpec(
            columns,
            names,
            self.retracting[number],
            distinct=self.is_distinct(number),
            counted=number == 1 and self.is_bare,
        )

    @property
    def spec(self) -> JoinSpec:
        key = [StateField(k.name, k.type, f"key {n}") for n, k in enumerate(self.keys)]
        tables = tuple(
            StateTable.of(
                name,
                "key",
                key=key,
                sub_key=[StateField("$row", BLOB, "row")],
                value=[
                    StateField("$count", BIGINT, "0 count"),
                    *(StateField(c.name, c.type, f"of {c.name}") for c in self.side(number).stored),
                ],
            )
            for number, name in enumerate(("left", "right"))
        )
        left, right = self.columns
        output = left if self.type in ("semi", "anti") else (*left, *right)
        return JoinSpec(
            StateSchema("s", "join", "test", tables),
            self.type,
            self.keys,
            self.side(0),
            self.side(1),
            self.condition,
            output,
        )

    def inputs(self, changes: Sequence[Change]) -> list[pa.Table]:
        found = []
        for number, columns in enumerate(self.columns):
            mine = [(row[: len(columns)], weight) for side, row, weight in changes if side == number]
            rows = table(columns, [row for row, _ in mine])
            for key, column in zip(self.keys, columns, strict=False):
                rows = rows.append_column(key.name, rows.column(column.name))
            rows = rows.select([*(k.name for k in self.keys), *(c.name for c in self.side(number).stored)])
            if self.retracting[number]:
                rows = rows.append_column(WEIGHT_COLUMN, pa.array([w for _, w in mine], pa.int64()))
            elif mine:
                assert {w for _, w in mine} == {1}
                if self.side(number).counted:
                    rows = rows.append_column(WEIGHT_COLUMN, pa.array([1] * len(mine), pa.int64()))
            found.append(rows)
        return found

    def answer(self, there: Sequence[Counter[Row]]) -> Counter[Row]:
        """What DuckDB gives for the rows that are there."""
        for name, columns, rows in zip(("l", "r"), self.columns, there, strict=True):
            BATCH.register(name, table(columns, [row for row, n in rows.items() for _ in range(max(n, 0))]))
        same = [f"l.{a.name} = r.{b.name}" for a, b in zip(LEFT, RIGHT, strict=True)][: self.equalities]
        on = " AND ".join([*same, *([self.condition] if self.condition else [])]) or "TRUE"
        return Counter(rows_of(BATCH.sql(f"SELECT * FROM l {self.type} JOIN r ON {on}").to_arrow_table()))


rows = st.tuples(
    st.sampled_from([None, 1, 2]), st.sampled_from([None, "", "a"]), st.sampled_from([None, 0, 1, 2])
)
cases = st.builds(
    Case,
    st.sampled_from(JOINS),
    st.sampled_from([0, 1, 1, 2]),
    st.sampled_from(CONDITIONS),
    st.tuples(st.booleans(), st.booleans()),
    st.booleans(),
    st.tuples(st.booleans(), st.booleans()),
    st.booleans(),
)
cuts = st.lists(st.integers(0, 24), max_size=4)


@st.composite
def changes(draw: st.DrawFn, case: Case) -> list[Change]:
    """Rows that come, and go again where the side's rows can: mostly rows that are there, at times ones that never came."""
    few = [draw(st.lists(rows, min_size=1, max_size=6, unique=True)) for _ in range(2)]
    there: Counter[tuple[int, Row]] = Counter()
    found = []
    for _ in range(draw(st.integers(0, 24))):
        side = draw(st.integers(0, 1))
        row = draw(st.sampled_from(few[side]))[: len(case.columns[side])]
        weight = 1
        if case.is_distinct(side):
            weight = -1 if there[side, row] else 1
        elif case.retracting[side]:
            weight = draw(st.sampled_from([-2, -1, 1, 1, 1, 2]))
            if weight < 0 and there[side, row] + weight < 0 and draw(st.integers(0, 3)):
                weight = -weight
        there[side, row] += weight
        found.append((side, row, weight))
    return found


@st.composite
def scenarios(draw: st.DrawFn) -> tuple[Case, list[list[Change]]]:
    """A join and its epochs."""
    case = draw(cases)
    return case, cut(draw(changes(case)), draw(cuts))


def cut(found: list[Change], ends: Sequence[int]) -> list[list[Change]]:
    bounds = [0, *sorted(min(end, len(found)) for end in ends), len(found)]
    return [found[a:b] for a, b in itertools.pairwise(bounds)]


def check(
    case: Case,
    epochs: Sequence[list[Change]],
    job: Shards,
    shards: Sequence[int] = (),
    there: Sequence[Counter[Row]] = (),
) -> list[Counter[Row]]:
    """Run epochs, beginning with the rows that are `there`, and compare after each with DuckDB; `Folded` sees that no two
    changes cancel out.
    """
    there = [Counter(rows) for rows in there] or [Counter(), Counter()]
    folded = case.answer(there)
    for number, epoch in enumerate(epochs):
        if shards:
            job.rescale(shards[number % len(shards)])
        for side, row, weight in epoch:
            there[side][row[: len(case.columns[side])]] += weight
        for output in job.run(case.inputs(epoch)):
            assert (WEIGHT_COLUMN in output.column_names) == job.spec.emits_changes
            one = Folded(once=all(case.retracting))
            one.rows = folded
            one.add(output)
        assert folded == case.answer(there)
    return there


def shards_of(case: Case, shards: int, directory: Path | None = None) -> Shards:
    return Shards(case.spec, shards, [key.name for key in case.keys], directory=directory)


@settings(max_examples=examples(15), deadline=None)
@given(scenarios(), st.integers(1, 3))
def test_against_duckdb_after_every_epoch(scenario: tuple[Case, list[list[Change]]], shards: int) -> None:
    case, epochs = scenario
    check(case, epochs, shards_of(case, shards))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("type_", JOINS)
@pytest.mark.parametrize("equalities", [0, 1])
@pytest.mark.parametrize("condition", CONDITIONS[:2])
@pytest.mark.parametrize("retracting", [(False, False), (True, True)])
def test_every_kind(
    type_: str, equalities: int, condition: str | None, retracting: tuple[bool, bool]
) -> None:
    """Rows of either side first, doubled, and gone again where they can."""
    case = Case(type_, equalities, condition, retracting)
    a, b, c = (1, "a", 1), (1, None, 2), (None, "a", None)
    come: list[list[Change]] = [
        [(0, a, 1), (0, b, 1)],
        [(1, a, 1), (1, b, 1), (1, c, 1)],
        [(0, c, 1), (0, a, 1), (1, (2, "a", 0), 1)],
    ]
    come += [[(1, (1, "a", 2), 1), (0, (2, "a", 1), 1)]]
    go: list[list[Change]] = [[(side, row, -1)] for side in (0, 1) if retracting[side] for row in (a, b, c)]
    job = shards_of(case, 2)
    there = check(case, [*come, *go], job)
    if not any(retracting):
        return
    undone = [(s, row, -n) for s in (0, 1) if retracting[s] for row, n in there[s].items() if n]
    check(case, [[c for epoch in come for c in epoch], undone], shards_of(case, 1))


@settings(max_examples=examples(5), deadline=None)
@given(scenarios(), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_on_rocksdb_with_rescaling(
    tmp_path_factory: pytest.TempPathFactory, scenario: tuple[Case, list[list[Change]]], shards: list[int]
) -> None:
    case, epochs = scenario
    check(case, epochs, shards_of(case, 1, tmp_path_factory.mktemp("job")), shards)


@settings(max_examples=examples(10), deadline=None)
@given(scenarios())
def test_state_holds_both_sides_and_nothing_else(scenario: tuple[Case, list[list[Change]]]) -> None:
    case, epochs = scenario
    job = shards_of(case, 1)
    there = check(case, epochs, job)
    whole = {"left": (0,), "anti": (0,), "right": (1,), "full": (0, 1)}.get(case.type, ())
    kept = 0
    for side, rows in enumerate(there):
        found = [n for row, n in rows.items() if n and (side in whole or None not in row[: case.equalities])]
        kept += sum(found) if case.spec.only_come(("left", "right")[side]) else len(found)
    assert job.state_rows() == kept


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", ["left", "semi", "anti"])
@pytest.mark.parametrize("bare", [False, True])
def test_states_of_rows_by_digests_or_names_go_on(type_: str, bare: bool) -> None:
    """Outer joins kept digests of append-only rows, and semi joins a name for each row of the right."""
    a, b, c = (1, "a", 1), (1, "b", 2), (2, "a", 0)
    first: list[list[Change]] = [[(0, a, 1), (0, a, 1), (1, a, 1), (1, a, 1)], [(0, c, 1)]]
    then: list[list[Change]] = [[(0, a, 1), (1, b, 1), (0, b, 1)], [(1, c, 1), (1, a, 1)]]
    case = Case(type_, 1, None, (False, False), bare=bare)
    before = replace(case, type="inner") if type_ == "semi" else replace(case, retracting=(True, True))
    job = shards_of(before, 1)
    there = check(before, first, job)
    job.go_on(case.spec)
    check(case, then, job, there=there)


def test_equal_rows_that_only_come_meet_a_row_that_is_there_less_often() -> None:
    """Pairs of the old one go, pairs of the new one come: they are the same in the answer."""
    a = (1, "a", 1)
    for type_ in ("inner", "left", "full"):
        case = Case(type_, 1, None, (False, True))
        check(case, [[(0, a, 1), (1, a, 3)], [(0, a, 1), (1, a, -1)]], shards_of(case, 1))


def test_rows_without_a_key_are_padded_and_never_met() -> None:
    case = Case("full", 1, None, (True, True))
    none = (None, "a", 1)
    check(case, [[(0, none, 1)], [(1, none, 2)], [(0, none, -1)], [(1, none, -2)]], shards_of(case, 2))


def test_a_row_that_is_null_throughout_is_no_row_beside_nulls() -> None:
    """Both look alike in the answer: they count together, and stand once in an epoch's changes."""
    nulls = (None, None, None)
    for type_ in ("left", "right", "full"):
        case = Case(type_, 0, '"row" IS DISTINCT FROM 5 AND "count" IS DISTINCT FROM 5', (True, True))
        five = (1, "a", 5)
        come: list[Change] = [(0, nulls, 1), (1, nulls, 1), (0, five, 1), (1, five, 1)]
        epochs: list[list[Change]] = [come, [(1, nulls, -1)]]
        check(case, epochs, shards_of(case, 1))


def test_a_row_that_goes_before_it_came_hides_no_other() -> None:
    """A count below 0 is no row: the key has another one, though it may stand behind in state."""
    for type_ in ("left", "anti", "semi"):
        case = Case(type_, 1, None, (True, True))
        gone: list[Change] = [(1, (1, "a", n), -1) for n in range(40)]
        epochs: list[list[Change]] = [
            gone,
            [(1, (1, "b", 0), 1)],
            [(0, (1, "a", 0), 1)],
            [(1, (1, "c", 0), 1)],
            [(1, (1, "c", 0), -1)],
        ]
        check(case, [*epochs, [(1, (1, "b", 0), -1)]], shards_of(case, 1))


def test_work_is_that_of_the_epoch() -> None:
    """Whether a key has a partner is told by a few rows of it, not by all."""
    case = Case("left", 1, None, (True, True))
    job = shards_of(case, 1)
    many = [(1, (1, "a", n), 1) for n in range(500)]
    check(case, [many, [(0, (2, "a", 0), 1)], [(1, (1, "b", 0), 1)]], job)
    assert job.metrics[-1]["read_rows"] == 0
    case = Case("semi", 1, None, (True, True))
    job = shards_of(case, 1)
    check(case, [many, [(0, (1, "a", 0), 1)], [(1, (1, "b", 0), 1)]], job)
    assert [m["read_rows"] for m in job.metrics] == [0, 0, 0]


def test_key_values_that_are_equal_meet_and_columns_stay_as_they_came() -> None:
    """0.0 is -0.0 and NaN is NaN; what comes out is the row that came."""
    key, mine, theirs = Column("__key_1", DOUBLE), Column("x", DOUBLE), Column("y", DOUBLE)
    state = StateSchema(
        "s",
        "join",
        "test",
        tuple(
            StateTable.of(
                name,
                "key",
                key=[StateField(key.name, DOUBLE, "key")],
                sub_key=[StateField("$row", BLOB, "row")],
                value=[StateField("$count", BIGINT, "count"), StateField(column.name, DOUBLE, "value")],
            )
            for name, column in (("left", mine), ("right", theirs))
        ),
    )
    spec = JoinSpec(
        state,
        "inner",
        (key,),
        JoinSideSpec((mine,), ("",), False),
        JoinSideSpec((theirs,), ("",), False),
        None,
        (mine, theirs),
    )
    store = MemoryShardStore(state)
    operator = operator_of(spec)
    context = OperatorContext(0, 1, 128, Watermarks(), store, DUCK)
    lefts = table((key, mine), [(-0.0, -0.0), (float("nan"), float("nan"))])
    rights = table((key, theirs), [(0.0, 0.0), (float("nan"), float("nan"))])
    assert operator.process([lefts, rights.slice(0, 0)], context).output.num_rows == 0
    store.commit()
    output = operator.process([lefts.slice(0, 0), rights], context).output
    found = {str(row) for row in rows_of(output)}
    assert found == {"(-0.0, 0.0)", "('NaN', 'NaN')"}


def test_changes_where_rows_are_promised_to_stay() -> None:
    case = Case("inner", 1, None, (False, False))
    changing = replace(case, retracting=(True, False)).inputs([(0, (1, "a", 1), -1)])
    context = OperatorContext(0, 1, GROUPS, Watermarks(), MemoryShardStore(case.spec.state), DUCK)
    with pytest.raises(InternalError, match="append-only"):
        operator_of(case.spec).process(changing, context)


def test_specs_that_make_no_sense() -> None:
    spec = Case("inner", 1, None, (False, False)).spec
    with pytest.raises(ValueError, match="a join is one of"):
        replace(spec, type="outer")
    with pytest.raises(ValueError, match="each side says of every key"):
        replace(spec, left=replace(spec.left, keys=()))
    with pytest.raises(ValueError, match="two columns of a join have one name"):
        replace(spec, right=replace(spec.right, columns=LEFT))
    tables = (replace(spec.state.tables[0], sub_key=()), spec.state.tables[1])
    with pytest.raises(InternalError, match="has not the columns of the operator"):
        operator_of(replace(spec, state=replace(spec.state, tables=tables)))
