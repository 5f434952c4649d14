"""Which columns of an operator's output are columns of its state as they are."""

from __future__ import annotations

import sqlglot
from sqlglot import exp


def bare_columns(emit: str) -> dict[str, str]:
    """For each column that the SELECT `emit` gives unchanged: its name in what is read -> its first name in the result.

    >>> bare_columns('SELECT "a" AS "x", "a" AS "y", CAST("b" AS BIGINT) AS "z" FROM merged')
    {'a': 'x'}
    """
    found: dict[str, str] = {}
    select = sqlglot.parse_one(emit, read="duckdb")
    for item in select.expressions:
        bare = item.this if isinstance(item, exp.Alias) else item
        if isinstance(bare, exp.Column):
            found.setdefault(bare.name, item.alias_or_name)
    return found
