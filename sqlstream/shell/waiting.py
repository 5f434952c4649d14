"""Waiting for what may take long, such as a broker that is away, so that Ctrl-C need not wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

_LOOK_S = 0.05

T = TypeVar("T")


def interruptible(work: Callable[[], T]) -> T:
    """Do `work` in another thread and give its result, or raise its error.

    A KeyboardInterrupt leaves the thread to itself: what it uses must be its own, and it must end by itself.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="sample", daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK_S)
    if errors:
        raise errors[0]
    return results[0]
