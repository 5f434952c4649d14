"""The task's half of a source on Kafka: a range of offsets as a relation in DuckDB."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.api import BadRow, Split
from sqlstream.connectors.kafka.client import consumer_config
from sqlstream.connectors.kafka.consume import TOGETHER, OffsetRange, read_range, start_ranges
from sqlstream.connectors.kafka.options import KafkaOptions, RecordPart
from sqlstream.connectors.kafka.shared_options import OF_VALUE
from sqlstream.formats.api import RECORD_COLUMN, BadRecord, RecordFormat, RecordReader
from sqlstream.formats.registry import record_reader
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import KIND_COLUMN, Column, RowKind, Schema
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.task.io import LANE_COLUMN
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor


@dataclass(frozen=True, slots=True)
class _Columns:
    """Which columns of a table come from where: `keys` by their names in the table and in the key."""

    keys: tuple[tuple[Column, str], ...]
    values: Schema
    declared_keys: Schema
    declared_values: Schema


class KafkaReader:
    """Reads splits of one source; what is malformed is found by the format.

    A relation of changes has KIND_COLUMN. Of `upsert-kafka` a record without a value deletes the row of its key;
    elsewhere it has no row. Without a key, the columns of the key are NULL.
    """

    def __init__(self, spec: SourceSpec, descriptor: ConnectorDescriptor) -> None:
        self._spec = spec
        self._options = KafkaOptions.read(spec.options, descriptor=descriptor)
        self._upserts = descriptor.changelog
        self._config = consumer_config(self._options)
        self._columns = _columns_of(spec, self._options, upserts=self._upserts)
        self._of_values = tuple(m for m in spec.metadata if m.key.startswith(OF_VALUE))
        self._metadata = tuple(m for m in spec.metadata if m not in self._of_values)
        self._value = self._reader(self._options.value, self._columns.values, self._columns.declared_values)
        self._key: RecordReader | None = None
        if self._options.key is not None and self._columns.keys:
            names = tuple(Column(name, column.type) for column, name in self._columns.keys)
            self._key = self._reader(self._options.key, names, self._columns.declared_keys, of_key=True)
        self._wanted = frozenset(m.key for m in self._metadata) | (
            {"key"} if self._key is not None else set()
        )

    def open_strict(self, duck: DuckSession, relation: str, split: Split, *, queries: int) -> None:
        """Make all rows of the split queryable. Raises DataError if a record can't be read."""
        records = self._records(split, self._wanted)
        values = self._value.read(duck, _chunk(records["value"]))
        keys = None if self._key is None else self._key.read(duck, _chunk(records["key"]))
        self._register(duck, relation, self._rows(records, values, keys))

    def open_lenient(self, duck: DuckSession, relation: str, split: Split) -> Sequence[BadRow]:
        """Make the rows of the readable records queryable and return the others."""
        records = self._records(split, self._wanted | {"topic", "partition", "key"})
        values, bad = self._value.read_leniently(duck, _chunk(records["value"]))
        keys = None
        reasons = {one.index: one.reason for one in bad}
        if self._key is not None:
            keys, bad_keys = self._key.read_leniently(duck, _chunk(records["key"]))
            reasons |= {one.index: f"the key: {one.reason}" for one in bad_keys if one.index not in reasons}
            if bad_keys:
                values = _without(values, bad_keys)
        refused = pa.array(sorted(reasons), pa.int64())
        rows = self._rows(records, values, keys, refused=refused)
        self._register(duck, relation, rows)
        if not reasons:
            return []
        shown = records.select(["topic", "partition", "offset", "key", "value"]).take(refused).to_pylist()
        return [
            BadRow(
                f"topic {one['topic']}",
                None,
                one["value"] if one["value"] is not None else b"",
                reason,
                position={"partition": one["partition"], "offset": one["offset"]},
                key=one["key"],
            )
            for one, (_, reason) in zip(shown, sorted(reasons.items()), strict=True)
        ]

    def halves(self, split: Split) -> Sequence[Split]:
        """Two splits that have the rows of this one together; none if it is one record."""
        if split.parts:
            middle = len(split.parts) // 2
            return [Split.combined(split.parts[:middle]), Split.combined(split.parts[middle:])]
        payload = split.payload
        begin, end = int(payload["from"]), int(payload["to"])
        if end - begin <= 1:
            return []
        middle = (begin + end) // 2
        return [
            Split(split.source, {**payload, "from": low, "to": high}, high - low, lane=split.lane)
            for low, high in ((begin, middle), (middle, end))
        ]

    def place(self, split: Split) -> str:
        """Where the rows of a split are."""
        if split.parts:
            return "; ".join(self.place(part) for part in split.parts)
        payload = split.payload
        begin, end = int(payload["from"]), int(payload["to"])
        offsets = f"offset {begin}" if end - begin <= 1 else f"offsets {begin} to {end - 1}"
        return f"topic {payload['topic']}, partition {payload['partition']}, {offsets}"

    def _records(self, split: Split, wanted: frozenset[str]) -> pa.Table:
        """The records of a split; of several, which of them each is of."""
        if not split.parts:
            return self._records_of(split, wanted)
        parts = []
        for some in (split.parts[at : at + TOGETHER] for at in range(0, len(split.parts), TOGETHER)):
            start_ranges(self._config, [_range_of(part) for part in some], self._spec.name)
            parts += [self._records_of(part, wanted) for part in some]
        numbers = pa.array(np.repeat(np.arange(len(parts), dtype=np.int32), [p.num_rows for p in parts]))
        return pa.concat_tables(parts).append_column(LANE_COLUMN, numbers)

    def _records_of(self, split: Split, wanted: frozenset[str]) -> pa.Table:
        place = _range_of(split)
        found = read_range(
            self._config,
            place,
            wanted - {"topic", "partition"},
            patience_s=self._options.patience_s,
            reader=self._spec.name,
        )
        if "topic" in wanted:
            found = found.append_column("topic", pa.repeat(pa.scalar(place.topic), found.num_rows))
        if "partition" in wanted:
            found = found.append_column(
                "partition", pa.repeat(pa.scalar(place.partition, pa.int32()), found.num_rows)
            )
        return found

    def _reader(
        self, part: RecordPart, columns: Schema, declared: Schema, *, of_key: bool = False
    ) -> RecordReader:
        subject = f"{self._options.topics[0]}-{'key' if of_key else 'value'}" if self._options.topics else ""
        return record_reader(
            RecordFormat(
                part.format,
                columns,
                declared,
                part.options,
                () if of_key or self._upserts else self._spec.primary_key,
                subject,
                tuple(
                    text
                    for name, text in self._options.properties.items()
                    if "password" in name and len(text) > 3
                ),
                ()
                if of_key
                else tuple((m.key.removeprefix(OF_VALUE), Column(m.name, m.type)) for m in self._of_values),
            )
        )

    def _rows(
        self, records: pa.Table, values: pa.Table, keys: pa.Table | None, refused: pa.Array | None = None
    ) -> pa.Table:
        """The rows that records give, in their order: what their formats read, with keys and metadata beside it."""
        numbers = values.column(RECORD_COLUMN)
        if self._upserts:
            kinds = pa.repeat(pa.scalar(str(RowKind.UPDATE_AFTER)), values.num_rows)
            values = values.append_column(KIND_COLUMN, kinds)
            deleted = _indices(pc.is_null(records["value"]), refused)
            if len(deleted):
                gone = pa.table(
                    {
                        RECORD_COLUMN: deleted,
                        KIND_COLUMN: pa.repeat(pa.scalar(str(RowKind.DELETE)), len(deleted)),
                    }
                )
                values = pa.concat_tables([values, gone], promote_options="default")
                order = np.argsort(values.column(RECORD_COLUMN).to_numpy(), kind="stable")
                values = values.take(pa.array(order))
                numbers = values.column(RECORD_COLUMN)
        columns: dict[str, pa.ChunkedArray] = {c.name: values.column(c.name) for c in self._columns.values}
        if keys is not None:
            at = _places(keys.column(RECORD_COLUMN), numbers, records.num_rows)
            for column, name in self._columns.keys:
                found = keys.column(name).take(at)
                if column.name in columns:  # the value has it, too, unless there is none
                    missing = pc.equal(values.column(KIND_COLUMN), str(RowKind.DELETE))
                    found = pc.if_else(missing, found, columns[column.name])
                columns[column.name] = found
        else:
            for column, _ in self._columns.keys:
                columns[column.name] = pa.nulls(values.num_rows)
        same = values.num_rows == records.num_rows and bool(
            pc.all(pc.equal(numbers, pa.array(np.arange(records.num_rows)))).as_py() is not False
        )
        for of_value in self._of_values:
            columns[of_value.name] = values.column(of_value.name)
        for metadata in self._metadata:
            found = records.column(metadata.key)
            columns[metadata.name] = found if same else found.take(numbers)
        ordered = {column.name: columns[column.name] for column in self._schema}
        if KIND_COLUMN in values.column_names:
            ordered[KIND_COLUMN] = values.column(KIND_COLUMN)
        if LANE_COLUMN in records.column_names:
            lanes = records.column(LANE_COLUMN)
            ordered[LANE_COLUMN] = lanes if same else lanes.take(numbers)
        return pa.table(ordered)

    @property
    def _schema(self) -> Schema:
        declared = {column.name: column for column in self._spec.physical}
        metadata = (Column(m.name, m.type) for m in self._spec.metadata)
        return (*(declared[name] for name in self._spec.columns), *metadata)

    def _register(self, duck: DuckSession, relation: str, table: pa.Table) -> None:
        duck.register(relation, table, self._schema)


