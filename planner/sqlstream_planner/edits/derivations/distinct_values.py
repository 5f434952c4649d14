"""The distinct values of groups, from those of groups by more keys, or by keys that theirs are functions of."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.counted_values import counted_values
from sqlstream_planner.edits.derivations.keys import mapped_keys
from sqlstream_planner.edits.derivations.parts import columns_from, merged, select
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, grouped
from sqlstream_planner.edits.derivations.time_to_live import times_of
from sqlstream_planner.edits.verdict import Derivation, DerivedTable

_FREE = frozenset({"time to live"})


def derive_distinct_values(old: Stored, wanted: Wanted) -> Derived | None:
    """The distinct values in the groups of `wanted` from those in the groups of `old`; each has them by the same columns."""
    was, now = old.spec, wanted.state.spec
    if isinstance(was, GroupAggregateSpec) and isinstance(now, DistinctValuesSpec):
        return _from_counted(old, wanted, now)
    if not isinstance(was, DistinctValuesSpec) or not isinstance(now, DistinctValuesSpec):
        return None
    before, after = grouped(old.rows), grouped(wanted.state.rows)
    if before is None or after is None or old.differs(wanted.state, _FREE):
        return None
    if old.distinct_values().keys() != wanted.state.distinct_values().keys():
        return None
    keys = mapped_keys(old, before, wanted, after)
    if keys is None or (old.forgetful and not keys.one_to_one):
        return None
    table = now.state.tables[0]
    flags = columns_from(old, was.state.tables[0].value, wanted.state, table.value)
    if flags.missing:
        return _from_counted(old, wanted, now)
    read = was.state.tables[0].name
    rows = select([*keys.items, *flags.items], read, keys.condition)
    together = None
    if not keys.one_to_one:
        # Counts of rows add up; over append-only rows, a flag says whether there is any.
        add = "sum" if now.retracting else "max"
        names = [(quote_identifier(f.name), f.type) for f in table.value]
        together = merged(table, [f"CAST({add}({name}) AS {type_}) AS {name}" for name, type_ in names])
    first = DerivedTable(table.name, (read,), rows, together)
    times = times_of(wanted.state, first, old, keys)
    values = {f.name for f in wanted.state.distinct_values().values()}
    by = replace(
        keys,
        keys={name: text for name, text in keys.keys.items() if name not in values},
        before=keys.before - len(values),
    )
    return Derived(Derivation("distinct values", (first, *times)), by.reason)


def _from_counted(old: Stored, wanted: Wanted, now: DistinctValuesSpec) -> Derived | None:
    """The values with flags that were not kept, where a FILTER only reads the value and the keys; also of groups whose keys
    have the value.
    """
    before, after = grouped(old.rows), grouped(wanted.state.rows)
    source = counted_values(old, wanted.node)
    of_groups = any(old.attributes.get(name) for name in ("expires", "time to live"))
    if before is None or after is None or source is None or old.forgetful or of_groups:
        return None
    if old.attributes["rows can go"] != wanted.state.attributes["rows can go"] or len(now.state.tables) > 1:
        return None
    keys = mapped_keys(old, before, wanted, after)
    if keys is None:
        return None
    table, below = now.state.tables[0], wanted.node.node.inputs[0]
    conditions = wanted.node.values.get(table.name, {})
    flags = []
    for f in table.value:
        rows = source.filtered(conditions.get(f.name), below)
        if rows is None:
            return None
        flags.append((f, rows if now.retracting else f"(({rows}) > 0)"))
    values = [text for name, text in keys.keys.items() if name in {c.name for c in now.values}]
    there = " OR ".join(f"({rows}) <> 0" if now.retracting else rows for _, rows in flags)
    where = [*keys.where, *(f"({text}) IS NOT NULL" for text in values), f"({there})"]
    items = [f"CAST({rows} AS {f.type}) AS {quote_identifier(f.name)}" for f, rows in flags]
    read = source.table.name
    text = select([*keys.items, *items], read, f"\nWHERE {' AND '.join(where)}")
    add = "sum" if now.retracting else "max"
    names = [(quote_identifier(f.name), f.type) for f in table.value]
    left = " OR ".join(f"{add}({name}) <> 0" for name, _ in names)
    together = merged(table, [f"CAST({add}({name}) AS {type_}) AS {name}" for name, type_ in names], left)
    derivation = Derivation("distinct values", (DerivedTable(table.name, (read,), text, together),))
    return Derived(derivation, "from values that are kept, and how many rows have them")
