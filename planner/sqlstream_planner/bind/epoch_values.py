"""Calls that give another value in each epoch (NOW, RANDOM, UUID …): read as columns, which the outer rows get.

While a query is bound, such a call is an expression over a column that nothing gives yet (`Volatile`). When all of it is
bound, `with_epoch_values` puts an EpochValues under each node that reads one. So the value is computed once per row, where
the call stands, and all that is above takes it for a column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sqlstream_operators.plan.types import INTEGER, TIMESTAMPTZ, VARCHAR, SqlType
from sqlstream_planner.diagnostics import Span, refuse
from sqlstream_planner.expressions.functions.of_epoch import OF_RANDOM, SEEDED, of_clock
from sqlstream_planner.logical import (
    AsOfJoin,
    ColumnId,
    EpochKind,
    EpochValue,
    EpochValues,
    Field,
    Fields,
    Filter,
    Join,
    JoinKind,
    LookupJoin,
    Node,
    Project,
    Sink,
    Values,
    column,
    columns_of,
    raw,
    substitute,
    transform,
    union_all,
)
from sqlstream_planner.logical.algebra import Apply
from sqlstream_planner.logical.arity import UnaryNode
from sqlstream_planner.logical.expressions import conjuncts
from sqlstream_planner.sql.datatypes import as_type
from sqlstream_planner.sql.written_calls import WrittenCall

#: The column that stands for the clock, and what those begin with that stand for the random bits of a call.
_CLOCK = "__clock"
_RANDOM = "__random_"


@dataclass(slots=True)
class Volatile:
    """The volatile calls of a file: what each is over columns that only `with_epoch_values` gives.

    `zone` is the session's time zone, `written` what is written, and where, by the column.
    """

    zone: str = "UTC"
    written: dict[str, tuple[str, Span]] = field(default_factory=dict)
    _calls: dict[object, int] = field(default_factory=dict)

    @property
    def types(self) -> Mapping[str, tuple[SqlType, bool]]:
        """The types of the columns that stand for them, and whether they may be NULL."""
        return {id_: (TIMESTAMPTZ if id_ == _CLOCK else VARCHAR, False) for id_ in self.written}

    def of_call(self, node: exp.Expr, call: WrittenCall, at: Span) -> exp.Expr | None:
        """What a call is; None for one of a function that isn't known here. Raises DiagnosticError."""
        text = of_clock(call)
        key = (call.name, len(call.arguments))
        if text is None and key not in OF_RANDOM:
            return None
        bits = ""
        if text is None:
            if node.find_ancestor(exp.Lambda) is not None:
                refuse(
                    at,
                    "SQL101",
                    f"{call.name.upper()} inside a lambda would give all elements one value",
                    notes=("random values are given to rows",),
                    help="UNNEST the elements in a sub-query, and give each row its value",
                )
            text = OF_RANDOM[key]
            bits = f"{_RANDOM}{self._number(node, key, call)}"
            self.written.setdefault(bits, (_name(node, call), at))
        if "{clock}" in text or "{local}" in text:
            self.written.setdefault(_CLOCK, (_name(node, call), at))
        clock = f'CAST("{_CLOCK}" AS TIMESTAMPTZ)'
        made = raw(
            text.format(
                *(f'"__argument_{n}"' for n in range(len(call.arguments))),
                clock=clock,
                local=f"timezone('{self.zone}', {clock})",
                bits=f'"{bits}"',
            )
        )
        arguments = {f"__argument_{n}": a for n, a in enumerate(call.arguments)}
        made = substitute(made, arguments)
        return _written_as(made, _name(node, call), node)

    def process_time(self, name: str, at: Span) -> exp.Expr:
        """What a table's column is that is declared as PROCTIME()."""
        self.written.setdefault(_CLOCK, (f"`{name}`, which is PROCTIME(),", at))
        made = raw(f'CAST("{_CLOCK}" AS TIMESTAMPTZ)')
        made.this.meta["written"] = f"`{name}`, which is PROCTIME(),"
        return made

    def _number(self, node: exp.Expr, key: tuple[str, int], call: WrittenCall) -> int:
        """The number of a call with random values, by where it stands: wherever it is read, it is one call.

        One with a seed has the same values as any other with it.
        """
        place: object = node.meta.get("span") or id(node)
        if key in SEEDED:
            place = (call.name, call.arguments[0].sql())
        return self._calls.setdefault(place, 1 + len(self._calls))


def is_volatile_column(id_: str) -> bool:
    """Whether a column stands for a volatile call.

    >>> is_volatile_column("__clock"), is_volatile_column("clock")
    (True, False)
    """
    return id_ == _CLOCK or id_.startswith(_RANDOM)


def is_bound_process_time(expression: exp.Expr) -> bool:
    """Whether a bound expression is PROCTIME() itself."""
    bare = expression.unnest()
    if not isinstance(bare, exp.Cast) or not isinstance(bare.this, exp.Column) or bare.this.name != _CLOCK:
        return False
    return "PROCTIME()" in bare.this.meta.get("written", "")


def _name(node: exp.Expr, call: WrittenCall) -> str:
    return f"{call.name.upper()}()" if isinstance(node, exp.Anonymous) else call.name.upper()


def _written_as(made: exp.Expr, name: str, node: exp.Expr) -> exp.Expr:
    """An expression that knows where it was written, and as what."""
    for part in made.walk():
        if "span" in node.meta:
            part.meta.setdefault("span", node.meta["span"])
        if isinstance(part, exp.Column) and is_volatile_column(part.name):
            part.meta["written"] = name
    return made


