"""Files that can have no value in common are told apart by what a table's log says of them, and no others are."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyiceberg")

from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_text_string

from sqlstream.connectors.iceberg.source.bounds import may_share
from tests.examples import examples

_CUT = 3
_TEXTS = st.text(st.sampled_from("ab\u00e9\uffff\U0001f600"), max_size=6)


def described(
    columns: Sequence[Sequence[Any]], types: Sequence[PrimitiveType], *, nulls: bool = True
) -> DataFile:
    """A file with these values of the fields 1, 2 …, as writers describe it: texts are cut."""
    lower, upper, counts = {}, {}, {}
    for id_, (values, type_) in enumerate(zip(columns, types, strict=True), 1):
        present = [value for value in values if value is not None]
        counts[id_] = len(values) - len(present)
        if not present:
            continue
        low, high = min(present), max(present)
        if isinstance(type_, StringType):
            low, high = low[:_CUT], truncate_upper_bound_text_string(high, _CUT)
        lower[id_] = to_bytes(type_, low)
        if high is not None:
            upper[id_] = to_bytes(type_, high)
    more = {"null_value_counts": counts} if nulls else {}
    return DataFile.from_args(3, lower_bounds=lower, upper_bounds=upper, **more)


@given(data=st.data())
@settings(max_examples=examples(60))
def test_files_with_a_row_in_common_are_not_told_apart(data: st.DataObject) -> None:
    types = [LongType(), StringType()]
    rows = st.lists(st.tuples(st.none() | st.integers(-3, 3), st.none() | _TEXTS), min_size=1, max_size=3)
    one, other = data.draw(rows), data.draw(rows)
    files = [
        described([*zip(*drawn, strict=True)], types, nulls=data.draw(st.booleans()))
        for drawn in (one, other)
    ]
    if {*one} & {*other}:
        assert may_share([(1, types[0]), (2, types[1])], *files)


@pytest.mark.parametrize(
    ("type_", "one", "other", "shared"),
    [
        (LongType(), [1, 5], [6, 9], False),
        (LongType(), [1, 5], [5, 9], True),
        (LongType(), [1, None], [6, None], True),
        (LongType(), [1, 5], [6, None], False),
        (IntegerType(), [1], [2], False),
        (StringType(), ["aaaa"], ["aaab"], True),
        (StringType(), ["a"], ["b"], False),
        (DecimalType(10, 2), [Decimal("-300.00")], [Decimal("2.00")], False),
        (DateType(), [datetime.date(2020, 1, 1)], [datetime.date(2020, 1, 2)], False),
        (TimestampType(), [datetime.datetime(2020, 1, 1)], [datetime.datetime(2020, 1, 2)], False),
        (DoubleType(), [1.0], [2.0], True),
    ],
)
def test_one_column(type_: PrimitiveType, one: list[Any], other: list[Any], shared: bool) -> None:
    files = [described([one], [type_]), described([other], [type_])]
    assert may_share([(1, type_)], *files) == shared
    assert may_share([(1, type_)], *files[::-1]) == shared


def test_what_is_not_said_may_be_anything() -> None:
    file = described([[1]], [LongType()])
    assert may_share([(1, LongType())], file, DataFile.from_args(3))
    assert may_share([(1, LongType())], file, described([[2]], [LongType()], nulls=False)) is False
    unsaid = described([[2]], [LongType()], nulls=False)
    assert may_share([(1, LongType())], unsaid, unsaid)


def test_bounds_of_a_former_type_are_not_compared() -> None:
    """A date that became a timestamp counts days, and has four bytes."""
    days = described([[datetime.date(1970, 1, 3)]], [DateType()])
    moment = described([[datetime.datetime(2020, 1, 1)]], [TimestampType()])
    assert may_share([(1, TimestampType())], days, moment)
    later = described([[datetime.date(1970, 1, 4)]], [DateType()])
    for type_ in (DateType(), TimestampType()):
        assert not may_share([(1, type_)], days, later), "as it was before the type changed"
    whole = described([[1]], [IntegerType()])
    assert not may_share([(1, LongType())], whole, described([[2]], [LongType()])), (
        "four bytes are an INT that grew"
    )
