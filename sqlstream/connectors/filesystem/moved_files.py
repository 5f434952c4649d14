"""Files that a source has listed in one place, found again in another by their names and their content."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from sqlstream.connectors.filesystem.file_version import stamped
from sqlstream.connectors.filesystem.listing import Listed, ListingLog
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, counted

_MOST_NAMED = 10


class MovedFiles:
    """Which file of the second of two `places` (resolved paths) is which in the log of the first.

    Names are compared relative to the folder of a place; a single file has none. Files of a number below `file` were read
    to their end and may be gone, but not all of them; all others must be there with the same size and, where it is known,
    digest. Raises DiagnosticError (STA018) if one is not, or if one that was read is there under another name: it would be
    read again.
    """

    def __init__(
        self, table: str, places: tuple[str, str], log: ListingLog, there: Sequence[FileEntry], file: int
    ) -> None:
        self._names = _Names(places[0], log.paths)
        self._place = _Names(places[1], [entry.path for entry in there])
        self._found: dict[str, FileEntry] = {}
        by_name = {self._place.name(entry.path): entry for entry in there}
        if len(log.paths) == len(there) == 1 and self._names.alone != self._place.alone:
            by_name = {self._names.name(log.paths[0]): there[0]}
        wrong: list[str] = []
        missing: list[Listed] = []
        for number, listed in enumerate(log.files):
            path = listed.entry.path
            if log.number(path) != number or log.is_mended(path):
                continue  # an earlier version, or a row that goes with the list
            now = by_name.pop(self._names.name(path), None)
            if now is None:
                if number >= file and not listed.skipped:
                    wrong.append(f"{path} is not there")
                missing.append(listed)
                continue
            now = stamped(now)
            what = "" if listed.skipped else _difference(listed.entry, now)
            if what:
                wrong.append(f"{path} {what} as {now.path}")
            self._found[path] = now
        if log.paths and not self._found and not wrong:
            wrong.append(f"none of the {counted(len(set(log.paths)), 'file')} that were listed is there")
        wrong += _renamed(missing, [stamped(entry) for entry in by_name.values()])
        if wrong:
            more = len(wrong) - _MOST_NAMED
            raise DiagnosticError(
                Diagnostic(
                    "STA018",
                    f"the table `{table}` has other data in '{places[1]}' than it had in '{places[0]}'",
                    notes=(
                        *wrong[:_MOST_NAMED],
                        *((f"and {counted(more, 'file')} more",) if more > 0 else ()),
                    ),
                    help="copy the files as they are and under the same names, or go on with the former location",
                ),
                exit_code=4,
            )

    def now(self, path: str) -> FileEntry | str:
        """The file that a path of the log stands for, or the path that it would have here."""
        return self._found.get(path) or self._place.path(self._names.name(path))


class _Names:
    """What files of a place are called in it: their paths below its folder, "" for a place that is a single file."""

    def __init__(self, place: str, paths: Iterable[str]) -> None:
        self._place = place
        fixed = re.split(r"[*?\[{]", place, maxsplit=1)[0]
        self._folder = fixed.rpartition("/")[0] + "/" if fixed != place else place.rstrip("/") + "/"
        self.alone = place in set(paths)

    def name(self, path: str) -> str:
        if path == self._place:
            return ""
        return path[len(self._folder) :] if path.startswith(self._folder) else path

    def path(self, name: str) -> str:
        if not name or name.startswith("/") or "://" in name:
            return name or self._place
        return self._folder + name


def _difference(known: FileEntry, now: FileEntry) -> str:
    if known.size != now.size:
        return f"had {known.size} bytes and has {now.size}"
    if known.digest and now.digest and known.digest != now.digest:
        return "has other content"
    return ""


def _renamed(missing: Iterable[Listed], new: Sequence[FileEntry]) -> Iterable[str]:
    """Files that were read, are gone by their names, and are there by their content."""
    for listed in missing:
        for entry in new:
            known = listed.entry
            if known.size and not _difference(known, entry):
                yield f"{known.path} is there under another name, as {entry.path}"
