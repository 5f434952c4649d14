"""What came of tests as JUnit XML, which CI systems read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from xml.etree import ElementTree

from sqlstream.unit_tests.outcome import FileOutcome, Outcome, Status
from sqlstream.unit_tests.report import failure_lines
from sqlstream_planner.diagnostics import Diagnostic

#: What XML 1.0 has no way to say.
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_LIMIT = 50


def to_junit(found: Sequence[FileOutcome], shown: Callable[[Diagnostic], str]) -> str:
    """A document with a test suite per file; `shown` gives a diagnostic as text."""
    root = ElementTree.Element("testsuites", name="sqlstream test")
    for one in found:
        _suite(root, one, shown)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: ElementTree.Element, found: FileOutcome, shown: Callable[[Diagnostic], str]) -> None:
    errors = found.count(Status.ERROR) + found.count(Status.BUG) + bool(found.diagnostics)
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        name=str(found.path),
        tests=str(len(found.outcomes) + bool(found.diagnostics)),
        failures=str(found.count(Status.FAILED)),
        errors=str(errors),
        skipped="0",
        time=f"{found.seconds:.3f}",
    )
    if found.diagnostics:
        case = _case(suite, found, str(found.path), 1, 0.0)
        _detail(case, "error", found.diagnostics[0].message, "\n\n".join(map(shown, found.diagnostics)))
    for outcome in found.outcomes:
        case = _case(suite, found, outcome.name, outcome.span.line, outcome.seconds)
        _result(case, outcome, shown)


def _result(case: ElementTree.Element, outcome: Outcome, shown: Callable[[Diagnostic], str]) -> None:
    if outcome.status is Status.FAILED:
        first = outcome.failures[0]
        lines = [line for failure in outcome.failures for line in failure_lines(failure, _LIMIT)]
        _detail(case, "failure", f"{first.about}: {first.summary}", "\n".join(lines))
    elif outcome.status is Status.ERROR:
        found = outcome.diagnostics
        _detail(case, "error", found[0].message if found else "", "\n\n".join(map(shown, found)))
    elif outcome.status is Status.BUG:
        _detail(case, "error", "a bug of sqlstream", outcome.trace)


def _case(
    suite: ElementTree.Element, found: FileOutcome, name: str, line: int, seconds: float
) -> ElementTree.Element:
    classname = str(found.path).removesuffix(".test.yaml").replace("/", ".")
    return ElementTree.SubElement(
        suite,
        "testcase",
        name=_spoken(name),
        classname=classname,
        file=str(found.path),
        line=str(line),
        time=f"{seconds:.3f}",
    )


def _detail(case: ElementTree.Element, kind: str, message: str, text: str) -> None:
    ElementTree.SubElement(case, kind, message=_spoken(message)).text = _spoken(text)


def _spoken(text: str) -> str:
    return _UNSPEAKABLE.sub("\N{REPLACEMENT CHARACTER}", text)
