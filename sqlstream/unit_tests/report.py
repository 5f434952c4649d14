"""What came of tests as text for people: a line per file, and below it what is not as expected, as small tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sqlstream.golden.compare import Difference
from sqlstream.golden.show import difference_lines
from sqlstream.unit_tests.outcome import Failure, FileOutcome, Outcome, Status
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.types import BIGINT, VARCHAR
from sqlstream_planner.diagnostics import Diagnostic, counted

#: Shows a diagnostic; `sources` are the texts of files where they are not those on disk.
Shown = Callable[[Diagnostic, dict[str, str]], str]
_WORDS = {Status.FAILED: "FAIL", Status.ERROR: "ERROR", Status.BUG: "BUG"}
_GREEN, _RED, _BOLD, _RESET = "\x1b[32m", "\x1b[1;31m", "\x1b[1m", "\x1b[0m"


def file_lines(
    found: FileOutcome, shown: Shown, *, limit: int, verbose: bool = False, colour: bool = False
) -> Iterator[str]:
    """The lines about a file; with `verbose` one about each test, too. At most `limit` rows of each kind are shown."""
    mark = _painted("ok   ", _GREEN, colour) if found.ok else _painted("FAIL ", _RED, colour)
    passed, tests = found.count(Status.PASSED), len(found.outcomes)
    count = counted(tests, "test") if found.ok else f"{passed} of {counted(tests, 'test')} passed"
    yield f"{mark}{found.path}  {count}, {found.seconds:.1f} s" if tests else f"{mark}{found.path}"
    for diagnostic in found.diagnostics:
        yield from ("", *_indented(shown(diagnostic, {})))
    for outcome in found.outcomes:
        if outcome.status is Status.PASSED:
            if verbose:
                yield f"     {_painted('ok', _GREEN, colour)}    {outcome.name}  {outcome.seconds:.2f} s"
            continue
        yield ""
        word = _painted(f"{_WORDS[outcome.status]:<5}", _RED, colour)
        yield f"  {word} {_painted(outcome.name, _BOLD, colour)}  {outcome.span.file}:{outcome.span.line}"
        yield from _outcome(outcome, shown, limit)
    if not found.ok:
        yield ""


def failure_lines(failure: Failure, limit: int) -> Iterator[str]:
    """The lines about an expectation that was not met."""
    where = f"{failure.step}, " if failure.step else ""
    yield f"{where}{failure.about}: {failure.summary}  ({failure.span.file}:{failure.span.line})"
    schema = [
        Column(n, BIGINT if right else VARCHAR)
        for n, right in zip(failure.columns, failure.numeric, strict=True)
    ]
    difference = Difference(failure.missing, failure.unexpected, failure.changed)
    yield from (
        f"  {line}"
        for line in difference_lines(
            difference,
            tuple(schema),
            limit=limit,
            missing="missing: expected, and not there",
            extra="unexpected: there, and not expected",
            changed="with other values: expected → actual",
        )
    )
    if failure.note:
        yield f"  note: {failure.note}"


def summary(found: Sequence[FileOutcome], seconds: float) -> str:
    """The last line.

    >>> summary([], 0.04)
    'no tests, 0.0 s'
    """
    numbers = {status: sum(one.count(status) for one in found) for status in Status}
    words = {
        Status.PASSED: "passed",
        Status.FAILED: "failed",
        Status.ERROR: "ended with an error",
        Status.BUG: "met a bug of sqlstream",
    }
    parts = [f"{number:,} {words[status]}" for status, number in numbers.items() if number]
    unreadable = sum(bool(one.diagnostics) for one in found)
    if unreadable:
        parts.append(f"{counted(unreadable, 'file')} with mistakes")
    return f"{', '.join(parts) or 'no tests'}, {seconds:.1f} s"


def _outcome(outcome: Outcome, shown: Shown, limit: int) -> Iterator[str]:
    for failure in outcome.failures:
        for line in failure_lines(failure, limit):
            yield f"    {line}"
    for diagnostic in outcome.diagnostics:
        yield from _indented(shown(diagnostic, dict(outcome.sources)))
    if outcome.trace:
        yield from _indented(
            "this is a bug of ours; please report it with the test (CONTRIBUTING.md)\n" + outcome.trace
        )


def _indented(text: str) -> list[str]:
    return [f"    {line}" if line else "" for line in text.rstrip("\n").split("\n")]


def _painted(text: str, style: str, colour: bool) -> str:
    return f"{style}{text}{_RESET}" if colour else text
