"""Comparisons, boolean logic, and CASE, whose branches must have one type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import BOOLEAN, ROWS, Kind
from sqlstream_planner.expressions.casts import TypedExpr, can_cast, common_type, fails
from sqlstream_planner.expressions.functions.suggestions import sql_text
from sqlstream_planner.expressions.infer.inference import Handler, Inference
from sqlstream_planner.expressions.infer.resolution import joined, known_function, resolved
from sqlstream_planner.expressions.plain_values import instead_of
from sqlstream_planner.sql import problems
from sqlstream_planner.sql.problems import TypeProblem


def _comparison(inference: Inference, node: exp.Expr) -> TypedExpr:
    sides = [inference.type_of(node.this), inference.type_of(node.expression)]
    check_comparable(node, sides, [node.this, node.expression])
    null_safe = isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ)
    return TypedExpr(BOOLEAN, not null_safe and any(s.nullable for s in sides))


def check_comparable(node: exp.Expr, sides: Sequence[TypedExpr], nodes: Sequence[exp.Expr]) -> None:
    """Raise TypeProblem where values can't be compared; `nodes` are how they are written."""
    common = common_type(sides)
    if common is not None:
        for side, written in zip(sides, nodes, strict=True):
            if isinstance(side.literal, str) and fails(side.literal, common):
                raise TypeProblem(
                    written,
                    problems.INCOMPATIBLE_TYPES,
                    f"'{side.literal}' is no {common}, which it is compared with",
                    help=instead_of(common),
                )
        return
    first = sides[0]
    index = next(
        i for i in range(1, len(sides)) if common_type([first, sides[i]]) is None or i == len(sides) - 1
    )
    other = sides[index]
    help_ = None
    for value, written, target in ((first, nodes[0], other), (other, nodes[index], first)):
        if value.type.kind is Kind.VARCHAR and can_cast(value.type, target.type):
            help_ = f"CAST({sql_text(written)} AS {target.type}), or TRY_CAST to get NULL where it is none"
            break
        if target.type.kind is Kind.VARCHAR:
            help_ = f"CAST({sql_text(written)} AS VARCHAR)"
    if first.type.kind in ROWS and other.type.kind in ROWS:
        help_ = "CAST the values in one of them to the types of the other, such as (CAST(a AS DATE), b)"
        if len(first.type.fields) != len(other.type.fields):
            help_ = "compare as many values with each other"
    raise TypeProblem(
        node, problems.INCOMPATIBLE_TYPES, f"{first.type} can't be compared with {other.type}", help=help_
    )


def _is(inference: Inference, node: exp.Expr) -> TypedExpr:
    if isinstance(node.expression, exp.Null):
        inference.type_of(node.this)
    else:
        inference.condition(node.this, "IS TRUE")
    return TypedExpr(BOOLEAN, False)


def _connector(inference: Inference, node: exp.Expr) -> TypedExpr:
    word = type(node).__name__.upper()
    sides = [inference.condition(node.this, word), inference.condition(node.expression, word)]
    return TypedExpr(BOOLEAN, any(s.nullable for s in sides))


def _not(inference: Inference, node: exp.Expr) -> TypedExpr:
    return inference.condition(node.this, "NOT")


def _between(inference: Inference, node: exp.Expr) -> TypedExpr:
    nodes = [node.this, node.args["low"], node.args["high"]]
    types = [inference.type_of(n) for n in nodes]
    check_comparable(node, types, nodes)
    # A third operand may hide that the other two don't mix: JSON goes with BOOLEAN and with FLOAT.
    check_comparable(node, [types[0], types[2]], [nodes[0], nodes[2]])
    check_comparable(node, types[1:], nodes[1:])
    return TypedExpr(BOOLEAN, any(t.nullable for t in types))


def _in(inference: Inference, node: exp.Expr) -> TypedExpr:
    if node.args.get("query") is not None:
        inference.type_of(node.this)
        return TypedExpr(BOOLEAN)
    if node.args.get("unnest") is not None:
        raise TypeProblem(
            node,
            problems.UNSUPPORTED_EXPRESSION,
            "IN UNNEST(…) can't be run",
            help="write the list itself: x IN list",
        )
    field = node.args.get("field")
    if field is not None:  # x IN list is CONTAINS(list, x) to DuckDB, whatever the list is
        operands = [field, node.this]
        typed = [inference.type_of(operand) for operand in operands]
        return resolved(inference, node, known_function("contains"), typed, operands)
    nodes = [node.this, *node.expressions]
    types = [inference.type_of(n) for n in nodes]
    check_comparable(node, types, nodes)
    return TypedExpr(BOOLEAN, any(t.nullable for t in types))


def _exists(inference: Inference, _: exp.Expr) -> TypedExpr:
    return TypedExpr(BOOLEAN, False)


def _case(inference: Inference, node: exp.Expr) -> TypedExpr:
    results, nodes = [], []
    operand = inference.type_of(node.this) if node.this is not None else None
    for branch in node.args["ifs"]:
        if operand is None:
            inference.condition(branch.this, "WHEN")
        else:
            check_comparable(branch, [operand, inference.type_of(branch.this)], [node.this, branch.this])
        nodes.append(branch.args["true"])
    default = node.args.get("default")
    # ELSE first, as in DuckDB: two literals that meet first would no longer adapt to it.
    nodes = [default, *nodes] if default is not None else nodes
    results = [inference.type_of(n) for n in nodes]
    return one_of(node, results, default is None, "CASE")


def _if(inference: Inference, node: exp.Expr) -> TypedExpr:
    inference.condition(node.this, "IF")
    otherwise = node.args.get("false")
    nodes = [node.args["true"]] + ([otherwise] if otherwise is not None else [])
    return one_of(node, [inference.type_of(n) for n in nodes], otherwise is None, "IF")


def one_of(node: exp.Expr, results: list[TypedExpr], open_: bool, what: str) -> TypedExpr:
    """The value of one of several expressions, or of none if it is `open_`."""
    return TypedExpr(joined(node, results, what), open_ or any(r.nullable for r in results))


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.EQ: _comparison,
    exp.NEQ: _comparison,
    exp.LT: _comparison,
    exp.LTE: _comparison,
    exp.GT: _comparison,
    exp.GTE: _comparison,
    exp.NullSafeEQ: _comparison,
    exp.NullSafeNEQ: _comparison,
    exp.Is: _is,
    exp.And: _connector,
    exp.Or: _connector,
    exp.Not: _not,
    exp.Between: _between,
    exp.In: _in,
    exp.Exists: _exists,
    exp.Case: _case,
    exp.If: _if,
}
