"""The figures of a split for the driver: its rows, and how far they are in event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_operators.plan.watermarks import EARLIEST_EVENT_US, LATEST_EVENT_US, WATERMARK_MAX

from .epoch import EpochContext
from .io import LANE_COLUMN


@dataclass(frozen=True, slots=True)
class Read:
    """What a split has: its rows, and of each lane that has one the greatest finite watermark expression (µs).

    Of the rows `far` have an event time that is too far away to be computed with, and `ahead` are too far ahead of the
    clock: these have no part in the watermark.
    """

    rows: int
    lanes: Mapping[str, int] = field(default_factory=dict)
    far: int = 0
    ahead: int = 0


def is_far(time: str) -> str:
    """SQL for whether an event time is too far away to be computed with; what is not finite has no epoch."""
    near = f"epoch_us({time}) BETWEEN {EARLIEST_EVENT_US} AND {LATEST_EVENT_US}"
    return f"({time} IS NOT NULL AND NOT coalesce({near}, FALSE))"


def read_of(
    duck: DuckSession, relation: str, source: SourceSpec, epoch: EpochContext, lanes: Sequence[str]
) -> Read:
    """What is read of a split that is open as `relation`, which has LANE_COLUMN if there are several lanes."""
    mark, most = source.watermark, _latest(source, epoch)
    if mark is None:
        return Read(duck.query(f'SELECT count(*) AS n FROM "{relation}"').column("n")[0].as_py())
    near = f"BETWEEN {EARLIEST_EVENT_US} AND {LATEST_EVENT_US}"
    lane, by = ("0", "") if len(lanes) == 1 else (f'"{LANE_COLUMN}"', ' GROUP BY "__l"')
    if mark.rises_with is not None and mark.time_sql == quote_identifier(mark.rises_with):
        # The greatest time first, then the expression of it: a third of the cost of the expression of each row.
        time = mark.time_sql
        figures = duck.query(
            f'SELECT "__l", CASE WHEN epoch_us({time}) {near} THEN epoch_us({mark.expression}) END AS "__w", "__n", '
            f'{time} IS NULL OR (epoch_us({time}) {near} AND epoch_us("__first") {near}) AS "__near" '
            f'FROM (SELECT {lane} AS "__l", max({time}) AS {time}, min({time}) AS "__first", count(*) AS "__n" '
            f'FROM "{relation}"{by})'
        ).to_pylist()
        if all(one["__near"] and (one["__w"] is None or one["__w"] <= most) for one in figures):
            return _together(figures, lanes)
    figures = duck.query(
        f'SELECT {"0 AS " if not by else ""}"__l", max("__w") FILTER ("__w" <= {most}) AS "__w", count(*) AS "__n", '
        f'count(*) FILTER ("__t") AS "__far", count(*) FILTER ("__w" > {most}) AS "__ahead" '
        f'FROM (SELECT "__l", CASE WHEN isfinite("__m") THEN epoch_us("__m") END AS "__w", "__t" FROM ('
        f'SELECT {lane} AS "__l", CASE WHEN epoch_us({mark.time_sql}) {near} THEN {mark.expression} END AS "__m", '
        f'{is_far(mark.time_sql)} AS "__t" FROM "{relation}")){by}'
    ).to_pylist()
    return _together(figures, lanes)


def _together(figures: list[dict[str, Any]], lanes: Sequence[str]) -> Read:
    """The figures of a split, from those of each of its lanes."""
    read: dict[str, int] = {}
    for one in figures:
        if one["__w"] is not None:
            lane = lanes[one["__l"]]
            read[lane] = max(one["__w"], read.get(lane, one["__w"]))
    total = {name: sum(one.get(name, 0) for one in figures) for name in ("__n", "__far", "__ahead")}
    return Read(total["__n"], read, total["__far"], total["__ahead"])


def _latest(source: SourceSpec, epoch: EpochContext) -> int:
    """The greatest watermark (µs) that counts: by the epoch's clock, and of history by what counted then."""
    if source.watermark is None or source.watermark.max_ahead_us is None or not epoch.now_us:
        return WATERMARK_MAX
    return min(epoch.latest.get(source.name, WATERMARK_MAX), epoch.now_us + source.watermark.max_ahead_us)
