"""Columns of sources that are declared NOT NULL."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Iterator
from typing import TypeAlias

from sqlstream_operators.plan.spec import PhysicalPlan
from sqlstream_planner.catalog.source_identity import compact
from sqlstream_planner.edits.derivations.stored import Stored
from sqlstream_planner.identity.form import Form

#: What says which data a source is, and what a column is called there.
NeverNull: TypeAlias = tuple[str, str]


def never_null_names(plan: PhysicalPlan) -> frozenset[NeverNull]:
    """The columns that every table of a plan that reads them declares NOT NULL."""
    found: set[NeverNull] = set()
    others: set[NeverNull] = set()
    for source in plan.sources:
        for column in source.physical:
            (others if column.nullable else found).add((source.identity, column.name.lower()))
    return frozenset(found - others)


def columns_of(states: Iterable[Stored], names: Container[NeverNull]) -> Iterator[Form]:
    """The columns in some states' identities that are called so."""
    for state in states:
        for meaning in state.by_digest.values():
            if meaning.op == "column" and _name(meaning) in names:
                yield meaning


def _name(column: Form) -> NeverNull | None:
    """A column that is found by its name."""
    source, text = column.args
    name = json.loads(str(text)).get("name")
    if not isinstance(source, Form) or source.op != "source" or name is None:
        return None
    written = json.loads(str(source.args[0]))
    positions = {key: written[key] for key in ("version", "connector", "options")}
    return compact(positions), str(name).lower()
