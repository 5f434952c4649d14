"""Arithmetic, bits, text, casts and times."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.identity.expression.reader import Handler, Reader, has_only
from sqlstream_planner.identity.form import Form, form, sort_forms
from sqlstream_planner.sql.datatypes import exact_type, sql_type_of
from sqlstream_planner.sql.problems import TypeProblem

#: Operators of two operands; none of them may be exchanged.
_BINARY: Mapping[type[exp.Expr], str] = {
    exp.Sub: "-",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.DPipe: "||",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.Glob: "glob",
    exp.SimilarTo: "similar to",
    exp.RegexpLike: "~",
    exp.RegexpILike: "~*",
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
}
_UNARY: Mapping[type[exp.Expr], str] = {exp.Neg: "negative", exp.BitwiseNot: "~ bits"}
#: Operators whose two operands may be exchanged. More than two are not: sums of floating-point numbers depend
#: on their grouping.
_COMMUTATIVE: Mapping[type[exp.Expr], str] = {
    exp.Mul: "*",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "xor",
}
#: Calls that have an operator of their own in the grammar.
_OPERATOR_CALLS: Mapping[type[exp.Expr], str] = {
    exp.Pow: "power",
    exp.Abs: "abs",
    exp.StartsWith: "starts_with",
}
_TIMES = (
    exp.DType.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ,
    exp.DType.TIMESTAMPTZ,
    exp.DType.TIMESTAMPLTZ,
    exp.DType.DATETIME,
    exp.DType.TIME,
)


def _binary(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "expression"):
        return None
    return form(_BINARY[type(node)], reader.form(node.this), reader.form(node.expression))


def _unary(reader: Reader, node: exp.Expr) -> Form | None:
    return form(_UNARY[type(node)], reader.form(node.this)) if has_only(node, "this") else None


def _commutative(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "expression"):
        return None
    return Form(_COMMUTATIVE[type(node)], sort_forms((reader.form(node.this), reader.form(node.expression))))


def _operator_call(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "expression"):
        return None
    operands = (node.args[key] for key in ("this", "expression") if node.args.get(key) is not None)
    return form("call", _OPERATOR_CALLS[type(node)], *(reader.form(o) for o in operands))


def _add(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "expression"):
        return None
    operands = reader.form(node.this), reader.form(node.expression)
    if any(
        reader.is_no_array(o) and reader.type_of(o).kind is not Kind.VARCHAR
        for o in (node.expression, node.this)
    ):
        return Form("+", sort_forms(operands))  # (a string beside an array becomes one)
    return form("+ in order", *operands)  # arrays are concatenated


def _cast(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "to"):
        return None
    type_ = _type_form(node.args["to"])
    if type_ is None:
        return None
    return form("try cast" if type(node) is exp.TryCast else "cast", reader.form(node.this), type_)


def _extract(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "expression"):
        return None
    return form("extract", node.this.name.lower(), reader.form(node.expression))


def _at_time_zone(reader: Reader, node: exp.Expr) -> Form | None:
    if not has_only(node, "this", "zone"):
        return None
    return form("at time zone", reader.form(node.this), reader.form(node.args["zone"]))


def _type_form(type_: exp.Expr) -> Form | None:
    """The type as `SqlType` writes it, with digits of seconds where fewer than six are declared, and sizes of arrays."""
    try:
        known = sql_type_of(type_)
    except TypeProblem:
        return None
    digits = [
        part.expressions[0].name
        for part in type_.find_all(exp.DataType)
        if part.expressions and part.is_type(*_TIMES) and part.expressions[0].name != "6"
    ]
    exact = exact_type(type_)
    return form("type", str(known), *digits, *([exact] if exact != str(known) else []))


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_UNARY, _unary),
    **dict.fromkeys(_COMMUTATIVE, _commutative),
    **dict.fromkeys(_OPERATOR_CALLS, _operator_call),
    exp.Add: _add,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: _extract,
    exp.AtTimeZone: _at_time_zone,
}
