"""The plan of an edit that the documentation shows is what `plan` says of it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from tests.properties.in_process import run_here

ROOT = Path(__file__).parents[2]
_DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


def block(page: str, kind: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(rf"^```{kind}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return str(found[0])


def shown(page: str) -> list[str]:
    """The lines that a page shows behind the command `sqlstream plan`, with no date."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(
        r"^\$ sqlstream plan shop/pipelines/totals\.sql\n(.*?)^```", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return _DATE.sub("DATE", found[1]).splitlines()


def edited(text: str, diff: str) -> str:
    """The text with the one hunk of a diff applied."""
    old = "".join(line[1:] + "\n" for line in diff.splitlines() if line[0] in " -")
    new = "".join(line[1:] + "\n" for line in diff.splitlines() if line[0] in " +")
    assert old in text
    return text.replace(old, new)


def test_the_plan_that_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_cli(["init", "shop"]) == 0
    file = Path("shop/pipelines/totals.sql")
    text = block("docs/edits.md", "sql")
    file.write_text(text)
    planned = plan_file(file)
    run_here(
        planned,
        Path("shop/pipelines").absolute(),
        state=".sqlstream/totals",
        sql=planned.masked_sql,
        wall_clock=lambda: 1_795_338_840.0,
    )
    file.write_text(edited(text, block("docs/edits.md", "diff")))
    capsys.readouterr()
    assert run_cli(["plan", str(file)]) == 0
    printed = capsys.readouterr().out
    assert _DATE.sub("DATE", printed).splitlines() == shown("docs/edits.md")


def test_the_picture_shows_that_edit() -> None:
    """The README's: the lines of the diff, the fields with their verdicts, and what the results mean."""
    picture = ElementTree.parse(ROOT / "docs/edit.svg").getroot()
    texts = ["".join(node.itertext()).strip() for node in picture.iter("{http://www.w3.org/2000/svg}text")]
    plan = "\n".join(shown("docs/edits.md"))
    fields = re.findall(r"^    ([=+-]) (.+?)  +(KEEP|BACKFILL|DROP)", plan, re.MULTILINE)
    assert len(fields) == 3
    for mark, field, verdict in fields:
        at = texts.index(field)
        assert (texts[at - 1], texts[at + 1]) == (mark, verdict)
    assert "reads 6 rows of orders" in plan
    assert "reads 6 rows of orders again" in texts
    assert plan.endswith("The result is exact.")
    assert "The result is exact." in texts
    code = {line[1:].strip().rstrip(";") for line in block("docs/edits.md", "diff").splitlines()}
    written = {line.replace("SELECT customer, COUNT(*), ", "") for line in code}
    assert written <= set(texts)
