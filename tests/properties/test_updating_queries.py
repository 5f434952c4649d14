"""The prefix invariant for updating queries: after every epoch what was emitted folds to DuckDB's answer."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties.query_generator import queries, rows
from tests.properties.referee import assert_same
from tests.properties.updating import batch, check, plan
from tests.properties.verbatim import COLUMNS, verbatim

_BOUNDED = settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

ROWS: list[dict[str, Any]] = [
    {
        "k": k,
        "v": v,
        "s": s,
        "b": b,
        "d": f"{v or 0}.50",
        "x": (v or 0) / 2,
        "ts": f"2024-01-{1 + n % 2:02d} 00:{n // 4:02d}:{n:02d}",
    }
    for n, (k, v, s, b) in enumerate(
        [
            (1, 10, "a", True),
            (1, 20, "b", False),
            (2, None, "a", True),
            (None, 10, "b", None),
            (1, 10, "a", True),
            (3, 7, None, False),
            (2, 20, "c", True),
            (2, 5, "a", False),
            (None, None, None, None),
            (1, 30, "a", True),
            (3, 7, "b", True),
            (2, 20, "c", True),
        ]
    )
]

QUERIES = {
    "count by key": "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
    "global": "SELECT COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, AVG(d) AS a FROM t",
    "global of nothing": "SELECT COUNT(*) AS n, SUM(v) AS s FROM t WHERE k > 1000",
    "having": "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) BETWEEN 2 AND 3",
    "rollup": "SELECT k, s, COUNT(*) AS n, GROUPING(k, s) AS g FROM t GROUP BY ROLLUP (k, s)",
    "distinct": "SELECT DISTINCT k, s FROM t",
    "count of counts": "SELECT n, COUNT(*) AS groups FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS "
    "c GROUP BY n",
    "avg of max": "SELECT AVG(hi) AS a, STDDEV_POP(hi) AS s FROM (SELECT k, MAX(v) AS hi FROM t "
    "GROUP BY k) AS c",
    "min and max of sums": "SELECT MIN(n) AS lo, MAX(n) AS hi FROM (SELECT k, SUM(v) AS n FROM t GROUP BY k) "
    "AS c",
    "distinct aggregates": "SELECT b, COUNT(DISTINCT k) AS a, COUNT(DISTINCT k) FILTER (WHERE v > 9) AS c, "
    "SUM(DISTINCT v) AS d, COUNT(DISTINCT s) AS e, LISTAGG(DISTINCT s) AS f FROM t GROUP BY b",
    "distinct of changes": "SELECT COUNT(DISTINCT n) AS d FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) "
    "AS c",
    "doubles": "SELECT k, SUM(x) AS s, AVG(x) AS a, VAR_SAMP(x) AS w, MEDIAN(x) AS m FROM t GROUP BY k",
    "doubles of changes": "SELECT SUM(x) AS s, AVG(x) AS a FROM (SELECT k, SUM(x) AS x FROM t GROUP BY k) "
    "AS c",
    "first and last": "SELECT s, FIRST_VALUE(v) AS f, LAST_VALUE(v) AS l, MAX_BY(k, v) AS m FROM t "
    "GROUP BY s",
    "arrays": "SELECT s, ARRAY_AGG(v) AS a, ARRAY_AGG(k ORDER BY v DESC) AS o, "
    "STRING_AGG(CAST(k AS STRING), '-') AS t FROM t GROUP BY s",
    "top 2": "SELECT k, v, s FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v "
    "DESC) AS rn FROM t) AS r WHERE rn <= 2",
    "top with rank": "SELECT k, v, rn FROM (SELECT *, RANK() OVER (PARTITION BY k ORDER BY v) AS rn "
    "FROM t) AS r WHERE rn <= 2",
    "dense rank": "SELECT k, v, rn FROM (SELECT *, DENSE_RANK() OVER (ORDER BY v NULLS FIRST) AS rn "
    "FROM t) AS r WHERE rn < 3",
    "qualify": "SELECT k, v, ts FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1",
    "dedup first": "SELECT k, v, s, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k, s ORDER BY "
    "ts) AS rn FROM t) AS r WHERE rn = 1",
    "top of counts": "SELECT s, n, rn FROM (SELECT s, n, ROW_NUMBER() OVER (ORDER BY n DESC) AS rn FROM "
    "(SELECT s, COUNT(*) AS n FROM t GROUP BY s) AS c) AS r WHERE rn <= 2",
    "count of top": "SELECT k, COUNT(*) AS n, SUM(v) AS t FROM (SELECT *, ROW_NUMBER() OVER "
    "(PARTITION BY k ORDER BY v DESC) AS rn "
    "FROM t) AS r WHERE rn <= 2 GROUP BY k",
    "limit": "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 3 OFFSET 1",
    "limit of groups": "SELECT k, SUM(v) AS total FROM t GROUP BY k ORDER BY total DESC LIMIT 2",
    "limit by what is not shown": "SELECT k FROM t ORDER BY v + 1 LIMIT 3",
    "union": "SELECT k FROM t WHERE b UNION SELECT v FROM t",
    "intersect": "SELECT k FROM t INTERSECT SELECT k FROM t WHERE NOT b",
    "intersect all": "SELECT k FROM t INTERSECT ALL SELECT k FROM t WHERE b",
    "except": "SELECT k, s FROM t EXCEPT SELECT k, s FROM t WHERE b",
    "except all": "SELECT k FROM t EXCEPT ALL SELECT k FROM t WHERE v > 8",
    "union all of changes": "SELECT k, COUNT(*) AS n FROM t GROUP BY k UNION ALL SELECT v, MAX(k) FROM t "
    "GROUP BY v",
    "booleans": "SELECT k, BOOL_AND(b) AS a, BOOL_OR(b) AS o, BIT_XOR(v) AS x, COUNT_IF(b) AS c "
    "FROM t GROUP BY k",
    "booleans of changes": "SELECT BOOL_AND(n > 1) AS a, BOOL_OR(n > 2) AS o, BIT_XOR(n) AS x FROM "
    "(SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS c",
    "texts of times": "SELECT DATE_FORMAT(ts, 'yyyy-MM-dd') AS day, b, COUNT(*) AS n, COUNT(DISTINCT k) AS d "
    "FROM t GROUP BY DATE_FORMAT(ts, 'yyyy-MM-dd'), b",
    "texts of times in sets": "SELECT DATE_FORMAT(ts, 'dd.MM.yyyy HH:mm') AS m, s, SUM(v) AS n FROM t GROUP BY "
    "GROUPING SETS ((DATE_FORMAT(ts, 'dd.MM.yyyy HH:mm')), (s), ())",
    "texts of times of two branches": "SELECT day, COUNT(DISTINCT k) AS n FROM (SELECT DATE_FORMAT(ts, "
    "'yyyyMMdd') AS day, k FROM t WHERE b UNION ALL SELECT DATE_FORMAT(ts, 'dd.MM.yyyy'), v FROM t) AS u GROUP BY day",
    "a part of what is grouped": "SELECT n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS c",
    "keys by position": "SELECT COUNT(*) AS n, k + 1 AS k, s FROM t GROUP BY 2, 3",
    "names that changed places": "SELECT k AS v, v AS k, COUNT(*) AS n FROM t GROUP BY k, v",
    "a name of its own argument": "SELECT k + 1 AS k, COUNT(*) AS n FROM t GROUP BY k",
    "a query called as its table": "WITH t AS (SELECT k, v FROM t WHERE b) SELECT k, COUNT(*) AS n FROM t GROUP BY k",
    "which set operation is first": "SELECT k FROM t UNION SELECT v FROM t INTERSECT SELECT k FROM t WHERE b",
    "set operations from the left": "SELECT k FROM t EXCEPT SELECT v FROM t UNION ALL SELECT k FROM t",
    "text keys": "SELECT upper(s) AS u, MIN(d) AS lo, SUM(d) AS total, COUNT(DISTINCT d) AS n FROM "
    "t GROUP BY upper(s)",
}


#: What DuckDB is asked where it spells a query otherwise, or leaves an order open that here is that of the values.
TO_DUCKDB = {
    "distinct aggregates": [("LISTAGG(DISTINCT s)", "LISTAGG(DISTINCT s ORDER BY s)")],
    "first and last": [
        ("FIRST_VALUE(v)", "first(v ORDER BY ts) FILTER (v IS NOT NULL)"),
        ("LAST_VALUE(v)", "last(v ORDER BY ts) FILTER (v IS NOT NULL)"),
    ],
    "arrays": [
        ("ARRAY_AGG(v)", "ARRAY_AGG(v ORDER BY v)"),
        ("CAST(k AS STRING), '-'", "CAST(k AS STRING), '-' ORDER BY k"),
    ],
    "texts of times": [("DATE_FORMAT(ts, 'yyyy-MM-dd')", "strftime(ts, '%Y-%m-%d')")],
    "texts of times in sets": [("DATE_FORMAT(ts, 'dd.MM.yyyy HH:mm')", "strftime(ts, '%d.%m.%Y %H:%M')")],
    "texts of times of two branches": [
        ("DATE_FORMAT(ts, 'yyyyMMdd')", "strftime(ts, '%Y%m%d')"),
        ("DATE_FORMAT(ts, 'dd.MM.yyyy')", "strftime(ts, '%d.%m.%Y')"),
    ],
}
#: What leaves open which rows, or which of several values, it gives.
_OPEN = re.compile(r"ROW_NUMBER|LIMIT|ARRAY_AGG|LISTAGG|ANY_VALUE")


def as_written(folder: Path, query: str, data: list[dict[str, Any]], to_duckdb: str) -> None:
    """The referee's SQL, which is made of the bound query, gives what DuckDB gives for the query itself."""
    expected = verbatim(to_duckdb, [{name: row.get(name) for name in COLUMNS} for row in data], folder)
    assert_same(batch(folder, plan(folder, query, data), data), expected)


