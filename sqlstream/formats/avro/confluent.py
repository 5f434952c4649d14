"""The format `avro-confluent`: each record begins with the id of its schema in a registry, as Confluent writes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sqlstream.formats.api import BadRecord, RecordFormat
from sqlstream.formats.avro.decoders import Record
from sqlstream.formats.avro.encoders import record_encoder
from sqlstream.formats.avro.options import given_schema, not_of_schema, table_schema
from sqlstream.formats.avro.plain import columns_of
from sqlstream.formats.avro.records import Decoded, bad_records, decode, raise_first, table_of
from sqlstream.formats.avro.resolve import record_decoder
from sqlstream.formats.avro.schema import AvroSchema, SchemaError, parse_schema, to_json
from sqlstream.formats.schema_registry.client import RegisteredSchema, UnknownSchemaError, client_of
from sqlstream.formats.schema_registry.framing import HEADER, by_schema, with_header
from sqlstream.formats.schema_registry.settings import RegistrySettings, subject_of
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.plan.schema import Schema

if TYPE_CHECKING:
    from sqlstream_operators.duck.session import DuckSession


class ConfluentRecords:
    """Reads records of any schemas of a registry as the same columns; each schema is looked at once."""

    def __init__(self, format_: RecordFormat, columns: Schema) -> None:
        self._columns = columns
        self._wanted = given_schema(format_.name, format_.options)
        self._client = client_of(RegistrySettings.of(format_.name, format_.options))
        self._decoders: dict[int, Record | str] = {}

    def decode(self, values: pa.Array) -> Decoded:
        """The rows of records, in their order. Raises DiagnosticError (ENV025) if the registry does not answer."""
        bad: dict[int, str] = {}
        parts: list[Decoded] = []
        for framed in by_schema(values, bad):
            decoder = self._decoder(framed.schema)
            if isinstance(decoder, str):
                bad |= dict.fromkeys(framed.ids.tolist(), decoder)
            else:
                parts.append(decode(decoder, framed.values, framed.ids, HEADER))
        if len(parts) == 1:
            return Decoded(parts[0].rows, parts[0].ids, bad | parts[0].bad)
        for part in parts:
            bad |= part.bad
        type_ = record_type(self._columns)
        rows = pa.chunked_array([chunk for part in parts for chunk in part.rows.chunks], type_)
        ids = np.concatenate([part.ids for part in parts]) if parts else np.zeros(0, np.int64)
        order = np.argsort(ids, kind="stable")
        return Decoded(rows.take(pa.array(order)), ids[order], bad)

    def _decoder(self, id_: int) -> Record | str:
        """What reads records of a schema, or why none does."""
        found = self._decoders.get(id_)
        if found is None:
            found = self._made(id_)
            if not isinstance(found, str) or not found.startswith(_UNKNOWN):
                self._decoders[id_] = found
        return found

    def _made(self, id_: int) -> Record | str:
        try:
            registered = self._client.schema(id_)
        except UnknownSchemaError as error:
            return f"{_UNKNOWN}{error}"
        if registered.kind != "AVRO":
            return f"schema {id_} of the registry is {registered.kind}, not AVRO"
        try:
            return record_decoder(
                self._columns, parse_schema(registered.text, registered.references), self._wanted
            )
        except SchemaError as error:
            return f"schema {id_} of the registry: {error}"


#: It may be there the next time: a registry of several nodes, or one that was restored.
_UNKNOWN = "unknown schema: "


def record_type(columns: Schema) -> pa.DataType:
    """The struct that rows of these columns are."""
    return pa.struct([pa.field(column.name, to_arrow(column.type)) for column in columns])


class ConfluentAvroReader:
    """A `RecordReader`."""

    def __init__(self, format_: RecordFormat) -> None:
        self._names = [column.name for column in format_.columns]
        self._records = ConfluentRecords(format_, format_.columns)

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """See `RecordReader`. Raises DiagnosticError (ENV025) if the registry does not answer."""
        table, bad = self.read_leniently(duck, values)
        raise_first(bad, "Avro of a schema registry")
        return table

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """See `RecordReader`. Raises DiagnosticError (ENV025) if the registry does not answer."""
        decoded = self._records.decode(values)
        return table_of(decoded, self._names), bad_records(decoded.bad)


class ConfluentRecordsWriter:
    """Writes columns as records of one schema, which is registered before the first."""

    def __init__(self, format_: RecordFormat, columns: Schema, schema: AvroSchema) -> None:
        self._client = client_of(RegistrySettings.of(format_.name, format_.options))
        self._subject = subject_of(format_)
        self._text = to_json(schema)
        try:
            self._encode = record_encoder(columns, schema)
        except SchemaError as error:
            raise not_of_schema(format_.name, error) from None

    def write(self, columns: Sequence[pa.Array]) -> pa.Array:
        """The records of rows. Raises DiagnosticError (ENV020) if the registry does not take the schema."""
        records = self._encode(columns)
        if not len(records):
            return records
        return with_header(self._client.register(self._subject, RegisteredSchema(self._text)), records)


class ConfluentAvroWriter:
    """A `RecordWriter`."""

    def __init__(self, format_: RecordFormat) -> None:
        self._names = [column.name for column in format_.columns]
        schema = table_schema(format_.name, format_.options, format_.columns)
        self._writer = ConfluentRecordsWriter(format_, format_.columns, schema)

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`. Raises DiagnosticError (ENV020) if the registry does not take the schema."""
        return self._writer.write(columns_of(rows, self._names))
