"""The formats by the name that `'format' = '…'` gives them: one line each.

What reads and writes is imported when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlstream.formats.avro.descriptors import (
    AVRO,
    AVRO_CONFLUENT,
    DEBEZIUM_AVRO_CONFLUENT,
    fields_by_name,
)
from sqlstream.formats.changelog_json.descriptors import (
    CANAL_JSON,
    CHANGELOG_JSON,
    DEBEZIUM_JSON,
    MAXWELL_JSON,
)
from sqlstream.formats.csv.descriptor import CSV
from sqlstream.formats.files import JSON_LINES, FileFormat, Unit, csv_ends, ends_with, loaded
from sqlstream.formats.json.descriptor import JSON
from sqlstream.formats.json_registry.descriptors import JSON_REGISTRY
from sqlstream.formats.orc.descriptor import ORC
from sqlstream.formats.parquet.descriptor import PARQUET
from sqlstream.formats.protobuf.descriptors import PROTO_REGISTRY, PROTOBUF
from sqlstream.formats.raw.descriptor import RAW
from sqlstream_operators.errors import InternalError
from sqlstream_planner.catalog.descriptor import FormatDescriptor
from sqlstream_planner.catalog.options import Role

if TYPE_CHECKING:
    from sqlstream.formats.api import RecordFormat, RecordReader, RecordWriter


@dataclass(frozen=True, slots=True)
class Format:
    """A format, and where the rest of it is, as `module:name` in this package or as it is.

    `reader` and `writer` make a RecordReader and a RecordWriter of a RecordFormat; None: it has none. `files` is what it
    is in files; None: it is in none.
    """

    descriptor: FormatDescriptor
    reader: str | Callable[[RecordFormat], RecordReader] | None = None
    writer: str | Callable[[RecordFormat], RecordWriter] | None = None
    files: FileFormat | None = None

    @property
    def name(self) -> str:
        """Its name in SQL."""
        return self.descriptor.name


class Formats:
    """Formats by name."""

    def __init__(self, *formats: Format) -> None:
        self._by_name = {format_.name: format_ for format_ in formats}

    def __iter__(self) -> Iterator[Format]:
        return iter(self._by_name.values())

    def __getitem__(self, name: str) -> Format:
        found = self._by_name.get(name)
        if found is None:
            raise InternalError(f"there is no format {name!r}")
        return found

    def with_format(self, format_: Format) -> Formats:
        """The same with one more, or with another of its name."""
        return Formats(*(f for f in self if f.name != format_.name), format_)

    @property
    def of_records(self) -> tuple[FormatDescriptor, ...]:
        """What the formats are whose records are read or written one by one; a role has what is there for it."""
        found = []
        for format_ in self:
            there = ((Role.SOURCE, format_.reader), (Role.SINK, format_.writer))
            roles = tuple(
                role for role, part in there if part is not None and role in format_.descriptor.roles
            )
            if roles:
                options = tuple(o for o in format_.descriptor.options if not o.only_files)
                found.append(replace(format_.descriptor, roles=roles, options=options))
        return tuple(found)

    @property
    def of_files(self) -> tuple[FormatDescriptor, ...]:
        """What the formats are that files have."""
        found = []
        for format_ in self:
            if format_.files is not None:
                roles = format_.descriptor.roles if format_.files.written else (Role.SOURCE,)
                lookup = format_.files.lookup or format_.descriptor.lookup
                found.append(replace(format_.descriptor, roles=roles, lookup=lookup))
        return tuple(found)

    def in_files(self, name: str) -> FileFormat:
        """What the format of this name is in files. Raises InternalError if it is none of files."""
        found = self[name].files
        if found is None:
            raise InternalError(f"format {name} is none of files")
        return found

    def record_reader(self, format_: RecordFormat) -> RecordReader:
        """What reads records. Raises InternalError if there is none, DiagnosticError for an option that can't be used."""
        make = _loaded(self[format_.name].reader, f"format {format_.name} does not read records")
        made: RecordReader = make(format_)
        return made

    def record_writer(self, format_: RecordFormat) -> RecordWriter:
        """What writes records. Raises InternalError if there is none, DiagnosticError for an option that can't be used."""
        make = _loaded(self[format_.name].writer, f"format {format_.name} does not write records")
        made: RecordWriter = make(format_)
        return made


