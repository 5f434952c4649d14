"""The log of the files that a source has seen, in the order in which they are read.

Append-only segments in the checkpoint store, each written once and before any plan that uses it; a position
in the log is a number, whatever happens in the directory. Paths are kept relative to the folder that is
listed, so a pipeline's folder can be moved with its state.

A segment has `files`, which are added at the end, and may have `updates` of files before them: another version of a file
that was not read yet, or that a file is passed over. A file may be in the log again, as another version; the last one is
what its path stands for. An update of a file that was read says which version of it was, and how much: the history of a
source is what it has read, whatever its files have become.

Rows that were dead letters and are mended (`storage/mended_rows`) are files, too: the folder of the segments has them, and
paths of theirs are relative to it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlstream.connectors.filesystem.paths import FileEntry, is_local, split_location
from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream.storage.mended_rows import FOLDER as MENDED
from sqlstream.storage.mended_rows import LISTED, TEXT, MendedRow, is_mended, mended_rows
from sqlstream_operators.state.checkpoint_store import CheckpointStore, local_path

_KIND = "listing"
_FILES_PER_SEGMENT = 10_000
_VERSION = ("size", "modified_us", "changed_us", "digest")


@dataclass(frozen=True, slots=True)
class ReadPart:
    """What was read of a file before it was another, or passed over: all of this version, or up to the offset `end`.

    The version is None where it is not known: nobody wrote it down then.
    """

    entry: FileEntry | None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A file in the log; one that is `skipped` is passed over, or what is left of it.

    `read` is what was read of it before it became so (None: nothing, or all that its number says).
    """

    entry: FileEntry
    skipped: bool = False
    read: ReadPart | None = None

    @property
    def passed_over(self) -> bool:
        """Whether something that is in the file was left out: all of it, the rest, or what it was replaced by."""
        if self.skipped:
            return True
        was = None if self.read is None else self.read.entry
        return was is not None and _version(was)[::3] != _version(self.entry)[::3]

    def read_before(self, number: int, file: int, offset: int) -> ReadPart | None:
        """What was read of it, being of this number, by a source that stands at `offset` in the file of number `file`."""
        if number > file or (number == file and not offset):
            return None
        if self.read is not None or self.skipped:
            return self.read
        return ReadPart(self.entry, None if number < file else offset)


