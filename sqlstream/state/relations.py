"""The relations that a plan's states are seen as: what they are called, and their columns.

An operator is called as `explain` calls its step. Under that name is what it gives: the result that it keeps, or the windows
that are open as they stand; under `step.table` is what is stored. An operator that gives nothing out of its state alone has
its only table under its own name too. Columns are called as the query calls them, times are TIMESTAMPs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.spec import OperatorSpec, OperatorStep, PhysicalPlan
from sqlstream_operators.plan.state_schema import TIME, StateTable
from sqlstream_operators.plan.state_ttl import AT, EXPIRY, TOUCHED
from sqlstream_operators.plan.types import TIMESTAMP, SqlType
from sqlstream_planner.explain.meaning import field_meaning, field_meanings

_NUMBERED = re.compile(r"_\d+$")
_HASHED = re.compile(r"(values|distinct)_[0-9a-f]{16}(_\w+)?")


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """A column: its name in SQL, its type, what it is read from (a column of the operator's output, or of the table).

    `part` is `key`, `sub-key` or `value` of a stored table's, "" of a result's. `meaning` is for people. With `before_us`
    it is a time so long before that of the stored row, and `source` is no column.
    """

    name: str
    type: SqlType
    source: str
    part: str = ""
    meaning: str = ""
    before_us: int = 0


@dataclass(frozen=True, slots=True)
class Relation:
    """What can be selected from. `table` is the stored table whose rows it has; None: what the operator gives.

    `key` says for the fields of the state's key which column has them, `time` which one has the time of the stored rows
    (layout 'time'); a value for all of these leads to the rows without a scan. `kind` is what it is, in a word.
    """

    name: tuple[str, ...]
    step: str
    spec: OperatorSpec
    table: str | None
    columns: tuple[RelationColumn, ...]
    kind: str
    key: Mapping[str, str] = field(default_factory=dict)
    time: str | None = None

    def __str__(self) -> str:
        return ".".join(self.name)


def relations_of(plan: PhysicalPlan) -> tuple[Relation, ...]:
    """The relations of all operators of a plan, in the order of its steps."""
    steps = {step.name: step for step in plan.operators}
    return tuple(
        relation
        for step in steps.values()
        for relation in _of_step(step, plan.names, steps.get(step.name.partition(".")[0], step))
    )


def _of_step(step: OperatorStep, names: Mapping[str, str], whole: OperatorStep) -> Iterator[Relation]:
    """The relations of a step that is part of what the operator `whole` is planned as."""
    spec = step.operator
    stored = list(_stored_tables(step, names, whole.operator))
    yield _view(step, names) if spec.facts.view is not None else replace(stored[0], name=_name(step.name))
    yield from stored


def _name(step: str, table: str = "") -> tuple[str, ...]:
    """What a step or a table of it is called in SQL: in two parts at most, as a schema and a table.

    >>> _name("group_aggregate_1", "acc"), _name("group_aggregate_1.distinct_1", "seen")
    (('group_aggregate_1', 'acc'), ('group_aggregate_1', 'distinct_1_seen'))
    """
    first, *parts = step.split(".")
    rest = "_".join([*parts, *([table] if table else [])])
    return (first, rest) if rest else (first,)


def _stored_tables(step: OperatorStep, names: Mapping[str, str], whole: OperatorSpec) -> Iterator[Relation]:
    called = _stored_names(step.operator, names, whole)
    seen: Counter[str] = Counter()
    for table in step.operator.state.tables:
        name = table.name
        if _HASHED.fullmatch(name) and table.sub_key:
            # The table's own name has a digest in it, which nobody can guess.
            shown = [called.get(f.name, f.name) for f in table.sub_key]
            of = "_".join(name.removeprefix("value_").removeprefix("distinct_") for name in shown)
            name = f"{name.partition('_')[0]}_{of}"
        seen[name] += 1
        yield _stored(step, table, name if seen[name] == 1 else f"{name}_{seen[name]}", called)


def _view(step: OperatorStep, names: Mapping[str, str]) -> Relation:
    """What an operator gives."""
    spec = step.operator
    called = _called((c.name, names.get(c.name, c.name)) for c in spec.output)
    columns = tuple(RelationColumn(called[c.name], c.type, c.name) for c in spec.output)
    types = {c.name: c.type for c in spec.output}
    table = spec.state.tables[0]
    unchanged = spec.facts.unchanged
    key = {}
    for f in table.key:
        output = unchanged.get(f.name)
        if output in types and types[output] == f.type:
            key[f.name] = called[output]
    end = _end_key(spec)
    time = key.get(end) if end is not None else None
    kind = "open windows" if table.layout == "time" else "answer"
    return Relation(_name(step.name), step.name, spec, None, columns, kind, key, time)


def _stored_names(spec: OperatorSpec, names: Mapping[str, str], whole: OperatorSpec) -> dict[str, str]:
    """What the stored columns of an operator are called, where that is not their own name."""
    columns = spec.facts.columns
    if columns is not None:
        # What is beside the columns of its rows has a name that another column may have as its id.
        return {c.name: names.get(c.name, c.name) for c in columns}
    called = {}
    for table in spec.state.tables:
        for f in (*table.key, *table.sub_key, *table.value):
            called[f.name] = _readable(f.name, names)
    return called | {key: names.get(output, output) for key, output in whole.facts.unchanged.items()}


def _readable(name: str, names: Mapping[str, str]) -> str:
    """The name of an accumulator, with what the query calls the column that it is of.

    >>> _readable("sum_price_2", {"price_2": "price"}), _readable("distinct_count_bidder_2_3", {"bidder_2": "bidder"})
    ('sum_price', 'distinct_count_bidder')
    """
    if name.startswith("row_count"):
        return name
    for short in (name, _NUMBERED.sub("", name)):
        for at in (match.end() for match in re.finditer("_", short)):
            # An id without a number may be a word of the accumulator's as well.
            if short[at:] in names and _NUMBERED.search(short[at:]):
                return f"{short[:at]}{names[short[at:]]}"
    return name


def _stored(step: OperatorStep, table: StateTable, name: str, names: Mapping[str, str]) -> Relation:
    """What is stored in a table."""
    spec = step.operator
    meanings = field_meanings(spec.state)
    end = _end_key(spec)
    found: list[RelationColumn] = []
    if table.layout == "time" and (end is None or table.name == EXPIRY):
        found += _times(spec, table)
    for part, fields in (("key", table.key), ("sub-key", table.sub_key), ("value", table.value)):
        for f in fields:
            shown, type_ = names.get(f.name, f.name), f.type
            if f.name == AT:
                shown, type_ = "touched_at", TIMESTAMP
            found.append(RelationColumn(shown, type_, f.name, part, field_meaning(f, meanings)))
    called = _called((c.source, c.name) for c in found)
    columns = tuple(replace(c, name=called[c.source]) for c in found)
    key = {f.name: called[f.name] for f in table.key}
    time = called[end if end is not None and TIME not in called else TIME] if table.layout == "time" else None
    kind = "time to live" if table.name in (TOUCHED, EXPIRY) else "stored"
    return Relation(_name(step.name, name), step.name, spec, table.name, columns, kind, key, time)


def _end_key(spec: OperatorSpec) -> str | None:
    """The field of the key that has the end of the window, where one has."""
    waiting = spec.facts.waiting
    return None if waiting is None else waiting.end


def _times(spec: OperatorSpec, table: StateTable) -> Iterator[RelationColumn]:
    """The columns that a table's time is seen as."""
    if table.name == EXPIRY:
        yield RelationColumn("touched_at", TIMESTAMP, TIME, "key", "when the key was last touched, about")
        return
    seen_as = spec.facts.times.get(table.name)
    if seen_as is None:
        raise InternalError(f"a {spec.kind} does not say what the time of its table {table.name} is")
    for column in seen_as:
        source = f"{TIME} - {column.before_us}" if column.before_us else TIME
        yield RelationColumn(column.name, TIMESTAMP, source, "key", column.meaning, column.before_us)


def _called(columns: Iterable[tuple[str, str]]) -> dict[str, str]:
    """For each (source, name) a name of its own, ignoring case: of several with one name all but the first get a number."""
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    called: dict[str, str] = {}
    for source, name in columns:
        wanted = name
        while wanted.lower() in taken:
            seen[name.lower()] += 1
            wanted = f"{name}_{seen[name.lower()] + 1}"
        taken.add(wanted.lower())
        called[source] = wanted
    return called


def columns_of(relation: Relation) -> tuple[Column, ...]:
    """Its columns as a schema."""
    return tuple(Column(c.name, c.type) for c in relation.columns)
