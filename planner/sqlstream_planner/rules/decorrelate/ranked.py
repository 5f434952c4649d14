"""ORDER BY … LIMIT for each row around a sub-query  ->  the rows with the first ranks of each value that it compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlstream_operators.plan.types import BIGINT
from sqlstream_planner.logical import (
    ColumnId,
    Emission,
    Filter,
    Node,
    OrderLimit,
    OverWindow,
    WindowCall,
    raw,
)
from sqlstream_planner.rules.decorrelate.subquery import Subquery


def by_more(node: OverWindow, more: Sequence[str]) -> OverWindow:
    """The node whose partitions are distinguished by more columns, which are read behind it."""
    added = [ColumnId(id_) for id_ in more if id_ not in node.partition]
    ties = node.ties
    if ties is not None:
        ties = (*ties, *(id_ for id_ in added if id_ not in ties))
    return replace(node, partition=(*node.partition, *added), ties=ties)


def limited(subquery: Subquery, node: OrderLimit, rows: Node, partition: Sequence[str]) -> Node:
    """The rows that a LIMIT leaves of each partition of `rows`, with a column more."""
    rank = subquery.new("rank", BIGINT, nullable=False)
    call = WindowCall(rank, "row_number")
    over = OverWindow(rows, (), node.order, (call,), node.ties, at=subquery.apply.at)
    over = by_more(over, partition)
    if over.waits_for_time:
        over = replace(over, emission=Emission(changes=True))
    condition = f'"{rank.id}" <= {node.offset + node.limit}'
    if node.offset:
        condition = f'"{rank.id}" > {node.offset} AND {condition}'
    return Filter(over, raw(condition))
