"""The options of a Delta table that is read, as data and read once.

They are called as in Flink's and Spark's Delta connectors, whose words are the same: what is declared for one of them is
read here, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sqlstream.connectors.lakehouse.options import metadata_of_changes, several_starts, skipped_changes
from sqlstream.connectors.options import bad_option, duration_us, flag, instant_us, number
from sqlstream_planner.catalog.descriptor import Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import CreateTable

_SOURCE = (Role.SOURCE,)
LATEST = "latest"
#: The option by which a table gives changes.
CHANGES = "readChangeFeed"
_SKIP = "skipChangeCommits"
#: Where reading begins, in the order in which messages name them: one of them at most.
STARTS = ("startingVersion", "startingTimestamp", "versionAsOf", "timestampAsOf")
#: Of these the ones that mean the table as it was, and nothing after it.
AS_OF = ("versionAsOf", "timestampAsOf")


def wrong_start(text: str) -> str | None:
    """What to write in place of a `startingVersion` that is none."""
    if text.strip().lower() == LATEST or text.strip().isdigit():
        return None
    return "the number of a version, such as '12', or 'latest'"


SOURCE_OPTIONS = (
    OptionDef(
        "mode",
        ValueKind.ENUM,
        "'batch': a run ends with the versions that it found; 'streaming': it waits for new ones",
        default="batch",
        choices=("batch", "streaming"),
        roles=_SOURCE,
        changes_rows=False,
        paces=True,
    ),
    OptionDef(
        "startingVersion",
        ValueKind.STRING,
        "begin with what this version adds, or with the next one ('latest'); without it with the table as it is",
        roles=_SOURCE,
        refuse=wrong_start,
    ),
    OptionDef(
        "startingTimestamp",
        ValueKind.TIMESTAMP,
        "begin with what the first version adds that was made then or later (UTC)",
        roles=_SOURCE,
    ),
    OptionDef(
        "versionAsOf",
        ValueKind.INTEGER,
        "read the table as it was at this version, and nothing after it",
        roles=_SOURCE,
        minimum=0,
    ),
    OptionDef(
        "timestampAsOf",
        ValueKind.TIMESTAMP,
        "read the table as it was then (UTC), and nothing after it",
        roles=_SOURCE,
    ),
    OptionDef(
        _SKIP,
        ValueKind.BOOLEAN,
        "pass over versions that delete or change rows, with all that they add; else such a version is an error",
        default="false",
        roles=_SOURCE,
    ),
    OptionDef(
        CHANGES,
        ValueKind.BOOLEAN,
        "read changes: rows of the table that are updated or deleted go and come in the query, too",
        default="false",
        roles=_SOURCE,
    ),
    OptionDef(
        "updateCheckIntervalMillis",
        ValueKind.DURATION,
        "look for new versions this often ('streaming'); a number is ms",
        default="5 s",
        roles=_SOURCE,
        minimum=1,
        changes_rows=False,
        paces=True,
    ),
)


@dataclass(frozen=True, slots=True)
class DeltaOptions:
    """What the options of a table say; at most one of the four starts is set. Times are µs since 1970, UTC."""

    path: str
    streaming: bool = False
    starting_version: str | None = None
    starting_us: int | None = None
    version_as_of: int | None = None
    as_of_us: int | None = None
    skips_changes: bool = False
    reads_changes: bool = False
    interval_us: int = 5_000_000

    @property
    def is_as_of(self) -> bool:
        """Whether the table is read as it was once."""
        return self.version_as_of is not None or self.as_of_us is not None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> DeltaOptions:
        """Raises DiagnosticError for a value that can't be used."""
        given = {name: options[name].strip() for name in STARTS if name in options}
        start = given.get("startingVersion")
        wrong = None if start is None else wrong_start(start)
        if wrong is not None:
            raise bad_option("startingVersion", start or "", wrong)
        mode = options.get("mode", "batch").strip().lower()
        if mode not in ("batch", "streaming"):
            raise bad_option("mode", mode, "'batch' or 'streaming'")
        interval = duration_us(options, "updateCheckIntervalMillis")
        return cls(
            path=options["table-path"],
            streaming=mode == "streaming",
            starting_version=None if start is None else start.lower(),
            starting_us=instant_us(given, "startingTimestamp", None),
            version_as_of=number(given, "versionAsOf"),
            as_of_us=instant_us(given, "timestampAsOf", None),
            skips_changes=flag(options, "skipChangeCommits"),
            reads_changes=flag(options, CHANGES),
            interval_us=5_000_000 if interval is None else interval,
        )


def in_utc(moment_us: int) -> str:
    """A time for people.

    >>> in_utc(1_700_000_000_000_000)
    '2023-11-14 22:13:20 UTC'
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment_us)
    return f"{moment.replace(tzinfo=None).isoformat(' ', 'auto')} UTC"


def wrong_table(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """What is wrong with a table's options together."""
    given = {option.key: option for option in table.options}
    yield from several_starts(table, STARTS)
    as_of = next((name for name in AS_OF if name in given), None)
    if as_of is not None and settings.get("mode") == "streaming":
        yield Diagnostic(
            "OPT003",
            f"`{as_of}` means the table as it was, of which no new version comes",
            given[as_of].key_span,
            help="leave it out, or write 'mode' = 'batch'; what later versions add is read from `startingVersion` on",
        )
    if settings.get(CHANGES) is True:
        if settings.get(_SKIP) is True:
            yield skipped_changes(given[_SKIP].key_span, _SKIP, CHANGES)
        yield from metadata_of_changes(table, CHANGES)
