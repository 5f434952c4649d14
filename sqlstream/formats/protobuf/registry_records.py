"""The format `proto-registry`: each message behind the id of its schema in a registry, and which of its messages it is."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.formats.api import RECORD_COLUMN, BadRecord, RecordFormat
from sqlstream.formats.avro.records import bad_records, raise_first
from sqlstream.formats.protobuf.derived import MESSAGE_NAME, derive
from sqlstream.formats.protobuf.messages import DescriptorError, message_at, message_class
from sqlstream.formats.protobuf.plain import MessageRows, RowMessages, empty, is_on, not_of_message, null_text
from sqlstream.formats.schema_registry.client import RegisteredSchema, UnknownSchemaError, client_of
from sqlstream.formats.schema_registry.framing import HEADER, Framed, by_schema, with_header
from sqlstream.formats.schema_registry.settings import RegistrySettings, subject_of

if TYPE_CHECKING:
    from sqlstream_operators.duck.session import DuckSession

#: Which message of a schema it is: numbers of messages, from the file's into each one's own. This is the file's first.
_FIRST = b"\0"


class ProtoRegistryReader:
    """A `RecordReader`."""

    def __init__(self, format_: RecordFormat) -> None:
        self._columns = format_.columns
        self._defaults = is_on(format_, "read-default-values")
        self._client = client_of(RegistrySettings.of(format_.name, format_.options))
        self._rows: dict[tuple[int, bytes], MessageRows | str] = {}

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """See `RecordReader`. Raises DiagnosticError (ENV025) if the registry does not answer."""
        table, bad = self.read_leniently(duck, values)
        raise_first(bad, "a message of a schema registry")
        return table

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """See `RecordReader`. Raises DiagnosticError (ENV025) if the registry does not answer."""
        bad: dict[int, str] = {}
        tables = [empty(self._columns)]
        for framed in by_schema(values, bad):
            tables += self._read(framed, bad)
        table = pa.concat_tables(tables)
        return table if len(tables) == 2 else table.sort_by(RECORD_COLUMN), bad_records(bad)

    def _read(self, framed: Framed, bad: dict[int, str]) -> list[pa.Table]:
        """The rows of records of one schema, by message."""
        by_message: dict[bytes, tuple[list[bytes], list[int]]] = {}
        for value, id_ in zip(framed.values.to_pylist(), framed.ids.tolist(), strict=True):
            end = _end_of_places(value)
            if end is None:
                bad[id_] = "it does not say which message of its schema it is"
                continue
            values, ids = by_message.setdefault(value[HEADER:end], ([], []))
            values.append(value[end:])
            ids.append(id_)
        tables = []
        for places, (values, ids) in by_message.items():
            rows = self._message(framed.schema, places)
            if isinstance(rows, str):
                bad |= dict.fromkeys(ids, rows)
            else:
                tables.append(rows.read(values, ids, bad))
        return tables

    def _message(self, id_: int, places: bytes) -> MessageRows | str:
        """What reads messages of a schema, or why none does."""
        found = self._rows.get((id_, places))
        if found is not None:
            return found
        try:
            registered = self._client.schema(id_, serialized=True)
        except UnknownSchemaError as error:
            return str(error)
        try:
            if registered.kind != "PROTOBUF":
                raise DescriptorError(f"it is {registered.kind}, not PROTOBUF")
            files = [_descriptor(text, name) for name, text in registered.references.items()]
            class_ = message_at([*files, _descriptor(registered.text)], _places(places))
            made: MessageRows | str = MessageRows(class_, self._columns, self._defaults)
        except DescriptorError as error:
            made = f"schema {id_} of the registry: {error}"
        self._rows[id_, places] = made
        return made


def _descriptor(text: str, name: str = "") -> bytes:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError):
        raise DescriptorError(
            "the registry answers with .proto text where a descriptor was requested (format=serialized)"
        ) from None
    if name:  # it is imported by the name of the reference
        file.name = name
    return bytes(file.SerializeToString())


def _end_of_places(value: bytes) -> int | None:
    """Where the numbers of the message end: their count, and so many numbers; one 0 stands for the first message."""
    at, left = HEADER, 1
    first = True
    while left:
        number, at_ = _varint(value, at)
        if at_ is None or number < 0:
            return None
        at, left = at_, left - 1
        if first:
            first, left = False, number
    return at


def _places(data: bytes) -> list[int]:
    count, at = _varint(data, 0)
    found = []
    for _ in range(count):
        assert at is not None
        number, at = _varint(data, at)
        found.append(number)
    return found or [0]


def _varint(data: bytes, at: int) -> tuple[int, int | None]:
    """A number, zigzag, and where it ends; None if it does not."""
    number = shift = 0
    while at < len(data) and shift < 35:
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    return 0, None


class ProtoRegistryWriter:
    """A `RecordWriter`; the message that follows from the table's columns is registered before the first record."""

    def __init__(self, format_: RecordFormat) -> None:
        self._client = client_of(RegistrySettings.of(format_.name, format_.options))
        self._subject = subject_of(format_)
        try:
            file = derive(format_.columns)
            class_ = message_class([file], MESSAGE_NAME)
            self._rows = RowMessages(class_, format_.columns, null_text(format_))
        except DescriptorError as error:
            raise not_of_message(format_.name, error) from None
        self._schema = RegisteredSchema(base64.b64encode(file).decode(), "PROTOBUF")

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`. Raises DiagnosticError (ENV020) if the registry does not take the schema."""
        if not rows.num_rows:
            return pa.array([], pa.large_binary())
        messages = pa.array([_FIRST + message for message in self._rows.write(rows)], pa.large_binary())
        return with_header(self._client.register(self._subject, self._schema), messages)
