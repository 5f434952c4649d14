"""The options of the `filesystem` connector, read once and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlstream.connectors.filesystem.descriptor import DESCRIPTOR
from sqlstream.connectors.options import bad_option, duration_us, flag
from sqlstream.formats.csv.shape import CsvShape
from sqlstream.formats.files import FileFormat
from sqlstream.formats.registry import REGISTERED

CHANGELOG_FORMATS = tuple(f.name for f in REGISTERED.of_files if f.changelog)
FORMATS = tuple(f.name for f in REGISTERED.of_files)

#: How long a file of a watched source must be still before it is taken, unless `source.settle-time` says otherwise.
SETTLE_US = 5_000_000


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What the options of a table say; defaults and meanings are in docs/connectors/.

    `given` are all of them, for the format. `csv_header` None: a first line that holds all declared names is a header.
    """

    path: str
    format: str
    monitor_interval_us: int | None = None
    settle_us: int = 0
    settle_given: bool = False
    path_pattern: str | None = None
    csv: CsvShape = field(default_factory=CsvShape)
    csv_header: bool | None = None
    csv_null: str | None = None
    json_fail_on_missing: bool = False
    given: Mapping[str, str] = field(default_factory=dict)

    @property
    def files(self) -> FileFormat:
        """What the format is in files."""
        return REGISTERED.in_files(self.format)

    @property
    def changelog(self) -> bool:
        """Whether files have changes of rows."""
        return REGISTERED[self.format].descriptor.changelog

    @classmethod
    def read(cls, options: Mapping[str, str]) -> FileOptions:
        """Raises DiagnosticError for a value that can't be used."""
        format_ = options.get("format", "").lower()
        if format_ not in FORMATS:
            raise bad_option("format", options.get("format", ""), f"one of {', '.join(FORMATS)}")
        for option in DESCRIPTOR.concerned(options):
            text = options.get(option.name, "" if option.required else None)
            accepted = None if text is None else option.refuse(text)
            if accepted is not None:
                raise bad_option(option.name, text or "", accepted)
        interval = duration_us(options, "source.monitor-interval")
        settle = duration_us(options, "source.settle-time")
        header = options.get("csv.header")
        return cls(
            path=options["path"],
            format=format_,
            monitor_interval_us=interval,
            settle_us=(0 if interval is None else SETTLE_US) if settle is None else settle,
            settle_given=settle is not None,
            path_pattern=options.get("source.path.regex-pattern"),
            csv=CsvShape.of(options),
            csv_header=None if header is None else flag(options, "csv.header"),
            csv_null=options.get("csv.null-literal"),
            json_fail_on_missing=flag(options, "json.fail-on-missing-field"),
            given=options,
        )
