from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.golden.compare import CANCELLED, compare
from sqlstream.golden.rows import Row, Rows, rows_of
from sqlstream.golden.show import counts, difference_lines
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import (
    BIGINT,
    DOUBLE,
    FLOAT,
    JSON,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    array,
    decimal,
    struct,
)

SCHEMA = (Column("k", VARCHAR), Column("n", BIGINT))
MIXED = struct(("d", decimal(20, 10)), ("n", BIGINT), ("f", FLOAT), ("x", DOUBLE))
CELLS = st.tuples(st.none() | st.sampled_from(["", "a", "b"]), st.none() | st.sampled_from(["1", "2"]))


@given(st.lists(CELLS, max_size=12), st.lists(CELLS, max_size=12))
def test_the_difference_is_that_of_multisets(expected: list[Row], actual: list[Row]) -> None:
    found = compare(Rows(SCHEMA, expected), Rows(SCHEMA, actual))
    missing = Counter(found.missing) + Counter(old for old, _ in found.changed)
    extra = Counter(found.extra) + Counter(new for _, new in found.changed)
    assert missing == Counter(expected) - Counter(actual)
    assert extra == Counter(actual) - Counter(expected)


FLOATS = st.floats(min_value=-1e6, max_value=1e6).map(lambda x: round(x, 3))


@given(st.lists(st.tuples(st.sampled_from("ab"), FLOATS | st.just(float("nan"))), max_size=20), st.integers())
def test_order_and_last_digits_make_no_difference(rows: list[tuple[str, float]], seed: int) -> None:
    schema = (Column("k", VARCHAR), Column("x", DOUBLE))
    expected: list[Row] = [(k, repr(x)) for k, x in rows]
    actual: list[Row] = [(k, repr(x * (1 + 3e-10))) for k, x in rows]
    random.Random(seed).shuffle(actual)
    assert not compare(Rows(schema, expected), Rows(schema, actual))


@given(st.floats(min_value=0.01, max_value=1e6))
def test_a_float_that_differs_is_a_changed_row(value: float) -> None:
    schema = (Column("k", VARCHAR), Column("x", DOUBLE))
    found = compare(
        Rows(schema, [("a", repr(value)), ("b", "1.0")]),
        Rows(schema, [("a", repr(value * 1.001)), ("b", "1.0")]),
    )
    assert found.changed == [(("a", repr(value)), ("a", repr(value * 1.001)))]
    assert counts(found) == "1 changed"


@pytest.mark.parametrize(
    ("type_", "one", "other", "same"),
    [
        (decimal(10, 2), "1.50", "1.5", True),
        (
            decimal(38, 0),
            "99999999999999999999999999999999999999",
            "99999999999999999999999999999999999998",
            False,
        ),
        (TIMESTAMP, "2024-01-01T00:00:00.100", "2024-01-01 00:00:00.1", True),
        (TIMESTAMP, "2024-01-01 00:00:00.1", "2024-01-01 00:00:00", False),
        (VARCHAR, "1.50", "1.5", False),
        (VARCHAR, "", None, False),
        (DOUBLE, "nan", "nan", True),
        (DOUBLE, "inf", "-inf", False),
        (DOUBLE, "1.0", "1.0000000009", True),
        (DOUBLE, "1.0", "1.000000002", False),
        # A FLOAT has 24 bits: its neighbours agree, what differs in the sixth decimal does not.
        (FLOAT, "1.0", "1.0000001", True),
        (FLOAT, "1.0", "1.0000002", True),
        (FLOAT, "1.0", "1.0000004", False),
        (FLOAT, "1.0", "1.000001", False),
        (FLOAT, "-1.0", "-1.000001", False),
        (FLOAT, "0.0", "0.000001", False),
        (FLOAT, "16777216", "16777218", True),
        (FLOAT, "16777216", "16777226", False),
        (array(FLOAT), "[1.0]", "[1.000001]", False),
        (DOUBLE, "0.0", "-0.0", True),
        (DOUBLE, None, "0.0", False),
        (array(DOUBLE), "[0.30000000000000004,null]", "[0.3,null]", True),
        (array(DOUBLE), "[0.3,null]", "[null,0.3]", False),
        (struct(("a", BIGINT), ("b", VARCHAR)), '{"a":1,"b":"x"}', '{"b":"x","a":1}', True),
        (array(BIGINT), "[9007199254740993]", "[9007199254740992]", False),
        # Only what is a float within a value is near.
        (MIXED, '{"d":1.0000000001,"n":1,"f":2.0,"x":1.0}', '{"d":1.0,"n":1,"f":2.0,"x":1.0}', False),
        (MIXED, '{"d":1,"n":10000000001,"f":2.0,"x":1.0}', '{"d":1,"n":10000000000,"f":2.0,"x":1.0}', False),
        (MIXED, '{"d":1,"n":1,"f":2.0000002,"x":1.0}', '{"d":1.0,"n":1,"f":2.0,"x":1.0000000001}', True),
        (MIXED, '{"d":1,"n":1,"f":2.0,"x":1.0000001}', '{"d":1,"n":1,"f":2.0,"x":1.0}', False),
        (array(MIXED), '[{"d":1.0000000001}]', '[{"d":1.0}]', False),
        # What is small is no zero.
        (DOUBLE, "1.6e-19", "9.1e-31", False),
        (DOUBLE, "1.6e-19", "0.0", False),
        (DOUBLE, "1.6e-19", "1.6000000001e-19", True),
        (DOUBLE, "1.6e-19", "-1.6e-19", False),
        (array(DOUBLE), "[1.6e-19]", "[0.0]", False),
        (JSON, '{"a":1.5}', '{"a":"1.5"}', False),
    ],
)
def test_equality_by_type(type_: SqlType, one: str | None, other: str | None, same: bool) -> None:
    schema = (Column("v", type_),)
    assert bool(compare(Rows(schema, [(one,)]), Rows(schema, [(other,)]))) is not same


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("5.5e-17", "0.0", True),
        ("5.5e-17", "-2.7e-17", True),
        ("5.5e-12", "0.0", False),
        ("1.6e-19", "9.1e-31", False),
    ],
)
def test_of_what_cancels_out_something_may_be_left_in_golden_files(one: str, other: str, same: bool) -> None:
    schema = (Column("v", DOUBLE),)
    assert bool(compare(Rows(schema, [(one,)]), Rows(schema, [(other,)]), cancelled=CANCELLED)) is not same


