"""How often a property is tried."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """`count`, unless SQLSTREAM_EXAMPLES says otherwise, as the long searches do."""
    return int(os.environ.get("SQLSTREAM_EXAMPLES", count))
