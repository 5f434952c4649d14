"""Between runs, parallelism and max_parallelism change, alone and together: the answer is that of one run over all."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.codec.exchange import Message
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.pipeline import Planned
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.query_generator import queries, rows
from tests.properties.referee import assert_same
from tests.properties.test_updating_queries import QUERIES, ROWS
from tests.properties.updating import batch, collecting, plan

#: How a run is laid out: shards, max_parallelism.
Layout = tuple[int, int]
LAYOUTS = st.tuples(st.integers(1, 4), st.sampled_from([4, 7, 64, 128, 1000]))
_BOUNDED = settings(
    max_examples=examples(7),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

WINDOWS = {
    "tumble": "SELECT window_start, k, COUNT(*) AS n, SUM(v) AS s, COUNT(DISTINCT s) AS d "
    "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k",
    "hop": "SELECT window_start, window_end, COUNT(*) AS n, MAX(v) AS m "
    "FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE)) "
    "GROUP BY window_start, window_end",
    "top of windows": "SELECT * FROM (SELECT window_start, window_end, k, COUNT(*) AS n, ROW_NUMBER() OVER "
    "(PARTITION BY window_start, window_end ORDER BY COUNT(*) DESC, k) AS rn "
    "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k) AS w "
    "WHERE rn <= 2",
}


def grouped(planned: Planned, groups: int) -> Planned:
    """The same with another max_parallelism, as a SET statement makes it."""
    physical = planned.physical
    return replace(
        planned, physical=replace(physical, options=replace(physical.options, max_parallelism=groups))
    )


def check(
    folder: Path,
    query: str,
    data: Sequence[Mapping[str, Any]],
    layouts: Sequence[Layout],
    *,
    epochs: int,
    rows_per_epoch: int,
    every: bool = True,
) -> None:
    """Runs of some epochs each, one a layout; the last one to the end."""
    planned = plan(folder, query, data)
    read = 0
    with collecting() as collected:

        def compare(report: EpochReport) -> None:
            nonlocal read
            read += sum(report.rows_read.values())
            if every:
                assert_same(collected.folded("out"), batch(folder, planned, data[:read]))

        def shuffled(messages: list[Message]) -> list[Message]:
            random.Random(read).shuffle(messages)
            return messages

        for number, (shards, groups) in enumerate(layouts):
            result = run_here(
                grouped(planned, groups),
                folder,
                parallelism=shards,
                rows_per_epoch=rows_per_epoch,
                shuffle=shuffled,
                on_epoch=compare,
                max_epochs=None if number == len(layouts) - 1 else epochs,
            )
            if result.epochs:
                last = Journal(CheckpointStore(folder / "state", sync=False))
                manifest = last.manifest(last.epochs()[1][-1])
                assert (manifest.parallelism, manifest.max_parallelism) == (shards, groups)
        assert_same(collected.folded("out"), batch(folder, planned, data))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", QUERIES)
def test_updating_queries(name: str, tmp_path: Path) -> None:
    layouts = [(2, 128), (3, 64 + len(name)), (4, 5)]
    check(tmp_path, QUERIES[name], ROWS, layouts, epochs=1, rows_per_epoch=4)


@pytest.mark.parametrize("name", WINDOWS)
def test_windows(name: str, tmp_path: Path) -> None:
    check(
        tmp_path,
        WINDOWS[name],
        [{**row, "ts": f"2024-01-01 00:{n // 2:02d}:{n * 7 % 60:02d}"} for n, row in enumerate(ROWS * 3)],
        [(2, 128), (2, 30), (3, 128), (4, 7)],
        epochs=2,
        rows_per_epoch=5,
        every=False,
    )


@_BOUNDED
@given(queries(), rows(), st.lists(LAYOUTS, min_size=2, max_size=4), st.integers(1, 3), st.integers(1, 9))
def test_random_queries(
    query: str, data: list[dict[str, Any]], layouts: list[Layout], epochs: int, rows_per_epoch: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), query, data, layouts, epochs=epochs, rows_per_epoch=rows_per_epoch)


@pytest.mark.parametrize("layout", [(2, 64), (3, 128), (4, 4)])
@pytest.mark.parametrize("name", ["count by key", "distinct aggregates", "top 2", "arrays", "global"])
@pytest.mark.sampled(3)
def test_a_fork_may_be_laid_out_otherwise(name: str, layout: Layout, tmp_path: Path) -> None:
    planned = plan(tmp_path, QUERIES[name], ROWS)
    assert not missing_answers(planned.physical, "out")
    shards, groups = layout
    with collecting():
        run_here(planned, tmp_path, rows_per_epoch=4, max_epochs=2)
        store = CheckpointStore(tmp_path / "state", sync=False)
        origin = Origin(store, Savepoints(store).create("cut"))
    with collecting() as forked:
        run_here(
            grouped(planned, groups),
            tmp_path,
            state="fork",
            origin=origin,
            parallelism=shards,
            rows_per_epoch=4,
            max_epochs=2,
        )
        assert_same(forked.folded("out"), batch(tmp_path, planned, ROWS[: 8 + 4]))
        run_here(grouped(planned, groups + 1), tmp_path, state="fork", parallelism=1)
        assert_same(forked.folded("out"), batch(tmp_path, planned, ROWS))
