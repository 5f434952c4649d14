"""What a scalar expression means: its form in operators and names of our own.

A form holds names of our function catalogue, the operators below and types as `SqlType` writes them, and nothing
of how expressions are parsed or how functions are translated for DuckDB. The rule is that *different is safe*:
two expressions get one form only where a rule here makes them one. What has no operator here is the
text that DuckDB would run, with what it is applied to taken out.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.identity.expression import calls, conditions, names, nested, operators
from sqlstream_planner.identity.expression.reader import Handler, Reader
from sqlstream_planner.identity.expression.sql_text import sql_form
from sqlstream_planner.identity.form import Form

#: Raise it with every change of what form an expression gets, and say then how older forms are read.
FORM_VERSION = 1

#: Every operator that a form of an expression can have, beside those of the forms of columns.
OPERATORS = frozenset(
    {
        # names and literals
        "parameter", "string", "number", "boolean", "null", "bytes", "interval", "interval of", "star",
        # conditions
        "=", "<>", "<", "<=", "is not distinct from", "and", "or", "not", "between", "in", "in one",
        "is null", "is true", "is false", "like", "ilike", "glob", "similar to", "~", "~*",
        "is json", "is json value", "is json object", "is json array", "is json scalar", "case",
        # arithmetic, bits, text
        "+", "+ in order", "-", "*", "/", "//", "%", "negative", "&", "|", "xor", "~ bits", "<<", ">>", "||",
        # types and times
        "cast", "try cast", "type", "extract", "at time zone",
        # arrays, maps, structs
        "array", "map", "struct", "row", "field", "element", "slice", "@>", "<@", "&&", "lambda",
        # calls
        "call", "named", "distinct", "order by", "ascending", "descending", "filter", "within group",
        "ignore nulls", "respect nulls",
        # what has none: DuckDB's text
        "sql",
    }
)  # fmt: skip

_HANDLERS: Mapping[type[exp.Expr], Handler] = {
    **names.HANDLERS,
    **operators.HANDLERS,
    **conditions.HANDLERS,
    **nested.HANDLERS,
    **calls.HANDLERS,
}


def expression_form(
    expression: exp.Expr, columns: Mapping[str, Form], types: Mapping[str, SqlType] | None = None
) -> Form:
    """The form of a bound expression, whose columns are ids; `columns` says what each of them is.

    `types` are the columns' types. Without them fewer expressions are known to be the same: a + b is b + a unless
    they are arrays, and a BETWEEN b AND c is two comparisons if b and c have one type. Raises InternalError for a
    column that is not in `columns`.

    >>> from sqlstream_planner.sql.dialect import parse_expression
    >>> from sqlstream_planner.identity.form import text
    >>> columns = {name: Form("column", (name,)) for name in ("a", "b")}
    >>> def of(sql): return expression_form(parse_expression(sql), columns)
    >>> of("NOT (a >= b OR b IS NULL)") == of("(b is not null) and a < b")
    True
    >>> print(text(of("CAST(a AS DECIMAL(10, 2)) > 5")))
    (< (number "5") (cast (column "a") (type "DECIMAL(10,2)")))
    >>> of("CAST(a AS DECIMAL(10, 0))") == of("CAST(a AS DECIMAL(10, 2))"), of("a + 1.0") == of("a + 1")
    (False, False)
    """
    reader = Reader(columns, types or {}, _HANDLERS, calls.call_form, calls.as_written_form, sql_form)
    return reader.form(expression)
