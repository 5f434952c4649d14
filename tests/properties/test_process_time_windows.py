"""Windows over PROCTIME(): rows are in those of their epoch's clock, which are given when a later one has passed them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.faults import Point
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.referee import Rows, assert_same
from tests.properties.test_epoch_values import CHANGES, PARQUET, ROWS, TABLE, Run
from tests.properties.test_lookup_joins import folded

HOUR = timedelta(hours=1)
START = datetime(1970, 1, 1)


def tumble(at: datetime) -> Iterable[tuple[datetime, datetime]]:
    start = at - (at - START) % HOUR
    yield start, start + HOUR


def hop(at: datetime) -> Iterable[tuple[datetime, datetime]]:
    first = at - (at - START) % HOUR
    yield from ((first - n * HOUR, first - n * HOUR + 3 * HOUR) for n in range(3))


def cumulate(at: datetime) -> Iterable[tuple[datetime, datetime]]:
    start = at - (at - START) % (3 * HOUR)
    yield from ((start, start + n * HOUR) for n in (1, 2, 3) if at < start + n * HOUR)


CALLS: dict[str, tuple[str, Callable[[datetime], Iterable[tuple[datetime, datetime]]]]] = {
    "TUMBLE": ("INTERVAL '1' HOUR", tumble),
    "HOP": ("INTERVAL '1' HOUR, INTERVAL '3' HOUR", hop),
    "CUMULATE": ("INTERVAL '1' HOUR, INTERVAL '3' HOUR", cumulate),
}
GROUPED = "SELECT window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM {data} GROUP BY window_start, window_end"


def of(kind: str, data: str = "TABLE t", time: str = "p") -> str:
    return f"TABLE({kind}({data}, DESCRIPTOR({time}), {CALLS[kind][0]}))"


QUERIES = {
    **{kind: GROUPED.format(data=of(kind)) for kind in CALLS},
    "as a sub-query says it": GROUPED.format(
        data=of("TUMBLE", "(SELECT *, PROCTIME() AS q FROM (SELECT v FROM t WHERE v > 10))", "q")
    ),
    "the older spelling": "SELECT TUMBLE_START(p, INTERVAL '1' HOUR) AS a, TUMBLE_END(p, INTERVAL '1' HOUR) AS b, "
    "COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY TUMBLE(p, INTERVAL '1' HOUR)",
    "sessions": GROUPED.format(data="TABLE(SESSION(TABLE t, DESCRIPTOR(p), INTERVAL '45' MINUTE))"),
    "the first of each": "SELECT window_start, window_end, 1 AS n, v FROM (SELECT *, ROW_NUMBER() OVER "
    f"(PARTITION BY window_start, window_end ORDER BY v DESC) AS r FROM {of('TUMBLE')}) WHERE r = 1",
    "no groups": f"SELECT window_start, window_end, 1 AS n, v FROM {of('TUMBLE')}",
}


def wanted(made: Run, name: str, now: datetime) -> Rows:
    """What the windows that end by `now` have."""
    rows = [(clock.replace(tzinfo=None), v) for clock, (_, v, _) in zip(made.clocks, ROWS, strict=False)]
    found: dict[tuple[datetime, datetime], list[int]] = {}
    for clock, v in rows:
        if name == "as a sub-query says it" and v <= 10:
            continue
        windows = list(CALLS.get(name, CALLS["TUMBLE"])[1](clock))
        if name == "sessions":  # epochs are 40 minutes apart
            times = [t for t, _ in rows]
            windows = [(min(times), max(times) + timedelta(minutes=45))]
        for window in windows:
            found.setdefault(window, []).append(v)
    closed = {window: values for window, values in found.items() if window[1] <= now}
    if name == "no groups":  # each row comes at once
        return [(*window, 1, v) for window, values in found.items() for v in values]
    if name == "the first of each":
        return [(*window, 1, max(values)) for window, values in closed.items()]
    return [(*window, len(values), sum(values)) for window, values in closed.items()]


def test_a_window_is_given_when_a_later_clock_has_passed_it(tmp_path: Path) -> None:
    made = Run(tmp_path, list(QUERIES.values()), PARQUET)
    made.run()
    last = made.clock.replace(tzinfo=None)
    closed = 0
    for number, name in enumerate(QUERIES):
        now = wanted(made, name, last)
        assert_same(made.given(number), now)
        closed += len(now) < len(wanted(made, name, datetime.max))
    assert closed == 3  # the end of the input closes nothing: the clock has not passed them
    # Nothing more is read, and the clock goes on.
    made.clock += timedelta(hours=12)
    made.run(parallelism=3)
    for number, name in enumerate(QUERIES):
        assert_same(made.given(number), wanted(made, name, datetime.max))


@pytest.mark.parametrize("point", ["planned", "run", "published"])
def test_no_window_is_lost_or_given_twice(tmp_path: Path, point: Point) -> None:
    chosen = ["TUMBLE", "HOP", "sessions"]
    made = Run(tmp_path, [QUERIES[name] for name in chosen], PARQUET)

    def crash(at: Point, epoch: int) -> None:
        if (at, epoch) == (point, 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made.run(faults=crash)
    made.clock += timedelta(minutes=40)
    made.run()
    made.clock += timedelta(hours=12)
    made.run()
    assert sum(row[2] for row in made.given(0)) == len(ROWS)
    assert sum(row[2] for row in made.given(1)) == 3 * len(ROWS)
    assert sum(row[2] for row in made.given(2)) == len(ROWS)
    for number in range(3):
        windows = [row[:2] for row in made.given(number)]
        assert len(set(windows)) == len(windows)


def test_open_windows_are_kept_up_to_date(tmp_path: Path) -> None:
    changes = f"{GROUPED.format(data=of('CUMULATE'))} EMIT CHANGES"
    made = Run(tmp_path, [changes], CHANGES)
    made.run(max_epochs=2)
    made.run()
    given = [tuple(map(str, row)) for row in folded(tmp_path / "out_0")]
    assert sorted(given) == sorted(tuple(map(str, row)) for row in wanted(made, "CUMULATE", datetime.max))


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (GROUPED.format(data=of("TUMBLE", "(SELECT a.p, a.v FROM t AS a JOIN t AS b ON a.k = b.k)")), "behind a JOIN"),
        (
            GROUPED.format(data=of("TUMBLE", "(SELECT p, v FROM (SELECT * EXCLUDE (window_start, window_end, window_time) "
            "FROM TABLE(SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))))")),
            "earlier epoch",
        ),
        (GROUPED.format(data=of("TUMBLE", "(SELECT NOW() AS p, v FROM t)")), "no event-time column|has no watermark"),
    ],
)  # fmt: skip
def test_the_clock_of_an_earlier_epoch_makes_no_windows(query: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=message):
        plan_file(f"{TABLE}{query};", file="p.sql")


def test_a_session_of_another_zone_is_refused() -> None:
    with pytest.raises(DiagnosticError, match="Europe/Berlin"):
        plan_file(f"SET TimeZone = 'Europe/Berlin';{TABLE}{QUERIES['TUMBLE']};", file="p.sql")
