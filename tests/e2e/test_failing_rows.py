"""SET 'execution.failing-rows' = 'dead-letter': a row over which an expression fails is left out, and the others count."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.task import failing_rows
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.in_process import run_here
from tests.properties.updating import collecting

ROWS: list[dict[str, Any]] = [{"s": str(i) if i % 7 != 3 else f"x{i}", "v": i} for i in range(40)]
GOOD = [i for i in range(40) if i % 7 != 3]


def run(
    folder: Path,
    query: str,
    rows: list[dict[str, Any]],
    *,
    cut: int | None = None,
    setting: str = "dead-letter",
) -> tuple[list[tuple[Any, ...]], list[dict[str, Any]]]:
    """What the sink has, and the dead letters."""
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "0.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "p.sql").write_text(
        f"SET 'execution.failing-rows' = '{setting}';\n"
        "CREATE TABLE t (s STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};\n"
    )
    with collecting() as collected:
        run_here(plan_file(folder / "p.sql"), folder, rows_per_epoch=cut, parallelism=2, state=f"state-{cut}")
        found = collected.folded("out")
    files = sorted((folder / f"state-{cut}" / "dead-letter").glob("*.jsonl"))
    return found, [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("cut", [None, 7, 1])
def test_the_other_rows_are_computed(tmp_path: Path, cut: int | None) -> None:
    query = "SELECT SUM(CAST(s AS INT)) AS a, COUNT(*) AS n, MAX(v) AS m FROM t"
    found, letters = run(tmp_path, query, ROWS, cut=cut)
    assert found == [(sum(GOOD), len(GOOD), 39)]
    assert [json.loads(letter["row"])["s"] for letter in letters] == ["x3", "x10", "x17", "x24", "x31", "x38"]
    assert {letter["kind"] for letter in letters} == {"malformed"}
    assert all("Could not convert string" in letter["reason"] for letter in letters)
    assert all('CAST("s" AS INT)' in letter["expression"] for letter in letters)


def test_rows_that_can_not_be_read_are_told_beside_them(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"s": "1", "v": 1}, {"s": "2", "v": "nonsense"}, {"s": "x", "v": 3}]
    found, letters = run(tmp_path, "SELECT CAST(s AS INT) + v AS a FROM t", rows)
    assert found == [(2,)]
    assert [("expression" in letter, letter["row"]) for letter in letters] == [
        (False, '{"s": "2", "v": "nonsense"}'),
        (True, '{"s":"x","v":3}'),
    ]


def test_arithmetic_that_overflows_is_the_row_s(tmp_path: Path) -> None:
    rows = [{"s": "a", "v": 2_000_000_000}, {"s": "b", "v": 5}]
    found, letters = run(tmp_path, "SELECT s, CAST(v * 2 AS INT) AS a FROM t", rows)
    assert found == [("b", 10)]
    assert len(letters) == 1


def test_by_default_the_run_stops(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError, match="DAT001"):
        run(tmp_path, "SELECT CAST(s AS INT) AS a FROM t", ROWS, setting="fail")


def test_what_fails_over_several_rows_stops_it_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"s": "9" * 38, "v": 1}, {"s": "9" * 38, "v": 1}]
    with pytest.raises(DiagnosticError, match="DAT001"):
        run(tmp_path, "SELECT SUM(CAST(s AS DECIMAL(38, 0))) AS a FROM t", rows)
    monkeypatch.setattr(failing_rows, "MOST", 5)
    rows = [{"s": "x", "v": i} for i in range(12)]
    with pytest.raises(DiagnosticError, match="DAT001"):
        run(tmp_path, "SELECT CAST(s AS INT) AS a FROM t", rows)


def test_another_query_does_not_go_on_without_rows_that_it_could_compute(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"s": "1", "v": 1}, {"s": "x", "v": 2}]
    query = "SELECT COUNT(*) AS n, SUM(CAST(s AS INT)) AS a FROM t"
    assert run(tmp_path, query, rows)[0] == [(1, 1)]
    assert run(tmp_path, query, rows)[0] == []  # nothing came
    for other, setting in ((query.replace("CAST", "TRY_CAST"), "dead-letter"), (query, "fail")):
        with pytest.raises(DiagnosticError, match="STA032"):
            run(tmp_path, other, rows, setting=setting)


def test_another_query_goes_on_where_no_row_was_left_out(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"s": "1", "v": 1}, {"s": "2", "v": 2}]
    assert run(tmp_path, "SELECT SUM(CAST(s AS INT)) AS a FROM t", rows)[0] == [(3,)]
    run(tmp_path, "SELECT COUNT(*) AS n, SUM(v) AS a FROM t", rows)
