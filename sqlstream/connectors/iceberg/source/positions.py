"""How far an Iceberg table has been read, as plans and manifests have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlstream.connectors.api import Position


@dataclass(frozen=True, slots=True)
class IcebergPosition:
    """Where reading began, and where it goes on: behind the snapshot `after`, or at a row of a file of the snapshot `at`.

    `table` is the table's id. Of the snapshot `start` all files are read that the table has then (`whole`), or those that it
    adds; of later ones what they add. `after` None: nothing was read, `at` None: nothing of the next snapshot. `file` and
    `row` are numbers, from 0. `skipped` is how many snapshots were left out, as they change rows, and `lost` says what was
    gone before it was read, which somebody has agreed to. `sequence` is the number that the table gave `after`: the next one
    has the next number, also where `after` was expired, and nobody knows any more that it was before it.
    """

    table: str
    start: int | None
    whole: bool
    after: int | None
    at: int | None = None
    file: int = 0
    row: int = 0
    skipped: int = 0
    lost: tuple[str, ...] = ()
    sequence: int | None = None

    def to_json(self) -> Position:
        """Plain JSON data."""
        found: dict[str, Any] = {
            "table": self.table,
            "start": self.start,
            "whole": self.whole,
            "after": self.after,
        }
        if self.at is not None:
            found |= {"at": self.at, "file": self.file, "row": self.row}
        if self.skipped:
            found["skipped"] = self.skipped
        if self.lost:
            found["lost"] = list(self.lost)
        if self.sequence is not None:
            found["sequence"] = self.sequence
        return found

    @staticmethod
    def from_json(data: Position) -> IcebergPosition:
        """The inverse of `to_json`.

        >>> at = IcebergPosition("x", 3, True, None, 3, 1, 20, skipped=1, lost=("a",), sequence=4)
        >>> IcebergPosition.from_json(at.to_json()) == at
        True
        """
        return IcebergPosition(
            data["table"],
            data["start"],
            data["whole"],
            data["after"],
            data.get("at"),
            data.get("file", 0),
            data.get("row", 0),
            data.get("skipped", 0),
            tuple(data.get("lost", ())),
            data.get("sequence"),
        )

    @property
    def in_whole(self) -> bool:
        """Whether the table as it was at the start is read."""
        return self.whole and self.at is not None and self.at == self.start

    @property
    def in_words(self) -> str:
        """For people.

        >>> IcebergPosition("x", 3, True, None, 3, 1, 1200).in_words, IcebergPosition("x", 3, True, 5).in_words
        ('snapshot 3, file 1, row 1,200', 'behind snapshot 5')
        """
        if self.at is not None:
            return f"snapshot {self.at}, file {self.file:,}, row {self.row:,}"
        return "the beginning" if self.after is None else f"behind snapshot {self.after}"
