"""The tour of an edit, step by step as it is written, with DuckDB's answers."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.conftest import Sqlstream

PAGE = Path(__file__).parents[2] / "docs" / "tour-of-an-edit.md"


def blocks(kind: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def table(file: Path) -> Counter[tuple[Any, ...]]:
    with duckdb.connect(str(file), read_only=True) as con:
        return Counter(con.execute("SELECT * FROM regions").fetchall())


@pytest.mark.spark
def test_the_tour(tmp_path: Path, sqlstream_here: Sqlstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, edited, referee = blocks("sql")
    one, two = blocks("json")
    commands = [shlex.split(block.removeprefix("$ "))[1:] for block in blocks("text")]
    run, savepoint, plan, run_edited, fork, rescaled, state = commands

    def done(command: list[str]) -> str:
        result = sqlstream_here(*command)
        assert result.returncode == 0, result.stderr
        return str(result.stdout)

    def referees() -> Counter[tuple[Any, ...]]:
        return Counter(duckdb.sql(referee).fetchall())

    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "1.json").write_text(one)
    (tmp_path / "regions.sql").write_text(first)
    done(run)
    assert table(tmp_path / "regions.duckdb") == Counter(
        [("north", 2, 35, 2), ("North", 1, 5, 1), ("south", 2, 42, 1), ("west", 1, 7, 1)]
    )
    done(savepoint)
    (tmp_path / "regions.sql").write_text(edited)
    shown = done(plan)
    for verdict in ("ADAPT", "BACKFILL", "DROP"):
        assert verdict in shown
    assert shown.rstrip().endswith("The result is exact.")
    (tmp_path / "orders" / "2.json").write_text(two)
    done(run_edited)
    assert table(tmp_path / "regions.duckdb") == referees()
    done(fork)
    assert table(tmp_path / "other.duckdb") == referees()
    (tmp_path / "orders" / "3.json").write_text(two)
    done(rescaled)
    assert table(tmp_path / "regions.duckdb") == referees()
    assert table(tmp_path / "other.duckdb") != referees()
    assert "group_aggregate" in done(state)
