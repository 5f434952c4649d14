"""Decides for every state of a new plan where it comes from, and what becomes of every state of the old one.

The safe verdict is BACKFILL: the state is computed anew from the sources' history. Everything else must be shown: that
the rows and keys of an older state are the same (`StateIdentity.id`), that it is kept alike (its attributes), and of
each field that it is there (its fingerprint); or a rule says how the state follows from an older one (`derivations`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlstream_operators.plan.connected import connected_operators
from sqlstream_operators.plan.spec import OperatorSpec, PhysicalPlan
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.top_n_spec import TopNSpec
from sqlstream_planner.diagnostics import Span
from sqlstream_planner.edits.derivations import derivations
from sqlstream_planner.edits.derivations.rule import Derived, Wanted
from sqlstream_planner.edits.derivations.spelled import spelled, spelling_of
from sqlstream_planner.edits.derivations.stored import Stored, stored
from sqlstream_planner.edits.differences import lost_values, place_of, state_differences
from sqlstream_planner.edits.never_null import NeverNull, columns_of, never_null_names
from sqlstream_planner.edits.verdict import FieldEdit, StateEdit, Verdict
from sqlstream_planner.explain.meaning import field_meaning, field_meanings
from sqlstream_planner.identity.form import Data
from sqlstream_planner.identity.stored_identity import read_identity
from sqlstream_planner.physical.state_node import NO_NODES, StateNode, StateNodes

#: What may differ between two states that keep the same.
_FREE = frozenset({"time to live"})
#: Of updating ranked rows all are kept, whichever of them are given.
_FREE_OF_ALL_ROWS = frozenset({"limit", "offset", "function"})
_NOT_KEPT = "it was not kept"
_NO_SUCH_ROWS = "no state that is kept has these rows by these keys"


def decide(
    old: PhysicalPlan,
    new: PhysicalPlan,
    nodes: StateNodes = NO_NODES,
    *,
    forgetful: Collection[str] = (),
    same_rows: Callable[[str, str], bool] = lambda old, new: True,
) -> tuple[StateEdit, ...]:
    """The edits of all states: first those that the new plan needs, in its order, then those that are dropped.

    `nodes` are those of the new plan (`Planned.state_nodes`); without them nothing is derived. `forgetful` are the ids of
    old states that have forgotten keys, by their time to live. `same_rows` says of an old and a new state, by their ids,
    whether the tables that feed them are equally far: without that, nothing follows from the one about the other.
    """
    before = _Before(
        [(step.name, step.operator) for step in old.operators],
        frozenset(forgetful),
        never_null_names(old) & never_null_names(new),
    )
    edits = []
    for step in new.operators:
        id_ = step.operator.state.state_id
        edits.append(_edit(step.name, step.operator, before.fed_alike(id_, same_rows), nodes.get(id_)))
    edits = _read_again_together(edits, new, before.forgetful)
    used = {edit.old.state.state_id for edit in edits if edit.old is not None}
    edits = [_explained(edit, before, used, nodes) for edit in edits]
    for name, spec in before.specs:
        if spec.state.state_id not in used:
            edits.append(StateEdit(Verdict.DROP, name, None, spec, ()))
    return tuple(edits)


class _Before:
    """The old plan's operators with their steps; their identities are read when a rule first asks for them.

    `never_null` are the columns that both plans declare NOT NULL.
    """

    def __init__(
        self,
        specs: Sequence[tuple[str, OperatorSpec]],
        forgetful: frozenset[str],
        never_null: frozenset[NeverNull],
    ) -> None:
        self.specs = specs
        self.forgetful = forgetful
        self.never_null = never_null
        self._stored: tuple[Stored, ...] | None = None

    def fed_alike(self, new: str, same_rows: Callable[[str, str], bool]) -> _Before:
        """Those that have their rows from where a new state has its own."""
        found = tuple((step, s) for step, s in self.specs if same_rows(s.state.state_id, new))
        return self if len(found) == len(self.specs) else _Before(found, self.forgetful, self.never_null)

    @property
    def stored(self) -> Sequence[Stored]:
        if self._stored is None:
            found = (stored(spec, forgetful=spec.state.state_id in self.forgetful) for _, spec in self.specs)
            self._stored = tuple(s for s in found if s is not None)
        return self._stored

    def alike(self, new: StateSchema, state: Stored | None) -> Iterable[OperatorSpec]:
        """The operators that keep the same rows by the same keys as `new`, first those that say it in the same words."""
        alike = [old for _, old in self.specs if _is_kept_alike(old.state, new)]
        yield from alike
        if state is None:
            return
        for old in self.stored:
            if old.spec not in alike and _means_alike(old, state, self.never_null):
                yield old.spec


def _edit(step: str, spec: OperatorSpec, before: _Before, node: StateNode | None) -> StateEdit:
    """The best that can be made of the older states for one operator."""
    at = node.at if node is not None else None
    places = _Places(node)
    same = [old for _, old in before.specs if old.state.state_id == spec.state.state_id]
    alike = before.alike(spec.state, stored(spec))
    kept = None
    for old in (*same[:1], *alike):
        fields = tuple(_fields(old.state, spec.state, places))
        whole = all(f.verdict in (Verdict.KEEP, Verdict.DROP) for f in fields)
        found = StateEdit(Verdict.KEEP if whole else Verdict.BACKFILL, step, spec, old, fields, at=at)
        if whole:
            return found
        if kept is None or len(found.missing) < len(kept.missing):
            kept = found
    best = None if kept is None else len(kept.missing)
    edit = kept
    for old_state, derived in _derived(spec, before, node):
        fields = tuple(_derived_fields(old_state.spec.state, spec.state, derived, places))
        verdict = Verdict.BACKFILL if derived.missing else Verdict.ADAPT
        found = StateEdit(
            verdict, step, spec, old_state.spec, fields, derived.derivation, derived.reason, at=at
        )
        if best is None or len(found.missing) < best:
            edit, best = found, len(found.missing)
    if edit is not None:
        return edit
    return _read_again(step, spec, _NO_SUCH_ROWS, at, places)


def _read_again(
    step: str, spec: OperatorSpec, reason: str, at: Span | None, places: _Places | None
) -> StateEdit:
    """Nothing is kept of any older state."""
    fields = tuple(_all_fields(spec.state, reason, places))
    return StateEdit(Verdict.BACKFILL, step, spec, None, fields, reason=reason, at=at)


def _explained(edit: StateEdit, before: _Before, used: Collection[str], nodes: StateNodes) -> StateEdit:
    """The edit with what makes its state another one: in its reason if it is computed anew, and the clause that does it as
    its fields' place. A new state is compared with the most alike of those that nothing else goes on with.
    """
    if edit.new is None or all(f.verdict in (Verdict.KEEP, Verdict.DROP) for f in edit.fields):
        return edit
    if edit.old is None and edit.reason != _NO_SUCH_ROWS:
        return edit
    new = stored(edit.new)
    if new is None:
        return edit
    wanted = [s for s in before.stored if s.state_id not in used]
    if edit.old is not None:
        wanted = [s for s in before.stored if s.state_id == edit.old.state.state_id]
    found = [differences for s in wanted if (differences := state_differences(s, new))]
    if not found:  # also beside those that something else goes on with, whose rows and groups are the same
        found = [lost for s in before.stored if (lost := lost_values(s, new))]
    if not found:
        return edit
    nearest = min(found, key=len)
    at = place_of(nearest, nodes.get(new.state_id))
    reason = "; ".join(d.text for d in nearest) if edit.old is None else edit.reason
    fields = [
        f
        if f.verdict in (Verdict.KEEP, Verdict.DROP) or f.reason not in ("", edit.reason)
        else replace(f, reason=reason if f.reason else "", at=at or f.at)
        for f in edit.fields
    ]
    return replace(edit, reason=reason, fields=tuple(fields))


_FORGOT = "keys were forgotten, so that what is kept can't stand beside what is read again"


def _read_again_together(
    edits: Sequence[StateEdit], plan: PhysicalPlan, forgetful: frozenset[str]
) -> list[StateEdit]:
    """The edits, where states that have forgotten keys and what is read again are never mixed.

    The history has what was forgotten: a count that is kept is not of the same rows as a maximum that is read again, and an
    operator would take rows back that the one behind it never had. So all operators that rows go between begin anew.
    """
    lost = {edit.step for edit in edits if not forgetful.isdisjoint(edit.sources)}
    again = {edit.step for edit in edits if edit.needs_history}
    if not (lost and again):
        return list(edits)
    together: set[str] = set()
    for steps in connected_operators(plan):
        if not (lost.isdisjoint(steps) or again.isdisjoint(steps)):
            together |= steps
    found = []
    for edit in edits:
        if edit.step in together and edit.new is not None and edit.old is not None:
            at = {(f.table, f.part, f.name): f.at for f in edit.fields}
            anew = _read_again(edit.step, edit.new, _FORGOT, edit.at, None)
            fields = tuple(replace(f, at=at.get((f.table, f.part, f.name))) for f in anew.fields)
            edit = replace(anew, fields=fields)
        found.append(edit)
    return found


def _derived(spec: OperatorSpec, before: _Before, node: StateNode | None) -> Iterable[tuple[Stored, Derived]]:
    state = stored(spec) if node is not None else None
    if node is None or state is None:
        return ()
    columns = frozenset(columns_of((state, *before.stored), before.never_null))
    return derivations(Wanted(state, node, before.stored, columns))


def _means_alike(old: Stored, new: Stored, never_null: frozenset[NeverNull]) -> bool:
    """Whether two states keep the same rows by the same keys in the same way, however that is written."""
    if old.spec.state.operator != new.spec.state.operator or old.operator != new.operator:
        return False
    if not _stands_alike(old.spec.state, new.spec.state):
        return False
    columns = frozenset(columns_of((old, new), never_null))
    was, now = (spelled(s, spelling_of(s, columns)) for s in (old, new))
    if was.rows != now.rows or was.keys().keys() != now.keys().keys() or was.differs(now, _free(new)):
        return False
    # What is written alike may mean another thing in other rows: a column of a UNION whose branches are exchanged.
    return all(was.meaning(f) in (None, now.meaning(f)) for t in now.spec.state.tables for _, f in _parts(t))


def _is_kept_alike(old: StateSchema, new: StateSchema) -> bool:
    """Whether two states keep the same rows by the same keys, in the same way; their values may differ."""
    if old.operator != new.operator or not old.identity or not new.identity:
        return False
    (was, was_apart), (now, now_apart) = _core(old), _core(new)
    if was != now or was_apart != now_apart:
        return False
    return _stands_alike(old, new)


def _stands_alike(old: StateSchema, new: StateSchema) -> bool:
    """Whether the rows of all tables that both have stand under the same bytes."""
    tables = {table.name: table for table in old.tables}
    return all(_keys(tables[t.name]) == _keys(t) for t in new.tables if t.name in tables)


def _core(state: StateSchema) -> tuple[str, dict[str, Data]]:
    """The name of an identity's core with its version, and its attributes, those that may differ left out."""
    identity = read_identity(state.identity)
    free = _free_of(state, identity.attributes)
    apart = {name: value for name, value in identity.attributes.items() if name not in free}
    return f"{identity.version} {identity.id}", apart


