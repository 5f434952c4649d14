"""What of an Iceberg table is gone before it was read, and snapshots whose rows can't be read as rows that come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlstream.connectors.iceberg.source.deletes import DeleteFile
from sqlstream.connectors.iceberg.source.log import LogFile, SnapshotFiles, in_utc, last_number, lineage
from sqlstream.connectors.iceberg.source.options import CHANGES, SKIP_DELETES, SKIP_OVERWRITES
from sqlstream.connectors.iceberg.source.positions import IcebergPosition
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot


#: What is kept so that nothing is gone, and by which settings.
KEPT = "snapshots longer (history.expire.max-snapshot-age-ms)"


@dataclass(frozen=True, slots=True)
class Loss:
    """What is gone, in words, and the position to go on from without it."""

    what: str
    on: IcebergPosition


def loss(at: IcebergPosition, now: TableMetadata) -> Loss | None:
    """What of a position is not there any more, of the table as it is `now`; None: all is there."""
    id_ = str(now.table_uuid)
    head = now.current_snapshot()
    if id_ != at.table:
        what = f"the table was made anew: its id was {at.table}, and is {id_}"
        start = None if head is None else head.snapshot_id
        return Loss(what, IcebergPosition(id_, start, start is not None, None, start, lost=(*at.lost, what)))
    if at.in_whole:
        if at.at is not None and now.snapshot_by_id(at.at) is not None:
            return None
        what = f"the table can't be read as it was at snapshot {at.at}: it was expired"
        return _behind(now, at, at.start, what)
    known = lineage(now)
    if not known:
        return None if at.after is None else _behind(now, at, None, "the table has no snapshot any more")
    ids = [snapshot.snapshot_id for snapshot in known]
    if at.after in ids or _follows(at, known[0]):
        following = next_ids(at, known)
        if at.at is None or following[:1] == [at.at]:
            return None
        what = f"snapshot {at.at}, of which a part was read, is no part of the table any more: it was rolled back"
        return _behind(now, at, at.after, what)
    if at.after is not None and now.snapshot_by_id(at.after) is not None:
        what = f"snapshot {at.after}, which was read, is no part of the table any more: it was rolled back"
        return _behind(now, at, _common(at.after, now, ids, head), what)
    first = known[0]
    wanted = "the first snapshots are" if at.after is None else f"the snapshots behind {at.after} are"
    what = f"{wanted} wanted, the oldest is {first.snapshot_id} of {in_utc(first.timestamp_ms)}: others were expired"
    return _behind(now, at, first.parent_snapshot_id, what)


def _follows(at: IcebergPosition, first: Snapshot) -> bool:
    """Whether the oldest snapshot that is there is the one behind `at`, which was expired, or the first that there was."""
    number = first.sequence_number or 0  # 0 in tables of version 1, which have none
    if at.after is None:
        return first.parent_snapshot_id is None and number <= (at.sequence or 0) + 1
    next_one = at.sequence is not None and number == at.sequence + 1 > 1
    return first.parent_snapshot_id == at.after or (next_one and first.parent_snapshot_id is None)


def next_ids(at: IcebergPosition, known: Sequence[Snapshot]) -> list[int]:
    """The snapshots behind the last one that was read, oldest first."""
    ids = [snapshot.snapshot_id for snapshot in known]
    return ids[ids.index(at.after) + 1 :] if at.after in ids else ids


def _common(after: int, now: TableMetadata, ids: Sequence[int], head: Snapshot | None) -> int | None:
    """The last snapshot that both the one that was read and the table follow from; else what the table is now."""
    snapshot = now.snapshot_by_id(after)
    while snapshot is not None:
        if snapshot.snapshot_id in ids:
            return snapshot.snapshot_id
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else now.snapshot_by_id(parent)
    return None if head is None else head.snapshot_id


def _behind(now: TableMetadata, at: IcebergPosition, after: int | None, what: str) -> Loss:
    """Go on behind a snapshot: one that is there, or one that the oldest which is there follows from, or followed."""
    snapshot = None if after is None else now.snapshot_by_id(after)
    known = lineage(now)
    if snapshot is not None:
        sequence = snapshot.sequence_number
    elif known:
        sequence = max(0, (known[0].sequence_number or 1) - 1)
    else:
        sequence = last_number(now)
    on = replace(at, after=after, at=None, file=0, row=0, lost=(*at.lost, what), sequence=sequence)
    return Loss(what, on)


def changes(table: str, place: str, snapshot: Snapshot, files: SnapshotFiles) -> DiagnosticError:
    """The error for a snapshot that deletes or replaces rows."""
    operation = "unknown" if snapshot.summary is None else snapshot.summary.operation.value
    parts = []
    if files.removed:
        parts.append(
            f"{counted(files.removed, 'file')} that had rows {'is' if files.removed == 1 else 'are'} removed"
        )
    if files.deletes:
        parts.append(
            f"{counted(files.deletes, 'file')} of deletes {'is' if files.deletes == 1 else 'are'} added"
        )
    option = SKIP_OVERWRITES if files.added else SKIP_DELETES
    more = ", with all that they add" if files.added else ""
    return DiagnosticError(
        Diagnostic(
            "DAT019",
            f"snapshot {snapshot.snapshot_id} of the table of `{table}` changes rows that were read",
            notes=(
                f"it is '{place}'",
                f"the operation is '{operation}' of {in_utc(snapshot.timestamp_ms)}: {', '.join(parts) or 'deletes'}",
            ),
            help=f"write '{option}' = 'true' to pass over such snapshots{more}; or '{CHANGES}' = 'true', with a new state "
            "directory, to read what changes, too",
        ),
        exit_code=4,
    )


def other_deletes(table: str, place: str, snapshot: int, file: DeleteFile) -> DiagnosticError:
    """The error for a file of deletes that can't be read."""
    return DiagnosticError(
        Diagnostic(
            "DAT018",
            f"the Iceberg table of `{table}` has deletes at snapshot {snapshot} which can't be read here",
            notes=(f"it is '{place}'", f"{file.path}: {file.unreadable}"),
            help="compact it, so that its files are written without them (rewrite_data_files with 'delete-file-threshold' = "
            "'1'), and begin there; and write it with copy-on-write",
        )
    )


