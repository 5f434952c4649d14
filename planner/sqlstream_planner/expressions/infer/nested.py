"""Lists, structs, maps and JSON: how they are written, and what their parts are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import (
    BIGINT,
    JSON,
    UNKNOWN,
    VARCHAR,
    Kind,
    SqlType,
    array,
    map_of,
    struct,
)
from sqlstream_planner.expressions import problems
from sqlstream_planner.expressions.casts import TypedExpr, common_type
from sqlstream_planner.expressions.infer.columns import field_type
from sqlstream_planner.expressions.infer.inference import Handler, Inference
from sqlstream_planner.expressions.infer.resolution import joined, known_function, resolved
from sqlstream_planner.expressions.infer.texts import never
from sqlstream_planner.expressions.problems import TypeProblem

STRUCT_CALLS = frozenset({"struct_pack", "struct_insert", "struct_update"})


def _array(inference: Inference, node: exp.Expr) -> TypedExpr:
    items = node.expressions
    if len(items) == 1 and isinstance(items[0], exp.Comprehension):
        return inference.type_of(items[0])
    types = [inference.type_of(item) for item in items]
    return TypedExpr(array(joined(node, types, "the list", keep_literals=True)), False)


def _struct(inference: Inference, node: exp.Expr) -> TypedExpr:
    fields = [(name, inference.type_of(value).type) for name, value in _named(node.expressions)]
    return TypedExpr(_struct_type(node, fields), False)


def _to_map(inference: Inference, node: exp.Expr) -> TypedExpr:
    pairs = node.this.expressions if isinstance(node.this, exp.Struct) else []
    keys = [_key(inference, p.this) for p in pairs]
    values = [inference.type_of(p.expression) for p in pairs]
    return TypedExpr(map_of(joined(node, keys, "the keys"), joined(node, values, "the values")), False)


def _key(inference: Inference, node: exp.Expr) -> TypedExpr:
    return inference.type_of(exp.column(node.copy()) if isinstance(node, exp.Identifier) else node)


def _bracket(inference: Inference, node: exp.Expr) -> TypedExpr:
    typed = inference.type_of(node.this)
    (index,) = node.expressions[:1] or [None]
    if isinstance(index, exp.Slice):
        for bound in (index.this, index.expression, index.args.get("step")):
            if bound is not None:
                inference.type_of(bound)
        if index.args.get("step") is not None and typed.type.kind in (Kind.VARCHAR, Kind.BLOB, Kind.JSON):
            raise TypeProblem(
                node, problems.WRONG_ARGUMENTS, f"only lists can be sliced with a step, this is {typed.type}"
            )
        if typed.type.kind is Kind.JSON:
            return TypedExpr(VARCHAR)
        if typed.type.kind in (Kind.ARRAY, Kind.VARCHAR, Kind.BLOB, Kind.UNKNOWN, Kind.NULL):
            return TypedExpr(typed.type)
        raise TypeProblem(node, problems.WRONG_ARGUMENTS, f"{typed.type} can't be sliced")
    at = inference.type_of(index) if index is not None else TypedExpr(UNKNOWN)
    if typed.type.kind is Kind.JSON:
        return TypedExpr(JSON)
    if typed.type.kind is Kind.MAP:
        assert typed.type.key is not None
        assert typed.type.value is not None
        if common_type([typed.type.key, at]) is None:
            raise TypeProblem(
                node,
                problems.INCOMPATIBLE_TYPES,
                f"the keys are {typed.type.key}, {at.type} can't be looked up among them",
            )
        return TypedExpr(typed.type.value)
    if typed.type.kind is Kind.STRUCT:
        if isinstance(at.literal, str):
            return field_type(node, typed, at.literal)
        raise TypeProblem(node, problems.UNKNOWN_FIELD, "a field of a struct is chosen by a literal name")
    if typed.type.kind is Kind.TUPLE:
        if isinstance(at.literal, int) and 1 <= at.literal <= len(typed.type.fields):
            return TypedExpr(typed.type.fields[at.literal - 1][1])
        count = len(typed.type.fields)
        message = f"a field of {typed.type} is chosen by a literal number, 1 to {count}"
        raise TypeProblem(node, problems.UNKNOWN_FIELD, message)
    if isinstance(at.literal, str) and typed.type.kind is Kind.ARRAY and never(at.literal, BIGINT):
        raise TypeProblem(
            node,
            problems.WRONG_ARGUMENTS,
            f"'{at.literal}' is no position in {typed.type}",
            help="positions count from 1",
        )
    return TypedExpr(
        resolved(
            inference,
            node,
            known_function("array_extract"),
            [typed, at],
            [node.this, index if index is not None else node],
        ).type
    )


def _json_extract(inference: Inference, node: exp.Expr) -> TypedExpr:
    inference.type_of(node.this)
    return TypedExpr(VARCHAR if isinstance(node, exp.JSONExtractScalar) else JSON)


def struct_call(inference: Inference, node: exp.Expr, name: str, arguments: Sequence[exp.Expr]) -> TypedExpr:
    """One of STRUCT_CALLS. Raises TypeProblem."""
    if name == "struct_pack":
        for argument in arguments:
            if not isinstance(argument, exp.PropertyEQ | exp.Alias | exp.Column):
                raise TypeProblem(
                    argument,
                    problems.WRONG_ARGUMENTS,
                    "a field of struct_pack needs a name: struct_pack(a := …)",
                )
        fields = [(n, inference.type_of(v).type) for n, v in _named(arguments)]
        return TypedExpr(_struct_type(node, fields), False)
    if not arguments:
        raise TypeProblem(node, problems.WRONG_ARGUMENTS, f"`{name}` does not take 0 arguments")
    base = inference.type_of(arguments[0])
    if base.type.kind not in (Kind.STRUCT, Kind.UNKNOWN):
        raise TypeProblem(node, problems.WRONG_ARGUMENTS, f"{base.type} is no struct")
    for argument in arguments[1:]:
        if not isinstance(argument, exp.PropertyEQ | exp.Alias | exp.Kwarg):
            raise TypeProblem(
                argument, problems.WRONG_ARGUMENTS, f"a field of {name} needs a name: {name}(s, a := …)"
            )
    given = [(n, inference.type_of(v).type) for n, v in _named(arguments[1:])]
    if base.type.kind is not Kind.STRUCT:
        return TypedExpr(UNKNOWN)
    if name == "struct_insert":
        return TypedExpr(_struct_type(node, [*base.type.fields, *given]), base.nullable)
    _unique(node, given)
    updated = dict(base.type.fields)
    for field_name, type_ in given:
        updated[next((n for n in updated if n.lower() == field_name.lower()), field_name)] = type_
    return TypedExpr(_struct_type(node, list(updated.items())), base.nullable)


def _named(expressions: Sequence[exp.Expr]) -> list[tuple[str, exp.Expr]]:
    named = []
    for index, item in enumerate(expressions):
        if isinstance(item, exp.PropertyEQ | exp.Kwarg | exp.EQ):
            named.append((item.this.name, item.expression))
        elif isinstance(item, exp.Alias):
            named.append((item.alias, item.this))
        elif isinstance(item, exp.Column):
            named.append((item.name, item))
        else:
            named.append((f"v{index + 1}", item))
    return named


def _struct_type(node: exp.Expr, fields: list[tuple[str, SqlType]]) -> SqlType:
    _unique(node, fields)
    return struct(*fields) if fields else UNKNOWN


def _unique(node: exp.Expr, fields: Sequence[tuple[str, SqlType]]) -> None:
    lowered: set[str] = set()
    for name, _ in fields:
        if name.lower() in lowered:
            message = f"the field `{name}` stands twice in one struct"
            raise TypeProblem(node, problems.WRONG_ARGUMENTS, message, help="give it another name")
        lowered.add(name.lower())


HANDLERS: Mapping[type[exp.Expr], Handler] = {
    exp.Array: _array,
    exp.Struct: _struct,
    exp.ToMap: _to_map,
    exp.Bracket: _bracket,
    exp.JSONExtract: _json_extract,
    exp.JSONExtractScalar: _json_extract,
}
