"""An epoch's rows as records: keys, values, and the other fields of each.

Append-only rows are written as their tasks staged them. Changes are put together first, by DuckDB, which spills to disk:
a row may come in one part and go in another. A changelog has, for each key, what goes before what comes; `upsert-kafka` has
one record a key, which is its last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from sqlstream.connectors.database.changes import CHANGE_COLUMN, consolidate
from sqlstream.connectors.database.spilling import SpillingDuck
from sqlstream.connectors.exactly_once.staged import StagedEpoch
from sqlstream.connectors.kafka.options import KafkaOptions, RecordPart
from sqlstream.formats.api import RecordFormat
from sqlstream.formats.registry import record_writer
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.arrow_values import normalize
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.schema import KIND_COLUMN
from sqlstream_operators.plan.spec import Column, SinkSpec
from sqlstream_operators.plan.types import quote_identifier

_ROWS, _NET, _PARTITION = "sqlstream_rows", "sqlstream_net", "__sq_partition"


@dataclass(frozen=True, slots=True)
class Records:
    """Records to write, in order; arrays are of one length, None is for all.

    `keys` and `values` are large_binary; a value that is NULL is a tombstone. `partitions` are int32 (None: by the key),
    `timestamps` ms since 1970 (NULL: now), `headers` a map of text to bytes.
    """

    values: pa.Array
    keys: pa.Array | None = None
    partitions: pa.Array | None = None
    timestamps: pa.Array | None = None
    headers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, count: int) -> Records:
        """So many records from `start` on, or as many as there are."""
        every = (self.values, self.keys, self.partitions, self.timestamps, self.headers)
        return Records(*(None if one is None else one.slice(start, count) for one in every))

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values."""
        return int(self.values.nbytes) + (0 if self.keys is None else int(self.keys.nbytes))


