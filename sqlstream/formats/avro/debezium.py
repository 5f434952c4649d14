"""The format `debezium-avro-confluent`: Debezium's messages in Avro, each behind the id of its schema in a registry.

A message has the images of a row `before` and `after`, and `op`: c and r (a row came), u (it changed), d (it went).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.formats.api import RECORD_COLUMN, BadRecord, RecordFormat
from sqlstream.formats.avro.confluent import ConfluentRecords, ConfluentRecordsWriter, record_type
from sqlstream.formats.avro.debezium_metadata import DEBEZIUM_METADATA
from sqlstream.formats.avro.derived import RECORD_NAME
from sqlstream.formats.avro.lanes import Bools
from sqlstream.formats.avro.options import given_schema, table_schema
from sqlstream.formats.avro.plain import columns_of
from sqlstream.formats.avro.records import bad_records, raise_first
from sqlstream.formats.avro.schema import AvroField, AvroSchema, Form
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.plan.schema import KIND_COLUMN, Column, Schema
from sqlstream_operators.plan.types import BIGINT, TIMESTAMPTZ, VARCHAR, SqlType, struct

if TYPE_CHECKING:
    from sqlstream_operators.duck.session import DuckSession


def _envelope(columns: Schema) -> Schema:
    """The columns of a message."""
    image = struct(*((column.name, column.type) for column in columns))
    return (Column("before", image), Column("after", image), Column("op", VARCHAR))


def _envelope_schema(format_: RecordFormat) -> AvroSchema:
    """The schema of messages, with the names that Flink gives the records in it."""
    null = AvroSchema(Form.NULL)
    op = AvroSchema(Form.UNION, branches=(null, AvroSchema(Form.STRING)))
    fields = []
    for image in ("before", "after"):
        row = table_schema(format_.name, format_.options, format_.columns, f"{RECORD_NAME}_{image}")
        fields.append(AvroField(image, AvroSchema(Form.UNION, branches=(null, row)), None))
    return AvroSchema(Form.RECORD, RECORD_NAME, fields=(*fields, AvroField("op", op, None)))


class DebeziumAvroReader:
    """A `RecordReader`; what it reads is a changelog."""

    def __init__(self, format_: RecordFormat) -> None:
        self._names = [column.name for column in format_.columns]
        self._metadata = format_.metadata
        # An image must have something in it, also where only the changes are counted.
        envelope = _envelope(format_.columns or format_.declared[:1])
        self._records = ConfluentRecords(format_, (*envelope, *_metadata_fields(format_.metadata)))
        self._upsert = bool(format_.primary_key)

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        """See `RecordReader`. Raises DiagnosticError (ENV020) if the registry does not answer."""
        table, bad = self.read_leniently(duck, values)
        raise_first(bad, "a change of Debezium's in Avro")
        return table

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        """See `RecordReader`. Raises DiagnosticError (ENV020) if the registry does not answer."""
        decoded = self._records.decode(values)
        bad = dict(decoded.bad)
        envelope = decoded.rows.combine_chunks()
        if isinstance(envelope, pa.ChunkedArray):
            envelope = (
                pa.concat_arrays(envelope.chunks) if envelope.num_chunks else pa.nulls(0, envelope.type)
            )
        before, after, op, *_ = envelope.flatten()
        has_before, has_after = _there(before), _there(after)
        came, changed, went = _is(op, "c", "r"), _is(op, "u"), _is(op, "d")
        ops = np.array(op.to_pylist(), object) if len(op) else np.zeros(0, object)
        reasons = [
            (~(came | changed | went), "op is {}, not c, r, u or d"),
            ((came | changed) & ~has_after, "op is {}, and there is no after"),
            (went & ~has_before, "op is {}, and there is no before"),
        ]
        if not self._upsert:
            reasons.append(
                (
                    changed & ~has_before,
                    "op is {}, and there is no before: give the table a PRIMARY KEY, or the database's table "
                    "REPLICA IDENTITY FULL",
                )
            )
        good = np.ones(len(op), np.bool_)
        for wrong, reason in reasons:
            good &= ~wrong
            for row in np.flatnonzero(wrong).tolist():
                bad.setdefault(int(decoded.ids[row]), reason.format(ops[row]))
        goes = np.flatnonzero(good & (went | (changed & has_before)))
        comes = np.flatnonzero(good & (came | changed))
        # An update's old image comes before its new one, and each in its record's place.
        order = np.argsort(np.concatenate([2 * goes, 2 * comes + 1]), kind="stable")
        rows = pa.concat_arrays([before.take(pa.array(goes)), after.take(pa.array(comes))]).take(
            pa.array(order)
        )
        kinds = np.concatenate(
            [
                np.where(changed[goes], "-U", "-D").astype(object),
                np.where(came[comes], "+I", "+U").astype(object),
            ]
        )[order]
        numbers = np.concatenate([decoded.ids[goes], decoded.ids[comes]])[order]
        columns = rows.flatten()[: len(self._names)]
        messages = pa.array(np.concatenate([goes, comes])[order])
        metadata = [_metadata_value(envelope, key, column).take(messages) for key, column in self._metadata]
        table = pa.table(
            [*columns, *metadata, pa.array(kinds, pa.string()), pa.array(numbers, pa.int64())],
            names=[*self._names, *(column.name for _, column in self._metadata), KIND_COLUMN, RECORD_COLUMN],
        )
        return table, bad_records(bad)


def _metadata_fields(metadata: Sequence[tuple[str, Column]]) -> Schema:
    """The fields of a message that metadata is read of: times as the numbers of ms that they are."""
    outside: dict[str, SqlType] = {}
    inside: dict[str, SqlType] = {}
    for key, _ in metadata:
        path, type_ = DEBEZIUM_METADATA[key]
        (outside if len(path) == 1 else inside)[path[-1]] = BIGINT if type_ == TIMESTAMPTZ else type_
    source = (Column("source", struct(*inside.items())),) if inside else ()
    return (*source, *(Column(name, type_) for name, type_ in outside.items()))


def _metadata_value(envelope: pa.StructArray, key: str, column: Column) -> pa.Array:
    """Metadata of each message as its column wants it."""
    path, type_ = DEBEZIUM_METADATA[key]
    found = pc.struct_field(envelope, list(path))
    if type_ == TIMESTAMPTZ:
        # What is no time in µs is NULL, as it is in JSON.
        most = (2**63 - 2) // 1000
        possible = pc.and_(pc.less_equal(found, most), pc.greater_equal(found, -most))
        found = pc.multiply(pc.if_else(possible, found, None), 1000).view(to_arrow(TIMESTAMPTZ))
    return found.cast(to_arrow(column.type))


def _there(images: pa.Array) -> Bools:
    found: Bools = images.is_valid().to_numpy(zero_copy_only=False)
    return found


def _is(op: pa.Array, *names: str) -> Bools:
    found: Bools = pc.is_in(op, pa.array(names, pa.string())).to_numpy(zero_copy_only=False)
    return found


class DebeziumAvroWriter:
    """A `RecordWriter`; as in Flink an update is two messages, a `d` and a `c`."""

    def __init__(self, format_: RecordFormat) -> None:
        self._names = [column.name for column in format_.columns]
        self._columns = _envelope(format_.columns)
        schema = given_schema(format_.name, format_.options) or _envelope_schema(format_)
        self._writer = ConfluentRecordsWriter(format_, self._columns, schema)
        self._image = record_type(format_.columns)

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        """See `RecordWriter`. Raises DiagnosticError (ENV020) if the registry does not take the schema."""
        *columns, kinds = columns_of(rows, [*self._names, KIND_COLUMN])
        goes = _is(kinds, "-U", "-D")
        fields = list(self._image)
        before = pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(~goes))
        after = pa.StructArray.from_arrays(columns, fields=fields, mask=pa.array(goes))
        op = pa.array(np.where(goes, "d", "c").astype(object), pa.string())
        return self._writer.write([before, after, op])
