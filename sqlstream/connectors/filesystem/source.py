"""The driver's half of a filesystem source: which files there are, and which part of them an epoch reads."""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import pyarrow as pa
from pyarrow import orc

from sqlstream.connectors.api import ConnectorContext, Limits, Position, SourcePlan, Split
from sqlstream.connectors.filesystem import parquet
from sqlstream.connectors.filesystem.file_ranges import FileRange, compression, open_entry
from sqlstream.connectors.filesystem.file_version import check_unchanged
from sqlstream.connectors.filesystem.listing import ListingLog
from sqlstream.connectors.filesystem.options import CHANGELOG_FORMATS, FileOptions
from sqlstream.connectors.filesystem.orc import broken
from sqlstream.connectors.filesystem.orders import FileOrders
from sqlstream.connectors.filesystem.paths import FileEntry, resolve, without_credentials
from sqlstream.connectors.filesystem.record_boundaries import RangeEnd, csv_range_end, json_range_end
from sqlstream.connectors.filesystem.source_files import SourceFiles
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_operators.plan.spec import SourceSpec

#: A range smaller than this is not worth a task of its own, bytes.
SMALLEST_RANGE = {**dict.fromkeys(("json", "csv", *CHANGELOG_FORMATS), 8 << 20), "parquet": 4 << 20}
_SMALLEST_SPLIT = 256 << 10
_SAMPLE = 64 << 10
#: How much smaller compressed text is, and how long a line is, where nothing better is known.
_PACKED, _LINE = 5, 100
_SHAPES_KEPT = 10_000


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


