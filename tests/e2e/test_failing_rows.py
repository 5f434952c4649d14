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
        planned = plan_file(folder / "p.sql")
        run_here(
            planned,
            folder,
            place_of=planned.place_of,
            rows_per_epoch=cut,
            parallelism=2,
            state=f"state-{cut}",
        )
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


#: Groups whose greatest text is a number at times, and none at others.
CHANGING: list[dict[str, Any]] = [
    {"s": text, "v": int(v)}
    for v, text in (
        ("1", "1"),
        ("2", "a"),
        ("1", "3"),
        ("3", "0"),
        ("2", "b"),
        ("3", "x"),
        ("4", "7"),
        ("1", "2"),
        ("4", "y"),
        ("5", "5"),
        ("1", "z"),
        ("6", "6"),
        ("5", "8"),
    )
]
OF_GROUPS = "(SELECT v, MAX(s) AS m, COUNT(*) AS n FROM t GROUP BY v)"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("cut", [None, 5, 1])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"SELECT v, CAST(m AS INT) AS a, n FROM {OF_GROUPS}", [(5, 8, 2), (6, 6, 1)]),
        (f"SELECT SUM(CAST(m AS INT)) AS a, COUNT(*) AS b FROM {OF_GROUPS}", [(14, 2)]),
        (f"SELECT v, n FROM {OF_GROUPS} WHERE CAST(m AS INT) > 6 AND n > 1", [(5, 2)]),
    ],
)
def test_a_row_of_an_aggregate_is_set_aside_and_so_is_what_takes_it_back(
    tmp_path: Path, query: str, expected: list[tuple[Any, ...]], cut: int | None
) -> None:
    found, letters = run(tmp_path, query, CHANGING, cut=cut)
    assert sorted(found) == expected
    last = {letter["row"]["v"]: letter["row"]["m"] for letter in letters}
    assert last == {"1": "z", "2": "b", "3": "x", "4": "y"}
    assert {letter["kind"] for letter in letters} == {"failed"}
    assert all(letter["operator"].startswith("group_aggregate_1") for letter in letters)


@pytest.mark.parametrize(
    "query",
    [
        # In which order DuckDB looks at the sides of an OR is its own affair, and may be another one when the row goes.
        f"SELECT v FROM {OF_GROUPS} WHERE n > 100 OR CAST(m AS INT) > 0",
        # What a pair fails over depends on the other row.
        "SELECT a.v FROM t AS a JOIN t AS b ON a.v = b.v AND CAST(a.s || b.s AS INT) > 0",
    ],
)
def test_what_may_end_otherwise_when_the_row_is_taken_back_stops_the_run(tmp_path: Path, query: str) -> None:
    with pytest.raises(DiagnosticError, match="DAT001"):
        run(tmp_path, query, CHANGING)


def test_the_message_of_a_later_failure_names_expression_place_and_row(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError) as failed:
        run(tmp_path, f"SELECT v, n,\n  CAST(m AS INT) AS a FROM {OF_GROUPS}", CHANGING[1:2], setting="fail")
    reported = failed.value.diagnostics[0]
    assert (reported.code, reported.message) == (
        "DAT001",
        "Conversion Error: Could not convert string 'a' to INT32",
    )
    assert reported.span is not None
    assert (reported.span.line, reported.span.column, reported.span.length) == (4, 3, 14)
    assert (
        reported.notes[0] == "the row is v = 2, n = 1, m = a"
        or reported.notes[0] == "the row is v = 2, m = a, n = 1"
    )
    assert "TRY_CAST" in (reported.help or "")


def test_another_query_does_not_go_on_without_rows_of_aggregates(tmp_path: Path) -> None:
    query = f"SELECT v, CAST(m AS INT) AS a FROM {OF_GROUPS}"
    assert len(run(tmp_path, query, CHANGING)[0]) == 2
    assert run(tmp_path, query, CHANGING)[0] == []
    for other, setting in ((query.replace("CAST", "TRY_CAST"), "dead-letter"), (query, "fail")):
        with pytest.raises(DiagnosticError, match="STA032"):
            run(tmp_path, other, CHANGING, setting=setting)


def test_rows_that_were_left_out_are_tried_again_where_none_may_be(tmp_path: Path) -> None:
    """What an edit of the expressions makes of them is in tests/edits/test_left_out_rows.py."""
    rows: list[dict[str, Any]] = [{"s": "1", "v": 1}, {"s": "x", "v": 2}]
    query = "SELECT COUNT(*) AS n, SUM(CAST(s AS INT)) AS a FROM t"
    assert run(tmp_path, query, rows)[0] == [(1, 1)]
    assert run(tmp_path, query, rows)[0] == []  # nothing came
    with pytest.raises(DiagnosticError, match="DAT001"):
        run(tmp_path, query, rows, setting="fail")


def test_another_query_goes_on_where_no_row_was_left_out(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"s": "1", "v": 1}, {"s": "2", "v": 2}]
    assert run(tmp_path, "SELECT SUM(CAST(s AS INT)) AS a FROM t", rows)[0] == [(3,)]
    run(tmp_path, "SELECT COUNT(*) AS n, SUM(v) AS a FROM t", rows)
