"""The arithmetic of sessions against a definition that looks at every pair."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream_operators.operators.window.sessions import Sessions, merged
from tests.examples import examples

_BOUNDED = settings(max_examples=examples(30), deadline=None)
Piece = tuple[int, int, int]  # partition, first, last

pieces = st.tuples(st.integers(0, 2), st.integers(-20, 20), st.integers(0, 8)).map(
    lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2])
)


def meet(one: Piece, other: Piece, gap: int) -> bool:
    """Flink's `TimeWindow.intersects` of [first, last + gap): windows that only touch do."""
    return one[0] == other[0] and one[1] <= other[2] + gap and other[1] <= one[2] + gap


@given(st.lists(pieces, max_size=12), st.integers(1, 6))
@example([(0, 0, 0), (0, 10, 10), (0, 5, 5)], 5)  # one in the middle touches both
@example([(0, 0, 9), (0, 1, 1), (0, 12, 12)], 3)  # one inside of another does not end it
@example([(0, 0, 0), (0, 5, 5)], 4)
@_BOUNDED
def test_pieces_that_meet_are_one_session(given_: list[Piece], gap: int) -> None:
    columns = [np.array([piece[n] for piece in given_], np.int64) for n in range(3)]
    made, number = merged(Sessions(*columns), gap)
    groups: list[set[int]] = []
    for n, piece in enumerate(given_):
        met = [g for g in groups if any(meet(piece, given_[m], gap) for m in g)]
        groups = [g for g in groups if g not in met] + [{n}.union(*met)]
    expected = sorted(
        (
            given_[min(g)][0],
            min(given_[n][1] for n in g),
            max(given_[n][2] for n in g),
            sorted(g),
        )
        for g in groups
    )
    found = [
        (int(part), int(first), int(last), np.flatnonzero(number == n).tolist())
        for n, (part, first, last) in enumerate(zip(made.part, made.first, made.last, strict=True))
    ]
    assert found == expected
