"""What is expected of a step against what came: rows, changes, dead letters and the plan of an edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlstream.golden.compare import compare
from sqlstream.golden.rows import Row, Rows
from sqlstream.unit_tests.content import cells_of
from sqlstream.unit_tests.outcome import Failure
from sqlstream.unit_tests.row_forms import CHANGE
from sqlstream.unit_tests.typed_rows import TypedRows
from sqlstream.unit_tests.yaml_nodes import Scalar
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import KIND_COLUMN, Column
from sqlstream_operators.plan.spec import Schema
from sqlstream_operators.plan.types import VARCHAR
from sqlstream_planner.diagnostics import Diagnostic, Span, counted

_DROP = "DROP"


@dataclass(frozen=True, slots=True)
class Expected:
    """Rows that are expected of something; with `changes` each with its kind, with `ordered` in this order."""

    about: str
    rows: TypedRows
    span: Span
    ordered: bool = False
    changes: bool = False


def check_rows(
    step: str, expected: Expected, schema: Schema, actual: Sequence[Row], duck: DuckSession, note: str = ""
) -> Failure | None:
    """Compare rows over `schema`, with the kind of change before the columns where changes are expected.

    Only the columns that the expectation names count.
    """
    columns: Schema = expected.rows.columns
    places = [next(i for i, c in enumerate(schema) if c.name == column.name) for column in columns]
    wanted: Sequence[Row] = cells_of(expected.rows.with_kinds, (*columns, Column(KIND_COLUMN, VARCHAR)), duck)
    if expected.changes:
        columns = (Column(CHANGE, VARCHAR), *columns)
        wanted = [(row[-1], *row[:-1]) for row in wanted]
        found = [(row[0], *(row[i + 1] for i in places)) for row in actual]
    else:
        wanted = [row[:-1] for row in wanted]
        found = [tuple(row[i] for i in places) for row in actual]
    difference = compare(Rows(columns, wanted), Rows(columns, found))
    if difference:
        words = (
            (len(difference.missing), "missing"),
            (len(difference.extra), "unexpected"),
            (len(difference.changed), "with other values"),
        )
        what = "change" if expected.changes else "row"
        summary = ", ".join(f"{counted(n, what)} {word}" for n, word in words if n)
        return Failure(
            step,
            expected.about,
            summary,
            expected.span,
            tuple(c.name for c in columns),
            tuple(c.type.is_numeric for c in columns),
            tuple(difference.missing),
            tuple(difference.extra),
            tuple(difference.changed),
            note,
        )
    if expected.ordered:
        return _other_order(step, expected, columns, wanted, found)
    return None


def _other_order(
    step: str, expected: Expected, columns: Schema, wanted: Sequence[Row], found: Sequence[Row]
) -> Failure | None:
    """The same rows, in another order."""
    moved = [
        (one, other)
        for one, other in zip(wanted, found, strict=True)
        if compare(Rows(columns, [one]), Rows(columns, [other]))
    ]
    if not moved:
        return None
    return Failure(
        step,
        expected.about,
        "the same rows in another order",
        expected.span,
        tuple(c.name for c in columns),
        tuple(c.type.is_numeric for c in columns),
        changed=tuple(moved),
    )


def check_error(step: str, expected: Scalar, diagnostics: Sequence[Diagnostic]) -> Failure | None:
    """Compare the code of the message that a step must end with with those of the messages that it ended with."""
    codes = list(dict.fromkeys(diagnostic.code for diagnostic in diagnostics))
    if expected.text in codes:
        return None
    summary = f"the step ended with {' and '.join(codes)}, and not with {expected.text}"
    return Failure(step, "error", summary, expected.span, note=diagnostics[0].message)


def check_plan(
    step: str, expected: Sequence[tuple[Scalar, Scalar]], actual: Sequence[tuple[str, str, str]], span: Span
) -> Failure | None:
    """Compare what must become of operators and sinks with what does: name, verdict, and why."""
    # A state that is dropped may have the name of an operator of the new plan, which is meant then.
    ranked = sorted(actual, key=lambda one: one[1] != _DROP)
    by_name = {name.lower(): (verdict, why) for name, verdict, why in ranked}
    wrong: list[tuple[Row, Row]] = []
    for name, wanted in expected:
        verdict, why = by_name[name.text.lower()]
        if verdict.lower() != wanted.text.lower():
            wrong.append(((name.text, wanted.text, why), (name.text, verdict, why)))
    if not wrong:
        return None
    return Failure(
        step,
        "plan",
        f"{counted(len(wrong), 'verdict')} otherwise than expected",
        span,
        ("name", "verdict", "why"),
        (False, False, False),
        changed=tuple(wrong),
    )
