"""The driver's half of a filesystem source: which files there are, and which part of them an epoch reads."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from sqlstream.connectors.api import ConnectorContext, Limits, Position, SourcePlan, Split
from sqlstream.connectors.capabilities import Mended
from sqlstream.connectors.filesystem.cutting import FileCutter, ToRead
from sqlstream.connectors.filesystem.file_ranges import FileRange
from sqlstream.connectors.filesystem.file_version import check_unchanged
from sqlstream.connectors.filesystem.history import FileHistory
from sqlstream.connectors.filesystem.listing import ListingLog
from sqlstream.connectors.filesystem.mending import mended
from sqlstream.connectors.filesystem.moved_files import MovedFiles
from sqlstream.connectors.filesystem.options import FileOptions
from sqlstream.connectors.filesystem.orders import FileOrders
from sqlstream.connectors.filesystem.paths import FileEntry, resolve, split_location, without_credentials
from sqlstream.connectors.filesystem.same_files import same_files
from sqlstream.connectors.filesystem.source_files import SourceFiles
from sqlstream.storage.checked_json import DamagedFileError
from sqlstream.storage.mended_rows import MendedRow, digest_of_read
from sqlstream_operators.errors import InputFileError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.catalog.options import OptionValue
from sqlstream_planner.diagnostics import DiagnosticError


class FileSource:
    """Files under a path, read once each in the order of the listing log.

    A position is {"segments", "file", "offset"}: how much of the listing log there must be, the number of a
    file in it, and the byte (json, csv) or row (parquet) to go on with. A new run lists the path again; with
    `source.monitor-interval` it is also listed while it runs, `clock` (seconds) telling when. "mended" stands for the mended
    rows before it, if there are any.
    """

    def __init__(
        self,
        spec: SourceSpec,
        context: ConnectorContext,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._spec = spec
        self._context = context
        self._options = FileOptions.read(spec.options)
        self._location = location = resolve(self._options.path, context.base_dir)
        place, opening = split_location(location)
        folder = context.folder or f"sources/{quote(spec.name, safe='')}"
        self._root = _root(place)
        self._log = ListingLog(context.store, folder, self._root, opening)
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
        self._opening = opening
        self._cutter = FileCutter(spec.name, self._options)

    @property
    def bounded(self) -> bool:
        """Whether reading ends when all files that were there at the start are read."""
        return self._context.ends or self._options.monitor_interval_us is None

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
        cut = self._cutter.cut(
            lambda number: None if files[number].skipped else ToRead(files[number].entry),
            int(position["file"]),
            int(position["offset"]),
            limits,
            self._files.end,
        )
        following: dict[str, Any] = {"segments": self._log.segments, "file": cut.file, "offset": cut.offset}
        # Two tables of the same files that have read other rows than each other are not equally far.
        read = self._log.mended_before(cut.file, cut.offset)
        if read:
            following["mended"] = digest_of_read(read)
        ended = self.bounded and cut.file >= len(files) and not self._files.waits
        return SourcePlan(cut.splits, following, ended, cut.taken)

    def until(self, position: Position) -> FileHistory:
        """What was read up to `position`: every file as it was then, and of the last one no more than its part.

        Raises DiagnosticError (DAT008) if a file is not as it was read.
        """
        log = self._log_at(position)
        try:
            there = self._files.there()
        except DiagnosticError:  # the folder is gone: so is what was read, and that is reported
            there = []
        return FileHistory(self._spec, self._options, log.files, position, there)

    def read_up_to(self, position: Position) -> list[tuple[str, int, str | int, int | None]] | None:
        """Of each file that was read, in that order: its path, its size and digest then (without one: its time), and where
        reading ended in it (None: at its end).
        """
        log = self._log_at(position)
        file, offset = int(position["file"]), int(position["offset"])
        found = []
        for number, listed in enumerate(log.files[: file + (offset > 0)]):
            read = listed.read_before(number, file, offset)
            if read is None:
                continue
            was = read.entry
            if was is None:
                return None
            found.append((log.shown(was.path), was.size, was.digest or was.modified_us, read.end))
        return [one for one in found if one[1]]

    def take_over(self, former: SourceSpec, kept: CheckpointStore, folder: str, position: Position) -> None:
        """Go on in this place where `former` stood in another: its files must be here, as they were.

        A file that was read to its end may be gone. Where both places have the same files, all goes on as it was. Raises
        DiagnosticError (STA018) that lists the files which are not the same.
        """
        there = resolve(FileOptions.read(former.options).path, self._context.base_dir)
        places = split_location(there)[0], split_location(self._location)[0]
        log = ListingLog(kept, folder, _root(places[0]))
        self._check_log(position, log)
        # One bucket's name at two addresses may be two buckets.
        was, now = (without_credentials(one)[0] for one in (there, self._location))
        if same_files(was, now, log.paths):
            log.copy_to(self._context.store, self._log.folder, self._root, lambda path: path)
            return
        moved = MovedFiles(self._spec.name, places, log, self._files.there(), int(position["file"]))
        log.copy_to(self._context.store, self._log.folder, self._root, moved.now)

    def can_replay(self, splits: Sequence[Split]) -> bool:
        """Whether splits that were planned earlier can be read as they are: their files are what they were, and the run
        has no other orders about them. If not, the files are listed anew before the next plan.
        """
        for split in splits:
            for item in split.payload["ranges"]:
                entry = FileRange.from_json(item, self._opening).entry
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

    @property
    def takes_back(self) -> bool:
        """See `LeavingOut`."""
        return True

    def passed_over(self) -> Sequence[str]:
        """The files that `--skip-file` left out, of this run or of one before, wholly or in part."""
        return self._log.passed_over

    def files_there(self) -> Sequence[FileEntry]:
        """The files that are there now. Raises DiagnosticError (DAT004) if the path does not exist."""
        return self._files.there()

    def mend(self, letter: Mapping[str, Any], text: bytes) -> Mended:
        """See `Mending`."""
        return mended(self._spec, self._options, self._log, letter, text)

    def has_read(self, row: MendedRow, position: Position) -> bool:
        """See `Mending`."""
        number = self._log.number(self._log.mended_path(row.file))
        return number is not None and number < int(position["file"]) + (int(position["offset"]) > 0)

    def lag(self, position: Position) -> int | None:
        """An estimate of the rows after `position`, by the average length of a row; None if it is not
        known.
        """
        self._look(position)
        unread = self._log.files[int(position["file"]) :]
        return self._cutter.waiting(
            [ToRead(one.entry) for one in unread if not one.skipped], int(position["offset"])
        )

    def _look(self, position: Position) -> None:
        # Before listing: a list that was lost would be made anew in another order, and nobody would see it.
        self._check_log(position, self._log)
        self._files.look(int(position["file"]), int(position["offset"]))

    def _log_at(self, position: Position) -> ListingLog:
        """The log as it was at a position, whatever became of the files since."""
        self._check_log(position, self._log)
        return ListingLog(
            self._context.store, self._log.folder, self._root, self._opening, int(position["segments"])
        )

    def _check_log(self, position: Position, log: ListingLog) -> None:
        if int(position["segments"]) > log.segments or int(position["file"]) > len(log.files):
            raise DamagedFileError(
                log.folder,
                f"is incomplete: the state is at file {position['file']} of '{self._options.path}', and the list there has "
                f"only {len(log.files)}",
            )


def continues(
    was: Mapping[str, OptionValue],
    now: Mapping[str, OptionValue],
    position: Position,
    context: ConnectorContext,
) -> bool:
    """Whether nothing but the path is written in another way, and means the same files; see `Continuing`."""
    if {**was, "path": ""} != {**now, "path": ""}:
        return False
    places = [
        without_credentials(resolve(str(one.get("path", "")), context.base_dir))[0] for one in (was, now)
    ]
    log = ListingLog(context.store, context.folder, _root(split_location(places[0])[0]))
    return same_files(places[0], places[1], log.paths)


def _root(location: str) -> str:
    """The folder that all listed paths share, with a slash at its end."""
    fixed = re.split(r"[*?\[{]", location, maxsplit=1)[0]
    return fixed.rpartition("/")[0] + "/" if "/" in fixed else ""
