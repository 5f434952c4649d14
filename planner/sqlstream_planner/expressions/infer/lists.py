"""Calls that go over the elements of a list: with a lambda, or as a comprehension."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, NULL, UNKNOWN, Kind, SqlType, array
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.expressions.functions.catalogue import Function
from sqlstream_planner.expressions.infer.inference import Handler, Inference
from sqlstream_planner.expressions.infer.resolution import resolved


def _comprehension(inference: Inference, node: exp.Expr) -> TypedExpr:
    source = inference.type_of(node.args["iterator"])
    names = [node.expression.name] + ([node.args["position"].name] if node.args.get("position") else [])
    with inference.local(dict(zip(names, [element_of(source.type), BIGINT], strict=False))):
        if node.args.get("condition") is not None:
            inference.condition(node.args["condition"], "a condition")
        return TypedExpr(array(inference.type_of(node.this).type), source.nullable)


def lambda_call(
    inference: Inference, node: exp.Expr, function: Function, arguments: Sequence[exp.Expr]
) -> TypedExpr:
    """A function that is given a lambda. Raises TypeProblem."""
    typed = [TypedExpr(UNKNOWN) if isinstance(a, exp.Lambda) else inference.type_of(a) for a in arguments]
    source = typed[0]
    if source.type.kind is Kind.ARRAY:
        _check_bodies(inference, function, typed, arguments)
    found = resolved(inference, node, function, typed, arguments)
    return TypedExpr(found.type, source.nullable or function.name.endswith("reduce"))


def _check_bodies(
    inference: Inference, function: Function, typed: Sequence[TypedExpr], arguments: Sequence[exp.Expr]
) -> None:
    """Raise TypeProblem at its place for what is wrong inside a lambda, before the call is resolved as a whole."""
    element = element_of(typed[0].type)
    kinds = [element, BIGINT]
    if function.name.endswith("reduce"):
        kinds = [typed[2].type if len(typed) > 2 else element, element, BIGINT]
    for body in arguments:
        if isinstance(body, exp.Lambda) and len(body.expressions) <= len(kinds):
            with inference.local(dict(zip((p.name for p in body.expressions), kinds, strict=False))):
                if function.name.endswith("filter"):
                    inference.condition(body.this, "the filter")
                else:
                    inference.type_of(body.this)


def element_of(type_: SqlType) -> SqlType:
    """The element type of an array, NULL of NULL, else UNKNOWN."""
    if type_.kind is Kind.ARRAY and type_.element is not None:
        return type_.element
    return NULL if type_.kind is Kind.NULL else UNKNOWN


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.Comprehension: _comprehension,
}
