"""The errors that operators and their state raise; the runtime turns them into messages for the user."""

from __future__ import annotations

import errno
import os
import re


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

    Operator: the message is DuckDB's own where DuckDB refused; fix the row or the expression and start again. `place` is
    where the row is, as far as that is known. `row` has the columns of a row that no source has, and their values as text.
    """

    def __init__(
        self, message: str, sql: str = "", place: str = "", row: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.sql = sql
        self.place = place
        self.row = row

    def __reduce__(self) -> tuple[type[DataError], tuple[object, ...]]:
        return type(self), (self.message, self.sql, self.place, self.row)


class RefusedRowError(DataError):
    """A sink will not take a row; `place` is where the data is that it was made of, as far as that is known.

    Operator: `help` is what to write, so that the row does not come to the sink.
    """

    def __init__(self, message: str, help: str = "", place: str = "") -> None:
        super().__init__(message, "", place)
        self.help = help

    def __reduce__(self) -> tuple[type[RefusedRowError], tuple[str, ...]]:
        return type(self), (self.message, self.help, self.place)


class InputFileError(DataError):
    """A file of a source is gone, another than the one that was listed, or can't be read; `help` says what can be done.

    Operator: put the file back as it was, or say what is to become of it; the run then goes on where it stopped.
    """

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help

    def __reduce__(self) -> tuple[type[InputFileError], tuple[str, ...]]:
        return type(self), (self.message, self.help)


class ListedFileError(InputFileError):
    """A file is not the one that the state has listed, and has read, wholly or in part, or was to read."""


class TargetError(DataError):
    """What a sink writes to is not as its state directory left it, or is another's; `notes` say more, `help` the way on.

    Operator: do what `help` says; nothing was written.
    """

    def __init__(self, message: str, notes: tuple[str, ...] = (), help: str = "") -> None:
        super().__init__(message)
        self.notes = notes
        self.help = help

    def __str__(self) -> str:
        return ". ".join(filter(None, (self.message, *self.notes, self.help)))

    def __reduce__(self) -> tuple[type[TargetError], tuple[str, tuple[str, ...], str]]:
        return type(self), (self.message, self.notes, self.help)


class TargetRowError(TargetError):
    """A change has no row in what a sink writes to: that was changed by others, or the input is inconsistent."""


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


class MachineError(OperatorError):
    """The machine refuses to read or write a file: its disk is full, it is read-only, it fails.

    Operator: mend that and start again; nothing is wrong with the data or the query.
    """


class StorePlaceError(OperatorError):
    """A path or URI can't be a place for stored files: it names no file system that there is.

    Operator: give another one.
    """

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


#: What libraries that don't raise OSError (RocksDB, DuckDB, Java) say of a disk.
_DISK = re.compile(
    "|".join(
        re.escape(os.strerror(number))
        for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE)
    )
)


def machine_trouble(error: BaseException) -> str | None:
    """What the machine refuses, in words, if `error` says that it does; None if it says something else.

    >>> machine_trouble(OSError(errno.ENOSPC, "No space left on device", "/state/x"))
    'the disk is full: /state/x'
    >>> machine_trouble(ValueError("x"))
    """
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        reason = " ".join(error.strerror.split())
        place = f": {error.filename}" if error.filename is not None else ""
        text = f"{reason}{place}"
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        return f"the disk is full{place or f' ({reason})'}" if full else text
    if os.strerror(errno.ENOSPC) in text or os.strerror(errno.EDQUOT) in text:
        return f"the disk is full ({text})"
    return text if isinstance(error, OSError) or _DISK.search(text) else None


class InternalError(OperatorError):
    """A bug of ours: the plan or a task broke a rule that the planner and the runtime must keep."""
