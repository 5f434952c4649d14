"""The watermarks of an operator in one epoch, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from .plain_data import PlainRow

#: Watermark values that mean "nothing read yet" and "the input is complete", in µs.
WATERMARK_MIN = -(2**63)
WATERMARK_MAX = 2**63 - 1

#: The event times that rows may have, µs: the years 0 to 9999, as Flink's TIMESTAMP has them. Windows of any length around
#: them, delays and bounds of joins can be computed; around times at the ends of what DuckDB has they can't.
EARLIEST_EVENT_US = -62_167_219_200_000_000
LATEST_EVENT_US = 253_402_300_799_999_999
#: Among operators, what stands for none: rows whose event time is too far away come to no operator.
OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Watermarks(PlainRow):
    """The watermarks that apply to one operator in one epoch, µs.

    `previous` is the close watermark of the epoch before, `late` decides what is late in this epoch, `close`
    decides which windows are emitted in it: the rows that the epoch reads raise it, to `most` at most.
    previous <= late <= close.
    """

    previous: int = WATERMARK_MIN
    late: int = WATERMARK_MIN
    close: int = WATERMARK_MIN
    most: int = WATERMARK_MIN

    def __post_init__(self) -> None:
        if not self.previous <= self.late <= self.close:
            raise ValueError(f"watermarks go backwards: {self.previous}, {self.late}, {self.close}")

    def raised(self, read_up_to: int | None) -> Watermarks:
        """The watermarks once rows up to a watermark (µs; None: no row) have been read in the epoch.

        >>> marks = Watermarks(10, 10, 10, most=50)
        >>> marks.raised(40).close, marks.raised(5).close, marks.raised(99).close, marks.raised(None).close
        (40, 10, 50, 10)
        """
        if read_up_to is None:
            return self
        return replace(self, close=max(self.close, min(read_up_to, self.most)))


def read_up_to(before: Mapping[str, int], read: Mapping[str, int]) -> int | None:
    """Up to which watermark (µs) a source is read of which lanes were `read` in an epoch; None: not beyond what was.

    `before` are the lanes that its watermark is the least of, with what was seen of each before; none: it is one lane.

    >>> read_up_to({"a": 10, "b": 5}, {"a": 40, "b": 30}), read_up_to({"a": 10, "b": 5}, {"a": 40})
    (30, 5)
    >>> read_up_to({}, {"": 40}), read_up_to({}, {})
    (40, None)
    """
    if not before:
        return max(read.values(), default=None)
    least = min(max(mark, read.get(lane, WATERMARK_MIN)) for lane, mark in before.items())
    return None if least <= WATERMARK_MIN else least


def clock_watermark(now_us: int) -> int:
    """The watermark of process time in an epoch whose clock says `now_us` (0: there is no epoch).

    >>> clock_watermark(1_000), clock_watermark(0) == WATERMARK_MIN
    (999, True)
    """
    return now_us - 1 if now_us else WATERMARK_MIN
