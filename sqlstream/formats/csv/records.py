"""Records that are one line of CSV each, without a header."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.formats.api import RECORD_COLUMN, BadRecord, RecordFormat
from sqlstream.formats.beside import RECORDS
from sqlstream.formats.csv.one_record import is_one_record, suspects
from sqlstream.formats.csv.shape import CsvShape, Layout
from sqlstream.formats.csv.text import CsvText
from sqlstream.formats.csv.writing import records_of
from sqlstream.formats.scratch import in_memory
from sqlstream.formats.text_records import EMPTY, NEWLINE, RETURN, TextRecords
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError

_HASH = ord("#")
_SEVERAL = "not one record of CSV"


class CsvRecordReader:
    """A record is a row; its fields are the declared columns, in order. A line end at its end is no part of it.

    Most records can't be but one line's worth: they are read together. Those whose quotes or line ends are in doubt are read
    alone, as a file would be.
    """

    def __init__(self, format_: RecordFormat) -> None:
        self._shape = CsvShape.of(format_.options)
        lines = CsvShape(self._shape.delimiter, self._shape.quote, self._shape.escape)
        self._text = CsvText(format_.columns, lines, format_.options.get("csv.null-literal"))
        self._layout = Layout(tuple(column.name for column in format_.declared), header=False)
        self._columns = [*(column.name for column in format_.columns), RECORD_COLUMN]

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """See `RecordReader`."""
        records = self._records(values)
        if len(records.blank(b"\r\n")):
            raise DataError(EMPTY)
        if len(self._in_doubt(records)):
            raise DataError(_SEVERAL)
        with in_memory(records.lines()) as path:
            table = duck.query(self._text.select(self._layout, [path], RECORDS))
        if table.num_rows != len(records):
            raise DataError(_SEVERAL)
        return self._arranged(table, records)

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """See `RecordReader`."""
        every = self._records(values)
        blank = every.blank(b"\r\n")
        bad = [BadRecord(int(number), EMPTY) for number in every.numbers[blank]]
        records = every.but(blank)
        doubtful = self._in_doubt(records)
        alone = [records.take(np.array([i])) for i in doubtful.tolist()]
        tables = []
        for group in [
            records.take(doubtful[:0]),
            records.but(doubtful),
            *alone,
        ]:  # the first gives the schema
            rows, refused = self._read(duck, group)
            tables += rows
            bad += refused
        table = pa.concat_tables(tables)
        if len(doubtful):
            table = table.sort_by(RECORD_COLUMN)
        return table, sorted(bad, key=lambda one: one.index)

    def _records(self, values: pa.Array) -> TextRecords:
        """The records without comments, and without line ends at their ends."""
        records = TextRecords.of(values)
        for end in (NEWLINE, RETURN):
            last = records.starts[1:][np.diff(records.starts) > 0] - 1
            records = records.without(last[records.content[last] == end])
        if not self._shape.comments:
            return records
        filled = np.flatnonzero(np.diff(records.starts) > 0)
        return records.but(filled[records.content[records.starts[filled]] == _HASH])

    def _in_doubt(self, records: TextRecords) -> npt.NDArray[np.int64]:
        """Which records may be none, or several."""
        found = suspects(records, self._shape)
        wrong = [i for i in found.tolist() if not is_one_record(records[i], self._shape)]
        return np.array(wrong, np.int64)

    def _read(self, duck: DuckSession, records: TextRecords) -> tuple[list[pa.Table], list[BadRecord]]:
        """The rows of records, and those that are none, read in ever smaller parts as far as DuckDB gives up."""
        try:
            with in_memory(records.lines()) as path:
                table, found = self._text.read(duck, self._layout, path, RECORDS)
        except DataError as error:
            if not len(records):
                raise  # not because of any record
            reason = error.message.split("\n")[0]
        else:
            places = [place - 1 for place, _, _ in found]
            begins = records.starts[:-1] + np.arange(len(records))
            wrong = np.searchsorted(begins, places, "right") - 1
            if table.num_rows + len(set(wrong.tolist())) == len(records):
                reasons = [reason.split("\n")[0] for _, _, reason in found]
                bad = [BadRecord(int(records.numbers[i]), why) for i, why in zip(wrong, reasons, strict=True)]
                return [self._arranged(table, records.but(wrong))], bad
            reason = found[0][2].split("\n")[0] if found else _SEVERAL
        if len(records) == 1:
            return [], [BadRecord(int(records.numbers[0]), reason)]
        half = len(records) // 2
        first, second = (
            self._read(duck, records.take(part)) for part in np.split(np.arange(len(records)), [half])
        )
        return [*first[0], *second[0]], [*first[1], *second[1]]

    def _arranged(self, table: pa.Table, records: TextRecords) -> pa.Table:
        """The columns in their order, with the numbers of records in the array that was handed over."""
        given = records.numbered(table.column(RECORD_COLUMN))
        table = table.select(self._columns)
        return table.set_column(len(self._columns) - 1, RECORD_COLUMN, given)


class CsvRecordWriter:
    """A row is a record, without a line end."""

    def __init__(self, format_: RecordFormat) -> None:
        self._columns = format_.columns
        self._shape = CsvShape.of(format_.options)
        self._null = format_.options.get("csv.null-literal")

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`."""
        return records_of(duck, rows, self._columns, self._shape, self._null)
