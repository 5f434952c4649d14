"""New states from old ones: the job that carries out what was decided about state when the query was edited.

It is a job like any other: a physical plan whose first stages read tables of state in place of sources, whose fragments are
the rules' SQL, and whose last stage fills the new states. What is kept as it is takes no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sqlstream.runtime.loop.transition import BACKFILLED, BEFORE, StateChanges
from sqlstream_operators.plan.spec import (
    ExchangeInput,
    ExchangeOutput,
    FragmentStep,
    JobOptions,
    LoadStateStep,
    OperatorStep,
    PhysicalPlan,
    ReadStateStep,
    Stage,
    Step,
)
from sqlstream_operators.plan.state_schema import TIME, StateField, StateSchema, StateTable
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.state.loading import columns_of
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.edits.verdict import (
    DerivedInput,
    DerivedRows,
    DerivedTable,
    Regrouped,
    StateEdit,
    Verdict,
)


def state_changes(edits: Sequence[StateEdit], options: JobOptions, max_parallelism: int) -> StateChanges:
    """Where the states of the new plan come from; `max_parallelism` is what those of the old one were written with.

    With another max parallelism than before, every state is written anew, and one of which a part was backfilled is taken
    from there as a whole.
    """
    rekeyed = max_parallelism not in (0, options.max_parallelism)
    kept: dict[str, str] = {}
    empty, whole, wanted = [], [], []
    for edit in edits:
        if edit.new is None:
            continue
        id_ = edit.new.state.state_id
        again = edit.needs_history
        if again and (edit.old is None or rekeyed):
            whole.append(id_)
        elif edit.old is None:
            empty.append(id_)
        elif rekeyed or again or edit.derivation is not None or _zeros(edit):
            wanted.append(edit)
        else:
            kept[id_] = edit.old.state.state_id
    job = adaptation_plan(wanted, options) if wanted else None
    return StateChanges(kept, frozenset(empty), frozenset(whole), job)


def backfilled_states(edits: Iterable[StateEdit]) -> frozenset[str]:
    """The ids of the new states that need the sources' history."""
    return frozenset(e.new.state.state_id for e in edits if e.new is not None and e.needs_history)


def _zeros(edit: StateEdit, table: str | None = None) -> frozenset[str]:
    """The columns, of one table or any, that begin fresh with 0 in rows that are kept."""
    return frozenset(
        f.name for f in edit.fields if f.verdict is Verdict.FRESH and f.counts and table in (None, f.table)
    )


def adaptation_plan(edits: Iterable[StateEdit], options: JobOptions) -> PhysicalPlan:
    """The plan that makes the new states of these edits, with `NOW_US` for the clock of the epoch that carries them out.

    It reads the old states under their ids, and what was backfilled under those of the new ones, with suffixes.
    """
    stages: list[Stage] = []
    states = []
    for number, edit in enumerate(edits, 1):
        assert edit.new is not None
        states.append(edit.new.state)
        stages += _stages(f"state{number}", edit, edit.new.state)
    return PhysicalPlan((), (), tuple(stages), tuple(states), options)


def _stages(name: str, edit: StateEdit, state: StateSchema) -> Iterable[Stage]:
    if edit.derivation is not None and edit.derivation.inputs:
        yield from _operated(name, edit, edit.derivation.inputs)
        return
    derived = {} if edit.derivation is None else {d.table: d for d in edit.derivation.tables}
    if derived:
        yield from _first_stages(name, edit, state, derived.values())
    inputs = tuple(
        ExchangeInput(f"{table}.rows", _edge(name, table), columns_of(state.table(table)))
        for table in derived
    )
    steps: list[Step] = []
    filled = {}
    for table in state.tables:
        relation = _rows_of(table, edit, state, derived.get(table.name), steps)
        if relation:
            filled[table.name] = relation
    load = LoadStateStep(f"{name}.load", state, tuple(filled), tuple(filled.values()))
    via = any(also.via is not None for d in derived.values() for also in d.also)
    yield Stage(f"{name}.load", 3 if via else 2, inputs, (*steps, load), ())


