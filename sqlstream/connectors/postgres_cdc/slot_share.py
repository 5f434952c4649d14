"""What the tables of one pipeline share that are read by one slot: where an epoch ends, a snapshot, what is confirmed."""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.postgres_cdc.positions import from_hex
from sqlstream.connectors.postgres_cdc.server import CdcServer
from sqlstream_operators.state.checkpoint_store import CheckpointStore

#: The folder of the state directory that says which slots it has made.
FOLDER = "slots"


class Reader(Protocol):
    """A table that is read by a slot."""

    @property
    def key(self) -> str:
        """What it is called among them."""
        ...

    @property
    def needs_from(self) -> int | None:
        """From where on it needs the log; None: that is not known yet."""
        ...

    def publish(self) -> None:
        """See to it that the publication has the table."""
        ...


@dataclass
class Snapshot:
    """An exported snapshot, as long as its connection is open: its name, which transactions it has, the end of the log.

    It is for the tables of these keys.
    """

    name: str
    transactions: str
    until: int
    connection: PostgresConnection
    tables: frozenset[str]


@dataclass
class SlotShare:
    """The readers of one slot in this process, which are the tables of one pipeline.

    `ends` is where the epoch that is planned ends for all of them, and who was told so: at the end of each epoch they all
    have the same transactions, as soon as they stand at one place.
    """

    readers: weakref.WeakSet[Reader] = field(default_factory=weakref.WeakSet)
    confirmed: int = 0
    snapshot: Snapshot | None = None
    _last: int | None = None
    _end: int | None = None
    _told: set[str] = field(default_factory=set)

    def end(self, reader: Reader, decide: Callable[[], int]) -> int:
        """Where the next epoch ends: as it was decided for another reader, if this one was not told yet."""
        if self._end is None or reader.key in self._told:
            self._end = decide()
            self._told = set()
        self._told.add(reader.key)
        return self._end

    def last(self, end: int) -> int:
        """Where reading ends that is to end with what there is, for all tables; `end` for who asks first."""
        if self._last is None:
            self._last = end
        return self._last

    def confirm(self, server: CdcServer) -> None:
        """Confirm what no reader needs any more."""
        needed = [reader.needs_from for reader in self.readers]
        least = min((lsn for lsn in needed if lsn is not None), default=0)
        if None in needed or least <= self.confirmed:
            return
        server.advance(least)
        self.confirmed = least

    def begin(self, reader: Reader, server: CdcServer, make_slot: Callable[[], None]) -> Snapshot:
        """A snapshot that has all that the log has not, behind which the log has all; one for all tables that begin now.

        The slot comes behind the publication, since it decodes with the catalog as it was at each change. The snapshot
        comes when each transaction has ended that ran before: what it has not begins with a publication that has the table.
        """
        if self.snapshot is not None and reader.key in self.snapshot.tables:
            return self.snapshot
        self.end_snapshot()
        for each in self.readers:
            each.publish()
        make_slot()
        server.wait_for_running()
        connection = server.connection()
        try:
            connection.connect()
            connection.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            ((name, transactions, until),) = connection.run(
                "SELECT pg_export_snapshot(), pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text"
            )
            server.flush()
        except BaseException:
            connection.close()
            raise
        tables = frozenset(each.key for each in self.readers)
        self.snapshot = Snapshot(str(name), str(transactions), from_hex(until), connection, tables)
        return self.snapshot

    def leave(self, reader: Reader) -> None:
        """A table is read no more."""
        self.readers.discard(reader)
        self._end = self._last = None
        self.end_snapshot()

    def end_snapshot(self) -> None:
        """Let the snapshot go, if there is one."""
        if self.snapshot is not None:
            self.snapshot.connection.close()
            self.snapshot = None


def share_of(shared: dict[Hashable, Any], location: str, slot: str) -> SlotShare:
    """What the tables share that a run reads by a slot, of all that its sources share."""
    database = location.partition(" in ")[2]
    share: SlotShare = shared.setdefault(("postgres-cdc", database, slot), SlotShare())
    return share


def is_made_here(store: CheckpointStore, slot: str, system: str) -> bool:
    """Whether this state directory has made a slot, or was about to."""
    try:
        found = json.loads(store.get(f"{FOLDER}/{slot}.json"))
    except FileNotFoundError:
        return False
    return bool(found["system"] == system)


def note_made_here(store: CheckpointStore, slot: str, system: str) -> None:
    """Write down that this state directory makes a slot, before it does."""
    store.put(f"{FOLDER}/{slot}.json", json.dumps({"system": system}).encode())
