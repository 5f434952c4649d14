"""Which files a source has: lists its path, waits for files that are still written, and keeps the log of files in step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from sqlstream.connectors.api import Orders
from sqlstream.connectors.filesystem.file_ranges import compression
from sqlstream.connectors.filesystem.file_version import (
    file_changed,
    file_vanished,
    is_same,
    present,
    stamped,
)
from sqlstream.connectors.filesystem.listing import Listed, ListingLog
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.orders import Order
from sqlstream.connectors.filesystem.paths import (
    FileEntry,
    glob_pattern,
    hidden_names,
    is_local,
    is_object,
    joined_location,
    list_files,
    listed,
    split_location,
)
from sqlstream.connectors.filesystem.whole_files import is_whole
from sqlstream.formats.files import Unit
from sqlstream.storage.checked_json import DamagedFileError
from sqlstream_operators.errors import InputFileError, ListedFileError
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted, did_you_mean

#: How long a new file that is whole by its format must be still: longer than ticks of clocks that stamp files.
_QUIET_US = 50_000

#: So many files are digested at once, fewer one after the other.
_SIDE_BY_SIDE = 8

Tell = Callable[[Diagnostic], None]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it has been `since` a second of the clock. `whole`: it was so by its format at first sight."""

    entry: FileEntry
    since: float
    whole: bool


