"""What the runtime says about its work, as plain data; the command line renders it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlstream.runtime.loop.epoch import Epoch

_EPOCH_0 = datetime(1970, 1, 1, tzinfo=UTC)
#: What dead letters are called on the terminal, where it is not their own name.
_KINDS = {"no-time": "without event time", "failed": "results that fail"}


@dataclass(frozen=True, slots=True)
class EpochReport:
    """One committed epoch, and how the run did it.

    `lag` rows waiting by source (None: unknown); `state_rows` and `state_bytes` live in all shards; `seconds` by step of the
    loop (`plan`, `job`, `prepare`, `publish`, `commit`, `collect`); `replayed`: planned by an earlier run. `bounded`: all
    sources have an end. `store_requests` were sent to object stores since the epoch before, by all processes.
    """

    facts: Epoch
    lag: Mapping[str, int | None]
    state_rows: int
    state_bytes: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    replayed: bool = False
    bounded: bool = False
    store_requests: int = 0

    @property
    def epoch(self) -> int:
        """The number of the epoch."""
        return self.facts.number

    @property
    def rows_read(self) -> Mapping[str, int]:
        """The rows that were read, by source."""
        return self.facts.rows_read

    @property
    def rows_written(self) -> Mapping[str, int]:
        """The rows, or changes, by sink."""
        return self.facts.rows_written

    @property
    def dead_letters(self) -> Mapping[str, int]:
        """The rows that could not be used, by kind."""
        return self.facts.manifest.dead_letters

    @property
    def watermarks(self) -> Mapping[str, int | str | None]:
        """The close watermark by source; see `Epoch.watermarks`."""
        return self.facts.watermarks

    @property
    def metrics(self) -> Mapping[str, int]:
        """Sums over all tasks."""
        return self.facts.manifest.metrics

    @property
    def reemitted(self) -> tuple[str, ...]:
        """The sinks that were given the whole result of the state, in an epoch that read nothing."""
        return self.facts.plan.reemitted

    @property
    def ahead(self) -> Mapping[str, int]:
        """Rows by source that are too far ahead of the clock to move the watermark."""
        return self.facts.ahead

    @property
    def uncounted(self) -> Mapping[str, Mapping[str, int]]:
        """Rows that were late or had no time, by table and operator."""
        return self.facts.outcome.uncounted

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
            "restated": list(self.reemitted),
            "rows_ahead": dict(self.ahead),
            "store_requests": self.store_requests,
        }


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """What waits in the state of one operator.

    `what` is "window", "session" or "row", `number` how many there are (None: too many rows to count), `rows` how many rows
    of state there are, about. `until_us` is when the last window ends, or the watermark for which the last row waits (µs;
    None: not known). `watermark_us` is where the operator's watermark stands.
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
    `skipped` are the files that this run or one before left out by `--skip-file`; `left_out` what else is not read by the
    user's consent: what was gone (`--accept lost:TABLE`), or an option says.
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
    left_out: tuple[str, ...] = ()

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
            "left_out": list(self.left_out),
            **({} if self.unfinished is None else {"unfinished_epoch": self.unfinished}),
            **({"left_open": [one.to_json() for one in self.left_open]} if self.left_open else {}),
        }


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


def counted_rows(number: int, what: str) -> str:
    """A number of rows or changes.

    >>> counted_rows(1, "row"), counted_rows(21_000, "change")
    ('1 row', '21,000 changes')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def dead_letter_kinds(dead: Mapping[str, int]) -> list[str]:
    """How many dead letters there are of each kind, where there are any.

    >>> dead_letter_kinds({"no-time": 2, "late": 0, "malformed": 1_000})
    ['1,000 malformed', '2 without event time']
    """
    return [f"{count:,} {_KINDS.get(kind, kind)}" for kind, count in sorted(dead.items()) if count]
