"""UNION, INTERSECT and EXCEPT of queries: which columns both have, of which types."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from sqlstream_operators.plan.types import SqlType
from sqlstream_planner.bind.clauses import QUERY_CLAUSES, refuse_clauses
from sqlstream_planner.bind.context import BindContext
from sqlstream_planner.bind.references import reference
from sqlstream_planner.bind.sets import by_names, distinct, set_operation
from sqlstream_planner.expressions.casts import set_operation_type
from sqlstream_planner.logical import Aggregate, EventTime, Field, Node, SetOperation, SetOperator, union_all

#: From how many queries on a chain of UNION ALL is bound at once: pair by pair takes a time that is quadratic.
_CHAIN = 32


def bind_set_operation(
    context: BindContext, query: exp.SetOperation, bind: Callable[[exp.Expr], Node]
) -> Node:
    """UNION, INTERSECT or EXCEPT [ALL] of two queries. Raises DiagnosticError."""
    refuse_clauses(context, query, QUERY_CLAUSES)
    kind = type(query).__name__.upper()
    by_name = bool(query.args.get("by_name"))
    words = [str(query.args[key]).upper() for key in ("side", "kind") if query.args.get(key)]
    if words or query.args.get("on"):
        # CORRESPONDING, in whose meaning columns of one side alone are left out, is INNER … BY NAME to the parser.
        corresponding = " (CORRESPONDING)" if {"INNER", "STRICT"} & set(words) else ""
        behind = " BY NAME" if words else " BY NAME ON (…)"
        context.unsupported(
            query,
            " ".join([*words, kind]) + (behind if by_name else "") + corresponding,
            help=f"list the columns on both sides: SELECT a, b FROM t {kind} ALL SELECT a, b FROM u",
        )
    if by_name and not isinstance(query, exp.Union):
        context.unsupported(query, f"{kind} BY NAME", help="list the columns in the same order")
    chain = _long_union_all(query)
    if chain:
        return union_of(context, query, tuple(bind(each) for each in chain), chained=True)
    left, right = bind(query.left), bind(query.right)
    if by_name:
        left, right = by_names(context, query, left, right)
    all_ = not query.args.get("distinct")
    if isinstance(query, exp.Union):
        return _union(context, query, left, right, all_=all_)
    # Branches of a UNION ALL inside are one operand here.
    operands = tuple(reference(context, side) if _is_union_all(side) else side for side in (left, right))
    operator = SetOperator(kind)
    return set_operation(context, union_of(context, query, operands), operator, all_=all_)


def _union(context: BindContext, query: exp.SetOperation, left: Node, right: Node, *, all_: bool) -> Node:
    """UNION [ALL] of two queries. DuckDB makes one of alike ones in a row: a value is cast once, to the type of all."""
    inner = query.left.unnest()
    alike = isinstance(inner, exp.Union) and all(
        bool(inner.args.get(key)) == bool(query.args.get(key)) for key in ("distinct", "by_name")
    )
    union = union_of(context, query, (left, right), chained=alike and all_)
    if all_:
        return union
    if alike and isinstance(left, Aggregate) and _is_union_all(left.input):
        for position, (f, inside) in enumerate(zip(union.fields, left.fields, strict=True)):
            mixed = any(b.fields[position].type != inside.type for b in left.input.inputs)
            if mixed and f.type != inside.type and not f.type.is_numeric:
                context.fail(
                    query,
                    "SQL031",
                    f"column `{f.name}` of these queries with UNION is of more than two types",
                    help=f"cast each, such as CAST({f.name} AS {f.type})",
                )
    return distinct(context, union)


def union_of(
    context: BindContext, node: exp.Expr, parts: tuple[Node, ...], *, chained: bool = False
) -> SetOperation:
    """UNION ALL of bound queries; `node` is where a mismatch is reported.

    The branches of a part that is one become branches of this one: of the first part if it is `chained` to the others,
    else where no value is cast.
    """
    branches = list[Node]()
    for number, part in enumerate(parts):
        if not _is_union_all(part):
            branches.append(part)
        elif (chained and not number) or _of_its_types(part):
            branches += part.inputs
        else:
            branches.append(reference(context, part))
    first = branches[0]
    for branch in branches[1:]:
        if len(branch.fields) != len(first.fields):
            context.fail(
                node,
                "SQL030",
                f"{_combines(node)} of {len(first.fields)} and {len(branch.fields)} columns",
                notes=(
                    f"the first query gives {', '.join(f.name for f in first.fields)}",
                    f"another gives {', '.join(f.name for f in branch.fields)}",
                ),
                help="both queries must give the same columns in the same order",
            )
    fields = []
    for position, f in enumerate(first.fields):
        same = [b.fields[position] for b in branches]
        type_ = _common_type(context, node, [s.type for s in same], f.name)
        fields.append(
            Field(
                context.new_id(f.name),
                f.name,
                type_,
                any(s.nullable for s in same),
                _common_time([s.time for s in same]) if type_.is_timestamp else None,
                f.window if all(s.window == f.window for s in same) else None,
            )
        )
        for times in (context.process_times, context.unread_times):
            if all(s.id in times for s in same):
                times.add(fields[-1].id)
    return union_all(branches, tuple(fields))


def _common_type(context: BindContext, node: exp.Expr, types: list[SqlType], name: str) -> SqlType:
    context.refuse_mixed_instants(node, types)
    type_ = set_operation_type(types)
    if type_ is None:
        shown = " and ".join(dict.fromkeys(str(t) for t in types))
        context.fail(
            node,
            "SQL031",
            f"column `{name}` of this {_combines(node)} is {shown}",
            help=f"cast one side, such as CAST({name} AS VARCHAR)",
        )
    return type_


def _long_union_all(query: exp.Expr) -> list[exp.Expr]:
    """The queries of a long chain of nothing but UNION ALL, in their order; none if it is no such chain."""
    found: list[exp.Expr] = []
    while isinstance(query, exp.Union):
        given = {key for key, value in query.args.items() if value and key not in ("this", "expression")}
        if (given and found) or query.args.get("distinct") or query.args.get("by_name"):
            break
        found.append(query.expression)
        query = query.this
    return [query, *reversed(found)] if len(found) >= _CHAIN else []


def _is_union_all(node: Node) -> bool:
    return isinstance(node, SetOperation) and node.is_union_all


def _of_its_types(union: Node) -> bool:
    """Whether the branches of a UNION ALL have the types of its columns."""
    types = [f.type for f in union.fields]
    return all([f.type for f in branch.fields] == types for branch in union.inputs)


def _combines(node: exp.Expr) -> str:
    """The set operation that `node` is, as it is written; several INSERTs into one table are a UNION ALL."""
    if not isinstance(node, exp.SetOperation):
        return "UNION ALL"
    return type(node).__name__.upper() + ("" if node.args.get("distinct") else " ALL")


def _common_time(times: list[EventTime | None]) -> EventTime | None:
    known = [t for t in times if t is not None]
    if len(known) != len(times):
        return None
    sources = tuple(dict.fromkeys(s for t in known for s in t.sources))
    return EventTime(
        sources,
        min(t.tick_us for t in known),
        any(t.direct for t in known),
        max(t.delay_us for t in known),
    )
