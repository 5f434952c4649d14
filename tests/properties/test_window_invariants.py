"""Prefix, split, rescale, bounded and no silent loss, for window aggregates over random data."""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties.referee import Pipeline, assert_same
from tests.properties.strategies import AGGREGATES, KEYS, ORDERED, WindowClause, files, windows

_MORE = settings(max_examples=examples(6), deadline=None)
_BOUNDED = settings(max_examples=examples(4), deadline=None)
Files = list[list[dict[str, Any]]]
#: Grouped by `b`, which was the name of a lambda's parameter in the SQL that merges STDDEV.
SECONDS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECOND))"
ONE: Files = [
    [{"k": 1, "s": "a", "v": 2, "d": "1.5", "x": 1.5, "b": True, "a": [1], "ts": "1969-12-31 23:59:30"}]
]


def _query(window: WindowClause, keys: list[str], aggregates: list[str], *, having: bool = False) -> str:
    key_items = [f"{k} AS key_{i}" for i, k in enumerate(keys)]
    items = ["window_start", "window_end", *key_items, *(f"{a} AS agg_{i}" for i, a in enumerate(aggregates))]
    text = f"SELECT {', '.join(items)} FROM {window.sql} GROUP BY {', '.join(['window_start', 'window_end', *keys])}"
    return text + (" HAVING COUNT(*) > 1" if having else "")


