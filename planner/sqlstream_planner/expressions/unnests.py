"""UNNEST inside expressions: where it is."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.sql.written_calls import WrittenCall, written_call

_UNNEST = ("unnest", "unlist")


def unnest_call(node: exp.Expr) -> WrittenCall | None:
    """The call of UNNEST that `node` is, None if it is nothing of the kind."""
    if not isinstance(node, exp.Anonymous | exp.Unnest | exp.Explode):
        return None
    call = written_call(node)
    return call if call is not None and call.name in _UNNEST else None


def unnests_of(expression: exp.Expr) -> list[exp.Expr]:
    """The outermost UNNESTs of an expression, without those of lambdas, sub-queries and OVERs: none can stand there.

    >>> import sqlglot
    >>> [u.sql("duckdb") for u in unnests_of(sqlglot.parse_one("UNNEST(a) + f(UNNEST(b))", dialect="duckdb"))]
    ['UNNEST(a)', 'UNNEST(b)']
    """
    found: list[exp.Expr] = []

    def visit(node: exp.Expr) -> None:
        if unnest_call(node) is not None:
            found.append(node)
        elif not isinstance(node, exp.Query | exp.Lambda | exp.Window):
            for child in node.iter_expressions():
                visit(child)

    visit(expression)
    return found


_LONG = 10_000
"""A series of more numbers than that is not made as one list."""
_SERIES = ("range", "generate_series")


def long_series(array: exp.Expr) -> str | None:
    """The table function, as SQL, that gives the elements of a long series of written numbers one by one; else None.

    >>> from sqlglot import parse_one
    >>> [long_series(parse_one(s, dialect="duckdb")) for s in ("f(1)", "a", "[1]")]
    [None, None, None]
    >>> long_series(exp.Anonymous(this="range", expressions=[parse_one("-5"), parse_one("1000000"), parse_one("2")]))
    'range(-5, 1000000, 2)'
    """
    call = array.unnest()
    if not isinstance(call, exp.Anonymous) or call.name.lower() not in _SERIES:
        return None
    numbers = [_whole(argument.unnest()) for argument in call.expressions]
    found = [n for n in numbers if n is not None]
    if not 1 <= len(numbers) <= 3 or len(found) < len(numbers):
        return None
    first, last, step = {1: (0, *found, 1), 2: (*found, 1)}.get(len(found), tuple(found))
    if step == 0 or abs(last - first) // abs(step) <= _LONG:
        return None
    return f"{call.name.lower()}({', '.join(map(str, found))})"


def _whole(node: exp.Expr) -> int | None:
    """The number that is written, None for what is no whole number of 64 bits."""
    negative = isinstance(node, exp.Neg)
    literal = node.this if negative else node
    if not isinstance(literal, exp.Literal) or literal.is_string or not str(literal.this).isdecimal():
        return None
    value = int(str(literal.this)) * (-1 if negative else 1)
    return value if -(2**63) < value < 2**63 else None
