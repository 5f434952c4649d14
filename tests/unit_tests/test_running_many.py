"""Many tests: which are found and selected, in several processes, what is reported, and what a watch waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from sqlstream.unit_tests import parallel, watching
from sqlstream.unit_tests.discovery import test_files as files_for
from sqlstream.unit_tests.junit import to_junit
from sqlstream.unit_tests.outcome import FileOutcome, Outcome, Status
from sqlstream.unit_tests.parallel import run_all, selected
from sqlstream.unit_tests.report import file_lines, summary
from sqlstream.unit_tests.selection import selection
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span, render
from tests.unit_tests.support import written

PASSES = "- name: passes\n  given: {bids: [{id: 1}]}\n  expect: {totals: [{n: 1}]}"
FAILS = "- name: fails\n  given: {bids: [{id: 1}]}\n  expect: {totals: [{n: 2}, {n: 3}], dear: [{id: 4}]}"


def project(folder: Path) -> list[Path]:
    """Three files: one passes, one fails, one has a mistake; and one that no pipeline has."""
    made = []
    for name, tests in (("a", PASSES), ("b", f"{PASSES}\n{FAILS}"), ("c", "- nam: x")):
        inside = folder / "pipelines" / name
        inside.mkdir(parents=True)
        made.append(written(inside, tests))
    (folder / "pipelines" / "_drafts").mkdir()
    written(folder / "pipelines" / "_drafts", FAILS)
    return made


def test_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = project(tmp_path)
    monkeypatch.chdir(tmp_path / "pipelines" / "a")
    assert [p.resolve() for p in files_for([])] == made
    assert files_for([tmp_path / "pipelines"]) == made
    sql = made[0].with_name("p.sql")
    assert files_for([sql, made[0], made[0].parent]) == [made[0]]
    monkeypatch.chdir(tmp_path)
    assert files_for([])[0] == Path("pipelines/a/p.test.yaml")
    (made[0].with_name("q.sql")).write_text("")
    for path, message in (
        (sql.with_name("q.sql"), "has no tests"),
        (tmp_path / "x.test.yaml", "does not exist"),
    ):
        with pytest.raises(DiagnosticError, match=message) as caught:
            files_for([path])
        assert (caught.value.diagnostics[0].code, caught.value.exit_code) == ("TST009", 2)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("late", ["late rows"]),
        ("ROWS or edit", ["late rows", "an edit"]),
        ("not late", ["an edit", "two (2) sinks"]),
        ("(late or edit) and not rows", ["an edit"]),
        ("'an edit'", ["an edit"]),
        ("p.test.yaml", ["late rows", "an edit", "two (2) sinks"]),
    ],
)
def test_tests_are_selected_by_words(expression: str, names: list[str]) -> None:
    wanted = selection(expression)
    assert [n for n in ("late rows", "an edit", "two (2) sinks") if wanted(f"p.test.yaml::{n}")] == names


@pytest.mark.parametrize("expression", ["", "and", "late and", "(late", "late)", "not", "late edit"])
def test_expressions_that_can_not_be_read(expression: str) -> None:
    with pytest.raises(DiagnosticError, match="TST010"):
        selection(expression)


def test_several_processes_give_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_WORTH", 1)
    wanted = selected(project(tmp_path), None)
    assert [one.names for one in wanted] == [("passes",), ("passes", "fails"), ()]

    def timeless(found: Iterable[FileOutcome]) -> list[FileOutcome]:
        return [replace(f, outcomes=tuple(replace(o, seconds=0.0) for o in f.outcomes)) for f in found]

    alone = timeless(run_all(wanted, 1))
    assert timeless(run_all(wanted, 2)) == alone
    assert [[o.status for o in one.outcomes] for one in alone] == [
        [Status.PASSED],
        [Status.PASSED, Status.FAILED],
        [],
    ]
    assert [one.ok for one in alone] == [True, False, False]
    assert [p.name for p in sorted(alone[0].watched)] == ["p.sql", "p.test.yaml"]


def test_files_that_a_test_is_about(tmp_path: Path) -> None:
    tests = "- name: x\n  given: {bids: {fixture: b.csv}}\n  expect: {totals: {fixture: t.sql}}"
    (tmp_path / "b.csv").write_text("id\n1\n")
    (tmp_path / "t.sql").write_text("SELECT 1 AS id")
    (tmp_path / "macros.sql").write_text("SELECT nothing")
    sql = "{% include 'macros.sql' %};"
    (found,) = run_all(selected([written(tmp_path, tests, sql)], None), 1)
    assert [o.status for o in found.outcomes] == [Status.ERROR]
    assert sorted(p.name for p in found.watched) == ["b.csv", "macros.sql", "p.sql", "p.test.yaml", "t.sql"]


def test_large_files_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(map(str, range(60)))
    chunks = parallel.Selected(Path("x"), names).chunks
    assert [len(chunk) for chunk in chunks] == [25, 25, 10]
    assert tuple(name for chunk in chunks for name in chunk) == names


def _shown(diagnostic: Diagnostic, sources: object = None) -> str:
    return render(diagnostic, None)


def test_what_is_reported(tmp_path: Path) -> None:
    found = list(run_all(selected(project(tmp_path), None), 1))
    lines = [line for one in found for line in file_lines(one, _shown, limit=1, verbose=True)]
    text = "\n".join(lines).replace(str(tmp_path / "pipelines"), "")
    for part in (
        "ok   /a/p.test.yaml  1 test, ",
        "     ok    passes  ",
        "FAIL /b/p.test.yaml  1 of 2 tests passed, ",
        "  FAIL  fails  /b/p.test.yaml:5",
        "`totals`: 1 row missing, 1 row with other values  (/b/p.test.yaml:7)"
        if "1 row missing, 1 row with" in text
        else "`totals`: 2 rows missing, 1 row unexpected  (/b/p.test.yaml:7)",
        "missing: expected, and not there",
        "… and 1 more",
        "`dear`: 1 row missing",
        "FAIL /c/p.test.yaml",
        "error[TST002]: a test has no key `nam`",
    ):
        assert part in text, text
    assert summary(found, 2.0) == "2 passed, 1 failed, 1 file with mistakes, 2.0 s"


def test_junit_has_a_suite_per_file(tmp_path: Path) -> None:
    found = list(run_all(selected(project(tmp_path), None), 1))
    bug = Outcome("a \x00 bug", Span("d", 3, 1), Status.BUG, 0.5, trace="Traceback \x1b[0m")
    wrong = Outcome("wrong", Span("d", 4, 1), Status.ERROR, 0.5, diagnostics=found[2].diagnostics)
    root = ElementTree.fromstring(to_junit([*found, FileOutcome(Path("d.test.yaml"), (bug, wrong))], _shown))
    suites = [(s.get("tests"), s.get("failures"), s.get("errors")) for s in root]
    assert suites == [("1", "0", "0"), ("2", "1", "0"), ("1", "0", "1"), ("2", "0", "2")]
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.text is not None
    assert "expected, and not there" in failure.text
    assert [case.get("name") for case in root[3]] == ["a \N{REPLACEMENT CHARACTER} bug", "wrong"]
    assert root[1][0].get("classname", "").endswith(".pipelines.b.p")


def test_a_bug_is_shown_with_its_trace() -> None:
    bug = Outcome("x", Span("d", 3, 1), Status.BUG, 0.5, trace="Traceback\n  here")
    found = FileOutcome(Path("d.test.yaml"), (bug,))
    text = "\n".join(file_lines(found, _shown, limit=1))
    assert "this is a bug of ours" in text
    assert "      here" in text
    assert summary([found], 1.0) == "1 met a bug of sqlstream, 1.0 s"


def test_a_watch_waits_until_a_file_is_another_one(tmp_path: Path) -> None:
    one, other, new = (tmp_path / name for name in ("one", "other", "new"))
    one.write_text("1")
    other.write_text("1")
    acts: list[Callable[[], object]] = [
        lambda: None,
        lambda: other.write_text("22"),
        lambda: new.write_text("1"),
        other.unlink,
    ]

    def sleep(seconds: float) -> None:
        acts.pop(0)()

    def files() -> list[Path]:
        return [p for p in (one, other, new) if p.exists()]

    assert watching.wait(watching.look(files()), files, sleep) == {other}
    assert watching.wait(watching.look(files()), files, sleep) == {new}
    assert watching.wait(watching.look(files()), files, sleep) == {other}
