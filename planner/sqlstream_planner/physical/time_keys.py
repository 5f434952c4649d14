"""Group by a time, not by its text: a key that formats one is formatted once per group, not once per row.

Formatting takes ten times as long as truncating, and a hash table of text is slower than one of numbers.
"""

from __future__ import annotations

import re

from sqlglot import exp

#: What a format must show so that equal texts come from equal truncated times, and what truncates to it.
_UNITS = (
    (frozenset("Ymd"), "day"),
    (frozenset("YmdH"), "hour"),
    (frozenset("YmdHM"), "minute"),
)


def time_of(key: exp.Expr) -> tuple[exp.Expr, exp.Literal | None]:
    """What to group by instead of `key`, and the format that makes `key` of it.

    That is `key` itself, and None, unless it is a text of a time's date (and hour, and minute) from which these
    can be read.

    >>> import sqlglot
    >>> by, layout = time_of(sqlglot.parse_one("STRFTIME(ts, '%d.%m.%Y')", read="duckdb"))
    >>> print(by.sql("duckdb"), layout)
    CAST(ts AS DATE) '%d.%m.%Y'
    >>> by, layout = time_of(sqlglot.parse_one("STRFTIME(ts, '%Y-%m')", read="duckdb"))
    >>> print(by.sql("duckdb"), layout)
    STRFTIME(ts, '%Y-%m') None
    """
    formatted = key.unnest()
    if isinstance(formatted, exp.TimeToStr) and not formatted.args.get("culture"):
        time, layout = formatted.this, formatted.args["format"]
    elif isinstance(formatted, exp.Anonymous) and formatted.name.lower() == "strftime":
        time, layout = formatted.expressions
    else:
        return key, None
    if not isinstance(layout, exp.Literal) or not layout.is_string:
        return key, None
    shown = re.findall(r"%(-?.)", layout.this)
    unit = next((unit for parts, unit in _UNITS if parts == set(shown) and len(shown) == len(parts)), None)
    if unit is None:
        return key, None
    if unit == "day":
        return exp.cast(time.copy(), exp.DataType.build("DATE")), layout
    return exp.Anonymous(this="date_trunc", expressions=[exp.Literal.string(unit), time.copy()]), layout


def text_of(time: exp.Expr, layout: exp.Literal) -> exp.Expr:
    """A time in the format that `time_of` found."""
    return exp.Anonymous(this="strftime", expressions=[time.copy(), layout.copy()])
