"""UNNEST in a SELECT list of what has fields, and UNNEST to the bottom: other items of the list that give the same.

A struct is no rows but columns, one a field. With `recursive := true` arrays of arrays are taken apart to their elements, as
DuckDB does it: inner arrays that are empty or NULL give no rows, and structs that are reached become columns, and theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import ROWS, Kind, SqlType
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.expressions.functions.as_written import without_marks
from sqlstream_planner.expressions.unnests import unnest_call, unnests_of

#: How deep UNNEST goes by `recursive := true`.
_BOTTOM = 1_000


def spread(
    context: BindContext, item: exp.Expr, others: Sequence[exp.Expr], scope: Scope
) -> list[tuple[str, exp.Expr]] | None:
    """The items, resolved, that an item stands for which is nothing but UNNEST of a struct, or recursive; None for others.

    `others` are the list's other items. Raises DiagnosticError.
    """
    bare = item.this if isinstance(item, exp.Alias) else item
    call = unnest_call(bare)
    if call is None or not call.arguments:
        return None
    value, *options = call.arguments
    depth = _depth(context, options)
    if depth is None:
        return None
    beside = next((e for e in others if unnests_of(e)), None)
    if depth > 1 and beside is not None:
        # DuckDB takes both apart level by level, and repeats what has fewer.
        context.unsupported(
            beside,
            "UNNEST beside one that goes to the bottom",
            help="unnest one of them in a sub-query: FROM (SELECT *, UNNEST(a) AS e FROM t)",
        )
    resolved = context.translated(scope.resolve(value), scope.fields)
    type_ = context.type_of(resolved, scope.fields, aggregates=True).type
    if type_.kind not in ROWS and not options:
        return None
    resolved = without_marks(resolved)
    if type_.kind in ROWS:
        return _fields(exp.paren(resolved, copy=False), type_, depth)
    if type_.kind is not Kind.ARRAY:
        return None
    levels, element = 1, type_.element
    while element is not None and element.kind is Kind.ARRAY and levels < depth:
        levels, element = levels + 1, element.element
    for _ in range(levels - 1):
        resolved = exp.Anonymous(this="flatten", expressions=[resolved])
    made: exp.Expr = exp.Anonymous(this="UNNEST", expressions=[resolved])
    made.meta.update(bare.meta)
    if element is not None and element.kind in ROWS and depth > levels:
        return _fields(made, element, depth - levels)
    name = item.alias if isinstance(item, exp.Alias) else "unnest"
    return [(name, made)]


def _fields(value: exp.Expr, type_: SqlType, depth: int) -> list[tuple[str, exp.Expr]]:
    """The fields of a struct as items, and those of structs in it as far down as `depth` says."""
    found: list[tuple[str, exp.Expr]] = []
    for position, (name, inner) in enumerate(type_.fields, 1):
        part: exp.Expr = exp.Dot(this=value.copy(), expression=exp.to_identifier(name, quoted=True))
        if type_.kind is Kind.TUPLE:
            part = exp.Bracket(this=value.copy(), expressions=[exp.Literal.number(position)])
        if inner.kind in ROWS and depth > 1:
            found += _fields(part, inner, depth - 1)
        else:
            found.append((name, part))
    return found


def _depth(context: BindContext, options: list[exp.Expr]) -> int | None:
    """How many levels the options of an UNNEST name; None for something else than options."""
    if not options:
        return 1
    if len(options) > 1 or not isinstance(options[0], exp.PropertyEQ | exp.Kwarg):
        return None
    option, value = options[0].this.name.lower(), options[0].expression
    if option == "recursive" and isinstance(value, exp.Boolean):
        return _BOTTOM if value.this else 1
    if option == "max_depth" and isinstance(value, exp.Literal) and value.is_int and int(value.this) > 0:
        return int(value.this)
    context.unsupported(
        options[0], f"UNNEST with {option}", help="write recursive := true, or max_depth := 2"
    )
