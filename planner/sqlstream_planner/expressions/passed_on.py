"""Which columns of its input a projection or a GROUP BY gives on, and which expressions give each value once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.types import UNKNOWN, Kind, SqlType
from sqlstream_planner.expressions.casts import decimal_of
from sqlstream_planner.expressions.infer import infer
from sqlstream_planner.logical import Fields, Node, columns_of
from sqlstream_planner.sql.datatypes import sql_type_of
from sqlstream_planner.sql.written_calls import written_call

#: Calls that give their first argument unless it is NULL.
_FIRST_KNOWN = frozenset({"coalesce", "ifnull", "nvl"})


def passed_on(fields: Fields, expressions: Sequence[exp.Expr], below: Node) -> dict[str, str]:
    """The columns of `below` that are given as they are, or cast so that values that differ still do: their ids, and
    the first field that each is.
    """
    types = {f.id: (f.type, f.nullable) for f in below.fields}
    found: dict[str, str] = {}
    for f, e in zip(fields, expressions, strict=True):
        id_, _ = _distinguished(e, types)
        if id_ is not None:
            found.setdefault(id_, f.id)
    return found


def _distinguished(
    expression: exp.Expr, types: Mapping[str, tuple[SqlType, bool]]
) -> tuple[str | None, SqlType]:
    """The column whose values an expression keeps distinct, if there is one, and the expression's type."""
    bare = expression.unnest()
    if isinstance(bare, exp.Column) and bare.name in types:
        return bare.name, types[bare.name][0]
    call = written_call(bare)
    if call is not None and call.name in _FIRST_KNOWN and call.arguments:
        id_, type_ = _distinguished(call.arguments[0], types)
        # Of a column that can be NULL it makes one value of NULL and of what stands for it.
        if id_ is None or types[id_][1] or not columns_of(bare) <= types.keys():
            return None, UNKNOWN
        to = infer(bare, types).type
        return (id_, to) if to == type_ or keeps_apart(type_, to) else (None, UNKNOWN)
    if type(bare) is exp.Cast:
        id_, type_ = _distinguished(bare.this, types)
        to = sql_type_of(bare.to)
        if keeps_apart(type_, to):
            return id_, to
    return None, UNKNOWN


#: Types whose text says exactly which value it is.
_EXACT_TEXT = frozenset(
    {
        *(Kind.BOOLEAN, Kind.DECIMAL, Kind.UUID, Kind.ENUM, Kind.BIT),
        *(Kind.DATE, Kind.TIME, Kind.TIMETZ, Kind.TIMESTAMP, Kind.TIMESTAMP_NS, Kind.TIMESTAMPTZ),
    }
)
_IN_DOUBLE = frozenset(
    {Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.UTINYINT, Kind.USMALLINT, Kind.UINTEGER, Kind.FLOAT}
)


def keeps_apart(from_: SqlType, to: SqlType) -> bool:
    """Whether a CAST never makes one value of two. A value that does not fit fails the CAST, and is not changed.

    Between wall clocks and instants it goes by UTC: for another time zone of the session it was made a call (`in_zone`).

    >>> from sqlstream_operators.plan.types import BIGINT, INTEGER, VARCHAR, decimal
    >>> keeps_apart(BIGINT, INTEGER), keeps_apart(INTEGER, VARCHAR), keeps_apart(INTEGER, decimal(12, 2))
    (True, True, True)
    >>> keeps_apart(VARCHAR, BIGINT), keeps_apart(decimal(12, 2), INTEGER)
    (False, False)
    """
    if from_.is_integer and to.is_integer:
        return True
    if to.kind is Kind.DECIMAL and (from_.is_integer or from_.kind is Kind.DECIMAL):
        return decimal_of(to)[1] >= decimal_of(from_)[1]
    if from_.kind is Kind.DECIMAL and to.is_integer:
        return from_.scale == 0
    match to.kind:
        case Kind.VARCHAR:
            return from_.is_integer or from_.kind in _EXACT_TEXT
        case Kind.DOUBLE:
            return from_.kind in _IN_DOUBLE
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            return from_.kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
    return False