def test_cells_are_written_by_duckdb_and_rows_sorted() -> None:
    schema = (
        Column("n", BIGINT),
        Column("d", decimal(10, 2)),
        Column("t", TIMESTAMP),
        Column("a", array(BIGINT)),
        Column("s", VARCHAR),
    )
    query = """
        SELECT * FROM (VALUES
          (10, 1.5, TIMESTAMP '1969-12-31 23:59:59.5', [1, NULL], ''),
          (9, NULL, NULL, NULL, NULL),
          (NULL, 2, TIMESTAMP '2024-01-01', [], 'x'))"""
    assert rows_of(DuckSession(), query, schema).rows == [
        (None, "2.00", "2024-01-01 00:00:00", "[]", "x"),
        ("9", None, None, None, None),
        ("10", "1.50", "1969-12-31 23:59:59.5", "[1,null]", ""),
    ]


def test_a_difference_is_shown_as_a_table() -> None:
    expected = Rows(SCHEMA, [("a", "1"), ("b", "2"), ("longer name", "300")])
    actual = Rows(SCHEMA, [("a", "1"), ("b", "7"), (None, "5")])
    found = compare(expected, actual)
    assert difference_lines(found, SCHEMA, limit=5) == [
        "1 missing: DuckDB has it, the pipeline does not",
        "    k              n",
        "  - longer name  300",
        "1 extra: the pipeline has it, DuckDB does not",
        "    k     n",
        "  + NULL  5",
        "1 changed: DuckDB's value → the pipeline's",
        "    k      n",
        "  ~ b  2 → 7",
    ]
    assert difference_lines(found, SCHEMA, limit=1) == difference_lines(found, SCHEMA, limit=5)


def test_values_that_look_alike_are_told_apart() -> None:
    """Blanks at an end, an empty text, the text NULL, and long texts that differ where they would be cut."""
    columns = (Column("k", VARCHAR), Column("v", VARCHAR))
    pairs = [("a", "a "), ("", "NULL"), ("x" * 60 + "old", "x" * 60 + "new")]
    found = [
        difference_lines(
            compare(Rows(columns, [("k", old), ("l", "same")]), Rows(columns, [("k", new), ("l", "same")])),
            columns,
            limit=5,
        )[-1]
        for old, new in pairs
    ]
    assert [line.split("k  ")[1] for line in found] == [
        'a → "a "',
        '"" → "NULL"',
        "…xxxxxxxxxxold → …xxxxxxxxxxnew",
    ]
