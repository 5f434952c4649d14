"""How far a Delta table has been read, as plans and manifests have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlstream.connectors.api import Position


@dataclass(frozen=True, slots=True, order=True)
class Passed:
    """A file that was passed over from a row on: its version, its number in it, and the row."""

    version: int
    file: int
    row: int


@dataclass(frozen=True, slots=True)
class DeltaPosition:
    """Where reading began, and where it goes on: at a row of a file (their numbers, from 0) of a version.

    `table` is the table's id. Of the version `start` all files are read that the table has then (`snapshot`), or those that
    it adds; of later ones what they add. `last` is the last version that is to be read of a table as it was at a version
    (None: there is none). `seen` is a commit that was read, and its digest: another one of its number is another table's.
    `passed` are files that were left out, `skipped` how many versions, as they change rows, and `lost` says what was gone
    before it was read, which somebody has agreed to.
    """

    table: str
    start: int
    snapshot: bool
    version: int
    file: int = 0
    row: int = 0
    last: int | None = None
    seen: tuple[int, str] | None = None
    passed: tuple[Passed, ...] = ()
    skipped: int = 0
    lost: tuple[str, ...] = ()

    def to_json(self) -> Position:
        """Plain JSON data."""
        found: dict[str, Any] = {
            "table": self.table,
            "start": self.start,
            "snapshot": self.snapshot,
            "version": self.version,
            "file": self.file,
            "row": self.row,
        }
        if self.last is not None:
            found["last"] = self.last
        if self.seen is not None:
            found["seen"] = list(self.seen)
        if self.passed:
            found["passed"] = [[one.version, one.file, one.row] for one in self.passed]
        if self.skipped:
            found["skipped"] = self.skipped
        if self.lost:
            found["lost"] = list(self.lost)
        return found

    @staticmethod
    def from_json(data: Position) -> DeltaPosition:
        """The inverse of `to_json`.

        >>> at = DeltaPosition("x", 3, True, 4, 1, 20, seen=(4, "ab"), passed=(Passed(3, 0, 7),), skipped=1)
        >>> DeltaPosition.from_json(at.to_json()) == at
        True
        """
        seen = data.get("seen")
        return DeltaPosition(
            data["table"],
            data["start"],
            data["snapshot"],
            data["version"],
            data["file"],
            data["row"],
            data.get("last"),
            None if seen is None else (seen[0], seen[1]),
            tuple(Passed(*one) for one in data.get("passed", ())),
            data.get("skipped", 0),
            tuple(data.get("lost", ())),
        )

    @property
    def in_snapshot(self) -> bool:
        """Whether the version that is read next is the table as it was when reading began."""
        return self.snapshot and self.version == self.start

    @property
    def in_words(self) -> str:
        """For people.

        >>> DeltaPosition("x", 3, True, 4, 1, 1200).in_words
        'version 4, file 1, row 1,200'
        """
        inside = f", file {self.file:,}, row {self.row:,}" if self.file or self.row else ""
        return f"version {self.version:,}{inside}"
