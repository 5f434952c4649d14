"""Records of `json-registry`: read by the table's columns as `json` is, whatever their schema says; a sink registers one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sqlstream.formats.api import BadRecord, RecordFormat
from sqlstream.formats.avro.pieces import of_offsets
from sqlstream.formats.avro.records import whole
from sqlstream.formats.json.records import JsonRecordReader, JsonRecordWriter
from sqlstream.formats.json_registry.derived import derive
from sqlstream.formats.schema_registry.client import RegisteredSchema, client_of
from sqlstream.formats.schema_registry.framing import HEADER, framed, with_header
from sqlstream.formats.schema_registry.settings import RegistrySettings, subject_of
from sqlstream_operators.errors import DataError

if TYPE_CHECKING:
    from sqlstream_operators.duck.session import DuckSession


def _as_json(format_: RecordFormat) -> RecordFormat:
    """The same of the format `json`, whose options have its name."""
    options = {f"json{name.removeprefix(format_.name)}": value for name, value in format_.options.items()}
    return replace(format_, name="json", options=options)


class JsonRegistryReader:
    """A `RecordReader`. The registry is not read: the columns say what is read, and JSON its names."""

    def __init__(self, format_: RecordFormat) -> None:
        self._inner = JsonRecordReader(_as_json(format_))

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """See `RecordReader`."""
        bad: dict[int, str] = {}
        plain = _without_header(values, bad)
        if bad:
            raise DataError(bad[min(bad)])
        return self._inner.read(duck, plain)

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """See `RecordReader`."""
        bad: dict[int, str] = {}
        table, refused = self._inner.read_leniently(duck, _without_header(values, bad))
        found = [*(BadRecord(index, reason) for index, reason in bad.items()), *refused]
        return table, sorted(found, key=lambda one: one.index)


def _without_header(values: pa.Array, bad: dict[int, str]) -> pa.Array:
    """The JSON of each record; NULL where there is none, and where there is no header, which `bad` says."""
    values = values if values.type == pa.large_binary() else values.cast(pa.large_binary())
    good = framed(values, bad)
    if not len(values):
        return values
    borders, data = whole(values)
    # Headers and what is behind them, by turns, over the bytes as they are. (Arrow 26 can't slice binary values.)
    offsets = np.empty(2 * len(values), np.int64)
    offsets[0::2] = np.minimum(borders[:-1] + HEADER, borders[1:])
    offsets[1::2] = borders[1:]
    turns = of_offsets(pa.py_buffer(data), offsets)
    return turns.take(pa.array(np.arange(0, len(offsets), 2), mask=~good))


class JsonRegistryWriter:
    """A `RecordWriter`; the JSON Schema of the table's columns is registered before the first record."""

    def __init__(self, format_: RecordFormat) -> None:
        self._inner = JsonRecordWriter(_as_json(format_))
        self._client = client_of(RegistrySettings.of(format_.name, format_.options))
        self._subject = subject_of(format_)
        given = format_.options.get(f"{format_.name}.schema")
        self._schema = RegisteredSchema(given or derive(format_.columns), "JSON")

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`. Raises DiagnosticError (ENV020) if the registry does not take the schema."""
        records = self._inner.write(duck, rows)
        if not len(records):
            return records
        return with_header(self._client.register(self._subject, self._schema), records)
