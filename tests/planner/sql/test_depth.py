"""How deep a file may nest, and what is said of one that nests deeper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.sql.dialect.depth import MAX_DEPTH
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.updating import collecting

TABLES = """CREATE TABLE t (k STRING, a BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'csv');
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("before", "each", "middle", "behind"),
    [
        ("SELECT ", "(", "a", ")"),
        ("SELECT ", "ABS(", "a", ")"),
        ("SELECT ", "CASE WHEN a = 1 THEN 1 ELSE ", "a", " END"),
        ("SELECT ", "NOT ", "(a = 1)", ""),
        ("SELECT ", "a + ", "a", ""),
        ("SELECT ", "(a + ", "a", ")"),
        ("SELECT ", "a || ", "a", ""),
        ("SELECT ", "[", "a", "]"),
        ("SELECT ", "", "a", "::BIGINT"),
        ("SELECT a FROM t WHERE ", "EXISTS (SELECT 1 FROM t WHERE ", "a = 1", ")"),
        ("SELECT a FROM t EXCEPT ", "", "SELECT a", " FROM t EXCEPT SELECT a"),
        ("SELECT ", "CAST(", "a", " AS BIGINT)"),
    ],
)
def test_what_nests_too_deeply_is_refused_where_it_does(
    before: str, each: str, middle: str, behind: str
) -> None:
    levels = MAX_DEPTH + MAX_DEPTH // 10
    limit = sys.getrecursionlimit()
    with pytest.raises(DiagnosticError) as caught:
        plan_file(f"{TABLES}\n{before}{each * levels}{middle}{behind * levels} FROM t;")
    [problem] = caught.value.diagnostics
    assert problem.code == "SQL107", problem
    assert problem.span is not None
    assert problem.span.line == 3
    assert problem.help
    assert sys.getrecursionlimit() == limit


@pytest.mark.sampled(2)
@pytest.mark.parametrize("word", ["UNION", "INTERSECT", "EXCEPT", "EXCEPT ALL"])
@pytest.mark.parametrize("ahead", [0, 50])
def test_another_word_in_a_long_chain_of_union_all_keeps_its_place(word: str, ahead: int) -> None:
    all_ = " UNION ALL SELECT 1 + a AS x FROM t"
    query = f"SELECT a AS x FROM t{all_ * ahead} {word} SELECT 2 AS x FROM t{all_ * 40}"
    planned = plan_file(f"{TABLES}{query};")
    duck = duckdb.connect()
    duck.execute("CREATE TABLE t AS SELECT 'k' AS k, unnest([1, 1, 2, 3]) AS a")
    [(_, select)] = to_duckdb(planned).sinks
    wanted = sorted(duck.execute(query).fetchall())
    assert len(wanted) > 100
    assert sorted(duck.execute(select).fetchall()) == wanted


#: Calls in calls: how one is written around another, and what is in the innermost.
NESTED = {
    "JSON_VALUE": ("JSON_VALUE(", "k", ", '$.a')"),
    "JSON_QUERY": ("JSON_QUERY(", "k", ", '$.a')"),
    "IF": ("IF(a > 1, 'x', ", "k", ")"),
    "UPPER": ("UPPER(", "k", ")"),
    "NVL": ("NVL(", "k", ", 'x')"),
    "CONCAT": ("CONCAT('x', ", "k", ")"),
    "slices": ("", "k", "[1:2]"),
    "REGEXP_REPLACE": ("REGEXP_REPLACE(", "k", ", 'a', 'b')"),
    "LPAD": ("LPAD(", "k", ", 3)"),
    "SUBSTRING": ("SUBSTRING(", "k", " FROM 2)"),
    "DATE_FORMAT": ("DATE_FORMAT(", "k", ", 'yyyy')"),
    "TO_BASE64": ("TO_BASE64(", "k", ")"),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.sampled(4)
def test_calls_in_calls_grow_as_they_are_written(name: str) -> None:
    before, middle, behind = NESTED[name]

    def length(levels: int) -> int:
        text = f"{TABLES}SELECT {before * levels}{middle}{behind * levels} AS x FROM t"
        [(_, select)] = to_duckdb(plan_file(text)).sinks
        return len(select)

    assert length(80) - length(60) <= 1.1 * (length(60) - length(40))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("before", "middle", "behind"),
    [
        ("JSON_UNQUOTE(", "k", ")"),
        ("REGEXP_SUBSTR(", "k", ", 'a')"),
        ("SUBSTRING_INDEX(", "k", ", ',', 2)"),
        ("LOCATE('a', k, ", "a", ")"),
        ("SPLIT_PART(", "k", ", ',', 1)"),
        ("NULLIF(", "k", ", 'x')"),
        ("CASE ", "k", " WHEN 'a' THEN 'b' WHEN 'b' THEN 'c' END"),
        ("ELT(2, ", "k", ", 'a')"),
        ("CASE WHEN k = 'a' THEN NULLIF(", "k", ", 'x') END"),
    ],
)
def test_calls_in_calls_that_would_multiply_are_refused(before: str, middle: str, behind: str) -> None:
    plan_file(f"{TABLES}SELECT {before * 4}{middle}{behind * 4} AS x FROM t")
    if before.startswith("ELT"):
        return  # what it chooses from stands there once
    with pytest.raises(DiagnosticError) as caught:
        plan_file(f"{TABLES}\nSELECT {before * 40}{middle}{behind * 40} AS x FROM t")
    [problem] = caught.value.diagnostics
    assert problem.code == "SQL107", problem
    assert problem.span is not None
    assert problem.span.line == 3


