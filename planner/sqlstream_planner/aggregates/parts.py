"""Pieces of SQL that aggregate functions are made of."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.aggregates.function import Accumulator, Decomposition, Multiset
from sqlstream_planner.logical import AggregateCall, columns_of, order_term, sql

MERGE_COUNTS = "CAST(sum({f}) AS BIGINT)"
#: Over weighted rows several accumulators of a group can all be there and NULL.
MERGE_WEIGHTED_COUNTS = "CAST(coalesce(sum({f}), 0) AS BIGINT)"


def argument(call: AggregateCall, position: int = 0) -> str:
    """An argument of a call as SQL."""
    return sql(call.arguments[position])


def conditions_of(call: AggregateCall, *more: str) -> list[str]:
    """The call's FILTER and `more`, as SQL."""
    return [*([f"({sql(call.filter)})"] if call.filter is not None else []), *more]


def where(*conditions: str) -> str:
    """A FILTER clause, nothing without conditions.

    >>> where("a", "b")
    ' FILTER (WHERE a AND b)'
    """
    return f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""


def filter_of(call: AggregateCall, *conditions: str) -> str:
    """The call's FILTER, with more `conditions`."""
    return where(*conditions_of(call, *conditions))


def row_count(weight: str | None, *conditions: str) -> str:
    """SQL that counts rows by their weights, BIGINT, 0 where there is none."""
    if weight is None:
        return f"count(*){where(*conditions)}"
    return f"CAST(coalesce(sum({weight}){where(*conditions)}, 0) AS BIGINT)"


def constants_of(call: AggregateCall) -> str:
    """The arguments behind the first, each with a comma before it."""
    return "".join(f", {sql(a)}" for a in call.arguments[1:])


def in_template(text: str) -> str:
    """SQL of the user's as a part of `Decomposition.final`, where braces stand for accumulators.

    >>> in_template("'{}'").format()
    "'{}'"
    """
    return text.replace("{", "{{").replace("}", "}}")


def self_merging(call: AggregateCall) -> Decomposition:
    """MIN, BOOL_AND, BIT_OR …: the function itself merges its partial results."""
    partial = f"{call.name}({argument(call)}){filter_of(call)}"
    return Decomposition((Accumulator(call.name, call.field.type, partial, f"{call.name}({{f}})"),), "{0}")


# ------------------------------------------------------------------------------ over counted values


def repeated(call: AggregateCall, element: str, order: str) -> str:
    """A list of all of a group's values, each as often as it is there; of a DISTINCT call once."""
    if call.distinct:
        return f"list({element} ORDER BY {order})"
    return f'flatten(list(repeat([{element}], "count") ORDER BY {order}))'


def order_of(call: AggregateCall, values: tuple[str, ...]) -> str:
    """The call's ORDER BY, and then by value: what is left to chance elsewhere has one result here.

    `values` are the columns of the value and of what it is ordered by.
    """
    x = values[0]
    if call.distinct:
        return ", ".join([*terms_by_value(call, x), f"{x} ASC NULLS LAST"])
    keys = values[1:] or (x,)
    terms = [
        order_term(key, descending=descending, nulls_first=nulls_first)
        for key, (_, descending, nulls_first) in zip(keys, call.order_by, strict=False)
    ]
    return ", ".join([*terms, f"{x} ASC NULLS LAST"])


def terms_by_value(call: AggregateCall, x: str) -> list[str]:
    """The ORDER BY of a DISTINCT call over its value `x`, beside which it reads nothing."""
    value = call.arguments[0]
    return [
        order_term(sql(over_value(term, value, x)), descending=descending, nulls_first=nulls_first)
        for term, descending, nulls_first in call.order_by
        if columns_of(term)
    ]


def over_value(term: exp.Expr, value: exp.Expr, x: str) -> exp.Expr:
    """`term` with the SQL `x` where it has `value`.

    >>> from sqlglot import parse_one
    >>> over_value(parse_one("length(upper(s)) + 1"), parse_one("upper(s)"), "x").sql()
    'LENGTH(x) + 1'
    """
    return term.transform(lambda node: exp.Var(this=x) if node == value else node)


def is_by_value(call: AggregateCall) -> bool:
    """Whether the value itself is in the call's ORDER BY, which then leaves no ties of a DISTINCT call."""
    return any(term == call.arguments[0] for term, _, _ in call.order_by)


def order_by_value(call: AggregateCall, x: str) -> str:
    """The order of a DISTINCT call over its value `x`, ties ascending."""
    ties = [] if is_by_value(call) else [f"{x} ASC NULLS LAST"]
    return ", ".join([*terms_by_value(call, x), *ties])


def as_list(call: AggregateCall, values: tuple[str, ...]) -> str:
    """DuckDB's function over the list of all values, or over distinct values as rows."""
    x = values[0]
    if call.distinct:
        return f"{call.name}({x}{constants_of(call)} ORDER BY {x})"
    return f"list_aggregate({repeated(call, x, order_of(call, values))}, '{call.name}'{constants_of(call)})"


def as_rows(call: AggregateCall, values: tuple[str, ...]) -> str:
    """DuckDB's function over distinct values, for one that doesn't mind how often a value is there."""
    return f"{call.name}({values[0]})"


AS_LIST = Multiset(as_list)


# ----------------------------------------------------------------------------- over distinct values


def over_distinct(call: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    """DuckDB's function over a table of distinct `values`, restricted to rows with `flag`."""
    return f"{call.name}({values[0]}{constants_of(call)}){where(*_flagged(flag))}"


def over_ordered_distinct(call: AggregateCall, values: tuple[str, ...], flag: str | None) -> str:
    """The same in the call's order, or in ascending order of the values."""
    return distinct_in_order(call.name, call, values, flag)


def distinct_in_order(
    name: str, call: AggregateCall, values: tuple[str, ...], flag: str | None, *conditions: str
) -> str:
    """The DuckDB function `name` over distinct `values` in order."""
    order = order_by_value(call, values[0])
    return f"{name}({values[0]}{constants_of(call)} ORDER BY {order}){where(*_flagged(flag), *conditions)}"


def _flagged(flag: str | None) -> list[str]:
    return [flag] if flag is not None else []
