"""What a piece of state means: enough to say whether state that an older plan left is what a new plan's operator needs.

An identity is plain data, stored whole with every manifest and savepoint. It is derived from the relational algebra,
never from how the plan runs. In its *core* are the rows that are kept and what they are kept by: two states with
different cores have nothing in common. Apart from it are *attributes*, which are compared one by one (a limit, an
order, the columns of a row, how rows are laid out), and what each stored *field* means, so that of an edit is known:
the same rows, the limit was 10 and is 3, and one field is new.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream_operators.plan.state_schema import Layout, StateField, StateSchema, StateTable, disambiguated
from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.identity.form import Data, Form, form, forms_in, sort_forms, to_json
from sqlstream_planner.identity.stored_identity import read_identity

#: Raised when a form is spelled in another way: stored identities of other versions are not compared with ours.
VERSION = 1
#: How long something is kept is no part of what it means.
_APART = frozenset({"time to live"})


@dataclass(frozen=True, slots=True)
class Stored:
    """A field of a state table: its column there, its type, and what it means.

    Fields stand in a table in the order of their meanings' digests; those with a `rank` before or behind others.
    """

    name: str
    type: SqlType
    meaning: Form
    rank: str = ""

    @property
    def field(self) -> StateField:
        """The field of the schema, known there by the digest of what it means."""
        return StateField(self.name, self.type, f"{self.rank}{self.meaning.digest}")


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A state table with the meanings of its fields."""

    name: str
    layout: Layout
    key: tuple[Stored, ...] = ()
    sub_key: tuple[Stored, ...] = ()
    value: tuple[Stored, ...] = ()

    @property
    def table(self) -> StateTable:
        """The table of the schema. A value that is kept under two names has its number behind its meaning."""
        return StateTable.of(
            self.name,
            self.layout,
            key=disambiguated(s.field for s in self.key),
            sub_key=disambiguated(s.field for s in self.sub_key),
            value=disambiguated(s.field for s in self.value),
        )

    def meanings(self) -> dict[str, Data]:
        """What the parts hold, in an order that no name decides."""
        parts = {"key": self.key, "sub-key": self.sub_key, "value": self.value}
        return {
            "layout": self.layout,
            **{
                part: sort_forms(form("field", s.meaning, str(s.type)) for s in stored)
                for part, stored in parts.items()
            },
        }


@dataclass(frozen=True, slots=True)
class StateIdentity:
    """What the state of one operator means; see the module's docstring.

    `operator` is a fixed name of what is kept ("groups", "ranked rows" …), `rows` the relation that it is kept of, `keys`
    what it is kept by.
    """

    operator: str
    rows: Form
    keys: tuple[Form, ...]
    attributes: Mapping[str, Data]
    tables: tuple[StoredTable, ...]
    version: int = VERSION

    @property
    def core(self) -> Form:
        """Which rows are kept, and by what."""
        return form("state", self.version, self.operator, self.rows, *sort_forms(self.keys))

    @property
    def id(self) -> str:
        """16 hex digits that name the core."""
        return self.core.digest[:16]

    @property
    def state_id(self) -> str:
        """The core's name, and 8 hex digits of everything else that decides what is in the state."""
        apart = {k: v for k, v in self.attributes.items() if k not in _APART}
        tables = {t.name: t.meanings() for t in self.tables}
        rest = json.dumps(to_json({"attributes": apart, "tables": tables}), sort_keys=True)
        return f"{self.id}-{hashlib.blake2b(rest.encode(), digest_size=4).hexdigest()}"

    def to_json(self) -> dict[str, Any]:
        """Plain data: `forms` and what refers to them."""
        return {
            "version": self.version,
            "operator": self.operator,
            "id": self.id,
            **to_json(
                {
                    "rows": self.rows,
                    "keys": sort_forms(self.keys),
                    "attributes": dict(self.attributes),
                    "tables": {t.name: t.meanings() for t in self.tables},
                }
            ),
        }

    def schema(self, operator: str, description: str) -> StateSchema:
        """The schema of the state; `operator` is the kind of the operator that keeps it, `description` is for people."""
        return StateSchema(
            self.state_id,
            operator,
            description,
            tuple(t.table for t in self.tables),
            json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")),
        )


def stored_meanings(schema: StateSchema) -> frozenset[Form]:
    """What the fields of a state mean, read from the identity that its schema holds; nothing if it holds none."""
    if not schema.identity:
        return frozenset()
    tables = read_identity(schema.identity).roots["tables"]
    return frozenset(f.args[0] for f in forms_in(tables) if isinstance(f.args[0], Form))
