"""Errors of an epoch's tasks as they are reported to the user, in the same words whichever runner ran the epoch."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlstream_operators.errors import ListedFileError
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, InternalError, Span, SqlstreamError

#: What to do where reading less at once does not help.
MORE_MEMORY = (
    "give tasks more memory (SET 'execution.task-memory' = '4 gb'), run fewer of them at a time (--master 'local[2]'), or, "
    "where it is Spark's own, --conf spark.driver.memory=4g or --conf spark.executor.memory=4g; then run again: the run "
    "goes on where it stopped"
)

#: The line of generated SQL that DuckDB shows, and the place in it that it points at.
_POINTED = re.compile(r"\n(?P<line>LINE \d+: .*)\n(?P<before> *)\^")
#: What DuckDB calls a column.
_INTERNAL = re.compile(r" when casting from source column \S+$")
_RUNNING = "while running: "

#: What DuckDB says of a setting, which a pipeline can't set.
_SETTING = re.compile(
    r" Use TRY\(\.\.\.\) to return NULL for this expression, or SET [^!]*?division[s]? by zero\."
)


class EpochTooLargeError(DiagnosticError):
    """An epoch does not fit into memory: it must be planned smaller.

    `what` says whose memory ran out. `runner_lost`: the runner can't run another epoch.
    """

    def __init__(self, epoch: int | None, what: str, *, runner_lost: bool = False) -> None:
        notes = ["nothing of it was committed"]
        if runner_lost:
            notes.append("the next run reads its input in smaller epochs")
        super().__init__(
            Diagnostic(
                "ENV007",
                f"epoch {epoch} does not fit into memory: {what}",
                notes=tuple(notes),
                help=MORE_MEMORY,
            )
        )
        self.epoch = epoch
        self.what = what
        self.runner_lost = runner_lost

    def unrecoverable(self, committed: int) -> DiagnosticError:
        """The error to raise where the epoch can't be made smaller; `committed` is the last epoch, 0 if there is none."""
        state = f"the state is as epoch {committed} left it" if committed else "nothing was committed"
        return DiagnosticError(
            Diagnostic(
                "ENV007",
                f"epoch {self.epoch} does not fit into memory, and can't be made smaller: {self.what}",
                notes=(state,),
                help=MORE_MEMORY,
            )
        )


class WorkerEndedError(EpochTooLargeError):
    """A process that ran a task ended, and nothing says that memory was why: the epoch is planned smaller all the same.

    `how` are the signs that there are.
    """

    def __init__(self, epoch: int | None, how: str) -> None:
        super().__init__(epoch, how)
        self.diagnostics = (self._diagnostic("nothing of it was committed"),)

    def unrecoverable(self, committed: int) -> DiagnosticError:
        """As of an epoch that is too large, without memory for a reason."""
        state = f"the state is as epoch {committed} left it" if committed else "nothing was committed"
        return DiagnosticError(self._diagnostic(state))

    def _diagnostic(self, state: str) -> Diagnostic:
        return Diagnostic(
            "ENV004",
            f"a worker process of Spark's ended while it ran epoch {self.epoch}",
            notes=(state, self.what),
            help="look at what ended it (the executors' logs, dmesg, kubectl describe), and run again: the run goes on "
            "where it stopped",
        )


def error_of(described: Mapping[str, Any], epoch: int | None = None) -> SqlstreamError:
    """The error to raise for what `task_failure.describe` described, of a task of `epoch` or of the driver (None)."""
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
            notes = [*_row_at(described), *place]
            if described["sql"]:
                notes.append(f"{_RUNNING}{_short(described['sql'])}")
            return DiagnosticError(
                Diagnostic(
                    "DAT001",
                    _SETTING.sub("", described["message"]),
                    notes=tuple(notes),
                    help=f"{_instead(described['message'])}, then run again: "
                    "the run goes on where it stopped",
                )
            )
        case "refused":
            return DiagnosticError(
                Diagnostic(
                    "DAT002",
                    described["message"],
                    notes=(*_row_at(described), *place),
                    help=described["help"] or None,
                )
            )
        case "file":
            return DiagnosticError(
                Diagnostic(
                    "DAT003",
                    described["message"],
                    notes=place,
                    help=described["help"] or None,
                )
            )
        case "memory":
            where = f", in {described['where']}" if described["where"] else ""
            return EpochTooLargeError(epoch, f"{described['message']}{where}")
        case "machine":
            return machine_refuses(described["message"], *place)
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


def _row_at(described: Mapping[str, Any]) -> tuple[str, ...]:
    """Which row of the input it was, or which one of an operator, if that is known."""
    if described.get("row"):
        return (f"the row is {_short(', '.join(f'{name} = {value}' for name, value in described['row']))}",)
    return (f"the row is in {described['place']}",) if described.get("place") else ()


def at_their_places(error: DiagnosticError, place_of: Callable[[str], Span | None]) -> DiagnosticError:
    """The error with the places in the user's file of expressions that failed; `error` itself if none is known."""
    placed = tuple(_placed(d, place_of) for d in error.diagnostics)
    if placed == error.diagnostics:
        return error
    return DiagnosticError(*placed, exit_code=error.exit_code)


def _placed(diagnostic: Diagnostic, place_of: Callable[[str], Span | None]) -> Diagnostic:
    pointed = (
        _POINTED.search(diagnostic.message)
        if diagnostic.code == "DAT001" and diagnostic.span is None
        else None
    )
    at = None if pointed is None else place_of(pointed["line"][len(pointed["before"]) :])
    if pointed is None or at is None:
        return diagnostic
    notes = tuple(note for note in diagnostic.notes if not note.startswith(_RUNNING))
    message = _INTERNAL.sub("", diagnostic.message[: pointed.start()]).strip()
    return replace(diagnostic, message=message, span=at, notes=notes)


def not_as_listed(error: ListedFileError) -> DiagnosticError:
    """The error for a file that is not as the state knows it."""
    return DiagnosticError(Diagnostic("DAT003", error.message, help=error.help or None), exit_code=4)


#: What to do about a machine, or an object store, that refuses to read or write a file.
_FIX_MACHINE = "fix it (free space, change rights …) and run again: the run goes on where it stopped"
FIX_STORE = (
    "see whether the store can be reached and takes your key, and run again: the run goes on where it stopped"
)


def machine_refuses(what: str, *notes: str, help: str = _FIX_MACHINE) -> DiagnosticError:
    """The error for a file that the machine does not let us read or write, `what` saying which and why."""
    return DiagnosticError(
        Diagnostic(
            "ENV005",
            f"a file can't be read or written: {what}",
            notes=notes,
            help=help,
        )
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
