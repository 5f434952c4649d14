"""What a table's manifests say of its files, of every format version: PyIceberg leaves out what version 3 has more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile

#: The places of a file's fields that version 3 has more, and deletion vectors need.
_REFERENCED, _OFFSET, _LENGTH = 17, 18, 19


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A file of a manifest: whether the snapshot `snapshot` has added it, or removed it, and its data sequence number.

    `referenced` is the one data file that a file of deletes is about, if it says that; `offset` and `length` are where a
    deletion vector is in its file, in bytes.
    """

    file: DataFile
    snapshot: int | None
    sequence: int
    added: bool
    removed: bool
    referenced: str | None = None
    offset: int = 0
    length: int = 0


def entries(io: FileIO, manifest: ManifestFile) -> Iterator[Entry]:
    """All files of a manifest, those that were removed too."""
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.manifest import (
        MANIFEST_ENTRY_SCHEMAS,
        DataFile,
        DataFileContent,
        FileFormat,
        ManifestEntry,
        ManifestEntryStatus,
        _inherit_from_manifest,
    )

    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[3],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        for raw in reader:
            entry = _inherit_from_manifest(raw, manifest)
            file = entry.data_file
            yield Entry(
                file,
                entry.snapshot_id,
                entry.sequence_number or 0,
                entry.status == ManifestEntryStatus.ADDED,
                entry.status == ManifestEntryStatus.DELETED,
                file[_REFERENCED],
                file[_OFFSET] or 0,
                file[_LENGTH] or 0,
            )
