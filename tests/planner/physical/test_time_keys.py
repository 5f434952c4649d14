"""Grouping by a time instead of its text: the same groups, under the same names."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
import sqlglot
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from sqlstream_planner.physical.time_keys import text_of, time_of
from tests.duckdb_batch import empty_duckdb
from tests.examples import examples

_NEAR = datetime(1999, 12, 31, 23, 58)
_TIMES = st.one_of(
    st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),
    st.timedeltas(timedelta(0), timedelta(minutes=5)).map(lambda d: _NEAR + d),
)
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%Y%m%d", "%H h, %Y/%m/%d", "%Y-%m-%d %H:%M", "%M:%H %d %m %Y")


def parsed(text: str) -> exp.Expr:
    return sqlglot.parse_one(text, read="duckdb")


@settings(max_examples=examples(25))
@given(st.lists(st.none() | _TIMES, min_size=1, max_size=12), st.sampled_from(_FORMATS))
@example([datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), None], "%Y-%m-%d %H:%M")
def test_the_same_groups(times: list[datetime | None], layout: str) -> None:
    key = parsed(f"STRFTIME(ts, '{layout}')")
    time, found = time_of(key)
    assert found is not None
    shown = text_of(time, found).sql("duckdb")
    with empty_duckdb() as con:
        con.execute("CREATE TABLE t AS SELECT unnest($1::TIMESTAMP[]) AS ts", [times])
        before = con.sql(f"SELECT {key.sql('duckdb')}, count(*) FROM t GROUP BY 1 ORDER BY 1").fetchall()
        by = time.sql("duckdb")
        after = con.sql(f"SELECT {shown}, count(*) FROM t GROUP BY {by} ORDER BY 1").fetchall()
    assert after == before


@pytest.mark.parametrize(
    "text",
    [
        "ts",
        "upper(s)",
        "STRFTIME(ts, '%Y-%m')",
        "STRFTIME(ts, '%m-%d')",
        "STRFTIME(ts, '%H:%M')",
        "STRFTIME(ts, '%Y-%m-%d %M')",
        "STRFTIME(ts, '%y-%m-%d')",
        "STRFTIME(ts, '%Y-%-m-%-d')",
        "STRFTIME(ts, '%Y-%m-%d %S')",
        "STRFTIME(ts, '%Y-%m-%d %d')",
        "STRFTIME(ts, f)",
    ],
)
def test_other_keys_stay(text: str) -> None:
    key = parsed(text)
    assert time_of(key) == (key, None)
