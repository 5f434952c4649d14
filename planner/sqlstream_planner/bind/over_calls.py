"""How the function of an OVER is written: FILTER, IGNORE NULLS and an ORDER BY of its own stand around and inside it."""

from __future__ import annotations

from sqlglot import exp

from sqlstream_planner.sql.written_calls import WrittenCall, written_call

_VALUES: dict[str, type[exp.Func]] = {"first": exp.FirstValue, "last": exp.LastValue}


def as_values(window: exp.Window) -> None:
    """Make FIRST(x) and LAST(x) of an OVER the FIRST_VALUE and LAST_VALUE that they are there, in place.

    >>> import sqlglot
    >>> from sqlstream_planner.sql.dialect import SqlStream
    >>> [window] = sqlglot.parse_one("SELECT first(x IGNORE NULLS) OVER ()", dialect=SqlStream).expressions
    >>> as_values(window)
    >>> window.sql("duckdb")
    'FIRST_VALUE(x IGNORE NULLS) OVER ()'
    """
    written = function_of(window)
    call = written_call(written)
    if call is None or not isinstance(written, exp.Anonymous) or call.name not in _VALUES:
        return
    if len(written.expressions) != 1:
        return
    nulls = written.find(exp.IgnoreNulls, exp.RespectNulls)
    if nulls is not None and nulls.find_ancestor(exp.Anonymous) is written:
        nulls.replace(nulls.this)
    else:
        nulls = None
    made: exp.Expr = _VALUES[call.name](this=written.expressions[0])
    made.meta.update(written.meta)
    if nulls is not None:
        made = type(nulls)(this=made)
        made.meta.update(written.meta)
    written.replace(made)


def call_of(window: exp.Window) -> WrittenCall | None:
    """The function of an OVER; None: it is no plain call, such as one with WITHIN GROUP."""
    return written_call(function_of(window))


def without_order(window: exp.Window) -> tuple[exp.Window, exp.Order | None]:
    """An OVER without the ORDER BY inside its function, and that.

    >>> import sqlglot
    >>> from sqlstream_planner.sql.dialect import SqlStream
    >>> [window] = sqlglot.parse_one("SELECT rank(ORDER BY x DESC) OVER ()", dialect=SqlStream).expressions
    >>> [part.sql("duckdb") for part in without_order(window)]
    ['RANK() OVER ()', 'ORDER BY x DESC']
    """
    call = call_of(window)
    if call is None or call.order is None:
        return window, None
    window = window.copy()
    call = call_of(window)
    assert call is not None
    order = call.order
    assert order is not None
    if order.this is None:
        order.pop()
    else:
        order.replace(order.this)
    return window, order


def function_of(window: exp.Window) -> exp.Expr:
    """The function of an OVER without FILTER and IGNORE NULLS."""
    inner: exp.Expr = window.this.unnest()
    while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        inner = inner.this
    return inner
