"""Decides for every state of a new plan where it comes from, and what becomes of every state of the old one.

The safe verdict is BACKFILL: the state is computed anew from the sources' history. Everything else must be shown: that
the rows and keys of an older state are the same (`StateIdentity.id`), that it is kept alike (its attributes), and of
each field that it is there (its fingerprint).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from sqlstream_operators.plan.spec import OperatorSpec, OperatorStep, PhysicalPlan
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_planner.edits.verdict import FieldEdit, StateEdit, Verdict
from sqlstream_planner.explain.meaning import field_meaning, field_meanings
from sqlstream_planner.identity.form import Data, from_json

#: What may differ between two states that keep the same.
_FREE = frozenset({"time to live"})


def decide(old: PhysicalPlan, new: PhysicalPlan) -> tuple[StateEdit, ...]:
    """The edits of all states: first those that the new plan needs, in its order, then those that are dropped."""
    before = dict(_operators(old))
    edits = [_edit(step, spec, before) for step, spec in _operators(new)]
    used = {edit.old.state.state_id for edit in edits if edit.old is not None}
    for step, spec in before.items():
        if spec.state.state_id not in used:
            edits.append(StateEdit(Verdict.DROP, step, None, spec, ()))
    return tuple(edits)


def _operators(plan: PhysicalPlan) -> Iterable[tuple[str, OperatorSpec]]:
    for stage in plan.stages:
        for step in stage.steps:
            if isinstance(step, OperatorStep):
                yield step.name, step.operator


def _edit(step: str, spec: OperatorSpec, before: Mapping[str, OperatorSpec]) -> StateEdit:
    """The best that can be made of the older states for one operator."""
    same = [old for old in before.values() if old.state.state_id == spec.state.state_id]
    alike = [old for old in before.values() if _is_kept_alike(old.state, spec.state)]
    for old in (*same, *alike):
        fields = tuple(_fields(old.state, spec.state))
        verdict = Verdict.KEEP if all(f.verdict in (Verdict.KEEP, Verdict.DROP) for f in fields) else None
        return StateEdit(verdict or Verdict.BACKFILL, step, spec, old, fields)
    reason = "no state that is kept has these rows by these keys"
    return StateEdit(
        Verdict.BACKFILL, step, spec, None, tuple(_all_fields(spec.state, reason)), reason=reason
    )


def _is_kept_alike(old: StateSchema, new: StateSchema) -> bool:
    """Whether two states keep the same rows by the same keys, in the same way; their values may differ."""
    if old.operator != new.operator or not old.identity or not new.identity:
        return False
    (was, was_apart), (now, now_apart) = _core(old), _core(new)
    if was != now or was_apart != now_apart:
        return False
    tables = {table.name: table for table in old.tables}
    return all(_keys(tables[t.name]) == _keys(t) for t in new.tables if t.name in tables)


def _core(state: StateSchema) -> tuple[str, dict[str, Data]]:
    """The name of an identity's core with its version, and its attributes, those that may differ left out."""
    written = json.loads(state.identity)
    attributes = from_json({"forms": written["forms"], "roots": written["roots"]})["attributes"]
    assert isinstance(attributes, Mapping)
    apart = {name: value for name, value in attributes.items() if name not in _FREE}
    return f"{written['version']} {written['id']}", apart


def _keys(table: StateTable) -> tuple[object, ...]:
    parts = (table.key, table.sub_key)
    return (table.layout, *(tuple((f.fingerprint, f.type) for f in part) for part in parts))


def _fields(old: StateSchema, new: StateSchema) -> Iterable[FieldEdit]:
    """The verdicts about the fields of a state whose rows are kept."""
    kept, wanted = {t.name: t for t in old.tables}, {t.name: t for t in new.tables}
    was, meanings = field_meanings(old), field_meanings(new)
    for table in new.tables:
        before = kept.get(table.name)
        if before is None:
            for part, f in _parts(table):
                yield _field(Verdict.BACKFILL, table, part, f, meanings, "it was not kept")
            continue
        there = {(f.fingerprint, f.type) for f in before.value}
        for part, f in _parts(table):
            found = part != "value" or (f.fingerprint, f.type) in there
            verdict, reason = (Verdict.KEEP, "") if found else (Verdict.BACKFILL, "it was not kept")
            yield _field(verdict, table, part, f, meanings, reason)
    for table in old.tables:
        now = wanted.get(table.name)
        needed = set() if now is None else {(part, f.fingerprint, f.type) for part, f in _parts(now)}
        for part, f in _parts(table):
            if (part, f.fingerprint, f.type) not in needed:
                yield _field(Verdict.DROP, table, part, f, was, "")


def _all_fields(state: StateSchema, reason: str) -> Iterable[FieldEdit]:
    meanings = field_meanings(state)
    for table in state.tables:
        for part, f in _parts(table):
            yield _field(Verdict.BACKFILL, table, part, f, meanings, reason)


def _field(
    verdict: Verdict, table: StateTable, part: str, f: StateField, meanings: Mapping[str, str], reason: str
) -> FieldEdit:
    return FieldEdit(verdict, table.name, part, f.name, field_meaning(f, meanings), reason)


def _parts(table: StateTable) -> Iterable[tuple[str, StateField]]:
    for part, fields in (("key", table.key), ("sub_key", table.sub_key), ("value", table.value)):
        for f in fields:
            yield part, f
