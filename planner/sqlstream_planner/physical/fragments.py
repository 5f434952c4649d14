"""Stateless parts of the plan as blocks of SQL, each composed once, however many read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from sqlstream_operators.plan.spec import WEIGHT_COLUMN, FragmentStep
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.logical import Node, column, sql
from sqlstream_planner.physical.block import Block, stateless, weight
from sqlstream_planner.physical.by_stage import by_stage, reads_of
from sqlstream_planner.physical.stages import Stages

#: The blocks of a scan (with the source rows if needed) or an operator; None of a stateless node.
Leaf = Callable[[Node, bool], list[Block] | None]


class Fragments:
    """Composes stateless nodes into blocks, bottom up and without recursion.

    A node that is read more than once, and whose rows come as several blocks from one stage, becomes a relation of that
    stage: each of its readers would repeat all blocks, and a chain of such nodes would double them at each link.
    """

    def __init__(self, stages: Stages, consumers: Mapping[int, int], leaf: Leaf) -> None:
        self._stages = stages
        self._consumers = consumers
        self._leaf = leaf
        self._composed: dict[tuple[int, bool, bool], tuple[Node, list[Block]]] = {}

    def blocks(self, node: Node, *, rows: bool = False, timeless: bool = False) -> list[Block]:
        """The blocks whose rows together are the node's rows.

        `rows`: with the source rows as JSON, for dead letters. `timeless`: with rows that have no event time.
        """
        stack = [node]
        while stack:
            top = stack[-1]
            if (id(top), rows, timeless) in self._composed:
                stack.pop()
                continue
            found = self._leaf(top, rows)
            if found is None:
                missing = [i for i in top.inputs if (id(i), rows, timeless) not in self._composed]
                if missing:
                    stack += missing
                    continue
                inputs = [self._composed[id(i), rows, timeless][1] for i in top.inputs]
                found = self._once(top, stateless(top, inputs, timeless=timeless), materialized=not rows)
            self._composed[id(top), rows, timeless] = (top, found)
            stack.pop()
        return self._composed[id(node), rows, timeless][1]

    def _once(self, node: Node, blocks: list[Block], *, materialized: bool) -> list[Block]:
        stages = by_stage(blocks)
        if self._consumers.get(id(node), 0) < 2 or len(stages) == len(blocks):
            return blocks
        return [self._relation(stage, here, materialized) for stage, here in stages.items()]

    def _relation(self, stage: str, blocks: Sequence[Block], materialized: bool) -> Block:
        """Several blocks of one stage as one relation of it."""
        names = [id_ for id_ in blocks[0].columns if all(id_ in b.columns for b in blocks)]
        weighted = any(WEIGHT_COLUMN in b.columns for b in blocks)
        if weighted and WEIGHT_COLUMN not in names:
            names.append(WEIGHT_COLUMN)  # rows of the others come once
        texts = [
            b.select([(sql(weight(b) if name == WEIGHT_COLUMN else b.columns[name]), name) for name in names])
            for b in blocks
        ]
        step = FragmentStep(
            self._stages.name("shared"), "\nUNION ALL\n".join(texts), reads_of(blocks), materialized
        )
        self._stages[stage].steps.append(step)
        columns: dict[str, exp.Expr] = {name: column(name) for name in names}
        # A row of the source may be in several of the blocks.
        return Block(stage, quote_identifier(step.name), (step.name,), columns, multiplied=True)
