"""Aggregate as GROUP BY."""

from __future__ import annotations

from sqlstream_planner.aggregates.batch import in_any_order, in_order_of_arrival
from sqlstream_planner.batch.select import Select, names
from sqlstream_planner.logical import Aggregate, columns_of, sql


def grouped(node: Aggregate, below: Select, *, in_order: bool) -> str:
    """The groups of a node; `in_order`: aggregates take rows as they arrive, else the multiset of them decides."""
    keys = list(zip(node.keys, node.key_expressions, strict=True))
    if not node.calls and node.grouping is None and keys:
        listed = [(sql(below.over(e)), f.id) for f, e in keys]
        return below.text(listed, distinct=True)
    call = in_order_of_arrival if in_order else in_any_order
    of_calls = node.expressions()[len(node.key_expressions) :]
    read = set().union(*(columns_of(e) for e in of_calls))
    rows = below.as_item(
        "__rows",
        [f.id for f in node.input.fields if f.id in read],
        [(sql(below.over(e)), f.id) for f, e in keys],
    )
    items = [names([f.id]) for f in node.keys]
    by = names(f.id for f in node.keys)
    if node.grouping is not None:
        items.append(f"{f'grouping({by})' if by else '0'} AS {names([node.grouping.id])}")
    items += [f"{call(c)} AS {names([c.field.id])}" for c in node.calls]
    if node.grouping is not None:
        sets = ", ".join(f"({names(node.keys[i].id for i in chosen)})" for chosen in node.sets)
        by = f"GROUPING SETS ({sets})"
    listed_items = ",\n  ".join(items or ["count(*) AS __one"])
    return f"SELECT\n  {listed_items}\nFROM {rows}" + (f"\nGROUP BY {by}" if by else "")
