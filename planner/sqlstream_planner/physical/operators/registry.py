"""The operators that the planner knows: one line per operator, whose own file has the record."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream_operators.plan.spec import OperatorSpec, check_registered
from sqlstream_planner.physical.operators import (
    arrangement,
    changelog_normalize,
    first_row,
    group_aggregate,
    interval_join,
    join,
    over,
    session_aggregate,
    session_windows,
    suppress_until_close,
    temporal_join,
    top_n,
    window_aggregate,
)
from sqlstream_planner.physical.operators.planned_operator import Explained, PlannedOperator
from sqlstream_planner.physical.planner import Operators

PLANNED: tuple[PlannedOperator, ...] = (
    window_aggregate.OPERATOR,
    group_aggregate.OPERATOR,
    suppress_until_close.OPERATOR,
    over.OPERATOR,
    top_n.OPERATOR,
    changelog_normalize.OPERATOR,
    interval_join.OPERATOR,
    arrangement.OPERATOR,
    join.OPERATOR,
    temporal_join.OPERATOR,
    session_windows.OPERATOR,
    session_aggregate.OPERATOR,
    first_row.OPERATOR,
)

OPERATORS: Operators = {operator.node: operator.plan for operator in PLANNED}
EXPLAINED: Mapping[type[OperatorSpec], Explained] = {
    spec: explained for operator in PLANNED for spec, explained in operator.explained.items()
}
check_registered("PLANNED (physical/operators/registry.py)", EXPLAINED)
