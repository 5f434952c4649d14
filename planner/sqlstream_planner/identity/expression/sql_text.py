"""The form of what has no operator: the text that DuckDB would run, with what it is applied to taken out."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.identity.expression.calls import as_written_form
from sqlstream_planner.identity.expression.names import column_form
from sqlstream_planner.identity.expression.reader import Reader
from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.sql.as_written import as_written, without_marks
from sqlstream_planner.sql.dialect import SqlStream
from sqlstream_planner.sql.dialect.names import is_value


def sql_form(reader: Reader, node: exp.Expr) -> Form:
    """What DuckDB would run, with `$1`, `$2` … for what it is applied to: the safe form of what is not known."""
    inputs: list[Form] = []

    def place(part: exp.Expr) -> exp.Expr:
        found: Form | None = None
        written = as_written(part)
        if written is not None and part.find_ancestor(exp.Lambda, exp.Comprehension) is None:
            found = as_written_form(reader, written)
        elif isinstance(part, exp.Column):
            found = column_form(reader, part)
        elif isinstance(part, exp.Identifier) and is_value(part) and not _is_bound(part, part.name):
            found = reader.parameter(part.name)
        if found is None:
            return part
        if found not in inputs:
            inputs.append(found)
        return exp.Placeholder(this=str(inputs.index(found) + 1))

    template = exp.Paren(this=node.copy()).transform(place, copy=False)
    return form("sql", without_marks(template.this).sql(dialect=SqlStream, comments=False), *inputs)


def _is_bound(node: exp.Expr, name: str) -> bool:
    """Whether a name is a parameter of a lambda that stands around it in the same tree."""
    inner: exp.Expr = node
    while inner.parent is not None:
        around = inner.parent
        named: list[exp.Expr | None] = []
        if isinstance(around, exp.Lambda):
            named = list(around.expressions)
        elif isinstance(around, exp.Comprehension) and inner.arg_key != "iterator":
            named = [around.expression, around.args.get("position")]
        if any(p is not None and p.name.lower() == name.lower() for p in named):
            return True
        inner = around
    return False