def _range_of(split: Split) -> OffsetRange:
    """The offsets of a split that has no parts."""
    payload = split.payload
    return OffsetRange(
        str(payload["topic"]), int(payload["partition"]), int(payload["from"]), int(payload["to"])
    )


def _columns_of(spec: SourceSpec, options: KafkaOptions, *, upserts: bool) -> _Columns:
    """Where columns come from. What values have, too, is taken from there; but a deleted row has nothing but its key."""
    key_names = spec.primary_key if upserts else options.key_fields
    key_set, read = set(key_names), set(spec.columns)
    declared = {column.name: column for column in spec.physical}
    in_key = [(declared[name], name.removeprefix(options.key_prefix)) for name in key_names]
    in_values = tuple(c for c in spec.physical if options.values_have_keys or c.name not in key_set)
    keys = () if options.values_have_keys and not upserts else in_key
    return _Columns(
        tuple((column, name) for column, name in keys if column.name in read),
        tuple(column for column in in_values if column.name in read),
        tuple(Column(name, column.type) for column, name in in_key),
        in_values,
    )


def _chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _indices(mask: pa.ChunkedArray, refused: pa.Array | None) -> pa.Array:
    found = pa.array(np.flatnonzero(mask.to_numpy()))
    if refused is not None and len(refused):
        found = found.filter(pc.invert(pc.is_in(found, refused)))
    return found


def _without(rows: pa.Table, bad: Sequence[BadRecord]) -> pa.Table:
    numbers = pa.array([one.index for one in bad], pa.int64())
    return rows.filter(pc.invert(pc.is_in(rows.column(RECORD_COLUMN), numbers)))


def _places(keys: pa.ChunkedArray, wanted: pa.ChunkedArray, records: int) -> pa.Array:
    """Where the keys of records are in the table of keys; NULL for a record without a key."""
    places = np.full(records, -1, np.int64)
    places[keys.to_numpy()] = np.arange(len(keys))
    found = places[wanted.to_numpy()] if len(wanted) else np.empty(0, np.int64)
    return pa.array(found, mask=found < 0)
