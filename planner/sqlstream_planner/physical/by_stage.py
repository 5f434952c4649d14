"""Blocks by their stages: the stages that their rows are in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.logical import Node, column
from sqlstream_planner.physical.block import Block


def each(make: Callable[[Block], str]) -> Callable[[Sequence[Block]], str]:
    """What `make` gives for each of some blocks, together."""
    return lambda blocks: "\nUNION ALL\n".join(make(b) for b in blocks)


def reads_of(blocks: Sequence[Block]) -> tuple[str, ...]:
    """The relations that some blocks read, each once."""
    return tuple(dict.fromkeys(name for block in blocks for name in block.reads))


def by_stage(blocks: Sequence[Block]) -> dict[str, list[Block]]:
    """The blocks of each stage, by its id."""
    grouped: dict[str, list[Block]] = {}
    for block in blocks:
        grouped.setdefault(block.stage, []).append(block)
    return grouped


def result_of(name: str, node: Node, *, weighted: bool) -> Block:
    """What an operator gives, in a stage of its name; `weighted`: its rows can be retracted."""
    columns: dict[str, exp.Expr] = {f.id: column(f.id) for f in node.fields}
    if weighted:
        columns[WEIGHT_COLUMN] = column(WEIGHT_COLUMN)
    return Block(name, quote_identifier(name), (name,), columns)