DEEP = {
    "sum": "SELECT a" + " + a" * 1500 + " AS x FROM t",
    "text": "SELECT k" + " || 'x'" * 1500 + " AS x FROM t",
    "calls": "SELECT " + "UPPER(" * 1200 + "k" + ")" * 1200 + " AS x FROM t",
    "unions": "SELECT a AS x FROM t" + " UNION ALL SELECT a + 1 FROM t" * 500,
    "distinct unions": "SELECT a AS x FROM t" + " UNION SELECT a + 1 FROM t" * 200,
    "sub-queries": "SELECT a AS x FROM " + "(SELECT a + 1 AS a FROM " * 300 + "t" + ")" * 300,
    "conditions": "SELECT a AS x FROM t WHERE "
    + " OR ".join(f"(k = 'v{i}' AND a = {i})" for i in range(500)),
    "JSON": "SELECT " + "JSON_QUERY(" * 150 + "k" + ", '$')" * 150 + " AS x FROM t",
    "windows": "SELECT k, SUM(a) AS x FROM t GROUP BY k HAVING "
    + " OR ".join(f"SUM(a) = {i}" for i in range(500)),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", DEEP)
def test_a_deep_query_runs_as_explain_writes_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("k,a\n[1],1\n")
    declared = TABLES.replace("'in'", f"'{tmp_path}/in'")
    text = to_duckdb(plan_file(f"{declared}{DEEP[name]};")).text
    # Statement by statement, as DuckDB's shell reads a file.
    run = (
        "import duckdb, sys; c = duckdb.connect(); [c.execute(s) for s in sys.stdin.read().split(';\\n\\n')]"
    )
    subprocess.run([sys.executable, "-c", run], input=text, text=True, check=True, timeout=120)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("query", "rows"),
    [
        (f"SELECT a{' + a' * 1500} AS x FROM t", [(1501,), (3002,)]),
        (f"SELECT {'ABS(' * 1500}a{')' * 1500} AS x FROM t", [(1,), (2,)]),
        (f"SELECT {'CASE WHEN a = 1 THEN 1 ELSE ' * 1000}a{' END' * 1000} AS x FROM t", [(1,), (2,)]),
        (f"SELECT a AS x FROM {'(SELECT a + 1 AS a FROM ' * 500}t{')' * 500}", [(501,), (502,)]),
        (f"SELECT a AS x FROM t WHERE a IN ({', '.join(map(str, range(2, 8_000)))})", [(2,)]),
        (f"SELECT SUM(a{' - 1' * 1500}) AS x FROM t", [(-2997,)]),
    ],
    ids=["sum", "calls", "cases", "sub-queries", "list", "aggregate"],
)
def test_a_deep_query_runs_in_a_pipeline(tmp_path: Path, query: str, rows: list[tuple[int]]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("k,a\nx,1\ny,2\n")
    (tmp_path / "p.sql").write_text(
        f"{TABLES}CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};\n"
    )
    with collecting() as collected:
        run_here(plan_file(tmp_path / "p.sql"), tmp_path)
        assert_same(collected.folded("out"), rows)


def test_a_usual_query_is_explained_without_settings_of_depth() -> None:
    assert (
        "max_expression_depth" not in to_duckdb(plan_file(f"{TABLES}SELECT k, SUM(a) FROM t GROUP BY k")).text
    )
