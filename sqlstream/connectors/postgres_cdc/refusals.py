"""The errors of a table whose changes can't be read, or are gone."""

from __future__ import annotations

from sqlstream.connectors.postgres_cdc.options import CdcOptions
from sqlstream.connectors.postgres_cdc.positions import in_hex
from sqlstream.connectors.postgres_cdc.server import Slot
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def not_readable(table: str, location: str, what: str, help_: str, *more: str) -> DiagnosticError:
    """The error for a server or table that is not set up as reading its changes needs it."""
    return DiagnosticError(
        Diagnostic(
            "DAT020",
            f"the changes of `{table}` can't be read: {what}",
            notes=(f"it is {location}", *more),
            help=help_,
        )
    )


def gone(table: str, location: str, lsn: int, what: str) -> DiagnosticError:
    """The error for changes that the server has no more: nothing can go on without them, since rows would stay for ever."""
    return _missed(
        f"changes of `{table}` are gone before they were read", location, lsn, what, "what was missed"
    )


def unlogged(table: str, location: str, lsn: int, what: str) -> DiagnosticError:
    """The error for rows that were changed without a word in the log."""
    return _missed(
        f"rows of `{table}` may have changed, and the log does not say how",
        location,
        lsn,
        what,
        "the rows as they are",
    )


def _missed(message: str, location: str, lsn: int, what: str, has: str) -> DiagnosticError:
    """The error for what the log does not have, and what a new snapshot `has`."""
    return DiagnosticError(
        Diagnostic(
            "DAT015",
            message,
            notes=(f"it is {location}, read up to LSN {in_hex(lsn)}", what),
            help=f"begin anew, with a new state directory, and drop the slot if it is there: a new snapshot has {has}",
        ),
        exit_code=4,
    )


def wrong_slot(
    table: str, location: str, options: CdcOptions, slot: Slot, database: str
) -> DiagnosticError | None:
    """The error for a slot that is of another kind than is read here; None: it is of the right one."""
    if slot.plugin != "pgoutput":
        what = f"the slot `{options.slot}` is of the plugin '{slot.plugin or 'none'}'"
    elif slot.database != database:
        what = f"the slot `{options.slot}` is of the database {slot.database}"
    else:
        return None
    return not_readable(table, location, what, "choose another name with 'slot.name'")


def not_ours(table: str, location: str, options: CdcOptions) -> DiagnosticError:
    """The error for a slot that this state directory has not made: somebody else may read it."""
    return not_readable(
        table,
        location,
        f"another state directory has made the slot `{options.slot}`",
        f"choose another 'slot.name'; or drop it, if nothing reads it: SELECT pg_drop_replication_slot('{options.slot}')",
        "who reads a slot takes its changes from all others",
    )


def truncated(table: str, location: str, lsn: int) -> DiagnosticError:
    """The error for a table that was emptied by TRUNCATE: the log does not say which rows it had."""
    return DiagnosticError(
        Diagnostic(
            "DAT019",
            f"the table of `{table}` was truncated",
            notes=(f"it is {location}, behind LSN {in_hex(lsn)}", "the log does not say which rows went"),
            help="begin anew, with a new state directory; rows that go by DELETE are read",
        ),
        exit_code=4,
    )
