"""Lists, structs, maps and JSON: how they are written, and what their parts are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import (
    UNKNOWN,
    Kind,
    SqlType,
    array,
    map_of,
    struct,
)
from sqlstream_planner.expressions.casts import TypedExpr
from sqlstream_planner.expressions.infer.columns import field_type
from sqlstream_planner.expressions.infer.inference import Handler, Inference
from sqlstream_planner.expressions.infer.resolution import joined, known_function, resolved
from sqlstream_planner.sql import problems
from sqlstream_planner.sql.problems import TypeProblem

STRUCT_CALLS = frozenset({"struct_pack", "struct_insert", "struct_update"})


def _array(inference: Inference, node: exp.Expr) -> TypedExpr:
    items = node.expressions
    if len(items) == 1 and isinstance(items[0], exp.Comprehension):
        return inference.type_of(items[0])
    types = [inference.type_of(item) for item in items]
    return TypedExpr(array(joined(node, types, "the list", as_list=True)), False)


def _struct(inference: Inference, node: exp.Expr) -> TypedExpr:
    fields = [(name, inference.type_of(value).type) for name, value in _named(node.expressions)]
    return TypedExpr(_struct_type(node, fields), False)


def _to_map(inference: Inference, node: exp.Expr) -> TypedExpr:
    pairs = node.this.expressions if isinstance(node.this, exp.Struct) else []
    keys = [_key(inference, p.this) for p in pairs]
    values = [inference.type_of(p.expression) for p in pairs]
    key = joined(node, keys, "the keys", as_list=True)
    return TypedExpr(map_of(key, joined(node, values, "the values", as_list=True)), False)


def _key(inference: Inference, node: exp.Expr) -> TypedExpr:
    return inference.type_of(exp.column(node.copy()) if isinstance(node, exp.Identifier) else node)


def _bracket(inference: Inference, node: exp.Expr) -> TypedExpr:
    typed = inference.type_of(node.this)
    (index,) = node.expressions[:1] or [None]
    if isinstance(index, exp.Slice):
        return _slice(inference, node, typed, index)
    if index is None:
        return TypedExpr(UNKNOWN)
    at = inference.type_of(index)
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
    function = known_function(_ELEMENT.get(typed.type.kind, "array_extract"))
    return TypedExpr(resolved(inference, node, function, [typed, at], [node.this, index]).type)


#: What brackets around one position are, for what is no list.
_ELEMENT = {Kind.JSON: "json_extract", Kind.MAP: "map_extract_value"}


def _slice(inference: Inference, node: exp.Expr, typed: TypedExpr, bounds: exp.Slice) -> TypedExpr:
    first = exp.Literal.number(1)
    nodes = [node.this, bounds.this or first, bounds.expression or first]
    if bounds.args.get("step") is not None:
        nodes.append(bounds.args["step"])
    types = [typed, *(inference.type_of(n) for n in nodes[1:])]
    return TypedExpr(resolved(inference, node, known_function("array_slice"), types, nodes).type)


def _json_extract(inference: Inference, node: exp.Expr) -> TypedExpr:
    name = "json_extract_string" if isinstance(node, exp.JSONExtractScalar) else "json_extract"
    nodes = [node.this, node.expression]
    return TypedExpr(
        resolved(inference, node, known_function(name), [inference.type_of(n) for n in nodes], nodes).type
    )


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
    given = _named(arguments[1:])
    _unique(node, [n for n, _ in given])
    typed = [base, *(inference.type_of(v) for _, v in given)]
    nodes, names = [arguments[0], *(v for _, v in given)], [None, *(n for n, _ in given)]
    found = resolved(inference, node, known_function(name), typed, nodes, names)
    return TypedExpr(found.type, base.nullable)


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
    _unique(node, [name for name, _ in fields])
    return struct(*fields) if fields else UNKNOWN


def _unique(node: exp.Expr, names: Sequence[str]) -> None:
    lowered: set[str] = set()
    for name in names:
        if name.lower() in lowered:
            message = f"the field `{name}` is twice in one struct"
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
