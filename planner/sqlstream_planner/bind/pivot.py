"""PIVOT and UNPIVOT, as DuckDB has them: written as the SELECT that they stand for, over rows that are bound already.

PIVOT is a GROUP BY with one filtered aggregate for each value that its IN list names, and UNPIVOT an UNNEST of an array
of columns. The values must be listed: a result's columns are part of a pipeline's schema, and can't come with its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from sqlglot import exp

from sqlstream_operators.plan.types import VARCHAR
from sqlstream_planner.bind.aggregate_calls import aggregate_calls
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.items import output_name
from sqlstream_planner.bind.stars import star_of
from sqlstream_planner.diagnostics import suggestion
from sqlstream_planner.logical import Fields


@dataclass(frozen=True, slots=True)
class _Value:
    """What a column of PIVOT's result is for: the condition on a row, and its part of the column's name."""

    condition: exp.Expr
    name: str


def pivot_query(context: BindContext, pivot: exp.Pivot, fields: Fields, rows: str) -> exp.Select:
    """The SELECT that a PIVOT or an UNPIVOT of the relation `rows`, with the columns `fields`, stands for.

    Raises DiagnosticError.
    """
    source = exp.From(this=exp.Table(this=exp.to_identifier(rows, quoted=True)))
    if not pivot.args.get("unpivot"):
        select = _pivoted(context, pivot, fields)
        select.set("from_", source)
        return select
    select, names = _unpivoted(context, pivot, fields)
    select.set("from_", source)
    if pivot.args.get("include_nulls"):
        return select
    there = (exp.Not(this=exp.Is(this=exp.column(n, quoted=True), expression=exp.Null())) for n in names)
    return exp.select("*").from_(select.subquery("unpivoted")).where(*there, copy=False)


# ------------------------------------------------------------------------------------------------------- PIVOT


def _pivoted(context: BindContext, pivot: exp.Pivot, fields: Fields) -> exp.Select:
    is_statement = pivot.this is not None
    columns = pivot.expressions if is_statement else pivot.args.get("fields") or []
    aggregates = (pivot.args.get("using") or []) if is_statement else pivot.expressions
    if pivot.args.get("default_on_null"):
        context.unsupported(pivot, "DEFAULT ON NULL in PIVOT")
    for aggregate in aggregates:
        if inner := aggregate.find(exp.Filter):
            context.unsupported(
                inner,
                "FILTER inside PIVOT",
                help="write the condition into the call: SUM(CASE WHEN … THEN v END)",
            )
    count = exp.Count(this=exp.Star(), big_int=True)
    count.meta.update(pivot.meta)
    aggregates = list(aggregates) or [count]
    groups = _groups(context, pivot, fields, [*aggregates, *columns])
    items: list[exp.Expr] = list(groups)
    taken = {g.name.lower() for g in groups}
    for values in product(*(_values(context, each, fields) for each in columns)):
        condition = exp.and_(*(v.condition for v in values), copy=True)
        for position, aggregate in enumerate(aggregates):
            parts = [v.name for v in values]
            if isinstance(aggregate, exp.Alias) or len(aggregates) > 1:
                parts.append(output_name(aggregate, position))
            name = "_".join(parts)
            if name.lower() in taken:
                context.fail(
                    pivot, "SQL054", f"PIVOT gives two columns `{name}`", help="name a value: 'x' AS other"
                )
            taken.add(name.lower())
            call = aggregate.this if isinstance(aggregate, exp.Alias) else aggregate
            items.append(exp.alias_(_filtered(context, call, condition), name, quoted=True))
    select = exp.Select(expressions=items)
    if groups:
        select.set("group", exp.Group(expressions=[g.copy() for g in groups]))
    return select


def _filtered(context: BindContext, call: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """An expression with its one aggregate over the rows that satisfy `condition`."""
    call = call.copy()
    calls = aggregate_calls(call)
    if len(calls) != 1:
        context.unsupported(
            call, "anything but one aggregate for each column of PIVOT", help="SUM(a) AS x, SUM(b) AS y"
        )
    within = exp.Filter(this=calls[0].copy(), expression=exp.Where(this=condition.copy()))
    within.meta.update(calls[0].meta)
    if calls[0] is call:
        return within
    calls[0].replace(within)
    return call


def _groups(
    context: BindContext, pivot: exp.Pivot, fields: Fields, used: Sequence[exp.Expr]
) -> list[exp.Column]:
    """What PIVOT groups by: its GROUP BY, or else every column that it does not read."""
    group = pivot.args.get("group")
    if group is not None:
        for each in group.expressions:
            if not isinstance(each, exp.Column):
                context.unsupported(each, "an expression in the GROUP BY of PIVOT", help="name columns")
        return [_known(context, each, fields) for each in group.expressions]
    read = {c.name.lower() for each in used for c in each.find_all(exp.Column)}
    return [exp.column(f.name, quoted=True) for f in fields if f.name.lower() not in read]


def _values(context: BindContext, column: exp.Expr, fields: Fields) -> list[_Value]:
    """The values of one column of PIVOT. DuckDB compares texts, so 1.0 is another value than 1."""
    if not isinstance(column, exp.In) or not column.expressions:
        context.unsupported(
            column,
            "PIVOT without a list of values",
            help="list them, as a result's columns can't come with its rows: "
            f"{column.sql(dialect='duckdb') if not isinstance(column, exp.In) else column.this.sql()} IN ('a', 'b')",
        )
    texts = frozenset(f.name.lower() for f in fields if f.type == VARCHAR)
    names = column.this.expressions if isinstance(column.this, exp.Tuple) else [column.this]
    found = []
    for item in column.expressions:
        alias, value = item.args.get("alias"), item.this if isinstance(item, exp.PivotAlias) else item
        value = value.unnest()
        parts = value.expressions if isinstance(value, exp.Tuple) and len(names) > 1 else [value]
        if len(parts) != len(names):
            context.fail(item, "SQL057", f"{len(parts)} values for {len(names)} columns of PIVOT")
        name = alias.name if alias is not None else "_".join(_text(context, part) for part in parts)
        tests = [_is_value(left, right, texts) for left, right in zip(names, parts, strict=True)]
        found.append(_Value(exp.and_(*tests, copy=False), name))
    return found


def _is_value(column: exp.Expr, value: exp.Expr, texts: frozenset[str]) -> exp.Expr:
    """The condition that a column has a value; `texts` are the names of those that are texts, in lower case."""
    if isinstance(value, exp.Null):
        return exp.Is(this=column.copy(), expression=value.copy())
    is_text = isinstance(column, exp.Column) and column.name.lower() in texts
    left = column.copy() if is_text else exp.cast(column.copy(), exp.DType.VARCHAR)
    right = value.copy() if value.is_string else exp.cast(value.copy(), exp.DType.VARCHAR)
    test = exp.EQ(this=left, expression=right)
    test.meta.update(column.meta)
    return test


def _text(context: BindContext, value: exp.Expr) -> str:
    """How DuckDB writes a literal, which names a column."""
    match value:
        case exp.Literal():
            return str(value.this)
        case exp.Null():
            return "NULL"
        case exp.Boolean():
            return "true" if value.this else "false"
        case exp.Neg() if isinstance(value.this, exp.Literal):
            return f"-{value.this.this}"
        case exp.Cast() if isinstance(value.this, exp.Literal) and value.is_type("date"):
            return str(value.this.this)
        case _:
            pass
    context.unsupported(
        value, "a value of PIVOT without a name", help="name the column that it gives: … AS name"
    )


# ----------------------------------------------------------------------------------------------------- UNPIVOT


def _unpivoted(context: BindContext, pivot: exp.Pivot, fields: Fields) -> tuple[exp.Select, list[str]]:
    """The rows of UNPIVOT, those with NULLs among them, and the names of their values."""
    if pivot.this is not None:
        into = pivot.args.get("into")
        label = into.this.name if into is not None else "name"
        values = [each.name for each in into.expressions] if into is not None else ["value"]
        listed: Sequence[exp.Expr] = pivot.expressions
    else:
        (spread,) = pivot.args["fields"]
        label, listed = spread.this.name, spread.expressions
        target = pivot.expressions[0]
        values = [each.name for each in (target.expressions if isinstance(target, exp.Tuple) else [target])]
    labels, rows = [], []
    for item in _spread(listed, fields):
        alias, given = (
            item.args.get("alias"),
            item.this if isinstance(item, exp.PivotAlias | exp.Alias) else item,
        )
        parts = given.expressions if isinstance(given, exp.Tuple) else [given.unnest()]
        if len(parts) != len(values):
            context.fail(item, "SQL057", f"{len(parts)} columns of UNPIVOT for {len(values)} names of values")
        for part in parts if alias is None else ():
            if not isinstance(part, exp.Column):
                context.unsupported(
                    part, "an expression of UNPIVOT without a name", help="name it: … AS name"
                )
        for column in (c for part in parts for c in part.find_all(exp.Column)):
            _known(context, column, fields)
        labels.append(alias.name if alias is not None else "_".join(_declared(p, fields) for p in parts))
        rows.append(parts)
    used = {c.name.lower() for parts in rows for part in parts for c in part.find_all(exp.Column)}
    kept: list[exp.Expr] = [exp.column(f.name, quoted=True) for f in fields if f.name.lower() not in used]
    arrays = [exp.Array(expressions=[exp.Literal.string(text) for text in labels])]
    arrays += [exp.Array(expressions=[parts[n].copy() for parts in rows]) for n in range(len(values))]
    for array in arrays:
        array.meta.update(pivot.meta)
    new = [
        exp.alias_(exp.Explode(this=array), name, quoted=True)
        for name, array in zip([label, *values], arrays, strict=True)
    ]
    return exp.Select(expressions=[*kept, *new]), values


def _spread(listed: Iterable[exp.Expr], fields: Fields) -> list[exp.Expr]:
    """The columns of UNPIVOT, `*` and COLUMNS(* EXCLUDE (…)) spread out."""
    found: list[exp.Expr] = []
    for item in listed:
        star = star_of(_inside_columns(item))
        if star is None:
            found.append(item)
            continue
        without = {e.name.lower() for e in star.args.get("except_") or star.args.get("except") or []}
        found += [exp.column(f.name, quoted=True) for f in fields if f.name.lower() not in without]
    return found


def _inside_columns(item: exp.Expr) -> exp.Expr:
    """What stands in COLUMNS(…), or the item itself."""
    inside = item
    if isinstance(item, exp.Columns):
        inside = item.this
    elif isinstance(item, exp.Anonymous) and item.name.upper() == "COLUMNS" and len(item.expressions) == 1:
        inside = item.expressions[0]
    return inside


def _declared(column: exp.Expr, fields: Fields) -> str:
    """How the relation spells the name of a column, which is a value of UNPIVOT's result."""
    return next((f.name for f in fields if f.name.lower() == column.name.lower()), column.name)


def _known(context: BindContext, column: exp.Column, fields: Fields) -> exp.Column:
    if not any(f.name.lower() == column.name.lower() for f in fields):
        names = [f.name for f in fields]
        context.fail(
            column,
            "SQL010",
            f"unknown column `{column.name}`",
            notes=(f"there is {', '.join(names)}",),
            help=suggestion(column.name, names),
        )
    return column
