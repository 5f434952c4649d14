"""Records that are one JSON value each.

All records of an array become the lines of one text (`text_records`), which DuckDB's `read_json` reads as it reads a file,
with the same types and the same refusals; which record a row is of is its number there, since a line is one value or an
error. `json_transform` over a column of texts would take about a fifth less time, but can only take a value of a wrong type
for NULL, or a missing key for an error (0036).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sqlstream.formats.api import RECORD_COLUMN, BadRecord, RecordFormat
from sqlstream.formats.beside import RECORDS
from sqlstream.formats.json.lenient import LineFormat, lenient
from sqlstream.formats.json.lines import JsonLines
from sqlstream.formats.json.writing import object_text
from sqlstream.formats.options import flag, iso_timestamps
from sqlstream.formats.scratch import Scratch, in_memory
from sqlstream.formats.text_records import EMPTY, WHITE_SPACE, TextRecords
from sqlstream.formats.written import record_texts
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError

#: How many bytes of lines are looked at together to find those that can't be read.
_BLOCK = 2 << 20


class LineRecordReader:
    """Reads records that are what a `LineFormat` calls a line; `columns` is the order of the table's columns."""

    def __init__(self, lines: LineFormat, columns: Sequence[str]) -> None:
        self._lines = lines
        self._columns = [*columns, RECORD_COLUMN]

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """See `RecordReader`."""
        if self._lines.asks_each_line:
            table, bad = self.read_leniently(duck, values)
            if bad:
                raise DataError(bad[0].reason)
            return table
        records = TextRecords.of(values).on_one_line()
        if len(records.blank(WHITE_SPACE)):
            raise DataError(EMPTY)
        with in_memory(records.lines()) as path:
            return self._arranged(self._strict(duck, path), records)

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """See `RecordReader`."""
        every = TextRecords.of(values).on_one_line()
        blank = every.blank(WHITE_SPACE)
        bad = [BadRecord(int(number), EMPTY) for number in every.numbers[blank]]
        records = every.but(blank)
        with Scratch() as scratch:
            table, refused = lenient(duck, self._lines, _blocks(records), RECORDS, scratch)
        bad += [BadRecord(int(records.numbers[line.number]), line.reason) for line in refused]
        return self._arranged(table, records), sorted(bad, key=lambda one: one.index)

    def _strict(self, duck: DuckSession, path: str) -> pa.Table:
        return duck.query(self._lines.select([path], RECORDS))

    def _arranged(self, table: pa.Table, records: TextRecords) -> pa.Table:
        """The columns in their order, with the numbers of records in the array that was handed over."""
        given = records.numbered(table.column(RECORD_COLUMN))
        table = table.select(self._columns)
        return table.set_column(len(self._columns) - 1, RECORD_COLUMN, given)


def _blocks(records: TextRecords) -> Iterator[bytes]:
    """The lines of records in blocks."""
    lines = memoryview(records.lines())
    begins = records.starts[:-1] + np.arange(len(records))
    start = 0
    while start < len(lines):
        following = int(np.searchsorted(begins, start + _BLOCK))
        end = int(begins[following]) if following < len(begins) else len(lines)
        yield bytes(lines[start:end])
        start = end


class JsonRecordReader(LineRecordReader):
    """A record is an object: a row."""

    def __init__(self, format_: RecordFormat) -> None:
        lines = JsonLines(format_.columns, flag(format_.options, "json.fail-on-missing-field"))
        super().__init__(lines, [column.name for column in format_.columns])


class JsonRecordWriter:
    """A row is an object."""

    def __init__(self, format_: RecordFormat) -> None:
        self._columns = format_.columns
        self._text = object_text(
            format_.columns,
            iso=iso_timestamps(format_.options, "json"),
            without_nulls=flag(format_.options, "json.encode.ignore-null-fields"),
        )

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`."""
        return record_texts(duck, rows, self._columns, self._text)
