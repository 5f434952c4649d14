"""The log of the files that a source has seen, in the order in which they are read.

Append-only segments in the checkpoint store, each written once and before any plan that uses it; a position
in the log is a number, whatever happens in the directory. Paths are kept relative to the folder that is
listed, so a pipeline's folder can be moved with its state.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream_operators.errors import DataError
from sqlstream_operators.state.checkpoint_store import CheckpointStore

_KIND = "listing"
_FILES_PER_SEGMENT = 10_000


class ListingLog:
    """The files of one source: what `append` has added, in that order, over all runs on this store.

    `folder` is where its segments are in the store, `root` the prefix that paths share now, `credentials` what opens
    them. Raises
    DamagedFileError, which names it, when a segment is not what was written or is missing.
    """

    def __init__(self, store: CheckpointStore, folder: str, root: str, credentials: str = "") -> None:
        self._store = store
        self._folder = folder
        self._root = root
        self._entries: list[FileEntry] = []
        self._by_path: dict[str, FileEntry] = {}
        self._segments = 0
        for name in store.list(folder):
            if name != self._segment(self._segments):
                raise DamagedFileError(
                    self._segment(self._segments), "is missing: the list of files is incomplete"
                )
            for path, size, modified_us in decode(_KIND, name, store.get(name))["files"]:
                self._add(FileEntry(self._absolute(path), size, modified_us, credentials))
            self._segments += 1

    @property
    def entries(self) -> Sequence[FileEntry]:
        """All files in reading order."""
        return self._entries

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return self._segments

    def append(self, found: Sequence[FileEntry]) -> int:
        """Add the files that are not in the log yet, in the given order; returns how many.

        Raises DataError if a file of the log is there with another size: it would be read half or twice.
        FileExistsError: another driver works on this state directory.
        """
        fresh = []
        for entry in found:
            known = self._by_path.get(entry.path)
            if known is None:
                fresh.append(entry)
            elif known.size != entry.size:
                raise file_changed(known, entry.size)
        for start in range(0, len(fresh), _FILES_PER_SEGMENT):
            part = fresh[start : start + _FILES_PER_SEGMENT]
            files = [[self._relative(e.path), e.size, e.modified_us] for e in part]
            self._store.put_exclusive(self._segment(self._segments), encode(_KIND, {"files": files}))
            self._segments += 1
            for entry in part:
                self._add(entry)
        return len(fresh)

    def _segment(self, number: int) -> str:
        return f"{self._folder}/{number:06d}.json"

    def _add(self, entry: FileEntry) -> None:
        self._entries.append(entry)
        self._by_path[entry.path] = entry

    def _relative(self, path: str) -> str:
        return path[len(self._root) :] if path.startswith(self._root) else path

    def _absolute(self, path: str) -> str:
        return path if path.startswith("/") or "://" in path else self._root + path


def file_changed(entry: FileEntry, size: int) -> DataError:
    """The error for a file that is not what was listed."""
    return DataError(
        f"{entry.path} changed: it had {entry.size} bytes when it was listed and has {size} now. "
        f"A file is read once: write new data to new files, named .x or _x until they are complete"
    )


def file_vanished(entry: FileEntry) -> DataError:
    """The error for a file that is gone before it was read."""
    return DataError(
        f"{entry.path} is gone: it had {entry.size} bytes when it was listed and has not been read "
        f"completely. Put it back, or start with a new state directory"
    )
