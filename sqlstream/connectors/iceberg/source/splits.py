"""What tasks are told of a table's files: the ranges of a file source, and what the log says of each file and column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlstream.connectors.api import Limits, Split
from sqlstream.connectors.filesystem.cutting import FileCutter, ToRead
from sqlstream.connectors.filesystem.file_ranges import FileRange
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.iceberg.source.ahead import Ahead
from sqlstream.connectors.iceberg.source.deletes import DeleteFile
from sqlstream.connectors.iceberg.source.fields import Field
from sqlstream.connectors.iceberg.source.log import LogFile
from sqlstream.connectors.lakehouse.splits import Cut, cut_files


@dataclass(frozen=True, slots=True)
class Columns:
    """The table's field of each declared column, and what files without ids call them (JSON, "" if that is not said)."""

    fields: Mapping[str, Field]
    mapping: str = ""


def cut_ahead(
    cutter: FileCutter,
    ahead: Ahead,
    columns: Columns,
    limits: Limits,
    to_read: Callable[[int], ToRead | None],
    entry_of: Callable[[DeleteFile], FileEntry],
) -> Cut:
    """How much of the files ahead an epoch reads; `to_read` is asked for each by its number, None: nothing of it.

    `entry_of` says what a file of deletes is now.
    """

    def with_log(split: Split, begin: int, end: int) -> Split:
        return _with_log(
            split, {one.file.path: one.file for one in ahead.files[begin:end]}, columns, entry_of
        )

    paths = [one.file.path for one in ahead.files]
    return cut_files(cutter, paths, ahead.begin.row, limits, to_read, with_log)


def _with_log(
    split: Split,
    named: Mapping[str, LogFile],
    columns: Columns,
    entry_of: Callable[[DeleteFile], FileEntry],
) -> Split:
    """A split with the snapshot and the constants of each file, and where it has that, what of it is there.

    Files of deletes are named by their numbers in a list, as many data files may have the same.
    """
    deletes: dict[DeleteFile, int] = {}

    def numbers(files: Sequence[DeleteFile]) -> list[int]:
        return [deletes.setdefault(one, len(deletes)) for one in files]

    files: dict[str, Any] = {}
    for path in {item[0] for item in split.payload["ranges"]}:
        one = named[path]
        files[path] = [one.snapshot, dict(one.constants)]
        if one.goes or one.deletes:
            only = None if one.only is None else numbers(one.only)
            files[path].append([one.goes, one.location, only, numbers(one.without)])
    payload = {**split.payload, "files": files, "fields": dict(columns.fields), "mapping": columns.mapping}
    if deletes:
        payload["deletes"] = [_to_json(one, entry_of(one)) for one in deletes]
    return replace(split, payload=payload, rows=None if deletes else split.rows)


def _to_json(file: DeleteFile, entry: FileEntry) -> dict[str, Any]:
    """A file of deletes as plain JSON data."""
    return {
        "kind": file.kind.value,
        "file": FileRange(entry).to_json(),
        "at": [file.offset, file.length],
        "columns": [list(one) for one in file.columns],
    }
