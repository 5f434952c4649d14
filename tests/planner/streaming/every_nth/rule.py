"""The rule that makes it: `planner/sqlstream_planner/rules/streaming/every_nth.py`."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sqlstream_planner.logical import Filter, Node, Project
from sqlstream_planner.logical.arrival import is_first_come
from sqlstream_planner.rules.streaming.node_rules import Streaming
from sqlstream_planner.streaming import Over
from tests.planner.streaming.every_nth.node import EveryNth


def every_nth(node: Node, streaming: Streaming) -> Node | None:
    """WHERE number % 3 = 0 over ROW_NUMBER() OVER (PARTITION BY k ORDER BY PROCTIME())  ->  every nth."""
    if not isinstance(node, Filter):
        return None
    path: list[Project] = []
    below = node.input
    while isinstance(below, Project):
        path.append(below)
        below = below.input
    # `closing`: its rows are held back until the watermark has passed them, which this operator does not do.
    if (
        not isinstance(below, Over)
        or below.closing is not None
        or [c.rank for c in below.calls] != ["row_number"]
    ):
        return None
    every = _every(node, path, below)
    # By arrival and place alone: any other order among the rows of an epoch would number them otherwise than they come.
    first_come = len(below.order) == 2 and is_first_come(below.input, below.order)
    if every is None or streaming.changes(below.input) or not first_come:
        return None
    [call] = below.calls
    made: Node = EveryNth(below.input, below.partition, every, call.field, below.meaning, below.ttl_us)
    for step in reversed(path):
        made = replace(step, input=made)
    return made


def _every(node: Filter, path: list[Project], over: Over) -> int | None:
    """The N of `number % N = 0` over the number that an OVER gives; None for any other condition."""
    test = node.predicate.unnest()
    mod = test.this.unnest() if isinstance(test, exp.EQ) else None
    if not isinstance(mod, exp.Mod) or not isinstance(test, exp.EQ) or test.expression.unnest().name != "0":
        return None
    number, every = mod.this.unnest(), mod.expression.unnest()
    if not isinstance(every, exp.Literal) or not every.is_int or int(every.name) <= 0:
        return None
    # What it is called above is not what it is: each projection between may compute another column of that name.
    for step in path:
        items = {str(f.id): item.unnest() for f, item in zip(step.fields, step.items, strict=True)}
        number = items.get(number.name) if isinstance(number, exp.Column) else None
    is_number = isinstance(number, exp.Column) and number.name == over.calls[0].field.id
    return int(every.name) if is_number else None
