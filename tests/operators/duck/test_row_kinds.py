from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sqlstream_operators.duck.row_kinds import count_changes, to_kinds
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InternalError
from sqlstream_operators.plan.schema import KIND_COLUMN, WEIGHT_COLUMN, Column, Schema
from sqlstream_operators.plan.types import parse_type
from tests.examples import examples
from tests.numbered_times import without_nanoseconds
from tests.operators.arrow_strategies import any_types, columns

DUCK = DuckSession()
SCHEMA = (Column("v", parse_type("VARCHAR")), Column("k", parse_type("BIGINT")))


def changes(*rows: tuple[int, int | None, str | None]) -> pa.Table:
    """Rows of (weight, k, v)."""
    return pa.table(
        {
            "k": pa.array([k for _, k, _ in rows], pa.int64()),
            WEIGHT_COLUMN: pa.array([w for w, _, _ in rows], pa.int64()),
            "v": pa.array([v for _, _, v in rows], pa.string()),
        }
    )


def shown(table: pa.Table) -> list[tuple[str, int | None, str | None]]:
    return [(row[KIND_COLUMN], row["k"], row["v"]) for row in table.to_pylist()]


def test_an_update_is_two_rows_behind_one_another() -> None:
    table = changes((1, 3, "new"), (1, 1, "b"), (-1, None, "n"), (-1, 1, "a"), (-1, 2, "x"))
    made = to_kinds(table, ("k",), SCHEMA)
    assert made.column_names == ["v", "k", KIND_COLUMN]
    assert shown(made) == [
        ("-D", None, "n"),
        ("-U", 1, "a"),
        ("+U", 1, "b"),
        ("-D", 2, "x"),
        ("+I", 3, "new"),
    ]


@pytest.mark.parametrize("key", ["w", "kind", "comes", "k"])
def test_an_update_is_so_whatever_the_key_is_called(key: str) -> None:
    table = changes((1, 1, "b"), (-1, 1, "a"), (1, 2, "y"), (-1, 2, "x"))
    table = table.rename_columns([key, WEIGHT_COLUMN, "v"])
    made = to_kinds(table, (key,), (SCHEMA[0], Column(key, parse_type("BIGINT"))))
    assert [(row[KIND_COLUMN], row[key], row["v"]) for row in made.to_pylist()] == [
        ("-U", 1, "a"),
        ("+U", 1, "b"),
        ("-U", 2, "x"),
        ("+U", 2, "y"),
    ]


def test_without_a_key_deletes_stand_first_and_weights_are_repeated() -> None:
    table = changes((2, 1, "b"), (-2, 2, "x"), (-1, None, "n"), (1, None, None))
    assert shown(to_kinds(table, None, SCHEMA)) == [
        ("-D", None, "n"),
        ("-D", 2, "x"),
        ("-D", 2, "x"),
        ("+I", None, None),
        ("+I", 1, "b"),
        ("+I", 1, "b"),
    ]


def test_a_key_that_is_none_still_loses_nothing() -> None:
    table = changes((1, 1, "b"), (-2, 1, "a"), (1, 2, "c"), (1, 2, "d"))
    assert shown(to_kinds(table, ("k",), SCHEMA)) == [
        ("-D", 1, "a"),
        ("-D", 1, "a"),
        ("+I", 1, "b"),
        ("+I", 2, "c"),
        ("+I", 2, "d"),
    ]


def test_rows_without_weights_come_in_their_order() -> None:
    table = changes((1, 2, "b"), (1, 1, "a")).drop_columns([WEIGHT_COLUMN])
    assert shown(to_kinds(table, ("k",), SCHEMA)) == [("+I", 2, "b"), ("+I", 1, "a")]
    assert count_changes(table) == 2


def test_no_rows() -> None:
    made = to_kinds(changes(), ("k",), SCHEMA)
    assert made.schema.field(KIND_COLUMN).type == pa.string()
    assert made.num_rows == count_changes(changes()) == 0


@pytest.mark.parametrize("weight", [0, None])
def test_a_weight_of_nothing_is_our_bug(weight: int) -> None:
    with pytest.raises(InternalError, match="weight"):
        to_kinds(changes((weight, 1, "a")), None, SCHEMA)


