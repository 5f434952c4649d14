"""Errors of the operators' package and of the operating system that are about the user's data or machine, as diagnostics."""

from __future__ import annotations

import errno
from pathlib import Path

from sqlstream_planner.diagnostics import Diagnostic

#: What a machine can refuse without anybody having written something wrong.
_MACHINE = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR)
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


def known(error: Exception) -> Diagnostic | None:
    """An error of the operators' package or the operating system about the user's data, as a diagnostic; None: a bug."""
    from sqlstream_operators.errors import (
        DataError,
        MachineError,
        StateError,
        StorePlaceError,
        machine_trouble,
    )

    if isinstance(error, FileNotFoundError) and not _has_folder():
        return Diagnostic(
            "PRJ001",
            "the working directory does not exist any more",
            help="change to a folder that exists",
        )
    if isinstance(error, DataError):
        return Diagnostic("DAT001", error.message)
    if isinstance(error, StateError):
        return Diagnostic("STA003", error.message, help=error.help or None)
    if isinstance(error, MemoryError):
        return Diagnostic(
            "ENV007",
            "the process has not enough memory or address space (`ulimit -v`)",
            help="give it more, and run again; a run goes on where it stopped",
        )
    if isinstance(error, StorePlaceError):
        return Diagnostic(
            "PRJ006",
            str(error),
            help=error.help
            or "give a path, or a URI that begins with file:///, s3://, gs://, az:// or abfss://",
        )
    if isinstance(error, MachineError):
        return Diagnostic("ENV005", f"a file can't be read or written: {error}")
    if isinstance(error, OSError) and error.errno in _DISK:
        return Diagnostic("ENV005", f"a file can't be read or written: {machine_trouble(error)}")
    known = isinstance(error, FileNotFoundError | FileExistsError)
    if isinstance(error, OSError) and error.errno is None and not known:  # what an object store refuses
        return Diagnostic(
            "ENV005",
            f"a file can't be read or written: {(str(error).strip() or 'no reason is given').splitlines()[0]}",
            help="see whether the address is right and the store can be reached, and run again",
        )
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return Diagnostic("DAT002", f"{error.filename}: {error.strerror}")
    if isinstance(error, OSError) and error.errno in _MACHINE:
        return Diagnostic("DAT002", str(error))
    return None


def _has_folder() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True
