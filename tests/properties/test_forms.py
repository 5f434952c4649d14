"""Forms of SQL: after every epoch a sink has what DuckDB gives for the query as it is written, over the rows read so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.examples import is_long
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.test_edited_answers import check_chain, planned
from tests.properties.test_joins import ROWS, TABLES, Input, expected, plan
from tests.properties.updating import TABLE, collecting, fetched

#: The form, and the same for DuckDB where it is spelled otherwise there.
WRITTEN: dict[str, str | tuple[str, str]] = {
    "select without from": "SELECT 1 AS x, 'a' AS s, CAST(NULL AS INT) AS n",
    "... of nothing": "SELECT 1 AS x WHERE false",
    "... counted": "SELECT COUNT(*) AS n, MAX(7) AS m",
    "... of the same twice": "SELECT 1 AS x UNION ALL SELECT 1",
    "... beside a table": "SELECT v, x FROM t, (SELECT 1 AS x) AS one",
    "... with values of queries": "SELECT (SELECT MAX(v) FROM t) AS x, EXISTS (SELECT 1 FROM c WHERE v > 2) AS y",
    "values": "SELECT * FROM (VALUES (1, 'x'), (2, NULL), (NULL, 'z'), (2, NULL)) AS r (a, b)",
    "... alone": "VALUES (1, 2.5), (3, 4)",
    "... without names": "SELECT col1, COUNT(*) AS n FROM (VALUES (1, 'x'), (2, NULL), (2, 'x')) GROUP BY col1",
    "... joined": "SELECT v, b FROM t JOIN (VALUES (1, 'x'), (2, NULL), (NULL, 'z'), (2, 'y')) AS r (a, b) ON k = a",
    "... joined, outer": "SELECT v, b FROM c FULL JOIN (VALUES (1, 'x'), (7, 'y')) AS r (a, b) ON k = a",
    "... that are not in a table": "SELECT a FROM (VALUES (1), (2), (9)) AS r (a) WHERE a NOT IN (SELECT id FROM c)",
    "... in a list": "SELECT v FROM t WHERE k IN (VALUES (1), (3))",
    "... of values around": "SELECT k, v, (SELECT MAX(x) FROM (VALUES (k), (v), (2)) AS r (x)) AS m FROM c",
    "... of one row around": "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM (VALUES (k)) AS r (x) WHERE x > v)",
    "... beside rows": "SELECT v FROM c UNION ALL VALUES (1), (NULL)",
    "... without those of a table": "VALUES (1), (2), (9) EXCEPT SELECT v FROM c",
    "... ranked": "SELECT a, ROW_NUMBER() OVER (ORDER BY a DESC) AS n FROM (VALUES (3), (1), (2)) AS r (a)",
    "... limited": "SELECT a FROM (VALUES (3), (1), (2)) AS r (a) ORDER BY a LIMIT 2",
    "range": "SELECT * FROM range(3)",
    "... with steps": "SELECT i * 2 AS x FROM range(10, 0, -3) AS r (i) WHERE i > 2",
    "... of times": "SELECT i FROM generate_series(DATE '2024-01-01', TIMESTAMP '2024-01-02', INTERVAL '6' HOUR) AS r (i)",
    "... by the function's name": "SELECT generate_series.generate_series AS x FROM generate_series(2)",
    "... aggregated": "SELECT i % 3 AS m, COUNT(*) AS n, SUM(i) AS total FROM range(100) AS r (i) GROUP BY i % 3",
    "... of nothing, by range": "SELECT COUNT(*) AS n FROM range(CAST(NULL AS INT))",
    "... beside each row": "SELECT v, i FROM t, range(2) AS r (i)",
    "... of each row": "SELECT v, i FROM c CROSS JOIN generate_series(1, v) AS r (i)",
    "... joined on an equality": "SELECT i, v FROM range(4) AS r (i) LEFT JOIN c ON v = i",
    "... with values of a table": "SELECT i, (SELECT COUNT(*) FROM t WHERE v = i) AS n FROM range(4) AS r (i)",
    "... of values around, by range": "SELECT k, v, (SELECT SUM(i) FROM range(v) AS r (i)) AS total FROM c",
    "unnest": "SELECT e FROM UNNEST([1, NULL, 3]) AS u (e)",
    "... of structs": (
        "SELECT * FROM UNNEST([{'a': 1, 'b': 'x'}, {'a': 2, 'b': NULL}]) AS u",
        "VALUES (1, 'x'), (2, NULL)",
    ),
    "... numbered": (
        "SELECT e, n FROM UNNEST(['x', 'y']) WITH ORDINALITY AS u (e, n)",
        "VALUES ('x', 1::BIGINT), ('y', 2::BIGINT)",
    ),
}
FIRST_ROWS: dict[str, str | tuple[str, str]] = {
    "limit, computed": "SELECT id, v FROM c ORDER BY v, id LIMIT 1 + 1 OFFSET (SELECT 1)",
    "... that is none": "SELECT v FROM c LIMIT ALL OFFSET NULL",
    "... of a percentage": "SELECT id, v FROM c ORDER BY v DESC, id LIMIT 50%",
    "... of a percentage, behind others": "SELECT k, v, s FROM t ORDER BY v DESC, k, s LIMIT 29 PERCENT OFFSET 1",
    "... with ties": (
        "SELECT v, s FROM t ORDER BY v FETCH FIRST 2 ROWS WITH TIES",
        "SELECT v, s FROM t QUALIFY RANK() OVER (ORDER BY v) <= 2",
    ),
    "... with ties, behind others": (
        "SELECT id, v FROM c ORDER BY k DESC LIMIT 1 WITH TIES OFFSET 1",
        "SELECT id, v FROM c QUALIFY RANK() OVER (ORDER BY k DESC) <= 2 AND ROW_NUMBER() OVER (ORDER BY k DESC, id) > 1",
    ),
    "offset alone": "SELECT id, v FROM c ORDER BY v, id OFFSET 1",
    "distinct on": "SELECT DISTINCT ON (k) k, v, s FROM t ORDER BY k, v DESC, s",
    "... what is not selected": "SELECT DISTINCT ON (k + 1) v FROM c ORDER BY v DESC, id",
    "... with a limit": "SELECT DISTINCT ON (1) k, v FROM t ORDER BY v, k LIMIT 2",
    "... without an order": "SELECT DISTINCT ON (s, k) k, s FROM t",
    "... of groups": "SELECT DISTINCT ON (n) k, COUNT(*) AS n FROM c GROUP BY k ORDER BY n, k",
    "... in a sub-query": "SELECT SUM(v) AS total FROM (SELECT DISTINCT ON (k, s) v FROM t ORDER BY v)",
    "an order that decides nothing": "WITH o AS (SELECT v FROM t ORDER BY s) SELECT v, COUNT(*) AS n FROM o WHERE v IN "
    "(SELECT v FROM c ORDER BY id) GROUP BY v",
}
OTHERS: dict[str, str | tuple[str, str]] = {
    "by name": "SELECT k, v FROM t UNION ALL BY NAME SELECT V, id FROM c",
    "... without duplicates": "SELECT k, v FROM t UNION BY NAME SELECT v, k FROM c",
    "... of three": "SELECT k FROM t UNION ALL BY NAME SELECT v, k FROM c UNION ALL BY NAME SELECT 'x' AS z, 1 AS K",
    "a grouping set twice": "SELECT k, s, COUNT(*) AS n, GROUPING(k, s) AS g FROM t "
    "GROUP BY GROUPING SETS ((k), (k), (), (), (), (s, k))",
    "... by ROLLUPs": "SELECT k, v, COUNT(*) AS n FROM c GROUP BY ROLLUP (k), ROLLUP (k, v) HAVING COUNT(*) > 0",
    "... told apart": (
        "SELECT k, GROUP_ID() AS g, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((k), (k), ()) HAVING GROUP_ID() >= 0",
        "SELECT k, 0::BIGINT, COUNT(*) AS n FROM t GROUP BY ROLLUP (k) UNION ALL SELECT k, 1, COUNT(*) FROM t GROUP BY k",
    ),
    "groups by a query's value": "SELECT (SELECT MAX(v) FROM c WHERE c.k = t.k) AS m, COUNT(*) AS n FROM t GROUP BY 1",
    "... by several": "SELECT COUNT(*) AS n, EXISTS (SELECT 1 FROM c WHERE id = t.v) AS e, (SELECT COUNT(*) FROM c) AS a "
    "FROM t GROUP BY e, k + (SELECT MIN(k) FROM c)",
    "ordered by a query's value": "SELECT k, v, s FROM t ORDER BY (SELECT MAX(id) FROM c WHERE c.k = t.k) DESC, v, s "
    "LIMIT 3",
    "ordered by all": "SELECT k, COUNT(*) AS n FROM t GROUP BY ALL ORDER BY ALL DESC LIMIT 2",
    "lateral without the word": "SELECT t.v, x.m, y.n FROM t, (SELECT MAX(id) AS m FROM c WHERE c.k = t.k) AS x "
    "LEFT JOIN (SELECT v AS n FROM c WHERE id < x.m ORDER BY id LIMIT 1) AS y ON y.n > t.v",
    "calls behind dots": "SELECT s.upper().concat('x').length() AS a, (k + v).abs() AS b, main.upper(s) AS c, "
    "[k, v].list_filter(lambda e: (e + v).abs() > 2).len() AS d, 'a.b'.string_split('.')[2].upper() AS e FROM t "
    "WHERE s IS NOT NULL",
    "a comprehension": "SELECT [x * 2 + v FOR x IN [k, v] IF x > 1] AS a, "
    "len([[y.abs() FOR y IN [x, v]] FOR x IN [k]]) AS b FROM c",
    "having alone": "SELECT 1 AS x FROM c HAVING MAX(v) > 2",
    "... alone over nothing": "SELECT 1 AS x FROM t WHERE false HAVING 1 = 1",
    "all of a list": "SELECT v, v > ALL ([0, k]) AS a, v <> ALL ([]) AS b FROM c",
    "some of a list": "SELECT v = SOME ([1, k]) AS a, COUNT(*) AS n FROM c GROUP BY v = SOME ([1, k])",
}
UNNESTS: dict[str, str | tuple[str, str]] = {
    "unnest a struct": "SELECT UNNEST({'a': v, 'b': {'c': s}}) AS z, k FROM t",
    "... that is NULL": "SELECT UNNEST(CASE WHEN v > 1 THEN {'a': v, 'b': id} END) FROM c",
    "... of what groups have": "SELECT k, UNNEST({'m': MAX(v), 'n': COUNT(*)}) FROM c GROUP BY k",
    "... to the bottom": "SELECT UNNEST({'a': v, 'b': {'c': s, 'd': [k]}}, recursive := true) FROM t",
    "unnest arrays to the bottom": "SELECT id, UNNEST([[v, 1], [], NULL, [k]], recursive := true) AS x FROM c",
    "... to structs": "SELECT UNNEST([{'a': v, 'b': {'c': [1, 2]}}, NULL, {'a': k, 'b': NULL}], recursive := true) FROM t",
    "... some levels": "SELECT UNNEST([[[v]], [[k]]], max_depth := 2) AS x, s FROM t",
    "... some levels of structs": "SELECT UNNEST([{'a': {'b': v}}], max_depth := 2) FROM c",
}
UNNAMED_ROWS: dict[str, str | tuple[str, str]] = {
    "a row": "SELECT (k, s) AS r, ROW(v, (s, k)) AS q, [(v, 1.5), (k, 2)] AS l, (k, NULL) AS n FROM c JOIN t USING (k, v)",
    "... as text, by position, as JSON": "SELECT r::VARCHAR AS a, r[2] AS b, to_json(r) AS c, COUNT(*) AS n FROM "
    "(SELECT (k, s) AS r FROM t) GROUP BY r",
    "... compared": "SELECT (k, v) = (1, 2) AS a, (k, v) < (2, 1) AS b, (k, v) IN ((1, 1), (NULL, 2)) AS c, "
    "ROW(k, s) IS DISTINCT FROM (1, 'a') AS d, (k, v) BETWEEN (1, 1) AND (2, 9) AS e FROM t",
    "... of groups": "SELECT MAX(r) AS a, ARRAY_AGG(r ORDER BY r) AS l, COUNT(DISTINCT r[1]) AS n FROM "
    "(SELECT k, (COUNT(*), MAX(v)) AS r FROM c GROUP BY k)",
    "... of groups with NULL": "SELECT (k, NULL) AS r, COUNT(*) AS n FROM t GROUP BY 1",
    "... joined": "SELECT t.v, x.r FROM t LEFT JOIN (SELECT (k, COUNT(*)) AS r FROM c GROUP BY k) AS x ON x.r = (t.k, t.v)",
    "... in a query": "SELECT k, v FROM c WHERE (k, v) IN (SELECT (k, MIN(v)) FROM t GROUP BY k)",
    "... in a query of columns": "SELECT k, v FROM c WHERE ROW(k, v) NOT IN (SELECT k, MIN(v) FROM t GROUP BY k)",
    "... ordered": "SELECT id, r FROM (SELECT id, (v, k) AS r FROM c) ORDER BY r DESC NULLS LAST, id LIMIT 2",
    "... with names": "SELECT CAST((k, s) AS STRUCT(a BIGINT, b VARCHAR)).b AS x, CASE WHEN v > 1 THEN {'a': k, 'b': s} "
    "ELSE (v, 'q') END AS y FROM t",
    "... as columns": "SELECT UNNEST((k, s)), v FROM t",
}
COMPARED_ROWS: dict[str, str | tuple[str, str]] = {
    "rows above all": "SELECT k, v FROM t WHERE (k, v) >= ALL (SELECT k, v FROM c)",
    "... above any": "SELECT k, v, (k, v) > ANY (SELECT k, v FROM c) AS b FROM t",
    "... below any": "SELECT id FROM c WHERE (v, k) < ANY (SELECT k, w FROM u) OR id = 3",
    "columns of the row around": "SELECT x.* FROM t, LATERAL (SELECT t.* EXCLUDE (s), w FROM u WHERE u.k = t.k) AS x",
    "... without the word": "SELECT x.v FROM c, (SELECT c.*) AS x",
    "a list in an order over rows": "SELECT v, LIST(v ORDER BY s, v) OVER (PARTITION BY k) AS a, "
    "STRING_AGG(s, '-' ORDER BY v DESC, s) FILTER (WHERE v > 1) OVER () AS b FROM t",
    "the first in an order over rows": "SELECT v, FIRST_VALUE(v ORDER BY s, v) OVER (PARTITION BY k) AS a FROM t",
    "a sample of all": "SELECT * FROM t TABLESAMPLE 100%",
    "a sample of none": "SELECT * FROM t USING SAMPLE 0%",
}
FORMS: Mapping[str, str | tuple[str, str]] = {
    **WRITTEN,
    **FIRST_ROWS,
    **OTHERS,
    **UNNESTS,
    **UNNAMED_ROWS,
    **COMPARED_ROWS,
}


def verbatim(names: list[str], data: Input, read: Mapping[str, int]) -> dict[str, Rows]:
    """What DuckDB gives for the queries over the first lines of each table, by sink."""
    last = {row["id"]: (op, row) for op, row in data.c[: read.get("c", 0)]}
    tables = {
        "t": data.t[: read.get("t", 0)],
        "u": data.u[: read.get("u", 0)],
        "c": [row for op, row in last.values() if op != "-D"],
    }
    found = {}
    with empty_duckdb() as con:
        con.execute("CREATE TABLE t (k INT, v INT, s VARCHAR); CREATE TABLE u (k BIGINT, w INT, s VARCHAR)")
        con.execute("CREATE TABLE c (id INT, k INT, v INT)")
        for table, rows in tables.items():
            if rows:
                con.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", [list(row.values()) for row in rows])
        for number, name in enumerate(names):
            form = FORMS[name]
            found[f"out_{number}"] = fetched(con, form if isinstance(form, str) else form[1])
    return found


#: Queries that stand in one file, and may share what they share.
_FILES = 4
#: In CI every second form of them.
GROUPS = [sorted(FORMS)[n :: _FILES if is_long() else 2 * _FILES] for n in range(_FILES)]


@pytest.mark.parametrize("shards", [2, 1])
@pytest.mark.parametrize("names", GROUPS, ids=[f"{g[0]} and more" for g in GROUPS])
@pytest.mark.sampled(2)
def test_every_prefix(tmp_path: Path, names: list[str], shards: int) -> None:
    forms = (FORMS[name] for name in names)
    made = plan(tmp_path, [f if isinstance(f, str) else f[0] for f in forms], ROWS)
    read: Counter[str] = Counter()
    with collecting() as collected:

        def compare(report: EpochReport) -> None:
            read.update(report.rows_read)
            for sink, rows in verbatim(names, ROWS, read).items():
                try:
                    assert_same(collected.folded(sink), rows)
                except AssertionError as error:
                    name = names[int(sink.removeprefix("out_"))]
                    raise AssertionError(f"after {dict(read)} of {name}: {FORMS[name]}: {error}") from error

        run_here(made, tmp_path, parallelism=shards, rows_per_epoch=10, on_epoch=compare)
    assert {source: read[source] for source in ("t", "c")} == {"t": len(ROWS.t), "c": len(ROWS.c)}
    wanted = verbatim(names, ROWS, {name: len(lines) for name, lines in ROWS.lines().items()})
    for sink, rows in expected(
        tmp_path, made, ROWS, {n: len(lines) for n, lines in ROWS.lines().items()}
    ).items():
        assert_same(rows, wanted[sink])


def test_what_is_written_out_comes_once(tmp_path: Path) -> None:
    """Neither a run that goes on nor one over more rows gives it again; a sink that is new has it all."""
    queries = [
        "SELECT v FROM t UNION ALL VALUES (8), (9)",
        "SELECT SUM(v) AS total FROM (SELECT v FROM t UNION ALL SELECT * FROM range(3))",
    ]
    text = TABLES + "".join(
        f"CREATE TABLE out_{n} WITH ('connector' = 'blackhole') AS {q};\n" for n, q in enumerate(queries)
    )
    more = text + "CREATE TABLE out_2 WITH ('connector' = 'blackhole') AS SELECT 1 AS x UNION ALL SELECT 2;\n"
    (tmp_path / "t").mkdir()
    reports: list[EpochReport] = []
    with collecting() as collected:
        for number, sql in enumerate((text, text, more, more)):
            (tmp_path / "t" / f"{number}.json").write_text(f'{{"k": 1, "v": {number}}}\n')
            (tmp_path / "p.sql").write_text(sql)
            run_here(plan_file(tmp_path / "p.sql"), tmp_path, on_epoch=reports.append)
    assert sum(report.rows_read.get("one_row", 0) for report in reports) == 1
    assert_same(collected.folded("out_0"), [(0,), (1,), (2,), (3,), (8,), (9,)])
    assert_same(collected.folded("out_1"), [(9,)])
    assert_same(collected.folded("out_2"), [(1,), (2,)])


EDITS = (
    "SELECT r.name, SUM(t.v) AS n FROM t LEFT JOIN (VALUES (1, 'a'), (2, 'b')) AS r (k, name) ON t.k = r.k GROUP BY r.name",
    "SELECT r.name, SUM(t.v) AS n FROM t LEFT JOIN (VALUES (1, 'x'), (2, 'b'), (1, 'c')) AS r (k, name) ON t.k = r.k "
    "GROUP BY r.name",
    "SELECT 's' AS name, SUM(i) AS n FROM (SELECT v AS i FROM t UNION ALL SELECT * FROM range(3)) AS a",
    "SELECT 's' AS name, SUM(i) AS n FROM (SELECT v AS i FROM t UNION ALL SELECT * FROM range(5)) AS a",
)


def test_after_an_edit_of_what_is_written_out_a_changelog_is_the_new_querys_answer() -> None:
    rows = [{"k": n % 4, "v": n, "s": "", "b": True} for n in range(9)]
    sink = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json'"

    def plan_of(folder: Path, number: int) -> Planned:
        query = f"SELECT name, CAST(n AS BIGINT) AS n FROM ({EDITS[number]}) AS q"
        return planned(folder, f"{TABLE}CREATE TABLE out WITH ({sink}) AS {query};\n")

    check_chain(plan_of, len(EDITS), rows, rows, 6, [1, 2, 1, 2])
