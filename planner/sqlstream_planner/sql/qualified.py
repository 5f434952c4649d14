"""Names of tables with the database and the catalog before them, as one text and as parts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp

_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
_WORD = re.compile(r"[A-Za-z_]\w*")


def dotted(parts: Iterable[str]) -> str:
    """The parts of a name with dots between them; a part that has a dot itself is in backticks.

    >>> dotted(["lake", "a.b", "orders"])
    'lake.`a.b`.orders'
    """
    return ".".join(f"`{p.replace('`', '``')}`" if "." in p or "`" in p else p for p in parts)


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of a name as `dotted` writes it.

    >>> parts_of("lake.`a.b`.orders")
    ('lake', 'a.b', 'orders')
    """
    return tuple(
        quoted.replace("``", "`") if match.startswith("`") else plain
        for match, quoted, plain in ((m[0], m[1] or "", m[2] or "") for m in _PART.finditer(name))
    )


def as_columns(names: Iterable[str]) -> str:
    """Names of columns as a query has them, those that are no plain words in backticks.

    >>> as_columns(["id", "A b", "a`b"])
    'id, `A b`, `a``b`'
    """
    return ", ".join(n if _WORD.fullmatch(n) else f"`{n.replace('`', '``')}`" for n in names)


def table_parts(table: exp.Table) -> tuple[str, ...]:
    """The parts of the name of a table in a query."""
    return tuple(part.name for part in table.parts)


def name_of(table: exp.Table) -> str:
    """The name of a table in a query, as it was written."""
    return dotted(table_parts(table))
