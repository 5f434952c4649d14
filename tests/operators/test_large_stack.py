"""A stack for deep recursion: what comes back from it, and what it leaves as it was."""

from __future__ import annotations

import sys
import threading

import pytest

from sqlstream_operators.large_stack import FRAMES, on_large_stack


def deep(levels: int) -> int:
    # sorted() calls back from C, so that the C stack is used too.
    return sorted([levels], key=lambda n: deep(n - 1) if n else 0)[0]


def test_it_is_deeper_than_the_usual_stack_and_leaves_the_limits_as_they_were() -> None:
    before = sys.getrecursionlimit(), threading.stack_size()
    with pytest.raises(RecursionError):
        deep(20_000)
    assert on_large_stack(deep)(20_000) == 20_000
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


def test_endless_recursion_ends() -> None:
    with pytest.raises(RecursionError):
        on_large_stack(deep)(FRAMES)


def test_what_is_raised_is_raised_here_and_one_calls_another() -> None:
    @on_large_stack
    def inner(text: str) -> str:
        raise ValueError(text)

    with pytest.raises(ValueError, match="why"):
        on_large_stack(lambda: inner("why"))()
    assert on_large_stack(lambda: 1)() == 1


def test_threads_take_turns() -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(on_large_stack(deep)(5_000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [5_000] * 4
