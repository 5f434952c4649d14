"""The page on layers, step by step as it is written, with DuckDB's answers."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.cli.main import run_cli

PAGE = Path(__file__).parents[2] / "docs" / "layers.md"
LAYERS = ("bronze", "silver", "gold")


def blocks(kind: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands() -> Iterator[list[list[str]]]:
    for block in blocks("text"):
        yield [shlex.split(line.removeprefix("$ ")) for line in block.splitlines()]


def do(words: list[str], shown: pytest.CaptureFixture[str]) -> str:
    if words[0] == "sqlstream":
        code = run_cli(words[1:])
        reported = shown.readouterr()
        assert code == 0, reported.err
        return reported.out + reported.err
    command, target = words[: words.index(">")], words[-1]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    Path(target).write_text(made.stdout)
    return ""


def table(name: str) -> Counter[tuple[Any, ...]]:
    with duckdb.connect("gold.duckdb", read_only=True) as con:
        return Counter(con.execute(f"SELECT * FROM {name}").fetchall())


def test_a_column_through_three_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    one, two = blocks("json")
    texts = blocks("sql")
    first, second, third = commands()
    Path("landing").mkdir()
    Path("landing/1.json").write_text(one)
    for name, text in zip(LAYERS, texts[:3], strict=True):
        Path(f"{name}.sql").write_text(text)
    for words in first:
        do(words, capsys)
    assert table("gold") == Counter([("NORTH", 1, 10), ("SOUTH", 1, 25)])
    for name, text in zip(LAYERS, texts[3:], strict=True):
        Path(f"{name}.sql").write_text(text)
    Path("landing/2.json").write_text(two)
    reported = [do(words, capsys) for words in second]
    assert all("STA016" in plan for plan in (reported[0], reported[2]))
    assert "The result is exact." in reported[4]
    assert table("gold") == Counter([("NORTH", 2, 15, 1), ("SOUTH", 1, 25, 0)])
    for words in third:
        do(words, capsys)
    assert table("gold2") == Counter([("NORTH", 2, 15, 2), ("SOUTH", 1, 25, 0)])
    for words in second[1:4:2]:
        assert "nothing new" in do(words, capsys)
