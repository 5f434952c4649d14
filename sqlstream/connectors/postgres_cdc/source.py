"""The driver's half of a source of changes: a copy of the table as it was, then what the write-ahead log has."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from sqlstream.connectors.api import ConnectorContext, Limits, Position, Source, SourcePlan, Split
from sqlstream.connectors.capabilities import Acknowledging, Awaited, Closing, Polled, Reaching, Verifying
from sqlstream.connectors.database import copies
from sqlstream.connectors.database.postgres_catalog import ThereTable
from sqlstream.connectors.database.postgres_copies import make_copy
from sqlstream.connectors.exactly_once.target import LostConnectionError, unusable
from sqlstream.connectors.postgres_cdc import checks, refusals, slot_share, unlogged
from sqlstream.connectors.postgres_cdc.messages import oid_of, relation_of
from sqlstream.connectors.postgres_cdc.options import CdcOptions
from sqlstream.connectors.postgres_cdc.positions import UNREAD, CdcPosition, in_hex
from sqlstream.connectors.postgres_cdc.server import Ahead, CdcServer, Status
from sqlstream.connectors.postgres_cdc.wal_kept import WalKept
from sqlstream_operators.plan.spec import SourceSpec

_POLL_S = 0.2
#: How much of the log is looked through at once, where nothing is found and the next look takes twice as much.
_WINDOW = 64 << 20
#: So much of the log without changes of the table is confirmed without an epoch.
_IDLE_BYTES = 16 << 20


class CdcSource(Source, Acknowledging, Awaited, Closing, Polled, Reaching, Verifying):
    """A table: all its rows as they are when reading begins, and then its changes, by whole transactions.

    A position is a `CdcPosition`. Only the run itself makes the slot; who else looks is given the table's rows as they are.
    """

    def __init__(self, spec: SourceSpec, context: ConnectorContext) -> None:
        self._spec, self._context = spec, context
        self._options = CdcOptions.read(spec.options, spec.name)
        self._server = CdcServer(spec.options, self._options)
        self._folder = context.folder or f"sources/{quote(spec.name, safe='')}"
        self._share = slot_share.share_of(context.shared, self._server.location, self._options.slot)
        self._there: ThereTable | None = None
        self._catalog: unlogged.Catalog | None = None
        self._looks = unlogged.Looks(context.store, self._folder)
        self._begun: CdcPosition | None = None
        self._copy: copies.Copy | None = None
        self._copy_removed = False
        self._passed = (0, 0)
        self._more = False
        self._kept = WalKept(spec.name, context.tell)
        self.needs_from: int | None = None
        if context.runs:
            self._share.readers.add(self)

    @property
    def key(self) -> str:
        """What it is called among the readers of its slot."""
        return self._folder

    @property
    def bounded(self) -> bool:
        """Only where it is to end with what there is."""
        return self._context.ends or not self._context.runs

    @property
    def waits_for(self) -> str:
        """What a run waits for that has read everything."""
        return f"changes of '{self._options.table}'"

    @property
    def poll_seconds(self) -> float | None:
        """How often the end of the log is asked for."""
        return 0.0 if self._more else _POLL_S

    def initial_position(self) -> Position:
        """Where reading begins: nothing is made, or looked at, before the first plan of a run."""
        return UNREAD

    def lag(self, position: Position) -> int | None:
        """How many rows wait is not known: the log has all tables' changes."""
        return None

    # -------------------------------------------------------------------------------------------------- plans

    def plan(self, position: Position, limits: Limits) -> SourcePlan:
        """The next rows of the copy, or the next transactions, whole.

        Raises DiagnosticError: DAT004, DAT018 and DAT020 for a table or server that is not as it must be, DAT015 and DAT019
        (exit code 4) for changes that are gone, or that the log does not say, ENV006.
        """
        try:
            return self._plan(position, limits)
        except LostConnectionError as error:  # of a connection that copies, or has the snapshot
            raise unusable(self._server.location, str(error), done="read") from None

    def _plan(self, position: Position, limits: Limits) -> SourcePlan:
        status = self._server.status()
        if not self._context.runs:
            return self._as_it_is(status, position, limits)
        at = CdcPosition.from_json(position)
        if at is None:
            if self._begun is None:
                self._begun = self._begin(status)
                status = self._server.status()
            at = self._begun
        else:
            self._share.end_snapshot()
        self._check(at, status)
        if at.copy:
            return self._of_copy(at, limits)
        return self._of_log(at, status, limits)

    def reach(self) -> None:
        """Raise DiagnosticError (ENV006, DAT020) for a server that can't be reached, or has no logical replication."""
        self._check_server(self._server.status())

    def can_replay(self, splits: Sequence[Split]) -> bool:
        """Whether the copy is there, or the log has what comes behind the place where the splits begin."""
        of_copy = [split.payload for split in splits if "copy" in split.payload]
        if not all(copies.is_there(self._context.store, payload) for payload in of_copy):
            return False
        slot = self._server.status().slot
        return len(of_copy) == len(splits) or (slot is not None and slot.wal_status != "lost")

    def committed(self, position: Position) -> None:
        """Confirm what was read, so that the server need not keep its log; the copy goes once it was read."""
        at = CdcPosition.from_json(position)
        if at is None:
            return
        self.needs_from = at.lsn
        self._share.confirm(self._server)
        if not at.copy and not self._copy_removed:
            copies.remove_all(self._context.store, self._folder)
            self._copy_removed = True

    def close(self) -> None:
        """Let go of the connections."""
        self._share.leave(self)
        self._server.close()

    # -------------------------------------------------------------------------------------------------- begin

    def publish(self) -> None:
        """See to it that the publication has the table; the table is looked at first."""
        self._there = checks.check_table(self._spec, self._server, self._options)
        checks.check_publication(self._spec, self._server, self._options, make=True)
        self._catalog = self._look()

    def _look(self) -> unlogged.Catalog | None:
        return unlogged.look(self._server, self._options, [column.name for column in self._spec.physical])

    def _begin(self, status: Status) -> CdcPosition:
        """Make the publication and the slot, and copy the table."""
        self._check_server(status)
        snapshot = self._share.begin(self, self._server, lambda: self._make_slot(status))
        there = self._there
        slot = self._server.status().slot
        if there is None or slot is None:
            raise refusals.gone(self._spec.name, self._server.location, 0, "the slot was dropped meanwhile")
        warning = checks.values_apart(self._spec, there)
        if warning is not None:
            self._context.tell(warning)
        self._copy = make_copy(
            self._context.store,
            self._folder,
            self._server.table,
            there,
            self._spec.physical,
            snapshot.name,
            self._server.connection,
        )
        at = CdcPosition(
            status.system,
            self._options.slot,
            there.oid,
            slot.confirmed,
            self._copy.id,
            snapshot=snapshot.transactions,
            until=snapshot.until,
            catalog="" if self._catalog is None else self._catalog.to_json(),
        )
        return at if self._copy.files else replace(at, copy="")

    def _make_slot(self, status: Status) -> None:
        made_here = slot_share.is_made_here(self._context.store, self._options.slot, status.system)
        if made_here:
            self._server.wait_for_slot()
        slot = self._server.status().slot
        if slot is None:
            slot_share.note_made_here(self._context.store, self._options.slot, status.system)
            self._server.create_slot()
            return
        name, location = self._spec.name, self._server.location
        wrong = refusals.wrong_slot(name, location, self._options, slot, status.database)
        if wrong is not None:
            raise wrong
        if not made_here:
            raise refusals.not_ours(name, location, self._options)

    # -------------------------------------------------------------------------------------- is all still there

    def _check_server(self, status: Status) -> None:
        checks.check_server(self._spec, self._server.location, status.wal_level, standby=status.end is None)

    def _check(self, at: CdcPosition, status: Status) -> None:
        """Raise DiagnosticError (DAT015) if the log does not have what comes behind a position."""
        self._check_server(status)
        slot, options = status.slot, self._options
        name, location, lsn = self._spec.name, self._server.location, at.lsn
        if status.system != at.system:
            what = f"the server is another one: its identifier was {at.system}, and is {status.system}"
        elif slot is None:
            what = f"the slot `{options.slot}` is gone"
        elif slot.wal_status == "lost" or not slot.kept_from:
            what = f"the slot `{options.slot}` has lost its log: it had more than max_slot_wal_keep_size"
        elif slot.confirmed > max(lsn, self._confirmed_behind(at)):
            what = f"somebody else has read the slot `{options.slot}`, up to LSN {in_hex(slot.confirmed)}"
        elif status.end is not None and status.end < lsn:
            what = f"the server's log ends at LSN {in_hex(status.end)}: an older copy was restored"
        elif status.table != at.table:
            what = f"the table was {'made anew' if status.table else 'dropped, or has another name now'}"
        elif not status.published:
            what = f"the publication `{options.publication}` has not all changes of the table any more"
        else:
            if self._context.runs and not slot_share.is_made_here(
                self._context.store, options.slot, status.system
            ):
                raise refusals.not_ours(name, location, options)
            wrong = refusals.wrong_slot(name, location, options, slot, status.database)
            if wrong is not None:
                raise wrong
            if status.end is not None:
                self._kept.look(status.end - slot.kept_from, slot.wal_status)
            self._check_catalog(at)
            return
        raise refusals.gone(name, location, lsn, what)

    def _check_catalog(self, at: CdcPosition) -> None:
        """Raise DiagnosticError (DAT015) if rows of the table were changed without a word in the log.

        What has changed no row is written down: a later change is not looked at together with it.
        """
        self._catalog = self._look()
        if self._catalog is None or not at.catalog:
            return
        what = self._catalog.differs(self._looks.since(at.catalog), self._options.publication)
        if what is not None:
            raise refusals.unlogged(self._spec.name, self._server.location, at.lsn, what)
        if self._context.runs:
            self._looks.note(at.catalog, self._catalog)

    def _confirmed_behind(self, at: CdcPosition) -> int:
        """Up to where this source has confirmed the log itself, as it had nothing for it behind a position."""
        try:
            found = json.loads(self._context.store.get(self._idle))
        except FileNotFoundError:
            return 0
        return int(found["confirmed"]) if found["lsn"] == at.lsn else 0

    @property
    def _idle(self) -> str:
        return f"{self._folder}/idle.json"

    # ---------------------------------------------------------------------------------------- what comes next

    def _of_copy(self, at: CdcPosition, limits: Limits) -> SourcePlan:
        if self._copy is None or self._copy.id != at.copy:
            self._copy = copies.copy_of(self._context.store, at.copy)
            if self._copy is None:
                what = "the copy of the table as it was is not in the state directory"
                raise refusals.gone(self._spec.name, self._server.location, at.lsn, what)
        splits, file, row = copies.next_splits(self._spec.name, self._copy, at.file, at.row, limits)
        if file == len(self._copy.files):
            following = replace(at, copy="", file=0, row=0)
        else:
            following = replace(at, file=file, row=row)
        return SourcePlan(splits, following.to_json(), exhausted=False)

    def _of_log(self, at: CdcPosition, status: Status, limits: Limits) -> SourcePlan:
        end = status.end or at.lsn
        if self._context.ends:
            end = self._share.last(end)
        # Behind the position there was nothing for this table up to here, and no epoch said so.
        begin = max(at.lsn, self._passed[1]) if self._passed[0] == at.lsn else at.lsn
        found: Ahead | None = None

        def decide() -> int:
            nonlocal found
            found = self._window(begin, end, limits.rows)
            return found.to

        to = max(begin, min(self._share.end(self, decide), end))
        if to > begin and (found is None or found.to != to):
            found = self._server.ahead(begin, to, None)
        splits: tuple[Split, ...] = ()
        if found is not None and to > begin:
            splits = self._splits(at, begin, found)
        # Positions of older releases have none.
        following = replace(
            at, lsn=to, catalog=at.catalog if self._catalog is None else self._catalog.to_json()
        )
        if at.snapshot and to >= at.until:
            following = replace(following, snapshot="", until=0)
        if not splits:
            self._pass_over(at, to)
        self._more = to < end
        exhausted = self._context.ends and to >= end
        return SourcePlan(splits, following.to_json(), exhausted)

    def _window(self, begin: int, end: int, most: int | None) -> Ahead:
        """The next transactions, at least one if there is one.

        The server begins with what is not confirmed: so many messages may all be before `begin`.
        """
        size = _WINDOW
        while True:
            to = min(end, begin + size)
            if to <= begin:
                return Ahead(begin, {}, (), frozenset())
            found = self._server.ahead(begin, to, most)
            if found.to <= begin and most is not None:
                most *= 4
                continue
            if found.changes or found.truncated or to >= end:
                return found
            size *= 2

    def _splits(self, at: CdcPosition, begin: int, found: Ahead) -> tuple[Split, ...]:
        """One split, since transactions come in one order; none if the table has no changes."""
        if at.table in found.truncated:
            raise refusals.truncated(self._spec.name, self._server.location, at.lsn)
        rows, size = found.changes.get(at.table, (0, 0))
        if not rows:
            return ()
        relations = [one for one in found.relations if oid_of(one) == at.table]
        own = self._own_types(relations)
        for message in relations:
            checks.check_relation(self._spec, relation_of(message, own), self._server.location)
        payload: dict[str, Any] = {
            "from": in_hex(begin),
            "to": in_hex(found.to),
            "changes": rows,
            "table": at.table,
            "types": [[oid, *made_of] for oid, made_of in own.items()],
        }
        if at.snapshot:
            payload["snapshot"] = at.snapshot
        return (Split(self._spec.name, payload, None, size),)

    def _own_types(self, relations: Sequence[bytes]) -> dict[int, tuple[int, int]]:
        """What the database's own types are made of that columns of the table have, by now or where it is described."""
        there = self._there
        if there is not None and any(
            relation_of(one, dict(there.own_types)).has_own_types for one in relations
        ):
            there = None  # a type was made since the table was looked at
        self._there = there or checks.check_table(self._spec, self._server, self._options)
        return dict(self._there.own_types)

    def _pass_over(self, at: CdcPosition, to: int) -> None:
        """Let the server forget a part of its log that has nothing of the table, though no epoch says so.

        What is confirmed is written down first: by it a slot that others have read is told from this one.
        """
        self._passed = (at.lsn, to)
        known = self._confirmed_behind(at)
        if to - max(at.lsn, known) < _IDLE_BYTES:
            return
        self._context.store.put(self._idle, json.dumps({"lsn": at.lsn, "confirmed": to}).encode())
        self.needs_from = to
        self._share.confirm(self._server)

    def _as_it_is(self, status: Status, position: Position, limits: Limits) -> SourcePlan:
        """For who only looks: whether a run could begin, or go on; the rows as they are."""
        self._check_server(status)
        checks.check_table(self._spec, self._server, self._options)
        checks.check_publication(self._spec, self._server, self._options, make=False)
        at = CdcPosition.from_json(position)
        if at is not None and "seen" not in position:
            self._check(at, status)
        if "seen" in position:
            return SourcePlan((), position, exhausted=True)
        payload: Mapping[str, Any] = {"now": None if self._context.whole else limits.rows}
        return SourcePlan((Split(self._spec.name, payload),), {**position, "seen": True}, exhausted=True)
