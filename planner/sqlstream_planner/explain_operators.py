"""Operators in `explain`: what each merges, keeps and emits."""

from __future__ import annotations

from sqlstream_operators.plan.changelog_spec import (
    ChangelogNormalizeSpec,
    DeduplicateSpec,
    DistinctValuesSpec,
    FirstRowSpec,
    GroupAggregateSpec,
    Ordering,
    SuppressUntilCloseSpec,
    TopNSpec,
    WindowTopNSpec,
)
from sqlstream_operators.plan.spec import OperatorSpec, Schema, WindowAggregateSpec
from sqlstream_planner.bind.windows import duration
from sqlstream_planner.logical_text import describe_window


def operator_title(spec: OperatorSpec) -> str:
    """An operator in two or three words.

    >>> operator_title.__name__
    'operator_title'
    """
    if isinstance(spec, WindowAggregateSpec):
        return f"{spec.window.kind.value} aggregate"
    return spec.kind.replace("_", " ")


def operator_lines(name: str, spec: OperatorSpec) -> list[str]:
    """The lines of an operator's step."""
    ttl_us = getattr(spec, "ttl_us", None)
    if ttl_us is None:
        return _operator_lines(name, spec)
    return [*_operator_lines(name, spec), f"    forgets keys that nothing touched for {duration(ttl_us)}"]


def _operator_lines(name: str, spec: OperatorSpec) -> list[str]:
    match spec:
        case WindowAggregateSpec():
            return _window_aggregate(name, spec)
        case GroupAggregateSpec():
            return _group_aggregate(name, spec)
        case DistinctValuesSpec():
            counted = "counted" if spec.retracting else "seen once"
            return [
                f"  {name} = values that come or go, {counted}, state {spec.state.state_id}",
                f"    keys {_columns(spec.keys) or 'none'}",
                f"    values {_columns(spec.values)} with {', '.join(spec.flags)}",
                *_sql("for each change", spec.emit),
            ]
        case TopNSpec() | WindowTopNSpec():
            kept = (
                "every row is kept" if isinstance(spec, TopNSpec) and spec.retracting else "the best are kept"
            )
            when = "when a window closes" if isinstance(spec, WindowTopNSpec) else "kept up to date"
            return [
                f"  {name} = {spec.function} {spec.offset + 1} to {spec.offset + spec.limit}, {when}, "
                f"state {spec.state.state_id}, {kept}",
                f"    partition {', '.join(spec.partition) or 'none'}",
                f"    order {_order(spec.order) or 'by all columns'}",
            ]
        case DeduplicateSpec():
            return [
                f"  {name} = first row of each key, state {spec.state.state_id}",
                f"    partition {', '.join(spec.partition)}",
                f"    order {_order(spec.order)}",
            ]
        case FirstRowSpec():
            return [
                f"  {name} = first row that comes of each key, state {spec.state.state_id}",
                f"    keys {', '.join(spec.keys)}",
            ]
        case SuppressUntilCloseSpec():
            return [
                f"  {name} = held until the window closes, corrections pass, state {spec.state.state_id}",
                f"    keys {', '.join(spec.keys)}, window end {spec.end}",
            ]
        case ChangelogNormalizeSpec():
            return [
                f"  {name} = last change of each key, state {spec.state.state_id}",
                f"    keys {', '.join(spec.keys)}",
            ]


def _window_aggregate(name: str, spec: WindowAggregateSpec) -> list[str]:
    lines = [f"  {name} = merge, state {spec.state.state_id}, {describe_window(spec.window, 'event time')}"]
    lines.append(f"    keys {_columns(spec.keys) or 'none'}")
    for column, merge in zip(spec.accumulators, spec.merge, strict=True):
        lines.append(f"    {column.name} {column.type} = {merge}")
    for distinct in spec.distincts:
        lines.append(
            f"    distinct {_columns(distinct.values)}"
            + (f" with {', '.join(distinct.flags)}" if distinct.flags else "")
        )
    lines.append(f"    when a window closes: {spec.emit}")
    return lines


def _group_aggregate(name: str, spec: GroupAggregateSpec) -> list[str]:
    lines = [f"  {name} = merge, kept up to date, state {spec.state.state_id}"]
    lines.append(f"    keys {_columns(spec.keys) or 'none'}")
    for column, merge in zip(spec.accumulators, spec.merge, strict=True):
        mark = ", the group's rows" if column.name == spec.presence else ""
        lines.append(f"    {column.name} {column.type} = {merge}{mark}")
    for counted in spec.multisets:
        read = {"first": "the first is read", "last": "the last is read", "all": "all are read"}[counted.pick]
        lines.append(f"    counted values {_columns(counted.values)}, {read}")
        for column, text in zip(counted.columns, counted.aggregates, strict=True):
            lines.append(f"      {column.name} {column.type} = {text}")
    if spec.expiry is not None:
        late = f", {duration(spec.expiry.lateness_us)} late" if spec.expiry.lateness_us else ""
        lines.append(f"    groups go when the watermark passes {spec.expiry.column}{late}")
    return [*lines, *_sql("for each group that changed", spec.emit)]


def _sql(what: str, text: str) -> list[str]:
    return [f"    {what}: {' '.join(text.split())}"]


def _order(order: tuple[Ordering, ...]) -> str:
    return ", ".join(
        f"{o.column}{' desc' if o.descending else ''}{' nulls first' if o.nulls_first else ''}" for o in order
    )


def _columns(schema: Schema) -> str:
    return ", ".join(f"{c.name} {c.type}" for c in schema)