@given(
    window=windows(),
    keys=st.lists(st.sampled_from(KEYS), max_size=2, unique=True),
    aggregates=st.lists(st.sampled_from(AGGREGATES), min_size=0, max_size=4, unique=True),
    having=st.booleans(),
    data=files(),
    rows_per_epoch=st.none() | st.integers(1, 30),
    parallelism=st.integers(1, 4),
    seed=st.integers(0, 3),
)
@example(
    WindowClause("TUMBLE", SECONDS, 1, 1),
    ["b"],
    ["STDDEV_POP(x)", "ARRAY_AGG(k ORDER BY v)"],
    False,
    ONE,
    None,
    1,
    0,
)
@_MORE
def test_any_cut_gives_what_the_batch_gives(
    window: WindowClause,
    keys: list[str],
    aggregates: list[str],
    having: bool,
    data: Files,
    rows_per_epoch: int | None,
    parallelism: int,
    seed: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        query = _query(window, keys, aggregates, having=having)
        pipeline = Pipeline.create(Path(folder) / "p", [query], data, delay=100)
        sizes: list[int] = []
        pipeline.run(
            rows_per_epoch=rows_per_epoch,
            parallelism=parallelism,
            seed=seed,
            on_epoch=lambda report: sizes.append(report.state_rows),
        )
        assert_same(pipeline.output(), pipeline.expected())
        timeless = sum(1 for f in data for r in f if r["ts"] is None)
        assert Counter(x["kind"] for x in pipeline.dead_letters()) == Counter(
            {"no-time": timeless} if timeless else {}
        )
        assert not sizes or sizes[-1] == 0, "state is left after the last watermark"


@given(
    window=windows(),
    keys=st.lists(st.sampled_from(KEYS), max_size=1),
    aggregates=st.lists(st.sampled_from(ORDERED), min_size=1, max_size=3, unique=True),
    data=files(),
    rows_per_epoch=st.none() | st.integers(1, 30),
    parallelism=st.integers(1, 3),
)
@_BOUNDED
def test_aggregates_that_see_the_order_of_rows_see_the_sources(
    window: WindowClause,
    keys: list[str],
    aggregates: list[str],
    data: Files,
    rows_per_epoch: int | None,
    parallelism: int,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline.create(Path(folder) / "p", [_query(window, keys, aggregates)], data, delay=100)
        pipeline.run(rows_per_epoch=rows_per_epoch, parallelism=parallelism)
        assert_same(pipeline.output(), pipeline.expected())


@given(
    window=windows(),
    data=files(),
    rows_per_epoch=st.integers(1, 20),
    delay=st.integers(0, 15),
    parallelism=st.integers(1, 3),
)
@_MORE
def test_every_row_is_counted_in_its_window_or_kept_as_late_for_it(
    window: WindowClause, data: Files, rows_per_epoch: int, delay: int, parallelism: int
) -> None:
    query = f"SELECT window_start, window_end, k, COUNT(*) AS n FROM {window.sql} GROUP BY window_start, window_end, k"
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline.create(Path(folder) / "p", [query], data, delay=delay)
        pipeline.run(rows_per_epoch=rows_per_epoch, parallelism=parallelism)
        found: Counter[tuple[str, Any]] = Counter()
        for _, end, k, n in pipeline.output():
            assert (str(end), k) not in found, "a window was emitted twice"
            found[str(end), k] += n
        for letter in pipeline.dead_letters():
            if letter["kind"] == "late":
                for end in ends(letter, window):
                    found[str(end), letter["row"]["k"]] += 1
        expected = Counter({(str(end), k): n for _, end, k, n in pipeline.expected()})
        assert _by_time(found) == _by_time(expected)


def ends(letter: dict[str, Any], window: WindowClause) -> list[datetime]:
    """The ends of the windows that a late row missed."""
    last = datetime.fromisoformat(letter["window_end"])
    made = [last - n * timedelta(seconds=window.step) for n in reversed(range(letter["windows"]))]
    if window.kind != "CUMULATE":
        assert made[0] - timedelta(seconds=window.size) == datetime.fromisoformat(letter["window_start"])
    return made


def _by_time(counts: Counter[tuple[str, Any]]) -> Counter[tuple[str, Any]]:
    """Times with or without a fraction of zeros are the same."""
    merged: Counter[tuple[str, Any]] = Counter()
    for (time, k), n in counts.items():
        merged[time.rstrip("0").rstrip(".") if "." in time else time, k] += n
    return merged


@given(
    window=windows(),
    data=files(),
    cut=st.integers(1, 3),
    rows_per_epoch=st.integers(1, 10),
    first=st.integers(1, 4),
    second=st.integers(1, 4),
)
@_MORE
def test_a_run_that_stops_and_goes_on_with_other_shards_gives_the_same(
    window: WindowClause, data: Files, cut: int, rows_per_epoch: int, first: int, second: int
) -> None:
    query = _query(window, ["k"], ["COUNT(*)", "SUM(v)", "COUNT(DISTINCT s)", "MIN(ts)"])
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline.create(Path(folder) / "p", [query], data, delay=100)
        pipeline.run(rows_per_epoch=rows_per_epoch, parallelism=first, max_epochs=cut)
        pipeline.run(rows_per_epoch=rows_per_epoch, parallelism=second)
        assert_same(pipeline.output(), pipeline.expected())


@given(
    window=windows(),
    data=files(),
    rows_per_epoch=st.integers(1, 10),
    sets=st.sampled_from(["GROUPING SETS ((k), (s), ())", "ROLLUP (k, s)", "CUBE (k, b)"]),
)
@_BOUNDED
def test_grouping_sets(window: WindowClause, data: Files, rows_per_epoch: int, sets: str) -> None:
    query = (
        f"SELECT window_start, window_end, {'k, b' if 'b' in sets else 'k, s'}, GROUPING(k) AS g, "
        f"COUNT(*) AS n, COUNT(DISTINCT v) AS u "
        f"FROM {window.sql} GROUP BY window_start, window_end, {sets}"
    )
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline.create(Path(folder) / "p", [query], data, delay=100)
        pipeline.run(rows_per_epoch=rows_per_epoch)
        assert_same(pipeline.output(), pipeline.expected())


@given(
    window=windows(),
    outer=windows(),
    data=files(),
    rows_per_epoch=st.none() | st.integers(1, 10),
    parallelism=st.integers(1, 3),
)
@_BOUNDED
def test_windows_over_windows(
    window: WindowClause, outer: WindowClause, data: Files, rows_per_epoch: int | None, parallelism: int
) -> None:
    inner = (
        f"SELECT window_time AS ts, k, COUNT(*) AS n, SUM(v) AS v FROM {window.sql} "
        "GROUP BY window_start, window_end, window_time, k"
    )
    query = (
        f"WITH t2 AS ({inner}) SELECT window_start, window_end, COUNT(*) AS keys, SUM(n) AS n, MAX(v) AS v "
        f"FROM {outer.sql.replace('TABLE t,', 'TABLE t2,')} GROUP BY window_start, window_end"
    )
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline.create(Path(folder) / "p", [query], data, delay=100)
        pipeline.run(rows_per_epoch=rows_per_epoch, parallelism=parallelism)
        assert_same(pipeline.output(), pipeline.expected())
