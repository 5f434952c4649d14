"""What is read of files instead of a row of theirs that was malformed and is mended: a small file of the same format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlstream.connectors.capabilities import Mended, NotMendedError
from sqlstream.connectors.filesystem.columns import ReadColumns
from sqlstream.connectors.filesystem.file_ranges import compression, decompressed, open_entry
from sqlstream.connectors.filesystem.file_version import is_same, present
from sqlstream.connectors.filesystem.listing import ListingLog
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.formats.csv.shape import CsvShape
from sqlstream.formats.file_parts import RAW_BYTES
from sqlstream.formats.files import Unit
from sqlstream.storage.mended_rows import TEXT
from sqlstream_operators.errors import DataError, MachineError
from sqlstream_operators.plan.spec import SourceSpec

_HEAD = 64 << 10
#: What stands for bytes that are no UTF-8.
_UNKNOWN = "�".encode()
_NEW_FILE = "put the mended row into a new file of the source: it is read once, as any other"


def mended(
    spec: SourceSpec, options: FileOptions, log: ListingLog, letter: Mapping[str, Any], text: bytes
) -> Mended:
    """See `Mending.mend`. A mended row of CSV has the header of the file that the row is in."""
    if options.files.unit is not Unit.TEXT:
        raise NotMendedError(f"files of format {options.format} are no text that can be mended", _NEW_FILE)
    if "expression" in letter:
        raise NotMendedError(
            "it can be read: an expression of the query fails over it",
            "edit the expression: the history is read again then; or correct the file, and begin a new state directory",
        )
    apart = [column.name for column in ReadColumns.of(spec).partitions] + [m.name for m in spec.metadata]
    if spec.partitioned_by or apart:
        names = ", ".join(dict.fromkeys([*spec.partitioned_by, *apart]))
        raise NotMendedError(f"the path of its file is a part of the row ({names})", _NEW_FILE)
    origin = str(letter.get("origin", ""))
    number = log.number(origin)
    if number is None:
        raise NotMendedError(f"{origin or 'its file'} is no file of the table any more", _NEW_FILE)
    row = str(letter.get("row", ""))
    if len(row.encode()) >= RAW_BYTES - 3:  # a character may have been cut
        raise NotMendedError(f"only its first {RAW_BYTES >> 10} KiB are kept", _NEW_FILE)
    if _UNKNOWN in text and _UNKNOWN.decode() in row:
        raise NotMendedError(
            "it has bytes that are no UTF-8, shown as �", "write the right characters in the place of each �"
        )
    line = text.strip(b"\r\n")
    if not line.strip():
        raise NotMendedError("it is empty now", "leave it as it was if it is not to be read")
    head = b""
    if options.format == "csv":
        if options.csv.comments and line.startswith(b"#"):
            raise NotMendedError("it would be a comment", "leave it as it was if it is not to be read")
        if _versions(log, origin) > 1:
            raise NotMendedError(f"{origin} was replaced since: its header may be another", _NEW_FILE)
        head = _header(spec, options, log.files[number].entry, line)
    ending = ".csv" if options.format == "csv" else ".json"
    return Mended(_shown(log, origin), head + line + b"\n", ending)


def _shown(log: ListingLog, origin: str) -> str:
    """The path as the end of any path that the file may have later, when the folder was moved."""
    return f"{TEXT}/{origin.rpartition('/')[2]}" if log.is_mended(origin) else log.shown(origin)


def _versions(log: ListingLog, path: str) -> int:
    """How many different files of this path were read."""
    found = [one for one in log.files if one.entry.path == path]
    entries = [*(one.entry for one in found), *(one.read.entry for one in found if one.read is not None)]
    return len({None if e is None else (e.size, e.digest or e.modified_us) for e in entries})


def _header(spec: SourceSpec, options: FileOptions, entry: FileEntry, line: bytes) -> bytes:
    """The header that a file of CSV has, which says where its columns are; nothing if it has none."""
    from sqlstream.formats.csv.files import first_record

    if options.csv_header is False:
        return b""
    declared = {name.lower() for name in ReadColumns.of(spec).declared}

    def is_header(fields: list[str]) -> bool:
        return declared <= {field.strip().lower() for field in fields}

    if options.csv_header is None and is_header(first_record(line, options.csv)[0]):
        raise NotMendedError("it would be taken for a header now: it has the names of all columns", _NEW_FILE)
    fields, _ = first_record(_head(entry), options.csv)
    if options.csv_header is None and not is_header(fields):
        return b""
    return (options.csv.delimiter.join(_field(field, options.csv) for field in fields) + "\n").encode()


def _head(entry: FileEntry) -> bytes:
    """How a file begins. Raises NotMendedError if it is not the one that was read."""
    packed = compression(entry.path)
    try:
        now = present(entry)
        if now is None or not is_same(entry, now):
            raise NotMendedError(
                f"{entry.path}, whose header its columns are found by, was changed", _NEW_FILE
            )
        with open_entry(entry) as file:
            if packed is None:
                return file.read(_HEAD)
            with decompressed(entry, file, packed) as stream:
                found: bytes = stream.read(_HEAD)
                return found
    except (DataError, MachineError, OSError) as error:
        why = f"{entry.path}, whose header its columns are found by, can't be read: {error}"
        raise NotMendedError(why, _NEW_FILE) from error


def _field(name: str, shape: CsvShape) -> str:
    """A name as a field of CSV."""
    if shape.quote is None or not any(c in name for c in (shape.quote, shape.delimiter, "\n", "\r")):
        return name
    return (
        f"{shape.quote}{name.replace(shape.quote, (shape.escape or shape.quote) + shape.quote)}{shape.quote}"
    )
