"""How event time is cut into windows. Importable without Arrow."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum


class WindowKind(StrEnum):
    """The window table-valued functions."""

    TUMBLE = "TUMBLE"
    HOP = "HOP"
    CUMULATE = "CUMULATE"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True)
class WindowSpec:
    """A window function over event time; all lengths in µs.

    `slide_us` is the slide of HOP, the step of CUMULATE, and equals `size_us` for TUMBLE. A window
    [start, end) has start = offset (mod slide) for TUMBLE and HOP; a CUMULATE window starts at
    offset (mod size) and ends at a multiple of the step after its start, at most `size_us` later.
    With `shared_slices` the state keeps one row per key and slice and a window is put together from its
    slices when it closes; without, each window is its own slice (a row is copied into every window), which
    keeps arrival order inside a window for aggregates that are sensitive to it. Of SESSION `size_us` is the gap; its
    windows may end at any time (`slide_us` is 1), and share nothing.

    >>> WindowSpec(WindowKind.HOP, size_us=10, slide_us=4).slice_us
    2
    """

    kind: WindowKind
    size_us: int
    slide_us: int
    offset_us: int = 0
    shared_slices: bool = True

    def __post_init__(self) -> None:
        if self.size_us <= 0 or self.slide_us <= 0:
            raise ValueError("window size and slide must be positive")
        if self.kind is WindowKind.TUMBLE and self.slide_us != self.size_us:
            raise ValueError("a TUMBLE window's slide is its size")
        if self.kind is WindowKind.CUMULATE and self.size_us % self.slide_us:
            raise ValueError("a CUMULATE window's size is a multiple of its step")
        if self.kind is WindowKind.SESSION and (self.slide_us, self.offset_us, self.shared_slices) != (
            1,
            0,
            False,
        ):
            raise ValueError("a SESSION window has nothing but a gap")

    @property
    def slice_us(self) -> int:
        """The length of a shared slice in µs."""
        return math.gcd(self.size_us, self.slide_us)

    @property
    def is_sliced(self) -> bool:
        """Whether a window is put together from several slices."""
        return self.shared_slices and self.slice_us != self.size_us

    def ends_of_slices(self, ends: Iterable[int]) -> Iterator[int]:
        """The ends of the windows that slices are in, given the ends of these, µs; a window may come several times.

        >>> sorted(set(WindowSpec(WindowKind.HOP, size_us=10, slide_us=5).ends_of_slices([10, 15])))
        [10, 15, 20]
        """
        for end in ends:
            if not self.is_sliced:
                yield end
            elif self.kind is WindowKind.CUMULATE:
                last = end + -(end - self.offset_us) % self.size_us
                yield from range(end, last + 1, self.slide_us)
            else:
                first = end + -(end - self.size_us - self.offset_us) % self.slide_us
                yield from range(first, end - self.slice_us + self.size_us + 1, self.slide_us)
