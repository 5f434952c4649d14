"""Frames of an OVER: their bounds, read from DuckDB SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlstream_planner.logical.parts import WindowCall

_FRAME = re.compile(r"(ROWS|RANGE|GROUPS) BETWEEN (.+?) AND (.+?)(?: EXCLUDE (.+))?")
_SHORT = re.compile(r"(ROWS|RANGE|GROUPS) (.+?)(?: EXCLUDE (.+))?")
#: Functions of all rows of a partition, and of later rows, whatever the frame, unless they have an order of their own.
_LOOK_AHEAD = frozenset({"lead", "ntile", "percent_rank", "cume_dist"})
_PLACED = frozenset({"row_number", "rank", "dense_rank", "lag"})


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame: `unit` is ROWS, RANGE or GROUPS, the bounds are upper-case SQL, `exclude` what it leaves out ('')."""

    unit: str
    first: str
    last: str
    exclude: str = ""

    @property
    def runs(self) -> bool:
        """Whether it has all rows up to the current one (and its equals)."""
        return (self.first, self.last, self.exclude) == ("UNBOUNDED PRECEDING", "CURRENT ROW", "")


def frame_of(call: WindowCall) -> Frame:
    """The frame of a call whose window has an ORDER BY.

    >>> from sqlstream_operators.plan.types import BIGINT
    >>> from sqlstream_planner.logical.columns import Field
    >>> frame_of(WindowCall(Field("n", "n", BIGINT), "sum")).runs
    True
    >>> frame_of(WindowCall(Field("n", "n", BIGINT), "sum", frame="ROWS BETWEEN 1 PRECEDING AND CURRENT ROW"))
    Frame(unit='ROWS', first='1 PRECEDING', last='CURRENT ROW', exclude='')
    """
    found = _FRAME.fullmatch(call.frame)
    if found is not None:
        unit, first, last, exclude = found.groups()
        exclude = exclude or ""
        return Frame(unit, first, last, "" if exclude == "NO OTHERS" else exclude)
    short = _SHORT.fullmatch(call.frame)
    if short is not None:
        return Frame(short[1], short[2], "CURRENT ROW", short[3] or "")
    return Frame("RANGE", "UNBOUNDED PRECEDING", "CURRENT ROW")


def looks_back(call: WindowCall) -> bool:
    """Whether a call in an order depends on no row behind the current one and its equals."""
    if call.bounds or (call.name in _LOOK_AHEAD and not call.order_by):
        return False
    placed = call.name in _PLACED and not call.order_by
    return placed or "FOLLOWING" not in f"{frame_of(call).first} {frame_of(call).last}"
