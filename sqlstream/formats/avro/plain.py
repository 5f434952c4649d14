"""The format `avro`: records without their schema, which follows from the table's columns, as in Flink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.formats.api import BadRecord, RecordFormat
from sqlstream.formats.avro.encoders import record_encoder
from sqlstream.formats.avro.options import not_of_schema, table_schema
from sqlstream.formats.avro.records import bad_records, decode, present, raise_first, table_of
from sqlstream.formats.avro.resolve import record_decoder
from sqlstream.formats.avro.schema import SchemaError

if TYPE_CHECKING:
    from sqlstream_operators.duck.session import DuckSession


class AvroRecordReader:
    """A `RecordReader`."""

    def __init__(self, format_: RecordFormat) -> None:
        schema = table_schema(format_.name, format_.options, format_.declared)
        self._names = [column.name for column in format_.columns]
        try:
            self._decoder = record_decoder(format_.columns, schema, schema)
        except SchemaError as error:
            raise not_of_schema(format_.name, error) from None

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """See `RecordReader`."""
        table, bad = self.read_leniently(duck, values)
        raise_first(bad, "Avro of the table's schema")
        return table

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """See `RecordReader`."""
        decoded = decode(self._decoder, *present(values))
        return table_of(decoded, self._names), bad_records(decoded.bad)


class AvroRecordWriter:
    """A `RecordWriter`."""

    def __init__(self, format_: RecordFormat) -> None:
        schema = table_schema(format_.name, format_.options, format_.columns)
        self._names = [column.name for column in format_.columns]
        try:
            self._encode = record_encoder(format_.columns, schema)
        except SchemaError as error:
            raise not_of_schema(format_.name, error) from None

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`."""
        return self._encode(columns_of(rows, self._names))


def columns_of(rows: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    """Columns of rows, each in one piece."""
    found = []
    for name in names:
        column = rows.column(name)
        found.append(column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks))
    return found
