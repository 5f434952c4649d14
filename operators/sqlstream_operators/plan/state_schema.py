"""What a stateful operator keeps, as plain data: tables of fields that are known by what they mean.

A field's `fingerprint` is the canonical form of the expression that it holds; its `name` is only for people
and for columns of Arrow tables. The fields of a part of a table are ordered by fingerprint, so a query
whose columns were reordered or renamed has the same bytes in its state. Imports nothing but the standard
library and `types`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from .plain_data import PlainData, stored
from .types import SqlType

Layout = Literal["key", "time", "list"]

TIME = "$time"
"""The column of a table with layout 'time' that holds its time, int64 µs since 1970."""

FOUND = "$found"
"""The boolean column of `StateStore.get` that says whether the key has a row."""


class UntypedFieldError(ValueError):
    """A field whose type is not known can't be stored; `name` is its column."""

    def __init__(self, name: str) -> None:
        super().__init__(f"state field {name} needs a known type")
        self.name = name


@dataclass(frozen=True, slots=True)
class StateField(PlainData):
    """One stored field: its column name, its type, and the fingerprint of what it means."""

    name: str
    type: SqlType
    fingerprint: str

    def __post_init__(self) -> None:
        if not self.name or self.name in (TIME, FOUND):
            raise ValueError(f"a state field can't be called {self.name!r}")
        if not self.fingerprint:
            raise ValueError(f"state field {self.name} needs a fingerprint")
        if not self.type.is_known:
            raise UntypedFieldError(self.name)


def disambiguated(fields: Iterable[StateField]) -> list[StateField]:
    """The fields, each with a fingerprint of its own: of several with one, all but the first get their number behind it.

    A query may keep one value under two names; a part of a state table has each meaning once.
    """
    seen: Counter[str] = Counter()
    made = []
    for field in fields:
        seen[field.fingerprint] += 1
        number = seen[field.fingerprint]
        made.append(field if number == 1 else replace(field, fingerprint=f"{field.fingerprint} #{number}"))
    return made


@dataclass(frozen=True, slots=True)
class StateTable(PlainData):
    """One table of a state: rows of value fields by (key, sub-key), or by (time, key, sub-key).

    `key` decides the shard. Layout 'key' keeps the rows of a key together, in the order of the sub-key.
    Layout 'time' has one more column, `TIME` (int64 µs), and keeps rows in the order of time, so that
    closing windows is one range. Layout 'list' has no sub-key and keeps the rows of a key, in the order in
    which they were put, as one value: a few rows that are always read and written together. Each of `key`,
    `sub_key` and `value` must be in the order of its fingerprints: `StateTable.of` sorts.
    """

    name: str
    layout: Layout
    key: tuple[StateField, ...]
    sub_key: tuple[StateField, ...] = ()
    value: tuple[StateField, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a state table needs a name")
        if self.layout not in ("key", "time", "list"):
            raise ValueError(f"state table {self.name}: unknown layout {self.layout!r}")
        if self.layout == "list" and self.sub_key:
            raise ValueError(f"state table {self.name}: lists have no sub-key")
        for part, fields in (("key", self.key), ("sub_key", self.sub_key), ("value", self.value)):
            prints = [field.fingerprint for field in fields]
            if len(set(prints)) != len(prints):
                raise ValueError(f"state table {self.name}: two {part} fields have one fingerprint")
            if prints != sorted(prints):
                raise ValueError(f"state table {self.name}: {part} fields must be ordered by fingerprint")
        names = [field.name for field in (*self.key, *self.sub_key, *self.value)]
        if len(set(names)) != len(names):
            raise ValueError(f"state table {self.name}: two fields have one name in {names}")

    @classmethod
    def of(
        cls,
        name: str,
        layout: Layout,
        *,
        key: Iterable[StateField] = (),
        sub_key: Iterable[StateField] = (),
        value: Iterable[StateField] = (),
    ) -> StateTable:
        """A table from fields in any order: they are put in the order of their fingerprints."""

        def ordered(fields: Iterable[StateField]) -> tuple[StateField, ...]:
            return tuple(sorted(fields, key=lambda field: field.fingerprint))

        return cls(name, layout, ordered(key), ordered(sub_key), ordered(value))

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns that identify a row: `TIME` for layout 'time', then key, then sub-key."""
        time = (TIME,) if self.layout == "time" else ()
        return (*time, *(field.name for field in (*self.key, *self.sub_key)))

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The columns of the value."""
        return tuple(field.name for field in self.value)


@dataclass(frozen=True, slots=True)
class StateSchema(PlainData):
    """All the state of one operator: a stable id, what it is for people, its tables, and what it means.

    `identity` is what it means, whole, as JSON text that only the planner reads; it is stored with manifests, and schemas
    that differ in it alone are equal: their bytes are.

    >>> from .types import BIGINT, VARCHAR
    >>> table = StateTable.of(
    ...     "sums",
    ...     "key",
    ...     key=[StateField("who", VARCHAR, "bid.bidder")],
    ...     value=[StateField("n", BIGINT, "count(*)")],
    ... )
    >>> schema = StateSchema("ab12", "GroupAggregate", "bids per bidder", (table,))
    >>> StateSchema.from_json(schema.to_json()) == schema
    True
    """

    state_id: str
    operator: str
    description: str
    tables: tuple[StateTable, ...]
    identity: str = dataclasses.field(default="", compare=False, metadata=stored(plans_only=True))

    def __post_init__(self) -> None:
        if not self.state_id:
            raise ValueError("a state needs an id")
        names = [table.name for table in self.tables]
        if len(set(names)) != len(names):
            raise ValueError(f"state {self.state_id}: two tables have one name in {names}")
        if not 1 <= len(self.tables) <= 200:
            raise ValueError(f"state {self.state_id}: needs 1 to 200 tables, has {len(self.tables)}")

    @property
    def schema_id(self) -> str:
        """16 hex digits, equal for schemas with the same bytes: tables, layouts, (fingerprint, type)."""
        content = [
            [table.name, table.layout]
            + [
                [[field.fingerprint, str(field.type)] for field in part]
                for part in (table.key, table.sub_key, table.value)
            ]
            for table in self.tables
        ]
        text = json.dumps(content, separators=(",", ":"), ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()

    def table(self, name: str) -> StateTable:
        """The table called `name`; KeyError if there is none."""
        for table in self.tables:
            if table.name == name:
                return table
        raise KeyError(f"state {self.state_id} has no table {name!r}")
