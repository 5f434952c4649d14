"""Every command in the documentation runs, and shows what the page says it shows.

A `console` block is a list of commands; what follows a command is the start of its standard output, which `> FILE`
keeps. The blocks of a page run one after the other in one folder: a copy of the example pipelines. Those of the README run
as processes, as a reader runs them; those of the other pages in this one, with the Spark that all tests share.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from tests.conftest import Sqlstream

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(str(ROOT / p) for p in (".", "planner", "operators")),
}
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    command: str
    output: list[str]


def steps(page: Path) -> list[Step]:
    found: list[Step] = []
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:], []))
            elif line:
                found[-1].output.append(line)
    return found


_WALKS = [ROOT / "docs" / name for name in ("kafka.md", "lakehouse.md")]  # test_…_walk.py run them
WITH_COMMANDS = [
    page
    for page in PAGES
    if page not in _WALKS and any(s.command.startswith("sqlstream") for s in steps(page))
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("pipelines", "golden"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns(".sqlstream", "out"))
    return tmp_path


@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda p: str(p.relative_to(ROOT)))
def test_commands_do_what_the_page_says(
    page: Path, folder: Path, sqlstream_here: Sqlstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[str] = []
    monkeypatch.chdir(folder)
    for step in steps(page):
        if step.command.startswith("make "):
            continue
        if step.command.startswith(("echo ", "sed ")):  # a file that comes, or is edited
            subprocess.run(step.command, shell=True, cwd=folder, check=True)
            before.clear()
            continue
        command, _, file = step.command.partition(" > ")
        words = shlex.split(command, comments=True)
        assert words[0] == "sqlstream", step.command
        if page.name == "README.md":
            program = [sys.executable, "-m", *words]
            done = subprocess.run(program, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
        else:
            done = sqlstream_here(*words[1:])
        assert done.returncode == 0, f"{step.command}\n{done.stdout}\n{done.stderr}"
        if file:
            (folder / file).write_text(done.stdout, encoding="utf-8")
        shown = done.stdout.splitlines()
        assert shown[: len(step.output)] == step.output, step.command
        if words[1] == "run" and step.command in before:
            assert shown == [], "the second run has nothing new"
        before.append(step.command)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)`", page.read_text(encoding="utf-8")))
    named |= {s.command.split()[1] for s in steps(page) if s.command.startswith("make ")}
    assert named <= targets


def test_the_readme_shows_the_project_that_init_makes(tmp_path: Path) -> None:
    assert run_cli(["init", str(tmp_path / "shop")]) == 0
    pipeline = (tmp_path / "shop/pipelines/orders.sql").read_text()
    shown = re.search(r"```sql\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    code = [line for line in pipeline.splitlines() if not line.startswith("--")]
    assert "".join(shown[1].split()) == "".join("\n".join(code).split())


def test_the_readme_shows_rows_that_the_demo_gives() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```text\n(daily.*?)```", text, re.DOTALL)
    assert shown is not None
    header, *rows = (line.split() for line in shown[1].splitlines()[1:6])
    with (ROOT / "golden/flights/departures/daily.csv").open(encoding="utf-8", newline="") as file:
        given = sorted(csv.DictReader(file), key=lambda row: (row["window_start"], row["origin"]))
    assert [" ".join(row) for row in rows] == [" ".join(row[name] for name in header) for row in given[:4]]
    assert f"… {len(given)} rows" in shown[1]
    for sink in ("daily", "rush", "day_so_far"):
        lines = (ROOT / f"golden/flights/departures/{sink}.csv").read_text(encoding="utf-8").splitlines()
        assert f"{sink} {len(lines) - 1}" in shown[1]


def test_the_figures_of_the_readme_stand_where_they_were_measured() -> None:
    rows = re.findall(
        r"^\| (\*\*.*) \| .* \| \[.*\]\(([^)#]+).*\) \|$", (ROOT / "README.md").read_text(), re.M
    )
    assert len(rows) == 4
    for figures, page in rows:
        measured = (ROOT / page).read_text(encoding="utf-8")
        for figure in re.findall(r"\d[\d.]*", figures):
            assert re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d]|\.\d)", measured), (
                f"{figure} is not in {page}"
            )