def gone_file(table: str, place: str, path: str, size: int, there: int | None) -> DiagnosticError:
    """The error for a file that is not what the table's log says: it has `there` bytes, None: it is gone."""
    what = "it is not there" if there is None else f"it has {there} bytes, and {size} by the table's log"
    return DiagnosticError(
        Diagnostic(
            "DAT018",
            f"a file of the Iceberg table of `{table}` is gone, or is another",
            notes=(f"it is '{place}'", f"{path}: {what}"),
            help="restore the file; snapshots name it, so the table is damaged",
        ),
        exit_code=4,
    )


def gone_rows(file: LogFile, path: str) -> str:
    """What is gone with a file that the table has no more, in words: of a data file, or a file of deletes at `path`."""
    rows = f"up to {counted(file.rows, 'row')} that {'go' if file.goes else 'come'} with snapshot {file.snapshot}"
    return f"{path} is gone, by which {rows} would be known: it was deleted when snapshots were expired"


def other_format(table: str, place: str, file: LogFile) -> DiagnosticError:
    """The error for a data file that is not Parquet."""
    return DiagnosticError(
        Diagnostic(
            "DAT018",
            f"the Iceberg table of `{table}` has files in {file.format}, of which none can be read here",
            notes=(f"it is '{place}'", file.path),
            help="write its files anew as Parquet (rewrite_data_files), and begin there",
        )
    )


def no_table(table: str, place: str, former: IcebergPosition | None = None) -> DiagnosticError:
    """The error for a table that is not there."""
    notes = () if former is None else (f"it was read up to {former.in_words}",)
    return DiagnosticError(
        Diagnostic(
            "DAT004",
            f"there is no Iceberg table of `{table}`: {place}",
            notes=notes,
            help="look at `uri`, `catalog-name`, `catalog-database` and `catalog-table`",
        )
    )
