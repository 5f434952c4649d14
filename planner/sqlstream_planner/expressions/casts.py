"""Which values may become which type, without being asked, when asked, and when inserted into a sink.

The rules are DuckDB 2.0's (costs measured through `duckdb_functions()` overloads and `can_cast_implicitly`,
explicit casts by executing them); tests/planner/test_casts.py measures them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from sqlstream_operators.plan.types import (
    BIGINT,
    HUGEINT,
    INTEGER,
    INTEGERS,
    NESTED,
    ROWS,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)


@dataclass(frozen=True, slots=True)
class TypedExpr:
    """What is known of an expression: its type, can it be NULL, its value if it is a bare literal.

    `literal` is set for a string or integer literal only: DuckDB types these late, so `'2020-01-01'` can be
    compared with a DATE and `1` can be added to a TINYINT without widening it.
    """

    type: SqlType
    nullable: bool = True
    literal: int | str | None = None


class Assignment(StrEnum):
    """What INSERT INTO does with a value of one type for a column of another."""

    EXACT = "exact"  # the same type
    WIDENING = "widening"  # every value fits
    CHECKED = "checked"  # numeric or time narrowing: cast, and a value that does not fit fails the epoch
    IMPOSSIBLE = "impossible"  # needs a CAST that the user writes, or can't be done at all


_SIGNED = (Kind.TINYINT, Kind.SMALLINT, Kind.INTEGER, Kind.BIGINT, Kind.HUGEINT)
_UNSIGNED = (Kind.UTINYINT, Kind.USMALLINT, Kind.UINTEGER, Kind.UBIGINT)
_BITS = {
    Kind.TINYINT: 8,
    Kind.SMALLINT: 16,
    Kind.INTEGER: 32,
    Kind.BIGINT: 64,
    Kind.HUGEINT: 128,
    Kind.UTINYINT: 8,
    Kind.USMALLINT: 16,
    Kind.UINTEGER: 32,
    Kind.UBIGINT: 64,
}
_DIGITS = {
    Kind.TINYINT: 3,
    Kind.SMALLINT: 5,
    Kind.INTEGER: 10,
    Kind.BIGINT: 19,
    Kind.HUGEINT: 38,
    Kind.UTINYINT: 3,
    Kind.USMALLINT: 5,
    Kind.UINTEGER: 10,
    Kind.UBIGINT: 20,
}
_APPROXIMATE = (Kind.FLOAT, Kind.DOUBLE)
_TIME_ORDER = (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ)

# The cost that DuckDB gives a target of an implicit cast; the cheapest overload wins.
_TARGET_COST = {
    Kind.BIGINT: 101,
    Kind.INTEGER: 102,
    Kind.HUGEINT: 103,
    Kind.DOUBLE: 104,
    Kind.DECIMAL: 105,
    Kind.TIMESTAMP: 120,
    Kind.TIMESTAMPTZ: 123,
    Kind.VARCHAR: 149,
    Kind.STRUCT: 160,
    Kind.TUPLE: 160,
    Kind.MAP: 160,
    Kind.ARRAY: 160,
}
_OTHER_TARGET_COST = 110
_JSON_COST = 149
_JSON_TO_TEXT_COST = 1
_STRING_LITERAL_TO_TEXT_COST = 1
_STRING_LITERAL_COST = 20
_INTEGER_LITERAL_DISCOUNT = 90


def target_cost(kind: Kind) -> int:
    """What DuckDB charges for an implicit cast to `kind`."""
    return _TARGET_COST.get(kind, _OTHER_TARGET_COST)


def literal_type(value: int) -> SqlType:
    """The type of an integer literal on its own.

    >>> print(literal_type(1), literal_type(3_000_000_000), literal_type(10**19))
    INTEGER BIGINT HUGEINT
    """
    for type_ in (INTEGER, BIGINT, HUGEINT):
        if _fits(value, type_.kind):
            return type_
    return SqlType(Kind.UNKNOWN)


def _fits(value: int, kind: Kind) -> bool:
    if kind in _SIGNED:
        half = 1 << (_BITS[kind] - 1)
        return -half <= value < half
    return kind in _UNSIGNED and 0 <= value < 1 << _BITS[kind]


def implicit_cast(from_: SqlType | TypedExpr, to: SqlType) -> int | None:
    """The cost of DuckDB's implicit cast, 0 if none is needed, None if it needs an explicit one.

    >>> from sqlstream_operators.plan.types import BIGINT, INTEGER, VARCHAR
    >>> implicit_cast(INTEGER, BIGINT), implicit_cast(BIGINT, INTEGER), implicit_cast(VARCHAR, INTEGER)
    (101, None, None)
    """
    if isinstance(from_, TypedExpr):
        if from_.literal is not None:
            return _literal_cost(from_, to)
        from_ = from_.type
    if from_.kind is Kind.UNKNOWN or to.kind is Kind.UNKNOWN:
        return 0
    if from_.kind is Kind.NULL:
        return target_cost(to.kind)
    if from_.kind is Kind.ARRAY and to.kind is Kind.ARRAY:
        assert from_.element is not None
        assert to.element is not None
        cost = implicit_cast(from_.element, to.element)
        return None if cost is None else max(cost - 1, 0)
    if from_.kind in ROWS and to.kind in ROWS:
        return _struct_cost(from_, to)
    if from_.kind is Kind.MAP and to.kind is Kind.MAP:
        assert from_.key is not None
        assert from_.value is not None
        assert to.key is not None
        assert to.value is not None
        costs = [implicit_cast(from_.key, to.key), implicit_cast(from_.value, to.value)]
        return None if None in costs else max(c for c in costs if c is not None)
    if from_.kind is to.kind:
        return 0
    if to.kind is Kind.JSON:
        return _JSON_COST
    if from_.kind is Kind.JSON:
        return _JSON_TO_TEXT_COST if to.kind is Kind.VARCHAR else None
    return target_cost(to.kind) if _widens(from_.kind, to.kind) else None


def _widens(from_: Kind, to: Kind) -> bool:
    if from_ in INTEGERS:
        if to in (*_APPROXIMATE, Kind.DECIMAL):
            return True
        if to not in INTEGERS or (from_ in _SIGNED and to in _UNSIGNED):
            return False
        return _BITS[to] > _BITS[from_]
    if from_ is Kind.DECIMAL:
        return to in _APPROXIMATE
    if from_ is Kind.FLOAT:
        return to is Kind.DOUBLE
    if from_ in _TIME_ORDER and to in _TIME_ORDER:
        return _TIME_ORDER.index(to) > _TIME_ORDER.index(from_)
    return False


def _literal_cost(from_: TypedExpr, to: SqlType) -> int | None:
    if isinstance(from_.literal, str):
        return _STRING_LITERAL_TO_TEXT_COST if to.kind is Kind.VARCHAR else _STRING_LITERAL_COST
    assert from_.literal is not None
    if from_.type.kind is to.kind:
        return 0
    if _fits(from_.literal, to.kind):
        return target_cost(to.kind) - _INTEGER_LITERAL_DISCOUNT
    return implicit_cast(from_.type, to)


def _struct_cost(from_: SqlType, to: SqlType) -> int | None:
    if len(from_.fields) != len(to.fields):
        return None
    if Kind.TUPLE in (from_.kind, to.kind):  # by position
        to = replace(
            to, fields=tuple((name, t) for (name, _), (_, t) in zip(from_.fields, to.fields, strict=True))
        )
    targets = {name.lower(): type_ for name, type_ in to.fields}
    worst = 0
    for name, type_ in from_.fields:
        if name.lower() not in targets:
            return None
        cost = implicit_cast(type_, targets[name.lower()])
        if cost is None:
            return None
        worst = max(worst, cost)
    return worst


def common_type(types: Iterable[SqlType | TypedExpr], *, keep_literals: bool = False) -> SqlType | None:
    """The type that CASE, COALESCE, UNION, IN and comparisons give these values, None if they don't mix.

    >>> from sqlstream_operators.plan.types import BIGINT, DOUBLE, VARCHAR
    >>> print(common_type([BIGINT, decimal(10, 2)]), common_type([BIGINT, VARCHAR]))
    DECIMAL(21,2) None

    A literal adapts to the value beside it, but two literals together are VARCHAR or INTEGER from then on;
    with `keep_literals` (DuckDB: for the T of a function) they stay literals.
    """
    left: TypedExpr | None = None
    for item in types:
        right = item if isinstance(item, TypedExpr) else TypedExpr(item)
        if left is None:
            left = right
            continue
        joined = _join(left, right)
        if joined is None:
            return None
        both = left.literal is not None and right.literal is not None
        left = TypedExpr(joined.type) if both and not keep_literals else joined
    return left.type if left is not None else SqlType(Kind.NULL)


def _join(a: TypedExpr, b: TypedExpr) -> TypedExpr | None:
    if a.type.kind is Kind.UNKNOWN or b.type.kind is Kind.UNKNOWN:
        return TypedExpr(SqlType(Kind.UNKNOWN))
    if a.type.kind is Kind.NULL:
        return b
    if b.type.kind is Kind.NULL:
        return a
    if isinstance(a.literal, str) or isinstance(b.literal, str):
        if isinstance(a.literal, str) and isinstance(b.literal, str):
            return TypedExpr(VARCHAR, literal=a.literal)
        return b if isinstance(a.literal, str) else a
    if a.literal is not None and b.literal is not None:
        return a if _BITS.get(a.type.kind, 0) >= _BITS.get(b.type.kind, 0) else b
    for literal, other in ((a, b), (b, a)):
        if isinstance(literal.literal, int) and _fits(literal.literal, other.type.kind):
            return TypedExpr(other.type)
    joined = _join_types(a.type, b.type)
    return None if joined is None else TypedExpr(joined)


def _join_types(a: SqlType, b: SqlType) -> SqlType | None:
    if a == b:
        return a
    kinds = (a.kind, b.kind)
    if Kind.JSON in kinds:
        return SqlType(Kind.JSON)
    if Kind.DECIMAL in kinds and all(k in INTEGERS or k is Kind.DECIMAL for k in kinds):
        return _join_decimals(a, b)
    if Kind.TUPLE in kinds and a.kind in ROWS and b.kind in ROWS:
        return _join_by_position(a, b)
    if a.kind is b.kind and a.kind in NESTED:
        return _join_nested(a, b)
    if a.is_integer and b.is_integer:
        return _join_integers(a.kind, b.kind)
    if a.kind is Kind.BOOLEAN and b.is_integer:
        return b
    if b.kind is Kind.BOOLEAN and a.is_integer:
        return a
    if _widens(a.kind, b.kind):
        return b
    if _widens(b.kind, a.kind):
        return a
    return None


def _join_integers(a: Kind, b: Kind) -> SqlType:
    if (a in _SIGNED) == (b in _SIGNED):
        return SqlType(a if _BITS[a] >= _BITS[b] else b)
    signed, unsigned = (a, b) if a in _SIGNED else (b, a)
    bits = max(_BITS[signed], 2 * _BITS[unsigned])
    return SqlType(next(k for k in _SIGNED if _BITS[k] >= bits))


def decimal_of(type_: SqlType) -> tuple[int, int]:
    """Precision and scale that a DECIMAL needs to hold every value of an exact number type."""
    if type_.kind is Kind.DECIMAL:
        assert type_.precision is not None
        assert type_.scale is not None
        return type_.precision, type_.scale
    return _DIGITS[type_.kind], 0


def _join_decimals(a: SqlType, b: SqlType) -> SqlType:
    (a_precision, a_scale), (b_precision, b_scale) = decimal_of(a), decimal_of(b)
    scale = max(a_scale, b_scale)
    if Kind.HUGEINT in (a.kind, b.kind):
        return decimal(38, scale)
    whole = max(a_precision - a_scale, b_precision - b_scale)
    return decimal(whole + scale, scale) if whole + scale <= 38 else decimal(38, 38 - whole)


def _join_nested(a: SqlType, b: SqlType) -> SqlType | None:
    if a.kind is Kind.ARRAY:
        assert a.element is not None
        assert b.element is not None
        element = common_type([a.element, b.element])
        return None if element is None else array(element)
    if a.kind is Kind.MAP:
        assert a.key is not None
        assert a.value is not None
        assert b.key is not None
        assert b.value is not None
        key, value = common_type([a.key, b.key]), common_type([a.value, b.value])
        return None if key is None or value is None else map_of(key, value)
    others = {name.lower(): type_ for name, type_ in b.fields}
    mine = {name.lower() for name, _ in a.fields}
    fields = []
    for name, type_ in a.fields:
        joined = common_type([type_, others[name.lower()]]) if name.lower() in others else type_
        if joined is None:
            return None
        fields.append((name, joined))
    fields.extend((name, type_) for name, type_ in b.fields if name.lower() not in mine)
    return struct(*fields)


def _join_by_position(a: SqlType, b: SqlType) -> SqlType | None:
    """Of rows of which one has no names: those of the other."""
    if len(a.fields) != len(b.fields):
        return None
    joined = [common_type([x, y]) for (_, x), (_, y) in zip(a.fields, b.fields, strict=True)]
    named = b if a.kind is Kind.TUPLE else a
    if not all(joined):
        return None
    return replace(
        named, fields=tuple((name, t) for (name, _), t in zip(named.fields, joined, strict=True) if t)
    )


_NUMERIC_OR_BOOLEAN = (*INTEGERS, *_APPROXIMATE, Kind.DECIMAL, Kind.BOOLEAN)
_EXPLICIT = {
    Kind.BLOB: (Kind.UUID,),
    Kind.DATE: (Kind.TIMESTAMP, Kind.TIMESTAMPTZ),
    Kind.TIMESTAMP: (Kind.DATE, Kind.TIME, Kind.TIMESTAMPTZ),
    Kind.TIMESTAMPTZ: (Kind.DATE, Kind.TIMESTAMP),
    Kind.UUID: (Kind.BLOB,),
}


def can_cast_explicitly(from_: SqlType, to: SqlType) -> bool:
    """Whether CAST can ever succeed for some value; DuckDB binds others too, and fails at the first row."""
    free = (Kind.UNKNOWN, Kind.NULL, Kind.VARCHAR, Kind.JSON)
    if from_.kind in free or to.kind in free:
        return True
    if from_.kind in _NUMERIC_OR_BOOLEAN and to.kind in _NUMERIC_OR_BOOLEAN:
        return True
    if from_.kind is Kind.STRUCT and to.kind is Kind.MAP:
        assert to.key is not None
        assert to.value is not None
        value = to.value
        return all(can_cast_explicitly(type_, value) for _, type_ in from_.fields)
    if Kind.TUPLE in (from_.kind, to.kind) and from_.kind in ROWS and to.kind in ROWS:
        pairs = zip(from_.fields, to.fields, strict=False)
        return len(from_.fields) == len(to.fields) and all(
            can_cast_explicitly(a, b) for (_, a), (_, b) in pairs
        )
    if from_.kind is not to.kind:
        return to.kind in _EXPLICIT.get(from_.kind, ())
    if from_.kind is Kind.ARRAY:
        assert from_.element is not None
        assert to.element is not None
        return can_cast_explicitly(from_.element, to.element)
    if from_.kind is Kind.MAP:
        assert from_.key is not None
        assert from_.value is not None
        assert to.key is not None
        assert to.value is not None
        return can_cast_explicitly(from_.key, to.key) and can_cast_explicitly(from_.value, to.value)
    if from_.kind is Kind.STRUCT:
        targets = {name.lower(): type_ for name, type_ in to.fields}
        shared = [(type_, targets[name.lower()]) for name, type_ in from_.fields if name.lower() in targets]
        return bool(shared) and all(can_cast_explicitly(a, b) for a, b in shared)
    return True


def assignable(source: SqlType, column: SqlType) -> Assignment:
    """What INSERT INTO does with a value of `source` for a sink column of type `column`.

    As in Flink a wider type of the same family is taken silently. Unlike in Flink a narrower *number* is
    taken too, because DuckDB's SUM of integers is a HUGEINT that no sink has: the cast is checked at run
    time, a value that does not fit stops the epoch. TIMESTAMP and TIMESTAMP_LTZ convert as UTC. Strings and
    numbers never convert without a CAST.
    """
    if source == column or Kind.UNKNOWN in (source.kind, column.kind):
        return Assignment.EXACT
    if source.kind is Kind.NULL:
        return Assignment.WIDENING
    if source.is_numeric and column.is_numeric:
        return _assign_number(source, column)
    by_position = source.kind is Kind.TUPLE and column.kind in ROWS
    if by_position or (source.kind is column.kind and source.kind in NESTED):
        return _assign_nested(source, column)
    if source.kind is Kind.JSON or column.kind is Kind.JSON:
        text = (Kind.JSON, Kind.VARCHAR)
        return Assignment.WIDENING if source.kind in text and column.kind in text else Assignment.IMPOSSIBLE
    if source.kind is Kind.DATE and column.is_timestamp:
        return Assignment.WIDENING
    if source.is_timestamp and column.is_timestamp:
        return Assignment.WIDENING
    if source.kind is Kind.UUID and column.kind is Kind.VARCHAR:
        return Assignment.WIDENING
    return Assignment.IMPOSSIBLE


def _assign_number(source: SqlType, column: SqlType) -> Assignment:
    if (source.kind is Kind.DECIMAL and column.kind is Kind.DECIMAL) or (
        source.is_integer and column.kind is Kind.DECIMAL
    ):
        (precision, scale), (to_precision, to_scale) = decimal_of(source), decimal_of(column)
        fits = to_scale >= scale and to_precision - to_scale >= precision - scale
        return Assignment.WIDENING if fits else Assignment.CHECKED
    if _widens(source.kind, column.kind):
        return Assignment.WIDENING
    return Assignment.CHECKED


def _assign_nested(source: SqlType, column: SqlType) -> Assignment:
    if source.kind is Kind.ARRAY:
        parts = [(source.element, column.element)]
    elif source.kind is Kind.MAP:
        parts = [(source.key, column.key), (source.value, column.value)]
    else:
        names, others = ([name.lower() for name, _ in t.fields] for t in (source, column))
        if len(names) != len(others) or (source.kind is Kind.STRUCT and names != others):
            return Assignment.IMPOSSIBLE
        parts = [(a, b) for (_, a), (_, b) in zip(source.fields, column.fields, strict=True)]
    order = (Assignment.EXACT, Assignment.WIDENING, Assignment.CHECKED, Assignment.IMPOSSIBLE)
    worst = 0
    for a, b in parts:
        assert a is not None
        assert b is not None
        worst = max(worst, order.index(assignable(a, b)))
    return order[worst]
