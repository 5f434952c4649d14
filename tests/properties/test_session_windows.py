"""SESSION windows over random rows: prefix, split, rescale and bounded state, against DuckDB's gaps and islands."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties.referee import Pipeline, assert_same
from tests.properties.strategies import AGGREGATES, KEYS, ORDERED, files

_MORE = settings(max_examples=examples(3), deadline=None)
Files = list[list[dict[str, Any]]]


@dataclass(frozen=True)
class Session:
    """A SESSION over `t`: the columns that it is partitioned by, and its gap in seconds."""

    partition: tuple[str, ...]
    gap: int

    @property
    def sql(self) -> str:
        by = f" PARTITION BY {', '.join(self.partition)}" if self.partition else ""
        return f"TABLE(SESSION(TABLE t{by}, DESCRIPTOR(ts), INTERVAL '{self.gap}' SECOND))"

    def grouped(self, aggregates: list[str], keys: list[str], *, where: str = "") -> str:
        items = ["window_start", "window_end", *(f"{k} AS key_{i}" for i, k in enumerate(keys))]
        items += [f"{a} AS agg_{i}" for i, a in enumerate(aggregates)]
        by = ", ".join(["window_start", "window_end", *keys])
        return f"SELECT {', '.join(items)} FROM {self.sql}{where} GROUP BY {by}"


sessions = st.builds(
    Session,
    st.lists(st.sampled_from(["k", "s", "b"]), max_size=2, unique=True).map(tuple),
    st.sampled_from([1, 2, 4, 9]),
)
some_keys = st.lists(st.sampled_from(KEYS), max_size=2, unique=True)


@given(
    session=sessions,
    more=some_keys,
    aggregates=st.lists(st.sampled_from(AGGREGATES), max_size=4, unique=True),
    where=st.sampled_from(["", " WHERE k > 0"]),
    data=files(),
    rows_per_epoch=st.none() | st.integers(1, 30),
    parallelism=st.integers(1, 4),
    seed=st.integers(0, 3),
)
@_MORE
def test_any_cut_gives_what_the_batch_gives(
    session: Session,
    more: list[str],
    aggregates: list[str],
    where: str,
    data: Files,
    rows_per_epoch: int | None,
    parallelism: int,
    seed: int,
) -> None:
    keys = [*session.partition, *(k for k in more if k not in session.partition)]
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline.create(
            Path(folder) / "p", [session.grouped(aggregates, keys, where=where)], data, delay=100
        )
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
    session=sessions,
    aggregates=st.lists(st.sampled_from(ORDERED), min_size=1, max_size=3, unique=True),
    data=files(),
    rows_per_epoch=st.none() | st.integers(1, 30),
    parallelism=st.integers(1, 3),
)
@_MORE
def test_aggregates_that_see_the_order_of_rows_see_the_sources(
    session: Session, aggregates: list[str], data: Files, rows_per_epoch: int | None, parallelism: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        query = session.grouped(aggregates, list(session.partition))
        pipeline = Pipeline.create(Path(folder) / "p", [query], data, delay=100)
        pipeline.run(rows_per_epoch=rows_per_epoch, parallelism=parallelism)
        assert_same(pipeline.output(), pipeline.expected())


@given(session=sessions, data=files(), rows_per_epoch=st.none() | st.integers(1, 30))
@_MORE
def test_rows_without_an_aggregate_are_given_with_their_session(
    session: Session, data: Files, rows_per_epoch: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        query = f"SELECT window_start, window_end, window_time, k, s, v, ts FROM {session.sql}"
        pipeline = Pipeline.create(Path(folder) / "p", [query], data, delay=100)
        pipeline.run(rows_per_epoch=rows_per_epoch)
        assert_same(pipeline.output(), pipeline.expected())


@st.composite
def in_time(draw: st.DrawFn, delay: int) -> Files:
    """Rows that come at most `delay` seconds after a later one, with times on a grid so that sessions often touch."""
    found = []
    for _ in range(draw(st.integers(0, 30))):
        second = draw(st.integers(0, 60)) / draw(st.sampled_from([1, 2]))
        comes = second + draw(st.integers(0, delay))
        row = {
            "k": draw(st.none() | st.integers(0, 2)),
            "v": draw(st.integers(0, 3)),
            "s": draw(st.sampled_from("ab")),
        }
        found.append((comes, row | {"ts": f"1970-01-01 00:{int(second) // 60:02d}:{second % 60:06.3f}"}))
    ordered = [row for _, row in sorted(found, key=lambda pair: pair[0])]
    cut = draw(st.integers(0, len(ordered)))
    return [ordered[:cut], ordered[cut:]]


@given(
    session=sessions,
    data=in_time(4),
    rows_per_epoch=st.integers(1, 8),
    parallelism=st.integers(1, 4),
)
@_MORE
def test_sessions_that_close_on_the_way_are_those_of_the_batch(
    session: Session, data: Files, rows_per_epoch: int, parallelism: int
) -> None:
    """Rows that come in time meet their sessions, whenever epochs end: also those that only touch."""
    queries = [
        session.grouped(["COUNT(*)", "SUM(v)", "ARRAY_AGG(v)"], list(session.partition)),
        f"SELECT window_end, k, v FROM {session.sql}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        pipeline = Pipeline.create(Path(folder) / "p", queries, data, delay=4)
        pipeline.run(rows_per_epoch=rows_per_epoch, parallelism=parallelism)
        for sink in (1, 2):
            assert_same(pipeline.output(sink), pipeline.expected(sink))
        assert not pipeline.dead_letters()
