"""docs/flink.md: what its table says of an expression is what it gives, and `check` tells where it matters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.explain.flink import differs_from_flink
from tests.properties.in_process import run_here
from tests.properties.updating import collecting

PAGE = (Path(__file__).parents[2] / "docs" / "flink.md").read_text(encoding="utf-8")
_ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.partition("## Expressions")[2].partition("## Aggregates")[0].splitlines()
    if line.startswith("| `")
]
VALUES = "CAST(7 AS INT) AS i, DATE '2024-01-07' AS d, 'abc' AS s, CAST(2.7 AS DOUBLE) AS x, CAST(NULL AS INT) AS n"
TABLE = """CREATE TABLE t (k INT, v INT, x DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""


def _given(expression: str, folder: Path) -> str:
    query = f"SELECT CAST({expression} AS STRING) AS z FROM (SELECT {VALUES})"
    (folder / "p.sql").write_text(f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};")
    with collecting() as collected:
        run_here(plan_file(folder / "p.sql"), folder, state=str(abs(hash(expression))))
        [(value,)] = collected.folded("out")
    return "NULL" if value is None else str(value)


def test_expressions_give_what_the_page_says(tmp_path: Path) -> None:
    checked = 0
    for written, here, flink, instead in _ROWS:
        expression = written.strip("`")
        if not written.endswith("`"):
            continue  # of which the run stops
        wanted = re.sub(r" \(.*\)$", "", here)
        assert _given(expression, tmp_path).lower() in (
            wanted.lower(),
            {"Infinity": "inf", "''": ""}.get(wanted),
        ), expression
        other = instead.strip("`") if instead.endswith("`") else ""
        if other and not flink.startswith("a "):
            assert _given(other, tmp_path) == flink, other
            checked += 1
    assert checked > 5


def _note(query: str) -> Diagnostic | None:
    sink = f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};"
    return differs_from_flink(plan_file(TABLE + sink, file="f.sql"))


WINDOW = (
    "SELECT window_start, {} AS z FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
    "GROUP BY window_start, window_end"
)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (WINDOW.format("SUM(v) / 2"), "a quotient of integers"),
        (WINDOW.format("AVG(v)"), "an average of integers"),
        (WINDOW.format("CAST(SUM(x) AS INT)"), "a cast to an integer rounds"),
        ("SELECT `k` / v AS z FROM t", "a quotient of integers"),
        (
            "SELECT AVG(v) OVER (PARTITION BY k ORDER BY ts) AS z, PROCTIME() AS p FROM t",
            "an average of integers",
        ),
        (WINDOW.format("SUM(x) / 2"), None),
        (WINDOW.format("AVG(x)"), None),
        (WINDOW.format("SUM(v) // 2"), None),
        (WINDOW.format("CAST(TRUNC(SUM(x)) AS DOUBLE)"), None),
        (WINDOW.format("CAST(COUNT(*) AS INT)"), None),
        # Nobody says that it is Flink's.
        ("SELECT k / v AS z, AVG(v) OVER (ORDER BY ts) AS m FROM t", None),
        ("SELECT k / v AS z, '`' AS y FROM t -- DESCRIPTOR(ts)", None),
    ],
)
def test_a_note_where_flink_would_give_another_value(query: str, expected: str | None) -> None:
    found = _note(query)
    assert (found is None) == (expected is None)
    assert found is None or found.message.startswith(str(expected))


def test_check_prints_one_note_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = WINDOW.format("SUM(v) / 2 AS y, AVG(v)")
    (tmp_path / "p.sql").write_text(f"{TABLE}{query};")
    assert run_cli(["check", str(tmp_path / "p.sql")]) == 0
    reported = capsys.readouterr().err
    assert reported.count("note[SQL109]") == 1
    assert "1 more place of the file does too" in reported
