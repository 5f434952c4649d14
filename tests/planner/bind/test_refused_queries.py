"""Updating queries that can't be run: each is refused by name, with what to write instead."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

TABLE = """
CREATE TABLE t (k INT, v BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""
SESSION = "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECOND)"
OF_FIRST_ROWS = SESSION.replace(
    "TABLE t", "TABLE (SELECT * FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v) = 1)"
)
SESSIONS = [
    (
        f"window_start, COUNT(*) FROM TABLE({SESSION}) GROUP BY window_start",
        "SQL044",
        "when a SESSION window ends",
    ),
    (
        f"window_start, 1 AS n FROM TABLE({SESSION}) GROUP BY window_end",
        "SQL045",
        "`window_start` is neither in GROUP BY",
    ),
    ("k FROM TABLE(" + SESSION.replace("k,", "k + 1,") + ")", "SQL020", "by columns, not by expressions"),
    ("k FROM TABLE(" + SESSION.replace("5", "0") + ")", "SQL020", "the gap of SESSION must be positive"),
    ("k FROM TABLE(" + SESSION.replace("SECOND", "MONTH") + ")", "SQL020", "can't have months or years"),
    ("k FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts)))", "SQL004", "SESSION misses GAP"),
    (
        f"k FROM TABLE(TUMBLE(TABLE (SELECT * FROM TABLE({SESSION})), DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
        "SQL021",
        "`ts` is not an event-time column",
    ),
    (
        f"window_end, COUNT(*) FROM TABLE(TUMBLE(TABLE (SELECT window_time AS w, k FROM TABLE({SESSION})), "
        "DESCRIPTOR(w), INTERVAL '1' MINUTE)) GROUP BY window_end EMIT CHANGES",
        "SQL072",
        "a window over updating rows",
    ),
    (f"k FROM TABLE({OF_FIRST_ROWS})", "SQL072", "a SESSION over updating rows"),
    (
        "k FROM t GROUP BY SESSION(ts, INTERVAL '5' SECOND, k), k",
        "SQL020",
        "SESSION takes 2 arguments, not 3",
    ),
    ("COUNT(*) FROM t GROUP BY SESSION(ts, INTERVAL '5' SECOND), k % 2", "SQL020", "partitioned by columns"),
]
RANKED = "SELECT * FROM (SELECT k, ROW_NUMBER() OVER (ORDER BY v) AS rn FROM t) WHERE"

REFUSED = [
    *[(f"SELECT {query}", code, text) for query, code, text in SESSIONS],
    ("SELECT k FROM t FETCH FIRST 3 ROWS WITH TIES", "SQL064", "WITH TIES needs ORDER BY"),
    ("SELECT k FROM t ORDER BY v FETCH FIRST 3 PERCENT ROWS WITH TIES", "SQL100", "PERCENT WITH TIES"),
    ("SELECT k FROM t ORDER BY v LIMIT 101%", "SQL064", "a number from 0 to 100"),
    ("SELECT k FROM t ORDER BY v LIMIT 5 / 2", "SQL064", "LIMIT needs a whole number"),
    ("SELECT RANDOM() AS r, SUM(v) OVER (ORDER BY r) AS z FROM t", "SQL010", "unknown column `r`"),
    ("SELECT k FROM t ORDER BY v LIMIT k", "SQL064", "LIMIT needs a whole number"),
    (
        "SELECT k FROM t ORDER BY v LIMIT (SELECT MAX(k) FROM t) PERCENT",
        "SQL064",
        "needs a number from 0 to 100",
    ),
    ("SELECT k FROM t ORDER BY v LIMIT 2 OFFSET 0 - 1", "SQL064", "OFFSET needs a whole number"),
    (
        "SELECT a.k FROM (SELECT k FROM t ORDER BY v) AS a JOIN t AS b ON a.k = b.k LIMIT 1",
        "SQL062",
        "ORDER BY without LIMIT in a sub-query",
    ),
    (
        "SELECT LIST(DISTINCT k) FROM (SELECT k FROM t ORDER BY v)",
        "SQL062",
        "ORDER BY without LIMIT in a sub-query",
    ),
    (
        "WITH o AS (SELECT k FROM t ORDER BY v) SELECT LIST(k) AS n FROM (SELECT k FROM o GROUP BY k)",
        "SQL062",
        "in a sub-query",
    ),
    ("SELECT k FROM t ORDER BY v LIMIT 3 BY k", "SQL100", "LIMIT … BY"),
    ("SELECT k, ARRAY_AGG(v ORDER BY ALL) FROM t GROUP BY k", "SQL100", "ORDER BY ALL inside an aggregate"),
    ("SELECT k, MODE(v ORDER BY ALL DESC) FROM t GROUP BY k", "SQL100", "ORDER BY ALL inside an aggregate"),
    *[
        (
            f"SELECT k, COUNT(*) FROM t GROUP BY {keys}",
            "SQL042",
            f"GROUP BY {shown}, but the SELECT list has 2 items",
        )
        for keys, shown in (
            ("-1", "-1"),
            ("k, -1", "-1"),
            ("k, (-1)", "-1"),
            ("k, - (1)", "-1"),
            ("k, 0", "0"),
            ("(3)", "3"),
        )
    ],
    *[
        (f"SELECT k, COUNT(*) FROM t GROUP BY k, {number}", "SQL042", f"GROUP BY {number}, a constant")
        for number in ("1.5", "-1.5", "1e0")
    ],
    ("SELECT k FROM t ORDER BY v LIMIT ALL", "SQL062", "ORDER BY without LIMIT"),
    (f"SELECT k FROM t LIMIT {2**61 + 1}", "SQL064", "more rows than there can be"),
    ("SELECT k FROM t LIMIT 1 OFFSET 99999999999999999999", "SQL064", "more rows than there can be"),
    ("SELECT k FROM t LATERAL VIEW explode([1]) u", "SQL100", "LATERAL VIEW EXPLODE without names"),
    ("SELECT k FROM t LATERAL VIEW json_tuple(s, 'a') u AS x", "SQL100", "LATERAL VIEW JSON_TUPLE"),
    ("SELECT * FROM (PIVOT t ON s USING SUM(v) GROUP BY k)", "SQL100", "PIVOT without a list of values"),
    (
        "SELECT * FROM (PIVOT t ON s IN (SELECT s FROM t) USING SUM(v))",
        "SQL100",
        "PIVOT without a list of values",
    ),
    ("SELECT * FROM t PIVOT (SUM(w) FOR s IN ('a') GROUP BY k)", "SQL010", "unknown column `w`"),
    ("SELECT * FROM t PIVOT (SUM(v) FOR s IN ('a') GROUP BY kk)", "SQL010", "unknown column `kk`"),
    ("SELECT * FROM t PIVOT (SUM(v) FOR s IN ('a', 'a') GROUP BY k)", "SQL054", "two columns `a`"),
    ("SELECT * FROM t PIVOT (SUM(v) FOR s IN (upper('a')))", "SQL100", "a value of PIVOT without a name"),
    ("SELECT * FROM t PIVOT (SUM(v) FILTER (WHERE v > 1) FOR s IN ('a'))", "SQL100", "FILTER inside PIVOT"),
    (
        "SELECT * FROM t PIVOT (COALESCE(MAX(v), MIN(v)) AS d FOR s IN ('a'))",
        "SQL100",
        "anything but one aggregate",
    ),
    ("SELECT * FROM t PIVOT (SUM(v) FOR (s, k) IN (('a', 1), ('b')))", "SQL057", "1 values for 2 columns"),
    ("SELECT * FROM t UNPIVOT ((x, y) FOR n IN (k, v))", "SQL057", "1 columns of UNPIVOT for 2 names"),
    ("SELECT * FROM t UNPIVOT (x FOR n IN (k, w))", "SQL010", "unknown column `w`"),
    ("SELECT * FROM (UNPIVOT t ON k + 1, v)", "SQL100", "an expression of UNPIVOT without a name"),
    ("SELECT #20 FROM t", "SQL010", "unknown column `#20`"),
    (
        "SELECT SUM(v) + 1 AS z, (SELECT COUNT(*) FROM t WHERE v < z) AS y FROM t",
        "SQL100",
        "a name of what is computed of groups, in a sub-query, can't be run yet",
    ),
    ("SELECT k FROM t ORDER BY 7 LIMIT 1", "SQL063", "ORDER BY 7, but the result has 1 column"),
    ("SELECT k FROM t ORDER BY -1 LIMIT 1", "SQL063", "ORDER BY -1, but the result has 1 column"),
    ("SELECT k FROM t ORDER BY (2) LIMIT 1", "SQL063", "ORDER BY 2, but the result has 1 column"),
    ("SELECT k FROM t ORDER BY 'k' LIMIT 1", "SQL063", "ORDER BY 'k' orders nothing"),
    ("SELECT k FROM t ORDER BY k, (NULL) DESC LIMIT 1", "SQL063", "NULL orders nothing"),
    ("SELECT k FROM t ORDER BY 1.5 LIMIT 1", "SQL063", "ORDER BY 1.5 orders nothing"),
    ("SELECT k, MAX(v) FROM t GROUP BY k ORDER BY TRUE LIMIT 1", "SQL063", "ORDER BY TRUE orders nothing"),
    ("SELECT ARRAY_AGG(v ORDER BY NULL) FROM t", "SQL063", "ORDER BY NULL orders nothing"),
    ("SELECT ANY_VALUE(v ORDER BY s, 'k') FROM t", "SQL063", "ORDER BY 'k' orders nothing"),
    ("SELECT STRING_AGG(DISTINCT s, ',' ORDER BY TRUE) FROM t", "SQL063", "ORDER BY TRUE orders nothing"),
    (
        "SELECT DISTINCT k, COUNT(*) FROM t GROUP BY k ORDER BY MAX(v) LIMIT 1",
        "SQL063",
        "columns of the result",
    ),
    ("SELECT SUM(v) OVER (ORDER BY k ROWS 2 PRECEDING EXCLUDE GROUP) FROM t", "SQL100", "EXCLUDE GROUP"),
    (
        "SELECT *, RANK() OVER (ORDER BY k) AS r FROM t GROUP BY k, v QUALIFY r = 1",
        "SQL100",
        "beside the rank",
    ),
    ("SELECT k, v, COUNT(*) FROM t GROUP BY k, v GROUPING SETS ((k))", "SQL100", "keys GROUPING SETS"),
    ("SELECT k, COUNT(*) FROM t GROUP BY CUBE (k), v WITH ROLLUP", "SQL100", "WITH ROLLUP behind other"),
    ("SELECT MAX(v) RESPECT NULLS FROM t", "TYP011", "RESPECT NULLS can only follow ARRAY_AGG"),
    ("SELECT ARRAY_AGG(v ORDER BY k LIMIT 2) FROM t", "SQL100", "LIMIT inside ARRAY_AGG"),
    ("SELECT COUNT(t.*) FROM t", "SQL100", "t.* inside COUNT"),
    ("SELECT LISTAGG(s, NULL) FROM t", "TYP002", "the separator can't be NULL"),
    ("SELECT LISTAGG() FROM t", "TYP002", "`LISTAGG` does not take 0 arguments"),
    ("SELECT LISTAGG(s, ',', s) FROM t", "TYP002", "`LISTAGG` does not take 3 arguments"),
    ("SELECT COUNT(DISTINCT *) FROM t", "SQL100", "COUNT(DISTINCT *)"),
    ("SELECT k FROM t ORDER BY s COLLATE nocase LIMIT 1", "SQL100", "COLLATE"),
    ("SELECT s COLLATE nocase AS c, COUNT(*) FROM t GROUP BY 1", "SQL100", "COLLATE"),
    ("SELECT k FROM t AT (TIMESTAMP => '2024-01-01')", "SQL100", "AT and BEFORE behind a table"),
    ("SELECT PERCENTILE_CONT(NULL) WITHIN GROUP (ORDER BY v) FROM t", "TYP002", "can't be NULL"),
    ("SELECT QUANTILE_DISC(v, 1.5) FROM t", "TYP002", "can't be 1.5"),
    ("SELECT k, EXPLODE(s) FROM t", "TYP001", "no function `explode`"),
    ("SELECT DISTINCT ON (k) k, v FROM (SELECT DISTINCT * FROM t)", "SQL067", "DISTINCT ON without ORDER BY"),
    (
        "SELECT DISTINCT ON (3) k, v FROM t ORDER BY v",
        "SQL063",
        "DISTINCT ON 3, but the result has 2 columns",
    ),
    ("SELECT k FROM t EXCEPT BY NAME SELECT k FROM t", "SQL100", "EXCEPT BY NAME"),
    ("SELECT k, k FROM t UNION ALL BY NAME SELECT k FROM t", "SQL054", "are called `k`"),
    (
        "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT x FROM r",
        "SQL100",
        "WITH RECURSIVE",
    ),
    ("SELECT GROUP_ID() AS g, k FROM t", "TYP001", "there is no function `group_id`"),
    ("SELECT k, FROM t", "SQL001", "nothing follows this comma"),
    ("SELECT k FROM t HAVING k > 1", "SQL045", "`k` is neither in GROUP BY"),
    ("SELECT k, LISTAGG(DISTINCT s ORDER BY v) FROM t GROUP BY k", "SQL100", "ordered by something else"),
    ("SELECT DISTINCT md5_number(s) AS a FROM t", "TYP010", "the type of `a` is not known"),
    ("SELECT (k, s)[3] FROM t", "TYP006", "chosen by a literal number, 1 to 2"),
    ("SELECT (k, s).a FROM t", "TYP006", "have no names"),
    ("SELECT CAST(v AS UHUGEINT) AS a FROM t", "TYP009", "UHUGEINT: whole numbers are kept with a sign"),
    ("SELECT CAST(v AS UNION(a INT, b TEXT)) AS a FROM t", "TYP009", "a value is kept with one type"),
    ("SELECT * FROM t POSITIONAL JOIN t AS u", "SQL100", "POSITIONAL JOIN"),
    (
        "SELECT a.k FROM t AS a, t AS b FULL JOIN t AS c ON a.k = c.k",
        "SQL100",
        "reads what stands before a comma",
    ),
    (
        "SELECT a.k FROM t AS a, LATERAL (SELECT a.v) AS b RIGHT JOIN t AS c ON b.v = c.v",
        "SQL100",
        "reads what stands before a comma",
    ),
    (
        "SELECT LAG(v) OVER (ORDER BY ts) IN (SELECT v FROM t) AS n FROM t",
        "SQL100",
        "OVER in what IN compares with a sub-query",
    ),
    ("SELECT s.nope() AS a FROM t", "TYP001", "there is no function `nope`"),
    ("SELECT v, x.m FROM t, (SELECT MAX(t.zz) AS m) AS x", "SQL010", "unknown column `t.zz`"),
    ("SELECT () AS a FROM t", "TYP010", "a row without values"),
    (
        "SELECT (k, s) = (1, 2) AS a FROM t",
        "TYP003",
        "can't be compared with TUPLE(INTEGER, INTEGER)",
    ),
    ("SELECT k FROM t WHERE (k, v) = (SELECT k, v FROM t LIMIT 1)", "SQL036", "gives 2 columns, not 1"),
    ("SELECT ARRAY[md5_number(s)] AS a FROM t", "TYP010", "the type of `a` is not known"),
    (
        "SELECT k, COUNT(DISTINCT ARRAY[md5_number(s)]) FROM t GROUP BY k",
        "TYP010",
        "can't be kept in state",
    ),
    ("SELECT k FROM t RIGHT JOIN UNNEST(ARRAY[k]) AS u (e) ON TRUE", "SQL100", "RIGHT JOIN"),
    ("SELECT k FROM t ANTI JOIN UNNEST(ARRAY[k]) AS u (e) ON TRUE", "SQL100", "ANTI JOIN"),
    ("SELECT k FROM t NATURAL JOIN UNNEST(ARRAY[k]) AS u (e)", "SQL100", "NATURAL JOIN"),
    ("SELECT k FROM t JOIN UNNEST(ARRAY[k]) AS u (e) USING (k)", "SQL100", "a join condition with UNNEST"),
    ("WITH a AS (SELECT k FROM t), A AS (SELECT v FROM t) SELECT * FROM a", "CAT001", "declared twice"),
    ("SELECT k FROM t ORDER BY k WITH FILL LIMIT 1", "SQL100", "WITH FILL"),
    ("SELECT k FROM t CROSS JOIN UNNEST(s) AS u (e)", "SQL033", "UNNEST needs an array or a map"),
    ("SELECT k FROM t WHERE UNNEST(ARRAY[k]) = 1", "TYP005", "UNNEST is not allowed here"),
    ("SELECT SUM(UNNEST(ARRAY[k])) FROM t", "TYP005", "UNNEST is not allowed here"),
    ("SELECT SUM(k) FILTER (WHERE UNNEST(ARRAY[TRUE])) FROM t", "TYP005", "UNNEST is not allowed here"),
    ("SELECT k, COUNT(*) FROM t GROUP BY k HAVING UNNEST([k]) = 1", "TYP005", "UNNEST is not allowed here"),
    ("SELECT k FROM t ORDER BY UNNEST([k]) LIMIT 1", "TYP005", "UNNEST is not allowed here"),
    ("SELECT UNNEST(UNNEST([[k]])) FROM t", "TYP005", "UNNEST is not allowed here"),
    ("SELECT e FROM t CROSS JOIN UNNEST(UNNEST([[k]])) AS u (e)", "TYP005", "UNNEST is not allowed here"),
    ("SELECT list_transform([k], lambda x: UNNEST([x])) FROM t", "TYP005", "UNNEST is not allowed here"),
    (
        "SELECT RANK() OVER (ORDER BY UNNEST([k])) AS n FROM t QUALIFY n = 1",
        "TYP005",
        "UNNEST is not allowed",
    ),
    ("SELECT UNNEST([k]) AS e FROM t QUALIFY UNNEST([k]) = 1", "TYP005", "UNNEST is not allowed here"),
    ("SELECT a.k FROM t AS a JOIN t AS b ON UNNEST([a.k]) = b.k", "TYP005", "UNNEST is not allowed here"),
    ("SELECT * EXCLUDE (typo) FROM t", "SQL010", "unknown column `typo` in EXCLUDE"),
    ("SELECT * EXCEPT (K, kk) FROM t", "SQL010", "unknown column `kk` in EXCLUDE"),
    ("SELECT t.* EXCLUDE (t.vv) FROM t", "SQL010", "unknown column `t.vv` in EXCLUDE"),
    ("SELECT * EXCLUDE (u.k) FROM t", "SQL010", "unknown column `u.k` in EXCLUDE"),
    ("SELECT * REPLACE (1 AS typo) FROM t", "SQL010", "unknown column `typo` in REPLACE"),
    ("SELECT * RENAME (typo AS k) FROM t", "SQL010", "unknown column `typo` in RENAME"),
    ("SELECT * EXCLUDE (k, v, K) FROM t", "SQL039", "`K` stands twice in EXCLUDE"),
    ("SELECT * REPLACE (1 AS k, 2 AS k) FROM t", "SQL039", "`k` stands twice in REPLACE"),
    ("SELECT * EXCLUDE (k) REPLACE (1 AS k) FROM t", "SQL039", "`k` stands in EXCLUDE and in REPLACE"),
    ("SELECT * EXCLUDE (k) RENAME (k AS kk) FROM t", "SQL039", "`k` stands in EXCLUDE and in RENAME"),
    ("SELECT * EXCLUDE (k, v, s, ts) FROM t", "SQL034", "gives no columns"),
    ("SELECT * LIKE 'z%' FROM t", "SQL034", "no column matches the pattern"),
    ("SELECT * LIKE s FROM t", "SQL100", "* inside an expression"),
    ("SELECT * AS z FROM t", "SQL100", "* inside an expression"),
    ("SELECT * + 1 FROM t", "SQL100", "* inside an expression"),
    ("SELECT COLUMNS('k') + COLUMNS(*) FROM t", "SQL100", "COLUMNS of other columns"),
    ("SELECT COLUMNS(k) FROM t", "SQL100", "COLUMNS of an expression that is no pattern"),
    (
        "SELECT COLUMNS(lambda c: length(c) > 1) FROM t",
        "SQL100",
        "COLUMNS of an expression that is no pattern",
    ),
    ("SELECT COLUMNS(['k', 'q']) FROM t", "SQL010", "unknown column `q` in COLUMNS"),
    ("SELECT COLUMNS('q') FROM t", "SQL034", "no column matches the pattern"),
    ("SELECT *COLUMNS('k') FROM t", "SQL100", "that is no argument of a function"),
    ("SELECT COUNT(*) AS n FROM t HAVING COLUMNS('k') > 1", "SQL100", "COLUMNS(…)"),
    ("SELECT COUNT(* EXCLUDE (k)) FROM t", "SQL100", "EXCLUDE, REPLACE or RENAME inside an expression"),
    (
        "SELECT MODE(DISTINCT k ORDER BY v) FROM t",
        "SQL100",
        "MODE(DISTINCT …) ordered by something else than its argument",
    ),
    (
        "SELECT MODE(DISTINCT k ORDER BY k DESC, v) FROM t",
        "SQL100",
        "MODE(DISTINCT …) ordered by something else",
    ),
    ("SELECT QUANTILE_DISC(v, 0.5 ORDER BY k DESC) FROM t", "SQL100", "ORDER BY inside QUANTILE_DISC"),
    ("SELECT MAX_BY(k, v, 2 ORDER BY k) FROM t", "SQL100", "ORDER BY inside MAX_BY"),
    ("SELECT QUANTILE_CONT(v, 0.5 ORDER BY k) FROM t", "SQL100", "ORDER BY inside QUANTILE_CONT"),
    ("SELECT QUANTILE(v, 0.5 ORDER BY v DESC) FROM t", "SQL100", "ORDER BY inside QUANTILE"),
    ("SELECT QUANTILE_CONT(v, [0.5, 2]) FROM t", "TYP002", "can't be 2"),
    ("SELECT QUANTILE_CONT(v, [0.5, NULL]) FROM t", "TYP002", "can't be NULL"),
    ("SELECT QUANTILE_DISC(v, [0.5, -0.5]) FROM t", "TYP002", "some of these shares are negative"),
    ("SELECT PERCENTILE_DISC(-0.5) WITHIN GROUP (ORDER BY v) FROM t", "TYP002", "can't be -0.5"),
    ("SELECT PERCENTILE_CONT(1.5) WITHIN GROUP (ORDER BY v DESC) FROM t", "TYP002", "can't be 1.5"),
    ("SELECT PERCENTILE_DISC([0, 1]) WITHIN GROUP (ORDER BY v DESC) FROM t", "TYP011", "with 0 in it"),
    ("SELECT GROUPING(), COUNT(*) FROM t", "SQL046", "GROUPING without a key in GROUP BY"),
    ("SELECT GROUPING(k) FROM t", "TYP001", "no function `grouping`"),
    ("SELECT UNNEST(s) FROM t", "SQL033", "UNNEST needs an array, but this is VARCHAR"),
    ("SELECT UNNEST('abc') FROM t", "SQL033", "UNNEST needs an array, but this is VARCHAR"),
    ("SELECT UNNEST(k) FROM t GROUP BY k", "SQL033", "UNNEST needs an array, but this is INTEGER"),
    ("SELECT UNNEST(map([k], [v])) FROM t", "SQL033", "needs an array, but this is MAP(INTEGER, BIGINT)"),
    ("SELECT UNNEST({'f': k}) + 1 FROM t", "SQL033", "needs an array, but this is STRUCT"),
    ("SELECT UNNEST([[k]], recursive := 1) FROM t", "SQL100", "UNNEST with recursive"),
    ("SELECT UNNEST([[k]], recursive := true) + 1 FROM t", "SQL100", "UNNEST with recursive"),
    ("SELECT UNNEST([[k]], max_depth := 2), UNNEST([k]) FROM t", "SQL100", "UNNEST beside one that goes to"),
    ("SELECT UNNEST([[k]], max_depth := 0) FROM t", "SQL100", "UNNEST with max_depth"),
    (
        "SELECT LPAD(string => s, count => 5, character => '-') FROM t",
        "TYP002",
        "given by their order, without names",
    ),
    ("SELECT UNION_VALUE(a := k) AS z FROM t", "TYP011", "UNION: a column has one type"),
    ("SELECT {} AS z FROM t", "TYP010", "`z` has a struct without fields"),
    ("SELECT [ROW()] AS z FROM t", "TYP010", "`z` has a struct without fields"),
    (
        "SELECT STRING_AGG(DISTINCT s, ',' ORDER BY v) FROM t",
        "SQL100",
        "ordered by something else than its argument",
    ),
    (
        "SELECT STRING_AGG(DISTINCT s, ',' ORDER BY LENGTH(s), k) FROM t",
        "SQL100",
        "ordered by something else than its argument",
    ),
    (
        "SELECT STRING_AGG(DISTINCT UPPER(s), ',' ORDER BY LENGTH(s)) FROM t",
        "SQL100",
        "ordered by something else than its argument",
    ),
    ("SELECT UNNEST([k], [v]) FROM t", "TYP002", "`unnest` takes one array, not 2"),
    ("SELECT UNNEST() FROM t", "TYP002", "`unnest` takes one array, not 0"),
    ("SELECT md5_number(s) AS a FROM t", "TYP010", "the type of `a` is not known"),
    (
        "SELECT md5_number(s) AS a, COUNT(*) AS n FROM t GROUP BY a",
        "TYP010",
        "the type of `a` is not known",
    ),
    ("SELECT MAX_BY(md5_number(s), v) AS a FROM t", "TYP010", "the type of this argument is not known"),
    ("SELECT MIN_BY(s, md5_number(s)) FROM t", "TYP010", "the type of this argument is not known"),
    ("SELECT s LIKE ANY(['a%', 'b%']) AS z FROM t", "SQL100", "a pattern with ANY of a list"),
    ("SELECT s NOT ILIKE ANY(['a%']) AS z FROM t", "SQL100", "a pattern with ANY of a list"),
    ("SELECT BITSTRING_AGG(v) AS z FROM t", "TYP002", "the least and the greatest integer are missing"),
    ("SELECT s LIKE ALL(['a%', 'b%']) AS z FROM t", "SQL100", "a pattern with ALL of a list"),
    ("SELECT s !~ ANY(['a.*']) AS z FROM t", "SQL100", "a pattern with ANY of a list"),
    ("SELECT v > ANY (1, 2) AS z FROM t", "SQL100", "ANY of a list of values"),
    ("SELECT v > SOME (1, 2) AS z FROM t", "SQL100", "SOME of a list of values"),
    ("SELECT v <> ALL (1, 2) AS z FROM t", "SQL100", "ALL of a list of values"),
    ("SELECT s SIMILAR TO 'a!%' ESCAPE 'xy' AS z FROM t", "TYP011", "ESCAPE takes one character"),
    ("SELECT s LIKE 'a!%' ESCAPE '!!' AS z FROM t", "TYP002", "ESCAPE takes one character"),
    ("SELECT k FROM t WHERE s", "TYP004", "WHERE needs a BOOLEAN, this is VARCHAR"),
    ("SELECT k FROM t WHERE 'maybe'", "TYP004", "WHERE needs a BOOLEAN, this is 'maybe'"),
    ("SELECT k FROM t WHERE k = 1 AND s", "TYP004", "AND needs a BOOLEAN, this is VARCHAR"),
    ("SELECT NOT s AS z FROM t", "TYP004", "NOT needs a BOOLEAN, this is VARCHAR"),
    ("SELECT CASE WHEN s THEN 1 END AS z FROM t", "TYP004", "WHEN needs a BOOLEAN, this is VARCHAR"),
    ("SELECT COUNT(*) FILTER (WHERE s) AS z FROM t", "TYP004", "FILTER needs a BOOLEAN, this is VARCHAR"),
    ("SELECT k, COUNT(*) FROM t GROUP BY k HAVING MAX(s)", "TYP004", "HAVING needs a BOOLEAN"),
    ("SELECT CASE WHEN k = 1 THEN 1 ELSE 'x' END AS z FROM t", "TYP003", "'x' is no INTEGER, which CASE"),
    ("SELECT CASE WHEN k = 1 THEN 'x' ELSE v END AS z FROM t", "TYP003", "'x' is no BIGINT, which CASE"),
    ("SELECT IF(k = 1, k, 'x') AS z FROM t", "TYP003", "'x' is no INTEGER"),
    (
        "SELECT COALESCE(k, 'x') AS z FROM t",
        "TYP003",
        "'x' is no value of the type that COALESCE makes of it",
    ),
    ("SELECT IFNULL(ts, 'x') AS z FROM t", "TYP003", "'x' is no value of the type that COALESCE"),
    ("SELECT GREATEST(v, 'x') AS z FROM t", "TYP003", "'x' is no value of the type that GREATEST"),
    ("SELECT [k, 'x'] AS z FROM t", "TYP003", "'x' is no INTEGER, which the list"),
    (
        "SELECT LIST_CONTAINS([k], 'x') AS z FROM t",
        "TYP003",
        "'x' is no value of the type that LIST_CONTAINS",
    ),
    ("SELECT CAST(s AS JSONB) AS z FROM t", "TYP009", "there is no type `JSONB`"),
    ("SELECT [y + i FOR y, i IN [k]] AS z FROM t", "SQL100", "a list comprehension"),
    ("SELECT SUM(v IGNORE NULLS) OVER w FROM t WINDOW w AS (ORDER BY ts)", "SQL100", "IGNORE NULLS"),
    ("SELECT SUM(v) IGNORE NULLS OVER (ORDER BY ts) FROM t", "SQL100", "IGNORE NULLS or RESPECT NULLS"),
    ("SELECT INTERVAL '100000000000' DAY AS z FROM t", "SQL005", "longer than an INTERVAL can be"),
    ("SELECT INTERVAL '3000000000' MONTH AS z FROM t", "SQL005", "longer than an INTERVAL can be"),
    ("SELECT INTERVAL '9999999999999999999' SECOND AS z FROM t", "SQL005", "longer than an INTERVAL can be"),
    ("SELECT CAST([ts] AS TIMESTAMP(3)[]) AS z FROM t", "TYP011", "inside another type can't cut off digits"),
    ("SELECT MAX_BY(DISTINCT s, v ORDER BY k) FROM t", "SQL100", "ORDER BY inside MAX_BY"),
    ("SELECT JSON_GROUP_OBJECT(s, v ORDER BY k) FROM t", "SQL100", "ORDER BY inside JSON_GROUP_OBJECT"),
    ("SELECT STRING_AGG(s, s) FROM t", "SQL100", "STRING_AGG with another argument in each row"),
    ("SELECT k FROM default_catalog.other.t", "SQL013", "default_catalog.other.t"),
    ("SELECT MAX(v, k) FROM t", "SQL100", "MAX with another argument in each row"),
    ("SELECT MAX(v, 0) FROM t", "TYP002", "0 can't say how many values"),
    ("SELECT APPROX_TOP_K(v, 2.5) FROM t", "TYP002", "2.5 can't say how many values"),
    ("SELECT APPROX_QUANTILE(v, -0.5) FROM t", "TYP002", "the share of a quantile can't be -0.5"),
    ("SELECT RESERVOIR_QUANTILE(v, 0.5, 100) FROM t", "SQL100", "RESERVOIR_QUANTILE with so many arguments"),
    ("SELECT k, GEOMEAN(v) OVER (PARTITION BY k) AS z FROM t", "SQL100", "GEOMEAN OVER"),
    ("SELECT QUANTILE_CONT(v, k) FROM t", "SQL100", "QUANTILE_CONT with another argument in each row"),
    ("SELECT k, s FROM t, LATERAL TABLE(words(s)) AS w (x)", "SQL100", "the table function WORDS"),
    ("SELECT k, x FROM t LEFT JOIN LATERAL TABLE(words(s)) AS w (x) ON TRUE", "SQL100", "function WORDS"),
    (
        "SELECT k, x FROM t RIGHT JOIN LATERAL (SELECT MAX(v) AS x FROM t) AS m ON TRUE",
        "SQL100",
        "RIGHT JOIN LATERAL",
    ),
    (
        "SELECT t.k FROM t FULL JOIN t AS b ON t.k = b.k AND EXISTS (SELECT 1 FROM t AS c WHERE c.k = t.k AND c.v = b.v)",
        "SQL100",
        "a sub-query in the ON of a FULL JOIN that reads both sides",
    ),
    (
        "SELECT k, COUNT(*) FILTER (WHERE GROUPING(k) = 0) FROM t GROUP BY ROLLUP (k)",
        "SQL100",
        "GROUPING inside",
    ),
    ("SELECT k, MAX(GROUPING_ID(k)) FROM t GROUP BY ROLLUP (k)", "SQL100", "GROUPING_ID inside an aggregate"),
    ("SELECT JSON_ARRAYAGG(v) OVER (PARTITION BY k) AS z FROM t", "SQL100", "JSON_GROUP_ARRAY OVER"),
    (
        "SELECT k, v FROM t UNION ALL CORRESPONDING SELECT v, k FROM t",
        "SQL100",
        "UNION BY NAME (CORRESPONDING)",
    ),
    ("SELECT k, v FROM t UNION CORRESPONDING BY (v) SELECT v, k FROM t", "SQL100", "(CORRESPONDING)"),
    ("SELECT k FROM t UNION ALL STRICT CORRESPONDING SELECT v FROM t", "SQL100", "STRICT UNION BY NAME"),
    ("SELECT k, v FROM t INNER UNION ALL BY NAME SELECT v, 3 AS x FROM t", "SQL100", "INNER UNION BY NAME"),
    ("SELECT k, v FROM t LEFT INTERSECT SELECT v, k FROM t", "SQL100", "LEFT INTERSECT"),
    ("SELECT k, SUM(v) AS s FROM t GROUP BY ALL k", "SQL100", "GROUP BY ALL with keys behind it"),
    (
        "SELECT CAST(s AS INT DEFAULT 0 ON CONVERSION ERROR) AS r FROM t",
        "TYP010",
        "DEFAULT … ON CONVERSION ERROR",
    ),
    ("SELECT CAST(s AS INT FORMAT '99') AS r FROM t", "TYP010", "a cast with FORMAT can't be run"),
    ("SELECT TRY_CAST(s AS INT FORMAT '99') AS r FROM t", "TYP010", "a cast with FORMAT can't be run"),
    ("SELECT s LIKE ANY ('a#%') ESCAPE '#' AS r FROM t", "TYP010", "ESCAPE follows LIKE"),
    ("SELECT s RLIKE 'a' ESCAPE '#' AS r FROM t", "TYP010", "ESCAPE follows LIKE"),
    ("SELECT s GLOB 'a' ESCAPE '#' AS r FROM t", "TYP010", "ESCAPE follows LIKE"),
    ("SELECT k !< 1 AS r FROM t", "SQL001", "there is no operator `!<`"),
    ("SELECT k FROM t WHERE k!>=1", "SQL001", "there is no operator `!>=`"),
    ("SELECT k IN UNNEST([1, 2]) AS r FROM t", "TYP010", "IN UNNEST(…) can't be run"),
    ("SELECT k IN s AS r FROM t", "TYP002", "no `contains` takes (VARCHAR, INTEGER)"),
    ("SELECT k IN t AS r FROM t", "TYP003", "can only be used on unnamed structs"),
    ("SELECT k IN map([s], [k]) AS r FROM t", "TYP003", "contains(MAP(K, V), K)"),
    ("SELECT AS STRUCT k FROM t", "SQL100", "SELECT AS STRUCT"),
    ("SELECT k, v FROM t INTERSECT SELECT k FROM t", "SQL030", "INTERSECT of 2 and 1 columns"),
    (
        "SELECT k FROM t EXCEPT ALL SELECT INTERVAL '1' DAY FROM t",
        "SQL031",
        "`k` of this EXCEPT ALL is INTEGER and INTERVAL",
    ),
]


@pytest.mark.parametrize(("query", "code", "expected"), REFUSED, ids=[q for q, _, _ in REFUSED])
def test_what_can_not_be_run_is_refused(query: str, code: str, expected: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(f"{TABLE}{query};", file="p.sql")
    [diagnostic] = raised.value.diagnostics
    assert isinstance(diagnostic, Diagnostic)
    assert diagnostic.code == code
    assert expected in diagnostic.message


def test_a_window_without_a_length_does_not_hide_other_mistakes() -> None:
    query = "SELECT kk FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND)) WHERE vv > 1"
    with pytest.raises(DiagnosticError) as raised:
        plan_file(f"{TABLE}{query};", file="p.sql")
    expected = [d.message for d in raised.value.diagnostics]
    assert sorted(expected) == ["HOP misses SIZE", "unknown column `kk`", "unknown column `vv`"]


def test_unnest_may_stand_in_lateral_table() -> None:
    plan_file(
        f"{TABLE}SELECT k, x FROM t, LATERAL TABLE(UNNEST(string_split(s, ' '))) AS w (x);", file="p.sql"
    )


@pytest.mark.parametrize("type_", ['"NULL"', '"NULL"[]', 'ROW<i "NULL">', 'MAP<STRING, "NULL">'])
def test_no_column_is_declared_to_have_no_value(type_: str) -> None:
    declared = TABLE.replace("s STRING", f"s {type_}")
    with pytest.raises(DiagnosticError) as raised:
        plan_file(f"{declared}SELECT k FROM t;", file="p.sql")
    assert [d.code for d in raised.value.diagnostics] == ["SQL003"]
    assert 'can\'t be declared as "NULL"' in raised.value.diagnostics[0].message
