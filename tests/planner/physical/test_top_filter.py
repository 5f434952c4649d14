"""What is left out before a Top-N's exchange can't be wanted, whatever comes besides."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream_operators.plan.spec import FragmentStep
from sqlstream_operators.plan.types import BIGINT, DOUBLE, VARCHAR, SqlType
from sqlstream_planner.explain.plan import explain_text
from sqlstream_planner.logical import ColumnId, Field, OrderTerm
from sqlstream_planner.physical.top_filter import Keep
from tests.examples import examples

DUCK = duckdb.connect(config={"threads": 1})
small = st.sampled_from([None, -1, 0, 1, 2])


def fields(order: SqlType) -> tuple[Field, ...]:
    return (Field("k", "k", BIGINT), Field("v", "v", order), Field("w", "w", VARCHAR))


def rows_of(sql: str) -> Counter[tuple[Any, ...]]:
    return Counter(DUCK.sql(sql).fetchall())


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.tuples(small, small, st.sampled_from([None, "a", "b"])), max_size=20),
    st.sampled_from([(), ("k",), ("k", "w")]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from([BIGINT, VARCHAR, DOUBLE]),
)
def test_all_rows_that_can_be_wanted_stay(
    rows: list[tuple[Any, ...]],
    partition: tuple[str, ...],
    descending: bool,
    nulls_first: bool,
    limit: int,
    type_: SqlType,
) -> None:
    DUCK.execute(f"CREATE OR REPLACE TABLE t (k BIGINT, v {type_}, w VARCHAR)")
    if rows:
        DUCK.executemany("INSERT INTO t VALUES ($1, $2, $3)", rows)
    order = OrderTerm(ColumnId("v"), descending, nulls_first)
    keep = Keep(partition, (order,), fields(type_), limit)
    by = f"PARTITION BY {', '.join(partition)} " if partition else ""
    ties = "k ASC NULLS FIRST, v ASC NULLS FIRST, w ASC NULLS FIRST"
    wanted = rows_of(f"FROM t QUALIFY row_number() OVER ({by}ORDER BY {order.sql}, {ties}) <= {limit}")
    as_far = rows_of(f"FROM t QUALIFY rank() OVER ({by}ORDER BY {order.sql}) <= {limit}")
    found = rows_of(keep.sql("SELECT k, v, w FROM t"))
    assert wanted <= found <= rows_of("FROM t")
    more = OrderTerm(ColumnId("w"), not descending, nulls_first)
    exact = rows_of(
        f"FROM t QUALIFY row_number() OVER ({by}ORDER BY {order.sql}, {more.sql}, {ties}) <= {limit}"
    )
    assert rows_of(Keep(partition, (order, more), fields(type_), limit).sql("SELECT k, v, w FROM t")) == exact
    if None not in {row[1] for row in rows}:
        assert found <= as_far


@pytest.mark.parametrize("name", ["a", "b", "r", "l", "t"])
def test_a_table_may_have_any_name(name: str) -> None:
    DUCK.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT 1 AS k, 2 AS v, NULL AS w')
    keep = Keep(("k",), (OrderTerm(ColumnId("v"), True, False),), fields(BIGINT), 1)
    assert rows_of(keep.sql(f'SELECT k, v, w FROM "{name}"')) == Counter([(1, 2, None)])


def test_further_terms_and_other_types_are_left_to_the_window() -> None:
    one, two = OrderTerm(ColumnId("v"), True, False), OrderTerm(ColumnId("w"), False, False)
    assert "QUALIFY" not in Keep(("k",), (one,), fields(BIGINT), 2).sql("SELECT 1")
    both = Keep(("k",), (one, two), fields(BIGINT), 2).sql("SELECT 1")
    assert both.index("__split_last") < both.index("QUALIFY")
    for keep in (
        Keep(("k",), (one,), fields(DOUBLE), 2),
        Keep(("k",), (), fields(BIGINT), 2),
        Keep(("v",), (one,), fields(BIGINT), 2),
    ):
        assert "QUALIFY" in keep.sql("SELECT 1")
        assert "__split_last" not in keep.sql("SELECT 1")


TABLE = """
CREATE TABLE t (k INT, v BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE o WITH ('connector' = 'print') AS
SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) AS r FROM t) WHERE r <= {limit}
"""


@pytest.mark.parametrize(
    ("columns", "limit", "layout"), [("*", 100, "list"), ("k, r", 3, "list"), ("*", 101, "key")]
)
def test_a_short_list_is_one_value_and_what_is_told_apart_is_not_grouped_again(
    columns: str, limit: int, layout: str
) -> None:
    plan = plan_file(TABLE.format(columns=columns, limit=limit), file="t.sql").physical
    [state] = plan.states
    assert [table.layout for table in state.tables] == [layout]
    last = plan.stages[-1].steps[-1]
    assert isinstance(last, FragmentStep)
    assert ("GROUP BY" in last.sql) == (columns == "k, r")


def test_the_state_of_a_short_limit_is_bounded() -> None:
    text = explain_text(
        plan_file(TABLE.format(columns="*", limit=3).replace("PARTITION BY k ", ""), file="t.sql")
    )
    assert "table rows, by key, its rows as one value" in text
    assert "bounded by the limit" in text
    assert "bounded: one row" not in text


@pytest.mark.parametrize(
    "query",
    [
        "SELECT car.plate, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY car.plate ORDER BY v) = 1",
        "SELECT t.car.plate AS plate, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY car.plate ORDER BY v) = 1",
        "SELECT p, v FROM (SELECT car.plate AS p, v, ROW_NUMBER() OVER (PARTITION BY car.plate ORDER BY v) AS n FROM t) "
        "WHERE n = 1",
        "SELECT UPPER(s), v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY UPPER(s) ORDER BY v) = 1",
    ],
)
def test_what_rows_are_partitioned_by_is_the_key_also_where_it_is_computed(query: str) -> None:
    text = (
        "CREATE TABLE t (car ROW<plate STRING>, s STRING, v INT) "
        "WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        "CREATE TABLE o (plate STRING, v INT, PRIMARY KEY (plate) NOT ENFORCED) "
        f"WITH ('connector' = 'duckdb', 'path' = 'o.duckdb');\nINSERT INTO o {query};"
    )
    [sink] = plan_file(text, file="p.sql").physical.sinks
    assert sink.key == ("plate",)
