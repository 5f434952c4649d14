"""An error of a task as text that survives what Spark wraps it in, and back."""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlstream.storage.checked_json import DamagedFileError
from sqlstream_operators.errors import (
    DataError,
    InputFileError,
    MachineError,
    MemoryExhaustedError,
    RefusedRowError,
    StateError,
    machine_trouble,
)
from sqlstream_planner.diagnostics import DiagnosticError

_FAILURE = "sqlstream task failure: "
#: What to do about a file of the state directory that is damaged.
RESTORE = "restore this file from a copy of the state directory, or start over with another --state-dir"


class TaskFailureError(Exception):
    """What went wrong in a task, as text that survives Spark's wrapping: a marker and one line of JSON."""


@contextmanager
def failures_as_text() -> Iterator[None]:
    """Turns what is raised inside into a TaskFailureError."""
    try:
        yield
    except Exception as error:
        text = json.dumps(describe(error)).replace("\n", " ")
        raise TaskFailureError(f"{_FAILURE}{text}") from None


def describe(error: Exception) -> dict[str, Any]:
    """An error of a task as JSON."""
    if isinstance(error, DiagnosticError):
        return {
            "kind": "diagnostic",
            "diagnostics": [
                {"code": d.code, "message": d.message, "notes": list(d.notes), "help": d.help}
                for d in error.diagnostics
            ],
            "exit_code": error.exit_code,
        }
    if isinstance(error, InputFileError):
        return {"kind": "file", "message": error.message, "help": error.help}
    if isinstance(error, RefusedRowError):
        return {"kind": "refused", "message": error.message, "help": error.help, "place": error.place}
    if isinstance(error, DataError):
        return {
            "kind": "data",
            "message": error.message,
            "sql": error.sql,
            "place": error.place,
            "row": error.row,
        }
    if isinstance(error, MemoryExhaustedError):
        return {"kind": "memory", "message": error.message, "where": error.where}
    if isinstance(error, MemoryError):
        return {
            "kind": "memory",
            "message": f"Python has no memory left ({error or 'MemoryError'})",
            "where": "",
        }
    if isinstance(error, StateError):
        return {"kind": "state", "message": error.message, "help": error.help}
    if isinstance(error, DamagedFileError):
        return {"kind": "state", "message": str(error), "help": RESTORE}
    trouble = str(error) if isinstance(error, MachineError) else machine_trouble(error)
    if trouble is not None:
        return {"kind": "machine", "message": trouble}
    trace = "".join(traceback.format_exception(error))
    return {"kind": "other", "message": f"{type(error).__name__}: {error}", "trace": trace}


def failure_in(text: str) -> Mapping[str, Any] | None:
    """The error that `describe` described, found in the text of an exception of Spark's; None if there is none."""
    at = text.find(_FAILURE)
    if at < 0:
        return None
    try:
        found, _ = json.JSONDecoder().raw_decode(text, at + len(_FAILURE))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
