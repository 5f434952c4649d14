"""How much of a table's files an epoch reads."""

from __future__ import annotations

from dataclasses import dataclass

from sqlstream.connectors.api import Split


@dataclass(frozen=True, slots=True)
class Cut:
    """What an epoch reads: splits, and the number of the file and the row in it to go on with; `taken` parts were taken."""

    splits: tuple[Split, ...]
    file: int
    row: int
    taken: int
