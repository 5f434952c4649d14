"""What is said of rows of a table in a lake that are gone before they were read."""

from __future__ import annotations

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def refused(table: str, place: str, what: str, longer: str) -> DiagnosticError:
    """The error for what is gone, as long as nobody has agreed to it; `longer` is what to keep, and by which settings."""
    return DiagnosticError(
        Diagnostic(
            "DAT015",
            f"rows of `{table}` are gone before they were read",
            notes=(f"it is '{place}'", what),
            help=f"keep {longer}; or go on with what is there, with `--accept lost:{table}`",
        ),
        exit_code=4,
    )


def accepted(table: str, what: str) -> Diagnostic:
    """The warning about a loss that was agreed to."""
    return Diagnostic(
        "DAT015",
        f"rows of `{table}` are left out, as they are gone",
        notes=(what,),
        severity="warning",
    )
