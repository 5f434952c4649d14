"""VALUES: rows that are written out."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_operators.plan.types import INTEGER
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.scope import Scope
from sqlstream_planner.diagnostics import counted
from sqlstream_planner.expressions.casts import common_type, fails
from sqlstream_planner.logical import Field, Values


def bind_values(context: BindContext, item: exp.Values) -> Values:
    """The rows of VALUES, each column of the type that all its values can have; names are DuckDB's, col0 and so on.

    Raises DiagnosticError.
    """
    scope = Scope(context, ())
    rows = [tuple(row.expressions) if isinstance(row, exp.Tuple) else (row,) for row in item.expressions]
    for row, written in zip(rows, item.expressions, strict=True):
        if len(row) != len(rows[0]):
            context.fail(
                written,
                "SQL037",
                f"a row of {counted(len(row), 'value')} in VALUES of {len(rows[0])}",
                help="give each row as many values",
            )
    resolved = [tuple(context.translated(scope.resolve(e), ()) for e in row) for row in rows]
    fields = []
    for position, column in enumerate(zip(*resolved, strict=True)):
        typed = [context.type_of(e, ()) for e in column]
        context.refuse_mixed_instants(rows[0][position], [t.type for t in typed])
        type_ = common_type(typed)
        wrong = next(
            (t for t in typed if isinstance(t.literal, str) and type_ and fails(t.literal, type_)), None
        )
        if type_ is None or wrong is not None:
            shown = " and ".join(dict.fromkeys(str(t.type) for t in typed))
            context.fail(
                rows[0][position],
                "SQL031",
                f"column {position + 1} of these VALUES is {shown}",
                help="cast them to one type",
            )
        name = f"col{position}"
        fields.append(Field(context.new_id(name), name, type_, any(t.nullable for t in typed)))
    return Values(tuple(fields), tuple(resolved), context.span(item))


def asks(item: exp.Values) -> bool:
    """Whether values of VALUES are those of sub-queries.

    >>> import sqlglot
    >>> asks(sqlglot.parse_one("VALUES ((SELECT 1), 2)")), asks(sqlglot.parse_one("VALUES (1, 2)"))
    (True, False)
    """
    return item.find(exp.Query, exp.Exists) is not None


def as_selects(item: exp.Values) -> exp.Query:
    """VALUES as a query with a SELECT for each row, which may read the outer rows.

    >>> import sqlglot
    >>> as_selects(sqlglot.parse_one("VALUES (a, 1), (b, 2)")).sql()
    'SELECT a AS col0, 1 AS col1 UNION ALL SELECT b AS col0, 2 AS col1'
    """
    rows = [tuple(row.expressions) if isinstance(row, exp.Tuple) else (row,) for row in item.expressions]
    selects = [
        exp.Select(expressions=[exp.alias_(e.copy(), f"col{n}") for n, e in enumerate(row)]) for row in rows
    ]
    for select in selects:
        select.meta.update(item.meta)
    made: exp.Query = selects[0]
    for select in selects[1:]:
        made = exp.Union(this=made, expression=select, distinct=False)
        made.meta.update(item.meta)
    return made


def no_rows_but_one(context: BindContext, query: exp.Expr) -> Values:
    """What a SELECT without FROM reads: one row, with a column that nothing names."""
    one = Field(context.new_id("one"), "one", INTEGER, nullable=False)
    return Values((one,), ((exp.Literal.number(1),),), context.span(query))
