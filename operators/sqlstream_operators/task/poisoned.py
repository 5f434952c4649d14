"""Which row of a split can't be computed with: halves of it are tried until there is nothing left to divide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlstream_operators.errors import InputFileError

from .io import Dividing, SplitReader


def place_of(reader: SplitReader, split: Any, fails: Callable[[Any], bool]) -> str:
    """Where the first row is that makes a split fail, as narrow as the reader can say; "" if it can't.

    Where only rows of both halves together fail (a sum that overflows), it is where these are. That costs about twice what
    the split did.
    """
    if not isinstance(reader, Dividing):
        return ""
    try:
        while parts := reader.halves(split):
            found = next((part for part in parts if fails(part)), None)
            if found is None:
                break
            split = found
        return reader.place(split)
    except InputFileError:
        return ""  # it changed while it was looked at: what failed is reported all the same
