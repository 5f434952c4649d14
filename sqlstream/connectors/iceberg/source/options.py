"""The options of an Iceberg table that is read, as data and read once; Flink's and Spark's connectors call them so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlstream.connectors.iceberg.catalog_rules import wrong_catalog, wrong_names
from sqlstream.connectors.lakehouse.options import metadata_of_changes, several_starts, skipped_changes
from sqlstream.connectors.options import bad_option, duration_us, flag, instant_us, number
from sqlstream_planner.catalog.descriptor import Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import CreateTable

_SOURCE = (Role.SOURCE,)
#: Where reading begins, in the order in which messages name them: one of them at most.
STARTS = ("start-snapshot-id", "start-snapshot-timestamp", "snapshot-id", "as-of-timestamp")
#: Of these the ones that mean the table as it was, and nothing after it.
AS_OF = ("snapshot-id", "as-of-timestamp")
#: The option by which a table gives changes.
CHANGES = "read-change-feed"
SKIP_OVERWRITES, SKIP_DELETES = "streaming-skip-overwrite-snapshots", "streaming-skip-delete-snapshots"

SOURCE_OPTIONS = (
    OptionDef(
        "streaming",
        ValueKind.BOOLEAN,
        "'false': a run ends with the snapshots that it found; 'true': it waits for new ones",
        default="false",
        roles=_SOURCE,
        changes_rows=False,
        paces=True,
    ),
    OptionDef(
        "start-snapshot-id",
        ValueKind.INTEGER,
        "begin with what this snapshot adds; without it with the table as it is",
        roles=_SOURCE,
    ),
    OptionDef(
        "start-snapshot-timestamp",
        ValueKind.TIMESTAMP,
        "begin with what the first snapshot adds that was made then or later (UTC)",
        roles=_SOURCE,
    ),
    OptionDef(
        "snapshot-id",
        ValueKind.INTEGER,
        "read the table as it was at this snapshot, and nothing after it",
        roles=_SOURCE,
    ),
    OptionDef(
        "as-of-timestamp",
        ValueKind.TIMESTAMP,
        "read the table as it was then (UTC), and nothing after it",
        roles=_SOURCE,
    ),
    OptionDef(
        SKIP_OVERWRITES,
        ValueKind.BOOLEAN,
        "pass over snapshots that replace rows, with all that they add; else such a snapshot is an error",
        default="false",
        roles=_SOURCE,
    ),
    OptionDef(
        SKIP_DELETES,
        ValueKind.BOOLEAN,
        "pass over snapshots that only delete rows; else such a snapshot is an error",
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
        "monitor-interval",
        ValueKind.DURATION,
        "look for new snapshots this often ('streaming'); a number is ms",
        default="5 s",
        roles=_SOURCE,
        minimum=1,
        changes_rows=False,
        paces=True,
    ),
)


@dataclass(frozen=True, slots=True)
class IcebergOptions:
    """What the options of a table say; at most one of the four starts is set. Times are µs since 1970, UTC."""

    streaming: bool = False
    start_snapshot: int | None = None
    start_us: int | None = None
    snapshot: int | None = None
    as_of_us: int | None = None
    skips_overwrites: bool = False
    skips_deletes: bool = False
    reads_changes: bool = False
    interval_us: int = 5_000_000

    @property
    def is_as_of(self) -> bool:
        """Whether the table is read as it was once."""
        return self.snapshot is not None or self.as_of_us is not None

    @classmethod
    def read(cls, options: Mapping[str, str]) -> IcebergOptions:
        """Raises DiagnosticError for a value that can't be used."""
        given = [name for name in STARTS if name in options]
        if len(given) > 1:
            raise bad_option(given[1], options[given[1]], f"no such option beside `{given[0]}`")
        interval = duration_us(options, "monitor-interval")
        return cls(
            streaming=flag(options, "streaming"),
            start_snapshot=number(options, "start-snapshot-id"),
            start_us=instant_us(options, "start-snapshot-timestamp", None),
            snapshot=number(options, "snapshot-id"),
            as_of_us=instant_us(options, "as-of-timestamp", None),
            skips_overwrites=flag(options, SKIP_OVERWRITES),
            skips_deletes=flag(options, SKIP_DELETES),
            reads_changes=flag(options, CHANGES),
            interval_us=5_000_000 if interval is None else interval,
        )


def wrong_table(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """What is wrong with a table's options together."""
    yield from wrong_catalog(table, settings)
    yield from wrong_names(table, settings)
    given = {option.key: option for option in table.options}
    yield from several_starts(table, STARTS)
    as_of = next((name for name in AS_OF if name in given), None)
    if as_of is not None and settings.get("streaming") is True:
        yield Diagnostic(
            "OPT003",
            f"`{as_of}` means the table as it was, of which no new snapshot comes",
            given[as_of].key_span,
            help="leave it out, or leave out 'streaming'; what later snapshots add is read from `start-snapshot-id` on",
        )
    if settings.get(CHANGES) is True:
        skipping = next(
            (name for name in (SKIP_OVERWRITES, SKIP_DELETES) if settings.get(name) is True), None
        )
        if skipping is not None:
            yield skipped_changes(given[skipping].key_span, skipping, CHANGES)
        yield from metadata_of_changes(table, CHANGES)
