"""Files of changes: a JSON message a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyarrow import fs

from sqlstream.formats.changelog_json.lines import ChangelogLines, strict_table
from sqlstream.formats.changelog_json.writing import message_items, message_text
from sqlstream.formats.file_parts import FilePart, FileTable
from sqlstream.formats.file_writing import Write, copy_rows, write_lines
from sqlstream.formats.json.files import LineFileReader
from sqlstream.formats.options import flag
from sqlstream.formats.scratch import Scratch
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import KIND_COLUMN, Column
from sqlstream_operators.plan.types import VARCHAR


class ChangelogFileReader(LineFileReader):
    """A line is a message of the format `name`: the changes of a row or of several, or of none."""

    def __init__(self, name: str, table: FileTable) -> None:
        self._messages = ChangelogLines.of(name, table.columns, table.options, table.primary_key)
        super().__init__(self._messages, table)

    def strict(self, duck: DuckSession, parts: Sequence[FilePart], work: Scratch) -> str | pa.Table:
        """See `FileReader`."""
        paths = [part.text() for part in parts]
        return strict_table(duck, self._messages, paths, self._table.beside(parts))


def debezium(table: FileTable) -> ChangelogFileReader:
    """What reads `debezium-json`."""
    return ChangelogFileReader("debezium-json", table)


def changelog(table: FileTable) -> ChangelogFileReader:
    """What reads `changelog-json`."""
    return ChangelogFileReader("changelog-json", table)


def canal(table: FileTable) -> ChangelogFileReader:
    """What reads `canal-json`."""
    return ChangelogFileReader("canal-json", table)


def maxwell(table: FileTable) -> ChangelogFileReader:
    """What reads `maxwell-json`."""
    return ChangelogFileReader("maxwell-json", table)


def _writer(format_: str) -> Write:
    def write(
        filesystem: fs.FileSystem,
        path: str,
        table: pa.Table,
        columns: Sequence[Column],
        options: Mapping[str, str],
    ) -> None:
        given = [*columns, Column(KIND_COLUMN, VARCHAR)]
        if flag(options, f"{format_}.encode.ignore-null-fields"):
            line = f"{message_text(format_, columns, options)} || '\n'"
            write_lines(filesystem, path, table, given, line)
            return
        items = message_items(format_, columns, options)
        copy_rows(filesystem, path, table, given, items, "FORMAT json")

    return write


#: A message a change; the rows have KIND_COLUMN behind the columns (`sqlstream_operators.duck.row_kinds.to_kinds`).
write_debezium, write_changelog = _writer("debezium-json"), _writer("changelog-json")
