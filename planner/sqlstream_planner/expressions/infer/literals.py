"""Literals, whose values some functions need as well as their types."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_operators.plan.types import BLOB, BOOLEAN, INTERVAL, NULL, VARCHAR
from sqlstream_planner.expressions.casts import TypedExpr, literal_type
from sqlstream_planner.expressions.infer.inference import Handler, Inference


def _literal(inference: Inference, node: exp.Expr) -> TypedExpr:
    text = str(node.this)
    if node.args.get("is_string"):
        return TypedExpr(VARCHAR, False, text)
    return TypedExpr(literal_type(text), False, int(text) if text.isdecimal() else None)


def _null(inference: Inference, _: exp.Expr) -> TypedExpr:
    return TypedExpr(NULL)


def _boolean_literal(inference: Inference, _: exp.Expr) -> TypedExpr:
    return TypedExpr(BOOLEAN, False)


def _blob(inference: Inference, _: exp.Expr) -> TypedExpr:
    return TypedExpr(BLOB, False)


def _text(inference: Inference, _: exp.Expr) -> TypedExpr:
    return TypedExpr(VARCHAR, False)


def _interval(inference: Inference, node: exp.Expr) -> TypedExpr:
    return TypedExpr(INTERVAL, node.this is None or inference.type_of(node.this).nullable)


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.Literal: _literal,
    exp.Null: _null,
    exp.Boolean: _boolean_literal,
    exp.HexString: _blob,
    exp.ByteString: _text,
    exp.National: _text,
    exp.RawString: _text,
    exp.UnicodeString: _text,
    exp.Interval: _interval,
}
