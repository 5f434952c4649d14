"""What a process imports, and sets, that runs tests."""

from __future__ import annotations

import functools
import os

from sqlstream.runtime.tasks.no_pandas import hide_pandas_from_arrow


@functools.cache
def ready() -> None:
    """Make this process ready to run epochs."""
    hide_pandas_from_arrow()
    os.environ.setdefault("ACERO_ALIGNMENT_HANDLING", "reallocate")


ready()

import sqlstream.unit_tests.running  # noqa: E402, F401
