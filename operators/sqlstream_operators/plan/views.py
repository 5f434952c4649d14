"""Which operators can show what they would give now, as plain data: `operators.views` does it. Importable without Arrow."""

from __future__ import annotations

from sqlstream_operators.plan.changelog_spec import (
    ChangelogNormalizeSpec,
    DeduplicateSpec,
    GroupAggregateSpec,
    SuppressUntilCloseSpec,
    TopNSpec,
    WindowTopNSpec,
)
from sqlstream_operators.plan.over_spec import OverSpec
from sqlstream_operators.plan.spec import OperatorSpec, WindowAggregateSpec


def has_view(spec: OperatorSpec) -> bool:
    """Whether an operator can show what it would give."""
    return view_table(spec) is not None or isinstance(spec, WindowAggregateSpec | WindowTopNSpec)


def view_table(spec: OperatorSpec) -> str | None:
    """The state table whose rows can be shown a few at a time, each key's by themselves; None: all of a shard at once."""
    match spec:
        case GroupAggregateSpec() | TopNSpec() | DeduplicateSpec():
            return spec.state.tables[0].name
        case ChangelogNormalizeSpec() | SuppressUntilCloseSpec() | OverSpec():
            return spec.state.tables[0].name
    return None
