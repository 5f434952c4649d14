"""Columns that a reader gives beside those of its format: what a file's path says, or the number of a record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlstream.formats.api import RECORD_COLUMN


@dataclass(frozen=True, slots=True)
class Beside:
    """SELECT `items` over the rows of DuckDB's reader and what is `carried` with them: name -> SQL over the reader.

    >>> Beside(("size",), {"size": "1 + 1"}).carrying
    ', 1 + 1 AS size'
    """

    items: tuple[str, ...] = ()
    carried: Mapping[str, str] = field(default_factory=dict)

    @property
    def carrying(self) -> str:
        """SELECT items that make what is carried, to stand behind others."""
        return "".join(
            f", {sql}" if sql == name else f", {sql} AS {name}" for name, sql in self.carried.items()
        )

    @property
    def names(self) -> str:
        """SELECT items that pass on what is carried, to stand behind others."""
        return "".join(f", {name}" for name in self.carried)


#: The number of the record that a row comes from, where each line of the text is one.
RECORDS = Beside((RECORD_COLUMN,), {RECORD_COLUMN: "row_number() OVER () - 1"})


def of_files(items: list[str]) -> Beside:
    """SELECT items that may ask for the number of the file in the reader's list (`file_index`)."""
    wanted = any("file_index" in item for item in items)
    return Beside(tuple(items), {"file_index": "file_index"} if wanted else {})
