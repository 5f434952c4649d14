"""What becomes of the rows of a table's files."""

from __future__ import annotations

from enum import StrEnum


class Change(StrEnum):
    """What is read of a file: all its rows, as rows that come (of changes) or go, or those of its changes that do."""

    ROWS = ""
    COME = "+I"
    GO = "-D"
    COMING = "coming"
    GOING = "going"
