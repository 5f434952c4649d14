"""Records that are changes of rows as JSON."""

from __future__ import annotations

import pyarrow as pa

from sqlstream.formats.api import RecordFormat
from sqlstream.formats.beside import RECORDS
from sqlstream.formats.changelog_json.lines import ChangelogLines, strict_table
from sqlstream.formats.changelog_json.writing import message_text
from sqlstream.formats.json.records import LineRecordReader
from sqlstream.formats.written import record_texts
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import KIND_COLUMN, Column
from sqlstream_operators.plan.types import VARCHAR


class ChangelogRecordReader(LineRecordReader):
    """A record is a message: the changes of a row or of several, or of none."""

    def __init__(self, format_: RecordFormat) -> None:
        self._messages = ChangelogLines.of(
            format_.name, format_.columns, format_.options, format_.primary_key, format_.metadata
        )
        metadata = (column.name for _, column in format_.metadata)
        names = [*(column.name for column in format_.columns), *metadata, KIND_COLUMN]
        super().__init__(self._messages, names)

    def _strict(self, duck: DuckSession, path: str) -> pa.Table:
        return strict_table(duck, self._messages, [path], RECORDS)


class ChangelogRecordWriter:
    """A change is a message."""

    def __init__(self, format_: RecordFormat) -> None:
        self._columns = (*format_.columns, Column(KIND_COLUMN, VARCHAR))
        self._text = message_text(format_.name, format_.columns, format_.options)

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`."""
        return record_texts(duck, rows, self._columns, self._text)
