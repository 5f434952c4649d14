"""The formats by the name that `'format' = '…'` gives them: one line each.

What reads and writes is imported when it is used.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlstream_operators.errors import InternalError

if TYPE_CHECKING:
    from sqlstream.formats.api import RecordFormat, RecordReader, RecordWriter


@dataclass(frozen=True, slots=True)
class Format:
    """A format, and where the rest of it is, as `module:name` in this package or as it is.

    `reader` and `writer` make a RecordReader and a RecordWriter of a RecordFormat; None: it has none.
    """

    name: str
    reader: str | Callable[[RecordFormat], RecordReader] | None = None
    writer: str | Callable[[RecordFormat], RecordWriter] | None = None


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
    return pkgutil.resolve_name(f"sqlstream.formats.{part}") if isinstance(part, str) else part


def _changes(name: str) -> Format:
    module = "changelog_json.records"
    return Format(name, f"{module}:ChangelogRecordReader", f"{module}:ChangelogRecordWriter")


REGISTERED = Formats(
    Format("json", "json.records:JsonRecordReader", "json.records:JsonRecordWriter"),
    Format("csv", "csv.records:CsvRecordReader", "csv.records:CsvRecordWriter"),
    _changes("debezium-json"),
    _changes("changelog-json"),
    _changes("canal-json"),
    _changes("maxwell-json"),
    Format("raw", "raw.records:RawRecordReader", "raw.records:RawRecordWriter"),
)


def record_reader(format_: RecordFormat) -> RecordReader:
    """See `Formats.record_reader`."""
    return REGISTERED.record_reader(format_)


def record_writer(format_: RecordFormat) -> RecordWriter:
    """See `Formats.record_writer`."""
    return REGISTERED.record_writer(format_)