class FileSource:
    """Files under a path, read once each in the order of the listing log.

    A position is {"segments", "file", "offset"}: how much of the listing log there must be, the number of a
    file in it, and the byte (json, csv) or row (parquet) to go on with. A new run lists the path again; with
    `source.monitor-interval` it is also listed while it runs, `clock` (seconds) telling when.
    """

    def __init__(
        self,
        spec: SourceSpec,
        context: ConnectorContext,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._name = spec.name
        self._options = FileOptions.read(spec.options)
        location = resolve(self._options.path, context.base_dir)
        public, credentials = without_credentials(location)
        folder = context.folder or f"sources/{quote(spec.name, safe='')}"
        self._log = ListingLog(context.store, folder, _root(public), credentials)
        self._orders = context.orders or FileOrders()
        self._files = SourceFiles(
            spec.name,
            self._options,
            location,
            self._log,
            self._orders,
            clock=clock,
            wall_clock=wall_clock,
            tell=context.tell,
        )
        self._credentials = credentials
        cutters: dict[str, RangeEnd] = dict.fromkeys(("json", *CHANGELOG_FORMATS), json_range_end)
        cutters["csv"] = functools.partial(csv_range_end, self._options.csv)
        self._range_end = cutters.get(self._options.format)
        self._shapes: dict[str, parquet.ParquetShape] = {}
        self._bytes_per_row: float | None = None

    @property
    def bounded(self) -> bool:
        """Whether reading ends when all files that were there at the start are read."""
        return self._options.monitor_interval_us is None

    @property
    def waits_for(self) -> str:
        """What a run waits for that has read everything."""
        return f"files in '{self._options.path}'"

    def initial_position(self) -> Position:
        """Before the first file."""
        return {"segments": 0, "file": 0, "offset": 0}

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next files or parts of files within the limits.

        Raises InputFileError if a listed file is gone or changed, DiagnosticError (DAT004) if there has never been one.
        """
        self._look(position)
        files = self._log.files
        file, offset = int(position["file"]), int(position["offset"])
        budget = self._budget(limits, self._waiting(file))
        while file < self._files.end and not budget.spent:
            end = None if files[file].skipped else self._take(files[file].entry, offset, budget)
            if end is None:
                file, offset = file + 1, 0
            else:
                offset = end
        following = {"segments": self._log.segments, "file": file, "offset": offset}
        splits = tuple(self._split(parts) for parts in self._pack(budget.parts, limits.tasks))
        ended = self.bounded and file >= len(files) and not self._files.waits
        return SourcePlan(splits, following, ended, budget.taken)

    def can_replay(self, splits: Sequence[Split]) -> bool:
        """Whether splits that were planned earlier can be read as they are: their files are what they were, and the run
        was not told to do anything else with them. If not, the files are listed anew before the next plan.
        """
        for split in splits:
            for item in split.payload["ranges"]:
                entry = FileRange.from_json(item, self._credentials).entry
                try:
                    check_unchanged(entry)
                except InputFileError:
                    self._files.look_again()
                    return False
                if self._orders.wanted(self._log.folder, entry.path):
                    return False
        return True

    def paths(self) -> Sequence[str]:
        """The paths of all files that are there or were listed before."""
        return list(dict.fromkeys([*(entry.path for entry in self._files.there()), *self._log.paths]))

    def _waiting(self, file: int) -> list[FileEntry]:
        return [one.entry for one in self._log.files[file:] if not one.skipped]

    def _budget(self, limits: Limits, entries: Sequence[FileEntry]) -> _Budget:
        """What may be taken. Lines are only counted where the limit is exact: that reads the input once more."""
        counted = self._range_end is not None and entries and compression(entries[0].path) is None
        if not (limits.about and limits.rows is not None and counted):
            return _Budget(limits.rows, limits.files, limits.bytes)
        if self._bytes_per_row is None:
            self._sample(entries[0])
        if self._bytes_per_row is None:
            return _Budget(limits.rows, limits.files, limits.bytes)
        wanted = max(1, round(limits.rows * self._bytes_per_row))
        return _Budget(None, limits.files, wanted if limits.bytes is None else min(wanted, limits.bytes))

    def lag(self, position: Position) -> int | None:
        """An estimate of the rows after `position`, by the average length of a row; None if it is not
        known.
        """
        self._look(position)
        entries = self._waiting(int(position["file"]))
        if not entries:
            return 0
        if self._bytes_per_row is None:
            self._sample(entries[0])
        if self._bytes_per_row is None:
            return None
        waiting = sum(_text_bytes(entry, self._options.format) for entry in entries)
        if self._range_end is not None:
            waiting -= int(position["offset"])
        return max(0, round(waiting / self._bytes_per_row))

    def _look(self, position: Position) -> None:
        # Before listing: a list that was lost would be made anew in another order, and nobody would see it.
        if int(position["segments"]) > self._log.segments or int(position["file"]) > len(self._log.files):
            raise DataError(
                f"the state is at file {position['file']} of '{self._options.path}', but its list of "
                f"files has only {len(self._log.files)}: it is incomplete; restore it from a copy"
            )
        self._files.look(int(position["file"]), int(position["offset"]))

    def _take(self, entry: FileEntry, offset: int, budget: _Budget) -> int | None:
        """Take as much of a file as the budget allows; the offset to go on with, None if nothing is left of
        it.
        """
        limited = budget.rows is not None or (budget.bytes is not None and budget.bytes < entry.size)
        if self._options.format == "parquet":
            return self._take_parquet(entry, offset, budget, limited)
        if self._range_end is not None and compression(entry.path) is None:
            return self._take_text(entry, offset, budget, limited)
        rows = None
        if self._options.format == "orc" and limited:
            rows = _orc_rows(entry)
        estimate = rows if rows is not None else entry.size * _PACKED // _LINE
        budget.take(_Part(FileRange(entry), entry.size, rows), max(1, estimate))
        return None

    def _take_text(self, entry: FileEntry, offset: int, budget: _Budget, limited: bool) -> int | None:
        if offset >= entry.size:
            return None
        end, rows = entry.size, None
        if limited:
            assert self._range_end is not None
            with open_entry(entry) as file:
                end, rows = self._range_end(file, offset, entry.size, budget.rows, budget.bytes)
        last = end >= entry.size
        # Rows that can't be counted use the budget up. Blank lines count as rows, so `rows` is only a bound.
        used = rows if rows is not None else (budget.rows or 0)
        budget.take(_Part(FileRange(entry, offset, None if last else end), end - offset, None), used)
        return None if last else end

    def _take_parquet(self, entry: FileEntry, offset: int, budget: _Budget, limited: bool) -> int | None:
        if not limited and offset == 0:
            shape = self._shapes.get(entry.path)
            budget.take(_Part(FileRange(entry), entry.size, None if shape is None else shape.rows), 0)
            return None
        shape = self._shape(entry)
        rows = shape.rows - offset
        if budget.rows is not None:
            rows = min(rows, budget.rows)
        if budget.bytes is not None and shape.rows:
            rows = min(rows, max(1, shape.rows * budget.bytes // entry.size))
        last = offset + rows >= shape.rows
        if rows > 0:
            file_range = FileRange(entry, offset, None if last else offset + rows)
            budget.take(_Part(file_range, entry.size * rows // shape.rows, rows), rows)
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
        smallest = SMALLEST_RANGE.get(self._options.format)
        if smallest is None or wanted < smallest or part.bytes - wanted < smallest:
            return None
        file_range, entry = part.range, part.range.entry
        if self._options.format == "parquet":
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

    def _shape(self, entry: FileEntry) -> parquet.ParquetShape:
        if entry.path not in self._shapes:
            if len(self._shapes) >= _SHAPES_KEPT:
                self._shapes.clear()
            self._shapes[entry.path] = parquet.shape(entry)
        return self._shapes[entry.path]

    def _sample(self, entry: FileEntry) -> None:
        """Estimate the bytes of a row from the beginning of a file."""
        try:
            if self._options.format == "parquet":
                rows, size = self._shape(entry).rows, entry.size
            elif self._options.format == "orc":
                rows, size = _orc_rows(entry), entry.size
            elif compression(entry.path) is not None:
                return
            else:
                with open_entry(entry) as file:
                    head = file.read(_SAMPLE)
                rows, size = head.count(b"\n"), len(head)
        except DataError:  # said by `plan`, which can't go on without the file
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


def _text_bytes(entry: FileEntry, format_: str) -> int:
    """The bytes of a file once it is decompressed, estimated."""
    packed = format_ not in ("parquet", "orc") and compression(entry.path) is not None
    return entry.size * _PACKED if packed else entry.size


def _orc_rows(entry: FileEntry) -> int:
    with open_entry(entry) as file:
        try:
            return int(orc.ORCFile(file).nrows)
        except (OSError, pa.ArrowException) as error:
            raise broken(entry, error) from error


def _root(location: str) -> str:
    """The folder that all listed paths share, with a slash at its end."""
    fixed = re.split(r"[*?\[{]", location, maxsplit=1)[0]
    return fixed.rpartition("/")[0] + "/" if "/" in fixed else ""
