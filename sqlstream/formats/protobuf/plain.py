"""The format `protobuf`: messages of a descriptor set, as Flink's format of that name has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sqlstream.formats.api import RECORD_COLUMN, BadRecord, RecordFormat
from sqlstream.formats.avro.plain import columns_of
from sqlstream.formats.avro.records import bad_records, present, raise_first
from sqlstream.formats.protobuf.messages import DescriptorError, descriptor_set, library, message_class
from sqlstream.formats.protobuf.reading import as_columns, readers
from sqlstream.formats.protobuf.writing import Put, writers
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.plan.schema import Schema
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    from sqlstream_operators.duck.session import DuckSession


class MessageRows:
    """Messages of one class as rows. Raises DescriptorError for columns that are not of it."""

    def __init__(self, class_: Any, columns: Schema, defaults: bool) -> None:
        self._class, self._columns = class_, columns
        self._gets = readers(columns, class_.DESCRIPTOR, defaults)
        self._broken = library().message.DecodeError

    def read(self, values: Sequence[bytes], ids: Sequence[int], bad: dict[int, str]) -> pa.Table:
        """The rows of messages, with RECORD_COLUMN; messages that can't be read go to `bad`."""
        parse, broken = self._class.FromString, self._broken
        messages, kept = [], []
        for value, id_ in zip(values, ids, strict=True):
            try:
                messages.append(parse(value))
                kept.append(id_)
            except broken as error:
                bad[id_] = f"no message {self._class.DESCRIPTOR.full_name}: {error}"
        arrays = as_columns(self._columns, self._gets, messages)
        names = [*(column.name for column in self._columns), RECORD_COLUMN]
        return pa.table([*arrays, pa.array(kept, pa.int64())], names=names)


class RowMessages:
    """Rows as messages of one class. Raises DescriptorError for columns that are not of it."""

    def __init__(self, class_: Any, columns: Schema, null_text: str) -> None:
        self._class = class_
        self._names = [column.name for column in columns]
        self._puts: list[Put] = writers(columns, class_.DESCRIPTOR, null_text)

    def write(self, rows: pa.Table) -> list[bytes]:
        """One message per row."""
        messages = [self._class() for _ in range(rows.num_rows)]
        for put, column in zip(self._puts, columns_of(rows, self._names), strict=True):
            for message, value in zip(messages, column.to_pylist(), strict=True):
                if value is not None:
                    put(message, value)
        return [message.SerializeToString(deterministic=True) for message in messages]


class ProtobufRecordReader:
    """A `RecordReader`."""

    def __init__(self, format_: RecordFormat) -> None:
        defaults = is_on(format_, "read-default-values")
        try:
            self._rows = MessageRows(_class_of(format_), format_.columns, defaults)
        except DescriptorError as error:
            raise not_of_message(format_.name, error) from None

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """See `RecordReader`."""
        table, bad = self.read_leniently(duck, values)
        raise_first(bad, "a message of Protocol Buffers")
        return table

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """See `RecordReader`."""
        bad: dict[int, str] = {}
        there, ids = present(values)
        table = self._rows.read(there.to_pylist(), ids.tolist(), bad)
        return table, bad_records(bad)


class ProtobufRecordWriter:
    """A `RecordWriter`."""

    def __init__(self, format_: RecordFormat) -> None:
        try:
            self._rows = RowMessages(_class_of(format_), format_.columns, null_text(format_))
        except DescriptorError as error:
            raise not_of_message(format_.name, error) from None

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`."""
        return pa.array(self._rows.write(rows), pa.large_binary())


def is_on(format_: RecordFormat, option: str) -> bool:
    """Whether a format's option is true."""
    return format_.options.get(f"{format_.name}.{option}", "").strip().lower() == "true"


def null_text(format_: RecordFormat) -> str:
    """What a NULL in an array or a map is written as."""
    return format_.options.get(f"{format_.name}.write-null-string-literal", "")


def _class_of(format_: RecordFormat) -> Any:
    options, name = format_.options, format_.name
    for option in ("message-class-name", "descriptor-set"):
        if not options.get(f"{name}.{option}", "").strip():
            raise DiagnosticError(Diagnostic("OPT004", f"option '{name}.{option}' is missing"))
    path = options[f"{name}.descriptor-set"].strip()
    # Java writes a class inside another with $, and a package of its own may stand before it.
    wanted = options[f"{name}.message-class-name"].strip().replace("$", ".")
    return message_class(descriptor_set(path), wanted)


def not_of_message(format_: str, error: DescriptorError) -> DiagnosticError:
    """The error for columns that are not of their message."""
    return DiagnosticError(Diagnostic("SQL053", f"format {format_}: {error}"))


def empty(columns: Schema) -> pa.Table:
    """No rows."""
    arrays = [pa.array([], to_arrow(column.type)) for column in columns]
    names = [*(column.name for column in columns), RECORD_COLUMN]
    return pa.table([*arrays, pa.array(np.zeros(0, np.int64))], names=names)
