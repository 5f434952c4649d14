"""Groups that are kept up to date, from groups of the same rows by more keys, or by keys that theirs are functions of.

Accumulators add up: those of a new group are merged from those of the old groups that it is made of, by the new
operator's own expressions. A filter that reads only keys takes whole groups away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.state_schema import StateField, StateTable
from sqlstream_operators.plan.types import BIGINT, SqlType, quote_identifier
from sqlstream_planner.edits.derivations.counted import counted
from sqlstream_planner.edits.derivations.counted_values import distinct_call, sources_of_values
from sqlstream_planner.edits.derivations.from_keys import KeyedRows
from sqlstream_planner.edits.derivations.grouping_sets import mapped_sets
from sqlstream_planner.edits.derivations.keys import KeyMap, mapped_keys
from sqlstream_planner.edits.derivations.multisets import HeldValues
from sqlstream_planner.edits.derivations.parts import (
    Columns,
    columns_from,
    merged,
    merged_accumulators,
    select,
    time_of,
)
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.stored import Stored, grouped
from sqlstream_planner.edits.derivations.time_to_live import times_of
from sqlstream_planner.edits.derivations.values import (
    Read,
    accumulated_distinct,
    distinct_of_groups,
    distinct_states,
    flag_of_distinct,
    joined,
    known_values,
    multisets_of,
)
from sqlstream_planner.edits.verdict import Derivation, DerivedRows, DerivedTable, Regrouped
from sqlstream_planner.physical.state_node import KeptAccumulator

_VALUE, _ROWS = "~value", "~rows"
_FREE = frozenset({"time to live", "grouping sets", "rows can go"})


def derive_groups(old: Stored, wanted: Wanted) -> Derived | None:
    """The groups of `wanted` from those of `old`."""
    was, now = old.spec, wanted.state.spec
    if not isinstance(was, GroupAggregateSpec) or not isinstance(now, GroupAggregateSpec):
        return None
    before, after = grouped(old.rows), grouped(wanted.state.rows)
    if before is None or after is None or not _alike(old, wanted.state):
        return None
    keys = mapped_keys(old, before, wanted, after) or mapped_sets(old, before, wanted, after)
    if keys is None or (old.forgetful and not keys.adds_nothing):
        return None
    return _Groups(old, wanted, now, keys).derived()


def _alike(old: Stored, new: Stored) -> bool:
    """Whether nothing differs between them but what rules can do something about."""
    if old.differs(new, _FREE):
        return False
    # Rows that begin to go: what is kept of those that came is what would be kept of them.
    return old.attributes["rows can go"] == new.attributes["rows can go"] or not old.attributes["rows can go"]


def _only(table: StateTable, field: StateField, text: str) -> list[str]:
    """The values of a table, of which one is known."""
    return [
        f"CAST({text if f.name == field.name else 'NULL'} AS {f.type}) AS {quote_identifier(f.name)}"
        for f in table.value
    ]


def _by_sets(*states: Stored) -> bool:
    """Whether one of the states has several grouping sets."""
    return any(key.op == "grouping" for state in states for key in dict(state.keys()))


class _Groups:
    """One derivation, put together table by table."""

    def __init__(self, old: Stored, wanted: Wanted, now: GroupAggregateSpec, keys: KeyMap) -> None:
        self._old, self._new, self._node = old, wanted.state, wanted.node
        self._now, self._keys = now, keys
        self._before = wanted.before
        self._keyed = KeyedRows.of(old, wanted.node)
        self._never_null = wanted.never_null
        self._missing: set[tuple[str, str]] = set()
        self._reasons: dict[tuple[str, str], str] = {}

    def derived(self) -> Derived | None:
        accumulators = self._accumulators(self._new.spec.state.tables[0])
        if accumulators is None:
            return None
        multisets = [self._multiset(self._new.spec.state.table(m.name)) for m in self._now.multisets]
        times = times_of(self._new, accumulators, self._old, self._keys)
        tables = (accumulators, *(m for m in multisets if m is not None), *times)
        derivation = Derivation("groups", tables)
        return Derived(derivation, self._keys.reason, self._reasons, frozenset(self._missing))

    def _accumulators(self, table: StateTable) -> DerivedTable | None:
        acc = self._old.table(table.name)
        if acc is None or acc.layout != table.layout:
            return None
        found = columns_from(self._old, acc.value, self._new, table.value, self._adds_up)
        if self._now.presence in found.missing:
            return None
        counts = self._of_counts(table, acc, found.missing)
        known, reads, joins = self._of_values(table, [n for n in found.missing if n not in counts])
        known |= counts
        also = self._of_distinct(table, [n for n in found.missing if n not in known])
        there = {*known, *(name for name, _ in also)}
        if found.all_missing and not there:
            return None
        self._missing |= {(table.name, name) for name in found.missing if name not in there}
        values = found.replaced(table.value, known)
        rows = self._keys.select(time_of(table), values, acc.name, joins)
        if self._now.seed is not None:
            # The group that exists even without a row: adding it to any other changes nothing.
            rows = f"{rows}\nUNION ALL BY NAME\n{self._now.seed}"
        more = tuple(rows for _, rows in also)
        merged_sql = self._merged(table, always=bool(more))
        return DerivedTable(table.name, (acc.name, *reads), rows, merged_sql, more)

    def _of_counts(self, table: StateTable, acc: StateTable, missing: Sequence[str]) -> dict[str, str]:
        """Accumulators that count rows, from others that count the same."""
        wanted = [f for f in table.value if f.name in missing]
        found = counted(
            self._old, acc.value, self._new, wanted, keyed=bool(acc.key) and self._now.seed is None
        )
        self._reasons |= {(table.name, name): "from a number of rows that is kept" for name in found}
        return found

    def _of_values(
        self, table: StateTable, missing: Sequence[str]
    ) -> tuple[dict[str, str], tuple[str, ...], str]:
        """Accumulators from multisets of the same groups, from their keys, or from other accumulators: their SQL by name,
        the tables that are read, the joins.
        """
        found: dict[str, tuple[Read, str]] = {}
        found |= known_values(self._node, missing, lambda kept: multisets_of(self._old, kept, self._node))
        self._reasons |= {(table.name, name): "from values that are kept one by one" for name in found}
        for name in missing:
            kept = self._node.accumulators.get(name)
            text = self._keyed.accumulated(kept) if kept is not None and name not in found else None
            if text is not None:
                found[name] = self._keyed, text
                self._reasons[table.name, name] = "from the keys of the groups that are kept"
        joins, items, reads = joined(self._old, found)
        return {**self._counted(table, missing), **items}, reads, joins

    def _counted(self, table: StateTable, missing: Sequence[str]) -> dict[str, str]:
        """Counts that are a part of the moments that STDDEV keeps."""
        acc = self._old.spec.state.tables[0]
        moments = {
            m.args[2]: f
            for f in acc.value
            if (m := self._old.meaning(f)) is not None and m.op == "accumulator" and m.args[0] == "moments"
        }
        found = {}
        for f in table.value:
            meaning = self._new.meaning(f) if f.name in missing else None
            if meaning is None or meaning.op != "accumulator" or meaning.args[0] != "count":
                continue
            known = moments.get(meaning.args[2])
            if known is not None:
                found[f.name] = f"coalesce(struct_extract({quote_identifier(known.name)}, 'n'), 0)"
                self._reasons[table.name, f.name] = "from the moments that are kept"
        return found

    def _of_distinct(self, table: StateTable, missing: Sequence[str]) -> list[tuple[str, DerivedRows]]:
        """Accumulators from the states that hold the groups' distinct values: rows of groups that know nothing else."""
        found = []
        for field in table.value:
            if field.name not in missing or table.layout == "time" or _by_sets(self._old, self._new):
                continue
            kept = self._node.accumulators.get(field.name)
            if kept is not None:
                values = self._from_distinct(kept)
                made = self._alone(table, field, *values) if values is not None else None
            else:
                made = self._from_changes(table, field)
            if made is not None:
                found.append((field.name, made))
                self._reasons[table.name, field.name] = "from the distinct values that are kept"
        return found

    def _from_distinct(self, kept: KeptAccumulator) -> tuple[Stored, str, str | None] | None:
        for state, values in distinct_of_groups(self._before, self._old, kept, self._node):
            text = values.accumulated(kept)
            if text is not None:
                return state, text, values.condition
        return None

    def _from_changes(self, table: StateTable, field: StateField) -> DerivedRows | None:
        """An accumulator of distinct values, from a state of these values: as if they had all come just now."""
        meaning = self._new.meaning(field)
        for state, value in distinct_states(self._before, self._old):
            flag = flag_of_distinct(meaning, state, value)
            text = accumulated_distinct(meaning, field) if flag is not None else None
            if flag is None or text is None:
                continue
            over = quote_identifier(value.name), quote_identifier(flag.name)
            types = value.type, flag.type
            return self._counted_once(table, field, state, text, over, types, None)
        call = distinct_call(self._node, meaning) if meaning is not None else None
        text = accumulated_distinct(meaning, field) if call is not None else None
        below = self._node.node.inputs[0]
        for source in sources_of_values(self._before, self._old, self._node) if text is not None else ():
            assert call is not None
            assert text is not None
            known, rows = source.value(call.arguments[0], below), source.filtered(call.filter, below)
            if known is not None and rows is not None:
                type_ = call.argument_types[0]
                over = f"CAST({known} AS {type_})", f"CAST({rows} AS BIGINT)"
                only = f"({known}) IS NOT NULL"
                return self._counted_once(table, field, source.state, text, over, (type_, BIGINT), only)
        return None

    def _counted_once(
        self,
        table: StateTable,
        field: StateField,
        state: Stored,
        text: str,
        over: tuple[str, str],
        types: tuple[SqlType, SqlType],
        condition: str | None,
    ) -> DerivedRows:
        """An accumulator `text` of distinct values, each once, over a value and how many rows have it."""
        if not self._keys.one_to_one:
            return self._together(table, field, state, text, over, types, condition)
        value, rows = over
        return self._alone(table, field, state, text.format(value=value, rows=rows), condition)

    def _together(
        self,
        table: StateTable,
        field: StateField,
        state: Stored,
        text: str,
        over: tuple[str, str],
        types: tuple[SqlType, SqlType],
        condition: str | None,
    ) -> DerivedRows:
        """The same where old groups become one: each value is counted once, so its rows are brought together first."""
        keys = [Column(f.name, f.type) for f in table.key]
        columns = (*keys, Column(_VALUE, types[0]), Column(_ROWS, types[1]))
        named = {c.name: quote_identifier(c.name) for c in columns}
        items = [
            *self._keys.items,
            f"{over[0]} AS {named[_VALUE]}",
            f"{over[1]} AS {named[_ROWS]}",
        ]
        read = state.spec.state.tables[0].name
        by = ", ".join(named[c.name] for c in keys)
        once = ", ".join(named[c.name] for c in (*keys, columns[-2]))
        inner = f'SELECT {once}, sum({named[_ROWS]}) AS {named[_ROWS]} FROM "rows" GROUP BY {once}'
        made = text.format(value=named[_VALUE], rows=named[_ROWS])
        listed = ", ".join([*(named[c.name] for c in keys), *_only(table, field, made)])
        rows = f"SELECT {listed}\nFROM ({inner}) AS t\n" + (f"GROUP BY {by}" if by else "HAVING count(*) > 0")
        via = Regrouped(columns, tuple(c.name for c in columns[:-1]), rows)
        where = [*self._keys.where, *([condition] if condition is not None else [])]
        rest = f"\nWHERE {' AND '.join(where)}" if where else ""
        return DerivedRows(state.spec.state, (read,), select(items, read, rest), via)

    def _alone(
        self, table: StateTable, field: StateField, state: Stored, text: str, condition: str | None
    ) -> DerivedRows:
        """Rows of the new table of which only one accumulator is known, over a state of distinct values."""
        values = _only(table, field, text)
        where = [*self._keys.where, *([condition] if condition is not None else [])]
        rest = f"\nWHERE {' AND '.join(where)}" if where else ""
        by = ", ".join(str(n) for n, _ in enumerate(self._keys.items, 1))
        rest += f"\nGROUP BY {by}" if by else "\nHAVING count(*) > 0"
        read = state.spec.state.tables[0].name
        return DerivedRows(state.spec.state, (read,), select([*self._keys.items, *values], read, rest))

    def _adds_up(self, field: StateField) -> bool:
        """Whether the accumulators of several groups make that of one: how many distinct values there are does not."""
        return self._keys.adds_nothing or field.name in self._node.accumulators

    def _merged(self, table: StateTable, *, always: bool) -> str | None:
        if self._keys.adds_nothing and self._now.seed is None and not always:
            return None
        return merged_accumulators(table, self._now)

    def _multiset(self, table: StateTable) -> DerivedTable | None:
        # The same values are read at one end or the other: both tables hold all of them.
        base = table.name.removesuffix("_last")
        before = next(filter(None, map(self._old.table, (table.name, base, f"{base}_last"))), None)
        if before is not None:
            found = columns_from(self._old, before.sub_key, self._new, table.sub_key)
        keys = self._keys
        held = HeldValues.of(table, self._new, self._node) if before is None else None
        if held is not None and not keys.also:
            before = self._with_other_nulls(held) or held.in_other_words(
                self._old, self._new, self._never_null
            )
            if before is not None:
                named = f"{quote_identifier(before.sub_key[0].name)} AS {quote_identifier(held.field.name)}"
                found = Columns((named,), ())
                keys = replace(
                    keys, where=(*keys.where, f"{quote_identifier(before.sub_key[0].name)} IS NOT NULL")
                )
            elif held.has_nulls:
                made = self._with_nulls(table, held)
                if made is not None:
                    return made
        if before is None or found.missing:
            return self._multiset_of_keys(table)
        rows = keys.select(time_of(table), [*found.items, '"count"'], before.name)
        if self._keys.adds_nothing:
            return DerivedTable(table.name, (before.name,), rows)
        return DerivedTable(table.name, (before.name,), rows, _added_up(table))

    def _multiset_of_keys(self, table: StateTable) -> DerivedTable | None:
        """The values that keys of the old groups are, as often as there are rows."""
        values = self._node.values.get(table.name)
        items = self._keyed.items(values, {f.name: f for f in table.sub_key}) if values is not None else None
        where = self._keyed.conditions(self._node.conditions.get(table.name, ()))
        count = self._keyed.count
        if items is None or where is None or count is None or table.layout == "time" or self._keys.also:
            self._missing.add((table.name, ""))
            return None
        read = self._keyed.table.name
        all_of = " AND ".join([*self._keys.where, *where])
        rest = f"\nWHERE {all_of}" if all_of else ""
        rows = select([*self._keys.items, *items, f'{count} AS "count"'], read, rest)
        self._reasons[table.name, "count"] = "from the keys of the groups that are kept"
        return DerivedTable(table.name, (read,), rows, _added_up(table))

    def _with_other_nulls(self, held: HeldValues) -> StateTable | None:
        """The old multiset of the same values of the same rows, NULLs among them, where the new one has none; or the one
        without them, where there are none.
        """
        if held.has_nulls and held.value not in self._never_null:
            return None
        return self._old.table(held.named(nulls=not held.has_nulls))

    def _with_nulls(self, table: StateTable, held: HeldValues) -> DerivedTable | None:
        """The multiset with NULLs from the one without: they are the other rows of the group, where it counts all."""
        before, acc = self._old.table(held.named(nulls=False)), self._keyed.table
        count = self._keyed.count
        if before is None or count is None or held.where is not None or table.layout == "time":
            return None
        name, value = quote_identifier(held.field.name), quote_identifier(before.sub_key[0].name)
        there = self._keys.select([], [f"{value} AS {name}", '"count"'], before.name)
        by = [quote_identifier(f.name) for f in acc.key]
        # A group may be gone while values are owed to it: what is there of either counts.
        all_less_values = "\nUNION ALL\n".join(
            select([*by, f"CAST({number} AS BIGINT) AS {quote_identifier(_ROWS)}"], read)
            for number, read in ((count, acc.name), ('-"count"', before.name))
        )
        nulls = f"sum({quote_identifier(_ROWS)})"
        items = [
            *self._keys.items,
            f"CAST(NULL AS {held.field.type}) AS {name}",
            f'CAST({nulls} AS BIGINT) AS "count"',
        ]
        groups = ", ".join(str(n) for n, _ in enumerate(self._keys.items, 1))
        others = f"SELECT {', '.join(items)}\nFROM ({all_less_values}) AS t{self._keys.condition}"
        others += f"\nGROUP BY {groups}" if groups else ""
        others += f"\nHAVING {nulls} <> 0"
        self._reasons[table.name, "count"] = "from the values that are kept, and how many rows there are"
        rows = f"{there}\nUNION ALL BY NAME\n{others}"
        return DerivedTable(
            table.name,
            (acc.name, before.name),
            rows,
            None if self._keys.adds_nothing else _added_up(table),
        )


def _added_up(table: StateTable) -> str:
    """The rows of a multiset, with how often each is there."""
    return merged(table, ['CAST(sum("count") AS BIGINT) AS "count"'], 'sum("count") <> 0')
