"""UNNEST in a SELECT list or GROUP BY: rows of their own, which a node below the projection makes.

An UNNEST is no value of its row: left inside a projection it would be lost with a column that nobody reads, and
run twice where two read it. So it is the same node as a CROSS JOIN UNNEST. Several in one list go side by side,
the shorter ones filled up with NULLs, and a row for which all are empty or NULL is gone, as in DuckDB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from sqlglot import exp

from sqlstream_operators.plan.types import (
    BIGINT,
    INTEGER,
    NULL,
    UNKNOWN,
    Kind,
    SqlType,
    array,
    quote_identifier,
)
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.expressions.unnests import unnest_call, unnests_of
from sqlstream_planner.logical import Field, Node, Project, Unnest, column, raw, sql
from sqlstream_planner.sql.as_written import SIDE_BY_SIDE, marked, without_marks
from sqlstream_planner.sql.written_calls import WrittenCall


def with_unnested(
    context: BindContext, below: Node, expressions: Sequence[exp.Expr]
) -> tuple[Node, list[exp.Expr]]:
    """`below` with the elements of the arrays that resolved `expressions` over it UNNEST, and the expressions over
    that. Both are as they were if there is no UNNEST. Raises DiagnosticError.
    """
    # A mark holds a call as it is written beside what it became, and both would have the UNNEST.
    plain = [without_marks(e) if unnests_of(e) else e for e in expressions]
    calls = [call for e in plain for call in unnests_of(e)]
    if not calls:
        return below, plain
    arrays: dict[str, tuple[exp.Expr, SqlType]] = {}
    for call in calls:
        form = context.form(call, below.fields)
        if form not in arrays:
            arrays[form] = _array(context, call, below)
    node, elements = _elements(context, below, list(arrays.values()))
    held = dict(zip(arrays, elements, strict=True))

    def swap(part: exp.Expr) -> exp.Expr:
        if unnest_call(part) is None:
            return part
        found = held[context.form(part, below.fields)].copy()
        found.meta.update(part.meta)
        return found

    return node, [e.copy().transform(swap, copy=False) for e in plain]


def _elements(
    context: BindContext, node: Node, arrays: Sequence[tuple[exp.Expr, SqlType]]
) -> tuple[Node, list[exp.Expr]]:
    """`node` with the elements of arrays side by side, and the element of each as an expression over that."""
    if len(arrays) == 1:
        [(array_, type_)] = arrays
        element = Field(context.new_id("unnest"), "element", type_)
        return Unnest(node, array_, (element,), spread=False, ordinality=None, outer=False), [
            column(element.id)
        ]
    # Not LIST_ZIP: where it fills up with a NULL struct, DuckDB 2.0's fields of that struct are not NULL.
    held = [Field(context.new_id("unnested"), "array", array(type_)) for _, type_ in arrays]
    node = Project(
        node,
        (*node.fields, *held),
        (*(column(f.id) for f in node.fields), *(array_ for array_, _ in arrays)),
    )
    lengths = ", ".join(f"len({quote_identifier(f.id)})" for f in held)
    number = Field(context.new_id("unnest"), "number", BIGINT, False)
    # Which of them stands first does not matter to what they are.
    longest = marked(raw(f"range(1, greatest({lengths}) + 1)"), SIDE_BY_SIDE, [column(f.id) for f in held])
    node = Unnest(node, longest, (number,), spread=False, ordinality=None, outer=False)
    at = quote_identifier(number.id)
    return node, [raw(f"list_extract({quote_identifier(f.id)}, {at})") for f in held]


def _array(context: BindContext, node: exp.Expr, below: Node) -> tuple[exp.Expr, SqlType]:
    """The array that an UNNEST takes apart, and the type of its elements. Raises DiagnosticError."""
    call = unnest_call(node)
    assert call is not None
    if len(call.arguments) != 1:
        _refuse_arguments(context, node, call)
    [written] = call.arguments
    typed = context.type_of(written, below.fields)
    type_ = typed.type
    if type_.kind is Kind.MAP or (type_.kind is Kind.STRUCT and type_.fields):
        shown = sql(without_marks(written))
        context.fail(
            node,
            "SQL033",
            f"UNNEST in a SELECT list needs an array, but this is {type_}",
            help="write CROSS JOIN UNNEST(…) AS u (k, v) behind FROM, or UNNEST(MAP_ENTRIES(…))"
            if type_.kind is Kind.MAP
            else f"name its fields, such as {_plain(shown)}.{type_.fields[0][0]}",
        )
    if type_.kind is Kind.NULL or type_ == array(NULL):
        return exp.cast(written.copy(), "INT[]", dialect="duckdb"), INTEGER
    if type_.kind is not Kind.ARRAY or type_.element is None or isinstance(typed.literal, str):
        known = f"this is {type_}" if type_ != UNKNOWN else "the type of this is not known"
        context.fail(node, "SQL033", f"UNNEST needs an array, but {known}", help="write UNNEST(an_array)")
    return written.copy(), type_.element


def _plain(text: str) -> str:
    return text.replace('"', "")


def _refuse_arguments(context: BindContext, node: exp.Expr, call: WrittenCall) -> NoReturn:
    if len(call.arguments) > 1 and isinstance(call.arguments[1], exp.PropertyEQ | exp.Kwarg):
        context.unsupported(
            node,
            f"UNNEST with {call.arguments[1].this.name}",
            help="unnest step by step: SELECT UNNEST(e) FROM (SELECT UNNEST(a) AS e FROM t)",
        )
    context.fail(
        node,
        "TYP002",
        f"`unnest` takes one array, not {len(call.arguments)}",
        help="several arrays side by side: SELECT UNNEST(a), UNNEST(b)" if call.arguments else None,
    )
