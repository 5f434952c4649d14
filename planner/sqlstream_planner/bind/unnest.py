"""UNNEST, and RANGE and GENERATE_SERIES, in FROM: each row beside the elements of one of its arrays.

As the first item of FROM, what is taken apart are elements of a list that is written out: beside one row, which is there
once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, Kind, SqlType
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.relation import Relation
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.logical import Field, Node, Project, Unnest, column
from sqlstream_planner.sql.datatypes import as_type
from sqlstream_planner.sql.dialect import function_name

#: Table functions whose rows are the elements of the list that the scalar function of their name gives.
SERIES = frozenset({"range", "generate_series"})


def unnested_array(context: BindContext, join: exp.Join) -> exp.Expr | None:
    """The array that a JOIN takes apart; None if it joins something else. Raises DiagnosticError for a LATERAL
    that is no UNNEST.
    """
    series = series_call(join.this)
    if series is not None:
        # With a condition it is a relation like any other.
        on = join.args.get("on")
        plain = on is None or (isinstance(on, exp.Boolean) and on.this is True)
        kinds = {str(join.args.get(w) or "").upper() for w in ("method", "side", "kind", "using")}
        return series if plain and kinds <= {"", "CROSS", "INNER", "LEFT", "OUTER"} else None
    return written_array(context, join.this)


def series_call(item: exp.Expr) -> exp.Anonymous | None:
    """The call of RANGE or GENERATE_SERIES that an item of FROM is; None if it is nothing of the kind."""
    call = item.this if isinstance(item, exp.Table | exp.Lateral) else None
    return call if isinstance(call, exp.Anonymous) and call.name.lower() in SERIES else None


def written_array(context: BindContext, item: exp.Expr) -> exp.Expr | None:
    """The array that an item of FROM takes apart by UNNEST; None if it is something else. Raises DiagnosticError."""
    if isinstance(item, exp.Unnest):
        if len(item.expressions) > 1:
            context.unsupported(item, "UNNEST of several arrays", help="unnest one after the other")
        only: exp.Expr = item.expressions[0]
        return only
    if not isinstance(item, exp.Lateral):
        return None
    if isinstance(item.this, exp.Unnest) or function_name(item.this) == "UNNEST":
        array: exp.Expr = item.this.expressions[0]
        return array
    _refuse_lateral(context, item)


def bind_unnest(
    context: BindContext, join: exp.Join, array: exp.Expr, node: Node, scope: Scope
) -> tuple[Node, Scope]:
    """The rows of `node` beside the elements of `array`, which may read them. Raises DiagnosticError."""
    method, side, kind_of = (str(join.args.get(w) or "").upper() for w in ("method", "side", "kind"))
    if method or side not in ("", "LEFT") or kind_of not in ("", "CROSS", "INNER", "OUTER"):
        kind = " ".join(w for w in (method, side, kind_of) if w)
        context.unsupported(
            join, f"{kind} JOIN", help="CROSS JOIN UNNEST(array) and LEFT JOIN UNNEST(array) can"
        )
    on = join.args.get("on") or next(iter(join.args.get("using") or []), None)
    if on is not None and not (isinstance(on, exp.Boolean) and on.this is True):
        context.unsupported(
            on, "a join condition with UNNEST", help="write ON TRUE, and the condition in WHERE"
        )
    return _beside(context, join.this, array, node, scope, outer=side == "LEFT")


def bind_first_unnest(
    context: BindContext, item: exp.Expr, array: exp.Expr, node: Node, scope: Scope
) -> tuple[Node, Relation]:
    """The elements of an array that is written out, or that a sub-query gives beside the one row of `node`.

    Raises DiagnosticError.
    """
    bound, scope = _beside(context, item, array, node, scope, outer=False)
    relation = scope.relations[-1]
    return Project(bound, relation.fields, tuple(column(f.id) for f in relation.fields)), relation


def _beside(
    context: BindContext, item: exp.Expr, array: exp.Expr, node: Node, scope: Scope, *, outer: bool
) -> tuple[Node, Scope]:
    resolved = context.translated(scope.resolve(array), scope.fields)
    typed = context.type_of(resolved, scope.fields)
    element = typed.type.element
    if typed.type.kind is Kind.MAP and typed.type.key is not None and typed.type.value is not None:
        resolved = exp.Anonymous(this="map_entries", expressions=[resolved])
        element = SqlType(Kind.STRUCT, fields=(("key", typed.type.key), ("value", typed.type.value)))
    elif typed.type.kind is not Kind.ARRAY or element is None:
        context.fail(
            array,
            "SQL033",
            f"UNNEST needs an array or a map, but this is {typed.type}",
            help="write CROSS JOIN UNNEST(an_array) AS u (item)",
        )
    if element.kind is Kind.TUPLE:
        element = replace(element, kind=Kind.STRUCT)
        resolved = as_type(resolved, SqlType(Kind.ARRAY, element=element))
    alias, series = item.args.get("alias"), series_call(item)
    names = [c.name for c in (alias.args.get("columns") or [])] if alias is not None else []
    offset = (item.args.get("offset") or item.args.get("ordinality")) or (
        item.this.args.get("offset") if isinstance(item, exp.Lateral) else None
    )
    if isinstance(offset, exp.Identifier) and offset.name not in names:
        names.append(offset.name)
    ordinality = bool(offset)
    wanted = len(names) - (1 if ordinality and names else 0)
    spread = element.kind is Kind.STRUCT and wanted != 1
    called_by_default = series.name.lower() if series is not None else "unnest"
    called = alias.name if alias is not None and alias.name else called_by_default
    # The only column of a table function is called as its relation is.
    inner = [(n, t) for n, t in element.fields] if spread else [(called, element)]
    if names and wanted != len(inner):
        context.fail(
            item,
            "SQL032",
            f"UNNEST gives {counted(len(inner), 'column')}, but {wanted} are named",
            notes=(f"its elements are {element}",),
        )
    given = names[: len(inner)] if names else [n for n, _ in inner]
    if spread:
        # The struct's own names are needed to take the fields out; the user's come with the projection below.
        given_inner = [n for n, _ in inner]
    else:
        given_inner = given
    fields = tuple(Field(context.new_id(n), n, t) for n, (_, t) in zip(given_inner, inner, strict=True))
    number = None
    if ordinality:
        name = names[-1] if names else "ordinality"
        number = Field(context.new_id(name), name, BIGINT, outer)
    bound: Node = Unnest(node, resolved, fields, spread, number, outer)
    shown = tuple(replace(f, name=n) for f, n in zip(fields, given, strict=True)) + (
        (number,) if number else ()
    )
    other_names = {} if names or spread else {called_by_default: called}
    relation = Relation(called, shown, other_names=other_names)
    return bound, Scope(context, (*scope.relations, relation))


def _refuse_lateral(context: BindContext, item: exp.Lateral) -> NoReturn:
    context.unsupported(
        item,
        f"the table function {function_name(item.this) or item.this.sql()}",
        help="UNNEST of an array or map can, such as CROSS JOIN UNNEST(string_split(s, ',')) AS u (word)",
    )
