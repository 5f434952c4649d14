"""Admission: towards the target time within bounds, and shared by what waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlstream.runtime.loop.admission import LEAST_ROWS, MOST_ROWS, Admission, Pace, aligned


def test_it_settles_at_the_target_time() -> None:
    admission = Admission(target_s=2.0, rows=1_000)
    for _ in range(20):
        admission = admission.after(admission.limit, 0.15 + admission.limit / 500_000)
    assert 1.5 < 0.15 + admission.limit / 500_000 < 2.5


@pytest.mark.parametrize("overhead_s", [0.1, 1.5, 3.0, 20.0])
def test_overhead_does_not_shrink_epochs_to_nothing(overhead_s: float) -> None:
    """On a slow machine every epoch is over the target: most of its time must still go to rows."""
    admission = Admission(target_s=2.0)
    for _ in range(60):
        admission = admission.after(admission.limit, overhead_s + admission.limit / 200_000)
    assert (
        0.4 * max(2.0, 2 * overhead_s)
        < admission.limit / 200_000 + overhead_s
        < 1.3 * max(2.0, 2 * overhead_s)
    )


@pytest.mark.parametrize("overhead_s", [2.1, 3.0, 20.0])
def test_a_slow_run_whose_input_trickled_in_can_catch_up(overhead_s: float) -> None:
    """All its epochs were small and over the target, so none was small beside another: a lag must not be read in crumbs."""
    admission = Admission(target_s=2.0)
    for _ in range(10):
        admission = admission.after(50, overhead_s)
    assert admission.limit == LEAST_ROWS
    for _ in range(20):
        admission = admission.after(admission.limit, overhead_s + admission.limit / 200_000)
    assert 1.4 * overhead_s < admission.limit / 200_000 + overhead_s < 2.6 * overhead_s


def test_one_slow_small_epoch_is_forgotten() -> None:
    admission = Admission(target_s=2.0).after(500_000, 2.0).after(1_000, 30.0)
    for _ in range(20):
        admission = admission.after(admission.limit, 0.2 + admission.limit / 500_000)
    assert 1.5 < 0.2 + admission.limit / 500_000 < 2.5


def test_a_fixed_limit_stays() -> None:
    assert Admission(fixed_rows=7).after(7, 1000.0).limit == 7


def test_a_small_epoch_says_nothing_about_big_ones() -> None:
    admission = Admission(rows=100_000)
    assert admission.after(10, 0.2).limit == admission.limit
    assert admission.after(0, 5.0) == admission
    assert admission.after(10, 9.0).limit < 100_000


@given(st.lists(st.tuples(st.integers(0, 10**9), st.floats(0, 1e4)), max_size=30))
def test_it_stays_within_bounds(history: list[tuple[int, float]]) -> None:
    admission = Admission()
    for rows, seconds in history:
        after = admission.after(rows, seconds)
        assert LEAST_ROWS <= after.limit <= MOST_ROWS
        assert after.limit <= 4 * admission.limit
        admission = after


@given(
    st.dictionaries(st.sampled_from("abcd"), st.none() | st.integers(0, 10**12), min_size=1),
    st.integers(1, 10**6),
)
def test_shares_are_within_the_limit_and_proportional(waiting: dict[str, int | None], limit: int) -> None:
    shares = Admission(fixed_rows=limit, files=3).share(waiting, tasks=5)
    assert shares.keys() == waiting.keys()
    rows = {name: share.rows or 0 for name, share in shares.items()}
    assert all(n >= 1 for n in rows.values())  # nobody starves
    assert sum(rows.values()) <= limit + len(rows)
    known = sorted((n, rows[name]) for name, n in waiting.items() if n is not None)
    assert [share for _, share in known] == sorted(share for _, share in known)
    assert {(share.files, share.tasks) for share in shares.values()} == {(3, 5)}


def test_sources_that_meet_in_an_operator_go_to_the_same_event_time() -> None:
    waiting = {"behind": 1_000, "ahead": 100_000, "other": 101_000}
    paces = {"behind": Pace(0, 10.0), "ahead": Pace(5_000, 1.0)}
    shares = Admission(fixed_rows=2_000).share(waiting, 4, paces, [frozenset({"behind", "ahead"})])
    assert shares["other"].rows == 1_000
    assert shares["behind"].rows == 545  # 0 + 545 * 10 = 5,000 + 454, about
    assert shares["ahead"].rows == 454


def test_a_source_with_nothing_waiting_holds_nobody_back() -> None:
    paces = {"idle": Pace(0, 1.0), "busy": Pace(10**9, 1.0)}
    shares = Admission(fixed_rows=100).share({"idle": 0, "busy": 50}, 4, paces, [frozenset(paces)])
    assert shares["busy"].rows == 100


@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.tuples(st.integers(-(10**15), 10**15), st.floats(1e-6, 1e12), st.none() | st.integers(1, 10**9)),
        min_size=2,
    ),
    st.integers(1, 10**7),
)
def test_aligned_shares_fit_and_end_together(
    sources: dict[str, tuple[int, float, int | None]], pool: int
) -> None:
    paces = {name: Pace(at, us) for name, (at, us, _) in sources.items()}
    waiting = {name: left for name, (_, _, left) in sources.items()}
    rows = aligned(pool, paces, waiting)
    assert sum(rows.values()) <= pool
    ends = {name: pace.at_us + rows[name] * pace.us_per_row for name, pace in paces.items()}
    going = [
        name for name in rows if rows[name] and (waiting[name] is None or rows[name] < (waiting[name] or 0))
    ]
    for one in going:
        for other in going:
            step = max(paces[one].us_per_row, paces[other].us_per_row)
            assert abs(ends[one] - ends[other]) <= 1.01 * step + 1e-9 * abs(ends[one])
    assert Pace.between(5, 5, 3) is None
    assert Pace.between(5, 11, 3) == Pace(11, 2.0)
