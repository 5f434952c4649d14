"""Work that recurses deeper than a thread's usual stack of 8 MB lets it: in a thread with a stack of its own size."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: How deep Python may recurse there (frames). One nesting of an expression takes up to ten of them.
FRAMES = 250_000
#: The stack's size in bytes. It is address space: memory is taken only as far as the stack is used.
_STACK = 1 << 30
#: Where so much address space is not to be had, as under a low `ulimit -v`.
_SMALL_STACK = 64 << 20

# The size of a new thread's stack and the recursion limit are the process's: one changes them at a time.
_lock = threading.Lock()
_here = threading.local()


def on_large_stack(function: Callable[P, T]) -> Callable[P, T]:
    """The function, run on a stack of 1 GiB on which Python may recurse 250,000 frames deep; what it raises is raised.

    One such function runs at a time; one that is called by another runs on its stack. It costs 0.1 ms.

    >>> def depth(level: int) -> int:
    ...     return depth(level - 1) + 1 if level else 0
    >>> on_large_stack(depth)(20_000)
    20000
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if getattr(_here, "large", False):
            return function(*args, **kwargs)
        done: list[T] = []
        failed: list[BaseException] = []

        def work() -> None:
            _here.large = True
            try:
                done.append(function(*args, **kwargs))
            except BaseException as error:
                failed.append(error)

        with _lock:
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(limit, FRAMES))
            try:
                _started(work).join()
            finally:
                sys.setrecursionlimit(limit)
        if failed:
            raise failed[0]
        return done[0]

    return run


def _started(work: Callable[[], None]) -> threading.Thread:
    before = threading.stack_size()
    for size in (_STACK, _SMALL_STACK):
        # A daemon: Ctrl-C in the main thread, which waits, must be able to end the process.
        thread = threading.Thread(target=work, name="large-stack", daemon=True)
        threading.stack_size(size)
        try:
            thread.start()
        except RuntimeError:
            if size == _SMALL_STACK:
                raise
        else:
            return thread
        finally:
            threading.stack_size(before)
    raise AssertionError  # the last size raises
