"""What tasks are told of a table's files: the ranges of a file source, and what the log says of each file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlstream.connectors.api import Limits, Split
from sqlstream.connectors.delta.source.ahead import Ahead, NextFile
from sqlstream.connectors.delta.source.changes import Change
from sqlstream.connectors.delta.source.log import DeltaLog, LogFile
from sqlstream.connectors.filesystem.cutting import FileCut, FileCutter, ToRead
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.lakehouse.splits import Cut


def entry_of(log: DeltaLog, file: LogFile) -> FileEntry:
    """A file as the log has it; nobody has looked whether it is there."""
    return FileEntry(f"{log.place}/{file.path}", file.size, 0, log.opening)


def cut_ahead(
    cutter: FileCutter, ahead: Ahead, place: str, limits: Limits, to_read: Callable[[int], ToRead | None]
) -> Cut:
    """How much of the files ahead an epoch reads; `to_read` is asked for each by its number, None: it is passed over.

    `place` is the table's folder.

    Splits know by a file's name what is read of it. One that is read twice (what goes in it, then what comes) is not twice
    in one split.
    """
    splits: list[Split] = []
    begin, row, taken = 0, ahead.begin.row, 0
    while True:
        end = _until_a_path_repeats(ahead.files, begin)
        cut = cutter.cut(to_read, begin, row, limits, end)
        named = {f"{place}/{one.file.path}": one for one in ahead.files[begin:end]}
        splits += [_with_log(split, named) for split in cut.splits]
        taken += cut.taken
        left = _left(limits, cut)
        if cut.file < end or end == len(ahead.files) or left is None:
            return Cut(tuple(splits), cut.file, cut.offset, taken)
        begin, row, limits = end, 0, left


def _until_a_path_repeats(files: Sequence[NextFile], begin: int) -> int:
    seen: set[str] = set()
    for number in range(begin, len(files)):
        if files[number].file.path in seen:
            return number
        seen.add(files[number].file.path)
    return len(files)


def _left(limits: Limits, cut: FileCut) -> Limits | None:
    """What may still be taken after a cut; None: nothing."""
    rows, files, size = limits.rows, limits.files, limits.bytes
    if rows is not None:
        read = [split.rows for split in cut.splits]
        rows = 0 if None in read else rows - sum(filter(None, read))
    files = None if files is None else files - cut.taken
    size = None if size is None else size - sum(split.bytes or 0 for split in cut.splits)
    if any(one is not None and one <= 0 for one in (rows, files, size)):
        return None
    return replace(limits, rows=rows, files=files, bytes=size)


def _with_log(split: Split, read: Mapping[str, NextFile]) -> Split:
    """A split with what the log says of its files: the version, when each was written (ms), partition, and `Change`."""
    files = {}
    for path in {item[0] for item in split.payload["ranges"]}:
        one = read[path]
        files[path] = [one.version, one.file.modified_ms, dict(one.file.partition), one.file.change.value]
    exact = all(files[path][3] not in (Change.COMING, Change.GOING) for path in files)
    return replace(split, payload={**split.payload, "files": files}, rows=split.rows if exact else None)
