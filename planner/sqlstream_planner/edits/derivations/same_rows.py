"""States of the same rows by the same keys, whose fields are only written in another way: each field where it belongs now.

A plain GROUP BY and the one set of GROUPING SETS ((k)) keep the same, but for a column that is the same for all groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.over_spec import OverOnCloseSpec
from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_operators.plan.types import Kind, quote_identifier
from sqlstream_planner.edits.derivations.parts import columns_from, select, time_of
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, grouped
from sqlstream_planner.edits.verdict import Derivation, DerivedTable

#: Operators whose state is nothing but columns that SQL can pass on.
_PLAIN = (GroupAggregateSpec, OverOnCloseSpec)


def derive_same_rows(old: Stored, wanted: Wanted) -> Derived | None:
    """The state of `wanted` from one that has the same rows by the same keys."""
    was, now = old.spec, wanted.state.spec
    if not isinstance(was, _PLAIN) or type(was) is not type(now):
        return None
    if old.rows != wanted.state.rows or old.differs(wanted.state, frozenset()):
        return None
    if old.operator != wanted.state.operator or len(old.spec.state.tables) != len(now.state.tables):
        return None
    tables = [_table(old, wanted.state, table) for table in now.state.tables]
    found = tuple(t for t in tables if t is not None)
    return Derived(Derivation("same rows", found), "") if len(found) == len(tables) else None


def _table(old: Stored, new: Stored, table: StateTable) -> DerivedTable | None:
    before = old.table(table.name)
    if before is None or before.layout != table.layout or table.layout == "list":
        return None
    # Rows as bytes have their columns in the order of what these mean.
    has_rows = any(f.type.kind is Kind.BLOB for f in (*table.key, *table.sub_key, *table.value))
    if has_rows and not _stand_alike(old, before, new, table):
        return None
    items: list[str] = []
    for part, mine in ((before.key, table.key), (before.sub_key, table.sub_key), (before.value, table.value)):
        plain, own = (_without_grouping(s, fields) for s, fields in ((old, part), (new, mine)))
        found = columns_from(old, plain, new, own)
        if found.missing or len(plain) != len(own) or len(old.fields(plain)) != len(plain):
            return None
        items += found.items
        constant = [f for f in mine if f not in own]
        items += [f"CAST(0 AS {f.type}) AS {quote_identifier(f.name)}" for f in constant]
    return DerivedTable(table.name, (before.name,), select([*time_of(table), *items], before.name))


def _without_grouping(state: Stored, fields: Sequence[StateField]) -> list[StateField]:
    """The fields without the column that distinguishes grouping sets, where there is only one."""
    groups = grouped(state.rows)
    single = groups is not None and len(groups.sets) == 1 and bool(groups.sets[0].args)
    return [f for f in fields if not (single and _is_grouping(state, f))]


def _is_grouping(state: Stored, field: StateField) -> bool:
    meaning = state.meaning(field)
    return meaning is not None and meaning.op == "grouping"


def _stand_alike(old: Stored, before: StateTable, new: Stored, table: StateTable) -> bool:
    """Whether each column of two tables stands where the same does in the other."""
    return all(
        [(f.type, old.meaning(f)) for f in part] == [(f.type, new.meaning(f)) for f in mine]
        for part, mine in (
            (before.key, table.key),
            (before.sub_key, table.sub_key),
            (before.value, table.value),
        )
    )