@st.composite
def typed(draw: st.DrawFn) -> tuple[pa.Table, Schema]:
    """Any rows of any types with weights; the column `n` tells rows apart."""
    types = draw(st.lists(any_types(), max_size=3))
    count = draw(st.integers(1, 8))
    schema = [Column(f"c{i}", type_) for i, type_ in enumerate(types)]
    arrays = [draw(columns(type_, count)) for type_ in types]
    weights = draw(st.lists(st.sampled_from([-3, -1, 1, 2]), min_size=count, max_size=count))
    table = pa.table(
        [*arrays, pa.array(range(count)), pa.array(weights)],
        names=[*(c.name for c in schema), "n", WEIGHT_COLUMN],
    )
    try:
        DUCK.query("SELECT * FROM t", {"t": table})
    except DataError:  # it refuses a map with a key twice
        assume(False)
    return table, (*schema, Column("n", parse_type("INTEGER")))


def pairs(table: pa.Table, sign: str) -> Counter[str]:
    data = without_nanoseconds(table).to_pylist()
    return Counter(repr({**row, KIND_COLUMN: None}) for row in data if row[KIND_COLUMN][0] == sign)


@settings(max_examples=examples(25))
@given(typed(), st.data())
def test_rows_are_repeated_as_they_are(drawn: tuple[pa.Table, Schema], data: st.DataObject) -> None:
    table, schema = drawn
    names = st.sampled_from([c.name for c in schema])
    key = data.draw(st.none() | st.lists(names, unique=True).map(tuple))
    made = to_kinds(table, key, schema)
    expected: dict[str, Counter[str]] = {"+": Counter(), "-": Counter()}
    for row in without_nanoseconds(table).to_pylist():
        weight = row.pop(WEIGHT_COLUMN)
        expected["+" if weight > 0 else "-"][repr({**row, KIND_COLUMN: None})] += abs(weight)
    assert {sign: pairs(made, sign) for sign in "+-"} == expected
    assert [made.schema.field(c.name).type for c in schema] == [
        table.schema.field(c.name).type for c in schema
    ]
    assert made.num_rows == count_changes(table)
    kinds = made[KIND_COLUMN].to_pylist()
    if key is None:
        assert set(kinds) <= {"-D", "+I"}
        assert kinds == sorted(kinds, reverse=True)
    for at, kind in enumerate(kinds):
        if kind == "-U":
            assert kinds[at + 1] == "+U"
        if kind == "+U":
            assert kinds[at - 1] == "-U"


@settings(max_examples=examples(12))
@given(typed(), st.randoms())
def test_the_order_depends_on_the_rows_alone(drawn: tuple[pa.Table, Schema], chance: Any) -> None:
    table, schema = drawn
    shuffled = list(range(table.num_rows))
    chance.shuffle(shuffled)
    again = table.take(pa.array(shuffled))
    for key in ((), ("n",), tuple(c.name for c in schema)):
        one, other = (without_nanoseconds(to_kinds(rows, key, schema)) for rows in (again, table))
        assert repr(one.to_pylist()) == repr(other.to_pylist())


@settings(max_examples=examples(20))
@given(st.dictionaries(st.integers(0, 5), st.sampled_from(["a", "b", "c"])), st.data())
def test_updates_of_a_keyed_table(before: dict[int, str], data: st.DataObject) -> None:
    after = data.draw(st.dictionaries(st.integers(0, 5), st.sampled_from(["a", "b", "c"])))
    gone = [(-1, k, v) for k, v in before.items() if after.get(k) != v]
    new = [(1, k, v) for k, v in after.items() if before.get(k) != v]
    table = changes(*data.draw(st.permutations(gone + new)))
    expected: list[tuple[str, int | None, str | None]] = []
    for k in sorted(before.keys() | after.keys()):
        if before.get(k) == after.get(k):
            continue
        if k in before:
            expected.append(("-U" if k in after else "-D", k, before[k]))
        if k in after:
            expected.append(("+U" if k in before else "+I", k, after[k]))
    assert shown(to_kinds(table, ("k",), SCHEMA)) == expected


def test_one_row_that_changes_is_an_update() -> None:
    assert shown(to_kinds(changes((-1, 1, "a"), (1, 2, "b")), (), SCHEMA)) == [("-U", 1, "a"), ("+U", 2, "b")]
