"""CREATE TABLE … LIKE: what a table takes over from another one, by Flink's rules.

By default everything is taken over (INCLUDING) and options may be set again (OVERWRITING). `ALL` sets the
strategy of every feature, then the rules for single features count, in whatever order they are written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from sqlstream_planner.diagnostics import Diagnostic
from sqlstream_planner.sql.statements import (
    Column,
    ComputedColumn,
    CreateTable,
    Like,
    LikeFeature,
    LikeStrategy,
    MetadataColumn,
    Option,
)

_T = TypeVar("_T")
_CAN_OVERWRITE = (
    LikeFeature.OPTIONS,
    LikeFeature.GENERATED,
    LikeFeature.METADATA,
    LikeFeature.WATERMARKS,
)


def merge_like(
    table: CreateTable, source: CreateTable, like: Like, errors: list[Diagnostic]
) -> CreateTable | None:
    """`table` with what it takes over from `source`; adds to `errors` what contradicts (CAT003, CAT011).

    None when the rules themselves make no sense.
    """
    strategy = _strategies(like, errors)
    if strategy is None:
        return None

    def one(feature: LikeFeature, what: str, base: _T | None, own: _T | None) -> _T | None:
        if strategy[feature] is LikeStrategy.EXCLUDING or base is None:
            return own
        if own is None:
            return base
        if strategy[feature] is LikeStrategy.INCLUDING:
            message = f"`{like.source}` has a {what} already"
            help_ = f"write LIKE {like.source} (EXCLUDING {feature})"
            errors.append(Diagnostic("CAT011", message, like.span, (), help_))
        return own

    partitions = one(
        LikeFeature.PARTITIONS, "PARTITIONED BY", source.partitioned_by or None, table.partitioned_by or None
    )
    return replace(
        table,
        columns=_columns(table, source, strategy, errors),
        watermark=one(LikeFeature.WATERMARKS, "WATERMARK", source.watermark, table.watermark),
        primary_key=one(LikeFeature.CONSTRAINTS, "PRIMARY KEY", source.primary_key, table.primary_key),
        partitioned_by=partitions or (),
        partition_span=table.partition_span or source.partition_span,
        options=_options(table, source, strategy[LikeFeature.OPTIONS], errors),
    )


def _strategies(like: Like, errors: list[Diagnostic]) -> dict[LikeFeature, LikeStrategy] | None:
    result = dict.fromkeys(LikeFeature, LikeStrategy.INCLUDING)
    result[LikeFeature.OPTIONS] = LikeStrategy.OVERWRITING
    seen: set[LikeFeature] = set()
    for strategy, feature in like.rules:
        problem = None
        if feature in seen:
            problem = f"{feature} is there twice"
        elif strategy is LikeStrategy.OVERWRITING and feature not in _CAN_OVERWRITE:
            problem = f"{strategy} {feature} does not exist"
        if problem is not None:
            errors.append(Diagnostic("CAT011", f"LIKE: {problem}", like.span))
            return None
        seen.add(feature)
    for strategy, feature in like.rules:
        if feature is LikeFeature.ALL:
            result = dict.fromkeys(LikeFeature, strategy)
    result.update((feature, strategy) for strategy, feature in like.rules)
    return result


def _columns(
    table: CreateTable,
    source: CreateTable,
    strategy: Mapping[LikeFeature, LikeStrategy],
    errors: list[Diagnostic],
) -> tuple[Column, ...]:
    own = {c.name.lower(): c for c in table.columns}
    columns: list[Column] = []
    for column in source.columns:
        feature = None
        if isinstance(column, ComputedColumn):
            feature = LikeFeature.GENERATED
        elif isinstance(column, MetadataColumn):
            feature = LikeFeature.METADATA
        if feature is not None and strategy[feature] is LikeStrategy.EXCLUDING:
            continue
        again = own.pop(column.name.lower(), None)
        if again is None:
            columns.append(column)
            continue
        columns.append(again)
        can_overwrite = feature is not None and type(again) is type(column)
        if can_overwrite and feature is not None and strategy[feature] is LikeStrategy.OVERWRITING:
            continue
        message = f"the column `{again.name}` is already in `{source.name}`"
        help_ = f"write LIKE {source.name} (OVERWRITING {feature})" if can_overwrite else None
        errors.append(Diagnostic("CAT003", message, again.span, (), help_))
    columns.extend(c for c in table.columns if c.name.lower() in own)
    return tuple(columns)


def _options(
    table: CreateTable, source: CreateTable, strategy: LikeStrategy, errors: list[Diagnostic]
) -> tuple[Option, ...]:
    if strategy is LikeStrategy.EXCLUDING:
        return table.options
    own = {o.key: o for o in table.options}
    if strategy is LikeStrategy.INCLUDING:
        for option in source.options:
            if option.key in own:
                message = f"`{source.name}` has the option `{option.key}` already"
                help_ = f"write LIKE {source.name} (OVERWRITING OPTIONS)"
                errors.append(Diagnostic("CAT011", message, own[option.key].key_span, (), help_))
    return (*(o for o in source.options if o.key not in own), *table.options)
