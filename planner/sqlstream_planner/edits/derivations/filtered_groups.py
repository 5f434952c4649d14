"""Groups of the rows that pass a condition, from groups whose aggregates have it as their FILTER.

`SELECT k, SUM(v) FILTER (WHERE c) … GROUP BY k` keeps what `SELECT k, SUM(v) … WHERE c GROUP BY k` needs; which groups
have a row that passes says a COUNT(*) with that FILTER.
"""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.from_keys import counts_rows
from sqlstream_planner.edits.derivations.keys import KeyMap, mapped_keys
from sqlstream_planner.edits.derivations.parts import merged, merged_accumulators, time_of
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, grouped
from sqlstream_planner.edits.verdict import Derivation, DerivedTable
from sqlstream_planner.identity.form import Form

_REASON = "what its FILTER kept is what the new condition leaves"


def derive_filtered_groups(old: Stored, wanted: Wanted) -> Derived | None:
    """The groups of `wanted`, or their distinct values, from `old` ones of more rows."""
    before, after = grouped(old.rows), grouped(wanted.state.rows)
    if before is None or after is None or old.forgetful:
        return None
    if old.differs(wanted.state, frozenset({"grouping sets"})):
        return None
    added = after.conditions - before.conditions
    if not added or before.conditions - after.conditions or old.attributes.get("time to live"):
        return None
    if old.attributes.get("expires") or len(before.sets) != 1:
        return None
    keys = mapped_keys(old, before, wanted, replace(after, conditions=before.conditions))
    if keys is None:
        return None
    was, now = old.spec, wanted.state.spec
    if isinstance(was, GroupAggregateSpec) and isinstance(now, GroupAggregateSpec):
        return _groups(old, wanted, now, keys, added)
    if isinstance(was, DistinctValuesSpec) and isinstance(now, DistinctValuesSpec):
        return _distinct_values(old, wanted, now, keys, added)
    return None


def _groups(
    old: Stored, wanted: Wanted, now: GroupAggregateSpec, keys: KeyMap, added: frozenset[Form]
) -> Derived | None:
    table, acc = wanted.state.spec.state.tables[0], old.spec.state.tables[0]
    there = _by_filter(old, acc)
    items, missing, rows = [], set(), None
    adds_up = keys.adds_nothing
    for f in table.value:
        meaning = wanted.state.meaning(f)
        found = _with(meaning, added)
        known = there.get(found) if found is not None else None
        if known is not None and (adds_up or f.name in wanted.node.accumulators) and known.type == f.type:
            items.append(f"{quote_identifier(known.name)} AS {quote_identifier(f.name)}")
        else:
            missing.add((table.name, f.name))
            items.append(f"CAST(NULL AS {f.type}) AS {quote_identifier(f.name)}")
    for (kind, *_, passes), f in there.items():
        if kind == "rows" and passes == added:
            rows = f
    seeded = now.seed is not None
    if len(missing) == len(table.value) or (rows is None and not seeded):
        return None
    if now.presence is not None and (table.name, now.presence) in missing:
        return None
    there_are = () if rows is None else (f"{quote_identifier(rows.name)} <> 0",)
    some = replace(keys, where=(*keys.where, *there_are))
    text = some.select(time_of(table), items, acc.name)
    if seeded:
        text = f"{text}\nUNION ALL BY NAME\n{now.seed}"
    together = None if keys.adds_nothing and not seeded else merged_accumulators(table, now)
    missing |= {(m.name, "") for m in now.multisets}
    made = DerivedTable(table.name, (acc.name,), text, together)
    return Derived(Derivation("filtered groups", (made,)), _REASON, {}, frozenset(missing))


def _distinct_values(
    old: Stored, wanted: Wanted, now: DistinctValuesSpec, keys: KeyMap, added: frozenset[Form]
) -> Derived | None:
    table, seen = now.state.tables[0], old.spec.state.tables[0]
    if len(now.state.tables) > 1:
        return None
    there = _by_filter(old, seen)
    found = []
    for f in table.value:
        meaning = _with(wanted.state.meaning(f), added)
        known = there.get(meaning) if meaning is not None else None
        if known is None or known.type != f.type:
            return None
        found.append((quote_identifier(known.name), quote_identifier(f.name), f.type))
    items = [f"{was} AS {name}" for was, name, _ in found]
    some = replace(keys, where=(*keys.where, f"({' OR '.join(f'{was} <> 0' for was, _, _ in found)})"))
    text = some.select((), items, seen.name)
    together = None
    if not keys.one_to_one:
        add = "sum" if now.retracting else "max"
        sums = [f"CAST({add}({name}) AS {type_}) AS {name}" for _, name, type_ in found]
        together = merged(table, sums, " OR ".join(f"{add}({name}) <> 0" for _, name, _ in found))
    return Derived(
        Derivation("filtered groups", (DerivedTable(table.name, (seen.name,), text, together),)), _REASON
    )


def _by_filter(old: Stored, table: StateTable) -> dict[tuple[object, ...], StateField]:
    """The columns of an old state by what they hold and the conditions of their FILTER."""
    found: dict[tuple[object, ...], StateField] = {}
    for f in table.value:
        meaning = old.meaning(f)
        parts = _parts(meaning) if meaning is not None else None
        if meaning is None or parts is None:
            continue
        found.setdefault(parts, f)
        if meaning.op == "accumulator" and counts_rows(_unfiltered(meaning)):
            found.setdefault(("rows", parts[-1]), f)
    return found


def _with(meaning: Form | None, added: frozenset[Form]) -> tuple[object, ...] | None:
    """What a column holds, with more conditions."""
    parts = _parts(meaning) if meaning is not None else None
    if parts is None:
        return None
    passes = parts[-1]
    assert isinstance(passes, frozenset)
    return (*parts[:-1], passes | added)


def _parts(meaning: Form) -> tuple[object, ...] | None:
    """What a column holds apart from its FILTER, and the conditions of that; None for what is not known."""
    match meaning.op, meaning.args:
        case "accumulator", (kind, type_, Form(op="aggregate call", args=(name, distinct, arguments, where))):
            return ("call", kind, type_, name, distinct, arguments, _conditions(where))
        case "accumulator", (kind, type_, "distinct", values, where):
            return ("distinct", kind, type_, values, _conditions(where))
        case "rows", (where,):
            return ("values", _conditions(where))
    return None


def _unfiltered(meaning: Form) -> Form:
    """An accumulator of a call without its FILTER."""
    kind, type_, call = meaning.args[:3]
    if not isinstance(call, Form) or call.op != "aggregate call":
        return meaning
    return replace(meaning, args=(kind, type_, replace(call, args=(*call.args[:3], None))))


def _conditions(where: object) -> frozenset[Form]:
    if not isinstance(where, Form):
        return frozenset()
    if where.op != "and":
        return frozenset({where})
    return frozenset(a for a in where.args if isinstance(a, Form))
