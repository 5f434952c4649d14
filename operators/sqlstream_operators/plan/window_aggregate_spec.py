"""The spec of an aggregate of windows, and the distinct values that it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from sqlstream_operators.plan.operator_spec import (
    WINDOW_END,
    ByWatermark,
    KeepsForGood,
    OperatorFacts,
    TimeColumn,
    View,
    Waiting,
    emitted_unchanged,
    times_of,
)
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.state_schema import StateSchema
from sqlstream_operators.plan.window_spec import WindowSpec


@dataclass(frozen=True, slots=True)
class DistinctSpec:
    """State shared by all DISTINCT aggregates over the same expressions.

    The partial relation of it has the columns: slice end, the grouping keys, `values`, and one BOOLEAN
    column a `flags` entry (TRUE where a row passed that aggregate's FILTER). Merging is BOOL_OR.
    """

    name: str
    values: tuple[Column, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WindowAggregateSpec(ByWatermark, KeepsForGood):
    """Merges partial aggregates into slices kept as state and emits every window when it closes.

    Input `partials` (first input): SLICE_COLUMN BIGINT (end of the slice, µs), the `keys`, the
    `accumulators`. One further input for each of `distincts`. State: table `acc` (layout time: slice end;
    key: keys; value: accumulators) and one table for each of `distincts` (sub-key: its values).

    `merge` gives, for each accumulator, the DuckDB aggregate expression that merges several of them; it
    refers to accumulator columns by their names, and rows reach it in arrival order. `emit` is DuckDB SQL over
    relation `merged` (one row per key and window: `window_start`, `window_end` TIMESTAMP, keys, merged
    accumulators and, for each of `distincts`, its counted columns `<name>.<aggregate>` as the planner
    named them in `distinct_aggregates`) giving the operator's output relation.
    `distinct_aggregates`: for each of `distincts`, tuples (column name, DuckDB aggregate expression over
    that distinct table's rows of one window, already deduplicated).
    """

    kind: ClassVar[str] = "window_aggregate"
    emits_changes: ClassVar[bool] = False

    state: StateSchema
    window: WindowSpec
    keys: Schema
    accumulators: Schema
    merge: tuple[str, ...]
    emit: str
    output: Schema
    watermark_sources: tuple[str, ...]
    tick_us: int
    distincts: tuple[DistinctSpec, ...] = ()
    distinct_aggregates: tuple[tuple[tuple[str, str], ...], ...] = ()

    def __post_init__(self) -> None:
        if len(self.merge) != len(self.accumulators):
            raise ValueError("one merge expression per accumulator")
        if len(self.distinct_aggregates) != len(self.distincts):
            raise ValueError("one tuple of aggregates per distinct state")

    @property
    def facts(self) -> OperatorFacts:
        """What there is to know of it."""
        return OperatorFacts(
            keeps_answer=False,
            view=View(paged_by=None),
            columns=None,
            unchanged=emitted_unchanged(self.emit),
            times=self._times,
            waiting=self._waiting,
            seed=None,
            late_rows_of=None,
        )

    @property
    def _times(self) -> Mapping[str, tuple[TimeColumn, ...]]:
        window = self.window
        if window.is_sliced:
            return times_of(self.state, TimeColumn("slice_end", "the end of a part that windows share"))
        if window.size_us != window.slide_us:
            return times_of(self.state, WINDOW_END)
        start = TimeColumn("window_start", "the start of the window", before_us=window.size_us)
        return times_of(self.state, start, WINDOW_END)

    @property
    def _waiting(self) -> Waiting:
        return Waiting(
            tables=(self.state.tables[0].name,),
            what="window",
            slice_us=self.window.slice_us,
            offset_us=self.window.offset_us,
            tick_us=self.tick_us,
            slices_of=self.window,
        )
