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
from sqlstream_planner.expressions.unnests import unnest_call, unnests_of
from sqlstream_planner.sql.as_written import without_marks

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
    how = _depth(context, options)
    if how is None:
        return None
    depth, within = how
    beside = next((e for e in others if unnests_of(e)), None)
    if depth > 1 and beside is not None:
        # DuckDB takes both apart depth by depth, and repeats what is shallower.
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
        return _fields(exp.paren(resolved, copy=False), type_, depth, within)
    if type_.kind is not Kind.ARRAY:
        return None
    nested, element = 1, type_.element
    while element is not None and element.kind is Kind.ARRAY and nested < depth:
        nested, element = nested + 1, element.element
    for _ in range(nested - 1):
        resolved = exp.Anonymous(this="flatten", expressions=[resolved])
    made: exp.Expr = exp.Anonymous(this="UNNEST", expressions=[resolved])
    made.meta.update(bare.meta)
    if element is not None and element.kind in ROWS and depth > nested:
        return _fields(made, element, depth - nested, within)
    name = item.alias if isinstance(item, exp.Alias) else "unnest"
    return [(name, made)]


def _fields(
    value: exp.Expr, type_: SqlType, depth: int, within: bool, before: str = ""
) -> list[tuple[str, exp.Expr]]:
    """The fields of a struct as items, and those of structs in it as far down as `depth` says.

    `within`: the names of the structs that a field is in stand before its own, `before` for these.
    """
    found: list[tuple[str, exp.Expr]] = []
    for position, (name, inner) in enumerate(type_.fields, 1):
        part: exp.Expr = exp.Dot(this=value.copy(), expression=exp.to_identifier(name, quoted=True))
        if type_.kind is Kind.TUPLE:
            part = exp.Bracket(this=value.copy(), expressions=[exp.Literal.number(position)])
        if inner.kind in ROWS and depth > 1:
            found += _fields(part, inner, depth - 1, within, f"{before}{name}." if within else "")
        else:
            found.append((f"{before}{name}", part))
    return found


def _depth(context: BindContext, options: list[exp.Expr]) -> tuple[int, bool] | None:
    """The nesting depth that the options of an UNNEST give, and whether names keep those of the structs around them.

    None for something else than options.
    """
    named: dict[str, exp.Expr] = {}
    for option in options:
        if not isinstance(option, exp.PropertyEQ | exp.Kwarg):
            return None
        name, value = option.this.name.lower(), option.expression
        boolean = name in ("recursive", "keep_parent_names") and isinstance(value, exp.Boolean)
        sets_depth = name == "max_depth" and isinstance(value, exp.Literal) and value.is_int
        if not boolean and not (sets_depth and int(value.this) > 0):
            context.unsupported(
                option, f"UNNEST with {name}", help="write recursive := true, or max_depth := 2"
            )
        named[name] = value
    within = "keep_parent_names" in named and bool(named["keep_parent_names"].this)
    if "max_depth" in named:
        return int(named["max_depth"].this), within
    return (_BOTTOM if "recursive" in named and named["recursive"].this else 1), within
