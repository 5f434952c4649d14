"""The slice arithmetic against Flink's definitions of windows, written naively."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.operators.window.windows import (
    closed,
    closed_upto,
    count_windows,
    dead_slices_upto,
    expand,
    next_window_end,
    slice_end,
    window_ends_of_slice,
    window_start,
    window_start_sql,
)
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec

DUCK = DuckSession()


def naive_windows(window: WindowSpec, time: int) -> set[tuple[int, int]]:
    """All windows [start, end) that contain `time`, found by trying every start nearby."""
    size, slide, offset = window.size_us, window.slide_us, window.offset_us
    found: set[tuple[int, int]] = set()
    for start in range(time - size - slide, time + 1):
        if window.kind is WindowKind.CUMULATE:
            if (start - offset) % size == 0:
                ends = range(start + slide, start + size + 1, slide)
                found.update((start, end) for end in ends if start <= time < end)
        elif (start - offset) % slide == 0 and start <= time < start + size:
            found.add((start, start + size))
    return found


@st.composite
def windows(draw: st.DrawFn) -> WindowSpec:
    kind = draw(st.sampled_from([WindowKind.TUMBLE, WindowKind.HOP, WindowKind.CUMULATE]))
    slide = draw(st.integers(1, 12))
    size = slide
    if kind is WindowKind.CUMULATE:
        size = slide * draw(st.integers(1, 6))
    elif kind is WindowKind.HOP:
        size = draw(st.integers(1, 30))
    return WindowSpec(kind, size, slide, draw(st.integers(-40, 40)))


@settings(max_examples=100, deadline=None)
@given(
    windows(),
    st.lists(st.integers(-60, 60), min_size=1, max_size=20),
    st.integers(-80, 80) | st.just(WATERMARK_MIN),
    st.integers(-80, 80) | st.sampled_from([WATERMARK_MIN, WATERMARK_MAX]),
)
def test_a_time_is_in_exactly_the_windows_of_its_slice(
    window: WindowSpec, times: list[int], after: int, upto: int
) -> None:
    ends = slice_end(window, np.array(times, dtype=np.int64))
    assert all(end - window.slice_us <= time < end for time, end in zip(times, ends.tolist(), strict=True))
    made = expand(window, ends, after, upto)
    expected = [
        (row, start, end)
        for row, time in enumerate(times)
        for start, end in sorted(naive_windows(window, time), key=lambda bounds: bounds[1])
        if after < end <= upto
    ]
    assert list(zip(made.row.tolist(), made.start.tolist(), made.end.tolist(), strict=True)) == expected
    counts = np.bincount([row for row, _, _ in expected], minlength=len(times))
    assert count_windows(window, ends, after, upto).tolist() == counts.tolist()
    first, last = window_ends_of_slice(window, ends)
    for time, low, high in zip(times, first.tolist(), last.tolist(), strict=True):
        all_ends = sorted(end for _, end in naive_windows(window, time))
        assert (all_ends == []) if low > high else ([low, high] == [all_ends[0], all_ends[-1]])


@pytest.mark.parametrize("kind", [WindowKind.HOP, WindowKind.CUMULATE])
def test_without_shared_slices_a_slice_is_one_window(kind: WindowKind) -> None:
    window = WindowSpec(kind, 12, 4, offset_us=-3, shared_slices=False)
    pairs = sorted(naive_windows(window, 20))
    ends = np.array([end for _, end in pairs], dtype=np.int64)
    made = expand(window, ends, WATERMARK_MIN, WATERMARK_MAX)
    assert list(zip(made.start.tolist(), made.end.tolist(), strict=True)) == pairs
    assert window_start(window, ends).tolist() == [start for start, _ in pairs]
    assert expand(window, ends, int(ends[0]), WATERMARK_MAX).end.tolist() == ends[1:].tolist()


def test_closed_at_the_ends_of_int64() -> None:
    ends = np.array([-(10**18), 0, 1_000, 2_000, 10**18], dtype=np.int64)
    assert not closed(ends, 1_000, WATERMARK_MIN).any()
    assert closed(ends, 1_000, WATERMARK_MAX).all()
    assert closed(ends, 1_000, 0).tolist() == [True, True, True, False, False]
    assert closed_upto(WATERMARK_MAX - 1, 1_000) == WATERMARK_MAX


@pytest.mark.parametrize("time", [WATERMARK_MIN, -WATERMARK_MAX, WATERMARK_MAX])
def test_infinite_timestamps_are_refused(time: int) -> None:
    with pytest.raises(DataError, match=str(time)):
        slice_end(WindowSpec(WindowKind.TUMBLE, 10, 10), np.array([0, time], dtype=np.int64))


@settings(max_examples=100, deadline=None)
@given(windows(), st.integers(-60, 60))
def test_what_closed_windows_leave_behind(window: WindowSpec, upto: int) -> None:
    """The next end is that of some window; a slice is dead if and only if no open window has its rows."""
    near = range(upto - 90, upto + 90)
    found = {(start, end) for time in near for start, end in naive_windows(window, time)}
    assert next_window_end(window, upto) == min(end for _, end in found if end > upto)
    dead = dead_slices_upto(window, upto)
    for time in range(upto - 40, upto + 40):
        end = int(slice_end(window, np.array([time], np.int64))[0])
        is_open = any(e > upto for _, e in naive_windows(window, time))
        if naive_windows(window, time):
            assert (end > dead) == is_open


def test_the_ends_of_int64_stay() -> None:
    window = WindowSpec(WindowKind.HOP, 30, 10, 0)
    for mark in (WATERMARK_MIN, WATERMARK_MAX):
        assert next_window_end(window, mark) == dead_slices_upto(window, mark) == mark


@settings(max_examples=60, deadline=None)
@given(windows(), st.integers(-60, 60))
def test_sql_for_the_start_of_a_window(window: WindowSpec, time: int) -> None:
    for start, end in naive_windows(window, time):
        [row] = DUCK.query(f"SELECT {window_start_sql(window, f'({end})')} AS s").to_pylist()
        assert row["s"] == start
