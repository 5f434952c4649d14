"""Aggregate calls of unbounded groups as plain DuckDB SQL whose answer depends on the multiset of rows alone."""

from __future__ import annotations

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.logical import AggregateCall, columns_of, order_term, sql

#: Aggregates that are one of their values, so that DISTINCT changes nothing.
_ONE_VALUE = frozenset({"min", "max", "any_value", "arg_min", "arg_max"})
_FLOATS = (Kind.FLOAT, Kind.DOUBLE)
#: Aggregates whose result over floating point depends on the order of additions.
_ROUNDING = frozenset(
    {
        *("sum", "avg", "mean", "product", "entropy", "skewness", "kurtosis"),
        *("var_pop", "var_samp", "variance", "stddev_pop", "stddev_samp", "stddev", "sem"),
    }
)


def batch_call(call: AggregateCall) -> str:
    """The call over rows of its group, cast to the call's type: the referee of what the accumulators give.

    Lists are in ascending order (NULLs last) where the query says nothing, and ties of an ORDER BY are too;
    ANY_VALUE is the least value; ARG_MIN and ARG_MAX take the least and the greatest (by, x); MODE the least
    of the most frequent.
    """
    arguments = [sql(a) for a in call.arguments]
    conditions = [f"({sql(call.filter)})"] if call.filter is not None else []
    x = arguments[0] if arguments else "*"
    terms = [
        order_term(sql(e), descending=descending, nulls_first=nulls_first)
        for e, descending, nulls_first in call.order_by
        if columns_of(e)
    ]
    # DuckDB refuses to order by a literal, which orders nothing.
    varies = bool(call.arguments) and bool(columns_of(call.arguments[0]))
    by_value = [f"{x} ASC NULLS LAST"] if varies else []
    name, order = call.name, ""
    match name:
        case "count" | "count_star":
            name = "count"
            if len(arguments) != 1:
                conditions += [f"({a}) IS NOT NULL" for a in arguments]
                arguments = [f"ROW({', '.join(arguments)})"] if call.distinct else ["*"]
        case "list" | "array_agg" | "collect" | "string_agg":
            if name == "collect":
                conditions.append(f"({x}) IS NOT NULL")
            name = "string_agg" if name == "string_agg" else "list"
            # DISTINCT leaves nothing to order by but the value itself.
            order = ", ".join(terms if call.distinct and terms else [*terms, *by_value])
        case "any_value":
            name = "first" if terms else "min"
            order = ", ".join([*terms, *by_value]) if terms else ""
            conditions += [f"({x}) IS NOT NULL"] if terms else []
        case "arg_min" | "arg_max":
            by = arguments[1]
            conditions += [f"({x}) IS NOT NULL", f"({by}) IS NOT NULL"]
            arguments = [x, f"{{'by': {by}, 'x': {x}}}"]
        case "mode":
            order = x if varies else ""
        case _ if name in _ROUNDING and call.argument_types[0].kind in _FLOATS:
            order = x if varies else ""
    distinct = "DISTINCT " if call.distinct and call.name not in _ONE_VALUE else ""
    ordered = f" ORDER BY {order}" if order else ""
    where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    return f"CAST({name}({distinct}{', '.join(arguments)}{ordered}){where} AS {call.field.type})"
