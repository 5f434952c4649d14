"""Whether a property of rows was ever given one: hypothesis first tries an example without rows, and counts it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class RowsGiven:
    """How often a test ran something over rows, and over how many in all."""

    runs: int = 0
    rows: int = 0


_watching: list[RowsGiven] = []


def note(rows: int) -> None:
    """Something was run over so many rows."""
    for given in _watching:
        given.runs += 1
        given.rows += rows


@contextmanager
def watched() -> Iterator[RowsGiven]:
    """Count what is run inside."""
    given = RowsGiven()
    _watching.append(given)
    try:
        yield given
    finally:
        _watching.remove(given)
