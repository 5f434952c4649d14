"""Which type values have in common and which casts can succeed, as DuckDB says; and what INSERT INTO does with a value."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby, islice

from sqlstream_operators.plan.types import NESTED, NULL, ROWS, UNKNOWN, Kind, SqlType, quote_literal, spelled
from sqlstream_planner.expressions.oracle import Question, Refused, Rows, column, current
from sqlstream_planner.expressions.plain_values import is_plainly


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
#: Where another integer type, or another number of digits, begins.
_BOUNDS = sorted(
    {10**n - 1 for n in range(1, 40)} | {2**n - 1 for n in (7, 8, 15, 16, 31, 32, 63, 64, 127, 128)}
)
_LOWER_BOUNDS = sorted({10**n - 1 for n in range(1, 40)} | {2**n for n in (7, 15, 31, 63, 127)})


def stand_in(value: int) -> int:
    """An integer that has the types and the number of digits of `value`: questions about literals are few that way.

    >>> stand_in(0), stand_in(42), stand_in(100), stand_in(-128), stand_in(-129)
    (9, 99, 127, -128, -999)
    """
    if value < 0:
        at = bisect_left(_LOWER_BOUNDS, -value)
        return -_LOWER_BOUNDS[at] if at < len(_LOWER_BOUNDS) else value
    at = bisect_left(_BOUNDS, value)
    return _BOUNDS[at] if at < len(_BOUNDS) else value


def literal_type(text: str) -> SqlType:
    """The type of a number as it is written; UNKNOWN if no column can have it.

    >>> print(literal_type("1"), literal_type("-3000000000"), literal_type("1.50"), literal_type("1e3"))
    INTEGER BIGINT DECIMAL(3,2) DOUBLE
    """
    whole = re.fullmatch(r"-?\d+", text)
    answer = current().type_of(Question(str(stand_in(int(text))) if whole else re.sub(r"\d", "9", text)))
    return answer if isinstance(answer, SqlType) else UNKNOWN


def common_type(types: Iterable[SqlType | TypedExpr], *, as_list: bool = False) -> SqlType | None:
    """The type that CASE, COALESCE, UNION, IN and comparisons give these values, None if they don't mix.

    >>> from sqlstream_operators.plan.types import BIGINT, DOUBLE, VARCHAR, decimal
    >>> print(common_type([BIGINT, decimal(10, 2)]), common_type([BIGINT, VARCHAR]))
    DECIMAL(21,2) None

    A literal adapts to the value beside it, but not behind another literal; in a list (`as_list`) it does behind its equal.
    """
    given = [item if isinstance(item, TypedExpr) else TypedExpr(item) for item in types]
    given = [item for item in given if item.type.kind is not Kind.NULL]
    kinds = {item.type for item in given}
    if len(kinds) < 2:
        return next(iter(kinds), NULL)
    if not all(kind.is_known for kind in kinds):
        return UNKNOWN
    columns: list[SqlType] = []
    written = ", ".join(_written(given, columns, as_list))
    answer = current().type_of(
        Question(f"[{written}]" if as_list else f"coalesce({written})", tuple(columns))
    )
    if isinstance(answer, Refused):
        return None
    return answer.element if as_list else answer


def set_operation_type(types: Iterable[SqlType]) -> SqlType | None:
    """The type that a set operation gives a column of these types, None if they don't mix.

    >>> from sqlstream_operators.plan.types import BIGINT, INTERVAL, VARCHAR
    >>> print(set_operation_type([BIGINT, VARCHAR]), set_operation_type([BIGINT, INTERVAL]))
    VARCHAR None
    """
    given = list(dict.fromkeys(types))
    found = common_type(given)
    if found is not None:
        return found
    # Here DuckDB makes text of what has nothing else in common; and has types that it has no casts for.
    branches = " UNION ALL ".join(f"SELECT NULL::{spelled(type_)}" for type_ in given)
    answer = current().type_of(Question(f"({branches} LIMIT 1)"))
    if isinstance(answer, Refused) or not all(can_cast(type_, answer) for type_ in given):
        return None
    return answer


def _written(given: list[TypedExpr], columns: list[SqlType], exactly: bool) -> Iterator[str]:
    """How values stand in a question, of several that are alike at most two: a third one changes nothing."""
    for (type_, literal), alike in groupby((item.type, _form(item, exactly)) for item in given):
        for _ in islice(alike, 2):
            if literal is None:
                columns.append(type_)
            yield literal if literal is not None else column(len(columns) - 1)


def _form(item: TypedExpr, exactly: bool) -> str | None:
    if isinstance(item.literal, int):
        return str(item.literal if exactly else stand_in(item.literal))
    return "''" if item.literal is not None else None


def fails(text: str, type_: SqlType) -> bool:
    """Whether a text is no value of a type.

    >>> from sqlstream_operators.plan.types import DATE
    >>> fails("2023-02-29", DATE), fails("2024-02-29", DATE)
    (True, False)
    """
    if type_.kind is Kind.NULL or not type_.is_known or is_plainly(text, type_.kind):
        return False
    (why,) = current().failures([f"CAST({quote_literal(text)} AS {spelled(type_)})"])
    return why is not None


def decimal_of(type_: SqlType) -> tuple[int, int]:
    """Precision and scale that a DECIMAL needs to hold every value of an exact number type."""
    if type_.kind is Kind.DECIMAL:
        assert type_.precision is not None
        assert type_.scale is not None
        return type_.precision, type_.scale
    return _DIGITS[type_.kind], 0


def can_cast(from_: SqlType, to: SqlType) -> bool:
    """Whether CAST can succeed for some value; DuckDB binds others too, and fails at the first row.

    >>> from sqlstream_operators.plan.types import DATE, INTEGER
    >>> can_cast(INTEGER, DATE), can_cast(INTEGER, INTEGER)
    (False, True)
    """
    free = (Kind.NULL, Kind.VARCHAR, Kind.JSON)
    if from_ == to or from_.kind in free or to.kind in free or not (from_.is_known and to.is_known):
        return True
    question = Question(f"CAST({column(0)} AS {spelled(to)})", (from_,), Rows.VALUES)
    return not isinstance(current().type_of(question), Refused)


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
    if source.kind in (Kind.UUID, Kind.ENUM) and column.kind is Kind.VARCHAR:
        return Assignment.WIDENING
    return Assignment.IMPOSSIBLE


def _assign_number(source: SqlType, column: SqlType) -> Assignment:
    if (source.kind is Kind.DECIMAL and column.kind is Kind.DECIMAL) or (
        source.is_integer and column.kind is Kind.DECIMAL
    ):
        (precision, scale), (to_precision, to_scale) = decimal_of(source), decimal_of(column)
        fits = to_scale >= scale and to_precision - to_scale >= precision - scale
        return Assignment.WIDENING if fits else Assignment.CHECKED
    if common_type([source, column]) == column:
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
