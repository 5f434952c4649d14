"""Groups of windows, from groups of windows over the same slices: other keys, filters on keys, other windows.

See `slices` for which windows. Accumulators that depend on the order of arrival are merged from no two.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream_operators.plan.state_schema import TIME, StateField, StateTable
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from sqlstream_operators.plan.window_spec import WindowSpec
from sqlstream_planner.aggregates.registry import function_of
from sqlstream_planner.edits.derivations.keys import KeyMap, mapped_keys
from sqlstream_planner.edits.derivations.parts import columns_from, merged, merged_accumulators, select
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.slices import coarse_end_sql, slices_suffice
from sqlstream_planner.edits.derivations.stored import Grouped, Stored, grouped
from sqlstream_planner.edits.derivations.values import distinct_in_windows, joined, known_values
from sqlstream_planner.edits.verdict import Derivation, DerivedTable
from sqlstream_planner.identity.form import Form, form

_FREE = frozenset({"window", "slices", "grouping sets"})


def derive_windows(old: Stored, wanted: Wanted) -> Derived | None:
    """The groups of windows of `wanted` from those of `old`."""
    was, now = old.spec, wanted.state.spec
    if not isinstance(was, WindowAggregateSpec) or not isinstance(now, WindowAggregateSpec):
        return None
    before, after = grouped(old.rows), grouped(wanted.state.rows)
    if before is None or after is None or old.differs(wanted.state, _FREE):
        return None
    same = before.base == after.base and was.window == now.window
    if not same and not slices_suffice(was.window, now.window):
        return None
    keys = mapped_keys(old, _in_any_window(before), wanted, _in_any_window(after))
    return _Windows(old, wanted, now, keys, was.window, same).derived() if keys is not None else None


def _in_any_window(groups: Grouped) -> Grouped:
    """The same over the rows and the times that the windows are of."""
    return Grouped(_without_windows(groups.base), groups.conditions, groups.sets, groups.given)


def _without_windows(base: Form) -> Form:
    if base.op != "windows":
        return base
    rows, window = base.args
    assert isinstance(window, Form)
    return form("any windows", rows, window.args[-1])


class _Windows:
    """One derivation, put together table by table."""

    def __init__(
        self,
        old: Stored,
        wanted: Wanted,
        now: WindowAggregateSpec,
        keys: KeyMap,
        window: WindowSpec,
        same: bool,
    ) -> None:
        self._old, self._new, self._node = old, wanted.state, wanted.node
        self._now, self._keys, self._same = now, keys, same
        regular = window.slice_us == now.window.slice_us
        self._one_to_one = keys.one_to_one and (same or regular)
        time = quote_identifier(TIME)
        self._time = time if same or regular else f"{coarse_end_sql(now.window, time)} AS {time}"
        self._missing: set[tuple[str, str]] = set()
        self._reasons: dict[tuple[str, str], str] = {}

    def derived(self) -> Derived | None:
        first, *rest = self._new.spec.state.tables
        accumulators = self._accumulators(first)
        if accumulators is None:
            return None
        distinct = [self._distinct(table) for table in rest]
        derivation = Derivation("groups of windows", (accumulators, *(d for d in distinct if d is not None)))
        reasons = [] if self._same else ["other windows over the same slices"]
        reasons += [self._keys.reason] if self._keys.reason else []
        return Derived(derivation, ", ".join(reasons), self._reasons, frozenset(self._missing))

    def _accumulators(self, table: StateTable) -> DerivedTable | None:
        acc = self._old.table(table.name)
        if acc is None:
            return None
        found = columns_from(self._old, acc.value, self._new, table.value, self._adds_up)
        known, reads, joins = self._of_values(table, found.missing)
        if found.all_missing and not known:
            return None
        self._missing |= {(table.name, name) for name in found.missing if name not in known}
        items = [self._time, *self._keys.items, *found.replaced(table.value, known)]
        rows = select(items, acc.name, f"{joins}{self._keys.condition}")
        if self._one_to_one:
            return DerivedTable(table.name, (acc.name, *reads), rows)
        return DerivedTable(table.name, (acc.name, *reads), rows, merged_accumulators(table, self._now))

    def _of_values(
        self, table: StateTable, missing: Sequence[str]
    ) -> tuple[dict[str, str], tuple[str, ...], str]:
        """Accumulators from distinct values: their SQL by name, the tables that are read, the joins."""
        found = known_values(
            self._node, missing, lambda kept: distinct_in_windows(self._old, kept, self._node)
        )
        self._reasons |= {(table.name, name): "from the distinct values that are kept" for name in found}
        joins, items, reads = joined(self._old, found)
        return items, reads, joins

    def _adds_up(self, field: StateField) -> bool:
        """Whether several of an accumulator make one: not those that depend on the order of arrival."""
        if self._one_to_one:
            return True
        kept = self._node.accumulators.get(field.name)
        if kept is None:
            return False
        any_order = function_of(kept.call).any_order
        free = any_order(kept.call) if any_order is not None else None
        made = {(a.meaning, a.type) for a in free.accumulators} if free is not None else set()
        return (kept.accumulator.meaning, kept.accumulator.type) in made

    def _distinct(self, table: StateTable) -> DerivedTable | None:
        """The distinct values of each group, each with a flag for every FILTER."""
        before = self._old.table(table.name)
        if before is not None:
            values = columns_from(self._old, before.sub_key, self._new, table.sub_key)
            flags = columns_from(self._old, before.value, self._new, table.value)
        if before is None or values.missing or flags.missing:
            self._missing.add((table.name, ""))
            return None
        items = [self._time, *self._keys.items, *values.items, *flags.items]
        rows = select(items, before.name, self._keys.condition)
        if self._one_to_one:
            return DerivedTable(table.name, (before.name,), rows)
        names = [quote_identifier(f.name) for f in table.value]
        any_of = [f"coalesce(bool_or({name}), false) AS {name}" for name in names]
        return DerivedTable(table.name, (before.name,), rows, merged(table, any_of))
