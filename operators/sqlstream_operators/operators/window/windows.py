"""Windows as arithmetic on int64 µs: slices, the windows that share a slice, and when a window is closed.

Slices and windows are half-open, [start, end), and known by their ends. All functions are vectorised. They
floor, never truncate, so times before 1970 and negative offsets are ordinary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Expansion:
    """One entry for each (input row, window): the row's index, and the window's bounds in µs."""

    row: npt.NDArray[np.intp]
    start: Int64s
    end: Int64s


def closed_upto(watermark: int, tick: int) -> int:
    """The greatest window end (µs) that is closed at `watermark`; WATERMARK_MIN closes nothing.

    A window with end E is closed at W iff E - tick <= W. A tick below 0 is a delay: rows arrive so long after their time.

    >>> closed_upto(9_000, 1_000), closed_upto(WATERMARK_MIN, 1_000) == WATERMARK_MIN
    (10000, True)
    >>> closed_upto(9_000, -2_000), closed_upto(WATERMARK_MAX, -2_000) == WATERMARK_MAX
    (7000, True)
    """
    if watermark in (WATERMARK_MIN, WATERMARK_MAX):
        return watermark
    return max(min(watermark + tick, WATERMARK_MAX), WATERMARK_MIN)


def closed(end: Int64s, tick: int, watermark: int) -> npt.NDArray[np.bool_]:
    """Which windows with these ends are closed at `watermark`."""
    if watermark == WATERMARK_MIN:
        return np.zeros(len(end), dtype=bool)
    return end <= closed_upto(watermark, tick)


def slice_end(window: WindowSpec, time: Int64s) -> Int64s:
    """The end of the slice that each event time falls in. Raises DataError near the ends of int64."""
    _in_range(window, time)
    width = window.slice_us
    offset = window.offset_us % width
    return time - (time - offset) % width + width


def window_ends_of_slice(window: WindowSpec, ends: Int64s) -> tuple[Int64s, Int64s]:
    """The first and last end of the windows that each slice belongs to; they are `slide_us` apart.

    A slice in the gap between two HOP windows (size < slide) belongs to none: its first is greater than its
    last. Without shared slices a slice is a window and its end the window's. Raises DataError near the ends
    of int64.
    """
    _in_range(window, ends)
    if window.kind is WindowKind.TUMBLE or not window.shared_slices:
        return ends, ends
    size, slide = window.size_us, window.slide_us
    if window.kind is WindowKind.CUMULATE:
        return ends, _cumulate_start(window, ends - window.slice_us) + size
    begin = ends - window.slice_us
    offset = window.offset_us % slide
    last_start = begin - (begin - offset) % slide
    earliest = ends - size
    first_start = earliest + (offset - earliest) % slide
    return first_start + size, last_start + size


def window_start(window: WindowSpec, ends: Int64s) -> Int64s:
    """The start of the window with each end (for CUMULATE: of its cycle)."""
    if window.kind is WindowKind.CUMULATE:
        return _cumulate_start(window, ends - 1)
    return ends - window.size_us


def expand(window: WindowSpec, ends: Int64s, after: int, upto: int) -> Expansion:
    """Every (slice, window) pair whose window ends in (after, upto], ordered by slice, then by window.

    `ends` are slice ends.
    """
    first, _, counts = _restricted(window, ends, after, upto)
    row = np.repeat(np.arange(len(ends)), counts)
    within = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    end = first[row] + within * window.slide_us
    return Expansion(row, window_start(window, end), end)


def count_windows(window: WindowSpec, ends: Int64s, after: int, upto: int) -> Int64s:
    """How many entries `expand` would make for each slice."""
    return _restricted(window, ends, after, upto)[2]


def _restricted(window: WindowSpec, ends: Int64s, after: int, upto: int) -> tuple[Int64s, Int64s, Int64s]:
    """First end, last end and number of the windows of each slice that end in (after, upto]."""
    first, last = window_ends_of_slice(window, ends)
    slide = window.slide_us
    if window.kind is WindowKind.TUMBLE or not window.shared_slices:
        return first, last, ((first > after) & (first <= upto)).astype(np.int64)
    # Differences of a slice's ends are at most the window's size, so these can't overflow; `after` and `upto`
    # may be the ends of int64, so they are clamped before they are subtracted.
    skipped = (np.clip(after, first - slide, last) - first) // slide + 1
    first = first + skipped * slide
    steps = (np.clip(upto, first - slide, np.maximum(last, first - slide)) - first) // slide
    return first, last, np.maximum(steps + 1, 0)


def _cumulate_start(window: WindowSpec, time: Int64s) -> Int64s:
    return time - (time - window.offset_us % window.size_us) % window.size_us


def _in_range(window: WindowSpec, times: Int64s) -> None:
    if not len(times):
        return
    margin = 2 * (window.size_us + window.slide_us)
    low, high = int(times.min()), int(times.max())
    for time in (low, high):
        if not WATERMARK_MIN + margin <= time <= WATERMARK_MAX - margin:
            raise DataError(f"event time {time} µs is too extreme to be in a window")


def next_window_end(window: WindowSpec, after: int) -> int:
    """The earliest possible window end (µs) after `after`; `after` itself at the ends of int64."""
    if after in (WATERMARK_MIN, WATERMARK_MAX):
        return after
    anchor = window.offset_us + (0 if window.kind is WindowKind.CUMULATE else window.size_us)
    return after + window.slide_us - (after - anchor) % window.slide_us


def dead_slices_upto(window: WindowSpec, upto: int) -> int:
    """The greatest slice end that no window needs when all that end up to `upto` are closed."""
    if upto in (WATERMARK_MIN, WATERMARK_MAX) or not window.shared_slices:
        return upto
    open_end = next_window_end(window, upto)
    if window.kind is WindowKind.CUMULATE:
        return open_end - 1 - (open_end - 1 - window.offset_us) % window.size_us
    return open_end - window.size_us


def window_start_sql(window: WindowSpec, end: str) -> str:
    """DuckDB SQL for the start (BIGINT µs) of the window whose end is the BIGINT expression `end`."""
    if window.kind is not WindowKind.CUMULATE:
        return f"({end} - {window.size_us})"
    size, offset = window.size_us, window.offset_us % window.size_us
    within = f"((({end} - 1 - {offset}) % {size}) + {size}) % {size}"
    return f"({end} - 1 - {within})"