def _loaded(part: Any, missing: str) -> Any:
    if part is None:
        raise InternalError(missing)
    return loaded(part)


_CHANGES = ("changelog_json.records:ChangelogRecordReader", "changelog_json.records:ChangelogRecordWriter")
_CSV = FileFormat(
    Unit.TEXT,
    "csv.files:CsvFileReader",
    "csv.batch:REFEREE",
    "csv.files:write",
    ".csv",
    appendable=True,
    smallest_range=8 << 20,
    range_end=csv_ends,
)
_PARQUET = FileFormat(
    Unit.ROWS,
    "parquet.files:ParquetFileReader",
    "parquet.batch:REFEREE",
    "parquet.files:write",
    ".parquet",
    whole=ends_with(b"PAR1", b"PARE"),
    smallest_range=4 << 20,
    halved=True,
    shape="parquet.files:shape",
)
_ORC = FileFormat(
    Unit.WHOLE,
    "orc.files:OrcFileReader",
    "parquet.batch:GIVEN",
    whole=ends_with(b"ORC"),
    shape="orc.files:shape",
)
_AVRO = FileFormat(
    Unit.ROWS,
    "avro.files:AvroFileReader",
    "parquet.batch:GIVEN",
    "avro.files:write",
    ".avro",
    whole="avro.files:is_whole",
    lookup=fields_by_name,
    smallest_range=4 << 20,
    halved=True,
    shape="avro.files:shape",
)


def _changes(name: str, writer: str | None = None) -> FileFormat:
    written = None if writer is None else f"changelog_json.files:{writer}"
    return replace(
        JSON_LINES,
        reader=f"changelog_json.files:{name}",
        referee=f"changelog_json.batch:{name.upper()}",
        writer=written,
        appendable=False,
    )


REGISTERED = Formats(
    Format(JSON, "json.records:JsonRecordReader", "json.records:JsonRecordWriter", JSON_LINES),
    Format(CSV, "csv.records:CsvRecordReader", "csv.records:CsvRecordWriter", _CSV),
    Format(PARQUET, files=_PARQUET),
    Format(ORC, files=_ORC),
    Format(DEBEZIUM_JSON, *_CHANGES, _changes("debezium", "write_debezium")),
    Format(CHANGELOG_JSON, *_CHANGES, _changes("changelog", "write_changelog")),
    Format(CANAL_JSON, *_CHANGES, _changes("canal")),
    Format(MAXWELL_JSON, *_CHANGES, _changes("maxwell")),
    Format(RAW, "raw.records:RawRecordReader", "raw.records:RawRecordWriter"),
    Format(AVRO, "avro.plain:AvroRecordReader", "avro.plain:AvroRecordWriter", _AVRO),
    Format(AVRO_CONFLUENT, "avro.confluent:ConfluentAvroReader", "avro.confluent:ConfluentAvroWriter"),
    Format(DEBEZIUM_AVRO_CONFLUENT, "avro.debezium:DebeziumAvroReader", "avro.debezium:DebeziumAvroWriter"),
    Format(
        JSON_REGISTRY,
        "json_registry.records:JsonRegistryReader",
        "json_registry.records:JsonRegistryWriter",
    ),
    Format(PROTOBUF, "protobuf.plain:ProtobufRecordReader", "protobuf.plain:ProtobufRecordWriter"),
    Format(
        PROTO_REGISTRY,
        "protobuf.registry_records:ProtoRegistryReader",
        "protobuf.registry_records:ProtoRegistryWriter",
    ),
)


def record_reader(format_: RecordFormat) -> RecordReader:
    """See `Formats.record_reader`."""
    return REGISTERED.record_reader(format_)


def record_writer(format_: RecordFormat) -> RecordWriter:
    """See `Formats.record_writer`."""
    return REGISTERED.record_writer(format_)
