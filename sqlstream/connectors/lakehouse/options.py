"""Options of every table in a lake. The planner has them, so nothing is imported here that is slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import Diagnostic, Span

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import CreateTable

_SINK = (Role.SINK,)
AUTO_COMPACTION = OptionDef(
    "auto-compaction",
    ValueKind.BOOLEAN,
    "once a partition has 50 files below half of 'compaction.file-size', make them larger ones",
    default="false",
    roles=_SINK,
    changes_output=False,
)
COMPACTED_SIZE = OptionDef(
    "compaction.file-size",
    ValueKind.BYTES,
    "the size of files that are made of small ones",
    default="128 mb",
    roles=_SINK,
    minimum=1,
    changes_output=False,
)
COMMIT_INTERVAL = OptionDef(
    "sink.commit-interval",
    ValueKind.DURATION,
    "how long an epoch's rows may wait for those of the next ones, so that several epochs are one commit",
    default="0 s",
    roles=_SINK,
    maximum=86_400_000_000,  # others may delete files that no commit names after some days
    changes_output=False,
)
#: All of a sink.
SINK_OPTIONS = (COMMIT_INTERVAL, AUTO_COMPACTION, COMPACTED_SIZE)


def several_starts(table: CreateTable, starts: Sequence[str]) -> Iterator[Diagnostic]:
    """What is wrong with a table that says more than once where reading begins; `starts` are the options that do."""
    given = {option.key: option for option in table.options}
    first, *others = [name for name in starts if name in given] or [""]
    for name in others:
        yield Diagnostic(
            "OPT003",
            f"`{first}` and `{name}` both say where reading begins",
            given[name].key_span,
            help="leave one out",
        )


def skipped_changes(span: Span, skipping: str, reading: str) -> Diagnostic:
    """What is wrong with a table whose changes are read, and passed over; `span` is where the option `skipping` is."""
    return Diagnostic(
        "OPT003", f"`{skipping}` passes over what `{reading}` reads", span, help="leave one out"
    )


def metadata_of_changes(table: CreateTable, reading: str) -> Iterator[Diagnostic]:
    """What is wrong with columns of a table whose changes are read, by the option `reading`."""
    from sqlstream_planner.sql.statements import MetadataColumn  # not in tasks, where this is loaded, too

    for column in table.columns:
        if isinstance(column, MetadataColumn):
            yield Diagnostic(
                "CAT008",
                f"`{column.name}` is METADATA, which changes have none of",
                column.span,
                notes=(
                    "a row that goes is written in another file, and of another version, than when it came",
                ),
                help=f"leave the column out, or `{reading}`",
            )
