"""What one item of FROM brings: a name and its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlstream_planner.logical import Field, Fields, Node


@dataclass(frozen=True, slots=True)
class Relation:
    """What one item of FROM brings: its alias (None: columns without a table name) and its columns.

    `hidden`: columns that were made for the binder and are not part of `*`. `last`: a bare name means one of
    them only if no other relation has it. `merged`: what a bare name (lower-case) and `*` mean instead, or None for
    nothing, since a JOIN … USING made one column of two. `other_names`: lower-case names by which its columns are
    found where nothing else is called so, as `u.unnest` for the column `u` of `UNNEST(a) AS u`.
    """

    alias: str | None
    fields: Fields
    hidden: bool = False
    last: bool = False
    merged: Mapping[str, Field | None] = field(default_factory=dict)
    other_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def bare(self) -> Fields:
        """What `*` gives, and names without the relation's."""
        shown = (self.merged.get(f.name.lower(), f) for f in self.fields)
        return tuple(f for f in shown if f is not None)

    def given_by(self, node: Node) -> Relation:
        """The same, knowing of its columns what `node` gives them as."""
        known = {f.id: f for f in node.fields}
        fields = tuple(_renamed(known.get(f.id, f), f.name) for f in self.fields)
        merged = {name: f and known.get(f.id, f) for name, f in self.merged.items()}
        return replace(self, fields=fields, merged=merged)


def with_distinct_names(fields: Fields) -> Fields:
    """The columns of a query as the one around it knows them: of those with one name the second is `a_1`, as in DuckDB."""
    taken: dict[str, int] = {}
    found = []
    for f in fields:
        name = f.name
        while name.lower() in taken:
            taken[f.name.lower()] += 1
            name = f"{f.name}_{taken[f.name.lower()]}"
        taken[name.lower()] = 0
        found.append(_renamed(f, name))
    return tuple(found)


def _renamed(f: Field, name: str) -> Field:
    return f if f.name == name else replace(f, name=name)
