"""Aggregate functions of Flink and Spark. DISTINCT, ORDER BY and FILTER of the call stay."""

from __future__ import annotations

from sqlstream_planner.aggregates.registry import AGGREGATES as _FUNCTIONS
from sqlstream_planner.expressions.functions.translate.entry import BOTH, entry

AGGREGATES = tuple(
    entry(s.call, s.template, s.meaning, s.system or BOTH) for f in _FUNCTIONS.values() for s in f.spellings
)
