"""Where a syntax node is in the text: offsets into the SQL that was parsed.

The parser writes `node.meta["span"] = (start, end)` (half open) on what it makes; a node without one (sqlglot
makes some by itself) takes the union of what is below it.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

SPAN = "span"


class Meta(dict[str, Any]):
    """What is noted of a node: offsets and flags, which a copy of the node shares.

    sqlglot would copy them one by one, which takes longer than all else that planning does to a large expression.
    """

    def __deepcopy__(self, memo: object) -> Meta:
        return Meta(self)


def set_range(node: exp.Expr, start: int, end: int) -> None:
    """Record that `node` was read from `[start, end)`."""
    if type(node._meta) is not Meta:
        node._meta = Meta(node._meta or {})
    node._meta[SPAN] = (start, end)


def own_range(node: exp.Expr) -> tuple[int, int] | None:
    """The range recorded on this very node, ours or else sqlglot's, or None."""
    meta = node._meta
    if not meta:
        return None
    if SPAN in meta:
        return meta[SPAN]  # type: ignore[no-any-return]
    if meta.get("start") is not None and meta.get("end") is not None:
        return meta["start"], meta["end"] + 1
    return None


def range_of(node: exp.Expr) -> tuple[int, int] | None:
    """The range of `node`: its own, else the union of its descendants', else its parent's, else None."""
    found = own_range(node) or _below(node)
    while found is None and node.parent is not None:
        node = node.parent
        found = own_range(node)
    return found


def _below(node: exp.Expr) -> tuple[int, int] | None:
    low: int | None = None
    high = 0
    for child in node.iter_expressions():
        found = own_range(child) or _below(child)
        if found is not None:
            low = found[0] if low is None else min(low, found[0])
            high = max(high, found[1])
    return None if low is None else (low, high)
