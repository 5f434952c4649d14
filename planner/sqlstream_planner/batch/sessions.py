"""SESSION as gaps and islands: where the row before is further away than the gap, a session begins."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.batch.select import Select, indented, names
from sqlstream_planner.logical import SessionFunction, sql


def in_sessions(node: SessionFunction, below: Select) -> str:
    """The rows with the bounds of their session, in the order in which they came; rows without a time are in none."""
    time = below.columns[node.time_column]
    present = exp.Not(this=exp.Is(this=time.copy(), expression=exp.Null()))
    below = replace(below, where=(*below.where, present))
    gap = node.window.size_us
    ids = [f.id for f in node.input.fields]
    extra = [(f"epoch_us({sql(time)})", "__us"), ("row_number() OVER ()", "__came")]
    rows = below.as_item("__rows", ids, extra)
    by = f"PARTITION BY {names(node.partition)} " if node.partition else ""
    islands = f"PARTITION BY {names([*node.partition, '__island'])}"
    begins = f'coalesce("__us" - lag("__us") OVER ({by}ORDER BY "__us") > {gap}, TRUE)'
    marked = f'SELECT *, CAST({begins} AS INTEGER) AS "__begins"\nFROM {rows}'
    numbered = (
        f'SELECT *, sum("__begins") OVER ({by}ORDER BY "__us" RANGE UNBOUNDED PRECEDING) AS "__island"\n'
        f"FROM (\n{indented(marked)}\n) AS __marked"
    )
    bounded = (
        f'SELECT *, min("__us") OVER ({islands}) AS "__first", max("__us") OVER ({islands}) AS "__last"\n'
        f"FROM (\n{indented(numbered)}\n) AS __numbered"
    )
    maker = "make_timestamptz" if node.time.type.kind is Kind.TIMESTAMPTZ else "make_timestamp"
    items = [
        *([names(ids)] if ids else []),
        f'make_timestamp("__first") AS {names([node.start.id])}',
        f'make_timestamp("__last" + {gap}) AS {names([node.end.id])}',
        f'{maker}("__last" + {gap - 1_000}) AS {names([node.time.id])}',
    ]
    listed = ",\n  ".join(items)
    return f'SELECT\n  {listed}\nFROM (\n{indented(bounded)}\n) AS __bounded\nORDER BY "__came"'
