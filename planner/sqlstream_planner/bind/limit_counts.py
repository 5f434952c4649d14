"""How many rows LIMIT, FETCH and OFFSET say: a whole number, a share of all rows, or no limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, DecimalException

from sqlglot import exp

from sqlstream_planner.bind.context import BindContext

#: Ranks, and the sums of a limit and an offset, stay far below what fits into a BIGINT.
MOST_ROWS = 2**61


@dataclass(frozen=True, slots=True)
class LimitCount:
    """What a LIMIT says: at most so many `rows`, or `percent` of all; with `ties`, rows that are equal to the last too."""

    rows: int = MOST_ROWS
    percent: Decimal | None = None
    ties: bool = False


def limit_count(context: BindContext, clause: exp.Expr) -> LimitCount | None:
    """What a LIMIT or FETCH says; None for LIMIT ALL and LIMIT NULL. Raises DiagnosticError."""
    if clause.args.get("expressions"):
        context.unsupported(
            clause, "LIMIT … BY", help="write QUALIFY ROW_NUMBER() OVER (PARTITION BY … ORDER BY …) <= 10"
        )
    options = clause.args.get("limit_options")
    ties = options is not None and bool(options.args.get("with_ties"))
    fetch = isinstance(clause, exp.Fetch)
    value = clause.args.get("count") if fetch else clause.args.get("expression")
    if options is None or not options.args.get("percent"):
        if fetch and value is None:
            return LimitCount(1, ties=ties)
        if isinstance(value, exp.Var) and value.name.upper() == "ALL":
            return None
        rows = _rows(context, clause, value, "LIMIT")
        return None if rows is None else LimitCount(rows, ties=ties)
    if ties:
        context.unsupported(clause, "LIMIT … PERCENT WITH TIES", help="write how many rows you want")
    percent = constant_number(value)
    if percent is None or not 0 <= percent <= 100:
        context.fail(
            clause, "SQL064", "a LIMIT of PERCENT needs a number from 0 to 100", help="write LIMIT 10%"
        )
    return LimitCount(percent=percent)


def count_subquery(clause: exp.Expr | None) -> exp.Expr | None:
    """The number of rows of a LIMIT, FETCH or OFFSET where a sub-query gives it, None where it is written."""
    if clause is None or clause.args.get("expressions"):
        return None
    value = clause.args.get("count") if isinstance(clause, exp.Fetch) else clause.args.get("expression")
    options = clause.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        return None
    asks = isinstance(value, exp.Expr) and value.find(exp.Query) is not None
    return value if asks and constant_number(value) is None else None


def offset_count(context: BindContext, clause: exp.Expr) -> int:
    """How many rows an OFFSET leaves out; OFFSET NULL is 0. Raises DiagnosticError."""
    return _rows(context, clause, clause.args.get("expression"), "OFFSET") or 0


def _rows(context: BindContext, clause: exp.Expr, value: exp.Expr | None, what: str) -> int | None:
    """A whole number of rows, None for NULL."""
    if isinstance(value, exp.Null):
        return None
    number = constant_number(value)
    if number is not None and value is not None and _is_decimal(value):
        number = number.to_integral_value(ROUND_HALF_UP)  # LIMIT 1.5 is 2, as in DuckDB
    if number is None or number != number.to_integral_value() or number < 0:
        context.fail(
            clause,
            "SQL064",
            f"{what} needs a whole number",
            help=f"write {what} 10; it may be computed of numbers, as {what} 2 * 5, and a Jinja variable can stand there",
        )
    if number > MOST_ROWS:
        context.fail(
            clause,
            "SQL064",
            f"{what} {number} is more rows than there can be",
            help=f"{MOST_ROWS} (2^61) is the most",
        )
    return int(number)


def _is_decimal(value: exp.Expr) -> bool:
    """Whether DuckDB computes a number as a DECIMAL: a DOUBLE rounds a half to the even number."""
    floating = value.find(exp.Div, exp.Cast)
    exponents = ("e" in str(literal.this).lower() for literal in value.find_all(exp.Literal))
    return floating is None and not any(exponents)


_CALLS: Mapping[str, Callable[[Iterable[Decimal]], Decimal]] = {"least": min, "greatest": max}


def constant_number(value: exp.Expr | None) -> Decimal | None:
    """The number that an expression of numbers is, None if it is anything else.

    >>> import sqlglot
    >>> [constant_number(sqlglot.parse_one(text)) for text in ("2 * (5 - 1)", "-7 % 3", "k + 1", "1 / 0")]
    [Decimal('8'), Decimal('-1'), None, None]
    """
    match value:
        case exp.Literal():
            try:
                literal = Decimal(str(value.this))
            except DecimalException:
                return None
            return literal if literal.is_finite() else None
        case exp.Paren():
            return constant_number(value.this)
        case exp.Subquery() if isinstance(value.this, exp.Select) and set(_given(value.this)) == {
            "expressions"
        }:
            items = value.this.expressions
            return constant_number(items[0].unalias()) if len(items) == 1 else None
        case exp.Neg():
            inner = constant_number(value.this)
            return None if inner is None else -inner
        case exp.Anonymous():
            found = [constant_number(argument) for argument in value.expressions]
            numbers = [number for number in found if number is not None]
            if not numbers or len(numbers) < len(found):
                return None
            if value.name.lower() == "abs" and len(numbers) == 1:
                return abs(numbers[0])
            called = _CALLS.get(value.name.lower())
            return called(numbers) if called is not None else None
        case exp.Cast() if isinstance(value.to, exp.DataType) and value.to.is_type(
            *exp.DataType.INTEGER_TYPES
        ):
            inner = constant_number(value.this)
            # Anything else is rounded in one of several ways.
            return inner if inner is not None and inner == inner.to_integral_value() else None
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.IntDiv() | exp.Mod():
            left, right = constant_number(value.this), constant_number(value.expression)
            return None if left is None or right is None else _computed(value, left, right)
    return None


def _computed(operation: exp.Expr, left: Decimal, right: Decimal) -> Decimal | None:
    try:
        match operation:
            case exp.Add():
                return left + right
            case exp.Sub():
                return left - right
            case exp.Mul():
                return left * right
            case exp.Div():
                return left / right
            case exp.IntDiv():
                return left // right
        return left % right
    except DecimalException:
        return None


def _given(node: exp.Expr) -> list[str]:
    return [key for key, value in node.args.items() if value]
