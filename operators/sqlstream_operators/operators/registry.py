"""Which class runs which operator spec."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

from sqlstream_operators.operators.aggregate.distinct_values import DistinctValues
from sqlstream_operators.operators.aggregate.group_aggregate import GroupAggregate
from sqlstream_operators.operators.changelog.changelog_normalize import ChangelogNormalize
from sqlstream_operators.operators.changelog.first_row import FirstRow
from sqlstream_operators.operators.join.arrange import Arrange
from sqlstream_operators.operators.join.interval_join import IntervalJoin
from sqlstream_operators.operators.join.join import Join
from sqlstream_operators.operators.join.temporal_join import TemporalJoin
from sqlstream_operators.operators.over.over import Over
from sqlstream_operators.operators.over.over_on_close import OverOnClose
from sqlstream_operators.operators.top_n.deduplicate import Deduplicate
from sqlstream_operators.operators.top_n.short_top_n import ShortTopN
from sqlstream_operators.operators.top_n.top_n import TopN
from sqlstream_operators.operators.top_n.window_top_n import WindowTopN
from sqlstream_operators.operators.window.session_aggregate import SessionAggregate
from sqlstream_operators.operators.window.session_windows import SessionWindows
from sqlstream_operators.operators.window.suppress_until_close import SuppressUntilClose
from sqlstream_operators.operators.window.window_aggregate import WindowAggregate
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

from .operator import Operator
from .time_to_live import TimeToLive


def _top_n(spec: TopNSpec) -> Operator:
    """The layout of the state says which: a short Top-N keeps a partition's rows in one value."""
    return ShortTopN(spec) if spec.state.tables[0].layout == "list" else TopN(spec)


#: What makes the operator of each class of specs.
OPERATORS: Mapping[type[OperatorSpec], Callable[[Any], Operator]] = {
    WindowAggregateSpec: WindowAggregate,
    GroupAggregateSpec: GroupAggregate,
    DistinctValuesSpec: DistinctValues,
    TopNSpec: _top_n,
    DeduplicateSpec: Deduplicate,
    WindowTopNSpec: WindowTopN,
    ChangelogNormalizeSpec: ChangelogNormalize,
    FirstRowSpec: FirstRow,
    SuppressUntilCloseSpec: SuppressUntilClose,
    JoinSpec: Join,
    ArrangeSpec: Arrange,
    TemporalJoinSpec: TemporalJoin,
    IntervalJoinSpec: IntervalJoin,
    OverSpec: Over,
    OverOnCloseSpec: OverOnClose,
    SessionWindowsSpec: SessionWindows,
    SessionAggregateSpec: SessionAggregate,
}


def operator_of(spec: OperatorSpec) -> Operator:
    """The operator that runs a spec, in a wrapper that forgets keys if the spec has a time to live."""
    ttl_us: int | None = getattr(spec, "ttl_us", None)
    if ttl_us is None:
        return OPERATORS[type(spec)](spec)
    operator = OPERATORS[type(spec)](replace(cast(Any, spec), ttl_us=None))
    lasting = spec.seed if isinstance(spec, GroupAggregateSpec) else None
    return TimeToLive(operator, spec.state, ttl_us, lasting)
