"""The counter-based functions: pinned values (any change would change every seeded test), bounds, spread."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream.connectors.generators.randomness import (
    big_ints,
    characters,
    happens,
    numbers,
    stream_key,
    uniform_doubles,
    uniform_ints,
    words,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
KEYS = st.integers(0, (1 << 64) - 1)

PINNED_DICE = [6, 3, 1, 1]
PINNED_INT64 = [-1478861097467027511, 7047080995384433728, 1078412720614623980, 740264374230832002]
PINNED_DOUBLES = [0.9198307792660975, 0.38202302624385565, 0.05846087072631889, 0.04012981213773448]
PINNED_TEXT = b"bcbccbabaaaacaaa"
PINNED_BIG = [11195837533990613851532264850999817422]


def test_words_are_splitmix64() -> None:
    # Reference output of SplitMix64 with the state 1234567.
    assert words(1234567, numbers(0, 5)).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_pinned_values() -> None:
    counters = numbers(41, 4)
    assert uniform_ints(7, counters, 1, 6).tolist() == PINNED_DICE
    assert uniform_ints(7, counters, -(1 << 63), (1 << 63) - 1).tolist() == PINNED_INT64
    assert uniform_doubles(7, counters).tolist() == PINNED_DOUBLES
    assert bytes(characters(7, counters, np.array([3, 0, 9, 4]), b"abc")) == PINNED_TEXT
    assert big_ints(7, counters[:1], 0, 10**38 - 1) == PINNED_BIG


def test_words_are_what_plain_integers_give() -> None:
    def reference(key: int, counter: int) -> int:
        mask = (1 << 64) - 1
        x = (key + (counter + 1) * 0x9E3779B97F4A7C15) & mask
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
        return x ^ (x >> 31)

    key = stream_key(3, "x")
    assert words(key, numbers(10**15, 50)).tolist() == [reference(key, 10**15 + i) for i in range(50)]


@settings(max_examples=100)
@given(key=KEYS, first=st.integers(0, 1 << 60), bounds=st.tuples(INT64, INT64).map(sorted))
def test_uniform_ints_scale_exactly_and_alike_for_scalars_and_arrays(
    key: int, first: int, bounds: list[int]
) -> None:
    low, high = bounds
    counters = numbers(first, 8)
    drawn = uniform_ints(key, counters, low, high).tolist()
    assert all(low <= value <= high for value in drawn)
    span = high - low + 1
    if 1 << 16 < span < 1 << 64:
        assert drawn == [low + ((word * span) >> 64) for word in words(key, counters).tolist()]
        lows, highs = np.full(8, low, dtype=np.int64), np.full(8, high, dtype=np.int64)
        assert uniform_ints(key, counters, lows, highs).tolist() == drawn


@settings(max_examples=50)
@given(key=KEYS, low=st.integers(-(10**38), 10**38), span=st.integers(0, 10**38))
def test_big_ints_stay_within_bounds(key: int, low: int, span: int) -> None:
    assert all(low <= value <= low + span for value in big_ints(key, numbers(0, 5), low, low + span))


def test_small_ranges_are_uniform() -> None:
    seen = np.bincount(uniform_ints(stream_key(0, "dice"), numbers(0, 60_000), 1, 6), minlength=7)
    # Five standard deviations of a binomial with n = 60,000 and p = 1/6 are 456.
    assert seen[0] == 0
    assert abs(seen[1:] - 10_000).max() < 456


def test_doubles_and_probabilities() -> None:
    counters = numbers(0, 40_000)
    drawn = uniform_doubles(stream_key(0, "u"), counters)
    assert 0 <= drawn.min() < 0.001
    assert 0.999 < drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 0.0075
    assert abs(happens(stream_key(0, "p"), counters, 0.3).mean() - 0.3) < 0.012
    assert not happens(5, counters, 0.0).any()
    assert happens(5, counters, 1.0).all()


def test_streams_are_independent() -> None:
    counters = numbers(0, 40_000)
    one = uniform_doubles(stream_key(0, "a"), counters)
    for other in (stream_key(0, "b"), stream_key(1, "a"), stream_key(0, "a", 0)):
        assert abs(np.corrcoef(one, uniform_doubles(other, counters))[0, 1]) < 0.025
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 0.025


def test_keys_tell_tags_apart() -> None:
    keys = [
        stream_key(0),
        stream_key(0, "1"),
        stream_key(0, 1),
        stream_key(1),
        stream_key(0, "a", "b"),
        stream_key(0, "ab"),
    ]
    assert len(set(keys)) == len(keys)


@settings(max_examples=50)
@given(
    key=KEYS,
    first=st.integers(0, 1000),
    lengths=st.lists(st.integers(0, 40), min_size=1, max_size=30),
    cut=st.integers(0, 30),
)
def test_characters_do_not_depend_on_the_neighbours(
    key: int, first: int, lengths: list[int], cut: int
) -> None:
    alphabet = b"0123456789abcdef"
    whole = characters(key, numbers(first, len(lengths)), np.array(lengths), alphabet)
    left, right = lengths[:cut], lengths[cut:]
    parts = [
        characters(key, numbers(first, len(left)), np.array(left, dtype=np.int64), alphabet),
        characters(key, numbers(first + len(left), len(right)), np.array(right, dtype=np.int64), alphabet),
    ]
    assert bytes(whole) == b"".join(bytes(part) for part in parts)
    assert len(whole) == sum(lengths)
    assert set(bytes(whole)) <= set(alphabet)


def test_a_longer_string_starts_with_the_shorter_one_and_letters_are_even() -> None:
    assert bytes(characters(9, numbers(5, 1), 20, b"xyz"))[:7] == bytes(
        characters(9, numbers(5, 1), 7, b"xyz")
    )
    seen = np.bincount(characters(9, numbers(0, 3000), 26, b"abcdefghijklmnopqrstuvwxyz"), minlength=123)[
        97:123
    ]
    assert abs(seen - 3000).max() < 5 * np.sqrt(3000)


@pytest.mark.parametrize(("low", "high"), [(1, 0), (np.array([0, 2]), np.array([1, 1]))])
def test_empty_ranges_are_refused(low: int, high: int) -> None:
    with pytest.raises(ValueError, match="no integers"):
        uniform_ints(0, numbers(0, 2), low, high)


@pytest.mark.parametrize(("first", "count"), [(-1, 2), (0, -1), (1 << 63, 1)])
def test_impossible_row_numbers_are_refused(first: int, count: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        numbers(first, count)
