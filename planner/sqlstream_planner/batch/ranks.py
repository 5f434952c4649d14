"""OverWindow as a function over a window, OrderLimit as ORDER BY … LIMIT."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream_planner.batch.select import Select, beside, names
from sqlstream_planner.logical import OrderLimit, OrderTerm, OverWindow, WindowCall, sql

#: Functions that tell rows apart which are equal by ORDER BY.
_NUMBERING = frozenset({"row_number", "ntile", "lag", "lead"})


def over_window(node: OverWindow, below: Select) -> str:
    """The rows with the function's value beside each."""
    call = node.call
    numbers = call.name in _NUMBERING or call.frame.upper().startswith("ROWS")
    order = _order(node.order, node.ties or () if numbers else ())
    parts = [
        f"PARTITION BY {names(node.partition)}" if node.partition else "",
        f"ORDER BY {order}" if order else "",
        call.frame,
    ]
    over = " ".join(part for part in parts if part)
    return _beside(node, below, f"{_called(call)} OVER ({over})")


def _beside(node: OverWindow, below: Select, text: str) -> str:
    ids = [f.id for f in node.input.fields]
    return beside(below, ids, f"{text} AS {names([node.call.field.id])}")


def _called(call: WindowCall) -> str:
    inside = ", ".join(sql(a) for a in call.arguments)
    distinct = "DISTINCT " if call.distinct else ""
    nulls = " IGNORE NULLS" if call.ignore_nulls else ""
    where = f" FILTER (WHERE {sql(call.filter)})" if call.filter is not None else ""
    return f"{call.name}({distinct}{inside}{nulls}){where}"


def limited(node: OrderLimit, below: Select) -> str:
    """The rows that are left."""
    ids = [f.id for f in node.fields]
    order = _order(node.order, node.ties or ())
    text = f"SELECT {names(ids)}\nFROM {below.as_item('__rows', ids)}"
    text += f"\nORDER BY {order}" if order else ""
    return f"{text}\nLIMIT {node.limit}" + (f" OFFSET {node.offset}" if node.offset else "")


def _order(terms: Iterable[OrderTerm], ties: Iterable[str]) -> str:
    return ", ".join([*(t.sql for t in terms), *(f"{names([id_])} ASC NULLS FIRST" for id_ in ties)])
