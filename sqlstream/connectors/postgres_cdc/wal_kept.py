"""How much of its log the server keeps for a slot: what a reader that falls behind costs."""

from __future__ import annotations

from collections.abc import Callable

from sqlstream_planner.diagnostics import Diagnostic

#: So much is said, and each time that it has doubled.
_FIRST_BYTES = 1 << 30


class WalKept:
    """Warns as the log that is kept grows, and when it is about to be deleted nonetheless."""

    def __init__(self, table: str, tell: Callable[[Diagnostic], None]) -> None:
        self._table, self._tell = table, tell
        self._next = _FIRST_BYTES
        self._said = ""

    def look(self, size: int, wal_status: str) -> None:
        """Say so if the server keeps more than it did, or will not keep it much longer."""
        soon = wal_status == "unreserved" and self._said != wal_status
        self._said = wal_status
        if size < self._next and not soon:
            return
        while self._next <= size:
            self._next *= 2
        notes = ["it is what is not read yet, and what transactions that are open have written"]
        if wal_status in ("extended", "unreserved"):
            notes.append(f"its wal_status is '{wal_status}': it may soon be deleted before it is read")
        self._tell(
            Diagnostic(
                "DAT021",
                f"the server keeps {size / (1 << 30):.1f} GiB of its log for the changes of `{self._table}`",
                notes=tuple(notes),
                help="let the run have more cores, or end transactions that are open for long; max_slot_wal_keep_size "
                "is the most that the server keeps",
                severity="warning",
            )
        )
