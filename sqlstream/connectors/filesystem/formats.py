"""The formats of the `filesystem` connector, to the planner: those that files have."""

from __future__ import annotations

from sqlstream.formats.registry import REGISTERED

FORMATS = REGISTERED.of_files