def _free(state: Stored) -> frozenset[str]:
    return _free_of(state.spec.state, state.attributes)


def _free_of(state: StateSchema, attributes: Mapping[str, Data]) -> frozenset[str]:
    """The attributes in which two states that keep the same may differ."""
    return (
        _FREE | _FREE_OF_ALL_ROWS if state.operator == TopNSpec.kind and attributes["rows can go"] else _FREE
    )


def _keys(table: StateTable) -> tuple[object, ...]:
    parts = (table.key, table.sub_key)
    return (table.layout, *(tuple((f.fingerprint, f.type) for f in part) for part in parts))


class _Places:
    """Where the new file asks for a column of a state."""

    def __init__(self, node: StateNode | None) -> None:
        self._node = node

    def __call__(self, name: str) -> Span | None:
        """The aggregate's call, or the clause."""
        if self._node is None:
            return None
        kept = self._node.accumulators.get(name)
        return kept.call.at if kept is not None and kept.call.at is not None else self._node.at

    def counts(self, name: str, meaning: str) -> bool:
        """Whether a column is 0, and not NULL, where it has seen nothing; those of DISTINCT are known by their text."""
        kept = None if self._node is None else self._node.accumulators.get(name)
        return meaning.startswith("count") if kept is None else kept.accumulator.counts


