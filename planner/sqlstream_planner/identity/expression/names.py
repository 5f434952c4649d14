"""Names and literals."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.identity.expression.reader import Handler, Reader, has_only
from sqlstream_planner.identity.form import Form, form
from sqlstream_planner.sql.dialect import constant_value


def column_form(reader: Reader, node: exp.Expr) -> Form | None:
    """What a column is said to be; no parameter of a lambda is one. Raises InternalError for an unknown one."""
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return None
    name = ".".join(part.name for part in node.parts)
    if len(node.parts) > 1 or name not in reader.columns:
        known = ", ".join(sorted(reader.columns)) or "none"
        raise InternalError(f"column `{name}` has no form (there are forms of: {known})")
    return reader.columns[name]


def _identifier(reader: Reader, node: exp.Expr) -> Form | None:
    return reader.parameter(node.name)


def _literal(reader: Reader, node: exp.Expr) -> Form:
    written = str(node.this)
    if node.args.get("is_string"):
        return form("string", written)
    if written.isascii() and written.isdigit():
        return form("number", written.lstrip("0") or "0")
    return form("number", written.lower())


def _text(reader: Reader, node: exp.Expr) -> Form:
    return form("string", str(node.this))


def _boolean(reader: Reader, node: exp.Expr) -> Form:
    return form("boolean", bool(node.this))


def _null(reader: Reader, _: exp.Expr) -> Form:
    return form("null")


def _star(reader: Reader, node: exp.Expr) -> Form | None:
    return form("star") if has_only(node) else None


def _bytes(reader: Reader, node: exp.Expr) -> Form:
    return form("bytes", str(node.this).lower())


def _interval(reader: Reader, node: exp.Expr) -> Form | None:
    try:
        value = constant_value(node)
    except ValueError:
        return None
    if value is not None:
        return form("interval", value.months, value.days, value.micros)
    unit = node.args.get("unit")
    if node.this is None or not isinstance(unit, exp.Var) or not has_only(node, "this", "unit"):
        return None
    return form("interval of", unit.name.lower(), reader.form(node.this))


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.Column: column_form,
    exp.Identifier: _identifier,
    exp.Literal: _literal,
    exp.RawString: _text,
    exp.HexString: _bytes,
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Star: _star,
    exp.Interval: _interval,
}
