"""What came of tests, as plain data that travels between processes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sqlstream.golden.rows import Row
from sqlstream_planner.diagnostics import Diagnostic, Span


class Status(StrEnum):
    """How a test ended: as expected, otherwise, with a message (the SQL or the test is wrong), or with a bug of ours."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    BUG = "bug"


@dataclass(frozen=True, slots=True)
class Failure:
    """An expectation of a step that was not met; `about` is the sink, view, operator … that it is of.

    `missing` are expected and not there, `unexpected` there and not expected, `changed` pairs of both where most cells
    agree: rows over `columns`, of which those in `numeric` are numbers. `note` says what else may matter.
    """

    step: str
    about: str
    summary: str
    span: Span
    columns: tuple[str, ...] = ()
    numeric: tuple[bool, ...] = ()
    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    changed: tuple[tuple[Row, Row], ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""

        def row(cells: Row) -> dict[str, str | None]:
            return dict(zip(self.columns, cells, strict=True))

        return {
            "step": self.step or None,
            "about": self.about,
            "summary": self.summary,
            "file": self.span.file,
            "line": self.span.line,
            "missing": [row(one) for one in self.missing],
            "unexpected": [row(one) for one in self.unexpected],
            "changed": [{"expected": row(old), "actual": row(new)} for old, new in self.changed],
            "note": self.note or None,
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one test. `diagnostics` are those that it ended with, `sources` the texts that they are about.

    `trace` is that of a bug.
    """

    name: str
    span: Span
    status: Status
    seconds: float
    failures: tuple[Failure, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    sources: tuple[tuple[str, str], ...] = ()
    trace: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "name": self.name,
            "line": self.span.line,
            "status": self.status.value,
            "seconds": round(self.seconds, 3),
            "failures": [failure.to_json() for failure in self.failures],
            "diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics],
            "trace": self.trace or None,
        }


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What came of the tests of a file; `diagnostics` say why none of them could be read. `watched` are files that count."""

    path: Path
    outcomes: tuple[Outcome, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    watched: frozenset[Path] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether all passed."""
        return not self.diagnostics and all(o.status is Status.PASSED for o in self.outcomes)

    @property
    def seconds(self) -> float:
        """How long they took together."""
        return sum(outcome.seconds for outcome in self.outcomes)

    def count(self, status: Status) -> int:
        """How many ended so."""
        return sum(outcome.status is status for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "file": str(self.path),
            "ok": self.ok,
            "tests": [outcome.to_json() for outcome in self.outcomes],
            "diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics],
        }
