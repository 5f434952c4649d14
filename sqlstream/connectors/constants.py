"""Tries the constants of a file in DuckDB before there is a row: casts, patterns, time zones and calls that must fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import duckdb

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span
from sqlstream_planner.expressions.constants import Constant
from sqlstream_planner.expressions.problems import BAD_CAST, FAILING_CONSTANT

_HINTS = ("Use TRY(", "Use TRY_CAST")


def refuse_wrong(constants: Mapping[Constant, Span]) -> None:
    """Raise DiagnosticError (TYP007 for casts, TYP012) with every constant that DuckDB can't compute, at its place."""
    with duckdb.connect(config={"threads": 1}) as duck:
        duck.execute("SET TimeZone = 'UTC'")
        if _fails(duck, constants) is None:
            return
        wrong = [(c, at, _fails(duck, [c])) for c, at in constants.items()]
    # What is written once may stand in its translation twice.
    found = {at: _diagnostic(constant, at, why) for constant, at, why in reversed(wrong) if why is not None}
    if found:
        raise DiagnosticError(*reversed(found.values()))


def _fails(duck: duckdb.DuckDBPyConnection, constants: Iterable[Constant]) -> str | None:
    """What DuckDB says of constants that it can't compute; None: it can."""
    try:
        duck.execute(f"SELECT {', '.join(c.sql for c in constants)}").fetchall()
    except (duckdb.ConversionException, duckdb.InvalidInputException, duckdb.OutOfRangeException) as error:
        return _message(str(error))
    except duckdb.NotImplementedException as error:
        return _message(str(error)) if "TimeZone" in str(error) or "Period" in str(error) else None
    except duckdb.Error:
        return None  # what DuckDB has to say of types, names and memory is not of these values
    return None


def _message(text: str) -> str:
    line = text.split("\n")[0].partition(": ")[2].strip()
    for hint in _HINTS:
        line = line.partition(hint)[0].strip()
    return line


def _diagnostic(constant: Constant, at: Span, why: str) -> Diagnostic:
    if constant.cast:
        help_ = "write a value of the type, or TRY_CAST, which gives NULL where a value does not fit"
        return Diagnostic(BAD_CAST, f"this cast fails: {why}", at, help=help_)
    return Diagnostic(FAILING_CONSTANT, f"this fails with every row: {why}", at)
