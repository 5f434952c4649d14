"""Queries of all the kinds that can be run, each against DuckDB's batch SQL of the same file, cut into small epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.properties.referee import Pipeline, assert_same

ROWS: list[dict[str, Any]] = [
    {
        "k": 1,
        "s": "a",
        "v": 10,
        "d": "1.50",
        "x": 0.5,
        "b": True,
        "a": [1, 2],
        "ts": "2024-01-01 00:00:01.000",
    },
    {"k": 2, "s": "b", "v": -3, "d": "2.25", "x": 1.5, "b": False, "a": [], "ts": "2024-01-01 00:00:04.500"},
    {
        "k": 1,
        "s": "a/b/c",
        "v": None,
        "d": None,
        "x": None,
        "b": None,
        "a": None,
        "ts": "2024-01-01 00:00:02.250",
    },
    {
        "k": None,
        "s": None,
        "v": 7,
        "d": "0.01",
        "x": -2.0,
        "b": True,
        "a": [None, 3],
        "ts": "2024-01-01 00:00:11.000",
    },
    {"k": 3, "s": "ü", "v": 7, "d": "9.99", "x": 1e10, "b": False, "a": [5], "ts": "2024-01-01 00:00:31.000"},
    {
        "k": 2,
        "s": "B",
        "v": 0,
        "d": "-1.00",
        "x": 0.0,
        "b": True,
        "a": [1, 1],
        "ts": "2024-01-01 00:00:29.999",
    },
    {"k": 1, "s": "a", "v": 4, "d": "4.00", "x": 2.5, "b": False, "a": [4], "ts": "2024-01-01 00:00:10.000"},
]

TUMBLE = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
HOP = "TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND))"
NAMED = "TABLE(CUMULATE(DATA => TABLE t, TIMECOL => DESCRIPTOR(ts), STEP => INTERVAL '5' SECOND, SIZE => INTERVAL '15' SECOND))"

QUERIES = {
    "projection": "SELECT k, v * 2 AS w, upper(s) AS u, d + 1 AS e, CASE WHEN v > 5 THEN 'big' ELSE 'small' END AS c FROM t",
    "star": "SELECT * FROM t",
    "star exclude": "SELECT * EXCLUDE (a, x) FROM t",
    "filter": "SELECT k, v FROM t WHERE v > 0 AND s LIKE 'a%' OR b",
    "flink functions": "SELECT SPLIT_INDEX(s, '/', 1) AS i, DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm') AS m, CHAR_LENGTH(s) AS n, "
    "IF(v > 5, 1, 0) AS f, TIMESTAMPDIFF(SECOND, TIMESTAMP '2024-01-01 00:00:00', ts) AS age FROM t",
    "division": "SELECT v / 4 AS q, v // 4 AS i, v % 4 AS r FROM t WHERE v IS NOT NULL",
    "casts": "SELECT CAST(v AS STRING) AS s, TRY_CAST(s AS INT) AS i, d::DOUBLE AS f, CAST(ts AS TIMESTAMP(0)) AS sec FROM t",
    "cte": "WITH c AS (SELECT k, v + 1 AS w FROM t WHERE v IS NOT NULL), e AS (SELECT * FROM c WHERE w > 1) SELECT w, k FROM e",
    "cte used twice": "WITH c AS (SELECT k, v FROM t) SELECT k AS z FROM c UNION ALL SELECT v FROM c",
    "union all": "SELECT k, s FROM t UNION ALL SELECT CAST(v AS INT), 'x' FROM t WHERE v > 3",
    "union of types": "SELECT k AS n FROM t UNION ALL SELECT v FROM t UNION ALL SELECT d FROM t",
    "unnest": "SELECT k, e FROM t CROSS JOIN UNNEST(a) AS u (e)",
    "unnest comma": "SELECT k, e + 1 AS f FROM t, UNNEST(a) AS u (e) WHERE e > 1",
    "unnest outer": "SELECT k, e FROM t LEFT JOIN UNNEST(a) AS u (e) ON TRUE",
    "unnest ordinality": "SELECT k, e, n FROM t CROSS JOIN UNNEST(a) WITH ORDINALITY AS u (e, n)",
    "sub-query": "SELECT m + 1 AS n FROM (SELECT k AS m, ts FROM t WHERE k > 1) AS q",
    "nested lambda": "SELECT list_transform(a, lambda e: e + 1) AS l, len(a) AS n FROM t",
    "tvf alone": f"SELECT k, window_start, window_end, window_time FROM {HOP}",
    "tumble": f"SELECT window_start, window_end, k, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start, window_end, k",
    "only keys of the window": f"SELECT COUNT(*) AS n, SUM(v) AS v FROM {TUMBLE} GROUP BY window_start, window_end",
    "window_end only": f"SELECT window_end, MAX(x) AS x FROM {HOP} GROUP BY window_end",
    "by ordinal and alias": f"SELECT window_end, upper(s) AS u, COUNT(*) FROM {HOP} GROUP BY 1, u",
    "group by all": f"SELECT window_start, window_end, k, COUNT(*) AS n FROM {TUMBLE} GROUP BY ALL",
    "cumulate named": f"SELECT window_start, window_end, SUM(v) AS v FROM {NAMED} GROUP BY window_start, window_end",
    "having": f"SELECT window_end, k FROM {TUMBLE} GROUP BY window_start, window_end, k HAVING COUNT(*) > 1 OR MAX(v) > 6",
    "expressions over aggregates": f"SELECT window_end, SUM(v) / COUNT(*) + 1 AS z, COALESCE(MAX(s), '?') || '!' AS m, "
    f"CASE WHEN COUNT(*) > 1 THEN MIN(ts) END AS f FROM {TUMBLE} GROUP BY window_start, window_end",
    "filter clause": f"SELECT window_end, COUNT(*) FILTER (WHERE v > 0) AS p, SUM(v) FILTER (WHERE b) AS q FROM {HOP} "
    "GROUP BY window_start, window_end",
    "old group window": "SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS w, TUMBLE_END(ts, INTERVAL '10' SECOND) AS e, "
    "k, COUNT(*) AS n FROM t GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k",
    "old hop": "SELECT HOP_START(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND) AS w, COUNT(*) AS n FROM t "
    "GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
    "filter before the window": "WITH f AS (SELECT ts, v FROM t WHERE v > 0) SELECT window_end, COUNT(*) AS n FROM "
    "TABLE(TUMBLE(TABLE f, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
    "sub-query as data": "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT ts, k FROM t WHERE k = 1), DESCRIPTOR(ts), "
    "INTERVAL '10' SECOND)) GROUP BY window_start, window_end",
    "union before the window": "WITH u AS (SELECT ts, k FROM t WHERE k = 1 UNION ALL SELECT ts, k FROM t) SELECT window_end, k, "
    "COUNT(*) AS n FROM TABLE(HOP(TABLE u, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end, k",
    "unnest before the aggregate": f"SELECT window_end, e, COUNT(*) AS n FROM {TUMBLE} CROSS JOIN UNNEST(a) AS u (e) "
    "GROUP BY window_start, window_end, e",
    "window bound in an argument": f"SELECT window_end, COUNT(*) FILTER (WHERE ts > window_start + INTERVAL '5' SECOND) AS late_half "
    f"FROM {HOP} GROUP BY window_start, window_end",
    "filter on the window": f"SELECT window_end, COUNT(*) AS n FROM {HOP} WHERE window_start >= TIMESTAMP '2024-01-01 00:00:05' "
    "GROUP BY window_start, window_end",
    "windows of a window": f"SELECT window_start, window_end, MAX(n) AS n FROM (SELECT window_start, window_end, k, COUNT(*) AS n "
    f"FROM {HOP} GROUP BY window_start, window_end, k) AS q GROUP BY window_start, window_end",
    "cascade": f"WITH q AS (SELECT window_time AS rt, k, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start, window_end, "
    "window_time, k) SELECT window_end, SUM(n) AS n FROM TABLE(TUMBLE(TABLE q, DESCRIPTOR(rt), INTERVAL '30' SECOND)) "
    "GROUP BY window_start, window_end",
    "grouping sets": f"SELECT window_end, k, s, GROUPING(k, s) AS g, COUNT(*) AS n FROM {TUMBLE} "
    "GROUP BY window_start, window_end, GROUPING SETS ((k, s), (k), ())",
    "cube": f"SELECT window_end, k, b, SUM(v) AS v FROM {TUMBLE} GROUP BY window_start, window_end, CUBE (k, b)",
    "distinct": f"SELECT window_end, COUNT(DISTINCT s) AS a, COUNT(DISTINCT s) FILTER (WHERE v > 5) AS c, SUM(DISTINCT v) AS d "
    f"FROM {HOP} GROUP BY window_start, window_end",
    "struct": "SELECT {'p': k, 'q': s}.p AS p, struct_pack(z := v).z AS z FROM t",
    "aliases in the list": "SELECT v + 1 AS w, w * 2 AS y FROM t",
    "literal only": "SELECT 1 AS one, 'x' AS x, NULL AS nothing FROM t",
    "no keys no aggregates": f"SELECT window_start, k FROM {TUMBLE} GROUP BY window_start, window_end, k",
    "same aggregate twice": f"SELECT window_end, COUNT(*) AS a, COUNT(*) AS b, SUM(v) AS c, AVG(v) AS d FROM {TUMBLE} "
    "GROUP BY window_start, window_end",
    "expression keys": f"SELECT window_end, k % 2 AS p, lower(s) AS l, COUNT(*) AS n FROM {TUMBLE} "
    "GROUP BY window_start, window_end, k % 2, lower(s)",
    "negative offset": "SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, "
    "INTERVAL '-3' SECOND)) GROUP BY window_start, window_end",
    "aggregates in arrival order": f"SELECT window_end, ARRAY_AGG(k) AS l, LISTAGG(s, ';') AS m, FIRST_VALUE(v) AS f, LAST_VALUE(v) AS g "
    f"FROM {HOP} GROUP BY window_start, window_end",
    "quantiles": f"SELECT window_end, MEDIAN(v) AS m, QUANTILE_CONT(v, 0.25) AS q, MODE(k) AS o FROM {TUMBLE} "
    "GROUP BY window_start, window_end",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", QUERIES)
def test_query(name: str, tmp_path: Path) -> None:
    pipeline = Pipeline.create(tmp_path / "p", [QUERIES[name]], [ROWS[:3], ROWS[3:]], delay=60)
    pipeline.run(rows_per_epoch=2, parallelism=3)
    expected = pipeline.expected()
    assert expected, "the query gives nothing, so the test shows nothing"
    assert_same(pipeline.output(), expected)


def test_all_queries_in_one_file(tmp_path: Path) -> None:
    """Every query of the list at once: one source is read once, all stages of a level share a task."""
    pipeline = Pipeline.create(tmp_path / "p", list(QUERIES.values()), [ROWS[:3], ROWS[3:]], delay=60)
    pipeline.run(rows_per_epoch=3, parallelism=2)
    for number in range(1, len(QUERIES) + 1):
        assert_same(pipeline.output(number), pipeline.expected(number))
