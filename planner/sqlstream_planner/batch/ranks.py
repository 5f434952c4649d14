"""OverWindow as functions over a window, OrderLimit as ORDER BY … LIMIT."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.batch.select import Select, beside, names
from sqlstream_planner.logical import OrderLimit, OrderTerm, OverWindow, WindowCall, column
from sqlstream_planner.windows.over_calls import call_sql, frame_sql, goes_by_row


def over_window(node: OverWindow, below: Select, *, once: bool = False) -> str:
    """The rows with the functions' values beside each; `once`: a row without an event time is never given."""
    closing = node.closed_by
    if once and closing is not None:
        time = exp.Not(this=exp.Is(this=below.over(column(closing.id)), expression=exp.Null()))
        below = replace(below, where=(*below.where, time), named=False)
    ids = [f.id for f in node.input.fields]
    items = [f"{_called(node, call)} AS {names([call.field.id])}" for call in node.calls]
    return beside(below, ids, ",\n  ".join(items))


def _called(node: OverWindow, call: WindowCall) -> str:
    """A call with its window: rows that are equal in ORDER BY stand in the order of the ties wherever that shows."""
    ties = node.ties or ()
    order = _order(node.order, ties if goes_by_row(call) else ())
    parts = [
        f"PARTITION BY {names(node.partition)}" if node.partition else "",
        f"ORDER BY {order}" if order else "",
        frame_sql(call),
    ]
    over = " ".join(part for part in parts if part)
    return f"{call_sql(call, _order(node.order, ties))} OVER ({over})"


def limited(node: OrderLimit, below: Select) -> str:
    """The rows that are left."""
    ids = [f.id for f in node.fields]
    order = _order(node.order, node.ties or ())
    text = f"SELECT {names(ids)}\nFROM {below.as_item('__rows', ids)}"
    text += f"\nORDER BY {order}" if order else ""
    return f"{text}\nLIMIT {node.limit}" + (f" OFFSET {node.offset}" if node.offset else "")


def _order(terms: Iterable[OrderTerm], ties: Iterable[str]) -> str:
    return ", ".join([*(t.sql for t in terms), *(f"{names([id_])} ASC NULLS FIRST" for id_ in ties)])
