"""Versioned tables: tables and views of which it is known which row each key had at which time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import BOOLEAN
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.logical import (
    ColumnId,
    Field,
    Filter,
    Node,
    OverWindow,
    Project,
    Scan,
    Versions,
    column,
)
from sqlstream_planner.logical.expressions import conjuncts

#: The comparisons that bound from above, by how they are written with the bound on the left.
_SWAPPED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.EQ: exp.EQ}


@dataclass(frozen=True, slots=True)
class VersionedTable:
    """All rows that a table has had, `node`: it has the table's columns under their ids, and others.

    Each is valid from its `time` on, until the next of its `key`; where `gone` is true, the key has no row then. Of rows
    with one key and time the last that came counts (`latest`), or any that is always the same.
    """

    node: Node
    key: tuple[ColumnId, ...]
    time: ColumnId
    gone: ColumnId | None
    latest: bool


def versioned(context: BindContext, node: Node) -> VersionedTable | None:
    """The versions of what a table or view gives; None if they are not known.

    They are of a table with a PRIMARY KEY and an event time, or of a view that keeps the last row of each key by event time:
    ROW_NUMBER() OVER (PARTITION BY key ORDER BY ts DESC) = 1. Projections and conditions may stand around them: a version
    that a condition leaves out takes the place of the one before all the same.
    """
    steps: list[Project | Filter] = []
    below = node
    while isinstance(below, Project | Filter):
        steps.append(below)
        below = below.input
    steps.reverse()
    chain = _of_scan(context, below, steps) if isinstance(below, Scan) else _of_ranks(context, below)
    if chain is None:
        return None
    for step in steps:
        if isinstance(step, Project):
            chain.project(step)
        else:
            chain.filter(step)
    return chain.finished()


def _of_scan(context: BindContext, scan: Scan, steps: Sequence[Node]) -> _Chain | None:
    """The versions of a table by its PRIMARY KEY; its time may be a computed column, in the first of `steps`."""
    key: tuple[ColumnId, ...] = scan.primary_key
    if not scan.changelog:
        by_name = {f.name.lower(): ColumnId(f.id) for f in scan.fields}
        names = [name.lower() for name in scan.source.primary_key]
        key = tuple(by_name[name] for name in names if name in by_name)
        if len(key) < len(names):
            return None
    if not key:
        return None
    time = next((f.id for f in scan.fields if f.time is not None), None)
    expression: exp.Expr | None = column(time) if time is not None else None
    if expression is None and steps and isinstance(steps[0], Project):
        timed = zip(steps[0].fields, steps[0].items, strict=True)
        time, expression = next(((f.id, e) for f, e in timed if f.time is not None), (None, None))
    if time is None or expression is None:
        return None
    gone = Field(context.new_id("gone"), "gone", BOOLEAN, False) if scan.changelog else None
    made = Versions(scan, key, expression, gone)
    return _Chain(context, made, list(key), time, [gone.id] if gone is not None else [], latest=True)


def _of_ranks(context: BindContext, over: Node) -> _Chain | None:
    """The versions of a view by what its ROW_NUMBER is partitioned by."""
    if not isinstance(over, OverWindow) or [call.rank for call in over.calls] != ["row_number"]:
        return None
    if len(over.order) != 1 or not over.order[0].descending:
        return None
    time = over.order[0].column
    by_id = {f.id: f for f in over.input.fields}
    if by_id[time].time is None:
        return None
    one = exp.Cast(this=exp.Literal.number(1), to=exp.DataType.build("BIGINT"))
    items = (*(column(f.id) for f in over.input.fields), one)
    made = Project(over.input, over.fields, items)
    return _Chain(context, made, list(over.partition), time, [], rank=over.calls[0].field.id)


class _Chain:
    """What is known of versions while projections and conditions are put over them.

    `gone` are the columns of which any says that a version ends the one before it and is none itself; `rank` is the column
    that must be bounded by a condition, None if there is none, or it is done.
    """

    def __init__(
        self,
        context: BindContext,
        node: Node,
        key: list[ColumnId],
        time: str,
        gone: list[str],
        *,
        latest: bool = False,
        rank: str | None = None,
    ) -> None:
        self._context = context
        self._node = node
        self._key = [str(id_) for id_ in key]
        self._time = time
        self._gone = gone
        self._latest = latest
        self._ranks = {rank} if rank is not None else set()
        self._bounded = rank is None

    def project(self, step: Project) -> None:
        """Put a projection over the versions; what is known of them goes along."""
        fields, items = list(step.fields), list(step.items)
        given: dict[str, str] = {}
        for f, e in zip(step.fields, step.items, strict=True):
            bare = e.unnest()
            if isinstance(bare, exp.Column):
                given.setdefault(bare.name, f.id)
                if bare.name in self._ranks:
                    self._ranks = {*self._ranks, f.id}
        known = {f.id: f for f in self._node.fields}
        for id_ in dict.fromkeys([*self._key, self._time, *self._gone]):
            if id_ in given or id_ not in known:  # the time may be a column that the projection makes
                continue
            f = known[id_]
            made = Field(self._context.new_id(f.name), f.name, f.type, f.nullable, f.time)
            given[id_] = made.id
            fields.append(made)
            items.append(column(id_))
        self._node = Project(self._node, tuple(fields), tuple(items))
        self._key = [given[id_] for id_ in self._key]
        self._time = given.get(self._time, self._time)
        self._gone = [given[id_] for id_ in self._gone]

    def filter(self, step: Filter) -> None:
        """Put a condition over the versions: those for which it does not hold end the ones before them."""
        terms = [term for term in conjuncts(step.predicate) if not self._bounds_rank(term)]
        if not terms:
            return
        passes = exp.Coalesce(this=exp.and_(*terms), expressions=[exp.false()])
        self._gone.append(self._with(exp.Not(this=passes)))

    def finished(self) -> VersionedTable | None:
        """The versions, if the condition that makes them so was there."""
        if not self._bounded:
            return None
        if len(self._gone) > 1:
            self._gone = [self._with(exp.or_(*(column(id_) for id_ in self._gone)))]
        gone = ColumnId(self._gone[0]) if self._gone else None
        key = tuple(ColumnId(id_) for id_ in self._key)
        return VersionedTable(self._node, key, ColumnId(self._time), gone, self._latest)

    def _with(self, expression: exp.Expr) -> str:
        """Add a BOOLEAN column; its id."""
        made = Field(self._context.new_id("gone"), "gone", BOOLEAN, False)
        fields = self._node.fields
        self._node = Project(self._node, (*fields, made), (*(column(f.id) for f in fields), expression))
        return made.id

    def _bounds_rank(self, term: exp.Expr) -> bool:
        """Whether a condition says that the rank is 1."""
        bare = term.unnest()
        if not isinstance(bare, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
            return False
        kind: type[exp.Expr] = type(bare)
        left, right = bare.this.unnest(), bare.expression.unnest()
        if isinstance(left, exp.Literal):
            left, right = right, left
            kind = _SWAPPED.get(kind, exp.GT)
        if not isinstance(left, exp.Column) or left.name not in self._ranks:
            return False
        found = (kind, right.sql()) in ((exp.EQ, "1"), (exp.LTE, "1"), (exp.LT, "2"))
        self._bounded |= found
        return found