def _operated(name: str, edit: StateEdit, derived: Sequence[DerivedInput]) -> Iterable[Stage]:
    """The new operator fills its state from rows that old tables give; what it emits is for nobody."""
    assert edit.old is not None
    assert edit.new is not None
    old, spec = edit.old.state, edit.new.moved_by(())  # nothing closes here
    states = {(d.state or old).state_id: d.state or old for d in derived}
    inputs = []
    for n, (id_, state) in enumerate(states.items(), 1):
        here = [(k, d) for k, d in enumerate(derived, 1) if (d.state or old).state_id == id_]
        read = dict.fromkeys(table for _, d in here for table in d.reads)
        steps: list[Step] = [ReadStateStep(f"old.{table}", _before(state), table) for table in read]
        outputs = []
        for number, d in here:
            given, edge = f"input{number}", _edge(name, f"input{number}")
            steps.append(FragmentStep(given, d.rows, tuple(f"old.{table}" for table in d.reads)))
            outputs.append(ExchangeOutput(given, edge, d.keys, tuple(c.name for c in d.columns)))
            inputs.append((number, ExchangeInput(f"{given}.rows", edge, d.columns)))
        yield Stage(f"{name}.read{n}", 1, (), tuple(steps), tuple(outputs))
    given_inputs = tuple(i for _, i in sorted(inputs, key=lambda one: one[0]))
    run = OperatorStep(f"{name}.fill", spec, tuple(i.name for i in given_inputs))
    yield Stage(f"{name}.fill", 2, given_inputs, (run,), ())


def _rows_of(
    table: StateTable, edit: StateEdit, state: StateSchema, derived: DerivedTable | None, steps: list[Step]
) -> str:
    """The relation with all rows of a new table, "" if it begins empty; the steps that make it are added to `steps`."""
    kept = again = ""
    missing = {f.name for f in edit.missing if f.table == table.name and f.verdict is Verdict.BACKFILL}
    if derived is not None:
        kept = f"{table.name}.rows"
        if derived.merged is not None:
            merged = _over(kept, derived.merged)
            kept = f"{table.name}.merged"
            steps.append(FragmentStep(kept, merged, (f"{table.name}.rows",), materialized=True))
    elif edit.derivation is None and _has_table(edit, table) and not (missing and table.layout == "list"):
        kept = f"{table.name}.kept"
        assert edit.old is not None
        steps.append(
            ReadStateStep(kept, replace(state, state_id=_before(edit.old.state).state_id), table.name)
        )
    if missing:
        again = f"{table.name}.backfilled"
        known_as = f"{state.state_id}{BACKFILLED}"
        steps.append(ReadStateStep(again, replace(state, state_id=known_as), table.name))
    zeros = _zeros(edit, table.name)
    if kept and zeros:
        begun = f"{table.name}.begun"
        columns = ", ".join(
            f"CAST(0 AS {c.type}) AS {quote_identifier(c.name)}"
            if c.name in zeros
            else quote_identifier(c.name)
            for c in columns_of(table)
        )
        steps.append(FragmentStep(begun, f"SELECT {columns} FROM {quote_identifier(kept)}", (kept,)))
        kept = begun
    if kept and again:
        together = f"{table.name}.all"
        steps.append(FragmentStep(together, _joined(table, kept, again, missing), (kept, again)))
        return together
    return kept or again


def _first_stages(
    name: str, edit: StateEdit, state: StateSchema, derived: Iterable[DerivedTable]
) -> Iterable[Stage]:
    """Read the old tables in each shard, and send what is derived from them to where its keys are."""
    if edit.old is None:
        raise InternalError(f"a state that is derived from none: {state.state_id}")
    derived = tuple(derived)
    rows = [(state.table(d.table), DerivedRows(edit.old.state, d.reads, d.rows)) for d in derived]
    merges = {d.table: d.merged for d in derived if d.merged is not None}
    yield _reading(name, "read", edit.old.state, rows, merges)
    more = [(state.table(d.table), also) for d in derived for also in d.also]
    for number, (table, also) in enumerate(more, 1):
        if also.via is None:
            yield _reading(name, f"read_also{number}", also.state, [(table, also)])
        else:
            yield from _regrouping(name, f"also{number}", table, also, also.via)


