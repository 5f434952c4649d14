"""What the clock of a step is where its test writes none: never behind the times that the test gives."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import Kind, quote_identifier
from sqlstream_operators.task.split_figures import is_far

_GIVEN = "__unit_test_times"
_TIMES = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIMESTAMP_NS)


def latest_us(
    clock_us: int,
    given: Iterable[tuple[SourceSpec, pa.Table]],
    marks: Iterable[tuple[SourceSpec, int]],
    duck: DuckSession,
) -> int:
    """The latest (µs) of a clock, the event times of rows, and where watermarks are moved to.

    So no row is further ahead of the clock than a watermark may be ('scan.watermark.max-ahead'). Times that are too far
    away to be computed with don't count, as they are dead letters.
    """
    times = [_latest_of(spec, rows, duck) for spec, rows in given if spec.watermark is not None]
    return max([clock_us, *(mark for _, mark in marks), *(time for time in times if time is not None)])


def _latest_of(spec: SourceSpec, rows: pa.Table, duck: DuckSession) -> int | None:
    """The latest event time and watermark of rows; None if they have none."""
    assert spec.watermark is not None
    time, expression = spec.watermark.time_sql, spec.watermark.expression
    try:
        return _greatest((time, expression), rows, duck)
    except DataError:
        # What can't be computed of every row ends the run, or makes dead letters there.
        columns = [c.name for c in spec.physical if c.type.kind in _TIMES and c.name in rows.column_names]
        return _greatest([quote_identifier(name) for name in columns], rows, duck) if columns else None


def _greatest(times: Iterable[str], rows: pa.Table, duck: DuckSession) -> int | None:
    found = ", ".join(f"max(CASE WHEN NOT {is_far(time)} THEN epoch_us({time}) END)" for time in times)
    value = duck.query(f"SELECT greatest({found}) AS t FROM {_GIVEN}", {_GIVEN: rows}).column(0)[0].as_py()
    return None if value is None else int(value)