def with_epoch_values(
    roots: Sequence[Sink],
    volatile: Volatile,
    new_id: Callable[[str], str],
    span: Callable[[exp.Expr], Span],
) -> tuple[Sink, ...]:
    """Give each node that reads a volatile call the values of the epoch. Raises DiagnosticError."""
    if not volatile.written:
        return tuple(roots)
    return transform(tuple(roots), _Placement(volatile, new_id, span).placed)


@dataclass(frozen=True, slots=True)
class _Placement:
    volatile: Volatile
    new_id: Callable[[str], str]
    span: Callable[[exp.Expr], Span]

    def placed(self, node: Node) -> Node:
        """The node over inputs that give what it reads; its columns stay what they are."""
        read = _read(node)
        if not read:
            return node
        match node:
            case Values():
                return self._written_out(node)
            case Filter():
                mine = [t for t in conjuncts(node.predicate) if _volatile(columns_of(t))]
                others = [t for t in conjuncts(node.predicate) if not _volatile(columns_of(t))]
                below = Filter(node.input, exp.and_(*others), node.at) if others else node.input
                return self._over(replace(node, input=below, predicate=exp.and_(*mine)), read, node.fields)
            case Join() if node.kind in (JoinKind.INNER, JoinKind.CROSS) and node.condition is not None:
                return self._behind(node, read)
            case LookupJoin():
                below, names = self._given(node, node.left, read)
                made = replace(node, left=below, condition=substitute(node.condition, names))
                return _only(made, node.fields)
            case Apply():
                below, names = self._given(node, node.input, read)
                operand = tuple(substitute(e, names) for e in node.operand)
                return _only(replace(node, input=below, operand=operand), node.fields)
            case UnaryNode():
                return self._over(node, read, node.fields)
        what, at = self._place(node, read[0])
        kind = "a temporal join" if isinstance(node, AsOfJoin) else "an outer join"
        refuse(
            at,
            "SQL101",
            f"{what} in the condition of {kind}",
            notes=(
                "a row may be joined in a later epoch than the one that reads it, which has another clock",
            ),
            help="compute it in a sub-query on one side, where rows are read: "
            "LEFT JOIN (SELECT *, NOW() AS read_at FROM t) AS t ON …, or filter there",
        )

    def _place(self, node: Node, id_: str) -> tuple[str, Span]:
        """What is written for a column in a node, and where."""
        for expression in node.expressions():
            for part in expression.find_all(exp.Column):
                if part.name == id_ and "written" in part.meta:
                    return part.meta["written"], self.span(part)
        return self.volatile.written[id_]

    def _over(self, node: UnaryNode, read: Sequence[str], fields: Fields) -> Node:
        below, names = self._given(node, node.input, read)
        made = node.with_inputs((below,)).with_expressions(lambda e: substitute(e, names))
        made = made.with_references(lambda r: ColumnId(names[r].name) if r in names else r)
        return _only(made, fields)

    def _behind(self, node: Join, read: Sequence[str]) -> Node:
        """The conditions with volatile calls as a filter behind the join: the clock is that of the pair."""
        assert node.condition is not None
        mine = [t for t in conjuncts(node.condition) if _volatile(columns_of(t))]
        others = [t for t in conjuncts(node.condition) if not _volatile(columns_of(t))]
        pairs = replace(
            node,
            kind=JoinKind.INNER if others else JoinKind.CROSS,
            condition=exp.and_(*others) if others else None,
        )
        return self._over(Filter(pairs, exp.and_(*mine), node.at), read, node.fields)

    def _written_out(self, node: Values) -> Node:
        """Rows of VALUES, each as the projection of one row."""
        one = Field(self.new_id("one"), "one", INTEGER, nullable=False)
        single = Values((one,), ((exp.Literal.number(1),),), node.at)
        rows = []
        for row in node.rows:
            fields = tuple(replace(f, id=self.new_id(f.name)) for f in node.fields)
            items = tuple(as_type(e, f.type) for e, f in zip(row, fields, strict=True))
            rows.append(self.placed(Project(single, fields, items)))
        if len(rows) == 1:
            ids = (column(f.id) for f in rows[0].fields)
            return Project(rows[0], node.fields, tuple(ids))
        return union_all(rows, node.fields)

    def _given(self, reader: Node, node: Node, read: Sequence[str]) -> tuple[Node, Mapping[str, exp.Expr]]:
        """A node beside the values that `reader` reads, and by the columns that stand for these what they are called."""
        values = []
        for id_ in read:
            clock = id_ == _CLOCK
            name = "clock" if clock else "random"
            type_ = TIMESTAMPTZ if clock else VARCHAR
            f = Field(self.new_id(f"{name}_of_epoch"), name, type_, nullable=False)
            kind = EpochKind.CLOCK if clock else EpochKind.RANDOM
            values.append(EpochValue(f, kind, 0 if clock else int(id_.removeprefix(_RANDOM))))
        # What is harder to come by is what a message is about.
        what, at = self._place(reader, max(read))
        names = {id_: column(v.field.id) for id_, v in zip(read, values, strict=True)}
        return EpochValues(node, tuple(values), at, what), names


def _only(node: Node, fields: Fields) -> Node:
    """A node with these of its columns."""
    if tuple(f.id for f in node.fields) == tuple(f.id for f in fields):
        return node
    given = {f.id: f for f in node.fields}
    return Project(node, tuple(given[f.id] for f in fields), tuple(column(f.id) for f in fields))


def _read(node: Node) -> list[str]:
    read = set().union(*(columns_of(e) for e in node.expressions()), node.references())
    return _volatile(read)


def _volatile(ids: set[str]) -> list[str]:
    return sorted(id_ for id_ in ids if is_volatile_column(id_))