class ListingLog:
    """The files of one source: what `append` has added, in that order, over all runs on this store.

    `folder` is where its segments are in the store, `root` the prefix that paths share now, `opening` what opens
    them; with `most`, only so many segments are read: the log as it was when there were no more. Raises DamagedFileError,
    which names it, when a segment is not what was written or is missing.
    """

    def __init__(
        self, store: CheckpointStore, folder: str, root: str, opening: str = "", most: int | None = None
    ) -> None:
        self._store = store
        self.folder = folder
        self._root = root
        self._opening = opening
        self._files: list[Listed] = []
        self._by_path: dict[str, int] = {}
        self._segments = 0
        place = store.path(f"{folder}/{TEXT}/")
        local = local_path(place)
        self._own = place if local is None else f"{local.absolute()}/"
        self._mended: list[int] = []
        segments = [name for name in store.list(folder) if not is_mended(name, folder)]
        if not store.is_local:  # a list of an object store may lack what was written last
            while store.exists(self._segment(len(segments))):
                segments.append(self._segment(len(segments)))
        for name in segments[:most]:
            if name != self._segment(self._segments):
                raise DamagedFileError(
                    self._segment(self._segments), "is missing: the list of files is incomplete"
                )
            content = decode(_KIND, name, store.get(name))
            with_reads = bool(content.get("reads_told"))
            updates = {n: self._updated(item, with_reads) for n, *item in content.get("updates", ())}
            self._take(updates, [self._read(item) for item in content["files"]])
            self._segments += 1

    @property
    def files(self) -> Sequence[Listed]:
        """All files in reading order."""
        return self._files

    @property
    def segments(self) -> int:
        """How many segments there are."""
        return self._segments

    def number(self, path: str) -> int | None:
        """The place of a path's last version; None if it is not in the log."""
        return self._by_path.get(path)

    @property
    def paths(self) -> Sequence[str]:
        """All paths in it, without those of mended rows."""
        return [path for path in self._by_path if not self.is_mended(path)]

    def is_mended(self, path: str) -> bool:
        """Whether a path is that of a mended row."""
        return path.startswith(self._own)

    def mended_path(self, file: str) -> str:
        """The path of the file of a mended row."""
        return f"{self._own}{file}"

    def mended_rows(self) -> Sequence[MendedRow]:
        """The mended rows that are there by now, in the log or not yet. Raises DamagedFileError."""
        return mended_rows(self._store, self.folder)

    def mended_before(self, file: int, offset: int) -> Sequence[str]:
        """The files of the mended rows that a source has read which stands at `offset` in the file of number `file`."""
        numbers = self._mended[: bisect_left(self._mended, file + (offset > 0))]
        return [self._files[number].entry.path.removeprefix(self._own) for number in numbers]

    @property
    def passed_over(self) -> Sequence[str]:
        """The paths whose files are left out, as they are now."""
        return [path for path, number in self._by_path.items() if self._files[number].passed_over]

    def append(self, fresh: Sequence[Listed], updates: Mapping[int, Listed] | None = None) -> None:
        """Add files at the end, and put others in the place of some that are there.

        Raises FileExistsError: another driver works on this state directory.
        """
        updates = dict(updates or {})
        for start in range(0, max(len(fresh), bool(updates)), _FILES_PER_SEGMENT):
            part = fresh[start : start + _FILES_PER_SEGMENT]
            content: dict[str, Any] = {"files": [self._written(file) for file in part]}
            if updates:
                content["updates"] = [[n, *self._written(file)] for n, file in sorted(updates.items())]
                content["reads_told"] = True
            self._store.put_exclusive(self._segment(self._segments), encode(_KIND, content))
            self._segments += 1
            self._take(updates, part)
            updates = {}

    def copy_to(
        self, store: CheckpointStore, folder: str, root: str, moved: Callable[[str], FileEntry | str]
    ) -> None:
        """Write it again, segment by segment, with the paths that files have now: positions mean the same in the copy.

        `moved` gives the file that is what the log has under a path, or just its path where there is none.
        """

        def written(item: Sequence[Any]) -> list[Any]:
            if item[0].startswith(LISTED):
                return list(item)
            old = self._read(item).entry
            now = moved(old.path)
            path = now if isinstance(now, str) else now.path
            shown = path[len(root) :] if path.startswith(root) else path
            if isinstance(now, str) or now.size != old.size or (old.digest and now.digest != old.digest):
                return [shown, *item[1:]]
            return [shown, *_version(now), *item[5:]]

        for name in self._store.list(f"{self.folder}/{MENDED}"):
            store.copy_from(self._store, name, f"{folder}{name.removeprefix(self.folder)}")
        for number in range(self._segments):
            name = self._segment(number)
            content = decode(_KIND, name, self._store.get(name))
            body = {key: value for key, value in content.items() if key not in ("kind", "format")}
            body["files"] = [written(item) for item in content["files"]]
            if "updates" in content:
                body["updates"] = [[n, *written(item)] for n, *item in content["updates"]]
            store.put_exclusive(f"{folder}/{number:06d}.json", encode(_KIND, body))

    def _segment(self, number: int) -> str:
        return f"{self.folder}/{number:06d}.json"

    def _take(self, updates: Mapping[int, Listed], files: Sequence[Listed]) -> None:
        for number, file in updates.items():
            self._files[number] = file
        for file in files:
            self._by_path[file.entry.path] = len(self._files)
            if self.is_mended(file.entry.path):
                self._mended.append(len(self._files))
            self._files.append(file)

    def _written(self, file: Listed) -> list[Any]:
        entry = file.entry
        shown = [self.shown(entry.path), *_version(entry)]
        if file.read is None:
            return [*shown, True] if file.skipped else shown
        read = file.read
        return [*shown, file.skipped, [read.end, *(() if read.entry is None else _version(read.entry))]]

    def _read(self, item: Sequence[Any]) -> Listed:
        """A file as `_written` wrote it; those of older versions have no more than their size and time."""
        path, size, modified_us, *version = item
        changed_us, digest = version[:2] or (0, "")
        entry = FileEntry(self._absolute(path), size, modified_us, self._opening, changed_us, digest)
        skipped = bool(version[2:] and version[2])
        if not version[3:]:
            return Listed(entry, skipped)
        end, *was = version[3]
        before = replace(entry, **dict(zip(_VERSION, was, strict=True))) if was else None
        return Listed(entry, skipped, ReadPart(before, end))

    def _updated(self, item: Sequence[Any], with_reads: bool) -> Listed:
        """A file as an update has it; older versions did not write down whether something of it had been read."""
        listed = self._read(item)
        return listed if with_reads else replace(listed, read=ReadPart(None))

    def shown(self, path: str) -> str:
        """A path as the log has it: relative to its folder, if it is in there."""
        if self.is_mended(path):
            return f"{LISTED}{path.removeprefix(self._own)}"
        return path[len(self._root) :] if path.startswith(self._root) else path

    def _absolute(self, path: str) -> str:
        if path.startswith(LISTED):
            return self.mended_path(path.removeprefix(LISTED))
        whole = path if path.startswith("/") or not is_local(path) else self._root + path
        # Former versions wrote a single object with the options behind it.
        return whole if whole.startswith("/") else split_location(whole)[0]


def _version(entry: FileEntry) -> tuple[Any, ...]:
    return tuple(getattr(entry, name) for name in _VERSION)
