"""What a source asks the server of a table whose changes it reads: the slot, and what there is in the log."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlstream.connectors.database.postgres_catalog import ThereTable, look, qualified
from sqlstream.connectors.database.postgres_connection import PostgresConnection, retried
from sqlstream.connectors.exactly_once.target import LostConnectionError, unusable
from sqlstream.connectors.postgres_cdc.options import CdcOptions
from sqlstream.connectors.postgres_cdc.positions import from_hex, in_hex
from sqlstream_operators.plan.types import quote_literal

_T = TypeVar("_T")
#: How long transactions that run when reading begins may take, s.
_PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Slot:
    """A replication slot: its plugin and database, up to where it is confirmed, from where on the log is kept for it.

    `wal_status` is PostgreSQL's word; `holder` is the process that reads it now.
    """

    plugin: str
    database: str
    confirmed: int
    kept_from: int
    wal_status: str
    holder: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """The server: its identifier, the database, the end of its log (None on a standby), the slot, if it is there.

    `table` is the id of the table (0: there is none), `published` whether the publication has all changes of it.
    """

    system: str
    database: str
    wal_level: str
    end: int | None
    slot: Slot | None
    table: int
    published: bool


@dataclass(frozen=True, slots=True)
class Ahead:
    """What the log has from a place on: where that ends, and of each table (its id) the changes and bytes.

    `relations` are the messages that describe tables, `truncated` the ids of those that were emptied.
    """

    to: int
    changes: Mapping[int, tuple[int, int]]
    relations: Sequence[bytes]
    truncated: frozenset[int]


def lock_of(slot: str) -> str:
    """SQL of the key of the lock that ours take before they read a slot: it lets one in at a time, and fails others."""
    return f"hashtextextended({quote_literal(f'sqlstream slot {slot}')}, 0)"


@contextmanager
def alone(connection: PostgresConnection, slot: str) -> Iterator[None]:
    """Wait until none of ours reads the slot, and keep them out. What is lost with the connection is the lock, too."""
    key = lock_of(slot)
    connection.run("SET lock_timeout = '10min'")
    connection.run(f"SELECT pg_advisory_lock({key})")
    try:
        yield
    finally:
        with contextlib.suppress(LostConnectionError):
            connection.run(f"SELECT pg_advisory_unlock({key})")


def peek(options: CdcOptions, to: int, most: int | None = None) -> str:
    """SQL of the messages of a slot that are not confirmed, up to a place (of commits), or some more than `most`."""
    publication = quote_literal(quoted_publication(options.publication))
    return (
        f"pg_logical_slot_peek_binary_changes({quote_literal(options.slot)}, '{in_hex(to)}', "
        f"{'NULL' if most is None else most}, 'proto_version', '1', 'publication_names', {publication}, 'binary', 'true')"
    )


def quoted_publication(name: str) -> str:
    """A name in the list of publications that the plugin reads as SQL identifiers."""
    return '"' + name.replace('"', '""') + '"'


class CdcServer:
    """The server of one table. Methods raise DiagnosticError (ENV006) if it can't be reached or refuses.

    The connection is made when it is needed, and made again when it was lost.
    """

    def __init__(self, given: Mapping[str, str], options: CdcOptions) -> None:
        self._given, self._options = given, options
        self.table = qualified(options.schema, options.table)
        self._open = self.connection()
        self.location = self._open.location

    def connection(self) -> PostgresConnection:
        """Another connection, not yet open."""
        return PostgresConnection(self._given, self._options.table, done="read")

    def close(self) -> None:
        """Let go of the connection; never raises."""
        self._open.close()

    def run(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement that may be repeated."""
        return self._tried(lambda connection: connection.run(sql, parameters))

    def look(self) -> ThereTable | None:
        """The table, as the catalog has it now."""
        return self._tried(lambda connection: look(connection, self.table))

    def status(self) -> Status:
        """The server and the slot as they are now."""
        ((system, database, level, end, table, published, found, *of_slot),) = self.run(
            "SELECT (SELECT system_identifier::text FROM pg_control_system()), current_database()::text, "
            "current_setting('wal_level'), CASE WHEN NOT pg_is_in_recovery() THEN pg_current_wal_flush_lsn()::text END, "
            "coalesce(to_regclass(%s)::oid::bigint, 0), EXISTS (SELECT FROM pg_publication p, "
            "LATERAL pg_get_publication_tables(p.pubname::text) g WHERE p.pubname = %s AND g.relid = to_regclass(%s) "
            "AND to_jsonb(g)->>'qual' IS NULL AND p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate), "
            "s.slot_name IS NOT NULL, coalesce(s.plugin::text, ''), coalesce(s.database::text, ''), "
            "s.confirmed_flush_lsn::text, s.restart_lsn::text, coalesce(s.wal_status, ''), s.active_pid "
            "FROM (SELECT 1) AS one LEFT JOIN pg_replication_slots s ON s.slot_name = %s",
            [self.table, self._options.publication, self.table, self._options.slot],
        )
        slot = None
        if found:
            plugin, of_database, confirmed, kept_from, wal_status, holder = of_slot
            slot = Slot(
                plugin,
                of_database,
                from_hex(confirmed or "0/0"),
                from_hex(kept_from or "0/0"),
                wal_status,
                holder,
            )
        flushed = None if end is None else from_hex(end)
        return Status(str(system), str(database), str(level), flushed, slot, int(table), bool(published))

    def ahead(self, begin: int, to: int, most: int | None) -> Ahead:
        """What commits that begin at `begin` or behind it and before `to` have, or the first of them with `most` messages.

        The server decodes and counts; no row comes here.
        """
        sql = (
            f"WITH m AS MATERIALIZED (SELECT lsn, xid::text AS x, data FROM {peek(self._options, to, most)}), "
            "b AS (SELECT x FROM m WHERE get_byte(data, 0) = 66 AND substring(data, 2, 8) >= "
            f"decode('{begin:016x}', 'hex')), mine AS (SELECT m.* FROM m JOIN b USING (x)) "
            "SELECT 'end', NULL::bytea, count(*), max(lsn)::text FROM m UNION ALL "
            "SELECT 'changes', substring(data, 2, 4), count(*), sum(length(data))::text FROM mine "
            "WHERE get_byte(data, 0) IN (73, 85, 68) GROUP BY 2 UNION ALL "
            "SELECT 'relation', data, count(*), '' FROM m WHERE get_byte(data, 0) = 82 GROUP BY 2 UNION ALL "
            "SELECT 'truncated', substring(data, 7), count(*), '' FROM mine WHERE get_byte(data, 0) = 84 GROUP BY 2"
        )
        rows = self._alone(sql)
        changes: dict[int, tuple[int, int]] = {}
        relations: list[bytes] = []
        truncated: set[int] = set()
        end = to
        for kind, data, count, text in rows:
            match kind:
                case "end":
                    if most is not None and count >= most:
                        end = min(to, from_hex(text))
                case "changes":
                    changes[int.from_bytes(data, "big")] = int(count), int(text)
                case "relation":
                    relations.append(bytes(data))
                case _:
                    truncated |= {int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)}
        return Ahead(end, changes, relations, frozenset(truncated))

    def create_slot(self) -> None:
        """Make the slot, if it is not there; it waits for transactions that run.

        Whoever was to make it before may have been lost with its connection: the server goes on with what it was asked for.
        """
        name = quote_literal(self._options.slot)
        there = f"SELECT FROM pg_replication_slots WHERE slot_name = {name}"
        sql = f"SELECT pg_create_logical_replication_slot({name}, 'pgoutput') WHERE NOT EXISTS ({there})"
        self._alone(sql, _PATIENCE_S)

    def advance(self, to: int) -> None:
        """Confirm what is before a place, so that the log is kept for it no more; never goes back."""
        self._alone(
            f"SELECT pg_replication_slot_advance(slot_name, '{in_hex(to)}') FROM pg_replication_slots "
            f"WHERE slot_name = {quote_literal(self._options.slot)} AND confirmed_flush_lsn < '{in_hex(to)}'"
        )

    def flush(self) -> None:
        """See to it that what has been committed up to now outlives a crash of the server.

        A snapshot has transactions that were committed with `synchronous_commit = off`, and a server that breaks off may
        forget them, and give their ids to others.
        """
        self.run(
            "SELECT set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'sqlstream', '')"
        )

    def wait_for_running(self) -> None:
        """Wait until each transaction has ended that runs now: it may be neither in the log nor in a snapshot."""
        ((last,),) = self.run("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")

        def ended() -> bool:
            ((first,),) = self.run("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
            return int(first) >= int(last)

        self._wait_until(ended, "transactions that ran when reading began have not ended")

    def wait_for_slot(self) -> None:
        """Wait until the slot is made: by a run that was lost, whose statement the server has not ended yet."""

        def is_made() -> bool:
            slot = self.status().slot
            return slot is None or slot.confirmed > 0

        self._wait_until(is_made, f"the slot `{self._options.slot}` is still being made")

    def _wait_until(self, done: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + _PATIENCE_S
        while not done():
            if time.monotonic() > until:
                help_ = "end transactions that are open (pg_stat_activity, pg_prepared_xacts have them), and run again"
                raise unusable(self.location, what, help_, done="read")
            time.sleep(0.05)

    def _alone(self, sql: str, seconds: float = 0.0) -> list[tuple[Any, ...]]:
        """Run a statement that may be repeated once none of ours reads the slot, and keep them out.

        It may take so many seconds (0: any number).
        """

        def locked(connection: PostgresConnection) -> list[tuple[Any, ...]]:
            with alone(connection, self._options.slot):
                connection.run(f"SET statement_timeout = '{seconds:.0f}s'")
                return connection.run(sql)

        try:
            return self._tried(locked)
        finally:
            if seconds:
                self.run("SET statement_timeout = 0")

    def _tried(self, what: Callable[[PostgresConnection], _T]) -> _T:
        def connected() -> _T:
            self._open.connect()
            return what(self._open)

        return retried(connected, self.location)
