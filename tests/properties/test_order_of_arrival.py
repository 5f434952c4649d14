"""What goes by the order in which rows come: after every epoch DuckDB's own answer over a table with the rows so far."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import batch_of, collecting, fetched

Row = Mapping[str, Any]

ROWS: list[Row] = [
    {"k": k, "v": v, "s": s, "l": e}
    for k, v, s, e in [
        (1, None, "z", [9, 1]),
        (2, 20, "y", []),
        (1, 30, None, [5]),
        (None, 7, "b", None),
        (2, None, "a", [2, 2, 1]),
        (1, 10, "a", [7, None]),
        (3, 5, None, [4]),
        (None, 1, "c", [3]),
        (2, 20, "y", [8]),
        (1, 10, "b", [6]),
        (3, None, "k", [1]),
    ]
]
TABLE = (
    "CREATE TABLE t (k INT, v BIGINT, s STRING, l ARRAY<INT>) "
    "WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');\n"
)

QUERIES = {
    "first and last": "SELECT k, FIRST(v) AS f, LAST(v) AS g, FIRST(s) FILTER (WHERE v > 5) AS p FROM t GROUP BY k",
    "of all": "SELECT FIRST(v) AS f, LAST(s) AS l, COUNT(*) AS n FROM t",
    "under conditions": "SELECT k, FIRST(s) AS f FROM (SELECT k, s, v + 1 AS w FROM t WHERE v > 5) AS x "
    "WHERE w < 30 GROUP BY k",
    "of elements": "SELECT k, FIRST(e) AS f, LAST(e) AS g FROM t, UNNEST(l) AS u (e) GROUP BY k",
    "with a sub-query": "SELECT k, LAST(s) AS f FROM t WHERE v IN (SELECT v FROM t WHERE v > 9) GROUP BY k",
    "of values": "SELECT FIRST(a) AS f, LAST(a) AS l FROM (VALUES (3), (1), (2)) AS x (a)",
    "of a series": "SELECT LAST(i) AS l, FIRST(i) AS f FROM range(5, 0, -1) AS r (i)",
    "distinct on": "SELECT DISTINCT ON (k) k, v, s FROM t",
    "distinct on another": "SELECT DISTINCT ON (v) s FROM t WHERE k IS NOT NULL",
    "row numbers": "SELECT k, s, ROW_NUMBER() OVER () AS n FROM t",
    "row numbers by key": "SELECT k, s, ROW_NUMBER() OVER (PARTITION BY k) AS n, SUM(v) OVER (PARTITION BY k) AS w FROM t",
    "a range of equals": "SELECT k, s, FIRST_VALUE(s) OVER (PARTITION BY k RANGE BETWEEN UNBOUNDED PRECEDING AND "
    "CURRENT ROW) AS f FROM t",
    "a range of the other equals": "SELECT k, s, ARRAY_AGG(v) OVER (PARTITION BY k RANGE BETWEEN CURRENT ROW AND "
    "UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW) AS g FROM t",
    "groups of equals": "SELECT k, s, LAST_VALUE(s) OVER (PARTITION BY k GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW) "
    "AS f FROM t",
    "the second": "SELECT k, v, s FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k) = 2",
    # DuckDB takes the rows of a second window as the first has left them: one window each.
    "neighbours": "SELECT k, LAG(s) OVER (PARTITION BY k) AS a, NTILE(2) OVER (PARTITION BY k) AS c FROM t",
    "neighbours of all": "SELECT k, LEAD(v, 2, -1) OVER () AS b, LAST_VALUE(s) OVER () AS c FROM t",
    "values by key": "SELECT k, FIRST_VALUE(s) OVER (PARTITION BY k) AS a, NTH_VALUE(s, 2) OVER (PARTITION BY k) AS c, "
    "LIST(v) OVER (PARTITION BY k) AS l, COUNT(*) OVER (PARTITION BY k) AS n FROM t",
    "frames": "SELECT s, SUM(v) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS b, MAX(v) OVER () AS m FROM t",
}


def planned(folder: Path, queries: Sequence[str]) -> Planned:
    """Queries over `t`, which has what is in the folder `input`, into the sinks `out_0`, `out_1` …"""
    sinks = (
        f"CREATE TABLE out_{n} WITH ('connector' = 'blackhole') AS {query};\n"
        for n, query in enumerate(queries)
    )
    (folder / "p.sql").write_text(TABLE + "".join(sinks))
    return plan_file(folder / "p.sql")


def put(folder: Path, rows: Sequence[Row], *, files: int) -> None:
    """Deal rows out in order over some files, behind those that are there."""
    (folder / "input").mkdir(parents=True, exist_ok=True)
    there, size = len(list((folder / "input").iterdir())), -(-len(rows) // files)
    for number in range(files):
        lines = (f"{json.dumps(row)}\n" for row in rows[number * size : (number + 1) * size])
        (folder / "input" / f"{there + number}.json").write_text("".join(lines))


def result_of(query: str, rows: Sequence[Row]) -> Rows:
    """What DuckDB gives for a query as it is written, over a table that the rows were put into in their order."""
    with empty_duckdb() as con:
        con.execute("CREATE TABLE t (k INT, v BIGINT, s VARCHAR, l INT[])")
        if rows:
            con.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", [list(row.values()) for row in rows])
        return fetched(con, query)


def test_it_is_duckdbs_answer_whatever_the_epochs_the_shards_and_the_runs(tmp_path: Path) -> None:
    put(tmp_path, ROWS, files=3)
    plan, read = planned(tmp_path, list(QUERIES.values())), 0
    with collecting() as collected:

        def compare(report: EpochReport) -> None:
            nonlocal read
            read += report.rows_read["t"]
            for number, query in enumerate(QUERIES.values()):
                assert_same(collected.folded(f"out_{number}"), result_of(query, ROWS[:read]))

        run_here(plan, tmp_path, rows_per_epoch=2, max_epochs=2, on_epoch=compare)
        run_here(plan, tmp_path, rows_per_epoch=6, parallelism=3, on_epoch=compare)
    assert read == len(ROWS)
    files = sorted(map(str, (tmp_path / "input").iterdir()))
    script = to_duckdb(plan, lambda _: files)
    for sink, query in zip(script.sinks, QUERIES.values(), strict=True):
        assert_same(batch_of(replace(script, sinks=(sink,))), result_of(query, ROWS))


def test_history_that_is_read_again_is_before_what_comes_then(tmp_path: Path) -> None:
    """The backfill has more epochs than the run had, whose numbers must not go before them."""
    old = "SELECT k, FIRST(v) AS f FROM t GROUP BY k"
    queries = [old, *(QUERIES[name] for name in ("first and last", "row numbers by key", "distinct on"))]
    put(tmp_path, ROWS[:8], files=4)
    before, after = planned(tmp_path, queries[:1]), planned(tmp_path, queries)
    with collecting() as collected:
        run_here(before, tmp_path, sql=before.masked_sql)
        put(tmp_path, ROWS[8:], files=1)
        run_here(after, tmp_path, rows_per_epoch=1, sql=after.masked_sql)
        for number, query in enumerate(queries):
            assert_same(collected.folded(f"out_{number}"), result_of(query, ROWS))


def test_an_order_that_rows_do_not_have(tmp_path: Path) -> None:
    """By event time FIRST goes as before; where rows have no order of their own, it is refused."""
    changes = TABLE.replace("TABLE t", "TABLE c").replace("'json'", "'changelog-json'")
    for query, code in {
        "SELECT FIRST(a.v) AS f FROM t AS a JOIN t AS b ON a.k = b.k": "SQL049",
        "SELECT LAST(n) AS f FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS g": "SQL049",
        "SELECT FIRST(v) AS f FROM (SELECT v FROM t UNION ALL SELECT v FROM t) AS u": "SQL049",
        "SELECT FIRST(v) AS f FROM c": "SQL049",
        "SELECT ROW_NUMBER() OVER () AS n FROM c": "SQL060",
        "SELECT v, RANK() OVER (PARTITION BY k) AS n FROM t": "SQL060",
        "SELECT DISTINCT ON (k) k, w FROM (SELECT k, SUM(v) OVER (PARTITION BY k) AS w FROM t) AS x": "SQL067",
    }.items():
        (tmp_path / "p.sql").write_text(f"{TABLE}{changes}{query};\n")
        with pytest.raises(DiagnosticError) as raised:
            plan_file(tmp_path / "p.sql")
        assert [d.code for d in raised.value.diagnostics] == [code], (query, raised.value)


WRITTEN = {
    "a list": "SELECT LIST(k) AS ks, COUNT(*) AS n FROM (SELECT k FROM t ORDER BY v, s, k) AS x",
    "what is not selected": "SELECT k, STRING_AGG(s, '-') AS p FROM (SELECT k, s FROM t ORDER BY v DESC, s) AS x GROUP BY k",
    "above a condition": "WITH x AS (SELECT k, s, v FROM t ORDER BY s DESC NULLS FIRST, v NULLS FIRST) "
    "SELECT k, FIRST(v) AS f, LAST(v) AS g, ARRAY_AGG(v) AS a FROM x WHERE k < 3 GROUP BY k",
    "of groups": "SELECT LIST(k) AS ks FROM (SELECT k, SUM(v) AS w FROM t GROUP BY k ORDER BY w, k) AS x",
    "a number": "SELECT s, v, ROW_NUMBER() OVER () AS n FROM (SELECT s, v FROM t ORDER BY v, s) AS x",
    "the first": "SELECT DISTINCT ON (k) k, v, s FROM (SELECT * FROM t ORDER BY v DESC NULLS LAST, s) AS x",
    "a limit": "SELECT * FROM (SELECT s, v FROM t ORDER BY v, s) AS x LIMIT 3",
    "two of them": "SELECT (SELECT LIST(v) FROM (SELECT v FROM t WHERE k = 2 ORDER BY v DESC NULLS FIRST) AS y) AS a, "
    "LIST(s) AS b FROM (SELECT s FROM t WHERE k = 1 ORDER BY s NULLS FIRST) AS x",
}


def test_the_order_of_a_sub_query_is_that_of_what_reads_its_rows(tmp_path: Path) -> None:
    put(tmp_path, ROWS, files=1)
    plan = planned(tmp_path, list(WRITTEN.values()))
    with collecting() as collected:
        run_here(plan, tmp_path, rows_per_epoch=5)
        for number, query in enumerate(WRITTEN.values()):
            assert_same(collected.folded(f"out_{number}"), result_of(query, ROWS))
