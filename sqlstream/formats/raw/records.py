"""Records whose bytes are one value, as Flink's `raw` format has them."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.api import RECORD_COLUMN, BadRecord, RecordFormat
from sqlstream.formats.options import bad_option
from sqlstream.formats.raw.columns import WIDTHS, wrong_columns
from sqlstream.formats.text_records import buffers
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.types import Kind
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

_NUMBERS: Mapping[Kind, str] = {
    Kind.BOOLEAN: "u1",
    Kind.TINYINT: "i1",
    Kind.SMALLINT: "i2",
    Kind.INTEGER: "i4",
    Kind.BIGINT: "i8",
    Kind.FLOAT: "f4",
    Kind.DOUBLE: "f8",
}
_ORDERS = {"big-endian": ">", "little-endian": "<"}


class _Raw:
    """What reader and writer know of the one column. Raises DiagnosticError for another schema or option."""

    def __init__(self, format_: RecordFormat) -> None:
        wrong = wrong_columns(format_.columns)
        if wrong is not None:
            raise DiagnosticError(Diagnostic("OPT003", wrong))
        self.column = format_.columns[0]
        order = format_.options.get("raw.endianness", "big-endian").strip().lower()
        if order not in _ORDERS:
            raise bad_option("raw.endianness", order, "'big-endian' or 'little-endian'")
        number = _NUMBERS.get(self.column.type.kind)
        self.number = None if number is None else np.dtype(_ORDERS[order] + number)
        name = format_.options.get("raw.charset", "UTF-8").strip()
        try:
            self.charset = codecs.lookup(name).name
        except LookupError:
            raise bad_option(
                "raw.charset", name, "a character set, such as 'UTF-8' or 'ISO-8859-1'"
            ) from None

    @property
    def what(self) -> str:
        """The column, as messages say it."""
        return f"column {self.column.name}"


class RawRecordReader:
    """A record is a row of one value."""

    def __init__(self, format_: RecordFormat) -> None:
        self._raw = _Raw(format_)

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """See `RecordReader`."""
        table, bad = self.read_leniently(duck, values)
        if bad:
            raise DataError(bad[0].reason)
        return table

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """See `RecordReader`."""
        numbers = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        there = values.drop_null() if values.null_count else values
        bad: list[BadRecord] = []
        kind = self._raw.column.type.kind
        if self._raw.number is not None:
            width = WIDTHS[kind]
            fits = pc.equal(pc.binary_length(there), width).to_numpy(zero_copy_only=False)
            for i in np.flatnonzero(~fits).tolist():
                size = len(there[i].as_buffer())
                bad.append(
                    BadRecord(
                        int(numbers[i]), f"{self._raw.what}: {size} bytes are no {kind}, which has {width}"
                    )
                )
            if bad:
                there, numbers = there.filter(pa.array(fits)), numbers[fits]
            found = self._numbers_of(there)
        elif kind is Kind.BLOB:
            found = there
        else:
            found, refused = self._texts_of(there)
            bad = [BadRecord(int(numbers[i]), reason) for i, reason in refused]
            numbers = np.delete(numbers, [i for i, _ in refused])
        table = pa.table(
            [found.cast(to_arrow(self._raw.column.type)), pa.array(numbers, pa.int64())],
            names=[self._raw.column.name, RECORD_COLUMN],
        )
        return table, bad

    def _numbers_of(self, values: pa.Array) -> pa.Array:
        assert self._raw.number is not None
        data, _ = buffers(values)
        numbers = np.frombuffer(data, self._raw.number)
        if self._raw.column.type.kind is Kind.BOOLEAN:
            return pa.array(numbers != 0)
        return pa.array(numbers.astype(self._raw.number.newbyteorder("=")))

    def _texts_of(self, values: pa.Array) -> tuple[pa.Array, list[tuple[int, str]]]:
        """The texts of those that are in the character set, and which are not."""
        if self._raw.charset == "utf-8":
            try:
                return values.cast(pa.large_string()), []
            except pa.ArrowInvalid:
                pass  # which ones is found below
        texts: list[str] = []
        bad: list[tuple[int, str]] = []
        for i, value in enumerate(values.to_pylist()):
            try:
                texts.append(value.decode(self._raw.charset))
            except UnicodeError as error:
                bad.append((i, f"{self._raw.what}: not {self._raw.charset}: {error}"))
        return pa.array(texts, pa.large_string()), bad


class RawRecordWriter:
    """A row's one value is a record; of a NULL it is none, as in Flink."""

    def __init__(self, format_: RecordFormat) -> None:
        self._raw = _Raw(format_)

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`."""
        column = rows.column(self._raw.column.name).combine_chunks()
        values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        kind = self._raw.column.type.kind
        if self._raw.number is not None:
            data = pc.fill_null(values, False if kind is Kind.BOOLEAN else 0).to_numpy(zero_copy_only=False)
            width = self._raw.number.itemsize
            fixed = pa.Array.from_buffers(
                pa.binary(width), len(values), [None, pa.py_buffer(data.astype(self._raw.number).tobytes())]
            )
            return pc.if_else(
                values.is_valid(), fixed.cast(pa.large_binary()), pa.scalar(None, pa.large_binary())
            )
        if kind is Kind.BLOB or self._raw.charset == "utf-8":
            return values.cast(pa.large_binary())
        encode: Callable[[str], bytes] = self._encoded
        return pa.array(
            [None if text is None else encode(text) for text in values.to_pylist()], pa.large_binary()
        )

    def _encoded(self, text: str) -> bytes:
        try:
            return text.encode(self._raw.charset)
        except UnicodeError as error:
            raise DataError(f"{self._raw.what}: can't be written in {self._raw.charset}: {error}") from error
