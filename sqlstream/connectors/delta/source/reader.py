"""The task's half of a source: Parquet files, and beside their columns what the table's log says of each file.

Of changes that is also what becomes of its rows. A file of changes says it row by row, and is read twice: first what goes,
then what comes, so that a row never is there in two forms, wherever reading is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlstream.connectors.api import Split
from sqlstream.connectors.delta.source.changes import Change
from sqlstream.connectors.delta.source.options import DeltaOptions
from sqlstream.connectors.filesystem.columns import ReadColumns, metadata_literal, picked
from sqlstream.connectors.filesystem.paths import FileEntry
from sqlstream.connectors.filesystem.reader import FileReader
from sqlstream.connectors.lakehouse.reader import TableReader
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.schema import KIND_COLUMN, RowKind
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import quote_literal

_CHANGE_TYPE = "_change_type"
#: What files of changes call them.
_KINDS = {
    "insert": (RowKind.INSERT, Change.COMING),
    "update_postimage": (RowKind.UPDATE_AFTER, Change.COMING),
    "update_preimage": (RowKind.UPDATE_BEFORE, Change.GOING),
    "delete": (RowKind.DELETE, Change.GOING),
}
#: The metadata column with the version that a row came with.
COMMIT_VERSION = "_commit_version"


class DeltaReader(TableReader):
    """Reads splits of one source as files of Parquet; which columns are in them a split says."""

    def __init__(self, spec: SourceSpec, base_dir: str) -> None:
        options = {"path": spec.options["table-path"], "format": "parquet"}
        self._changes = DeltaOptions.read(spec.options).reads_changes
        # What a filter drops of changes may be what takes another row away.
        self._spec = replace(spec, options=options, filter=None if self._changes else spec.filter)
        self._base_dir = base_dir

    def _files(self, split: Split) -> FileReader:
        files: Mapping[str, Sequence[Any]] = split.payload["files"]
        partitions = {key for _, _, values, _ in files.values() for key in values}
        spec = replace(self._spec, partitioned_by=tuple(sorted(partitions)))
        constants = constants_of(spec, files, kinds=self._changes)
        return FileReader(spec, self._base_dir, constants, kinds=self._changes)


def constants_of(
    spec: SourceSpec, files: Mapping[str, Sequence[Any]], *, kinds: bool
) -> Callable[[Sequence[FileEntry]], list[str]]:
    """SELECT items of partition and metadata columns, and with `kinds` of KIND_COLUMN.

    `files` have version, ms, partition and `Change` by their paths.
    """
    wanted = ReadColumns.of(spec)

    def partition(column: str, entry: FileEntry) -> str:
        values: Mapping[str, str | None] = files[entry.path][2]
        name = next((key for key in values if key.lower() == column.lower()), None)
        if name is None:
            raise InternalError(f"{entry.path} has no value of the partition column {column}")
        value = values[name]
        return "NULL::VARCHAR" if value is None else quote_literal(value)

    def metadata(key: str, entry: FileEntry) -> str:
        version, modified_ms, _, _ = files[entry.path]
        if key == COMMIT_VERSION:
            return f"{version}::BIGINT"
        return metadata_literal(key, replace(entry, modified_us=modified_ms * 1000))

    def constants(entries: Sequence[FileEntry]) -> list[str]:
        items = wanted.constants(entries, partition, metadata)
        if kinds:
            kind = picked([_kind(Change(files[entry.path][3])) for entry in entries])
            items.append(f"{kind} AS {KIND_COLUMN}")
        return items

    return constants


def _kind(change: Change) -> str:
    """SQL of the kind of a row's change in a file of which this is read; NULL where the row is not."""
    if change not in (Change.COMING, Change.GOING):
        return quote_literal(RowKind.DELETE if change is Change.GO else RowKind.INSERT)
    cases = " ".join(
        f"WHEN {quote_literal(word)} THEN {quote_literal(kind) if way is change else 'NULL'}"
        for word, (kind, way) in _KINDS.items()
    )
    unknown = f"error('_change_type ' || coalesce({_CHANGE_TYPE}, 'NULL') || ' is not known')"
    return f"CASE {_CHANGE_TYPE} {cases} ELSE {unknown} END"
