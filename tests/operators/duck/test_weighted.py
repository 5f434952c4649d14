"""Adding up weights, and taking rows back."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.duck.weighted import chosen, concatenated, consolidated, empty, negated, with_weight
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column
from sqlstream_operators.plan.types import BIGINT, VARCHAR

DUCK = DuckSession()
SCHEMA = (Column("a b", BIGINT), Column("s", VARCHAR))
Row = tuple[int | None, str | None, int]


def table(rows: list[Row]) -> pa.Table:
    return pa.table(
        {
            "a b": pa.array([a for a, _, _ in rows], pa.int64()),
            "s": pa.array([s for _, s, _ in rows], pa.string()),
            WEIGHT_COLUMN: pa.array([w for _, _, w in rows], pa.int64()),
        }
    )


def rows_of(made: pa.Table) -> list[Row]:
    return [(row["a b"], row["s"], row[WEIGHT_COLUMN]) for row in made.to_pylist()]


@given(
    st.lists(
        st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, "", "x"]), st.integers(-2, 2)),
        max_size=8,
    )
)
def test_equal_rows_are_one_with_the_sum_of_their_weights(rows: list[Row]) -> None:
    expected: Counter[tuple[int | None, str | None]] = Counter()
    for a, s, weight in rows:
        expected[a, s] += weight
    made = consolidated(DUCK, table(rows), SCHEMA)
    found = rows_of(made)
    assert len({row[:2] for row in found}) == len(found)
    assert {row[:2]: row[2] for row in found} == {row: n for row, n in expected.items() if n}
    assert made.schema == empty(with_weight(SCHEMA)).schema


def test_rows_without_columns_are_counted() -> None:
    weights = pa.table({WEIGHT_COLUMN: pa.array([1, 3, -2], pa.int64())})
    assert consolidated(DUCK, weights, ()).to_pylist() == [{WEIGHT_COLUMN: 2}]
    assert consolidated(DUCK, weights.slice(1).slice(0, 0), ()).num_rows == 0
    none = pa.table({WEIGHT_COLUMN: pa.array([1, -1], pa.int64())})
    assert consolidated(DUCK, none, ()).num_rows == 0


def test_the_session_is_left_as_it_was() -> None:
    consolidated(DUCK, table([(1, "x", 1)]), SCHEMA)
    with pytest.raises(Exception, match="__weighted"):
        DUCK.query("SELECT * FROM __weighted")


def test_what_is_negated_takes_back_what_was_given() -> None:
    rows = table([(1, "x", 2), (None, None, -1)])
    assert rows_of(negated(rows)) == [(1, "x", -2), (None, None, 1)]
    assert negated(rows).schema == rows.schema
    with pytest.raises(pa.ArrowInvalid):
        negated(table([(1, "x", -(2**63))]))


def test_pieces_of_a_table() -> None:
    one, two, none = table([(1, "x", 1)]), table([(2, "y", 1), (3, "z", 1)]), table([])
    assert rows_of(concatenated([none, one, none, two])) == [*rows_of(one), *rows_of(two)]
    assert concatenated([none, none]) == none
    at = np.array([1, 1, 0])
    assert chosen(two, ["s"], at).to_pydict() == {"s": ["z", "z", "y"]}
    assert (chosen(two, [], at).num_rows, chosen(two, [], at).num_columns) == (3, 0)
