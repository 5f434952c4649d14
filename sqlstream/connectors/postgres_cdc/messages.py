"""Messages of `pgoutput`, a block of them at a time: which transaction each is of, and which rows go and come.

Protocol version 1 with `binary`: transactions come whole, in the order of their commits, and values in their types' binary
formats; https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html. What is the same for each change
is done by numpy over all; Python sees only the messages that describe tables, of which there are few.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sqlstream.connectors.database.postgres_catalog import FIRST_OWN, ThereColumn
from sqlstream.connectors.database.postgres_fields import Fields, Ints, integers
from sqlstream_operators.errors import InternalError

BEGIN, COMMIT, RELATION, TRUNCATE = b"BCRT"
INSERT, UPDATE, DELETE = b"IUD"
#: Changes of rows.
CHANGES = (INSERT, UPDATE, DELETE)
_OTHERS = b"OYM"
_OLD, _KEY, _NEW = b"OKN"
_NULL, _UNCHANGED, _TEXT, _BINARY = b"nutb"
_Bools = npt.NDArray[np.bool_]
_Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as messages after this one have it: its id, name, replica identity (`f` full …) and columns.

    `key` are the columns of its replica identity, all of them if that is full.
    """

    oid: int
    schema: str
    name: str
    replica_identity: str
    columns: tuple[ThereColumn, ...]
    key: frozenset[str]

    @property
    def has_own_types(self) -> bool:
        """Whether columns have types of the database's own, of which it is not known what they are made of."""
        return any(column.oid >= FIRST_OWN for column in self.columns)


def oid_of(message: bytes) -> int:
    """The id of the table that a message describes."""
    return int.from_bytes(message[1:5], "big")


def _type_name(oid: int) -> str:
    """What a type is called, for messages: the log has its number only, so one of the database's own has no name."""
    from psycopg.postgres import types

    known = types.get(oid)
    return f"of type {oid}" if known is None else known.regtype


def relation_of(message: bytes, own_types: dict[int, tuple[int, int]]) -> Relation:
    """A message that describes a table; `own_types` are what types of the database's own are made of."""
    oid = oid_of(message)
    schema, name, rest = message[5:].split(b"\0", 2)
    identity, count, rest = chr(rest[0]), int.from_bytes(rest[1:3], "big"), rest[3:]
    columns, key = [], set()
    for _ in range(count):
        flags = rest[0]
        column, rest = rest[1:].split(b"\0", 1)
        type_, modifier = int.from_bytes(rest[:4], "big"), int.from_bytes(rest[4:8], "big", signed=True)
        rest = rest[8:]
        made_of = own_types.get(type_, (type_, modifier))
        columns.append(ThereColumn(column.decode(), _type_name(type_), *made_of))
        if flags & 1:
            key.add(column.decode())
    return Relation(
        oid, schema.decode() or "pg_catalog", name.decode(), identity, tuple(columns), frozenset(key)
    )


@dataclass(frozen=True, slots=True)
class Messages:
    """A block of messages in their order: bytes with PADDING, where each begins and ends, and its kind.

    `commits` and `xids` are of the transaction that each is of: where its commit begins in the log, and its id.
    """

    data: _Bytes
    starts: Ints
    ends: Ints
    kinds: _Bytes
    commits: Ints
    xids: Ints

    @classmethod
    def of(cls, first: Sequence[bytes], data: _Bytes, starts: Ints, ends: Ints) -> Messages:
        """Some messages, and those behind them in `data`, which has PADDING; the first of all begins a transaction.

        Raises InternalError for what is not understood.
        """
        before = np.cumsum([0, *map(len, first)], dtype=np.int64)
        data = np.concatenate((np.frombuffer(b"".join(first), np.uint8), data))
        starts = np.concatenate((before[:-1], starts + before[-1]))
        ends = np.concatenate((before[1:], ends + before[-1]))
        kinds = data[starts]
        known = np.isin(
            kinds, np.frombuffer(bytes([BEGIN, COMMIT, RELATION, TRUNCATE, *CHANGES]) + _OTHERS, np.uint8)
        )
        if not bool(known.all()):
            raise InternalError(f"a message of pgoutput of the unknown kind {chr(kinds[~known][0])}")
        begins = np.flatnonzero(kinds == BEGIN)
        if len(kinds) and (not len(begins) or begins[0] != 0):
            raise InternalError("messages of pgoutput do not begin with a transaction")
        transaction = np.cumsum(kinds == BEGIN) - 1
        commits = integers(data, starts[begins] + 1, 8)
        xids = integers(data, starts[begins] + 17, 4) & 0xFFFFFFFF
        if not len(begins):
            commits, xids, transaction = (np.zeros(0, np.int64),) * 3
        return cls(data, starts, ends, kinds, commits[transaction], xids[transaction])

    def text(self, number: int) -> bytes:
        """The bytes of a message."""
        return self.data[self.starts[number] : self.ends[number]].tobytes()

    def last(self, kind: int, oid: int | None = None) -> bytes:
        """The last message of a kind; with `oid` the last that describes this table. Empty: there is none."""
        numbers = np.flatnonzero(self.kinds == kind)
        if oid is not None:
            of = integers(self.data, self.starts[numbers] + 1, 4) & 0xFFFFFFFF
            numbers = numbers[of == oid]
        return self.text(int(numbers[-1])) if len(numbers) else b""

    def relations(self) -> Iterator[int]:
        """The numbers of the messages that describe tables."""
        yield from map(int, np.flatnonzero(self.kinds == RELATION))

    def changes_of(self, oid: int) -> npt.NDArray[np.intp]:
        """The numbers of the messages that change rows of a table."""
        changes = np.flatnonzero(np.isin(self.kinds, np.array(CHANGES, np.uint8)))
        of = integers(self.data, self.starts[changes] + 1, 4) & 0xFFFFFFFF
        found: npt.NDArray[np.intp] = changes[of == oid]
        return found


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that go or come: the numbers of their messages, their columns' fields, and which values are left out.

    A value is left out (`unchanged`) that is stored apart and that an update did not change. `texts`: whether values of the
    column are in the text format, as its type has no binary one.
    """

    numbers: npt.NDArray[np.intp]
    fields: tuple[Fields, ...]
    unchanged: tuple[_Bools, ...]
    texts: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What changes of one table do: the rows before (`old`) and after (`new`); `keys`: of an old row only its key is known.

    `old_kinds` and `new_kinds` are those of their messages.
    """

    old: Rows
    old_kinds: _Bytes
    keys: _Bools
    new: Rows
    new_kinds: _Bytes


