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
    if not isinstance(below, Over) or [c.rank for c in below.calls] != ["row_number"]:
        return None
    every = _every(node, below)
    if every is None or streaming.changes(below.input) or not is_first_come(below.input, below.order):
        return None
    [call] = below.calls
    made: Node = EveryNth(below.input, below.partition, every, call.field, below.meaning, below.ttl_us)
    for step in reversed(path):
        made = replace(step, input=made)
    return made


def _every(node: Filter, over: Over) -> int | None:
    """The N of `number % N = 0` over the number of an OVER by arrival; None for any other condition."""
    test = node.predicate.unnest()
    mod = test.this.unnest() if isinstance(test, exp.EQ) else None
    if not isinstance(mod, exp.Mod) or not isinstance(test, exp.EQ) or test.expression.unnest().name != "0":
        return None
    number, every = mod.this.unnest(), mod.expression.unnest()
    if not isinstance(number, exp.Column) or not isinstance(every, exp.Literal) or not every.is_int:
        return None
    given = {f.id for f in over.input.fields}
    return int(every.name) if number.name not in given and int(every.name) > 0 else None
