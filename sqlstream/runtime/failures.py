"""Errors of an epoch's tasks as the user is told them, in the same words whichever runner ran the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, InternalError, SqlstreamError


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
                    described["message"],
                    notes=tuple(notes),
                    help="change the expression (TRY_CAST gives NULL instead), then run again: "
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


def _short(text: str, length: int = 300) -> str:
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
