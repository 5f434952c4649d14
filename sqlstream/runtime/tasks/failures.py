"""Errors of an epoch's tasks as the user is told them, in the same words whichever runner ran the epoch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, InternalError, SqlstreamError

#: What DuckDB says of a setting, which a pipeline can't set.
_SETTING = re.compile(
    r" Use TRY\(\.\.\.\) to return NULL for this expression, or SET [^!]*?division[s]? by zero\."
)


def error_of(described: Mapping[str, Any], epoch: int | None = None) -> SqlstreamError:
    """The error to raise for what `worker.describe` told, of a task of `epoch` or of the driver (None)."""
    place = () if epoch is None else (f"in epoch {epoch}; nothing of it was committed",)
    match described["kind"]:
        case "diagnostic":
            return DiagnosticError(
                *(
                    Diagnostic(d["code"], d["message"], notes=tuple(d["notes"]), help=d["help"])
                    for d in described["diagnostics"]
                ),
                exit_code=described["exit_code"],
            )
        case "data":
            notes = list(place)
            if described["sql"]:
                notes.append(f"while running: {_short(described['sql'])}")
            return DiagnosticError(
                Diagnostic(
                    "DAT001",
                    _SETTING.sub("", described["message"]),
                    notes=tuple(notes),
                    help=f"{_instead(described['message'])}, then run again: "
                    "the run goes on where it stopped",
                )
            )
        case "state":
            return DiagnosticError(
                Diagnostic(
                    "STA003",
                    described["message"],
                    notes=place,
                    help=described["help"] or None,
                ),
                exit_code=4,
            )
        case _:
            return InternalError(
                f"a task of epoch {epoch} failed: {described['message']}\n{described['trace']}"
            )


def _instead(message: str) -> str:
    """What to write for an expression that DuckDB could not compute."""
    if "Division by zero" in message:
        return "write NULLIF(divisor, 0) as the divisor: the result is NULL then"
    if "Out of Range" in message or "Overflow" in message:
        return "CAST an operand to a wider type, such as CAST(a AS DECIMAL(38, 0)), or write TRY(…) for NULL"
    if "Conversion Error" in message:
        return "write TRY_CAST, which gives NULL, instead of CAST"
    return "change the expression (TRY(…) gives NULL instead)"


def _short(text: str, length: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
