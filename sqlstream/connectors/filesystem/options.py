"""The options of the `filesystem` connector, read once and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlstream.connectors.filesystem.patterns import wrong_path_pattern
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
        if not options.get("path"):
            raise bad_option("path", options.get("path", ""), "a file, a directory, a glob or a URI")
        for option in REGISTERED[format_].descriptor.options:
            accepted = option.refuse(options[option.name]) if option.name in options else None
            if accepted is not None:
                raise bad_option(option.name, options[option.name], accepted)
        wrong = wrong_path_pattern(options.get("source.path.regex-pattern"))
        if wrong is not None:
            raise bad_option("source.path.regex-pattern", options["source.path.regex-pattern"], wrong)
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