class SourceFiles:
    """The files of one source: `look` brings its log up to date with what is there.

    A watched source takes a file once it has not changed for `settle_us`; one that was renamed since it was written last
    is complete. Unless the table says how long, a new file that is whole by its format need not be still for so long:
    where it was renamed within one tick of the clock that stamps files, nothing else shows it. `clock` and `wall_clock` give
    seconds, the second one since 1970; `tell` takes warnings.
    """

    def __init__(
        self,
        name: str,
        options: FileOptions,
        location: str,
        log: ListingLog,
        orders: Orders,
        *,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        tell: Tell,
    ) -> None:
        self._name = name
        self._options = options
        self._location = location
        self._pattern = re.compile(options.path_pattern) if options.path_pattern else None
        self._log = log
        self._orders = orders
        self._clock = clock
        self._wall_clock = wall_clock
        self._tell = tell
        self._reported: set[tuple[str, int]] = set()
        self._looked_at: float | None = None
        self._blocked: int | None = None
        self._unsettled: dict[str, _Seen] = {}
        self._again_at: float | None = None
        # Times at which a file was found to be what it was, though they are not those in the log.
        self._touched: dict[str, tuple[int, int]] = {}

    @property
    def waits(self) -> bool:
        """Whether there are files that are not complete yet."""
        return bool(self._unsettled)

    @property
    def end(self) -> int:
        """The number of the first file that can't be read yet: one that is being written again, or behind the last."""
        return len(self._log.files) if self._blocked is None else self._blocked

    @property
    def _watched(self) -> bool:
        return self._options.monitor_interval_us is not None

    def there(self) -> list[FileEntry]:
        """The files that are there now, rows that were mended behind them: none where the path of a watched source does not
        exist yet.

        Raises DiagnosticError (DAT004) if the path does not exist.
        """
        try:
            found = list_files(self._location)
        except DiagnosticError as error:
            if not self._log.files:
                if self._watched and error.exit_code == 1:
                    return []  # what makes it may have been started together with this run
                raise
            way = f"if the files are at another location now, set it in the file, and run with --source-moved {self._name}"
            diagnostics = [replace(d, help=f"{d.help} {way}" if d.help else way) for d in error.diagnostics]
            raise DiagnosticError(*diagnostics, exit_code=error.exit_code) from error
        if self._pattern is not None:
            found = [entry for entry in found if self._pattern.fullmatch(entry.path)]
        return [*found, *self._mended()]

    def _mended(self) -> list[FileEntry]:
        """The rows that were mended, a file each. Raises DamagedFileError if one is gone."""
        found = []
        for row in self._log.mended_rows():
            entry = FileEntry(self._log.mended_path(row.file), row.size, 0)
            if is_local(entry.path):
                now = present(entry)
                if now is None:
                    raise DamagedFileError(entry.path, "is gone: it has a row that was mended and replayed")
                entry = now
            found.append(entry)
        return found

    def look_again(self) -> None:
        """List the files the next time, whether it is time to or not."""
        self._looked_at = None

    def look(self, file: int, offset: int) -> None:
        """List the files if it is time to, behind position `offset` of the file of number `file`.

        Raises ListedFileError if one that was read, or read in part, is another now, or one that was not read is gone;
        DiagnosticError (DAT004) if a source that is not watched has never had a file.
        """
        if not self._due():
            return
        found = self.there()
        self._looked_at, self._again_at = self._clock(), None
        if self._watched:
            found.sort(key=lambda entry: entry.modified_us)  # stable: by path where the times are equal
        self._report_if_no_files(found)
        there = {entry.path: entry for entry in found}
        unread = [one.entry.path for one in self._log.files[file:] if not one.skipped]
        orders = self._orders.take(self._log.folder, dict.fromkeys([*there, *unread]))
        fresh: list[Listed] = []
        updates: dict[int, Listed] = {}
        started = file + (offset > 0)  # from this number on, nothing was read
        blocked = len(self._log.files)
        for entry in found:
            number = self._log.number(entry.path)
            known = None if number is None else self._log.files[number]
            order = orders.get(entry.path)
            if number is None or known is None:
                if order == "skip":
                    fresh.append(Listed(entry, skipped=True))
                elif self._is_ready(entry, new=True):
                    fresh.append(Listed(entry))
            elif order is not None:
                read = known.read_before(number, file, offset)
                self._obey(order, entry, number, replace(known, read=read), started, file, fresh, updates)
            elif self._log.is_mended(entry.path) and known.skipped and known.read is None:
                fresh.append(Listed(entry))  # it is not the one that a savepoint had not
            elif not self._is_known(known.entry, entry):
                untouched = number >= started and not known.skipped
                if not untouched and (known.skipped or known.entry.size):
                    raise _of_the_state(self._changed(known.entry, entry))
                if not self._is_ready(entry):
                    if untouched:
                        blocked = min(blocked, number)
                elif untouched:
                    updates[number] = Listed(stamped(entry))
                else:
                    fresh.append(Listed(entry))
        for number in range(file, len(self._log.files)):
            known = self._log.files[number]
            if known.skipped or known.entry.path in there or self._log.number(known.entry.path) != number:
                continue
            # A savepoint that was taken before a mended row was read has it in its list, and has not the row.
            mended = self._log.is_mended(known.entry.path)
            if orders.get(known.entry.path) != "skip" and not mended:
                raise _of_the_state(file_vanished(known.entry))
            updates[number] = replace(known, skipped=True, read=known.read_before(number, file, offset))
        self._unsettled = {path: seen for path, seen in self._unsettled.items() if path in there}
        self._blocked = blocked if blocked < len(self._log.files) else None
        self._log.append(_all_stamped(fresh), updates)
        self._report_if_all_empty(found)

    def _changed(self, known: FileEntry, entry: FileEntry) -> InputFileError:
        """The error for a file that is another now; of one that has grown, how to leave such files alone."""
        error = file_changed(known, entry)
        if not self._watched or self._options.settle_given or entry.size <= known.size:
            return error
        return InputFileError(
            error.message,
            f"{error.help}. Was it still being written? 'source.settle-time' = '5 s' waits for such files",
        )

    def _due(self) -> bool:
        if self._looked_at is None:
            return True
        interval = self._options.monitor_interval_us
        if interval is None:
            return self.waits
        if self._again_at is not None and self._clock() >= self._again_at:
            return True
        return (self._clock() - self._looked_at) * 1e6 >= interval

    def _obey(
        self,
        order: Order,
        entry: FileEntry,
        number: int,
        known: Listed,
        started: int,
        file: int,
        fresh: list[Listed],
        updates: dict[int, Listed],
    ) -> None:
        """Carry out the orders about a file of the log; `known.read` is what was read of it."""
        if order == "skip":
            updates[number] = Listed(stamped(entry), number >= file or known.skipped, known.read)
        elif number >= started and not known.skipped:
            updates[number] = Listed(stamped(entry))  # it will be read anyway
        else:
            if number >= file:
                updates[number] = replace(known, skipped=True)
            fresh.append(Listed(entry))

    def _is_known(self, known: FileEntry, entry: FileEntry) -> bool:
        """Whether a file is the version that is in the log; remembered, so that a touched one is digested once."""
        times = entry.modified_us, entry.changed_us
        if known.size == entry.size and self._touched.get(entry.path) == times:
            return True
        if not is_same(known, entry):
            return False
        if times != (known.modified_us, known.changed_us):
            self._touched[entry.path] = times
        return True

    def _is_ready(self, entry: FileEntry, *, new: bool = False) -> bool:
        """Whether a file, a `new` one perhaps, can be taken: it has something in it, and nobody writes it any more."""
        settle_us = self._options.settle_us
        text = self._options.files.unit is Unit.TEXT and compression(entry.path) is None
        if not entry.size and text:
            return False
        if not settle_us or is_object(entry.path):  # an object appears when it is complete
            return True
        seen = self._unsettled.get(entry.path)
        if seen is None:
            whole = new and not self._options.settle_given and is_whole(entry, self._options.files)
            seen = _Seen(entry, self._clock(), whole)
        elif not _same_times(seen.entry, entry):
            seen = _Seen(entry, self._clock(), whole=False)  # somebody writes it bit by bit
        self._unsettled[entry.path] = seen
        if not self._has_ending(entry):
            return False
        if self._is_settled(seen):
            del self._unsettled[entry.path]
            return True
        if seen.whole:
            self._again_at = self._clock() + _QUIET_US / 1e6
        return False

    def _is_settled(self, seen: _Seen) -> bool:
        """Whether nobody writes a file any more: its name came after its content, or it is still for long enough."""
        entry = seen.entry
        still_us = _QUIET_US if seen.whole else self._options.settle_us
        return (
            entry.changed_us > entry.modified_us
            or max(entry.modified_us, entry.changed_us) + still_us <= self._wall_clock() * 1e6
            or (self._clock() - seen.since) * 1e6 >= still_us  # where that clock is another one
        )

    def _has_ending(self, entry: FileEntry) -> bool:
        """Whether a file ends as one of its format does; if it does not though nobody writes it, that is reported once."""
        text = self._options.files.unit is Unit.TEXT
        if not is_local(entry.path) or (text and entry.size):
            return True
        if not text and entry.size >= 4 and self._options.files.is_whole(Path(entry.path)):
            return True
        still = (self._clock() - self._unsettled[entry.path].since) * 1e6 >= self._options.settle_us
        if still and (entry.path, entry.size) not in self._reported:
            self._reported.add((entry.path, entry.size))
            self._tell(
                Diagnostic(
                    "DAT007",
                    f"source `{self._name}`: {entry.path} is not complete",
                    notes=(
                        f"it has {entry.size} bytes and does not end as "
                        f"{'a compressed' if text else f'a {self._options.format}'} file does",
                        "it is read when it is complete; all other files are read meanwhile",
                    ),
                    help=f"complete it, remove it, or run with --skip-file '{entry.path}'",
                    severity="warning",
                )
            )
        return False

    def _report_if_no_files(self, found: Iterable[FileEntry]) -> None:
        """Raise, or warn if the source is watched, that no file was ever there."""
        if any(True for _ in found) or self._log.files or ("", 0) in self._reported:
            return
        try:
            diagnostic = nothing_found(self._name, self._location, self._options.path_pattern)
        except DiagnosticError as missing:
            first = missing.diagnostics[0]
            diagnostic = replace(first, message=f"source `{self._name}`: {first.message}")
        if not self._watched:
            raise DiagnosticError(diagnostic)
        self._reported.add(("", 0))
        self._tell(
            replace(
                diagnostic,
                message=f"{diagnostic.message}; waiting for files",
                severity="warning",
            )
        )

    def _report_if_all_empty(self, found: Sequence[FileEntry]) -> None:
        """Warn once that all files that were ever there are empty: a run that ends at once should say why."""
        empty = [entry.path for entry in found if not entry.size]
        if not empty or len(empty) < len(found) or self._log.files or ("", 1) in self._reported:
            return
        self._reported.add(("", 1))
        many = len(empty) > 1
        self._tell(
            Diagnostic(
                "DAT004",
                f"source `{self._name}` has no rows: "
                + (f"its {len(empty)} files are empty: {listed(empty)}" if many else f"{empty[0]} is empty"),
                notes=(f"{'a file is' if many else 'it is'} read when something is in it",),
                severity="warning",
            )
        )


