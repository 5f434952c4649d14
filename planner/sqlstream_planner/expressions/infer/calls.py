"""Function calls: scalar ones, and aggregates and window functions where they may stand."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from sqlstream_operators.plan.types import UNKNOWN
from sqlstream_planner.aggregates import registry as aggregates
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.functions.catalogue import Function, FunctionKind
from sqlstream_planner.expressions.functions.nullability import COUNTS
from sqlstream_planner.expressions.functions.suggestions import sql_text
from sqlstream_planner.expressions.infer.conditions import check_comparable, one_of
from sqlstream_planner.expressions.infer.inference import Handler, Inference
from sqlstream_planner.expressions.infer.lists import lambda_call
from sqlstream_planner.expressions.infer.nested import STRUCT_CALLS, struct_call
from sqlstream_planner.expressions.infer.operators import operator
from sqlstream_planner.expressions.infer.resolution import resolved, unknown_function
from sqlstream_planner.sql import problems
from sqlstream_planner.sql.problems import TypeProblem
from sqlstream_planner.sql.written_calls import WrittenCall, written_call


def call_type(inference: Inference, node: exp.Expr, call: WrittenCall) -> TypedExpr:
    """The type of a function call. Raises TypeProblem."""
    name = call.name
    if not catalogue.is_aggregate(name):
        _check_plain(node, call)
    else:
        _check_unnamed(node, call)
    if name in ("if", "iff") and len(call.arguments) == 3:
        inference.condition(call.arguments[0], "IF")
        return one_of(node, [inference.type_of(a) for a in call.arguments[1:]], False, "IF")
    if name == "nullif" and len(call.arguments) == 2:
        sides = [inference.type_of(a) for a in call.arguments]
        check_comparable(node, sides, call.arguments)
        return TypedExpr(sides[0].type)
    if name == "date_add" and len(call.arguments) == 2:
        return operator(inference, node, "+", call.arguments)
    if name in STRUCT_CALLS:
        return struct_call(inference, node, name, call.arguments)
    function = catalogue.lookup(name)
    if function is None:
        raise unknown_function(node, name)
    _check_place(inference, node, function)
    if function.kind is FunctionKind.AGGREGATE:
        return _aggregate(inference, node, function, call)
    if any(isinstance(a, exp.Lambda) for a in call.arguments):
        return lambda_call(inference, node, function, call.arguments)
    return resolved(inference, node, function, [inference.type_of(a) for a in call.arguments], call.arguments)


def _check_plain(node: exp.Expr, call: WrittenCall) -> None:
    """Refuse what only an aggregate can have."""
    for what, there in (("DISTINCT", call.distinct), ("ORDER BY", call.order is not None)):
        if there:
            raise TypeProblem(
                node, problems.WRONG_ARGUMENTS, f"`{call.name}` is no aggregate function and takes no {what}"
            )
    if call.name not in STRUCT_CALLS:
        _check_unnamed(node, call)


def _check_unnamed(node: exp.Expr, call: WrittenCall) -> None:
    if call.name == "union_value":
        raise TypeProblem(
            node,
            problems.UNTRANSLATABLE,
            "UNION: a column has one type",
            help="write a struct with a field for each: {'number': x, 'text': NULL}",
        )
    for argument in call.arguments:
        if isinstance(argument, exp.PropertyEQ | exp.Kwarg | exp.Alias):
            raise TypeProblem(
                argument,
                problems.WRONG_ARGUMENTS,
                f"the arguments of `{call.name}` are given by their order, without names",
                help=f"write {call.name}(…, …) with the values one after the other",
            )


def _named_value(inference: Inference, node: exp.Expr) -> TypedExpr:
    raise TypeProblem(node, problems.WRONG_ARGUMENTS, "a value can't be given a name here")


def _check_place(inference: Inference, node: exp.Expr, function: Function) -> None:
    if function.kind is FunctionKind.AGGREGATE and not inference.aggregates:
        inference.report(
            TypeProblem(
                node,
                problems.MISPLACED_AGGREGATE,
                f"the aggregate function `{function.name}` is not allowed here",
                help="filter on aggregates with HAVING, or compute it in a subquery first",
            )
        )
    if function.kind is FunctionKind.WINDOW:
        raise TypeProblem(
            node,
            problems.MISPLACED_AGGREGATE,
            f"`{function.name}` needs an OVER clause",
            help=f"{function.name}(…) OVER (PARTITION BY … ORDER BY …)",
        )


def _aggregate(inference: Inference, node: exp.Expr, function: Function, call: WrittenCall) -> TypedExpr:
    arguments = [a for a in call.arguments if not isinstance(a, exp.Star)]
    with inference.places(aggregates=False, windows=False):
        typed = [inference.type_of(a) for a in arguments]
        for ordered in call.order.expressions if call.order is not None else ():
            inference.type_of(ordered.this)
    result = resolved(inference, node, function, typed, arguments)
    return TypedExpr(result.type, function.name not in COUNTS)


def _filter(inference: Inference, node: exp.Expr) -> TypedExpr:
    result = inference.type_of(node.this)
    with inference.places(aggregates=False, windows=False):
        inference.condition(node.expression.this, "FILTER (WHERE …)")
    return result


def _within_group(inference: Inference, node: exp.Expr) -> TypedExpr:
    call = written_call(node.this)
    if call is None:
        return TypedExpr(UNKNOWN)
    ordered = [o.this for o in node.expression.expressions]
    function = aggregates.before_within_group(call.name) or aggregates.find(call.name)
    if function is None or function.within_group is None:
        return call_type(inference, node, WrittenCall(call.name, call.arguments))
    return call_type(inference, node, WrittenCall(function.name, (*ordered, *call.arguments)))


def _window(inference: Inference, node: exp.Expr) -> TypedExpr:
    if not inference.windows:
        raise TypeProblem(
            node,
            problems.MISPLACED_AGGREGATE,
            "OVER is not allowed here",
            help="compute it in a subquery first, or filter on it with QUALIFY",
        )
    inner = node.this
    while isinstance(inner, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        inner = inner.this
    call = written_call(inner)
    function = catalogue.lookup(call.name) if call is not None else None
    if call is None or function is None:
        raise unknown_function(node, call.name if call is not None else sql_text(inner))
    if function.kind not in (FunctionKind.AGGREGATE, FunctionKind.WINDOW):
        raise TypeProblem(node, problems.MISPLACED_AGGREGATE, f"`{call.name}` can't be used with OVER")
    with inference.places(aggregates=inference.aggregates, windows=False):
        arguments = [a for a in call.arguments if not isinstance(a, exp.Star)]
        typed = [inference.type_of(a) for a in arguments]
        for part in node.args.get("partition_by") or ():
            inference.type_of(part)
        for ordered in node.args["order"].expressions if node.args.get("order") is not None else ():
            inference.type_of(ordered.this)
    result = resolved(inference, node, function, typed, arguments)
    return TypedExpr(result.type, call.name not in COUNTS)


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.PropertyEQ: _named_value,
    exp.Kwarg: _named_value,
    exp.Filter: _filter,
    exp.WithinGroup: _within_group,
    exp.Window: _window,
}
