"""How much of which files an epoch reads, within its limits, and how that is dealt out over splits."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlstream.connectors.api import Limits, Split
from sqlstream.connectors.filesystem.file_ranges import FileRange, Workspace, compression, open_entry
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.parts import Part
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.formats.files import Unit
from sqlstream_operators.errors import DataError

if TYPE_CHECKING:
    from sqlstream.formats.boundaries import RangeEnd
    from sqlstream.formats.file_parts import FileShape

_SMALLEST_SPLIT = 256 << 10
_SAMPLE = 64 << 10
#: How much smaller compressed text is, and how long a line is, where nothing better is known.
_PACKED, _LINE = 5, 100
_SHAPES_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class ToRead:
    """A file, or what there is to read of it: up to a byte (json, csv) or row (parquet, avro); `end` None: all of it."""

    entry: FileEntry
    end: int | None = None

    @property
    def size(self) -> int:
        """The bytes to read of a file of lines."""
        return self.entry.size if self.end is None else min(self.end, self.entry.size)


@dataclass(frozen=True, slots=True)
class _Part:
    """A range with its estimated bytes and, where they are known, its rows."""

    range: FileRange
    bytes: int
    rows: int | None


@dataclass(slots=True)
class _Budget:
    """What an epoch may still take."""

    rows: int | None
    files: int | None
    bytes: int | None
    parts: list[_Part] = field(default_factory=list)
    taken: int = 0

    @property
    def spent(self) -> bool:
        return any(left is not None and left <= 0 for left in (self.rows, self.files, self.bytes))

    def take(self, part: _Part, rows: int) -> None:
        self.parts.append(part)
        self.rows = None if self.rows is None else self.rows - rows
        self.files = None if self.files is None else self.files - 1
        self.bytes = None if self.bytes is None else self.bytes - part.bytes
        self.taken += 1


@dataclass(frozen=True, slots=True)
class FileCut:
    """What an epoch reads: splits, the file and the offset in it to go on with, and how many parts were taken."""

    splits: tuple[Split, ...]
    file: int
    offset: int
    taken: int


class FileCutter:
    """Cuts the files of the source `name` into epochs and splits; remembers what it has learned of them.

    An offset is a byte (json, csv) or a row (parquet, avro); compressed and ORC files are read whole.
    """

    def __init__(self, name: str, options: FileOptions) -> None:
        self._name = name
        self._options = options
        self._shapes: dict[FileEntry, FileShape] = {}
        self._bytes_per_row: float | None = None

    @functools.cached_property
    def _range_end(self) -> RangeEnd | None:
        """What finds where a range of lines ends; None: these files are not cut by lines."""
        # Made with the first that is cut, as NumPy takes a tenth of a second and a plan of an edit cuts nothing.
        make = self._options.files.range_end
        return None if make is None else make(self._options.given)

    def cut(
        self, files: Callable[[int], ToRead | None], file: int, offset: int, limits: Limits, end: int
    ) -> FileCut:
        """What to read next, from `offset` in the file of number `file` on and before the number `end`.

        `files` says what to read of a number; None: it is passed over. Raises InputFileError if a file is gone or changed.
        """
        first = next((one for number in range(file, end) if (one := files(number)) is not None), None)
        budget = self._budget(limits, first)
        while file < end and not budget.spent:
            one = files(file)
            following = None if one is None else self._take(one, offset, budget)
            if following is None:
                file, offset = file + 1, 0
            else:
                offset = following
        splits = tuple(self._split(parts) for parts in self._pack(budget.parts, limits.tasks))
        return FileCut(splits, file, offset, budget.taken)

    def waiting(self, files: Sequence[ToRead], offset: int) -> int | None:
        """An estimate of the rows in files, behind `offset` in the first; None if nothing is known of their length."""
        if not files:
            return 0
        if self._bytes_per_row is None:
            self._sample(files[0].entry)
        if self._bytes_per_row is None:
            return None
        if self._options.files.unit is Unit.ROWS:
            return self._waiting_rows(files, offset, self._bytes_per_row)
        waiting = sum(_text_bytes(one, self._options.files.unit) for one in files)
        if self._range_end is not None:
            waiting -= offset
        return max(0, round(waiting / self._bytes_per_row))

    def _waiting_rows(self, files: Sequence[ToRead], offset: int, bytes_per_row: float) -> int:
        """The rows of files behind a row of the first: exact of those whose shape is known, else by their bytes."""
        rows = 0.0
        for one in files:
            shape = self._shapes.get(one.entry)
            rows += one.entry.size / bytes_per_row if shape is None else shape.rows
        return max(0, round(rows) - offset)

    def _budget(self, limits: Limits, first: ToRead | None) -> _Budget:
        """What may be taken. Rows are only counted where the limit is exact: lines would be read once more, and each
        file's shape would be read.
        """
        counted = self._options.files.unit is Unit.ROWS
        by_bytes = counted or (
            self._range_end is not None and first is not None and compression(first.entry.path) is None
        )
        if first is None or not (limits.about and limits.rows is not None and by_bytes):
            return _Budget(limits.rows, limits.files, limits.bytes)
        if self._bytes_per_row is None or counted:  # how well a file is packed says less of later ones
            self._sample(first.entry)
        if self._bytes_per_row is None:
            return _Budget(limits.rows, limits.files, limits.bytes)
        wanted = max(1, round(limits.rows * self._bytes_per_row))
        return _Budget(None, limits.files, wanted if limits.bytes is None else min(wanted, limits.bytes))

    def _take(self, one: ToRead, offset: int, budget: _Budget) -> int | None:
        """Take as much of a file as the budget allows; the offset to go on with, None if nothing is left of
        it.
        """
        entry = one.entry
        limited = budget.rows is not None or (budget.bytes is not None and budget.bytes < one.size)
        if self._options.files.unit is Unit.ROWS:
            return self._take_rows(one, offset, budget, limited)
        if self._range_end is not None and compression(entry.path) is None:
            return self._take_text(one, offset, budget, limited)
        rows = None
        if self._options.files.unit is Unit.WHOLE and limited:
            rows = self._shape(entry).rows
        estimate = rows if rows is not None else entry.size * _PACKED // _LINE
        budget.take(_Part(FileRange(entry), entry.size, rows), max(1, estimate))
        return None

    def _take_text(self, one: ToRead, offset: int, budget: _Budget, limited: bool) -> int | None:
        entry = one.entry
        if offset >= one.size:
            return None
        end, rows = one.size, None
        if limited:
            assert self._range_end is not None
            with open_entry(entry) as file:
                end, rows = self._range_end(file, offset, one.size, budget.rows, budget.bytes)
        last = end >= one.size
        # Rows that can't be counted use the budget up. Blank lines count as rows, so `rows` is only a bound.
        used = rows if rows is not None else (budget.rows or 0)
        to = None if last and one.end is None else end
        budget.take(_Part(FileRange(entry, offset, to), end - offset, None), used)
        return None if last else end

    def _take_rows(self, one: ToRead, offset: int, budget: _Budget, limited: bool) -> int | None:
        entry = one.entry
        if not limited and offset == 0 and one.end is None:
            shape = self._shapes.get(entry)
            budget.take(_Part(FileRange(entry), entry.size, None if shape is None else shape.rows), 0)
            return None
        shape = self._shape(entry)
        there = shape.rows if one.end is None else min(one.end, shape.rows)
        rows = there - offset
        if budget.rows is not None:
            rows = min(rows, budget.rows)
        if budget.bytes is not None and shape.rows:
            rows = min(rows, max(1, shape.rows * budget.bytes // entry.size))
        last = offset + rows >= there
        if rows > 0:
            to = None if last and one.end is None else offset + rows
            budget.take(_Part(FileRange(entry, offset, to), entry.size * rows // shape.rows, rows), rows)
        return None if last else offset + rows

    def _pack(self, parts: Sequence[_Part], tasks: int) -> list[list[_Part]]:
        """Deal the parts out to at most `tasks` splits of about the same bytes, in order; cut what is
        large.
        """
        total = sum(part.bytes for part in parts)
        count = max(1, min(tasks, -(-total // _SMALLEST_SPLIT)))
        goal = max(1.0, total / count)
        groups: list[list[_Part]] = [[] for _ in range(count)]
        done = 0

        def add(part: _Part) -> None:
            nonlocal done
            groups[min(count - 1, int((done + part.bytes / 2) / goal))].append(part)
            done += part.bytes

        for part in parts:
            rest = part
            for number in range(int(done / goal) + 1, count):
                wanted = round(number * goal) - done
                if wanted >= rest.bytes:
                    break
                cut = self._split_at(rest, wanted)
                if cut is not None:
                    add(cut[0])
                    rest = cut[1]
            add(rest)
        return [_joined(group) for group in groups if group]

    def _split_at(self, part: _Part, wanted: int) -> tuple[_Part, _Part] | None:
        """Cut a part after about `wanted` bytes; None if it is not worth it or can't be done."""
        smallest = self._options.files.smallest_range
        if smallest is None or wanted < smallest or part.bytes - wanted < smallest:
            return None
        file_range, entry = part.range, part.range.entry
        if self._options.files.unit is Unit.ROWS:
            shape = self._shape(entry)
            end = shape.rows if file_range.end is None else file_range.end
            rows = end - file_range.start
            boundary = file_range.start + max(1, rows * wanted // part.bytes)
            nearest = min(shape.groups, key=lambda group: abs(group - boundary))
            if file_range.start < nearest < end and abs(nearest - boundary) * 4 < boundary - file_range.start:
                boundary = nearest  # a row group that is cut is decoded twice
            if not file_range.start < boundary < end:
                return None
            first = part.bytes * (boundary - file_range.start) // rows
            return (
                _Part(FileRange(entry, file_range.start, boundary), first, boundary - file_range.start),
                _Part(FileRange(entry, boundary, file_range.end), part.bytes - first, end - boundary),
            )
        if self._range_end is None or compression(entry.path) is not None:
            return None
        end = entry.size if file_range.end is None else file_range.end
        with open_entry(entry) as file:
            boundary, _ = self._range_end(file, file_range.start, end, None, wanted)
        if boundary >= end:
            return None
        return (
            _Part(FileRange(entry, file_range.start, boundary), boundary - file_range.start, None),
            _Part(FileRange(entry, boundary, file_range.end), end - boundary, None),
        )

    def _split(self, parts: Sequence[_Part]) -> Split:
        known = [part.rows for part in parts if part.rows is not None]
        return Split(
            source=self._name,
            payload={"ranges": [part.range.to_json() for part in parts]},
            rows=sum(known) if len(known) == len(parts) else None,
            bytes=sum(part.bytes for part in parts),
        )

    def _shape(self, entry: FileEntry) -> FileShape:
        if entry not in self._shapes:
            if len(self._shapes) >= _SHAPES_KEPT:
                self._shapes.clear()
            self._shapes[entry] = self._options.files.shape_of(Part(FileRange(entry), Workspace()))
        return self._shapes[entry]

    def _sample(self, entry: FileEntry) -> None:
        """Estimate the bytes of a row from the beginning of a file."""
        try:
            if self._options.files.unit is Unit.ROWS or self._options.files.unit is Unit.WHOLE:
                rows, size = self._shape(entry).rows, entry.size
            elif compression(entry.path) is not None:
                return
            else:
                with open_entry(entry) as file:
                    head = file.read(_SAMPLE)
                rows, size = head.count(b"\n"), len(head)
        except DataError:  # reported by `plan`, which can't go on without the file
            return
        if rows:
            self._bytes_per_row = size / rows


def _joined(parts: Sequence[_Part]) -> list[_Part]:
    """The same parts, those that follow one another in a file made one."""
    made: list[_Part] = []
    for part in parts:
        last = made[-1] if made else None
        if last is not None and (last.range.entry, last.range.end) == (part.range.entry, part.range.start):
            rows = None if last.rows is None or part.rows is None else last.rows + part.rows
            whole = FileRange(part.range.entry, last.range.start, part.range.end)
            made[-1] = _Part(whole, last.bytes + part.bytes, rows)
        else:
            made.append(part)
    return made


def _text_bytes(one: ToRead, unit: Unit) -> int:
    """The bytes of a file once it is decompressed, estimated."""
    if unit is not Unit.TEXT:
        return one.entry.size
    return one.size if compression(one.entry.path) is None else one.size * _PACKED
