"""Forms of the parts that relations are made of: expressions, calls, keys, orders, columns of sources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_planner.catalog.source_identity import compact
from sqlstream_planner.identity.expression import expression_form
from sqlstream_planner.identity.form import Form, form, sort_forms
from sqlstream_planner.logical import (
    AggregateCall,
    Field,
    Fields,
    Node,
    OrderTerm,
    Scan,
    columns_of,
)


class Columns(dict[str, Form]):
    """The forms of columns by id, with their `types`: what an operator means depends on what it is applied to."""

    def __init__(self, forms: Mapping[str, Form], types: Mapping[str, SqlType]) -> None:
        super().__init__(forms)
        self.types = types

    @classmethod
    def of(cls, node: Node, forms: Mapping[str, Form]) -> Columns:
        """The columns of a node."""
        return cls(forms, {f.id: f.type for f in node.fields})

    def and_of(self, other: Columns) -> Columns:
        """These and others, which have precedence."""
        return Columns({**self, **other}, {**self.types, **other.types})


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows a relation has: those of `base` for which all of `conditions` hold."""

    base: Form
    conditions: frozenset[Form] = frozenset()

    @property
    def form(self) -> Form:
        """Both as one form."""
        if not self.conditions:
            return self.base
        return form("filter", self.base, *sort_forms(self.conditions))


#: Of what reads no column.
NO_COLUMNS = Columns({}, {})


def form_over(expression: exp.Expr, columns: Columns) -> Form:
    """The form of an expression over columns with these forms.

    A column that is not among them is one of the outer query a sub-query.
    """
    outer = {id_: form("outer column", id_) for id_ in columns_of(expression) if id_ not in columns}
    return expression_form(expression, {**columns, **outer} if outer else columns, columns.types)


def window_form(window: WindowSpec, time: Form) -> Form:
    """Which windows a time falls into: lengths in µs, and the offset as far as it matters.

    Windows of TUMBLE and HOP repeat after a slide, those of CUMULATE after a whole cycle.
    """
    period = window.size_us if window.kind is WindowKind.CUMULATE else window.slide_us
    return form("window", window.kind.value, window.size_us, window.slide_us, window.offset_us % period, time)


def call_form(call: AggregateCall, columns: Columns) -> Form:
    """The form of an aggregate call over columns with these forms."""
    order = (
        form("order", form_over(e, columns), "desc" if descending else "asc", "first" if nulls else "last")
        for e, descending, nulls in call.order_by
    )
    return form(
        "aggregate call",
        call.name,
        "distinct" if call.distinct else None,
        form("arguments", *(form_over(a, columns) for a in call.arguments)),
        form_over(call.filter, columns) if call.filter is not None else None,
        *order,
    )


def key_forms(
    keys: Fields, expressions: Iterable[exp.Expr], grouping: Field | None, columns: Columns
) -> list[Form]:
    """The forms of what is grouped by.

    Of several grouping sets (`grouping` distinguishes their rows), one may have a key that another has not: keys that
    are equal are not one key then, and each after the first is numbered. A window's bounds are in every set.
    """
    met: dict[Form, int] = {}
    found = []
    for f, e in zip(keys, expressions, strict=True):
        key = form_over(e, columns)
        if grouping is not None and f.window is None:
            met[key] = times = met.get(key, 0) + 1
            key = form("key again", times, key) if times > 1 else key
        found.append(key)
    return found


def order_forms(terms: Iterable[OrderTerm], columns: Columns) -> tuple[Form, ...]:
    """The forms of the terms of an ORDER BY."""
    return tuple(
        form(
            "order",
            columns[t.column],
            "desc" if t.descending else "asc",
            "first" if t.nulls_first else "last",
        )
        for t in terms
    )


def source_form(node: Scan) -> Form:
    """Which rows a source has; what a dimension table has when it is looked up is another thing."""
    return form("dimension" if node.is_dimension else "source", compact(node.identity.rows))


def source_column_form(node: Scan, source: Form, name: str) -> Form:
    """What a stored column of a source holds."""
    meaning = node.identity.column(name)
    return form("column", source, compact({k: v for k, v in meaning.items() if k != "source"}))


def cast_columns(given: Fields, wanted: Fields, columns: Columns) -> list[Form]:
    """The columns of a branch as a set operation takes them: of the type that is common to all."""
    return [
        columns[g.id] if g.type == w.type else form("cast", columns[g.id], str(w.type))
        for g, w in zip(given, wanted, strict=True)
    ]


def conjuncts(predicate: Form) -> tuple[Form, ...]:
    """The conditions that a condition consists of."""
    if predicate.op != "and":
        return (predicate,)
    return tuple(a for a in predicate.args if isinstance(a, Form))
