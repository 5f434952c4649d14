"""What of an expression can be computed before there is a row, and would fail with every row if it fails at all.

The planner computes nothing itself: it gives the SQL of such parts to whoever has a DuckDB (`sqlstream.planning`).
Parts that can't fail, as most constants that people write, are left out, so that most files need none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from sqlglot import exp

from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_planner.expressions.functions import catalogue
from sqlstream_planner.expressions.plain_values import SMALL, instead_of, is_plainly
from sqlstream_planner.sql.datatypes import sql_type_of
from sqlstream_planner.sql.problems import TypeProblem
from sqlstream_planner.sql.written_calls import written_call
from sqlstream_planner.text.name_lists import names_in


@dataclass(frozen=True, slots=True)
class Constant:
    """A part of an expression, as DuckDB SQL without columns; `cast` says that it is a cast of a literal.

    `instead`: what to write if it fails.
    """

    sql: str
    cast: bool
    instead: str | None = None


TypeOf = Callable[[exp.Expr], SqlType]

_REGEXES = frozenset(
    names_in(
        """
        regexp_matches regexp_full_match regexp_replace regexp_extract regexp_extract_all regexp_split_to_array
        string_split_regex str_split_regex
        """
    )
)
#: Calls whose first argument is a unit or a zone, and of which all others are times.
_OF_TIMES = frozenset(names_in("timezone date_diff datediff date_sub datesub time_bucket"))
_FORMATTED = frozenset({"printf", "format"})
#: Of these functions constants are tried wherever they stand.
TRIED = _REGEXES | _OF_TIMES | _FORMATTED
#: Values that fit every format for their type.
_SAMPLES = {
    Kind.VARCHAR: "'a'",
    Kind.BOOLEAN: "TRUE",
    Kind.DOUBLE: "1.5::DOUBLE",
    Kind.FLOAT: "1.5::FLOAT",
}
#: What stands in them is not always computed, or may fail.
_CONDITIONAL = frozenset({"coalesce", "if", "try", "error", "ifnull", "nvl", "nullif"})
_PLAIN = (
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Array,
    exp.Tuple,
    exp.Struct,
    exp.PropertyEQ,
    exp.Interval,
    exp.DataType,
    exp.DataTypeParam,
    exp.Identifier,
    exp.Var,
    exp.Like,
    exp.ILike,
    exp.Connector,
    exp.Not,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Predicate,
)
_NO_CONSTANT = (
    exp.Column,
    exp.Star,
    exp.Query,
    exp.Window,
    exp.Lambda,
    exp.Placeholder,
    exp.Unnest,
    exp.Explode,
    exp.Any,
    exp.All,
    exp.Filter,
    exp.WithinGroup,
    exp.Order,
    exp.Distinct,
    exp.IgnoreNulls,
    exp.RespectNulls,
)
_MATCHES = (exp.RegexpLike, exp.RegexpILike, exp.SimilarTo)


def constants(
    expression: exp.Expr, sql: Callable[[exp.Expr], str], type_of: TypeOf
) -> Iterator[tuple[exp.Expr, Constant]]:
    """The parts of an expression in DuckDB's form that may fail, with the node that each is.

    `sql` writes one as DuckDB SQL, `type_of` gives the type of an argument.
    """
    constant: dict[int, bool] = {}
    order = list(expression.walk(bfs=True))
    for node in reversed(order):
        constant[id(node)] = _may_be_constant(node) and all(constant[id(c)] for c in node.iter_expressions())
    # From the top: a constant is tried as a whole; `always`: it is computed whatever the values of a row are.
    stack = [(expression, True)]
    while stack:
        node, always = stack.pop()
        if isinstance(node, exp.Query | exp.Lambda | exp.TryCast):
            continue
        if constant[id(node)]:
            if _may_fail(node) and (always or _is_cast(node)):
                yield node, Constant(sql(node), _is_cast(node), _instead(node))
            elif _may_fail(node):
                stack.extend((child, False) for child in node.iter_expressions())
            continue
        tried = _with_samples(node, constant, sql, type_of)
        if tried is not None:
            yield node, Constant(tried, False)
        stack.extend((child, always and not _is_conditional(node)) for child in node.iter_expressions())


def _may_be_constant(node: exp.Expr) -> bool:
    if isinstance(node, _NO_CONSTANT):
        return False
    if not isinstance(node, exp.Func) or isinstance(
        node, exp.Cast | exp.Array | exp.Struct | exp.Case | exp.If
    ):
        return True
    call = written_call(node)
    if call is None:
        return isinstance(node, exp.ToMap | exp.Map | exp.Connector | exp.RegexpLike | exp.RegexpILike)
    return (
        call.name not in ("error", "unnest")
        and not catalogue.is_aggregate(call.name)
        and not catalogue.is_window_function(call.name)
        and catalogue.is_deterministic(call.name, len(call.arguments))
    )


def _is_conditional(node: exp.Expr) -> bool:
    if isinstance(node, exp.Case | exp.If | exp.Connector):
        return True
    call = written_call(node) if isinstance(node, exp.Anonymous) else None
    return call is not None and call.name in _CONDITIONAL


def _is_cast(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal)


def _instead(node: exp.Expr) -> str | None:
    if not _is_cast(node):
        return None
    what = "write a value of the type"
    if node.this.is_string:
        with suppress(TypeProblem):  # it is reported elsewhere
            what = instead_of(sql_type_of(node.args["to"]))
    return f"{what}, or TRY_CAST, which gives NULL where a value does not fit"


#: Types as they are written, of which plain values are known.
_KINDS = {
    **dict.fromkeys(exp.DataType.TEXT_TYPES, Kind.VARCHAR),
    exp.DType.DATE: Kind.DATE,
    exp.DType.TIMESTAMP: Kind.TIMESTAMP,
    exp.DType.TIMESTAMPNTZ: Kind.TIMESTAMP,
    exp.DType.INT: Kind.INTEGER,
    exp.DType.BIGINT: Kind.BIGINT,
    exp.DType.DOUBLE: Kind.DOUBLE,
    exp.DType.FLOAT: Kind.FLOAT,
}


def _may_fail(node: exp.Expr) -> bool:
    """Whether a constant does anything that could fail: not for literals, small sums and dates as they are written."""
    if (
        isinstance(node, exp.Cast)
        and not isinstance(node, exp.TryCast)
        and isinstance(node.this, exp.Literal)
    ):
        return not _is_safe_cast(node)
    if isinstance(node, exp.Neg | exp.Add | exp.Sub | exp.Mul):
        return _whole(node) is None
    if isinstance(node, _PLAIN) and not isinstance(node, _MATCHES):
        return any(_may_fail(child) for child in node.iter_expressions())
    return True


def _is_safe_cast(node: exp.Cast) -> bool:
    kind = _KINDS.get(node.to.this)
    return kind is not None and is_plainly(str(node.this.this), kind)


def _whole(node: exp.Expr) -> int | None:
    """The value of a sum or product of whole numbers, None for anything else and for what is no INTEGER."""
    value: int | None = None
    match node:
        case exp.Literal() if not node.is_string and str(node.this).isdecimal():
            value = int(str(node.this))
        case exp.Paren():
            value = _whole(node.this)
        case exp.Neg():
            inner = _whole(node.this)
            value = None if inner is None else -inner
        case exp.Add() | exp.Sub() | exp.Mul():
            left, right = _whole(node.this), _whole(node.expression)
            if left is not None and right is not None:
                value = (
                    left * right
                    if isinstance(node, exp.Mul)
                    else left + right
                    if isinstance(node, exp.Add)
                    else left - right
                )
    return value if value is not None and abs(value) < SMALL else None


def _with_samples(
    node: exp.Expr, constant: dict[int, bool], sql: Callable[[exp.Expr], str], type_of: TypeOf
) -> str | None:
    """SQL of a call whose pattern, unit, zone or format is constant, with values in place of what is not; or None."""
    if isinstance(node, exp.AtTimeZone) and constant[id(node.args["zone"])]:
        return f"timezone({sql(node.args['zone'])}, TIMESTAMP '2000-01-01')"
    if isinstance(node, _MATCHES):
        pattern = node.expression
        if not constant[id(pattern)] or node.args.get("flag") is not None:
            return None
        return f"regexp_matches('', {sql(pattern)})"
    if not isinstance(node, exp.Anonymous) or isinstance(node.parent, exp.Dot):
        return None
    name, arguments = str(node.this).lower(), node.expressions
    if name in _REGEXES and len(arguments) > 1 and constant[id(arguments[1])]:
        values = [sql(a) if constant[id(a)] else "''" for a in arguments]
        return f"{name}({', '.join(values)})"
    if name in _OF_TIMES and len(arguments) > 1 and constant[id(arguments[0])]:
        values = [sql(a) if constant[id(a)] else "TIMESTAMP '2000-01-01'" for a in arguments]
        return f"{name}({', '.join(values)})"
    if name in _FORMATTED and arguments and constant[id(arguments[0])]:
        samples = [sql(a) if constant[id(a)] else _sample(type_of(a)) for a in arguments]
        if None not in samples:
            return f"{name}({', '.join(str(s) for s in samples)})"
    return None


def _sample(type_: SqlType) -> str | None:
    return f"1::{type_}" if type_.is_integer else _SAMPLES.get(type_.kind)
