"""OVER that is given once: what it keeps does not grow with the rows that it has given."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.operators.over.over_on_close import OverOnClose
from sqlstream_operators.plan.over_spec import ROWS, TOTALS, WAITING, OverOnCloseSpec
from sqlstream_operators.plan.schema import SLICE_COLUMN, WEIGHT_COLUMN
from sqlstream_operators.plan.spec import OperatorStep
from sqlstream_operators.plan.watermarks import Watermarks
from sqlstream_operators.state.memory import MemoryShardStore
from tests.edits.derived import planned

DUCK = DuckSession()
SECOND = 1_000_000
W = "OVER (PARTITION BY k ORDER BY ts)"
LAST_MINUTE = "OVER (PARTITION BY k ORDER BY ts RANGE BETWEEN INTERVAL '1' MINUTE PRECEDING AND CURRENT ROW)"


def spec_of(query: str) -> OverOnCloseSpec:
    steps = [
        s for stage in planned(query).physical.stages for s in stage.steps if isinstance(s, OperatorStep)
    ]
    [spec] = [s.operator for s in steps]
    assert isinstance(spec, OverOnCloseSpec)
    return spec


class Run:
    """The operator, a row of each key a second, the watermark five seconds behind."""

    def __init__(self, query: str) -> None:
        self.spec = spec_of(query)
        self.store = MemoryShardStore(self.spec.state, 0, 1, 16)
        self.mark = -(2**63)
        self.given: list[dict[str, Any]] = []

    def epoch(self, first: int, last: int, keys: int = 3, **more: Any) -> dict[str, int]:
        rows = [(n, k) for n in range(first, last) for k in range(keys)]
        values = {"k": [k for _, k in rows], "v": [1 for _ in rows], "ts": [n * SECOND for n, _ in rows]}
        columns = {c.name: values[c.name] for c in self.spec.columns}
        types = {"k": pa.int32(), "v": pa.int32(), "ts": pa.timestamp("us")}
        table = pa.table({n: pa.array(v, pa.int64()).cast(types[n]) for n, v in columns.items()})
        tick = self.spec.slot_us
        ends = [n * SECOND // tick * tick + tick for n, _ in rows]
        table = table.append_column(SLICE_COLUMN, pa.array(ends, pa.int64()))
        close = max([(n - 5) * SECOND for n, _ in rows], default=self.mark)
        marks = Watermarks(self.mark, self.mark, more.get("close", close))
        result = OverOnClose(self.spec).process([table], OperatorContext(0, 1, 16, marks, self.store, DUCK))
        self.store.commit()
        self.mark = marks.close
        self.given += result.output.to_pylist()
        return dict(result.metrics)

    def rows(self, table: str) -> int:
        return int(self.store.scan_all(table).num_rows)


@pytest.mark.parametrize(
    ("query", "kept", "totals"),
    [
        (f"SELECT k, SUM(v) {W} AS a, ROW_NUMBER() {W} AS b, AVG(v) {W} AS c FROM bid", 0, 3),
        (f"SELECT k, LAG(v, 4) {W} AS a FROM bid", 12, 0),
        ("SELECT k, COUNT(*) OVER (PARTITION BY k ORDER BY ts ROWS 9 PRECEDING) AS a FROM bid", 27, 0),
        (f"SELECT k, COUNT(*) {LAST_MINUTE} AS a FROM bid", 3 * 61, 0),
        (f"SELECT k, COUNT(*) {LAST_MINUTE} AS a, LAG(v) {W} AS b, SUM(v) {W} AS c FROM bid", 3 * 61, 3),
    ],
)
def test_what_no_later_row_can_reach_goes(query: str, kept: int, totals: int) -> None:
    run = Run(query)
    sizes = []
    for first in range(0, 300, 30):
        read = run.epoch(first, first + 30)["read_rows"]
        assert read <= kept
        there = [t.name for t in run.spec.state.tables]
        sizes.append((run.rows(ROWS) if ROWS in there else 0, run.rows(TOTALS) if TOTALS in there else 0))
        assert run.rows(WAITING) == 15
    assert sizes[-1] == (kept, totals)
    assert sizes[-1] == sizes[4]
    assert len(run.given) == 3 * 295


def test_a_key_that_nobody_sends_any_more_loses_its_rows() -> None:
    run = Run(f"SELECT k, COUNT(*) {LAST_MINUTE} AS a FROM bid")
    run.epoch(0, 30, keys=50)
    for first in range(30, 240, 30):
        run.epoch(first, first + 30, keys=1)
    assert run.rows(ROWS) == 61
    run.epoch(0, 0, close=2**63 - 1)
    assert not run.store.has_rows()


def test_what_needs_all_rows_keeps_all() -> None:
    run = Run(f"SELECT k, COUNT(DISTINCT v) {W} AS a FROM bid")
    run.epoch(0, 100)
    assert run.rows(ROWS) == 3 * 95


def test_windows_keep_nothing_that_is_closed() -> None:
    run = Run(
        "SELECT k, SUM(v) OVER (PARTITION BY window_end, k ORDER BY v) AS a "
        "FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    )
    assert [t.name for t in run.spec.state.tables] == [WAITING]


def test_changes_and_rows_that_the_watermark_had_passed_are_errors() -> None:
    run = Run(f"SELECT k, SUM(v) {W} AS a FROM bid")
    run.epoch(0, 30)
    with pytest.raises(InternalError, match="the watermark had passed"):
        run.epoch(0, 30)
    rows = pa.table({c.name: pa.nulls(0) for c in run.spec.columns} | {WEIGHT_COLUMN: pa.nulls(0)})
    with pytest.raises(InternalError, match="the plan says append-only"):
        OverOnClose(run.spec).process([rows], OperatorContext(0, 1, 16, Watermarks(), run.store, DUCK))
