"""Which class runs which operator spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.aggregate.distinct_values import DistinctValues
from sqlstream_operators.operators.aggregate.group_aggregate import GroupAggregate
from sqlstream_operators.operators.changelog.changelog_normalize import ChangelogNormalize
from sqlstream_operators.operators.changelog.first_row import FirstRow
from sqlstream_operators.operators.join.arrange import Arrange
from sqlstream_operators.operators.join.arranged_join import ArrangedJoin
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
from sqlstream_operators.plan.arranged_spec import ArrangedJoinSpec, ArrangeSpec
from sqlstream_operators.plan.changelog_normalize_spec import ChangelogNormalizeSpec
from sqlstream_operators.plan.distinct_values_spec import DistinctValuesSpec
from sqlstream_operators.plan.first_row_spec import FirstRowSpec
from sqlstream_operators.plan.group_aggregate_spec import GroupAggregateSpec
from sqlstream_operators.plan.interval_join_spec import IntervalJoinSpec
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.operator_spec import ReadingSpec
from sqlstream_operators.plan.over_spec import OverOnCloseSpec, OverSpec
from sqlstream_operators.plan.session_spec import SessionAggregateSpec, SessionWindowsSpec
from sqlstream_operators.plan.spec import OperatorSpec, check_registered
from sqlstream_operators.plan.suppress_until_close_spec import SuppressUntilCloseSpec
from sqlstream_operators.plan.temporal_join_spec import TemporalJoinSpec
from sqlstream_operators.plan.top_n_spec import DeduplicateSpec, TopNSpec, WindowTopNSpec
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec

from .operator import Operator, ReadingOperator
from .time_to_live import TimeToLive

Kept = Sequence[tuple[OperatorSpec, Operator]]


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

check_registered("OPERATORS (operators/registry.py)", OPERATORS)


#: What makes the operator of each class of specs without state, given the operators that it reads and their specs.
READERS: Mapping[type[ReadingSpec], Callable[[Any, Kept], ReadingOperator]] = {ArrangedJoinSpec: ArrangedJoin}


def operator_of(spec: OperatorSpec) -> Operator:
    """The operator that runs a spec, in a wrapper that forgets keys if the spec has a time to live.

    Raises InternalError for a spec of a class that is not among `OPERATORS`.
    """
    if spec.ttl_us is None:
        return _made(spec)
    return TimeToLive(_made(spec.living(None)), spec.state, spec.ttl_us, spec.facts.seed)


def reader_of(spec: ReadingSpec, kept: Iterable[OperatorSpec]) -> ReadingOperator:
    """The operator that runs a spec without state, over those that run `kept`, whose states it reads, in its order.

    Raises InternalError for a spec of a class that is not among `READERS`.
    """
    if type(spec) not in READERS:
        raise InternalError(f"no operator runs a {type(spec).__name__}")
    return READERS[type(spec)](spec, [(one, operator_of(one)) for one in kept])


def _made(spec: OperatorSpec) -> Operator:
    if type(spec) not in OPERATORS:
        raise InternalError(f"no operator runs a {type(spec).__name__}")
    made = OPERATORS[type(spec)](spec)
    for fact, method in (("keeps_answer", "answer"), ("view", "shown")):
        if getattr(spec.facts, fact) and not hasattr(made, method):
            raise InternalError(
                f"{type(spec).__name__} has `{fact}`, and {type(made).__name__} no `{method}`"
            )
    return made
