"""What tasks are told of a table's files: the ranges of a file source, and what the log says of each file and column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlstream.connectors.api import Limits
from sqlstream.connectors.filesystem.cutting import FileCutter, ToRead
from sqlstream.connectors.iceberg.source.ahead import Ahead
from sqlstream.connectors.iceberg.source.fields import Field
from sqlstream.connectors.lakehouse.splits import Cut


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
) -> Cut:
    """How much of the files ahead an epoch reads; `to_read` is asked for each by its number, None: nothing of it."""
    cut = cutter.cut(to_read, 0, ahead.begin.row, limits, len(ahead.files))
    named = {one.file.path: one.file for one in ahead.files}
    splits = []
    for split in cut.splits:
        files: dict[str, Any] = {
            path: [named[path].snapshot, dict(named[path].constants)]
            for path in {item[0] for item in split.payload["ranges"]}
        }
        payload = {
            **split.payload,
            "files": files,
            "fields": dict(columns.fields),
            "mapping": columns.mapping,
        }
        splits.append(replace(split, payload=payload))
    return Cut(tuple(splits), cut.file, cut.offset, cut.taken)
