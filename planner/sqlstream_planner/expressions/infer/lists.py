"""Calls that go over the elements of a list: with a lambda, as a comprehension, or with an aggregate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import BIGINT, NULL, UNKNOWN, Kind, array
from sqlstream_planner.expressions import problems
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.catalogue import Function, FunctionKind
from sqlstream_planner.expressions.functions.generics import element_of
from sqlstream_planner.expressions.functions.resolve import Argument, LambdaArgument, Unresolved, resolve
from sqlstream_planner.expressions.infer.inference import Handler, Inference
from sqlstream_planner.expressions.infer.resolution import (
    known_function,
    no_match,
    resolved,
    unknown_function,
)
from sqlstream_planner.expressions.problems import TypeProblem


def _comprehension(inference: Inference, node: exp.Expr) -> TypedExpr:
    source = inference.type_of(node.args["iterator"])
    names = [node.expression.name] + ([node.args["position"].name] if node.args.get("position") else [])
    with inference.local(dict(zip(names, [element_of(source.type), BIGINT], strict=False))):
        if node.args.get("condition") is not None:
            inference.condition(node.args["condition"], "a condition")
        return TypedExpr(array(inference.type_of(node.this).type), source.nullable)


def list_aggregate(
    inference: Inference, node: exp.Expr, name: str, arguments: Sequence[exp.Expr]
) -> TypedExpr:
    """An aggregate over the elements of a list: `list_sum`, `list_aggregate(…, 'sum')`. Raises TypeProblem."""
    typed = [inference.type_of(a) for a in arguments]
    if not typed or typed[0].type.kind not in (Kind.ARRAY, Kind.NULL, Kind.UNKNOWN):
        raise no_match(node, known_function(name), typed, arguments)
    extra = 1
    folded: int | str | None = name.removeprefix("list_")
    if folded in ("aggregate", "aggr") or name.removeprefix("array_") in ("aggregate", "aggr"):
        folded, extra = (typed[1].literal if len(typed) > 1 else None), 2
    if not isinstance(folded, str) and typed[0].type.kind is Kind.ARRAY:
        raise TypeProblem(
            node,
            problems.WRONG_ARGUMENTS,
            f"the name of the aggregate function in `{name}` must be a literal",
            help=f"write {name}(l, 'sum')",
        )
    if not isinstance(folded, str) or typed[0].type.kind is not Kind.ARRAY:
        return TypedExpr(UNKNOWN)
    function = catalogue.lookup(folded)
    if function is None or function.kind is not FunctionKind.AGGREGATE:
        raise unknown_function(node, folded)
    element = TypedExpr(element_of(typed[0].type))
    return TypedExpr(
        resolved(node, function, [element, *typed[extra:]], [arguments[0], *arguments[extra:]]).type
    )


def lambda_call(
    inference: Inference, node: exp.Expr, function: Function, arguments: Sequence[exp.Expr]
) -> TypedExpr:
    """A function that is given a lambda. Raises TypeProblem."""
    typed: list[Argument] = [
        LambdaArgument(tuple(p.name for p in a.expressions))
        if isinstance(a, exp.Lambda)
        else inference.type_of(a)
        for a in arguments
    ]
    if isinstance(resolve(function, typed), Unresolved):
        shown = [a for a in typed if isinstance(a, TypedExpr)]
        raise no_match(node, function, shown, arguments)
    source = typed[0]
    assert isinstance(source, TypedExpr)
    _check_lambda(function, arguments)
    element = element_of(source.type)
    body = next(a for a in arguments if isinstance(a, exp.Lambda))
    kinds = [element, BIGINT]
    if function.name.endswith("reduce"):
        start = typed[2] if len(typed) > 2 else TypedExpr(element)
        assert isinstance(start, TypedExpr)
        kinds = [start.type, element, BIGINT]
    with inference.local(dict(zip((p.name for p in body.expressions), kinds, strict=False))):
        if function.name.endswith("filter"):
            inference.condition(body.this, "the filter")
            return TypedExpr(source.type, source.nullable)
        result = inference.type_of(body.this)
    if source.type.kind is Kind.NULL:
        return TypedExpr(NULL)
    if function.name.endswith("reduce"):
        return TypedExpr(result.type)
    return TypedExpr(array(result.type), source.nullable)


def _check_lambda(function: Function, arguments: Sequence[exp.Expr]) -> None:
    least, most = (2, 3) if function.name.endswith("reduce") else (1, 2)
    for argument in arguments:
        if isinstance(argument, exp.Lambda) and not least <= len(argument.expressions) <= most:
            raise TypeProblem(
                argument,
                problems.WRONG_ARGUMENTS,
                f"the lambda of `{function.name}` has {least} or {most} parameters",
            )


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.Comprehension: _comprehension,
}
