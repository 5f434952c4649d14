"""The errors that operators and their state raise; the runtime turns them into messages for the user."""

from __future__ import annotations


class OperatorError(Exception):
    """Base of every error raised by this package."""


class StateError(OperatorError):
    """Something is wrong with stored state; `help` says what the user can do."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message if not help else f"{message}\n  help: {help}")
        self.message = message
        self.help = help


class StateCorruptionError(StateError):
    """A file of the checkpoint is missing, truncated or has other content than the manifest says.

    Operator: restore the file from a copy of the checkpoint directory, or start from an older savepoint;
    nothing was computed from the damaged file.
    """

    def __init__(self, file: str, what: str, help: str = "") -> None:
        help = help or (
            "restore this file from a copy of the checkpoint directory, or start from an older savepoint"
        )
        super().__init__(f"state file {file}: {what}", help)
        self.file = file
        self.what = what


class StateSchemaError(StateError):
    """State was written with keys that the running query does not have; it must be adapted, not read."""


class DataError(OperatorError):
    """The user's data or an expression over it can't be computed; `sql` is the fragment that failed, if it was one.

    Operator: the message is DuckDB's own where DuckDB refused; fix the row or the expression and start again.
    """

    def __init__(self, message: str, sql: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.sql = sql

    def __reduce__(self) -> tuple[type[DataError], tuple[str, str]]:
        return type(self), (self.message, self.sql)


class InputFileError(DataError):
    """A file of a source is gone, another than the one that was listed, or can't be read; `help` says what can be done.

    Operator: put the file back as it was, or say what is to become of it; the run then goes on where it stopped.
    """

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help

    def __reduce__(self) -> tuple[type[InputFileError], tuple[str, str]]:
        return type(self), (self.message, self.help)


class MemoryExhaustedError(OperatorError):
    """A task needs more memory than it may use; `where` names the step that did.

    Operator: the runtime reads less at once by itself; where that does not help, give tasks more memory.
    """

    def __init__(self, message: str, where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def __reduce__(self) -> tuple[type[MemoryExhaustedError], tuple[str, str]]:
        return type(self), (self.message, self.where)


class InternalError(OperatorError):
    """A bug of ours: the plan or a task broke a rule that the planner and the runtime must keep."""
