"""How often a property is tried."""

from __future__ import annotations

import os
import random


def examples(count: int) -> int:
    """`count`, chosen to keep CI under thirty minutes, unless SQLSTREAM_EXAMPLES says how many: long searches."""
    return int(os.environ.get("SQLSTREAM_EXAMPLES", count))


def is_long() -> bool:
    """Whether this is a long search, which tries all that there is, and not CI."""
    return os.environ.get("SQLSTREAM_SEARCH") == "long"


def seeds(count: int) -> range:
    """As many seeds as `examples` says: always the same, but in the long searches, which try others each time."""
    first = random.randrange(1 << 40) if is_long() else 0
    return range(first, first + examples(count))
