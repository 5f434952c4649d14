"""Queries whose spelling was once read past: run as a stream they give what DuckDB gives for the very same text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.bind import aggregate
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.in_process import run_here
from tests.properties.verbatim import ROWS, check_verbatim, declared

QUERIES = [
    # ORDER BY inside aggregates.
    "SELECT MODE(v ORDER BY v DESC) AS m, MODE(v ORDER BY v) AS n FROM t",
    "SELECT k, MODE(v ORDER BY x DESC) AS m, MODE(s ORDER BY x DESC) FILTER (WHERE b) AS n FROM t GROUP BY k",
    "SELECT v, MODE(k ORDER BY k DESC) AS m, MODE(k ORDER BY k DESC) FILTER (WHERE b) AS n FROM t GROUP BY v",
    "SELECT MODE() WITHIN GROUP (ORDER BY v DESC) AS m, MODE() WITHIN GROUP (ORDER BY k) AS n FROM t",
    "SELECT MODE(DISTINCT k ORDER BY k DESC) AS m, MODE(DISTINCT k ORDER BY k) AS n FROM t",
    "SELECT PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY v DESC) AS m FROM t",
    "SELECT PERCENTILE_DISC([0.25, 0.5]) WITHIN GROUP (ORDER BY v DESC) AS m FROM t",
    "SELECT PERCENTILE_DISC([0, 0.5]) WITHIN GROUP (ORDER BY v) AS m FROM t",
    "SELECT PERCENTILE_CONT([0, 0.3, 1]) WITHIN GROUP (ORDER BY v DESC) AS m FROM t",
    "SELECT ANY_VALUE(v ORDER BY x DESC) AS m, ANY_VALUE(DISTINCT v ORDER BY v DESC) AS n FROM t",
    "SELECT STRING_AGG(s, '-' ORDER BY x DESC) AS m, GROUP_CONCAT(s ORDER BY x) AS n FROM t",
    "SELECT ARRAY_AGG(v ORDER BY x DESC) AS m, LIST(v ORDER BY v NULLS FIRST, x DESC) AS n FROM t",
    "SELECT STRING_AGG(DISTINCT s, '-' ORDER BY s DESC) AS m, ARRAY_AGG(DISTINCT v ORDER BY v DESC) AS n FROM t",
    "SELECT STRING_AGG(DISTINCT s, '-' ORDER BY LENGTH(s) DESC, s) AS m, ARRAY_AGG(DISTINCT v ORDER BY v % 2, -v) AS n, "
    "ARRAY_AGG(DISTINCT v + k ORDER BY -(v + k)) AS o, ARRAY_AGG(DISTINCT s ORDER BY UPPER(s) NULLS FIRST, s) AS p FROM t",
    "SELECT k, FIRST(DISTINCT v ORDER BY -v) AS m, LAST(DISTINCT s ORDER BY LENGTH(s), s) AS n FROM t GROUP BY k",
    "SELECT SUM(v ORDER BY x), MAX(v ORDER BY x DESC), COUNT(v ORDER BY x), MEDIAN(s ORDER BY s DESC) FROM t",
    # ORDER BY of SELECT DISTINCT: what is computed of its items, however they are written.
    "SELECT DISTINCT r.F FROM t ORDER BY r.f DESC NULLS LAST LIMIT 3",
    "SELECT DISTINCT t.R.f AS p, t.k FROM t ORDER BY t.r.F NULLS FIRST, k LIMIT 3",
    "SELECT DISTINCT k FROM t ORDER BY t.k DESC LIMIT 2",
    "SELECT DISTINCT k + 1 AS z, UPPER(s) AS u FROM t ORDER BY -(K + 1), upper(S) DESC, z LIMIT 3",
    "SELECT DISTINCT k + 1 AS z FROM t ORDER BY z * -1 LIMIT 2",
    # Names of the SELECT list that are compared with what a sub-query gives.
    "SELECT k % 2 AS w, COUNT(*) AS n FROM t GROUP BY w HAVING w IN (SELECT 1)",
    "SELECT k, MAX(v) + 1 AS w FROM t GROUP BY k HAVING w NOT IN (SELECT v FROM t WHERE x < 1 AND v IS NOT NULL)",
    "SELECT k AS h, SUM(v) AS n FROM t GROUP BY h HAVING n >= ALL (SELECT k FROM t) "
    "AND (h, n) IN (SELECT 1, 8 UNION ALL SELECT 2, 7)",
    "SELECT k, SUM(v) AS n FROM t GROUP BY k ORDER BY (n = ANY (SELECT k + 5 FROM t)), n LIMIT 1",
    # A position may stand in brackets.
    "SELECT k, x FROM t ORDER BY (2) DESC LIMIT 3",
    # GROUPING
    "SELECT k, b, GROUPING() AS g, GROUPING_ID() AS h, COUNT(*) AS n FROM t GROUP BY CUBE (k, b)",
    "SELECT GROUPING() AS g, GROUPING(b) AS h, GROUPING(b, k) AS i, COUNT(*) AS n FROM t GROUP BY ROLLUP (k, b)",
    "SELECT GROUPING() AS g, COUNT(*) AS n FROM t GROUP BY k",
    # GROUP BY nothing, and values of no type.
    "SELECT 2 AS z FROM t GROUP BY ()",
    "SELECT 2 AS z FROM t WHERE FALSE GROUP BY ()",
    "SELECT 2 AS z, COUNT(*) AS n FROM t GROUP BY () HAVING COUNT(*) > 3",
    "SELECT [] AS z, {'a': NULL, 'b': []} AS w, NULL AS v FROM t",
    "SELECT CAST(MAP {} AS MAP(VARCHAR, INTEGER)) AS z, CAST([] AS INTEGER[]) AS y FROM t",
    "SELECT ARRAY_AGG([]) AS z, ANY_VALUE({'a': NULL}) AS y, MAX([]) AS x, COUNT(DISTINCT []) AS w FROM t",
    # Conditions and branches of mixed types that have one.
    "SELECT k FROM t WHERE 'true' AND k AND x",
    "SELECT k FROM t WHERE TRY_CAST(s AS BOOLEAN)",
    "SELECT CASE WHEN b THEN k ELSE '5' END AS z, COALESCE(v, '7') AS y, GREATEST(k, '1') AS x, IF(b, 1, 2.5) AS w FROM t",
    "SELECT v = ANY ([1, 2]) AS z, v > ANY (a) AS y, s LIKE 'a!%' ESCAPE '!' AS x FROM t",
    # What stands behind a star.
    "SELECT * EXCLUDE (k, x) FROM t",
    "SELECT t.* EXCLUDE (t.k, M), k FROM t",
    "SELECT * EXCLUDE k REPLACE (v * 2 AS V, s || '!' AS s) RENAME (x AS xx) FROM t",
    "SELECT * REPLACE (UNNEST(a) AS a) FROM t",
    "SELECT * EXCLUDE (s, d, x, b, a, c, aa, m, r, rs, ts) FROM t",
    "SELECT * LIKE 'a%', t.* NOT ILIKE 'A%' FROM t",
    "SELECT k, MIN(COLUMNS('^(v|x)$')) AS 'least_\\1', MAX(COLUMNS(['V', 'x'])) FROM t GROUP BY k",
    "SELECT COLUMNS(* EXCLUDE (k, s, d, b, a, c, aa, m, r, rs, ts) REPLACE (v + 1 AS v)) * 2, "
    "GREATEST(k, *COLUMNS('v|x')) AS g FROM t",
    "SELECT COLUMNS(lambda c: c LIKE 'r%') FROM t WHERE COLUMNS('k|v') > 0",
    # A row as a struct, and a struct as columns.
    "SELECT o, o.y FROM (SELECT k, v AS y FROM t) AS o",
    "SELECT COUNT(DISTINCT o) AS n, MAX(o) AS z FROM (SELECT k, s FROM t) AS o",
    "SELECT r.*, k FROM t",
    # Names of the SELECT list in WHERE.
    "SELECT v + 1 AS z, z * 2 AS y, x AS k FROM t WHERE y > 4 AND k < 2",
    # VALUES and series that read the rows around.
    "SELECT x, p, q FROM t, LATERAL (VALUES (v, 1), (k, 2)) AS o (p, q)",
    "SELECT x, q FROM t LEFT JOIN LATERAL (VALUES (v), (k)) AS o (q) ON q > 1",
    "SELECT x, i FROM t, LATERAL range(k) AS o (i)",
    "SELECT k IN (VALUES (1), (5)) AS z, (SELECT MAX(q) FROM (VALUES (t.k), (t.v)) AS o (q)) AS y FROM t",
    # A join in parentheses that begins with a query, or with another join in parentheses.
    "SELECT * EXCLUDE (y) FROM ((SELECT v AS y, k FROM t) AS p JOIN (SELECT k AS z, x FROM t) AS q ON p.k = q.z) AS j, "
    "LATERAL (SELECT j.x + 1) AS l (w)",
    "SELECT p.v, n FROM ((SELECT v FROM t) AS p JOIN (SELECT 3 AS n) AS q ON v < n)",
    "SELECT p.v, o.s FROM (((SELECT v FROM t) AS p CROSS JOIN (SELECT 3 AS n)) JOIN t AS o ON p.v = o.v)",
    # What is called LIST or ARRAY, and what else is a type's name, has elements too.
    'SELECT list[1] AS z, o.list[2] AS y, "array"[1] AS x, o.array[2] AS w, text[1:2] AS u, [k, v][2] AS q, ARRAY[k, v][1] '
    "AS p FROM (SELECT k, v, [k, v] AS list, [v, k] AS array, s AS text FROM t) AS o",
    "SELECT LIST(x ORDER BY x)[2] AS z, LIST(x ORDER BY x)[1:2] AS y, ARRAY[ARRAY[MIN(k)], ARRAY[2]][2][1] AS w FROM t",
    # An aggregate of the query around inside a sub-query.
    "SELECT (SELECT SUM(t.v)) AS z, (SELECT (SELECT MAX(t.v) + 1)) AS y, COUNT(*) AS n FROM t",
    "SELECT k, (SELECT SUM(v)) AS z, (SELECT MIN(o.x) FROM t AS o WHERE o.x > MIN(t.v)) AS y FROM t GROUP BY k "
    "HAVING (SELECT MAX(t.v) > 1)",
    "SELECT MIN(k) > ANY (SELECT k FROM t WHERE k >= MIN(o.k)) AS z, (SELECT SUM(k) + SUM(o.v) FROM t) AS y FROM t AS o",
    "SELECT k, (SELECT SUM(o.x + t.v) FROM t AS o) AS z FROM t",
    # A factorial.
    "SELECT k! AS z, -3! AS y, 2 * k! + 1 AS x, 1 ! BETWEEN 0 AND 2 AS w, k != 2 AS u, (k + 1)! IN (2, 6) AS q FROM t",
    # The one row that there is.
    "SELECT x, (SELECT o.v + t.k FROM t AS o WHERE o.x = t.x) AS z, (SELECT s FROM t WHERE x = 9) AS y FROM t "
    "WHERE x > (SELECT x FROM t WHERE x BETWEEN 0.1 AND 0.4)",
    # ARRAY of a query.
    "SELECT ARRAY(SELECT x FROM t ORDER BY k, x DESC) AS z, ARRAY(SELECT 1 WHERE FALSE) AS y, ARRAY(SELECT DISTINCT k "
    "FROM t ORDER BY 1 DESC) AS x, ARRAY(SELECT SUM(x) FROM t GROUP BY k ORDER BY k LIMIT 2)[2] AS w",
    "SELECT x, ARRAY(SELECT o.x AS y FROM t AS o WHERE o.k = t.k ORDER BY y DESC LIMIT 2) AS z FROM t",
    # A relation that is read under its own name and through another.
    "WITH p AS (SELECT k AS y FROM t), q AS (SELECT * FROM p) SELECT q.y, p.y AS x FROM q JOIN p ON q.y < p.y, q AS q2 "
    "WHERE p.y = q2.y",
    "WITH p AS (SELECT k AS y FROM t), q AS (SELECT * FROM p) SELECT o.y, p.y AS x FROM q AS o, p JOIN q ON p.y = q.y",
    # ASOF JOIN by other values than event times; where several are as near DuckDB takes any, so there is one.
    "SELECT l.x, r.x AS y FROM t AS l ASOF JOIN t AS r ON l.k = r.v AND l.x > r.x",
    "SELECT l.x, r.x AS y, r.s FROM t AS l ASOF LEFT JOIN t AS r ON r.x * 2 >= l.x AND l.s = r.s",
    "SELECT k, x, COUNT(y) AS n FROM t AS l ASOF LEFT JOIN (SELECT k, x - 0.5 AS x, s AS y FROM t) AS r USING (k, x) "
    "GROUP BY k, x",
    "SELECT l.x, r.x AS y, r.v FROM t AS l ASOF LEFT JOIN t AS r ON l.k = r.v AND l.x > r.x AND l.v + r.k <> 4 AND r.b",
    "SELECT l.x, r.x AS y, r.v FROM t AS l ASOF RIGHT JOIN t AS r ON l.k = r.v AND l.x + 1 > r.x",
    "SELECT k, x, l.s, r.s AS z FROM t AS l ASOF FULL JOIN (SELECT k, x - 0.5 AS x, s FROM t) AS r USING (k, x)",
    "SELECT x FROM t ASOF SEMI JOIN (SELECT v AS k, x FROM t) AS r USING (k, x)",
    "SELECT l.x FROM t AS l ASOF ANTI JOIN t AS r ON l.ts > r.ts AND l.v > 3 AND r.k = 0",
    "SELECT v, v = ANY (SELECT NULL) AS z, v NOT IN (SELECT NULL WHERE FALSE) AS y, v = SOME (NULL) AS w, v = SOME ([1, 2]) "
    "AS u FROM t",
    # Names are looked for in FROM first, then in what is around; a comma does not hide what stands before it from ON.
    "SELECT k, (SELECT r FROM (SELECT k + 1 AS v) AS x, (SELECT v AS r) AS y) AS n FROM t",
    "SELECT o.x, q.v AS y FROM t AS o, t AS p LEFT JOIN t AS q ON o.v = q.v AND p.x < q.x WHERE o.k = p.v",
    # PIVOT: DuckDB compares texts, and NULL is a value as any other.
    "SELECT * FROM (SELECT k, s, v FROM t) PIVOT (SUM(v) FOR s IN ('a', 'cd'))",
    "SELECT * FROM t PIVOT (SUM(v) AS n, COUNT(*) FOR s IN ('a' AS p, NULL) k IN (0, 1) GROUP BY b) AS q",
    "SELECT z.w + 1 AS y, t.s FROM t JOIN (SELECT k, x, b FROM t) PIVOT (MAX(x) FOR b IN (true)) AS z (u, w) ON t.k = z.u",
    "WITH p AS (PIVOT t ON s IN ('a', 'b'), b IN (true, false) USING ROUND(AVG(v)) GROUP BY k) SELECT * FROM p",
    "PIVOT (SELECT k, d FROM t) ON d IN (0.25, 2.250, '4.25')",
    "SELECT * FROM t PIVOT (LIST(v ORDER BY x) FOR (s, k) IN (('a', 1), ('b', 2)) GROUP BY b)",
    # UNPIVOT: a row goes if one of its values is NULL.
    "SELECT * FROM (SELECT x, k, v FROM t) UNPIVOT (z FOR n IN (k, v AS 'w'))",
    "SELECT * FROM (SELECT x, k, v, d FROM t) UNPIVOT INCLUDE NULLS ((z, y) FOR n IN ((k, v), (v, d)))",
    "SELECT * FROM (SELECT x, k, v, d FROM t) UNPIVOT ((z, y) FOR n IN ((k, v), (v, d)))",
    "UNPIVOT (SELECT k, v + 1 AS v, d FROM t) ON COLUMNS(* EXCLUDE (k)) INTO NAME n VALUE z",
    "SELECT name, SUM(value) AS y FROM (UNPIVOT (SELECT x, k, v FROM t) ON k + 1 AS a, v) GROUP BY name",
    # What HAVING reads of rows is a key of GROUP BY ALL.
    "SELECT k, COUNT(*) AS n FROM t GROUP BY ALL HAVING b AND SUM(x) > 0 AND k >= 0",
    # Values of maps without a type, groups of a pattern in the names that it gives.
    "SELECT v IN (VALUES ((SELECT MAX(k) FROM t)), (4)) AS z FROM t",
    "SELECT MAP {} AS z, [MAP {}] AS y, {'a': map_concat(MAP {}, NULL)} AS w FROM t",
    "SELECT z, COUNT(*) AS n FROM (SELECT MAP() AS z FROM t) GROUP BY z",
    "SELECT kn, xn FROM (SELECT * SIMILAR TO '([kx])' AS '\\1n' FROM t)",
    # The value of the first row, be it NULL; a quantile from the top.
    "SELECT ARG_MIN_NULL(s, x) AS z, ARG_MAX_NULL(s, x) FILTER (WHERE k > 0) AS y, ARG_MAX(s, x) AS w FROM t",
    "SELECT k, ARG_MAX_NULL(s, x) AS z FROM (SELECT MAX(k) AS k, x, MAX(s) AS s FROM t GROUP BY x) GROUP BY k",
    "SELECT QUANTILE_CONT(x, 0.8 ORDER BY x DESC) AS z, QUANTILE_DISC(v, [0.25, 0.5] ORDER BY v DESC) AS y FROM t",
    # Lambdas in lambdas read the outer ones' parameters on either side, and fields that are called as they are.
    "SELECT list_transform(a, lambda p, i: list_reduce([p, k], lambda e, f: e + f + p - i, v)) AS z, "
    "list_transform(a, lambda p: list_filter([{'p': 1, 'q': p}], lambda e: e.p < p AND e.q = p)) AS y FROM t",
    # Two columns with one name, rows of NULLs, and what stands behind the fields of a struct.
    "SELECT x, x_1, x_2 + 1 AS y FROM (SELECT o.x, t.x, t.k AS x FROM t JOIN t AS o ON o.k = t.v) WHERE x < x_1",
    "SELECT a <> b AS z, a IS NOT DISTINCT FROM b AS y, s.k AS w "
    "FROM VALUES ((NULL, 1), (5, 6), {'k': NULL}) AS o (a, b, s)",
    "SELECT DISTINCT {'a': NULL, 'b': v} AS z, (NULL, k) AS y FROM t",
    'SELECT MAP_EXTRACT(NULL::MAP("NULL", "NULL"), NULL) AS z, NULL::MAP("NULL", "NULL") AS y FROM t',
    "SELECT CAST(a AS SMALLINT[]) AS z FROM t UNION SELECT CAST(c AS BIGINT[]) FROM t",
    "SELECT r.* EXCLUDE (g) REPLACE (r.f + k AS f), r.* RENAME (f AS h, g AS i), a[:v] AS z, a[:k:2] AS y, a[:] AS w FROM t",
    "SELECT \"p.r.f\" AS z, \"p.v\" AS y FROM (SELECT UNNEST([{'p': {'r': r, 'v': v}}], recursive := true, "
    "keep_parent_names := true) FROM t)",
    "SELECT x, UNLIST(a) AS z, INTERVAL 2 MILLENNIA AS y, '3 mils 2 decs'::INTERVAL AS w FROM t",
    "UNPIVOT (SELECT k AS Kk, v AS vV, x FROM t) ON KK, vv INTO NAME n VALUE z",  # names are values, as they are declared
    # A condition on each of the columns in FILTER is one condition.
    "SELECT SUM(k) FILTER (WHERE COLUMNS('v|x') > 1) AS z, COUNT(*) FILTER (WHERE * LIKE 'b') AS y FROM t",
    "SELECT x, MAX(k) FILTER (WHERE COLUMNS('v|x') > 0) OVER (PARTITION BY b) AS z FROM t",
    # What UNNEST and a series are called is their column's name, too.
    "SELECT x, u, u.u AS z, u.unnest AS y FROM t, UNNEST(a) AS u",
    "SELECT r, r.range AS z, u FROM range(3) AS r, UNNEST([r, 5]) AS u",
    "SELECT x, unnest FROM t, UNNEST(a)",
    # Sub-queries in VALUES and UNNEST.
    "SELECT * FROM (VALUES ((SELECT MAX(x) FROM t), 2), (1 + 3, (SELECT MIN(k) FROM t))) AS o (z, y)",
    "SELECT u, r FROM UNNEST((SELECT LIST(x ORDER BY x) FROM t)) AS u, range((SELECT MAX(k) FROM t)) AS r",
    "SELECT x, u FROM t, UNNEST((SELECT LIST(o.x ORDER BY o.x) FROM t AS o WHERE o.k = t.k)) AS u",
    # As keys of state intervals come back in days, but a row keeps its own.
    "SELECT x, j, TIMESTAMP '2024-02-01 00:00:00' + j AS z, SUM(k) OVER (PARTITION BY j) AS y "
    "FROM (SELECT x, k, to_months(k) AS j FROM t)",
    # Ranks go by what is equal, whatever frame is written.
    "SELECT k, v, RANK() OVER w AS z, DENSE_RANK() OVER w AS y, NTH_VALUE(NULL, 2) OVER w AS u FROM t "
    "WINDOW w AS (PARTITION BY b ORDER BY k ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)",
    # Columns by their position.
    "SELECT #3, #1 + 1 AS z, SUM(#3) OVER (PARTITION BY #1 ORDER BY #5) AS y FROM t WHERE #5 > 0.5",
    "SELECT k, x FROM t UNION SELECT v, x FROM t ORDER BY #2 DESC, #1 LIMIT 3",
    # Names of the SELECT list in its sub-queries.
    "SELECT k % 2 AS j, SUM(v) AS z FROM t GROUP BY j HAVING SUM(v) > (SELECT MIN(v) FROM t WHERE k <> j)",
    "SELECT k AS j, SUM(v) AS z, (SELECT COUNT(*) FROM t WHERE v < z AND k >= j) AS y FROM t GROUP BY j",
    "SELECT x, k + 1 AS j, j * 2 AS x2, (SELECT COUNT(*) FROM t AS o WHERE o.v < x2) AS y FROM t WHERE EXISTS (SELECT 1)",
    "SELECT v + 1 AS k, (SELECT COUNT(*) FROM t WHERE v < k) AS y FROM t",
    "SELECT x, j FROM (SELECT x, to_months(k) AS j FROM t) QUALIFY ROW_NUMBER() OVER (PARTITION BY j ORDER BY x DESC) <= 2",
    # Over rows that come, distinct ones, and rows that change.
    "SELECT k, BITSTRING_AGG(v, -1000, 1000) AS z, BITSTRING_AGG(DISTINCT v, -1000, 2000) FILTER (WHERE b) AS y, "
    "BIT_COUNT(BITSTRING_AGG(k, -9, 9)) AS x FROM t GROUP BY k",
    "SELECT b, BITSTRING_AGG(m, -1000, 1000) AS z FROM (SELECT b, k, MAX(v) AS m FROM t GROUP BY b, k) GROUP BY b",
    # A sub-query in a SELECT list whose tables have columns of one name, which it has, too.
    "SELECT a.x, (SELECT MAX(v) FROM t) AS z, (SELECT COUNT(*) FROM t AS c WHERE k = a.k) AS y FROM t AS a, t AS b "
    "WHERE a.x = b.x",
    "SELECT a.k, COUNT(*) AS n, (SELECT MAX(v) FROM t WHERE k = a.k) AS z FROM t AS a, t AS b WHERE a.x = b.x GROUP BY a.k",
    "SELECT a.x IN (SELECT v FROM t) AS z, EXISTS(SELECT v FROM t WHERE v = a.x) AS y, (SELECT v FROM (SELECT MAX(v) AS v "
    "FROM t)) AS v FROM t AS a, t AS b WHERE a.x = b.x",
    # An arrow in a call that takes no function is a path.
    "SELECT UPPER(m->'a') AS y, COALESCE(o.m->'z', '1') AS z, COUNT(DISTINCT m->'a') AS n, [m->'a'] AS l, lower((m)->'a') "
    "AS w, ARRAY_AGG(m->'a' ORDER BY m->'a') AS v, {'a': m->'a'} AS u, struct_pack(a := m->'b') AS r, "
    "json_extract(m->'b', 'c') AS q FROM "
    '(SELECT CAST(\'{"a":"x", "b": {"c": 1}}\' AS JSON) AS m FROM t) AS o GROUP BY ALL',
    "SELECT LAG(m->'a') OVER (ORDER BY x) AS z, list_transform(a, lambda e: upper(m->'a') || e) AS y FROM "
    '(SELECT CAST(\'{"a":"x"}\' AS JSON) AS m, a, x FROM t)',
    # An interval before what it is added to.
    "SELECT INTERVAL 2 HOUR + TIMESTAMP '2024-01-01 00:00:00' AS z, INTERVAL 2 DAY + '2024-01-01'::DATE AS y, "
    "INTERVAL (k) HOUR + ts AS x, INTERVAL 1 DAY + INTERVAL 2 HOUR AS w FROM t "
    "WHERE ts > INTERVAL 2 SECOND + '2024-01-01 00:00:00'::TIMESTAMP",
    # Columns called as types are, before `<`.
    "SELECT range < 2 AS p, map<x AS q, o.range < 2 AS r, text < 'b' AS t, date < timestamp AS u, CASE WHEN map < 2 THEN "
    "map ELSE list END AS w FROM (SELECT x, k AS range, v AS map, k AS list, s AS text, ts AS timestamp, "
    "CAST(ts AS DATE) AS date FROM t) AS o WHERE range < 2 AND map > 0",
    # Names of the SELECT list in OVER, and in HAVING before columns that are no keys.
    "SELECT v % 2 AS p, p + 1 AS q, SUM(v) OVER (PARTITION BY p) AS z, SUM(p) FILTER (WHERE q > 1) OVER w AS y, "
    "LAG(q) OVER (ORDER BY x) AS w FROM t WINDOW w AS (PARTITION BY q ORDER BY x, p)",
    "SELECT v % 2 AS p, x FROM t QUALIFY SUM(v) OVER (PARTITION BY p) > 6",
    "SELECT k AS v, SUM(x) OVER (PARTITION BY v) AS z FROM t",
    "SELECT k, SUM(v) AS v FROM t GROUP BY k HAVING v > 3",
    "SELECT k + 1 AS k, MAX(v) AS v FROM t GROUP BY t.k HAVING k > 1 AND v >= MIN(v)",
    "SELECT k, MAX(v) AS v, SUM(MAX(v)) OVER () AS z FROM t GROUP BY k HAVING v > 2 AND MAX(v) < 5 AND k < 2",
    "SELECT k, COUNT(*) AS x FROM t GROUP BY ROLLUP (k) HAVING x > 3",
    # A number of rows that is rounded, or computed by a function.
    "SELECT x FROM t ORDER BY x LIMIT abs(-2) OFFSET 1.5",
    "SELECT x FROM t ORDER BY x LIMIT least(3, 2.5) OFFSET (SELECT 0.4)",
    # Other names of types.
    "SELECT CAST(k AS UINT8) AS z, k::uint64 AS y, TRY_CAST(k - 1 AS UINT16) AS x, [k]::UINT32[] AS v, COUNTIF(b) AS n, "
    "COUNTIF(v > 1) FILTER (WHERE x > 0.5) AS m FROM t GROUP BY k",
    # ANY, SOME and ALL of VALUES, and of patterns.
    "SELECT v, v <> SOME (VALUES (1), (2)) AS z FROM t",
    "SELECT v FROM t WHERE v = ANY (VALUES (1), (k)) OR v > ALL (VALUES (3))",
    "SELECT v FROM t WHERE EXISTS (VALUES (1)) AND v > 1 OR NOT EXISTS (TABLE t)",
    "SELECT v FROM t WHERE EXISTS ((SELECT 1)) AND v IN [1, k] AND 'a' IN map {'a': v}",
    "SELECT s, s ~ ANY (['a', 'b']) AS z, s ~ ALL (['c.', '.d']) AS y, s ~ SOME (['c.', NULL]) AS x, s ~ ANY (['A', s]) "
    "AS w, s ~* ANY (['A', 'C.']) AS q FROM t",
    "SELECT DISTINCT ON (COLUMNS('^(k|b)$'), v % 2) k, b, v, x FROM t ORDER BY x DESC",
    # Long series are not made as one list.
    "SELECT i FROM generate_series(1, 20000) AS r(i) WHERE i % 5000 = 0",
    "SELECT COUNT(*) AS n, SUM(i) AS m, MAX(j) AS b FROM range(-5, 30000, 2) AS r(i), range(2) AS q(j)",
    "SELECT t.x, i FROM t JOIN range(20000) AS r(i) ON t.v = r.i",
    "SELECT FIRST(i) AS a, LAST(i) AS b FROM range(20000, 0, -1) AS r(i)",
    # Of the best rows the first in an order of its own.
    "SELECT b, ARG_MAX(x, k ORDER BY x DESC) AS a, ARG_MIN(s, k ORDER BY x DESC) AS c, MAX_BY(x, k ORDER BY x) FILTER "
    "(WHERE v > 0) AS d, ARG_MAX_NULL(s, k ORDER BY x) AS e FROM t GROUP BY b HAVING ARG_MAX(x, k ORDER BY v, x) > 0",
    "SELECT ARG_MAX(x, k ORDER BY x DESC) AS z FROM (SELECT x, k, COUNT(*) OVER (PARTITION BY k) AS n FROM t)",
    # Fractions of an interval that DuckDB keeps, and such as are none.
    "SELECT INTERVAL 1.5 MILLISECOND AS z, ts + INTERVAL '1.5' MILLISECOND AS y, INTERVAL 2.0 DAY AS x, "
    "INTERVAL '3.0' HOUR AS w, INTERVAL 1.5 SECOND AS u FROM t",
    # As many rows as a sub-query tells, which changes.
    "SELECT x FROM t ORDER BY x LIMIT (SELECT MIN(k) + 2 FROM t) OFFSET (SELECT MAX(k) FROM t)",
    "SELECT x FROM t ORDER BY x DESC LIMIT (SELECT COUNT(*) / 3 FROM t) + 1",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k ORDER BY k LIMIT (SELECT MAX(v) FROM t WHERE v > 100) OFFSET (SELECT 1)",
    "SELECT s FROM (SELECT DISTINCT x, s FROM t ORDER BY x LIMIT (SELECT MAX(k) FROM t)) AS o",
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.sampled(6)
def test_rows_are_those_of_duckdb(query: str, tmp_path: Path) -> None:
    check_verbatim(tmp_path, query)


_BY_VALUE = (
    "STRING_AGG(DISTINCT s, '-' ORDER BY LENGTH(s) DESC, s) AS m, ARRAY_AGG(DISTINCT v ORDER BY v % 2, -v) AS n, "
    "ARRAY_AGG(DISTINCT s ORDER BY s NULLS FIRST) AS o, LAST(DISTINCT k ORDER BY -k) FILTER (WHERE b) AS p"
)

SPELLED = {
    # Flink cuts digits off where DuckDB rounds.
    **{
        f"SELECT CAST(TIMESTAMP '2024-01-01 00:00:00.987654' AS TIMESTAMP({p})) AS z, "
        f"CAST(TIMESTAMP '1960-01-01 00:00:00.987654' AS TIMESTAMP({p})) AS y, "
        f"CAST(TIME '12:30:00.987654' AS TIME({p})) AS x, TRY_CAST(s AS TIMESTAMP({p})) AS w FROM t": ""
        f"SELECT TIMESTAMP '2024-01-01 00:00:00{cut}' AS z, TIMESTAMP '1960-01-01 00:00:00{cut}' AS y, "
        f"TIME '12:30:00{cut}' AS x, NULL::TIMESTAMP AS w FROM t"
        for p, cut in enumerate(("", ".9", ".98", ".987", ".9876", ".98765", ".987654"))
    },
    # Arrow has an interval's time in nanoseconds: 292 years are its most.
    "SELECT INTERVAL '3000000' HOUR AS z, INTERVAL '-3000000:30' HOUR TO MINUTE AS y, INTERVAL 99999999999 MINUTE AS x, "
    "INTERVAL '3000000 hours 1 day' AS w, INTERVAL '2000000' HOUR AS v FROM t": ""
    "SELECT to_days(125000) AS z, to_days(-125000) - INTERVAL 30 MINUTE AS y, to_days(69444444) + INTERVAL '10:39:00' AS x, "
    "to_days(125001) AS w, to_hours(2000000) AS v FROM t",
    "SELECT ts + INTERVAL '3000000' HOUR AS z, ts - INTERVAL '3000000' HOUR AS y FROM t": ""
    "SELECT ts + to_days(125000) AS z, ts - to_days(125000) AS y FROM t",
    "SELECT s LIKE ANY ('a%', s || NULL, '%c') AS z, s NOT LIKE ALL ('a%', '%c') AS y, s NOT ILIKE ANY ('A%', 'b%') AS x, "
    "s LIKE ALL ('a%') AS w FROM t WHERE s LIKE ANY ('%', 'b') OR s IS NULL": ""
    "SELECT s LIKE 'a%' OR s LIKE NULL OR s LIKE '%c' AS z, NOT (s LIKE 'a%' OR s LIKE '%c') AS y, "
    "NOT (s ILIKE 'a%' AND s ILIKE 'b%') AS x, s LIKE 'a%' AS w FROM t",
    "SELECT LISTAGG(s, '-') WITHIN GROUP (ORDER BY x DESC) AS m FROM t": ""
    "SELECT STRING_AGG(s, '-' ORDER BY x DESC) AS m FROM t",
    "SELECT window_start, MODE(k ORDER BY k DESC) AS m, MODE(k) AS l, MODE(DISTINCT v ORDER BY v DESC) AS n FROM "
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end": ""
    "SELECT time_bucket(INTERVAL '20 seconds', ts) AS w, MODE(k ORDER BY k DESC) AS m, MODE(k ORDER BY k) AS l, "
    "MODE(DISTINCT v ORDER BY v DESC) AS n FROM t GROUP BY 1",
    **{
        f"SELECT window_start, {_BY_VALUE} FROM TABLE({window}) GROUP BY window_start, window_end": ""
        f"SELECT {start} AS w, {_BY_VALUE} FROM t GROUP BY 1"
        for window, start in (
            (
                "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)",
                "time_bucket(INTERVAL '20 seconds', ts)",
            ),
            ("SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)", "TIMESTAMP '2024-01-01 00:00:00'"),
        )
    },
    "SELECT window_start, ANY_VALUE(v ORDER BY x DESC) AS m, ANY_VALUE(s ORDER BY k DESC, x DESC) AS n, "
    "ANY_VALUE(DISTINCT s ORDER BY s DESC) AS o, ANY_VALUE(s ORDER BY x DESC) FILTER (WHERE b) AS p, "
    "ANY_VALUE(DISTINCT x) AS q FROM "
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end": ""
    "SELECT time_bucket(INTERVAL '20 seconds', ts) AS w, ANY_VALUE(v ORDER BY x DESC) AS m, "
    "ANY_VALUE(s ORDER BY k DESC, x DESC) AS n, MAX(s) AS o, ANY_VALUE(s ORDER BY x DESC) FILTER (WHERE b) AS p, "
    "ANY_VALUE(x) AS q FROM t GROUP BY 1",
    "SELECT window_start, LISTAGG(s ORDER BY x) AS m, ARRAY_AGG(s ORDER BY x) AS n, COLLECT(s ORDER BY x) AS o FROM "
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND)) GROUP BY window_start, window_end": ""
    "SELECT time_bucket(INTERVAL '20 seconds', ts) AS w, STRING_AGG(s ORDER BY x) AS m, ARRAY_AGG(s ORDER BY x) AS n, "
    "ARRAY_AGG(s ORDER BY x) FILTER (WHERE s IS NOT NULL) AS o FROM t GROUP BY 1",
    # Ties are in ascending order.
    "SELECT window_start, ARRAY_AGG(x ORDER BY k DESC) AS m, ARRAY_AGG(v ORDER BY b, k) AS n, ARRAY_AGG(s ORDER BY 1 DESC) "
    "AS o, ARRAY_AGG(a ORDER BY b DESC NULLS FIRST, k DESC) AS p FROM "
    "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end": ""
    "SELECT time_bucket(INTERVAL '1 minute', ts) AS w, ARRAY_AGG(x ORDER BY k DESC, x) AS m, "
    "ARRAY_AGG(v ORDER BY b, k, v) AS n, ARRAY_AGG(s ORDER BY s) AS o, "
    "ARRAY_AGG(a ORDER BY b DESC NULLS FIRST, k DESC, a) AS p FROM t GROUP BY 1",
    # LATERAL VIEW, of Spark and Hive.
    "SELECT x, e FROM t LATERAL VIEW explode(a) AS e": "SELECT x, UNNEST(a) AS e FROM t",
    "SELECT t.x, u.e, f FROM t LATERAL VIEW OUTER explode(a) u AS e LATERAL VIEW explode_outer(c) AS f WHERE e + f > 1": ""
    "SELECT t.x, e, f FROM t LEFT JOIN UNNEST(a) AS u (e) ON TRUE LEFT JOIN UNNEST(c) AS w (f) ON TRUE WHERE e + f > 1",
    "SELECT x, e, f FROM t LATERAL VIEW explode(aa) u AS e LATERAL VIEW explode(e) w AS f": ""
    "SELECT x, e, UNNEST(e) AS f FROM (SELECT x, UNNEST(aa) AS e FROM t)",
    "SELECT x, p, e FROM t LATERAL VIEW posexplode(a) u AS p, e": ""
    "SELECT x, CAST(UNNEST(range(len(a))) AS INTEGER) AS p, UNNEST(a) AS e FROM t",
    "SELECT x, u.* FROM t LATERAL VIEW OUTER posexplode(a) u AS p, e": ""
    "SELECT x, CAST(UNNEST(range(len(z))) + CASE WHEN COALESCE(len(a), 0) = 0 THEN NULL ELSE 0 END AS INTEGER) AS p, "
    "UNNEST(z) AS e FROM (SELECT *, CASE WHEN len(a) > 0 THEN a ELSE [NULL] END AS z FROM t)",
    "SELECT x, p, q FROM t LATERAL VIEW explode(m) u AS p, q": ""
    "SELECT x, e.key AS p, e.value AS q FROM (SELECT x, UNNEST(map_entries(m)) AS e FROM t)",
    "SELECT p, COUNT(*) AS n FROM t LATERAL VIEW inline(rs) u AS p, q GROUP BY p": ""
    "SELECT e.f AS p, COUNT(*) AS n FROM (SELECT UNNEST(rs) AS e FROM t) GROUP BY 1",
    # Slices of overlapping windows are shared: what is first among them is not what came first.
    "SELECT window_end, MODE(k) AS m FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '20' "
    "SECOND)) GROUP BY window_start, window_end": ""
    "SELECT time_bucket(INTERVAL '10 seconds', ts) + INTERVAL (i * 10) SECOND AS e, MODE(k ORDER BY k) AS m "
    "FROM t, range(1, 3) AS w(i) GROUP BY 1",
    # A key inside of another call that is no more as it was written.
    "SELECT concat(initcap(s), 'x') AS y, COUNT(*) AS n FROM t GROUP BY initcap(s)": ""
    "SELECT upper(s[1]) || lower(s[2:]) || 'x' AS y, COUNT(*) AS n FROM t GROUP BY 1",
    "SELECT concat(initcap(concat(s, 'q')), 'x') AS y, MAX(concat(initcap(s), 'b')) AS m FROM t "
    "GROUP BY initcap(concat(s, 'q')) HAVING concat(initcap(concat(s, 'q')), 'x') > 'B'": ""
    "SELECT q || 'x' AS y, MAX(p) AS m FROM (SELECT upper((s || 'q')[1]) || lower((s || 'q')[2:]) AS q, "
    "upper(s[1]) || lower(s[2:]) || 'b' AS p FROM t) GROUP BY q HAVING q || 'x' > 'B'",
    # The number of a row in its table (in DuckDB another one until the transaction that made the row is committed).
    "SELECT rowid, x, rowid + 1 AS n FROM t WHERE rowid = 3 OR rowid > 6": "SELECT i, x, i + 1 AS n FROM "
    "(SELECT *, ROW_NUMBER() OVER () - 1 AS i FROM t) WHERE i = 3 OR i > 6",
    "SELECT k, MIN(rowid) AS a, MAX(o.rowid) AS b, (SELECT MAX(rowid) FROM t WHERE t.k = o.k) AS c FROM t AS o "
    "GROUP BY k": ""
    "SELECT k, MIN(i) AS a, MAX(i) AS b, MAX(i) AS c FROM (SELECT *, ROW_NUMBER() OVER () - 1 AS i FROM t) GROUP BY k",
    "SELECT o.*, p.rowid AS j FROM t AS o JOIN t AS p ON o.rowid = p.v": ""
    "SELECT o.* EXCLUDE (i), p.i AS j FROM (SELECT *, ROW_NUMBER() OVER () - 1 AS i FROM t) AS o "
    "JOIN (SELECT *, ROW_NUMBER() OVER () - 1 AS i FROM t) AS p ON o.i = p.v",
    "SELECT t, rowid FROM t ORDER BY rowid DESC LIMIT 2": ""
    "SELECT t, i FROM (SELECT t, ROW_NUMBER() OVER () - 1 AS i FROM t) ORDER BY i DESC LIMIT 2",
    "SELECT rowid FROM (SELECT k AS rowid FROM t)": "SELECT k FROM t",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("query", SPELLED)
def test_rows_are_those_of_duckdb_in_its_own_spelling(query: str, tmp_path: Path) -> None:
    check_verbatim(tmp_path, query, duckdb_says=SPELLED[query])


def test_a_second_row_of_what_stands_for_a_value_stops_the_run(tmp_path: Path) -> None:
    query = "SELECT u.z, (SELECT s FROM t WHERE t.k = u.z) AS s FROM (VALUES (1), (5)) AS u (z)"
    text = declared(ROWS[:4], tmp_path) + f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};\n"
    (tmp_path / "p.sql").write_text(text)
    run_here(plan_file(tmp_path / "p.sql"), tmp_path, state="one")  # k is 0 twice, which nothing asks for
    declared(ROWS[:5], tmp_path)
    with pytest.raises(DiagnosticError, match=r"gives more than one row.*rows: 2"):
        run_here(plan_file(tmp_path / "p.sql"), tmp_path, state="two")


def test_an_interval_that_arrow_can_not_hold_stops_the_run(tmp_path: Path) -> None:
    query = "SELECT to_hours(3000000 * k) AS z FROM t"
    text = declared(ROWS, tmp_path) + f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};\n"
    (tmp_path / "p.sql").write_text(text)
    with pytest.raises(DiagnosticError) as raised:
        run_here(plan_file(tmp_path / "p.sql"), tmp_path)
    assert "an INTERVAL of more than 2562046 hours" in str(raised.value)


def test_a_long_series_is_no_list(tmp_path: Path) -> None:
    text = "SELECT COUNT(*) AS n FROM generate_series(1, 10000000) AS r(i) WHERE i < 0;"
    (tmp_path / "p.sql").write_text(text)
    planned = plan_file(tmp_path / "p.sql")
    made = [to_duckdb(planned, lambda _: []).sinks[0][1], str(planned.physical)]
    assert all("CROSS JOIN generate_series(1, 10000000)" in sql and "unnest(" not in sql for sql in made)


def _cube(columns: int) -> str:
    keys = ", ".join(f"c{n}" for n in range(columns))
    copies = ", ".join(f"k AS c{n}" for n in range(columns))
    return f"SELECT {keys}, COUNT(*) AS n FROM (SELECT {copies} FROM t) GROUP BY CUBE ({keys})"


def test_a_cube_costs_no_more_than_its_sets(tmp_path: Path) -> None:
    """Each set was looked up among all of them, and written out as if it stood there twice."""

    def sorts(columns: int) -> int:
        (tmp_path / "p.sql").write_text(declared([], tmp_path) + f"{_cube(columns)};")
        counted = 0

        def of(values: Iterable[Any]) -> list[Any]:
            nonlocal counted
            counted += 1
            return sorted(values)

        with mock.patch.object(aggregate, "sorted", of, create=True):
            plan_file(tmp_path / "p.sql")
        return counted

    assert sorts(8) <= 5 * sorts(6)


def test_a_cube_of_more_sets_than_there_can_be_is_refused_at_once(tmp_path: Path) -> None:
    for query in (
        _cube(16),
        _cube(40),
        _cube(9).replace("CUBE", "CUBE (c0, c1, c2, c3, c4, c5, c6, c7), CUBE"),
    ):
        (tmp_path / "p.sql").write_text(declared([], tmp_path) + f"{query};")
        with pytest.raises(DiagnosticError, match="65,535 are the most"):
            plan_file(tmp_path / "p.sql")
