"""How much of a table's files an epoch reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sqlstream.connectors.api import Limits, Split
from sqlstream.connectors.filesystem.cutting import FileCut, FileCutter, ToRead


@dataclass(frozen=True, slots=True)
class Cut:
    """What an epoch reads: splits, and the number of the file and the row in it to go on with; `taken` parts were taken."""

    splits: tuple[Split, ...]
    file: int
    row: int
    taken: int


def cut_files(
    cutter: FileCutter,
    paths: Sequence[str],
    row: int,
    limits: Limits,
    to_read: Callable[[int], ToRead | None],
    with_log: Callable[[Split, int, int], Split],
) -> Cut:
    """How much of the files ahead an epoch reads, from a row of the first on.

    `to_read` is asked for each by its number, None: it is passed over. `with_log` adds to a split what the log says of its
    files, which have these numbers.

    Splits know by a file's name what is read of it. One that is read twice (what goes in it, then what comes) is not twice
    in one split.
    """
    splits: list[Split] = []
    begin, taken = 0, 0
    while True:
        end = _until_a_path_repeats(paths, begin)
        cut = cutter.cut(to_read, begin, row, limits, end)
        splits += [with_log(split, begin, end) for split in cut.splits]
        taken += cut.taken
        left = _left(limits, cut)
        if cut.file < end or end == len(paths) or left is None:
            return Cut(tuple(splits), cut.file, cut.offset, taken)
        begin, row, limits = end, 0, left


def _until_a_path_repeats(paths: Sequence[str], begin: int) -> int:
    seen: set[str] = set()
    for number in range(begin, len(paths)):
        if paths[number] in seen:
            return number
        seen.add(paths[number])
    return len(paths)


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
