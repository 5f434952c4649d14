"""The cast or function that would make a refused expression right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.expressions.casts import TypedExpr, can_cast
from sqlstream_planner.expressions.functions.catalogue import Function, FunctionKind
from sqlstream_planner.sql.dialect import OwnSql


def suggest_cast(
    function: Function,
    typed: Sequence[TypedExpr],
    nodes: Sequence[exp.Expr],
    fits: Callable[[Sequence[TypedExpr]], bool],
) -> str | None:
    """The one cast that would make the call right, if there is one, or an interval for a time and a number.

    `fits` says whether the function takes arguments of other types.
    """
    if function.name in ("+", "-") and len(typed) == 2:
        first, second = typed[0].type, typed[1].type
        if second.is_numeric and (first.is_timestamp or first.kind is Kind.INTERVAL):
            return f"write {sql_text(nodes[0])} {function.name} INTERVAL '5' SECOND"
    for overload in function.overloads:
        if not overload.accepts(len(typed)) or len(nodes) != len(typed):
            continue
        for index, value in enumerate(typed):
            try:
                target = SqlType(Kind(overload.parameter(index)))
            except ValueError:
                continue
            if target.kind is value.type.kind or not can_cast(value.type, target):
                continue
            casted = [TypedExpr(target) if i == index else t for i, t in enumerate(typed)]
            if fits(casted):
                return f"CAST({sql_text(nodes[index])} AS {target})"
    return None


_TIMES = frozenset({Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.INTERVAL})
_PARTS = frozenset({"substring", "substr", "left", "right"})


def suggest_other(function: Function, typed: Sequence[TypedExpr]) -> str | None:
    """What to write where no cast makes the call of a function of texts or numbers what is meant by it, else None."""
    kind = typed[0].type.kind if typed else None
    if kind is Kind.BLOB:
        if function.name in ("length", "len", "char_length"):
            return "OCTET_LENGTH(x) is the number of bytes"
        if function.name in _PARTS:
            return "x[1:2] are the first two bytes of x"
        if any(o.accepts(len(typed)) and o.parameter(0) == Kind.VARCHAR.value for o in function.overloads):
            return "DECODE(x) is the text of bytes in UTF-8, TO_HEX(x) their digits"
    if kind in _TIMES and function.kind is FunctionKind.AGGREGATE:
        back = "TO_SECONDS(…)" if kind is Kind.INTERVAL else "MAKE_TIMESTAMP(CAST(1000000 * … AS BIGINT))"
        return f"EPOCH(x) is a time or an interval in seconds, a number; {back} makes one of it"
    return None


def cast_help(from_: SqlType, to: SqlType, node: exp.Expr) -> str | None:
    """What to write instead of a cast that can only fail."""
    if from_.is_numeric and to.is_timestamp:
        return f"TO_TIMESTAMP_LTZ({sql_text(node)}, 3) reads milliseconds since 1970, (…, 0) seconds"
    if from_.is_timestamp and to.is_numeric:
        return f"epoch_ms({sql_text(node)}) is milliseconds since 1970"
    if from_.kind is Kind.DATE and to.is_numeric:
        return f"date_diff('day', DATE '1970-01-01', {sql_text(node)}) is days since 1970"
    return None


def sql_text(node: exp.Expr) -> str:
    """An expression as it is shown in a message."""
    return node.sql(dialect=OwnSql)
