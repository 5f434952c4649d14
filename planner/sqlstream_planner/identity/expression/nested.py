"""Arrays, maps, structs and their parts, and lambdas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_planner.identity.expression.reader import Handler, Reader, has_only
from sqlstream_planner.identity.form import Form, form


def _dot(reader: Reader, node: exp.Expr) -> Form | None:
    if not isinstance(node.expression, exp.Identifier):
        return None
    return form("field", reader.form(node.this), node.expression.name)


def _bracket(reader: Reader, node: exp.Expr) -> Form | None:
    if len(node.expressions) != 1 or not has_only(node, "this", "expressions"):
        return None
    [at] = node.expressions
    if isinstance(at, exp.Slice):
        if not has_only(at, "this", "expression", "step"):
            return None
        bounds = (at.args.get(key) for key in ("this", "expression", "step"))
        return form("slice", reader.form(node.this), *(None if b is None else reader.form(b) for b in bounds))
    return form("element", reader.form(node.this), reader.form(at))


def _array(reader: Reader, node: exp.Expr) -> Form | None:
    if any(isinstance(e, exp.Comprehension | exp.Query) for e in node.expressions):
        return None
    return form("array", *(reader.form(e) for e in node.expressions))


def _struct(reader: Reader, node: exp.Expr) -> Form | None:
    return struct_form(reader, node.expressions)


def struct_form(reader: Reader, fields: Sequence[exp.Expr]) -> Form | None:
    """A struct of named fields; None if one has no name."""
    parts: list[str | Form] = []
    for field in fields:
        match field:
            case exp.PropertyEQ(this=exp.Identifier() | exp.Literal() as name):
                parts += [name.name, reader.form(field.expression)]
            case exp.Alias():
                parts += [field.alias, reader.form(field.this)]
            case exp.Column():
                parts += [field.name, reader.form(field)]  # DuckDB names the field after it
            case _:
                return None
    return form("struct", *parts)


def _map(reader: Reader, node: exp.Expr) -> Form | None:
    keys, values = node.args.get("keys"), node.args.get("values")
    if keys is None or values is None:
        return form("call", "map") if keys is values else None
    return form("map", reader.form(keys), reader.form(values))


def _to_map(reader: Reader, node: exp.Expr) -> Form | None:
    pairs: list[exp.Expr] = node.this.expressions
    named = all(isinstance(p, exp.PropertyEQ) and not isinstance(p.this, exp.Identifier) for p in pairs)
    if not isinstance(node.this, exp.Struct) or not named:
        return None
    keys = form("array", *(reader.form(p.this) for p in pairs))
    return form("map", keys, form("array", *(reader.form(p.expression) for p in pairs)))


def _tuple(reader: Reader, node: exp.Expr) -> Form:
    return form("row", *(reader.form(e) for e in node.expressions))


def _lambda(reader: Reader, node: exp.Expr) -> Form | None:
    if not all(isinstance(p, exp.Identifier) for p in node.expressions):
        return None
    reader.parameters.append([p.name.lower() for p in node.expressions])
    try:
        return form("lambda", len(node.expressions), reader.form(node.this))
    finally:
        reader.parameters.pop()


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.Dot: _dot,
    exp.Bracket: _bracket,
    exp.Array: _array,
    exp.Struct: _struct,
    exp.Map: _map,
    exp.ToMap: _to_map,
    exp.Tuple: _tuple,
    exp.Lambda: _lambda,
}
