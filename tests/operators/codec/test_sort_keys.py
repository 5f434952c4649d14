"""The `sort` bytes of rows lie as an ORDER BY lists them, and digests tell rows apart."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.codec.sort_keys import (
    DIGEST_BYTES,
    digest_array,
    order_sql,
    row_digests,
    sort_keys,
    tie_sql,
)
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.top_n_spec import Ordering
from sqlstream_operators.plan.types import SqlType
from tests.examples import examples
from tests.operators.arrow_strategies import any_types, columns, scalar_types

DUCK = DuckSession()


@st.composite
def ordered_rows(draw: st.DrawFn) -> tuple[Schema, tuple[Ordering, ...], pa.Table]:
    n = draw(st.integers(0, 8))
    schema, order, arrays = [], [], []
    for number in range(draw(st.integers(0, 3))):
        type_ = draw(scalar_types().filter(lambda type_: type_ != t.JSON))  # what is drawn is no JSON
        schema.append(Column(f"c{number}", type_))
        order.append(Ordering(f"c{number}", draw(st.booleans()), draw(st.booleans())))
        pool = draw(columns(type_, 4))  # few values, so that later terms decide
        arrays.append(
            pool.take(pa.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), pa.int64()))
        )
    arrays.append(pa.array(range(n), pa.int64()))
    schema.append(Column("n", t.BIGINT))
    return tuple(schema), tuple(order), pa.Table.from_arrays(arrays, names=[c.name for c in schema])


@settings(max_examples=examples(37))
@given(ordered_rows())
def test_sort_bytes_are_in_the_order_of_duckdb(drawn: tuple[Schema, tuple[Ordering, ...], pa.Table]) -> None:
    schema, order, table = drawn
    keys = sort_keys(table, order, schema)
    assert keys.type == pa.binary()
    DUCK.reset()
    DUCK.register("t", table, schema)
    terms = ", ".join(order_sql(order)) or "NULL"
    ranks = DUCK.query(f"SELECT n, dense_rank() OVER (ORDER BY {terms}) AS r FROM t ORDER BY r, n")
    listed = keys.to_pylist()
    at = sorted(range(len(listed)), key=lambda i: (listed[i], i))
    assert at == ranks.column("n").to_pylist()
    distinct = sorted(set(listed))
    assert [distinct.index(listed[i]) + 1 for i in at] == ranks.column("r").to_pylist()
    assert not any(b.startswith(a) for a, b in itertools.pairwise(distinct))


@pytest.mark.parametrize("descending", [False, True])
def test_nested_values_and_nulls_are_ordered(descending: bool) -> None:
    values = [[], [1], [1, 2], [2]]
    keys = sort_keys(
        pa.table({"a": pa.array([*values, None], pa.list_(pa.int64()))}),
        [Ordering("a", descending, nulls_first=True)],
        (Column("a", t.array(t.BIGINT)),),
    ).to_pylist()
    expected = [4, 3, 2, 1, 0] if descending else [4, 0, 1, 2, 3]
    assert sorted(range(5), key=keys.__getitem__) == expected


def test_a_slice_of_a_table_has_the_keys_of_its_rows() -> None:
    table = pa.table({"a": ["x", "yy", None, "zzz"]})
    schema, order = (Column("a", t.VARCHAR),), [Ordering("a", descending=True)]
    whole = sort_keys(table, order, schema).to_pylist()
    assert sort_keys(table.slice(1, 2), order, schema).to_pylist() == whole[1:3]
    assert row_digests(table.slice(1, 2), schema) == row_digests(table, schema)[1:3]


def told_apart(type_: SqlType) -> bool:
    """What is drawn of JSON is none, and DuckDB refuses maps with a key twice."""
    return not any(kind in str(type_) for kind in ("JSON", "MAP"))


@settings(max_examples=examples(25))
@given(st.data())
def test_digests_are_equal_for_equal_rows_only(data: st.DataObject) -> None:
    types = data.draw(st.lists(any_types().filter(told_apart), min_size=1, max_size=3))
    schema = tuple(Column(f"c{i}", type_) for i, type_ in enumerate(types))
    table = pa.Table.from_arrays(
        [data.draw(columns(type_, 6)) for type_ in types], names=[c.name for c in schema]
    )
    digests = row_digests(table, schema)
    assert {len(digest) for digest in digests} == {DIGEST_BYTES}
    named = ", ".join(c.name for c in schema)
    DUCK.reset()
    DUCK.register("t", table.append_column("n", pa.array(range(6))), (*schema, Column("n", t.BIGINT)))
    groups = DUCK.query(f"SELECT dense_rank() OVER (ORDER BY {named}) AS g FROM t ORDER BY n")
    found = groups.column("g").to_pylist()
    for i, j in itertools.combinations(range(6), 2):
        assert (digests[i] == digests[j]) == (found[i] == found[j])


def test_digests_do_not_join_neighbours() -> None:
    schema = (Column("a", t.VARCHAR), Column("b", t.VARCHAR))
    table = pa.table({"a": ["x", "xy", "", None], "b": ["yz", "z", None, ""]})
    assert len(set(row_digests(table, schema))) == 4
    assert digest_array(row_digests(table, schema)).type == pa.binary()
    assert row_digests(table.slice(0, 0), schema) == []


def test_a_digest_is_for_ever() -> None:
    # It is in the state of running jobs.
    table = pa.table({"a": pa.array([7, None], pa.int64()), "b": ["x", "y"]})
    schema = (Column("a", t.BIGINT), Column("b", t.VARCHAR))
    assert [digest.hex() for digest in row_digests(table, schema)] == [
        "5a194b22a2638a6428c5537b3fdd0185",
        "3d208f3f9758eeb276ace960335dab6b",
    ]
    keys = sort_keys(table, [Ordering("a", descending=True), Ordering("b")], schema)
    assert [key.hex() for key in keys.to_pylist()] == [
        "017ffffffffffffff801780000",
        "02ffffffffffffffff01790000",
    ]


def test_sql_terms() -> None:
    order = (Ordering("a", descending=True), Ordering("b", nulls_first=True))
    schema = tuple(Column(name, t.BIGINT) for name in "pabc")
    assert order_sql(order) == ['"a" DESC NULLS LAST', '"b" ASC NULLS FIRST']
    assert tie_sql(order, schema, ("p",)) == ['"c" ASC NULLS FIRST']
    assert tie_sql((), schema, (), {"p": "x", "a": "y", "b": "z", "c": "w"})[0] == "x ASC NULLS FIRST"
