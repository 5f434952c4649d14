"""What a derivation rule is given, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.edits.verdict import Derivation
from sqlstream_planner.identity.form import Form
from sqlstream_planner.physical.state_node import StateNode


@dataclass(frozen=True, slots=True)
class Wanted:
    """A state of the new plan: its identity, what it is made of, and all states that the old plan has.

    `never_null` are columns of sources that both plans declare NOT NULL.
    """

    state: Stored
    node: StateNode
    before: Sequence[Stored] = ()
    never_null: frozenset[Form] = frozenset()


@dataclass(frozen=True, slots=True)
class Derived:
    """A way to compute a state: `reason` in words, `reasons` of single columns, by table and name.

    The columns `missing`, by table and name ("" for a whole table), are NULL in what it computes, and the tables empty.
    """

    derivation: Derivation
    reason: str
    reasons: Mapping[tuple[str, str], str] = field(default_factory=dict)
    missing: frozenset[tuple[str, str]] = frozenset()


#: Says how a new state is computed from an old one, or None where that is not shown to be right.
Rule: TypeAlias = Callable[[Stored, Wanted], Derived | None]
