"""The prefix invariant for sub-queries in expressions: after every epoch DuckDB's answer over what was read so far."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from tests.duckdb_batch import empty_duckdb
from tests.examples import examples, is_long
from tests.planner.bind.test_bound_random import Names, queries
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.test_joins import ROWS, Input, check, expected, inputs, plan
from tests.properties.updating import collecting, fetched

QUERIES = {
    "exists": "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "exists, with more": "SELECT k, v FROM t WHERE EXISTS (SELECT w FROM u WHERE u.k = t.k AND u.w "
    "> t.v AND u.s = 'a')",
    "exists, on no equality": "SELECT k, v FROM t WHERE EXISTS (SELECT w FROM u WHERE u.w < t.v)",
    "exists, of anything": "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE w = 3)",
    "exists, of changes": "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM c WHERE c.k = t.k)",
    "exists, of groups": "SELECT k, v FROM t WHERE EXISTS (SELECT s FROM u WHERE u.k = t.k GROUP BY "
    "s HAVING COUNT(*) > 1)",
    "exists, of a total": "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k HAVING COUNT(*) < 2)",
    "not exists": "SELECT k, v FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k)",
    "not exists, with more": "SELECT k, v FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.k = t.k "
    "AND w <> v) AND v > 0",
    "not exists, of anything": "SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM c WHERE v > 1)",
    "in": "SELECT k, v FROM t WHERE k IN (SELECT k FROM u)",
    "in, of changes": "SELECT k, v FROM t WHERE v IN (SELECT v FROM c)",
    "in, correlated": "SELECT k, v FROM t WHERE v IN (SELECT w FROM u WHERE u.s = t.s)",
    "in, of rows": "SELECT k, v FROM t WHERE (k, v) IN (SELECT k, w FROM u)",
    "not in": "SELECT k, v FROM t WHERE k NOT IN (SELECT k FROM u)",
    "not in, without NULLs": "SELECT k, v FROM t WHERE k NOT IN (SELECT k FROM u WHERE k IS NOT NULL)",
    "not in, of changes": "SELECT k, v FROM t WHERE v NOT IN (SELECT v FROM c)",
    "not in, correlated": "SELECT k, v FROM t WHERE v NOT IN (SELECT w FROM u WHERE u.s = t.s)",
    "not in, correlated by less": "SELECT k, v FROM t WHERE v NOT IN (SELECT w FROM u WHERE u.w < t.k)",
    "not in, of rows": "SELECT k, v FROM t WHERE (k, v) NOT IN (SELECT k, w FROM u)",
    "not in, of a set operation": "SELECT k FROM t WHERE k NOT IN (SELECT k FROM u EXCEPT SELECT id FROM c)",
    "value of in": "SELECT k, v, k IN (SELECT k FROM u) AS m, v NOT IN (SELECT v FROM c) AS n FROM t",
    "value of in, correlated": "SELECT k, v, v IN (SELECT w FROM u WHERE u.s = t.s) AS m FROM t",
    "value of in, of rows": "SELECT k, v, (k, v) IN (SELECT k, w FROM u) AS m FROM t",
    "value of exists": "SELECT k, EXISTS (SELECT 1 FROM u WHERE u.k = t.k) AS m, EXISTS (SELECT 1 FROM c WHERE v = 2) "
    "AS n FROM t",
    "value of exists, on no equality": "SELECT k, v, EXISTS (SELECT 1 FROM u WHERE u.w < t.v) AS m FROM t",
    "below or": "SELECT k, v FROM t WHERE k IN (SELECT k FROM u) OR EXISTS (SELECT 1 FROM c WHERE "
    "c.v = t.v) OR v = 0",
    "in case": "SELECT k, CASE WHEN v IN (SELECT v FROM c) THEN (SELECT MAX(w) FROM u) ELSE 0 END AS m FROM t",
    "any": "SELECT k, v FROM t WHERE v < ANY (SELECT w FROM u WHERE u.k = t.k)",
    "all": "SELECT k, v FROM t WHERE v >= ALL (SELECT w FROM u WHERE u.k = t.k)",
    "all, of all": "SELECT k, v, v <= ALL (SELECT v FROM c) AS m, v <> ALL (SELECT w FROM u) AS n FROM t",
    "a value": "SELECT k, v, (SELECT MAX(w) FROM u) AS m FROM t",
    "a row of groups": "SELECT k, v, (SELECT MAX(w) FROM u WHERE u.k = t.k GROUP BY u.k) AS m FROM t",
    "the only value": "SELECT k, v, (SELECT DISTINCT w * 0 + 7 FROM u WHERE u.k = t.k AND w > 1) AS m, (SELECT DISTINCT 2 "
    "FROM c WHERE c.v < t.v) AS n FROM t",
    "a count": "SELECT k, (SELECT COUNT(*) FROM c) AS n FROM t",
    "more than average": "SELECT k, v FROM t WHERE v > (SELECT AVG(v) FROM c)",
    "a value, correlated": "SELECT k, v, (SELECT MAX(w) FROM u WHERE u.k = t.k) AS m FROM t",
    "a count, correlated": "SELECT k, v, (SELECT COUNT(*) FROM u WHERE u.k = t.k) AS n FROM t",
    "a count of nothing": "SELECT k, v FROM t WHERE (SELECT COUNT(*) FROM u WHERE u.k = t.k) = 0",
    "counts that are computed with": "SELECT k, (SELECT COALESCE(SUM(w), -1) + COUNT(*) FROM u "
    "WHERE u.k = t.k) AS n FROM t",
    "a count on no equality": "SELECT k, v, (SELECT COUNT(*) FROM u WHERE u.w < t.v) AS n FROM t",
    "a count of a count": "SELECT k, (SELECT COUNT(*) FROM u WHERE u.k = t.k AND u.w > (SELECT COUNT(*) FROM c WHERE "
    "c.k = u.k)) "
    "AS n FROM t",
    "correlated through two": "SELECT k, v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND EXISTS "
    "(SELECT 1 FROM c WHERE c.k = u.w AND c.v = t.v))",
    "its own maximum": "SELECT k, v FROM t AS o WHERE v = (SELECT MAX(v) FROM t AS i WHERE i.k = o.k)",
    "the first": "SELECT k, (SELECT w FROM u WHERE u.k = t.k ORDER BY w DESC LIMIT 1) AS m FROM t",
    "the second": "SELECT k, (SELECT w FROM u WHERE u.k = t.k ORDER BY w, s LIMIT 1 OFFSET 1) AS m FROM t",
    "by a primary key": "SELECT k, v, (SELECT c.v FROM c WHERE c.id = t.k) AS m FROM t",
    "with having": "SELECT k, SUM(v) AS n FROM t GROUP BY k HAVING SUM(v) > (SELECT AVG(v) FROM c)",
    "of groups": "SELECT k, COUNT(*) AS n, (SELECT MAX(w) FROM u WHERE u.k = t.k) AS m FROM t GROUP BY k",
    "inside an aggregate": "SELECT s, SUM((SELECT MAX(w) FROM u WHERE u.k = t.k)) AS n FROM t GROUP BY s",
    "over changes": "SELECT id, v FROM c WHERE k IN (SELECT k FROM u) AND v < (SELECT MAX(v) FROM c "
    "AS d WHERE d.k = c.k)",
    "over changes, counted": "SELECT id, (SELECT COUNT(*) FROM c AS d WHERE d.k = c.k AND d.id <> c.id) AS n FROM c",
    "of a join": "SELECT t.v, u.w FROM t, u WHERE t.k = u.k AND u.w = (SELECT MAX(x.w) FROM u AS x WHERE x.k = t.k)",
    "a union of two": "SELECT k, (SELECT COUNT(*) FROM (SELECT w FROM u WHERE u.k = t.k UNION ALL SELECT v FROM c "
    "WHERE c.k = t.v) "
    "AS e) AS n FROM t",
    "a left join within": "SELECT k, (SELECT COUNT(c.id) FROM u LEFT JOIN c ON c.k = u.k AND c.v < t.v WHERE u.k = "
    "t.k) AS n FROM t",
    "a full join within": "SELECT k, (SELECT COUNT(*) FROM u FULL JOIN (SELECT * FROM c WHERE c.v = t.v) AS d ON d.k "
    "= u.k) AS n "
    "FROM t",
    "distinct within": "SELECT k, (SELECT SUM(z) FROM (SELECT DISTINCT w AS z FROM u WHERE u.k = "
    "t.k) AS d) AS n FROM t",
    "lateral behind OVER, counted": "SELECT COUNT(*) AS n FROM (SELECT v, SUM(k) OVER (PARTITION BY k) AS c FROM t) AS x "
    "LEFT JOIN LATERAL (SELECT w FROM u WHERE u.k = x.c) AS y ON TRUE",
    "lateral, left": "SELECT t.k, v, x.w FROM t LEFT JOIN LATERAL (SELECT w FROM u WHERE u.k = t.k "
    "AND u.s = t.s) AS x ON TRUE",
    "lateral, left on more": "SELECT t.k, v, x.id FROM t LEFT JOIN LATERAL (SELECT id, v AS cv FROM c WHERE c.k = t.k) AS x "
    "ON x.cv > t.v AND t.s = 'a'",
    "lateral, the first two": "SELECT t.k, v, x.w, x.s AS xs FROM t CROSS JOIN LATERAL (SELECT w, s FROM u WHERE u.k = t.k "
    "ORDER BY w DESC, s LIMIT 2) AS x",
    "lateral, the second or none": "SELECT c.id, x.w FROM c LEFT JOIN LATERAL (SELECT w FROM u WHERE u.k = c.k "
    "ORDER BY w DESC LIMIT 1 OFFSET 1) AS x ON TRUE",
    "lateral, the first of less": "SELECT t.k, v, x.w FROM t CROSS JOIN LATERAL (SELECT w FROM u WHERE u.w < t.v "
    "ORDER BY w DESC LIMIT 1) AS x",
    "lateral, a count": "SELECT t.k, v, x.n, x.m FROM t CROSS JOIN LATERAL (SELECT COUNT(*) AS n, MAX(w) AS m "
    "FROM u WHERE u.k = t.k) "
    "AS x",
    "lateral, a count with having": "SELECT t.k, v, x.n FROM t LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM u "
    "WHERE u.k = t.k "
    "HAVING COUNT(*) < 2) AS x ON x.n < t.v",
    "lateral, groups of changes": "SELECT t.k, t.v, x.k AS xk, x.n FROM t, LATERAL (SELECT k, COUNT(*) AS n "
    "FROM c WHERE c.v = t.v "
    "GROUP BY k) AS x",
    "lateral of lateral": "SELECT t.v, x.w, y.id FROM t, LATERAL (SELECT w FROM u WHERE u.k = t.k ORDER BY w LIMIT 1) AS x "
    "LEFT JOIN LATERAL (SELECT id FROM c WHERE c.k = x.w AND c.v <> t.v) AS y ON TRUE",
    "lateral within lateral": "SELECT t.v, x.w, x.n FROM t, LATERAL (SELECT w, y.n FROM u, LATERAL (SELECT "
    "COUNT(*) AS n FROM c "
    "WHERE c.k = u.k AND c.v < t.v) AS y WHERE u.k = t.k) AS x",
    "in on": "SELECT t.v, u.w FROM t JOIN u ON t.k = u.k AND t.v IN (SELECT v FROM c)",
    "in on, a value": "SELECT t.v, u.w FROM t JOIN u ON t.k = u.k AND u.w > (SELECT MAX(c.v) FROM c WHERE c.k = t.k)",
    "in on of left, of the right": "SELECT t.v, u.w FROM t LEFT JOIN u ON t.k = u.k AND NOT EXISTS "
    "(SELECT 1 FROM c WHERE c.id = u.w)",
    "in on of left, of both": "SELECT t.v, u.w FROM t LEFT JOIN u ON t.k = u.k AND EXISTS (SELECT 1 FROM c WHERE c.k = t.k "
    "AND c.v < u.w) AND t.v IN (SELECT id + u.w FROM c)",
    "in on of full": "SELECT t.v, u.w FROM t FULL JOIN u ON t.k = u.k AND t.v IN (SELECT v FROM c) "
    "AND u.w NOT IN (SELECT v FROM c)",
    "names of items before in from": "SELECT k, v, (SELECT r FROM (SELECT k AS v) AS x, (SELECT v AS r) AS y) AS n, (SELECT "
    "COUNT(*) FROM u AS c, t AS d JOIN u AS e ON c.k = e.k AND d.k = t.k) AS m FROM t, (SELECT MAX(w) AS most FROM u) AS c",
    "lateral values of one row": "SELECT x.k, y.z FROM (SELECT k FROM t GROUP BY k) AS x, LATERAL (VALUES (k)) AS y (z)",
    "asked in semi, and above": "SELECT u.w FROM t SEMI JOIN c ON c.k = t.k AND NOT EXISTS (SELECT 1 FROM u WHERE u.k "
    "= t.v) LEFT JOIN u ON t.k = u.k WHERE 1 >= (SELECT COUNT(*) FROM c AS d WHERE d.k = t.k)",
    "without from": "SELECT k, (SELECT t.k + t.v) AS n FROM t",
}


_SOME = 8
#: In CI every second query of them.
GROUPS = [sorted(QUERIES)[n :: _SOME if is_long() else 2 * _SOME] for n in range(_SOME)]


@pytest.mark.parametrize("shards", [2, 1])
@pytest.mark.parametrize("names", GROUPS, ids=[f"{g[0]} …" for g in GROUPS])
@pytest.mark.sampled(2)
def test_every_prefix(tmp_path: Path, names: list[str], shards: int) -> None:
    check(tmp_path, [QUERIES[name] for name in names], ROWS, rows_per_epoch=12, parallelism=shards)


@settings(
    max_examples=examples(2),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    st.lists(st.sampled_from(sorted(QUERIES)), min_size=1, max_size=3, unique=True),
    inputs,
    st.integers(4, 12),
    st.integers(1, 3),
)
def test_random_rows(names: list[str], data: Input, rows_per_epoch: int, parallelism: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        queries = [QUERIES[name] for name in names]
        check(Path(folder), queries, data, rows_per_epoch=rows_per_epoch, parallelism=parallelism)


RESTARTED = [
    "a count, correlated",
    "a count on no equality",
    "not in",
    "value of in, correlated",
    "more than average",
    "the first",
    "over changes",
]


def test_runs_that_go_on_with_other_shards(tmp_path: Path) -> None:
    planned = plan(tmp_path, [QUERIES[name] for name in RESTARTED], ROWS)
    with collecting() as collected:
        run_here(planned, tmp_path, parallelism=1, rows_per_epoch=9, max_epochs=1)
        run_here(planned, tmp_path, parallelism=3, rows_per_epoch=9, max_epochs=1)
        run_here(planned, tmp_path, parallelism=2, rows_per_epoch=9)
        everything = {name: len(rows) for name, rows in ROWS.lines().items()}
        for sink, rows in expected(tmp_path, planned, ROWS, everything).items():
            assert_same(collected.folded(sink), rows)


def test_the_referee_gives_what_duckdb_gives_for_the_queries_themselves(tmp_path: Path) -> None:
    names = sorted(QUERIES)
    planned = plan(tmp_path, [QUERIES[name] for name in names], ROWS)
    found = expected(tmp_path, planned, ROWS, {n: len(lines) for n, lines in ROWS.lines().items()})
    with empty_duckdb() as con:
        con.execute("CREATE TABLE t (k INT, v INT, s VARCHAR); CREATE TABLE u (k BIGINT, w INT, s VARCHAR)")
        con.execute("CREATE TABLE c (id INT, k INT, v INT)")
        last = {row["id"]: (op, row) for op, row in ROWS.c}
        kept = [row for op, row in last.values() if op != "-D"]
        for name, rows in {"t": ROWS.t, "u": ROWS.u, "c": kept}.items():
            con.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", [list(row.values()) for row in rows])
        for number, name in enumerate(names):
            assert_same(found[f"out_{number}"], fetched(con, QUERIES[name]))


_SMALL = st.none() | st.integers(0, 3)
_NUMBERS = {"t": ("k", "x"), "u": ("k", "w"), "q": ("a", "b")}
_DECLARED = "".join(
    f"CREATE TABLE {table} ({', '.join(f'{c} INT' for c in columns)}) "
    f"WITH ('connector' = 'filesystem', 'path' = '{table}', 'format' = 'json');\n"
    for table, columns in _NUMBERS.items()
)
_ASKS = (" EXISTS (", " IN (SELECT", " ANY (", " ALL (", " < (SELECT", "CAST((SELECT")


@settings(
    max_examples=examples(2),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(
    st.builds(Names)
    .flatmap(lambda names: queries(names, ()))
    .map(lambda made: made[0])
    .filter(lambda query: any(word in query for word in _ASKS)),
    st.fixed_dictionaries({table: st.lists(st.tuples(_SMALL, _SMALL), max_size=6) for table in _NUMBERS}),
)
def test_random_queries(query: str, data: dict[str, list[tuple[int | None, int | None]]]) -> None:
    with tempfile.TemporaryDirectory() as name, collecting() as collected, empty_duckdb() as con:
        folder = Path(name)
        for table, rows in data.items():
            (folder / table).mkdir()
            lines = (json.dumps(dict(zip(_NUMBERS[table], row, strict=True))) for row in rows)
            (folder / table / "0.json").write_text("".join(f"{line}\n" for line in lines))
            con.execute(f"CREATE TABLE {table} ({', '.join(f'{c} INT' for c in _NUMBERS[table])})")
        (folder / "p.sql").write_text(
            f"{_DECLARED}CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};"
        )
        read: Counter[str] = Counter()

        def compare(report: EpochReport) -> None:
            for table, count in report.rows_read.items():
                for row in data[table][read[table] : read[table] + count]:
                    con.execute(f"INSERT INTO {table} VALUES (?, ?)", row)
            read.update(report.rows_read)
            assert_same(collected.folded("out"), fetched(con, query))

        run_here(plan_file(folder / "p.sql"), folder, rows_per_epoch=5, on_epoch=compare)