def _fields(old: StateSchema, new: StateSchema, places: _Places) -> Iterable[FieldEdit]:
    """The verdicts about the fields of a state whose rows are kept."""
    kept = {t.name: t for t in old.tables}
    meanings = field_meanings(new)
    for table in new.tables:
        before = kept.get(table.name)
        there = set() if before is None else {(f.fingerprint, f.type) for f in before.value}
        for part, f in _parts(table):
            found = before is not None and (part != "value" or (f.fingerprint, f.type) in there)
            verdict, reason = (Verdict.KEEP, "") if found else (Verdict.BACKFILL, _NOT_KEPT)
            yield _field(verdict, table, part, f, meanings, reason, places)
    yield from _dropped(old, new)


def _derived_fields(
    old: StateSchema, new: StateSchema, derived: Derived, places: _Places
) -> Iterable[FieldEdit]:
    """The verdicts about the fields of a state that is computed from an older one."""
    kept = {t.name: {(p, f.fingerprint, f.type) for p, f in _parts(t)} for t in old.tables}
    meanings = field_meanings(new)
    for table in new.tables:
        for part, f in _parts(table):
            reason = derived.reasons.get((table.name, f.name), derived.reason)
            if not derived.missing.isdisjoint({(table.name, f.name), (table.name, "")}):
                verdict, reason = Verdict.BACKFILL, _NOT_KEPT
            elif not reason and (part, f.fingerprint, f.type) in kept.get(table.name, ()):
                verdict = Verdict.KEEP
            else:
                verdict = Verdict.ADAPT
            yield _field(verdict, table, part, f, meanings, reason, places)
    yield from _dropped(old, new)


