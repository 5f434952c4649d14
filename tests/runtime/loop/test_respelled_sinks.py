"""A sink whose path is written in other words is where it was: it goes on, and nothing is given twice."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.cli.main import run_cli

T = "CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
ROWS = T + (
    "CREATE TABLE o (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');\n"
    "INSERT INTO o SELECT k, v FROM t;"
)
CHANGES = T + (
    "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'changelog-json') AS "
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k;"
)
TABLE = T + (
    "CREATE TABLE o (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) "
    "WITH ('connector' = 'duckdb', 'path' = '{path}');\n"
    "INSERT INTO o SELECT k, COUNT(*) AS n FROM t GROUP BY k;"
)
PATHS = ["./out", "{here}/out", "file://{here}/out", "more/../out", "{here}/link/out"]


def command(folder: Path, name: str, text: str, *more: str) -> int:
    (folder / "p.sql").write_text(text)
    return run_cli([name, str(folder / "p.sql"), "--state-dir", str(folder / "state"), *more])


def write(folder: Path, number: int, *keys: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    file = folder / f"in/{number}.json"
    file.write_text("".join(json.dumps({"k": k, "v": 1}) + "\n" for k in keys))
    os.utime(file, (1, 1))


def given(folder: Path, text: str) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    if text is TABLE:
        with duckdb.connect(str(folder / "out"), read_only=True) as connection:
            return Counter(connection.execute("SELECT * FROM o").fetchall())
    for file in sorted((folder / "out").glob("*.json")):
        for message in map(json.loads, file.read_text().splitlines()):
            row = tuple(message.get("data", message).values())
            found[row] += 1 if message.get("op", "INSERT") in ("INSERT", "+I", "+U", "UPDATE_AFTER") else -1
    return +found


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("text", "path"),
    # A database's path is no URI.
    [
        (text, path)
        for text in (ROWS, CHANGES, TABLE)
        for path in PATHS
        if text is not TABLE or "://" not in path
    ],
)
def test_a_path_in_other_words(
    text: str, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "link").symlink_to(tmp_path)
    write(tmp_path, 0, "a", "a", "b")
    assert command(tmp_path, "run", text.format(path="out")) == 0
    other = text.format(path=path.format(here=tmp_path))
    capsys.readouterr()
    assert command(tmp_path, "plan", other, "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert [sink["change"] for sink in made["sinks"]] == ["goes on"]
    assert made["exact"]
    for number, last in enumerate((other, text.format(path="out"), other), 1):
        write(tmp_path, number, "a")
        assert command(tmp_path, "run", last) == 0
    rows = {("a", 1): 5, ("b", 1): 1} if text is ROWS else {("a", 5): 1, ("b", 1): 1}
    assert given(tmp_path, text) == Counter(rows)


@pytest.mark.parametrize("text", [ROWS, CHANGES, TABLE], ids=["rows", "changes", "a table"])
def test_another_place_with_the_same_last_name_is_another(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "more").mkdir()
    write(tmp_path, 0, "a")
    assert command(tmp_path, "run", text.format(path="out")) == 0
    capsys.readouterr()
    command(tmp_path, "plan", text.format(path=f"{tmp_path}/more/out"), "--json")
    made = json.loads(capsys.readouterr().out)
    assert "goes on" not in [sink["change"] for sink in made["sinks"]]
