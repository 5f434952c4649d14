"""Which class runs which operator spec."""

from __future__ import annotations

from dataclasses import replace

from .changelog_spec import (
    DeduplicateSpec,
    DistinctValuesSpec,
    GroupAggregateSpec,
    KeepFirstSpec,
    NormalizeSpec,
    TopNSpec,
    WindowGateSpec,
    WindowTopNSpec,
)
from .deduplicate import Deduplicate
from .distinct_values import DistinctValues
from .errors import InternalError
from .group_aggregate import GroupAggregate
from .keep_first import KeepFirst
from .normalize import Normalize
from .operator import Operator
from .short_top_n import ShortTopN
from .spec import OperatorSpec, WindowAggregateSpec
from .top_n import TopN
from .ttl import TimeToLive
from .window_aggregate import WindowAggregate
from .window_gate import WindowGate
from .window_top_n import WindowTopN


def operator_of(spec: OperatorSpec) -> Operator:
    """The operator that runs a spec."""
    if isinstance(spec, WindowAggregateSpec | WindowTopNSpec | WindowGateSpec):
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
        case NormalizeSpec():
            return Normalize(spec)
        case KeepFirstSpec():
            return KeepFirst(spec)
        case WindowGateSpec():
            return WindowGate(spec)
    raise InternalError(f"no operator runs a {spec.kind}")


def emits_changes(spec: OperatorSpec) -> bool:
    """Whether what the operator emits has WEIGHT_COLUMN."""
    if isinstance(spec, WindowGateSpec):
        return spec.retracts
    return not isinstance(spec, WindowAggregateSpec | WindowTopNSpec | DistinctValuesSpec)