def _dropped(old: StateSchema, new: StateSchema) -> Iterable[FieldEdit]:
    wanted, was = {t.name: t for t in new.tables}, field_meanings(old)
    for table in old.tables:
        now = wanted.get(table.name)
        needed = set() if now is None else {(part, f.fingerprint, f.type) for part, f in _parts(now)}
        for part, f in _parts(table):
            if (part, f.fingerprint, f.type) not in needed:
                yield _field(Verdict.DROP, table, part, f, was, "")


def _all_fields(state: StateSchema, reason: str, places: _Places | None) -> Iterable[FieldEdit]:
    meanings = field_meanings(state)
    for table in state.tables:
        for part, f in _parts(table):
            yield _field(Verdict.BACKFILL, table, part, f, meanings, reason, places)


def _field(
    verdict: Verdict,
    table: StateTable,
    part: str,
    f: StateField,
    meanings: Mapping[str, str],
    reason: str,
    places: _Places | None = None,
) -> FieldEdit:
    meaning = field_meaning(f, meanings)
    at = None if places is None else places(f.name)
    counts = places is not None and part == "value" and places.counts(f.name, meaning)
    return FieldEdit(verdict, table.name, part, f.name, meaning, reason, at, counts)


def _parts(table: StateTable) -> Iterable[tuple[str, StateField]]:
    for part, fields in (("key", table.key), ("sub_key", table.sub_key), ("value", table.value)):
        for f in fields:
            yield part, f
