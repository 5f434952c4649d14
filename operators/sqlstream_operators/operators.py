"""Which class runs which operator spec."""

from __future__ import annotations

from .changelog_spec import (
    DeduplicateSpec,
    DistinctValuesSpec,
    GroupAggregateSpec,
    NormalizeSpec,
    TopNSpec,
    WindowTopNSpec,
)
from .deduplicate import Deduplicate
from .distinct_values import DistinctValues
from .errors import InternalError
from .group_aggregate import GroupAggregate
from .normalize import Normalize
from .operator import Operator
from .spec import OperatorSpec, WindowAggregateSpec
from .top_n import TopN
from .window_aggregate import WindowAggregate
from .window_top_n import WindowTopN


def operator_of(spec: OperatorSpec) -> Operator:
    """The operator that runs a spec."""
    match spec:
        case WindowAggregateSpec():
            return WindowAggregate(spec)
        case GroupAggregateSpec():
            return GroupAggregate(spec)
        case DistinctValuesSpec():
            return DistinctValues(spec)
        case TopNSpec():
            return TopN(spec)
        case DeduplicateSpec():
            return Deduplicate(spec)
        case WindowTopNSpec():
            return WindowTopN(spec)
        case NormalizeSpec():
            return Normalize(spec)
    raise InternalError(f"no operator runs a {spec.kind}")