class RecordMaker:
    """Makes records of epochs of one sink; keeps DuckDB and the formats' writers from epoch to epoch."""

    def __init__(
        self,
        spec: SinkSpec,
        options: KafkaOptions,
        *,
        upsert: bool,
        changelog: bool,
        secrets: Sequence[str] = (),
    ) -> None:
        self._spec = spec
        self._upsert, self._changelog = upsert, changelog
        metadata = dict(spec.metadata)
        self._timestamp = next((n for n, key in metadata.items() if key == "timestamp"), None)
        self._headers = next((n for n, key in metadata.items() if key == "headers"), None)
        data = [column for column in spec.schema if column.name not in metadata]
        by_name = {column.name: column for column in data}
        keys = spec.primary_key if upsert else options.key_fields
        self._keys = [by_name[name] for name in keys]
        inside = options.values_have_keys
        self._values = data if inside else [c for c in data if c.name not in keys]
        topic = options.topics[0]
        self._value_writer = record_writer(
            _format(options.value, self._values, spec.primary_key, f"{topic}-value", secrets)
        )
        self._key_writer = None
        self._key_names = [column.name.removeprefix(options.key_prefix) for column in self._keys]
        if options.key is not None and self._keys:
            named = [replace(c, name=name) for c, name in zip(self._keys, self._key_names, strict=True)]
            self._key_writer = record_writer(_format(options.key, named, (), f"{topic}-key", secrets))
        self._by_row = options.partitioner == "default" and self._key_writer is None
        self._duck = SpillingDuck()
        self._writing: DuckSession | None = None

    @property
    def by_part(self) -> bool:
        """Whether the records of a task's rows are the same without the other tasks' rows."""
        return not self._upsert and self._spec.changelog != "retract"

    def records(self, rows: StagedEpoch, partitions: int) -> Iterator[Records]:
        """The records of an epoch, in batches, for a topic with so many partitions. Raises DataError."""
        if not self.by_part:
            tables = self._consolidated(rows, partitions)
        else:
            tables = (pa.Table.from_batches([batch]) for batch in rows.reader())
        try:
            for table in tables:
                if table.num_rows:
                    yield self._written(table)
        except Exception:
            rows.check()
            raise

    def close(self) -> None:
        """Let go of DuckDB and what it has spilled."""
        self._duck.close()
        if self._writing is not None:
            self._writing.close()
            self._writing = None

    # ------------------------------------------------------------------------------------------ bytes

    def _written(self, table: pa.Table) -> Records:
        if self._writing is None:
            self._writing = DuckSession()
        values = table.select([column.name for column in self._values])
        if self._changelog:
            kinds = (
                table.column(KIND_COLUMN)
                if KIND_COLUMN in table.column_names
                else pa.repeat(pa.scalar("+I", pa.string()), table.num_rows)
            )
            values = values.append_column(KIND_COLUMN, kinds)
        made = self._value_writer.write(self._writing, values)
        if self._upsert and CHANGE_COLUMN in table.column_names:
            goes = pc.less(_one(table.column(CHANGE_COLUMN)), 0)
            made = pc.if_else(goes, pa.scalar(None, made.type), made)
        keys = None
        if self._key_writer is not None:
            found = table.select([column.name for column in self._keys])
            keys = self._key_writer.write(self._writing, found.rename_columns(self._key_names))
        return Records(
            made,
            keys,
            _one(table.column(_PARTITION)) if _PARTITION in table.column_names else None,
            _milliseconds(table.column(self._timestamp)) if self._timestamp is not None else None,
            _one(table.column(self._headers)) if self._headers is not None else None,
        )

    # ---------------------------------------------------------------------------------------- changes

    def _consolidated(self, rows: StagedEpoch, partitions: int) -> Iterator[pa.Table]:
        """What an epoch changes, each row or key once, in the order in which it is to be written."""
        duck, run = self._duck.session, self._duck.run
        connection = duck.connection
        spec = self._spec if self._upsert else replace(self._spec, primary_key=())
        connection.register(_ROWS, rows.reader())
        try:
            consolidate(run, spec, _ROWS, _NET)
        finally:
            connection.unregister(_ROWS)
        sql = self._by_key() if self._upsert else self._changes(partitions)
        schema = pa.schema(
            [
                *((column.name, to_arrow(column.type)) for column in self._spec.schema),
                *([(CHANGE_COLUMN, pa.int64())] if self._upsert else [(KIND_COLUMN, pa.string())]),
                *([(_PARTITION, pa.int32())] if not self._upsert and self._by_row else []),
            ]
        )
        try:
            for batch in connection.sql(sql).to_arrow_reader(rows.batch_rows):
                yield normalize(pa.Table.from_batches([batch])).cast(schema)
        except duckdb.Error as error:
            raise duck.error(error, sql) from error
        finally:
            run(f"DROP TABLE {_NET}")

    def _by_key(self) -> str:
        names = ", ".join(quote_identifier(column.name) for column in self._spec.schema)
        return f"SELECT {names}, {CHANGE_COLUMN} FROM {_NET}"

    def _changes(self, partitions: int) -> str:
        """All times that rows go and come, by key; what has no key in Kafka stays in a partition by its key here.

        Else a reader could see what comes before what goes, as partitions have no order among each other.
        """
        names = ", ".join(quote_identifier(column.name) for column in self._spec.schema)
        key = self._spec.key
        listed = ", ".join(quote_identifier(name) for name in key or ())
        kind = f"CASE WHEN {CHANGE_COLUMN} > 0 THEN '+I' ELSE '-D' END"
        window = ""
        if key is not None:
            window = f" WINDOW k AS ({f'PARTITION BY {listed}' if key else ''})"
            once = f"count(*) OVER k = 2 AND min({CHANGE_COLUMN}) OVER k = -1 AND max({CHANGE_COLUMN}) OVER k = 1"
            kind = (
                f"CASE WHEN {once} THEN CASE WHEN {CHANGE_COLUMN} > 0 THEN '+U' ELSE '-U' END ELSE {kind} END"
            )
        partition = ""
        if self._by_row:
            hashed = listed if key else ("''" if key is not None else names)
            partition = f", CAST(md5_number_lower(CAST(ROW({hashed}) AS VARCHAR)) % {partitions} AS INTEGER) AS {_PARTITION}"
        first = [*([listed] if listed else []), f"{CHANGE_COLUMN} > 0"]
        return (
            f"SELECT {names}, {KIND_COLUMN}{f', {_PARTITION}' if partition else ''} FROM ("
            f"SELECT *, unnest(range(abs({CHANGE_COLUMN}))) AS __sq_copy FROM ("
            f"SELECT {names}, {CHANGE_COLUMN}, {kind} AS {KIND_COLUMN}{partition} FROM {_NET}{window})) "
            f"ORDER BY {', '.join(first)}"
        )


def _format(
    part: RecordPart,
    columns: Sequence[Column],
    primary_key: Sequence[str],
    subject: str,
    secrets: Sequence[str],
) -> RecordFormat:
    return RecordFormat(
        part.format,
        tuple(columns),
        tuple(columns),
        part.options,
        tuple(primary_key),
        subject,
        tuple(secrets),
    )


def _one(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _milliseconds(column: pa.ChunkedArray) -> pa.Array:
    return (
        pc.floor_temporal(_one(column), unit="millisecond")
        .cast(pa.timestamp("ms", column.type.tz))
        .cast(pa.int64())
    )
