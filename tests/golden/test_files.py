from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.golden.files import decode, encode
from sqlstream.golden.rows import Row, Rows
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import VARCHAR
from sqlstream_planner.diagnostics import DiagnosticError

TEXT = st.text(st.sampled_from("ab ,\"'\n\r\té\x00"), max_size=6)


@st.composite
def tables(draw: st.DrawFn) -> Rows:
    names = draw(st.lists(TEXT, min_size=1, max_size=4, unique=True))
    row = st.tuples(*[st.none() | TEXT for _ in names])
    return Rows(tuple(Column(name, VARCHAR) for name in names), draw(st.lists(row, max_size=6)))


@given(tables())
def test_what_is_written_is_read_back(rows: Rows) -> None:
    assert list(decode(encode(rows), rows.schema, "f").rows) == list(rows.rows)


@given(tables(), st.randoms(use_true_random=False))
def test_columns_may_come_in_any_order(rows: Rows, random: object) -> None:
    order = list(range(len(rows.schema)))[::-1]
    turned = tuple(rows.schema[i] for i in order)
    expected: list[Row] = [tuple(row[i] for i in order) for row in rows.rows]
    assert list(decode(encode(rows), turned, "f").rows) == expected


def test_null_and_the_empty_string_are_apart() -> None:
    schema = (Column("a", VARCHAR), Column("b", VARCHAR))
    assert encode(Rows(schema, [(None, "")])) == 'a,b\n,""\n'
    assert encode(Rows(schema[:1], [(None,), ("",)])) == 'a\n\n""\n'


def test_windows_line_ends() -> None:
    schema = (Column("a", VARCHAR), Column("b", VARCHAR))
    assert decode('a,b\r\n1,"x"\r\n,2\r\n', schema, "f").rows == [("1", "x"), (None, "2")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no header"),
        ("a,c\n", "the sink's are a, b"),
        ("a,b\n1\n", "1 fields, but 2 columns"),
        ('a,b\n1,"x\n', "never closed"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(text: str, message: str) -> None:
    schema = (Column("a", VARCHAR), Column("b", VARCHAR))
    with pytest.raises(DiagnosticError, match=message) as raised:
        decode(text, schema, "golden.csv")
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.code == "GLD004"
    assert diagnostic.span is not None
    assert diagnostic.span.file == "golden.csv"
