"""How the filesystem sink writes changes: a JSON message for each, with its kind.

Rows come with KIND_COLUMN behind the columns of the table (`sqlstream_operators.duck.row_kinds.to_kinds`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyarrow import fs

from sqlstream.connectors.filesystem.writers import Write, copy_rows, write_lines
from sqlstream.formats.changelog_json.writing import message_items, message_text
from sqlstream.formats.options import flag
from sqlstream_operators.plan.spec import KIND_COLUMN, Column
from sqlstream_operators.plan.types import VARCHAR

_KIND = Column(KIND_COLUMN, VARCHAR)


def _writer(format_: str) -> Write:
    def write(
        filesystem: fs.FileSystem,
        path: str,
        table: pa.Table,
        columns: Sequence[Column],
        options: Mapping[str, str],
    ) -> None:
        given = [*columns, _KIND]
        if flag(options, f"{format_}.encode.ignore-null-fields"):
            line = f"{message_text(format_, columns, options)} || '\n'"
            write_lines(filesystem, path, table, given, line)
            return
        items = message_items(format_, columns, options)
        copy_rows(filesystem, path, table, given, items, "FORMAT json")

    return write


CHANGELOG_WRITERS: Mapping[str, Write] = {name: _writer(name) for name in ("debezium-json", "changelog-json")}
