"""Which class runs which operator spec."""

from __future__ import annotations

from .changelog_spec import NormalizeSpec
from .errors import InternalError
from .normalize import Normalize
from .operator import Operator
from .spec import OperatorSpec, WindowAggregateSpec
from .window_aggregate import WindowAggregate


def operator_of(spec: OperatorSpec) -> Operator:
    """The operator that runs a spec."""
    match spec:
        case WindowAggregateSpec():
            return WindowAggregate(spec)
        case NormalizeSpec():
            return Normalize(spec)
    raise InternalError(f"no operator runs a {spec.kind}")
