"""What the fixture `sqlstream` gives."""

from __future__ import annotations

from collections.abc import Callable

#: Takes arguments; gives the exit code, and what is printed to both streams.
Command = Callable[..., tuple[int, str, str]]
