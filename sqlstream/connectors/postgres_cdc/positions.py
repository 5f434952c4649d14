"""How far the changes of a table have been read, as plans and manifests have it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlstream.connectors.api import Position

#: Where reading begins, before anything was looked at.
UNREAD: Position = {"begun": False}


def in_hex(lsn: int) -> str:
    """A place in the write-ahead log as PostgreSQL writes it.

    >>> in_hex(0x1_0000_00FF)
    '1/FF'
    """
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def from_hex(text: str) -> int:
    """The inverse of `in_hex`.

    >>> from_hex("1/FF") == 0x1_0000_00FF
    True
    """
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


@dataclass(frozen=True, slots=True)
class CdcPosition:
    """Where reading goes on: in a copy of the table as it was (`copy`, `file`, `row`), or behind it in the log.

    Transactions whose commit begins in the log at `lsn` or behind it were not read. `system` is the server's identifier,
    `slot` its replication slot, `table` the table's id there. `snapshot` says which transactions the copy has (as
    `pg_current_snapshot` does); those are left out of the log up to `until`, behind which it has none. `catalog` is what the
    server's catalog said of the table (`unlogged`); positions of former releases have none.
    """

    system: str
    slot: str
    table: int
    lsn: int
    copy: str = ""
    file: int = 0
    row: int = 0
    snapshot: str = ""
    until: int = 0
    catalog: str = ""

    def to_json(self) -> Position:
        """Plain JSON data."""
        found: dict[str, Any] = {
            "system": self.system,
            "slot": self.slot,
            "table": self.table,
            "lsn": in_hex(self.lsn),
        }
        if self.copy:
            found |= {"copy": self.copy, "file": self.file, "row": self.row}
        if self.snapshot:
            found |= {"snapshot": self.snapshot, "until": in_hex(self.until)}
        if self.catalog:
            found["catalog"] = self.catalog
        return found

    @staticmethod
    def from_json(data: Position) -> CdcPosition | None:
        """The inverse of `to_json`; None of UNREAD.

        >>> at = CdcPosition("7", "s", 16500, 255, "c", 1, 2, "3:5:4", 300, "[]")
        >>> CdcPosition.from_json(at.to_json()) == at
        True
        """
        if "lsn" not in data:
            return None
        return CdcPosition(
            data["system"],
            data["slot"],
            data["table"],
            from_hex(data["lsn"]),
            data.get("copy", ""),
            data.get("file", 0),
            data.get("row", 0),
            data.get("snapshot", ""),
            from_hex(data.get("until", "0/0")),
            data.get("catalog", ""),
        )

    @property
    def in_words(self) -> str:
        """For people.

        >>> CdcPosition("7", "s", 16500, 255).in_words, CdcPosition("7", "s", 16500, 255, "c", 1, 1200).in_words
        ('LSN 0/FF', 'the table as it was, file 1, row 1,200')
        """
        if self.copy:
            return f"the table as it was, file {self.file:,}, row {self.row:,}"
        return f"LSN {in_hex(self.lsn)}"
