"""Where reading an Iceberg table begins, decided once: the snapshot that the options mean now."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sqlstream.connectors.iceberg.source.log import in_utc, last_number, lineage
from sqlstream.connectors.iceberg.source.options import IcebergOptions
from sqlstream.connectors.iceberg.source.positions import IcebergPosition
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def begin(
    table: str, place: str, options: IcebergOptions, now: TableMetadata, now_ms: int | None = None
) -> IcebergPosition:
    """Where reading begins, of a table as it is `now`. Raises DiagnosticError (DAT004) for what it does not have."""
    id_ = str(now.table_uuid)
    if options.start_snapshot is not None or options.start_us is not None:
        after = _after(table, place, options, now, int(time.time() * 1000) if now_ms is None else now_ms)
        return IcebergPosition(id_, after, False, after, sequence=_sequence(now, after))
    snapshot = now.current_snapshot()
    if options.snapshot is not None:
        snapshot = now.snapshot_by_id(options.snapshot)
        if snapshot is None:
            raise _not_there(table, place, now, f"has no snapshot {options.snapshot}")
    elif options.as_of_us is not None:
        wanted_ms = options.as_of_us // 1000
        entries = [entry for entry in now.snapshot_log if entry.timestamp_ms <= wanted_ms]
        snapshot = now.snapshot_by_id(entries[-1].snapshot_id) if entries else None
        if snapshot is None:
            raise _not_there(table, place, now, f"has no snapshot of {in_utc(wanted_ms)} or earlier")
    if snapshot is None:
        return IcebergPosition(id_, None, False, None, sequence=_sequence(now, None))
    return IcebergPosition(id_, snapshot.snapshot_id, True, None, snapshot.snapshot_id)


def _after(table: str, place: str, options: IcebergOptions, now: TableMetadata, now_ms: int) -> int | None:
    """The snapshot behind which reading begins; None: with the first that there was."""
    known = lineage(now)
    if options.start_snapshot is not None:
        found = next((one for one in known if one.snapshot_id == options.start_snapshot), None)
        if found is None:
            raise _not_there(table, place, now, f"does not follow from a snapshot {options.start_snapshot}")
        return found.parent_snapshot_id
    wanted_ms = -(-(options.start_us or 0) // 1000)
    later = [one for one in known if one.timestamp_ms >= wanted_ms]
    if not later:
        if wanted_ms > now_ms:
            raise _not_there(table, place, now, f"has no snapshot of {in_utc(wanted_ms)} or later")
        return known[-1].snapshot_id if known else None
    if later[0] is known[0] and known[0].parent_snapshot_id is not None and later[0].timestamp_ms > wanted_ms:
        raise _not_there(table, place, now, f"has not all snapshots since {in_utc(wanted_ms)}")
    return later[0].parent_snapshot_id


def _sequence(now: TableMetadata, after: int | None) -> int | None:
    """The sequence number behind which reading begins; None: it is not known."""
    if after is not None:
        snapshot = now.snapshot_by_id(after)
        return None if snapshot is None else snapshot.sequence_number
    known = lineage(now)
    return max(0, (known[0].sequence_number or 1) - 1) if known else last_number(now)


def _not_there(table: str, place: str, now: TableMetadata, what: str) -> DiagnosticError:
    notes = [f"it is '{place}'"]
    known = lineage(now)
    if known:
        first, last = known[0], known[-1]
        notes.append(
            f"its snapshots are from {first.snapshot_id} ({in_utc(first.timestamp_ms)}) to {last.snapshot_id} "
            f"({in_utc(last.timestamp_ms)})"
        )
    return DiagnosticError(
        Diagnostic(
            "DAT004",
            f"the Iceberg table of `{table}` {what}",
            notes=tuple(notes),
            help="name one that is there; without it reading begins with the table as it is now",
        )
    )
