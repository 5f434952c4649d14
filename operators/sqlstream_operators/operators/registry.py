"""Which class runs which operator spec."""

from __future__ import annotations

from dataclasses import replace

from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.aggregate.distinct_values import DistinctValues
from sqlstream_operators.operators.aggregate.group_aggregate import GroupAggregate
from sqlstream_operators.operators.changelog.changelog_normalize import ChangelogNormalize
from sqlstream_operators.operators.changelog.first_row import FirstRow
from sqlstream_operators.operators.top_n.deduplicate import Deduplicate
from sqlstream_operators.operators.top_n.short_top_n import ShortTopN
from sqlstream_operators.operators.top_n.top_n import TopN
from sqlstream_operators.operators.top_n.window_top_n import WindowTopN
from sqlstream_operators.operators.window.suppress_until_close import SuppressUntilClose
from sqlstream_operators.operators.window.window_aggregate import WindowAggregate
from sqlstream_operators.plan.changelog_spec import (
    ChangelogNormalizeSpec,
    DeduplicateSpec,
    DistinctValuesSpec,
    FirstRowSpec,
    GroupAggregateSpec,
    SuppressUntilCloseSpec,
    TopNSpec,
    WindowTopNSpec,
)
from sqlstream_operators.plan.spec import OperatorSpec, WindowAggregateSpec

from .operator import Operator
from .time_to_live import TimeToLive


def operator_of(spec: OperatorSpec) -> Operator:
    """The operator that runs a spec."""
    if isinstance(spec, WindowAggregateSpec | WindowTopNSpec | SuppressUntilCloseSpec):
        return _operator_of(spec)
    if spec.ttl_us is not None:
        lasting = spec.seed if isinstance(spec, GroupAggregateSpec) else None
        return TimeToLive(_operator_of(replace(spec, ttl_us=None)), spec.state, spec.ttl_us, lasting)
    return _operator_of(spec)


def _operator_of(spec: OperatorSpec) -> Operator:
    match spec:
        case WindowAggregateSpec():
            return WindowAggregate(spec)
        case GroupAggregateSpec():
            return GroupAggregate(spec)
        case DistinctValuesSpec():
            return DistinctValues(spec)
        case TopNSpec():
            return ShortTopN(spec) if spec.state.tables[0].layout == "list" else TopN(spec)
        case DeduplicateSpec():
            return Deduplicate(spec)
        case WindowTopNSpec():
            return WindowTopN(spec)
        case ChangelogNormalizeSpec():
            return ChangelogNormalize(spec)
        case FirstRowSpec():
            return FirstRow(spec)
        case SuppressUntilCloseSpec():
            return SuppressUntilClose(spec)
    raise InternalError(f"no operator runs a {spec.kind}")


def emits_changes(spec: OperatorSpec) -> bool:
    """Whether what the operator emits has WEIGHT_COLUMN."""
    if isinstance(spec, SuppressUntilCloseSpec):
        return spec.retracts
    return not isinstance(spec, WindowAggregateSpec | WindowTopNSpec | DistinctValuesSpec)
