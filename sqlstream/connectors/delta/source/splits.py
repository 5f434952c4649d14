"""What tasks are told of a table's files: the ranges of a file source, and what the log says of each file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sqlstream.connectors.api import Limits, Split
from sqlstream.connectors.delta.source.ahead import Ahead, NextFile
from sqlstream.connectors.delta.source.changes import Change
from sqlstream.connectors.delta.source.log import DeltaLog, LogFile
from sqlstream.connectors.filesystem.cutting import FileCutter, ToRead
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.lakehouse.splits import Cut, cut_files


def entry_of(log: DeltaLog, file: LogFile) -> FileEntry:
    """A file as the log has it; nobody has looked whether it is there."""
    return FileEntry(f"{log.place}/{file.path}", file.size, 0, log.opening)


def cut_ahead(
    cutter: FileCutter, ahead: Ahead, place: str, limits: Limits, to_read: Callable[[int], ToRead | None]
) -> Cut:
    """How much of the files ahead an epoch reads; `to_read` is asked for each by its number, None: it is passed over.

    `place` is the table's folder.
    """

    def with_log(split: Split, begin: int, end: int) -> Split:
        return _with_log(split, {f"{place}/{one.file.path}": one for one in ahead.files[begin:end]})

    paths = [one.file.path for one in ahead.files]
    return cut_files(cutter, paths, ahead.begin.row, limits, to_read, with_log)


def _with_log(split: Split, read: Mapping[str, NextFile]) -> Split:
    """A split with what the log says of its files: the version, when each was written (ms), partition, and `Change`."""
    files = {}
    for path in {item[0] for item in split.payload["ranges"]}:
        one = read[path]
        files[path] = [one.version, one.file.modified_ms, dict(one.file.partition), one.file.change.value]
    exact = all(files[path][3] not in (Change.COMING, Change.GOING) for path in files)
    return replace(split, payload={**split.payload, "files": files}, rows=split.rows if exact else None)
