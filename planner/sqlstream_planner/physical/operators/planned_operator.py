"""What the planner knows of an operator, in one record: its node, how that is planned, how what runs is explained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream_operators.plan.spec import OperatorSpec
from sqlstream_planner.logical import Node, StreamingOperator
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.planner import Planner

#: Makes the lines of an operator's step in `explain` of the step's name and the spec.
Explain = Callable[[str, Any], list[str]]

CLOSES = "bounded: rows go when the watermark closes their last window"
ONE_ROW = "bounded: one row"
BY_LIMIT = "bounded by the limit"
GROWS = (
    "unbounded: it grows with the number of keys; SET 'table.exec.state.ttl' = '1 d' or the hint "
    "/*+ STATE_TTL('table' = '1d') */ forgets keys that nothing touched for so long, or group by a window"
)


@dataclass(frozen=True, slots=True)
class Explained:
    """How a spec is shown to people: the `lines` of its step, and what `bounds` a state that never forgets, or that nothing
    does. `title` is the operator in two or three words; None: its kind.
    """

    lines: Explain
    bounds: Callable[[Any], str]
    title: Callable[[Any], str] | None = None


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """How the node of an operator is planned, and how each spec that may come of it is explained."""

    node: type[StreamingOperator]
    plan: Callable[[Planner, Node], Block]
    explained: Mapping[type[OperatorSpec], Explained]


def closes(spec: OperatorSpec) -> str:
    """Of an operator whose state goes with the watermark."""
    return CLOSES


def grows(spec: OperatorSpec) -> str:
    """Of an operator that keeps something of each key; without a key that is one row, where rows have no sub-key."""
    one = all(not table.key and not table.sub_key for table in spec.state.tables)
    return ONE_ROW if one else GROWS
