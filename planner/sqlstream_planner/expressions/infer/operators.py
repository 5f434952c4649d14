"""Operators, and the syntax that stands for a function: casts, EXTRACT, AT TIME ZONE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import VARCHAR, Kind, tuple_of
from sqlstream_planner.expressions.casts import TypedExpr, can_cast, literal_type
from sqlstream_planner.expressions.functions.nullability import INFINITE_TIMES
from sqlstream_planner.expressions.functions.suggestions import cast_help
from sqlstream_planner.expressions.infer.inference import Handler, Inference
from sqlstream_planner.expressions.infer.resolution import known_function, resolved
from sqlstream_planner.sql import problems
from sqlstream_planner.sql.datatypes import sql_type_of
from sqlstream_planner.sql.problems import TypeProblem

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.Pow: "**",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "xor",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.Like: "~~",
    exp.ILike: "~~*",
    exp.Glob: "~~~",
    exp.SimilarTo: "regexp_full_match",
    exp.RegexpLike: "regexp_matches",
    exp.RegexpILike: "regexp_matches",
    exp.ArrayContainsAll: "@>",
    exp.ArrayContainedBy: "<@",
    exp.ArrayOverlaps: "&&",
}
_UNARY: dict[type[exp.Expr], str] = {exp.BitwiseNot: "~", exp.Abs: "abs"}


def _binary(inference: Inference, node: exp.Expr) -> TypedExpr:
    return operator(inference, node, _BINARY[type(node)], [node.this, node.expression])


def _unary(inference: Inference, node: exp.Expr) -> TypedExpr:
    return operator(inference, node, _UNARY[type(node)], [node.this])


def operator(inference: Inference, node: exp.Expr, name: str, operands: Sequence[exp.Expr]) -> TypedExpr:
    """The type of an operator, which is a function by the name `name`."""
    typed = [inference.type_of(operand) for operand in operands]
    return resolved(inference, node, known_function(name), typed, operands)


def _negative(inference: Inference, node: exp.Expr) -> TypedExpr:
    typed = inference.type_of(node.this)
    if isinstance(typed.literal, int):
        return TypedExpr(literal_type(str(-typed.literal)), False, -typed.literal)
    return resolved(inference, node, known_function("-"), [typed], [node.this])


def _cast(inference: Inference, node: exp.Expr) -> TypedExpr:
    from_ = inference.type_of(node.this)
    to = sql_type_of(node.args["to"])
    if node.args.get("default") is not None:
        raise TypeProblem(
            node,
            problems.UNSUPPORTED_EXPRESSION,
            "a cast with DEFAULT … ON CONVERSION ERROR can't be run",
            help=f"write COALESCE(TRY_CAST(x AS {to}), a_default); NULL becomes the default then, too",
        )
    if node.args.get("format") is not None:
        raise TypeProblem(
            node,
            problems.UNSUPPORTED_EXPRESSION,
            "a cast with FORMAT can't be run",
            help="write STRPTIME(x, '%Y-%m-%d') to read a time, STRFTIME to write one",
        )
    if to.kind is Kind.NULL:
        raise TypeProblem(node, problems.UNKNOWN_TYPE, "NULL is no type that a value can be cast to")
    if to.kind is Kind.BLOB and node.args["to"].expressions:
        raise TypeProblem(
            node, problems.UNKNOWN_TYPE, "a cast can't cut bytes to a size", help="write CAST(… AS BYTES)"
        )
    if not can_cast(from_.type, to):
        raise TypeProblem(
            node,
            problems.BAD_CAST,
            f"{from_.type} can't be cast to {to}",
            help=cast_help(from_.type, to, node.this),
        )
    return TypedExpr(to, from_.nullable or isinstance(node, exp.TryCast))


def _extract(inference: Inference, node: exp.Expr) -> TypedExpr:
    typed = inference.type_of(node.expression)
    part = TypedExpr(VARCHAR, False, node.this.name.lower())
    found = resolved(
        inference, node, known_function("date_part"), [part, typed], [node.this, node.expression]
    )
    return TypedExpr(found.type, typed.nullable or typed.type.kind in INFINITE_TIMES)


def _at_time_zone(inference: Inference, node: exp.Expr) -> TypedExpr:
    operands = [node.args["zone"], node.this]
    return resolved(
        inference, node, known_function("timezone"), [inference.type_of(o) for o in operands], operands
    )


def _paren(inference: Inference, node: exp.Expr) -> TypedExpr:
    return inference.type_of(node.this)


def _escape(inference: Inference, node: exp.Expr) -> TypedExpr:
    character, pattern = node.expression, node.this
    if not isinstance(pattern, exp.Like | exp.ILike) or isinstance(pattern.expression, exp.Any | exp.All):
        raise TypeProblem(
            node,
            problems.UNSUPPORTED_EXPRESSION,
            "ESCAPE follows LIKE, ILIKE and SIMILAR TO of one pattern",
            help="write x LIKE 'a' ESCAPE '#' OR x LIKE 'b' ESCAPE '#'",
        )
    if isinstance(character, exp.Literal) and len(character.name) > 1:
        raise TypeProblem(
            character, problems.WRONG_ARGUMENTS, f"ESCAPE takes one character, not '{character.name}'"
        )
    return inference.type_of(node.this)


def _tuple(inference: Inference, node: exp.Expr) -> TypedExpr:
    types = [inference.type_of(item).type for item in node.expressions]
    if not types:
        raise TypeProblem(
            node,
            problems.UNSUPPORTED_EXPRESSION,
            "a row without values is no value of a column",
            help="leave it out",
        )
    return TypedExpr(tuple_of(*types), False)


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(_UNARY, _unary),
    exp.Neg: _negative,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Extract: _extract,
    exp.AtTimeZone: _at_time_zone,
    exp.Paren: _paren,
    exp.Alias: _paren,
    exp.Collate: _paren,
    exp.Escape: _escape,
    exp.Tuple: _tuple,
}
