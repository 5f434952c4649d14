"""Admission: towards the target time within bounds, and shared by what waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sqlstream.runtime.admission import LEAST_ROWS, MOST_ROWS, Admission


def test_it_settles_at_the_target_time() -> None:
    admission = Admission(target_s=2.0, rows=1_000)
    for _ in range(20):
        admission = admission.after(admission.limit, 0.15 + admission.limit / 500_000)
    assert 1.5 < 0.15 + admission.limit / 500_000 < 2.5


def test_a_fixed_limit_stays() -> None:
    assert Admission(fixed_rows=7).after(7, 1000.0).limit == 7


def test_a_small_epoch_says_nothing_about_big_ones() -> None:
    admission = Admission(rows=100_000)
    assert admission.after(10, 0.2) == admission
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