def nothing_found(name: str, location: str, pattern: str | None) -> Diagnostic:
    """The diagnostic for a source that has no file: what it looked for, and what is there instead."""
    shown, opening = split_location(location)
    there = [entry.path for entry in list_files(location)]
    notes: list[str] = []
    help_ = None
    if there and pattern is not None:
        what = f"none of {counted(len(there), 'file')} matches 'source.path.regex-pattern' = '{pattern}'"
        notes.append(f"the pattern must match the whole absolute path; there are {listed(there)}")
        if any(re.search(pattern, path) for path in there):
            help_ = f"write '.*{pattern}.*' if it is a part of the path"
    else:
        found = re.search(r"[*?\[{]", shown)
        folder = shown if found is None else shown[: found.start()].rpartition("/")[0] or "/"
        what = f"'{shown}' is an empty folder" if found is None else f"no file matches '{shown}'"
        visible = (
            [] if found is None else [entry.path for entry in list_files(joined_location(folder, opening))]
        )
        hidden = hidden_names(location)
        if found is not None:
            glob = glob_pattern(shown)
            hidden = [one for one in hidden if glob.fullmatch(f"{folder.rstrip('/')}/{one}")]
        if hidden:
            notes.append(
                f"{counted(len(hidden), 'file')} in '{folder}' not read, because names that start with . or _ are hidden: "
                f"{listed(hidden)}"
            )
            if found is None:
                what = f"'{shown}' has no visible file"
        if found is not None:
            notes.append(
                f"in '{folder}' there is {listed([path[len(folder.rstrip('/')) + 1 :] for path in visible])}"
            )
            near = did_you_mean(Path(shown).name, [Path(path).name for path in visible])
            like = [path for path in visible if Path(path).name == near]
            help_ = f"did you mean '{like[0]}'?" if like else None
    return Diagnostic("DAT004", f"source `{name}` has no files: {what}", notes=tuple(notes), help=help_)


def _of_the_state(error: InputFileError) -> ListedFileError:
    return ListedFileError(error.message, error.help)


def _all_stamped(fresh: Sequence[Listed]) -> list[Listed]:
    """The same files with digests of their content, made side by side: reading and digesting wait for nobody's turn."""
    if len(fresh) < _SIDE_BY_SIDE:
        return [replace(one, entry=stamped(one.entry)) for one in fresh]
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        entries = pool.map(stamped, [one.entry for one in fresh])
        return [replace(one, entry=entry) for one, entry in zip(fresh, entries, strict=True)]


def _same_times(one: FileEntry, other: FileEntry) -> bool:
    return (one.size, one.modified_us, one.changed_us) == (other.size, other.modified_us, other.changed_us)
