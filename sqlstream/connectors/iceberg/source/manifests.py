"""What a table's manifests say of its files, of every format version: PyIceberg leaves out what version 3 has more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestFile

#: The places of a file's fields that version 3 has more, and deletion vectors need.
_REFERENCED, _OFFSET, _LENGTH = 17, 18, 19
#: Of how many files it is kept what manifests say of them: with bounds of many columns it is some kB each.
_KEPT_FILES = 20_000


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


#: Reads all files of a manifest, those that were removed too.
ReadManifest = Callable[["FileIO", "ManifestFile"], Sequence[Entry]]


class Manifests:
    """Reads manifests; those that were read last are kept, up to so many files: each snapshot has most of the last one's."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[Entry, ...]] = OrderedDict()
        self._count = 0

    def entries(self, io: FileIO, manifest: ManifestFile) -> Sequence[Entry]:
        """All files of a manifest, those that were removed too."""
        path = manifest.manifest_path
        if path in self._kept:
            self._kept.move_to_end(path)
            return self._kept[path]
        found = tuple(_entries(io, manifest))
        if len(found) <= _KEPT_FILES:
            self._kept[path] = found
            self._count += len(found)
            while self._count > _KEPT_FILES:
                self._count -= len(self._kept.popitem(last=False)[1])
        return found


def _entries(io: FileIO, manifest: ManifestFile) -> Iterator[Entry]:
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