def changes_in(messages: Messages, numbers: npt.NDArray[np.intp], columns: int) -> Changes:
    """The rows of the messages of these numbers, which are changes of one table of so many columns."""
    data, kinds = messages.data, messages.kinds[numbers]
    at = messages.starts[numbers] + 5
    first = data[at]
    is_old = (first == _OLD) | (first == _KEY)
    if not bool(np.all(is_old | (first == _NEW))):
        raise InternalError("a change of pgoutput has neither an old row nor a new one")
    old, behind = _rows(messages, numbers[is_old], at[is_old], columns)
    at_new = at.copy()
    at_new[is_old] = behind
    has_new = kinds != DELETE
    new, end = _rows(messages, numbers[has_new], at_new[has_new], columns)
    if not bool(np.all(end == messages.ends[numbers[has_new]])):
        raise InternalError("a change of pgoutput is longer than its rows")
    if not bool(np.all(behind[~has_new[is_old]] == messages.ends[numbers[~has_new]])):
        raise InternalError("a deletion of pgoutput is longer than its row")
    return Changes(
        old,
        kinds[is_old],
        first[is_old] == _KEY,
        _filled(new, old, first[has_new] == _OLD, np.isin(new.numbers, old.numbers), old.numbers),
        kinds[has_new],
    )


def _rows(messages: Messages, numbers: npt.NDArray[np.intp], at: Ints, columns: int) -> tuple[Rows, Ints]:
    """The rows whose mark is at these places, and where each ends."""
    data = messages.data
    if not bool(np.all(integers(data, at + 1, 2) == columns)):
        raise InternalError("a row of pgoutput has another number of columns than its table")
    at = at + 3
    fields: list[Fields] = []
    unchanged: list[_Bools] = []
    texts: list[bool] = []
    for _ in range(columns):
        kind = data[at]
        valid = (kind == _BINARY) | (kind == _TEXT)
        if not bool(np.all(valid | (kind == _NULL) | (kind == _UNCHANGED))):
            raise InternalError("a value of pgoutput is in no known format")
        texts.append(bool(np.any(kind == _TEXT)))
        at = at + 1
        lengths = np.where(valid, integers(data, np.where(valid, at, 0), 4), 0)
        at = at + np.where(valid, 4, 0)
        fields.append(Fields(data, at, lengths, valid))
        unchanged.append(kind == _UNCHANGED)
        at = at + lengths
    return Rows(numbers, tuple(fields), tuple(unchanged), tuple(texts)), at


def _filled(
    new: Rows, old: Rows, is_full: _Bools, has_old: _Bools, old_numbers: npt.NDArray[np.intp]
) -> Rows:
    """New rows, with the values that are left out taken from the old row where that is known as a whole."""
    if not any(one.any() for one in new.unchanged):
        return new
    place = np.searchsorted(old_numbers, new.numbers)
    fields, unchanged = [], []
    for number, left_out in enumerate(new.unchanged):
        take = left_out & is_full & has_old
        fill = np.flatnonzero(take)
        one, other = new.fields[number], old.fields[number].take(place[fill])
        starts, lengths, valid = one.starts.copy(), one.lengths.copy(), one.valid.copy()
        starts[fill], lengths[fill], valid[fill] = other.starts, other.lengths, other.valid
        fields.append(Fields(one.data, starts, lengths, valid))
        unchanged.append(left_out & ~take)
    return Rows(new.numbers, tuple(fields), tuple(unchanged), new.texts)