@pytest.mark.parametrize("name", QUERIES)
def test_the_batch_is_what_duckdb_makes_of_the_text(name: str, tmp_path: Path) -> None:
    text = QUERIES[name]
    for ours, theirs in TO_DUCKDB.get(name, ()):
        assert ours in text
        text = text.replace(ours, theirs)
    as_written(tmp_path, QUERIES[name], ROWS, text)


@given(query=queries().filter(lambda query: not _OPEN.search(query)), data=rows())
@_BOUNDED
def test_the_batch_of_random_queries_is_what_duckdb_makes_of_the_text(
    query: str, data: list[dict[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        as_written(Path(folder), query, data, query)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows_per_epoch", [None, 3])
@pytest.mark.parametrize("name", QUERIES)
def test_every_epoch_folds_to_the_batch(name: str, rows_per_epoch: int | None, tmp_path: Path) -> None:
    check(tmp_path, QUERIES[name], ROWS, rows_per_epoch=rows_per_epoch, seed=rows_per_epoch or 0)


@given(
    query=queries(),
    data=rows(),
    rows_per_epoch=st.none() | st.integers(1, 12),
    parallelism=st.integers(1, 3),
    seed=st.integers(0, 3),
)
@_BOUNDED
def test_random_queries_fold_to_the_batch(
    query: str, data: list[dict[str, Any]], rows_per_epoch: int | None, parallelism: int, seed: int
) -> None:
    timed = [{**r, "ts": f"2024-01-01 00:00:{n % 60:02d}"} for n, r in enumerate(data)]
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), query, timed, rows_per_epoch=rows_per_epoch, parallelism=parallelism, seed=seed)
