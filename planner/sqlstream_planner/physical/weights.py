"""How often a row is there."""

from __future__ import annotations

from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_planner.logical import sql
from sqlstream_planner.physical.block import Block


def weight_of(block: Block) -> str | None:
    """The weight of a block's rows as SQL; None if every row is inserted once."""
    weight = block.columns.get(WEIGHT_COLUMN)
    return sql(weight) if weight is not None else None
