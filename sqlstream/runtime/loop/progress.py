"""What the runtime says about its work, as plain data; the command line renders it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN

_EPOCH_0 = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class EpochReport:
    """One committed epoch.

    `rows_read` and `rows_written` by source and sink; `dead_letters` rows by kind; `watermarks` the close
    watermark by source, µs (None: nothing read yet; "end": the input is complete); `lag` rows waiting by
    source (None: unknown); `state_rows` and `state_bytes` live in all shards; `seconds` by step of the loop
    (`plan`, `job`, `prepare`, `publish`, `commit`, `collect`); `replayed`: planned by an earlier run.
    `restated`: sinks that were given the whole answer of the state, in an epoch that read nothing. `ahead`: rows by source
    that are too far ahead of the clock to move the watermark, where there are any. `uncounted`: by table and operator, rows
    that were late or had no time. `bounded`: all sources have an end.
    """

    epoch: int
    rows_read: Mapping[str, int]
    rows_written: Mapping[str, int]
    dead_letters: Mapping[str, int]
    watermarks: Mapping[str, int | str | None]
    lag: Mapping[str, int | None]
    state_rows: int
    state_bytes: int
    metrics: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    replayed: bool = False
    restated: tuple[str, ...] = ()
    ahead: Mapping[str, int] = field(default_factory=dict)
    uncounted: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    bounded: bool = False

    @property
    def total_seconds(self) -> float:
        """How long the epoch took."""
        return sum(self.seconds.values())

    def to_json(self) -> dict[str, Any]:
        """One JSON object for `--json`."""
        return {
            "epoch": self.epoch,
            "rows_read": dict(self.rows_read),
            "rows_written": dict(self.rows_written),
            "dead_letters": dict(self.dead_letters),
            "watermarks": dict(self.watermarks),
            "lag": dict(self.lag),
            "state_rows": self.state_rows,
            "state_bytes": self.state_bytes,
            "metrics": dict(self.metrics),
            "seconds": {name: round(value, 4) for name, value in self.seconds.items()},
            "replayed": self.replayed,
            "restated": list(self.restated),
            "rows_ahead": dict(self.ahead),
        }


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """What waits in the state of one operator.

    `what` is "window", "session" or "row", `number` how many there are (None: too many rows to count), `rows` how many rows
    of state there are, about. `until_us` is when the last window ends (µs; None: not known, or of rows). `watermark_us` is
    where the operator's watermark stands.
    """

    operator: str
    what: str
    number: int | None
    rows: int
    until_us: int | None
    watermark_us: int

    def to_json(self) -> dict[str, Any]:
        """One JSON object for `--json`."""
        return {
            "operator": self.operator,
            "what": self.what,
            "number": self.number,
            "state_rows": self.rows,
            "until": self.until_us,
            "watermark": self.watermark_us,
        }


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended: `outcome` is `exhausted`, `stopped` or `nothing new`; totals are of this run.

    `unfinished` is the epoch that was under way when the run was stopped together with Spark: the next run does it again.
    `left_open` is what waits for the watermark at the end of the input, for the next run to go on with.
    `skipped` are the files that this run or one before was told to leave out.
    """

    outcome: str
    last_epoch: int | None
    epochs: int
    rows_read: Mapping[str, int]
    rows_written: Mapping[str, int]
    dead_letters: Mapping[str, int]
    seconds: float
    unfinished: int | None = None
    left_open: tuple[LeftOpen, ...] = ()
    skipped: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """One JSON object for `--json`."""
        return {
            "outcome": self.outcome,
            "last_epoch": self.last_epoch,
            "epochs": self.epochs,
            "rows_read": dict(self.rows_read),
            "rows_written": dict(self.rows_written),
            "dead_letters": dict(self.dead_letters),
            "seconds": round(self.seconds, 3),
            "skipped_files": list(self.skipped),
            **({} if self.unfinished is None else {"unfinished_epoch": self.unfinished}),
            **({"left_open": [one.to_json() for one in self.left_open]} if self.left_open else {}),
        }


def shown_watermark(value: int) -> int | str | None:
    """A watermark for a report: µs, None before the first row, "end" when the input is complete."""
    if value <= WATERMARK_MIN:
        return None
    return "end" if value >= WATERMARK_MAX else value


def instant(microseconds: int) -> str:
    """A time in UTC.

    >>> instant(-1_000)
    '1969-12-31 23:59:59.999'
    """
    try:
        value = _EPOCH_0 + timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} µs"
    text = value.strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{value.microsecond:06d}".rstrip("0") if value.microsecond else text
