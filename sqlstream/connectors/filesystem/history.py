"""What a filesystem source has read up to some position, to be read again as it was then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlstream.connectors.api import Limits, Position, SourcePlan, Split
from sqlstream.connectors.filesystem.cutting import FileCutter, ToRead
from sqlstream.connectors.filesystem.file_ranges import FileRange, compression
from sqlstream.connectors.filesystem.file_version import check_unchanged, is_same, stamped
from sqlstream.connectors.filesystem.listing import Listed, ReadPart
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.paths import FileEntry, is_local
from sqlstream.formats.files import Unit
from sqlstream_operators.errors import InputFileError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted

#: The properties of a file that change once it has grown.
_OF_THE_WHOLE = ("file.size", "file.modification-time")
_MOST_NAMED = 10
_HELP = "put the files back as they were; what was computed from them before is not touched"


@dataclass(frozen=True, slots=True)
class _Gone:
    """A file whose rows can't be read again: its number, how many bytes were read of it, and why."""

    number: int
    path: str
    bytes: int
    why: str


class FileHistory:
    """The files of a source that were read up to `end`, and of the last one the part that was; `files` is its list then.

    Its positions are those of the source. Nothing is listed, and what came later is not seen. `there` are the files that
    there are now. Raises DiagnosticError (DAT008) if one that was read is gone or another.
    """

    def __init__(
        self,
        spec: SourceSpec,
        options: FileOptions,
        files: Sequence[Listed],
        end: Position,
        there: Iterable[FileEntry],
    ) -> None:
        self._name = spec.name
        self._options = options
        self._end = end
        self._metadata = {column.key for column in spec.metadata}
        self._cutter = FileCutter(spec.name, options)
        now = {entry.path: entry for entry in there}
        self._files: list[ToRead | None] = []
        gone: list[_Gone] = []
        file, offset = int(end["file"]), int(end["offset"])
        for number, listed in enumerate(files[: file + (offset > 0)]):
            read = listed.read_before(number, file, offset)
            found = None if read is None else self._as_it_was(number, listed.entry, read, now)
            if isinstance(found, _Gone):
                gone.append(found)
            self._files.append(found if isinstance(found, ToRead) else None)
        if gone:
            raise DiagnosticError(self._incomplete(spec.name, files, gone))

    @property
    def bounded(self) -> bool:
        """It ends."""
        return True

    @property
    def bytes(self) -> int:
        """How many bytes of files there are to read."""
        return sum(self._bytes(one.entry.size, one.end) for one in self._files if one is not None)

    def initial_position(self) -> Position:
        """Before the first file."""
        return {"segments": 0, "file": 0, "offset": 0}

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next files or parts of files within the limits. Raises DiagnosticError (DAT008) if one has changed since."""
        file, offset = int(position["file"]), int(position["offset"])
        try:
            cut = self._cutter.cut(self._files.__getitem__, file, offset, limits, len(self._files))
        except InputFileError as error:
            raise DiagnosticError(_changed(self._name, error.message)) from error
        ended = cut.file >= len(self._files)
        following = {"segments": self._end["segments"], "file": cut.file, "offset": cut.offset}
        return SourcePlan(cut.splits, self._end if ended else following, ended, cut.taken)

    def lag(self, position: Position) -> int | None:
        """An estimate of the rows after `position`; None if it is not known."""
        if position == self._end:
            return 0
        left = [one for one in self._files[int(position["file"]) :] if one is not None]
        return self._cutter.waiting(left, int(position["offset"]))

    def can_replay(self, splits: Sequence[Split]) -> bool:
        """Whether the files of these splits are what they were."""
        try:
            for split in splits:
                for item in split.payload["ranges"]:
                    check_unchanged(FileRange.from_json(item, self._opening).entry)
        except InputFileError:
            return False
        return True

    @property
    def _opening(self) -> str:
        return next((one.entry.opening for one in self._files if one is not None), "")

    def _as_it_was(
        self, number: int, listed: FileEntry, read: ReadPart, now: Mapping[str, FileEntry]
    ) -> ToRead | _Gone | None:
        """How to read again what was read of a file; None if that was nothing."""
        was, found = read.entry, now.get(listed.path)
        if was is None:
            return _Gone(
                number, listed.path, listed.size, "was replaced, and what was read of it is not known"
            )
        size = self._bytes(was.size, read.end)
        if not was.size:
            return None
        if found is None:
            return _Gone(number, was.path, size, "is gone")
        if is_same(was, found):
            return ToRead(was, read.end)
        if self._has_grown(was, found):
            return ToRead(stamped(found), was.size if read.end is None else read.end)
        return _Gone(number, was.path, size, "is not what it was when it was read")

    def _has_grown(self, was: FileEntry, now: FileEntry) -> bool:
        """Whether a file begins with all that it was, and only lines came after it."""
        lines = self._options.files.appendable and compression(was.path) is None
        if not (lines and is_local(was.path) and was.digest and now.size > was.size):
            return False
        if self._metadata.intersection(_OF_THE_WHOLE):
            return False
        return stamped(replace(now, size=was.size)).digest == was.digest

    def _bytes(self, size: int, end: int | None) -> int:
        """The bytes of a file of this size that were read up to `end`, all of them if that is not in bytes."""
        return size if end is None or self._options.files.unit is not Unit.TEXT else end

    def _incomplete(self, name: str, files: Sequence[Listed], gone: Sequence[_Gone]) -> Diagnostic:
        """The diagnostic for files that can't be read again: which, how much they had, and from when on all is there."""
        read = len(gone) + sum(one is not None for one in self._files)
        missing = sum(one.bytes for one in gone)
        every = missing + self.bytes
        notes = [f"{one.path} {one.why}" for one in gone[:_MOST_NAMED]]
        if len(gone) > _MOST_NAMED:
            notes.append(f"and {len(gone) - _MOST_NAMED} more")
        notes.append(
            f"they had {missing:,} of the {every:,} bytes that were read; how many rows is not known"
        )
        after = gone[-1].number + 1
        first = next((n for n in range(after, len(self._files)) if self._files[n] is not None), None)
        if first is None:
            notes.append("nothing that was read after them is there")
        else:
            entry = files[first].entry
            written = datetime.fromtimestamp(entry.modified_us / 1e6, UTC)
            notes.append(
                f"the history is complete from {entry.path} on, written {written:%Y-%m-%d %H:%M:%S} UTC"
            )
        return Diagnostic(
            "DAT008",
            f"source `{name}` can't be read again: {len(gone)} of {counted(read, 'file')} changed or are gone",
            notes=tuple(notes),
            help=_HELP,
        )


def _changed(name: str, what: str) -> Diagnostic:
    return Diagnostic("DAT008", f"source `{name}` can't be read again: {what}", help=_HELP)
