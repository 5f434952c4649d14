"""Edits where rows were left out because an expression failed over them: the result is that of a run from scratch."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sqlstream_planner.diagnostics import DiagnosticError
from tests.edits.test_dead_letters import decided, letters, run, write
from tests.edits.worlds import from_scratch, held

LEFT_OUT = "SET 'execution.failing-rows' = 'dead-letter';\n"
T = "CREATE TABLE t (k STRING, v STRING, w STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
ROWS = [("a", "1", "x"), ("a", "x", "2"), ("b", "3", "3"), ("b", "4", None)]


def sink(name: str, query: str, format_: str = "changelog-json") -> str:
    return f"CREATE TABLE {name} WITH ('connector' = 'filesystem', 'path' = '{name}', 'format' = '{format_}') AS {query};\n"


SUM = "SELECT k, COUNT(*) AS n, SUM(CAST(v AS INT)) AS m FROM t GROUP BY k"
COUNT = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
BEST = "SELECT k, COUNT(*) AS n, MAX(w) AS m FROM t GROUP BY k"


def check(folder: Path, sql: str) -> None:
    wanted = from_scratch(folder, sql, ["in"])
    assert {name: held(folder / name) for name in wanted} == wanted


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "query",
    [
        SUM.replace("CAST", "TRY_CAST"),
        SUM.replace("CAST(v", "CAST(w"),
        SUM.replace("CAST(v AS INT)", "CAST(LENGTH(v) AS INT)"),
        SUM.replace("FROM t", "FROM t WHERE v <> 'x'"),
    ],
)
def test_rows_that_were_left_out_are_read_again(query: str, tmp_path: Path) -> None:
    write(tmp_path, "0", ROWS, "json")
    run(tmp_path, LEFT_OUT + T + sink("out", SUM))
    assert len(letters(tmp_path)) == 1
    sql = LEFT_OUT + T + sink("out", query)
    made = decided(tmp_path, sql)
    assert not made.problems
    assert made.counts["KEEP"] == made.counts["ADAPT"] == 0
    run(tmp_path, sql)
    check(tmp_path, sql)
    write(tmp_path, "1", ROWS, "json")
    run(tmp_path, sql)
    check(tmp_path, sql)
    write(tmp_path, "2", ROWS, "json")
    run(tmp_path, LEFT_OUT + T + sink("out", SUM))
    check(tmp_path, LEFT_OUT + T + sink("out", SUM))
    assert sum(letters(tmp_path).values()) == 3


def test_what_is_above_the_rows_is_kept(tmp_path: Path) -> None:
    write(tmp_path, "0", ROWS, "json")
    run(tmp_path, LEFT_OUT + T + sink("out", SUM))
    sql = LEFT_OUT + T + sink("out", SUM + " HAVING COUNT(*) > 1")
    assert decided(tmp_path, sql).counts["BACKFILL"] == 0
    run(tmp_path, sql)
    check(tmp_path, sql)


def test_a_run_that_leaves_none_out_fails_as_one_from_scratch(tmp_path: Path) -> None:
    write(tmp_path, "0", ROWS, "json")
    run(tmp_path, LEFT_OUT + T + sink("out", SUM))
    had = held(tmp_path / "out")
    with pytest.raises(DiagnosticError, match="DAT001"):
        run(tmp_path, T + sink("out", SUM))
    assert held(tmp_path / "out") == had
    run(tmp_path, LEFT_OUT + T + sink("out", SUM))
    assert held(tmp_path / "out") == had


@pytest.mark.parametrize("edited", [COUNT + " HAVING COUNT(*) > 0", BEST])
def test_what_another_table_leaves_out_stays_out(edited: str, tmp_path: Path) -> None:
    """A count that is read again is without the row that `out` can't compute."""
    write(tmp_path, "0", ROWS, "json")
    run(tmp_path, LEFT_OUT + T + sink("out", SUM) + sink("more", COUNT))
    sql = LEFT_OUT + T + sink("out", SUM) + sink("more", edited)
    run(tmp_path, sql)
    check(tmp_path, sql)
    assert len(letters(tmp_path)) == 1


def test_a_table_that_comes_to_it_leaves_rows_out_of_the_others(tmp_path: Path) -> None:
    write(tmp_path, "0", ROWS, "json")
    run(tmp_path, LEFT_OUT + T + sink("more", COUNT))
    assert not letters(tmp_path)
    sql = LEFT_OUT + T + sink("more", COUNT) + sink("out", SUM)
    run(tmp_path, sql)
    check(tmp_path, sql)
    assert len(letters(tmp_path)) == 1


def test_files_that_keep_their_rows_are_not_read_again_so_that_it_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "0", ROWS, "json")
    files = sink("files", "SELECT k, CAST(v AS INT) AS v FROM t", "json")
    run(tmp_path, LEFT_OUT + T + files + sink("out", COUNT))
    assert held_counts(tmp_path) == Counter({("a", 1): 1, ("b", 2): 1})
    sql = LEFT_OUT + T + files + sink("out", BEST)
    assert [d.code for d in decided(tmp_path, sql).problems] == ["STA032"]
    with pytest.raises(DiagnosticError, match="STA032"):
        run(tmp_path, sql)
    run(tmp_path, LEFT_OUT + T + files + sink("out", COUNT))


def held_counts(folder: Path) -> Counter[tuple[Any, ...]]:
    return Counter(
        {(row["k"], row["n"]): n for text, n in held(folder / "out").items() for row in [json.loads(text)]}
    )
