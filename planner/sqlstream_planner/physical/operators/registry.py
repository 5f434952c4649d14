"""The operators: how each one's node is planned, and how what runs is explained. One line an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlstream_operators.plan.arranged_spec import ArrangeSpec
from sqlstream_operators.plan.changelog_spec import (
    ChangelogNormalizeSpec,
    DeduplicateSpec,
    DistinctValuesSpec,
    FirstRowSpec,
    GroupAggregateSpec,
    JoinSpec,
    SuppressUntilCloseSpec,
    TopNSpec,
    WindowTopNSpec,
)
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.over_spec import OverOnCloseSpec, OverSpec
from sqlstream_operators.plan.session_spec import SessionAggregateSpec, SessionWindowsSpec
from sqlstream_operators.plan.spec import OperatorSpec, WindowAggregateSpec
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_planner.logical import (
    Arrangement,
    ChangelogNormalize,
    FirstRow,
    GroupAggregate,
    IntervalJoin,
    Node,
    Over,
    RegularJoin,
    SessionAggregate,
    SessionWindows,
    TemporalJoin,
    TopN,
    WindowAggregate,
)
from sqlstream_planner.logical import SuppressUntilClose as Suppress
from sqlstream_planner.physical.block import Block
from sqlstream_planner.physical.operators import (
    arrangement,
    distinct_values,
    first_row,
    interval_join,
    join,
    over,
    over_on_close,
    temporal_join,
    top_n,
)
from sqlstream_planner.physical.operators import changelog_normalize as changelog
from sqlstream_planner.physical.operators import group_aggregate as group
from sqlstream_planner.physical.operators import session_aggregate as session_groups
from sqlstream_planner.physical.operators import session_windows as session
from sqlstream_planner.physical.operators import suppress_until_close as suppress
from sqlstream_planner.physical.operators import window_aggregate as window
from sqlstream_planner.physical.planner import Operators, Planner

#: Makes the lines of an operator's step in `explain` of the step's name and the spec.
Explain = Callable[[str, Any], list[str]]


@dataclass(frozen=True, slots=True)
class PlannedOperator:
    """How the node of an operator is planned, and how each spec that may come of it is explained."""

    plan: Callable[[Planner, Node], Block]
    explain: Mapping[type[OperatorSpec], Explain]


_TOP_N: Mapping[type[OperatorSpec], Explain] = {
    TopNSpec: top_n.explain_top_n,
    WindowTopNSpec: top_n.explain_top_n,
    DeduplicateSpec: top_n.explain_deduplicate,
}
_GROUP: Mapping[type[OperatorSpec], Explain] = {
    GroupAggregateSpec: group.explain_group_aggregate,
    DistinctValuesSpec: distinct_values.explain_distinct_values,
}

BY_NODE: Mapping[type[Node], PlannedOperator] = {
    WindowAggregate: PlannedOperator(
        window.plan_window_aggregate, {WindowAggregateSpec: window.explain_window_aggregate}
    ),
    GroupAggregate: PlannedOperator(group.plan_group_aggregate, _GROUP),
    Suppress: PlannedOperator(
        suppress.plan_suppress_until_close, {SuppressUntilCloseSpec: suppress.explain_suppress_until_close}
    ),
    Over: PlannedOperator(
        over.plan_over, {OverSpec: over.explain_over, OverOnCloseSpec: over_on_close.explain_over_on_close}
    ),
    TopN: PlannedOperator(top_n.plan_top_n, _TOP_N),
    ChangelogNormalize: PlannedOperator(
        changelog.plan_changelog_normalize, {ChangelogNormalizeSpec: changelog.explain_changelog_normalize}
    ),
    IntervalJoin: PlannedOperator(
        interval_join.plan_interval_join, {IntervalJoinSpec: interval_join.explain_interval_join}
    ),
    Arrangement: PlannedOperator(
        arrangement.plan_arrangement, {ArrangeSpec: arrangement.explain_arrangement}
    ),
    RegularJoin: PlannedOperator(join.plan_join, {JoinSpec: join.explain_join}),
    TemporalJoin: PlannedOperator(
        temporal_join.plan_temporal_join, {TemporalJoinSpec: temporal_join.explain_temporal_join}
    ),
    SessionWindows: PlannedOperator(
        session.plan_session_windows, {SessionWindowsSpec: session.explain_session_windows}
    ),
    SessionAggregate: PlannedOperator(
        session_groups.plan_session_aggregate,
        {SessionAggregateSpec: session_groups.explain_session_aggregate},
    ),
    FirstRow: PlannedOperator(first_row.plan_first_row, {FirstRowSpec: first_row.explain_first_row}),
}

OPERATORS: Operators = {node: operator.plan for node, operator in BY_NODE.items()}
EXPLANATIONS: Mapping[type[OperatorSpec], Explain] = {
    spec: explain for operator in BY_NODE.values() for spec, explain in operator.explain.items()
}