def _reading(
    name: str,
    step: str,
    old: StateSchema,
    derived: Iterable[tuple[StateTable, DerivedRows]],
    merges: Mapping[str, str] = MappingProxyType({}),
) -> Stage:
    """The stage that reads an old state for some new tables; `merges` make few rows of many before they are sent."""
    derived = tuple(derived)
    tables = dict.fromkeys(table for _, d in derived for table in d.reads)
    steps: list[Step] = [ReadStateStep(f"old.{table}", _before(old), table) for table in tables]
    outputs = []
    for table, d in derived:
        merge = merges.get(table.name)
        read = table.name if merge is None else f"{table.name}.derived"
        steps.append(FragmentStep(read, d.rows, tuple(f"old.{t}" for t in d.reads)))
        if merge is not None:
            steps.append(FragmentStep(table.name, _over(read, merge), (read,)))
        columns = tuple(c.name for c in columns_of(table))
        keys = tuple(f.name for f in table.key)
        outputs.append(ExchangeOutput(table.name, _edge(name, table.name), keys, columns))
    return Stage(f"{name}.{step}", 1, (), tuple(steps), tuple(outputs))


def _regrouping(
    name: str, step: str, table: StateTable, derived: DerivedRows, via: Regrouped
) -> Iterable[Stage]:
    """The stages that read an old state, bring its rows together by other keys, and send on what is made of them."""
    steps: list[Step] = [ReadStateStep(f"old.{t}", _before(derived.state), t) for t in derived.reads]
    steps.append(FragmentStep(step, derived.rows, tuple(f"old.{t}" for t in derived.reads)))
    edge = _edge(name, step)
    out = ExchangeOutput(step, edge, via.keys, tuple(c.name for c in via.columns))
    yield Stage(f"{name}.read_{step}", 1, (), tuple(steps), (out,))
    given = ExchangeInput(f"{step}.rows", edge, via.columns)
    made = FragmentStep(f"{step}.made", _over(given.name, via.rows), (given.name,))
    columns, keys = tuple(c.name for c in columns_of(table)), tuple(f.name for f in table.key)
    on = ExchangeOutput(made.name, _edge(name, table.name), keys, columns)
    yield Stage(f"{name}.regroup_{step}", 2, (given,), (made,), (on,))


def _before(old: StateSchema) -> StateSchema:
    """An old state as it is read: the new one may have its id, and begins empty."""
    return replace(old, state_id=f"{old.state_id}{BEFORE}")


def _edge(name: str, table: str) -> str:
    return f"{name}.{table}"


def _has_table(edit: StateEdit, table: StateTable) -> bool:
    return edit.old is not None and any(t.name == table.name for t in edit.old.state.tables)


def _over(relation: str, merged: str) -> str:
    """A rule's SQL over all rows of a table, which it calls `rows`."""
    return f'WITH "rows" AS (SELECT * FROM {quote_identifier(relation)})\nSELECT * FROM (\n{merged}\n)'


def _joined(table: StateTable, kept: str, backfilled: str, names: set[str]) -> str:
    """The rows that are kept, with the values of some columns as they were backfilled."""
    columns = ", ".join(
        f"{'b' if c.name in names else 'k'}.{quote_identifier(c.name)}" for c in columns_of(table)
    )
    keys = [TIME] if table.layout == "time" else []
    keys += [f.name for f in _keys(table)]
    same = " AND ".join(
        f"k.{quote_identifier(key)} IS NOT DISTINCT FROM b.{quote_identifier(key)}" for key in keys
    )
    return (
        f"SELECT {columns}\nFROM {quote_identifier(kept)} AS k\n"
        f"LEFT JOIN {quote_identifier(backfilled)} AS b ON {same or 'TRUE'}"
    )


def _keys(table: StateTable) -> tuple[StateField, ...]:
    return (*table.key, *table.sub_key)
