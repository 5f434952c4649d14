"""docs/unit-tests.md: every test on the page passes over the page's pipeline, and what is shown is what is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.cli.test import command
from sqlstream.unit_tests import reading

PAGE = (Path(__file__).parents[2] / "docs/unit-tests.md").read_text(encoding="utf-8")
(SQL,) = re.findall(r"^```sql\n(.*?)^```", PAGE, re.M | re.S)
TESTS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
SHOWN = re.findall(r"^```text\n(.*?)^```", PAGE, re.M | re.S)
_SECONDS = re.compile(r"\d+\.\d s")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "orders.sql").write_text(SQL, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("number", range(len(TESTS)))
def test_the_tests_of_the_page_pass(number: int, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(TESTS) == 4
    (folder / "orders.test.yaml").write_text(TESTS[number], encoding="utf-8")
    assert run_cli(["test", "orders.sql"]) == 0, capsys.readouterr().out


def test_what_is_shown_is_what_is_printed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = TESTS[0].replace("orders: 2, amount: 12.50}", "orders: 3, amount: 12.50}")
    for text, shown in zip((TESTS[0], wrong), SHOWN, strict=True):
        (folder / "orders.test.yaml").write_text(text, encoding="utf-8")
        run_cli(["test", "orders.sql"])
        printed = "$ sqlstream test orders.sql\n" + capsys.readouterr().out
        assert _SECONDS.sub("", printed) == _SECONDS.sub("", shown)


def test_every_key_and_option_is_in_a_table() -> None:
    keys = {
        *reading.FILE_KEYS,
        *reading.TEST_KEYS,
        *reading.STEP_KEYS,
        *reading.EDIT_KEYS,
        *reading.ROWS_KEYS,
    } - {"version"}
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", PAGE))))
    assert keys - named == set()
    options = {option for p in command.params for option in p.opts if p.param_type_name == "option"}
    assert {o for o in options if o not in ("--jobs", "--verbose")} - set(
        re.findall(r"--?\w+", PAGE)
    ) == set()
