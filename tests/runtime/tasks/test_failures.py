"""What a user is told of an expression that the data makes impossible: what happened, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.updating import check

ROWS = [{"k": 2147483647, "s": "one", "v": 0}, {"k": -9, "s": "2", "v": 3}]


@pytest.mark.parametrize(
    ("query", "happened", "instead"),
    [
        ("SELECT k % v AS r FROM t", "Division by zero", "NULLIF(divisor, 0)"),
        ("SELECT s, MAX(k) // MIN(v) AS r FROM t GROUP BY s", "Division by zero", "NULLIF(divisor, 0)"),
        ("SELECT k + k AS r FROM t", "Overflow in addition", "wider type"),
        ("SELECT MAX(k) - MIN(k) AS r FROM t", "Overflow in subtraction", "wider type"),
        ("SELECT CAST(s AS INT) AS r FROM t", "Could not convert string 'one'", "TRY_CAST"),
    ],
)
def test_the_help_is_about_what_happened(tmp_path: Path, query: str, happened: str, instead: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        check(tmp_path, query, ROWS)
    [diagnostic] = raised.value.diagnostics
    assert diagnostic.code == "DAT001"
    assert happened in diagnostic.message
    assert "SET " not in diagnostic.message
    assert diagnostic.help is not None
    assert instead in diagnostic.help
    assert "the run goes on where it stopped" in diagnostic.help


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k % NULLIF(v, 0) AS r FROM t",
        "SELECT TRY(k % v) AS r FROM t",
        "SELECT TRY(MAX(k) - MIN(k)) AS r FROM t",
        "SELECT CAST(MAX(k) AS BIGINT) - MIN(k) AS r FROM t",
        "SELECT TRY_CAST(s AS INT) AS r FROM t",
    ],
)
def test_what_the_help_says_runs(tmp_path: Path, query: str) -> None:
    check(tmp_path, query, ROWS)
