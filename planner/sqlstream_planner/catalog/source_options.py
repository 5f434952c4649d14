"""The options that every table that is read has, whatever its connector: how its watermark goes on."""

from __future__ import annotations

from sqlstream_planner.catalog.descriptor import Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_IDLE = "scan.watermark.idle-timeout"
_AHEAD = "scan.watermark.max-ahead"

#: They say when windows close, not which rows there are. The connector isn't handed them.
SOURCE_OPTIONS = (
    OptionDef(
        _IDLE,
        ValueKind.DURATION,
        "the table holds no watermark back once it was idle for so long; 0: never",
        roles=(Role.SOURCE,),
        changes_rows=False,
        changes_output=False,
    ),
    OptionDef(
        _AHEAD,
        ValueKind.DURATION,
        "a row further ahead of the clock than this does not move the watermark; 0: every row does (ours)",
        default="1 d",
        roles=(Role.SOURCE,),
        minimum=0,
        changes_rows=False,
        changes_output=False,
    ),
)


def idle_timeout_us(table: Settings, job: Settings) -> int | None:
    """After how long an idle source steps aside, µs; None: never. What the table says goes before what the file says."""
    found = table.get(_IDLE, job.get("table.exec.source.idle-timeout"))
    return found if isinstance(found, int) and found > 0 else None


def max_ahead_us(table: Settings) -> int | None:
    """How far ahead of the clock a watermark may be, µs; None: as far as the rows say."""
    found = table.get(_AHEAD)
    return found if isinstance(found, int) and found > 0 else None
