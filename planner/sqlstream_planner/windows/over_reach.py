"""Which rows around a row a function OVER depends on, and which it must find again later."""

from __future__ import annotations

import re

from sqlglot import exp

from sqlstream_operators.plan.over_spec import Kept, Reach
from sqlstream_planner.logical import WindowCall
from sqlstream_planner.logical.parts import PEER_FUNCTIONS, PLACE_FUNCTIONS
from sqlstream_planner.logical.window_frames import frame_of
from sqlstream_planner.sql.dialect.intervals import DAYS, MICROS, unit_name

_BOUND = re.compile(r"CURRENT ROW|(\d+) (PRECEDING|FOLLOWING)")
#: The window function: the last row of the frame. (The aggregate that is called so goes by event time.)
_LAST_OF_FRAME = frozenset({"last_value"})
_INTERVAL = re.compile(r"INTERVAL '(\d+)' (\w+) PRECEDING")


def reach_of(call: WindowCall) -> Reach | None:
    """The reach of a call in an order; None if it may depend on rows however far away.

    >>> from sqlstream_operators.plan.types import BIGINT
    >>> from sqlstream_planner.logical import Field
    >>> n = Field("n", "n", BIGINT)
    >>> reach_of(WindowCall(n, "sum", frame="ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"))
    Reach(before=2, after=0)
    >>> reach_of(WindowCall(n, "lead", (exp.column("a"), exp.Literal.number(3))))
    Reach(before=0, after=3)
    >>> reach_of(WindowCall(n, "sum")) is None
    True
    """
    if call.name in ("lag", "lead") and not call.order_by:
        return _beside(call)
    if call.name in PLACE_FUNCTIONS | PEER_FUNCTIONS and not call.order_by:
        return None
    frame = frame_of(call)
    places = [_place(bound) for bound in (frame.first, frame.last)]
    if None in places or (frame.unit == "RANGE" and places != [0, 0]):
        # Distances of values say nothing about how many rows lie between.
        return None
    first, last = (place or 0 for place in places)
    return Reach(max(-first, 0), max(last, 0))


def kept_for(call: WindowCall) -> Kept:
    """Which rows a call that looks back needs of those that were given, for rows that arrive later in its order.

    >>> from sqlstream_operators.plan.types import BIGINT
    >>> from sqlstream_planner.logical import Field
    >>> n = Field("n", "n", BIGINT)
    >>> kept_for(WindowCall(n, "sum", frame="RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW"))
    Kept(places=0, time_us=5000000, everything=False)
    >>> kept_for(WindowCall(n, "lag", (exp.column("a"),))).places, kept_for(WindowCall(n, "median")).everything
    (1, True)
    """
    reach = reach_of(call)
    if reach is not None:
        return Kept(reach.before)
    frame = frame_of(call)
    if call.name in _LAST_OF_FRAME and frame.runs and not (call.ignore_nulls or call.order_by):
        return Kept()
    found = _INTERVAL.fullmatch(frame.first)
    unit = unit_name(found[2]) if found is not None else None
    if found is None or unit not in MICROS.keys() | DAYS.keys():
        return Kept(everything=True)
    width = MICROS[unit] if unit in MICROS else DAYS[unit] * 86_400_000_000
    return Kept(time_us=int(found[1]) * width)


def _beside(call: WindowCall) -> Reach | None:
    """LAG and LEAD, by a number of rows that is written out."""
    offset = call.arguments[1].unnest() if len(call.arguments) > 1 else exp.Literal.number(1)
    if (
        call.ignore_nulls
        or not isinstance(offset, exp.Literal)
        or offset.is_string
        or not offset.this.isdigit()
    ):
        return None
    rows = int(offset.this)
    return Reach(rows, 0) if call.name == "lag" else Reach(0, rows)


def _place(bound: str) -> int | None:
    """Where a bound of a frame lies, in places behind the row; None if it is no number of them."""
    found = _BOUND.fullmatch(bound)
    if found is None:
        return None
    if found[1] is None:
        return 0
    return -int(found[1]) if found[2] == "PRECEDING" else int(found[1])
