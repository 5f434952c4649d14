"""The task's half of a source of changes: rows of the copy, or a range of the log as rows that go and come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sqlstream.connectors.api import Split
from sqlstream.connectors.database.postgres_blocks import blocks, fields_of, table_of
from sqlstream.connectors.database.postgres_catalog import types_of
from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.database.postgres_reader import TableReader, no_rows
from sqlstream.connectors.postgres_cdc import refusals
from sqlstream.connectors.postgres_cdc.messages import (
    BEGIN,
    CHANGES,
    DELETE,
    RELATION,
    UPDATE,
    Changes,
    Messages,
    Relation,
    Rows,
    changes_in,
    relation_of,
)
from sqlstream.connectors.postgres_cdc.options import CdcOptions
from sqlstream.connectors.postgres_cdc.positions import from_hex
from sqlstream.connectors.postgres_cdc.server import alone, peek
from sqlstream_operators.errors import DataError, InternalError
from sqlstream_operators.plan.schema import KIND_COLUMN, Column, RowKind
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import VARCHAR

_ORDER = "\x01order"


class CdcReader(TableReader):
    """Reads splits of one table. The relation has KIND_COLUMN: what is in the copy comes (`+I`)."""

    def __init__(self, spec: SourceSpec) -> None:
        self._options = CdcOptions.read(spec.options, spec.name)
        super().__init__(spec, self._options.schema, self._options.table)

    def place(self, split: Split) -> str:
        """Where the rows of a split are."""
        if "from" in split.payload:
            return f"LSN {split.payload['from']} to {split.payload['to']}"
        return super().place(split)

    def rows_of(self, payload: Mapping[str, Any]) -> pa.Table:
        """The rows of a split, with their kinds."""
        if "from" not in payload:
            return _with_kind(super().rows_of(payload), RowKind.INSERT)
        return self.connected(
            lambda connection: self._changes(
                self._messages(connection, payload), payload, connection.location
            )
        )

    def _messages(self, connection: PostgresConnection, payload: Mapping[str, Any]) -> Iterator[Messages]:
        """The messages of a range of the log, and some before it, so many at a time.

        Each block begins with the message that began its first transaction, and the last description of the table: no more
        than a block of messages is in memory, however large a transaction is.
        """
        # Of changes only those of the table; what describes tables, and where transactions begin, is needed in any case.
        others = f"get_byte(data, 0) NOT IN ({', '.join(map(str, CHANGES))})"
        log = peek(self._options, from_hex(payload["to"]))
        begin, relation = b"", b""
        with alone(connection, self._options.slot):
            sent = connection.copied(
                f"SELECT data FROM {log} WHERE {others} OR substring(data, 2, 4) = decode('{payload['table']:08x}', 'hex')"
            )
            for block in blocks(sent):
                (field,) = fields_of(block, 1)
                first = [one for one in (begin, relation) if one]
                messages = Messages.of(first, block.data, field.starts, field.starts + field.lengths)
                yield messages
                begin = messages.last(BEGIN) or begin
                relation = messages.last(RELATION, int(payload["table"])) or relation

    def _changes(self, messages: Iterable[Messages], payload: Mapping[str, Any], location: str) -> pa.Table:
        """The rows of a range. Raises DiagnosticError (DAT015) if it has not the changes that were planned."""
        begin, to = from_hex(payload["from"]), from_hex(payload["to"])
        count = 0
        every = (*self._columns, Column(KIND_COLUMN, VARCHAR))
        rows = [no_rows(every)]
        for block in messages:
            in_range = (block.commits >= begin) & (block.commits < to)
            of_table = block.changes_of(int(payload["table"]))
            of_table = of_table[in_range[of_table]]
            count += len(of_table)
            visible = _in_snapshot(payload.get("snapshot", ""), block.xids)
            of_table = of_table[~visible[of_table]]
            if len(of_table):
                rows.append(self._rows_in(block, of_table, payload))
        if count != payload["changes"]:
            what = f"{payload['changes']:,} changes were planned, and the slot has {count:,} of them"
            raise refusals.gone(self._spec.name, location, begin, what)
        return pa.concat_tables(rows)

    def _rows_in(
        self, messages: Messages, of_table: npt.NDArray[np.intp], payload: Mapping[str, Any]
    ) -> pa.Table:
        """The rows of some changes of the table, in the order of their messages."""
        own = {int(oid): (int(base), int(modifier)) for oid, base, modifier in payload["types"]}
        relations = [(number, relation_of(messages.text(number), own)) for number in messages.relations()]
        described = [(number, relation) for number, relation in relations if relation.oid == payload["table"]]
        ends = [*[number for number, _ in described], len(messages.kinds)][1:]
        pieces: list[pa.Table] = []
        done = 0
        for (number, relation), last in zip(described, ends, strict=True):
            some = of_table[(of_table > number) & (of_table < last)]
            done += len(some)
            if len(some):
                changes = changes_in(messages, some, len(relation.columns))
                pieces += self._pieces(relation, changes)
        if done != len(of_table):
            raise InternalError("changes of pgoutput come before their table is described")
        rows = pa.concat_tables(pieces)
        order = np.argsort(rows.column(_ORDER).to_numpy(), kind="stable")
        return rows.take(pa.array(order)).drop_columns([_ORDER])

    def _pieces(self, relation: Relation, changes: Changes) -> list[pa.Table]:
        """Rows that go and rows that come, with their kinds and order. An update is `-U` and `+U` where both are known.

        Of an update that changes a key, and says no more of the row than its old key, the old key's row is deleted.
        """
        old_kinds = np.where(
            (changes.old_kinds == UPDATE) & ~changes.keys, RowKind.UPDATE_BEFORE.value, RowKind.DELETE.value
        )
        new_kinds = np.where(changes.new_kinds == UPDATE, RowKind.UPDATE_AFTER.value, RowKind.INSERT.value)
        assert not np.any(changes.new_kinds == DELETE)
        return [
            self._piece(relation, changes.old, old_kinds, 0),
            self._piece(relation, changes.new, new_kinds, 1),
        ]

    def _piece(self, relation: Relation, rows: Rows, kinds: npt.NDArray[Any], behind: int) -> pa.Table:
        places = {column.name: place for place, column in enumerate(relation.columns)}
        at = [places[column.name] for column in self._columns]
        for column, place in zip(self._columns, at, strict=True):
            if rows.texts[place]:
                raise InternalError(f"`{column.name}` comes as text, for a type that has a binary format")
            if rows.unchanged[place].any():
                raise DataError(
                    f"an update of {relation.schema}.{relation.name} does not say what `{column.name}` is: its value is "
                    "stored apart and was not changed. Run ALTER TABLE … REPLICA IDENTITY FULL and begin anew with a "
                    "new state directory, or leave the column out"
                )
        types = types_of(self._columns, relation.columns)
        made = table_of([rows.fields[place] for place in at], self._columns, types)
        columns = {name: made.column(name) for name in made.column_names}
        columns[KIND_COLUMN] = pa.array(kinds.tolist(), pa.string())
        columns[_ORDER] = pa.array(rows.numbers.astype(np.int64) * 2 + behind)
        return pa.table(columns)


def _with_kind(rows: pa.Table, kind: RowKind) -> pa.Table:
    return rows.append_column(KIND_COLUMN, pa.repeat(pa.scalar(str(kind)), rows.num_rows))


def _in_snapshot(snapshot: str, xids: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which transactions (their ids modulo 2^32) a snapshot has, as `pg_current_snapshot` writes it; "": none."""
    if not snapshot:
        return np.zeros(len(xids), bool)
    first, end, running = snapshot.split(":")
    xmin, xmax = int(first), int(end)
    # A transaction of the log is near the snapshot: within 2^31 of it, as PostgreSQL compares them.
    full = xmax + ((xids - xmax + (1 << 31)) % (1 << 32)) - (1 << 31)
    open_then = np.array([int(one) for one in running.split(",") if one], np.int64)
    return (full < xmin) | ((full < xmax) & ~np.isin(full, open_then))
