"""Files of changes: a JSON message a line."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sqlstream.formats.changelog_json.lines import ChangelogLines, strict_table
from sqlstream.formats.file_parts import FilePart, FileTable
from sqlstream.formats.json.files import LineFileReader
from sqlstream.formats.scratch import Scratch
from sqlstream_operators.duck.session import DuckSession


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
