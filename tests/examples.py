"""How often a property is tried."""

from __future__ import annotations

import os
import random


def examples(count: int) -> int:
    """`count`, unless SQLSTREAM_EXAMPLES says otherwise, as the long searches do."""
    return int(os.environ.get("SQLSTREAM_EXAMPLES", count))


def seeds(count: int) -> range:
    """As many seeds as `examples` says: always the same, but in the long searches, which try others each time."""
    first = random.randrange(1 << 40) if os.environ.get("SQLSTREAM_SEARCH") == "long" else 0
    return range(first, first + examples(count))
