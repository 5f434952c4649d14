"""Groups of rows that another state keeps whole: a side of a join, an arrangement, the rows of functions OVER.

The accumulators are what the operator makes of rows that it is given; here it is given those of a state.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlstream_operators.plan.arranged_spec import ArrangeSpec
from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.over_spec import COPY, ROW, ROWS, SORT, OverSpec
from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.edits.derivations.conditions import narrowing
from sqlstream_planner.edits.derivations.from_keys import KeyedRows
from sqlstream_planner.edits.derivations.kept_side import COUNT, KeptSide
from sqlstream_planner.edits.derivations.parts import merged, merged_accumulators, select
from sqlstream_planner.edits.derivations.rewritten import Rewriter, equal_means_same
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, filtered, grouped
from sqlstream_planner.edits.verdict import Derivation, DerivedTable
from sqlstream_planner.identity.form import Form

_REASON = "all rows are kept: they are grouped anew"


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows that a state keeps: their relation, their columns by what they mean, and SQL of how often each is there."""

    table: StateTable
    relation: Form
    columns: Mapping[Form, StateField]
    count: str
    can_go: bool


def derive_groups_of_rows(old: Stored, wanted: Wanted) -> Derived | None:
    """The groups of `wanted` from rows that `old` keeps."""
    now, after = wanted.state.spec, grouped(wanted.state.rows)
    if not isinstance(now, GroupAggregateSpec) or after is None or old.forgetful:
        return None
    attributes = wanted.state.attributes
    if any(attributes.get(name) for name in ("expires", "time to live")) or len(after.sets) != 1:
        return None
    if after.given or any(key.op == "grouping" for key in dict(wanted.state.keys())):
        return None
    for rows in _kept(old):
        found = _grouped(old, rows, wanted, now, after.base, after.conditions)
        if found is not None:
            return found
    return None


def _kept(old: Stored) -> Iterator[_Rows]:
    """The relations that a state keeps whole."""
    spec = old.spec
    if isinstance(spec, ArrangeSpec | JoinSpec):
        for number in (0,) if isinstance(spec, ArrangeSpec) else (0, 1):
            side = KeptSide(old, spec, number)
            if side.has_rows_without_key:
                count = quote_identifier(old.fields(side.table.value)[COUNT].name)
                yield _Rows(side.table, side.rows, side.columns(), count, side.rows_can_go)
    if isinstance(spec, OverSpec):
        table = spec.state.table(ROWS)
        given = {call.column.name for call in spec.calls} | {SORT, ROW, COPY}
        columns = old.fields([f for f in (*table.key, *table.value) if f.name not in given])
        # A copy with a negative number is a row that is owed.
        count = f"CASE WHEN {quote_identifier(COPY)} < 0 THEN -1 ELSE 1 END"
        yield _Rows(table, old.rows, columns, count, spec.retracting)


def _grouped(
    old: Stored,
    rows: _Rows,
    wanted: Wanted,
    now: GroupAggregateSpec,
    relation: Form,
    conditions: frozenset[Form],
) -> Derived | None:
    base, before = filtered(rows.relation)
    node = wanted.node
    if base != relation or rows.can_go != bool(wanted.state.attributes["rows can go"]):
        return None
    usable = {m: f for m, f in rows.columns.items() if m not in old.retyped and equal_means_same(f.type)}
    rewriter = Rewriter(node.meanings, usable)
    below = node.node.inputs[0]
    where = narrowing(before, conditions, node.node.meaning.inputs[0], rewriter)  # type: ignore[attr-defined]
    table = now.state.tables[0]
    keys = {}
    for f in table.key:
        text = rewriter.sql(node.keys[f.name], below) if f.name in node.keys else None
        if text is None:
            return None
        keys[f.name] = f"CAST({text} AS {f.type}) AS {quote_identifier(f.name)}"
    if where is None:
        return None
    given = KeyedRows(rows.table, node, rewriter, f"CAST({rows.count} AS BIGINT)")
    items, missing = [], set()
    for f in table.value:
        kept = node.accumulators.get(f.name)
        made = None if kept is None else given.accumulated(kept)
        if made is None:
            missing.add((table.name, f.name))
        items.append(f"CAST({made or 'NULL'} AS {f.type}) AS {quote_identifier(f.name)}")
    if missing and (len(missing) == len(table.value) or (table.name, now.presence) in missing):
        return None
    by = ", ".join(str(n) for n, _ in enumerate(keys, 1))
    rest = f"\nWHERE {' AND '.join(where)}" if where else ""
    text = select([*keys.values(), *items], rows.table.name, rest)
    text += f"\nGROUP BY {by}" if by else "\nHAVING count(*) > 0"
    if now.seed is not None:
        text = f"{text}\nUNION ALL BY NAME\n{now.seed}"
    tables = [DerivedTable(table.name, (rows.table.name,), text, merged_accumulators(table, now))]
    for multiset in now.multisets:
        made_of = _multiset(now.state.table(multiset.name), rows, given, keys, where)
        if made_of is None:
            missing.add((multiset.name, ""))
        else:
            tables.append(made_of)
    return Derived(Derivation("groups of rows", tuple(tables)), _REASON, {}, frozenset(missing))


def _multiset(
    table: StateTable, rows: _Rows, given: KeyedRows, keys: Mapping[str, str], where: tuple[str, ...]
) -> DerivedTable | None:
    """The values that are kept one by one."""
    values = given.node.values.get(table.name)
    items = given.items(values, {f.name: f for f in table.sub_key}) if values is not None else None
    passes = given.conditions(given.node.conditions.get(table.name, ()))
    if items is None or passes is None or table.layout == "time":
        return None
    all_of = " AND ".join([*where, *passes])
    rest = f"\nWHERE {all_of}" if all_of else ""
    text = select([*keys.values(), *items, f'{given.count} AS "count"'], rows.table.name, rest)
    together = merged(table, ['CAST(sum("count") AS BIGINT) AS "count"'], 'sum("count") <> 0')
    return DerivedTable(table.name, (rows.table.name,), text, together)
