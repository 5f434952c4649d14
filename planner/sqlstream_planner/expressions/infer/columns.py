"""Names: columns of the scope, parameters of lambdas, and fields of structs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import JSON, UNKNOWN, Kind
from sqlstream_planner.diagnostics import suggestion
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.expressions.infer.inference import Handler, Inference
from sqlstream_planner.sql import problems
from sqlstream_planner.sql.problems import TypeProblem


def _column(inference: Inference, node: exp.Expr) -> TypedExpr:
    assert isinstance(node, exp.Column)
    if isinstance(node.this, exp.Star):
        return _star(inference, node)
    parts = [part.name for part in node.parts]
    for length in range(len(parts), 0, -1):
        found = inference.scope.get(".".join(parts[:length]).lower())
        if found is not None:
            return _fields(node, TypedExpr(*found), parts[length:])
    if len(parts) > 1:
        for start in range(1, len(parts)):
            found = inference.scope.get(parts[start].lower())
            if found is not None:
                return _fields(node, TypedExpr(*found), parts[start + 1 :])
    raise TypeProblem(
        node,
        problems.UNKNOWN_COLUMN,
        f"unknown column `{'.'.join(parts)}`",
        ("known columns: " + ", ".join(sorted(inference.scope)),) if inference.scope else (),
        suggestion(parts[-1], inference.scope),
    )


def _star(_: Inference, node: exp.Expr) -> TypedExpr:
    raise TypeProblem(
        node,
        problems.WRONG_ARGUMENTS,
        f"`{node.sql()}` stands for several columns, and one value is wanted here",
        help="name the column",
    )


def _identifier(inference: Inference, node: exp.Expr) -> TypedExpr:
    for local in reversed(inference.lambdas):
        if node.name.lower() in local:
            return TypedExpr(local[node.name.lower()])
    found = inference.scope.get(node.name.lower())
    return TypedExpr(*found) if found is not None else TypedExpr(UNKNOWN)


def _dot(inference: Inference, node: exp.Expr) -> TypedExpr:
    if isinstance(node.expression, exp.Identifier):
        return field_type(node, inference.type_of(node.this), node.expression.name)
    return TypedExpr(UNKNOWN)


def _fields(node: exp.Expr, typed: TypedExpr, names: Sequence[str]) -> TypedExpr:
    for name in names:
        typed = field_type(node, typed, name)
    return typed


def field_type(node: exp.Expr, typed: TypedExpr, name: str) -> TypedExpr:
    """A field of a struct, an entry of a map, a member of JSON. Raises TypeProblem."""
    type_ = typed.type
    if type_.kind is Kind.UNKNOWN:
        return TypedExpr(UNKNOWN)
    if type_.kind is Kind.JSON:
        return TypedExpr(JSON)
    if type_.kind is Kind.MAP:
        assert type_.value is not None
        return TypedExpr(type_.value)
    if type_.kind is Kind.TUPLE:
        raise TypeProblem(
            node,
            problems.UNKNOWN_FIELD,
            f"the fields of {type_} have no names",
            help="write x[1] for the first of them, or CAST(x AS ROW<a INT, b STRING>).a",
        )
    if type_.kind is not Kind.STRUCT:
        raise TypeProblem(node, problems.UNKNOWN_FIELD, f"`{name}` is no field: {type_} has no fields")
    found = next((t for n, t in type_.fields if n.lower() == name.lower()), None)
    if found is None:
        names = [n for n, _ in type_.fields]
        raise TypeProblem(
            node,
            problems.UNKNOWN_FIELD,
            f"there is no field `{name}` in {type_}",
            ("its fields: " + ", ".join(names),),
            suggestion(name, names),
        )
    return TypedExpr(found, nullable=True)


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.Column: _column,
    exp.Star: _star,
    exp.Identifier: _identifier,
    exp.Dot: _dot,
}
