"""Savepoints: a run that starts from one has the new query's answer over all input, and the original goes on as if alone."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.planning import plan_file
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.plan.answers import missing_answers
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.query_generator import queries, rows
from tests.properties.referee import assert_same
from tests.properties.test_updating_queries import QUERIES, ROWS
from tests.properties.updating import TABLE, batch, collecting, plan

#: Queries over the same state, by what changes above it.
EDITS = {
    "projection": (
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
        "SELECT COUNT(*) * 10 AS m, k FROM t GROUP BY k",
    ),
    "having": (
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) > 1",
    ),
    "having dropped": (
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k HAVING COUNT(*) < 2",
        "SELECT k, COUNT(*) AS n FROM t GROUP BY k",
    ),
    "filter of a Top-N": (
        "SELECT k, v, rn FROM (SELECT *, RANK() OVER (PARTITION BY k ORDER BY v) AS rn FROM t) AS r WHERE rn <= 2",
        "SELECT rn, v, k FROM (SELECT *, RANK() OVER (PARTITION BY k ORDER BY v) AS rn FROM t) AS r WHERE rn <= 2 AND k > 1",
    ),
}


def fork(
    planned: Planned,
    folder: Path,
    data: Sequence[Mapping[str, Any]],
    *,
    after: int,
    rows_per_epoch: int,
    edited: Planned | None = None,
    shards: int = 2,
) -> None:
    """Run some epochs, make a savepoint, start another run from it, and let both go on; each has its own answer."""
    new = edited or planned
    sink = new.physical.sinks[0]
    missing = missing_answers(new.physical, sink.name)
    if missing and sink.changelog == "append":
        return  # rows without state: the fork has those that come later
    with collecting() as own:
        run_here(planned, folder, rows_per_epoch=rows_per_epoch, max_epochs=after)
        store = CheckpointStore(folder / "state", sync=False)
        savepoint = Savepoints(store).create("cut")
        read = 0
        if missing:
            with pytest.raises(DiagnosticError, match="SAV007"):
                run_here(new, folder, state="fork", origin=Origin(store, savepoint))
            return

        with collecting() as forked:

            def compare(report: EpochReport) -> None:
                nonlocal read
                read += sum(report.rows_read.values())
                assert_same(forked.folded("out"), batch(folder, new, data[:read]))

            read = min(after * rows_per_epoch, len(data))
            origin = Origin(store, savepoint)
            options: dict[str, Any] = {
                "state": "fork",
                "rows_per_epoch": rows_per_epoch,
                "parallelism": shards,
            }
            run_here(new, folder, origin=origin, max_epochs=2, on_epoch=compare, **options)
            run_here(new, folder, origin=origin, on_epoch=compare, **options)
            assert_same(forked.folded("out"), batch(folder, new, data))
        run_here(planned, folder, rows_per_epoch=rows_per_epoch)
        assert_same(own.folded("out"), batch(folder, planned, data))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", QUERIES)
def test_a_fork_has_the_whole_answer(name: str, tmp_path: Path) -> None:
    after = 1 + len(name) % 3
    fork(plan(tmp_path, QUERIES[name], ROWS), tmp_path, ROWS, after=after, rows_per_epoch=4)


@pytest.mark.parametrize("name", EDITS)
def test_a_fork_of_an_edited_query(name: str, tmp_path: Path) -> None:
    old, new = EDITS[name]
    planned = plan(tmp_path, old, ROWS)
    (tmp_path / "edited.sql").write_text(
        f"{TABLE}CREATE TABLE out WITH ('connector' = 'blackhole') AS {new};\n"
    )
    edited = plan_file(tmp_path / "edited.sql")
    fork(planned, tmp_path, ROWS, after=2, rows_per_epoch=4, edited=edited, shards=3)


@settings(
    max_examples=examples(5),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(queries(), rows(), st.integers(1, 4), st.integers(1, 9), st.integers(1, 3))
def test_random_queries(
    query: str, data: list[dict[str, Any]], after: int, rows_per_epoch: int, shards: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = [{"k": None, "v": None, "s": None, "b": True}, *data]
        fork(
            plan(folder, query, data), folder, data, after=after, rows_per_epoch=rows_per_epoch, shards=shards
        )


def test_what_the_state_does_not_have_is_refused(tmp_path: Path) -> None:
    union = "SELECT k, COUNT(*) AS n FROM t GROUP BY k UNION ALL SELECT k, v FROM t"
    planned = plan(tmp_path, union, ROWS)
    with collecting():
        run_here(planned, tmp_path, rows_per_epoch=4, max_epochs=1)
        store = CheckpointStore(tmp_path / "state", sync=False)
        with pytest.raises(DiagnosticError) as raised:
            run_here(planned, tmp_path, state="fork", origin=Origin(store, Savepoints(store).create("cut")))
    assert [d.code for d in raised.value.diagnostics] == ["SAV007"]
    assert "rows of the table `t`" in raised.value.diagnostics[0].notes[0]
    assert raised.value.exit_code == 4
    assert not (tmp_path / "fork" / "epochs").exists()
