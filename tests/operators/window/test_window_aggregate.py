"""The window aggregate, as tasks over random epochs and shards, against the definition of its windows."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.window.window_aggregate import WindowAggregate
from sqlstream_operators.plan.spec import SLICE_COLUMN, Column, OperatorStep, PhysicalPlan
from sqlstream_operators.plan.state_schema import TIME
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.plan.window_aggregate_spec import WindowAggregateSpec
from sqlstream_operators.plan.window_spec import WindowKind, WindowSpec
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.task.report import Report
from sqlstream_operators.task.task import rocks_stores
from tests.examples import examples
from tests.operators.pipelines import TICK, Driver, MemoryStores, Row, table_of, window_plan, without_timings
from tests.operators.window.test_windows import naive_windows

DUCK = DuckSession()
BATCH = duckdb.connect(config={"threads": 1})


@st.composite
def windows(draw: st.DrawFn) -> WindowSpec:
    kind = draw(st.sampled_from([WindowKind.TUMBLE, WindowKind.HOP, WindowKind.CUMULATE]))
    slide = draw(st.integers(1, 8))
    size = slide
    if kind is WindowKind.CUMULATE:
        size = slide * draw(st.integers(1, 5))
    elif kind is WindowKind.HOP:
        size = draw(st.integers(1, 20))
    return WindowSpec(kind, size, slide, draw(st.integers(-9, 9)), draw(st.booleans()))


KEYS = [None, "", "a", "b", "Ünï 🦆", "\x00"]


@st.composite
def epochs_of_splits(draw: st.DrawFn) -> list[list[list[Row]]]:
    """Epochs of splits of rows, roughly in the order of time, many late for some or all of their windows."""
    chance = random.Random(draw(st.integers(0, 1 << 30)))
    epochs = []
    n = 0
    for number in range(draw(st.integers(1, 4))):
        splits = []
        for size in draw(st.lists(st.integers(0, 25), max_size=3)):
            rows = []
            for _ in range(size):
                ts = 8 * number - 12 + chance.randint(-9, 9)
                v = chance.choice([None, -2, -1, 0, 1, 2])
                d = chance.choice([None, Decimal(chance.randint(-9999, 9999)) / 1000])
                rows.append(Row(ts, chance.choice(KEYS), v, d, n))
                n += 1
            splits.append(rows)
        epochs.append(splits)
    return epochs


class Expected:
    """What the windows must hold, row by row, by the definition of late and closed."""

    def __init__(self, window: WindowSpec, epochs: Sequence[Sequence[Sequence[Row]]]) -> None:
        watermark = WATERMARK_MIN
        self.pairs: list[tuple[int, int, Row]] = []
        self.late: list[tuple[int, int, int]] = []
        for splits in epochs:
            rows = [row for split in splits for row in split]
            for row in rows:
                for start, end in naive_windows(window, row.ts):
                    if watermark != WATERMARK_MIN and end - TICK <= watermark:
                        self.late.append((row.n, start, end))
                    else:
                        self.pairs.append((start, end, row))
            watermark = max([watermark, *(row.ts for row in rows)])
        self.final_watermark = watermark

    def rows(self, *, keyed: bool, closed_at: int = WATERMARK_MAX) -> list[dict[str, Any]]:
        """The batch definition, by DuckDB over (row, window) pairs, of the windows closed at a watermark."""
        pairs = pa.table(
            {
                "s": pa.array([start for start, _, _ in self.pairs], pa.int64()),
                "e": pa.array([end for _, end, _ in self.pairs], pa.int64()),
            }
        )
        rows = table_of([row for _, _, row in self.pairs])
        for name in rows.column_names:
            pairs = pairs.append_column(name, rows.column(name))
        key = "k, " if keyed else ""
        BATCH.register("pairs", pairs)
        found = BATCH.sql(
            f"SELECT {key}make_timestamp(s) AS window_start, make_timestamp(e) AS window_end, count(*) AS c, "
            "sum(v) AS s, sum(d)::DECIMAL(38,3) AS ds, max(k) AS m, list(n ORDER BY n) AS l, "
            "count(DISTINCT v) AS dc, sum(DISTINCT v) FILTER (d > 0) AS dp "
            f"FROM pairs WHERE e - {TICK} <= $upto GROUP BY {key}pairs.s, e",
            params={"upto": closed_at},
        ).to_arrow_table()
        return list(found.to_pylist())


def comparable(rows: Sequence[dict[str, Any]], *, ordered: bool) -> list[str]:
    """Rows as sorted text; lists are compared in order only where the order is promised."""
    return sorted(
        repr({**row, "l": row["l"] if ordered else sorted(row["l"])})
        for row in (dict(sorted(r.items())) for r in rows)
    )


def run_all(driver: Driver, epochs: Sequence[Sequence[Sequence[Row]]], *, bounded: bool = True) -> None:
    for number, splits in enumerate(epochs, start=1):
        driver.run([table_of(split) for split in splits], last=bounded and number == len(epochs))


def check(driver: Driver, window: WindowSpec, epochs: list[list[list[Row]]], *, keyed: bool) -> None:
    expected = Expected(window, epochs)
    ordered = not window.shared_slices or window.kind is WindowKind.TUMBLE
    assert comparable(driver.output, ordered=ordered) == comparable(
        expected.rows(keyed=keyed), ordered=ordered
    )
    missed: dict[int, list[tuple[int, int]]] = {}
    for n, start, end in sorted(expected.late):
        missed.setdefault(n, []).append((start, end))
    late = {
        letter["row"]["n"]: (
            _micros(letter["window_start"]),
            _micros(letter["window_end"]),
            letter["windows"],
        )
        for letter in driver.letters
    }
    assert late == {n: (ws[0][0], ws[-1][1], len(ws)) for n, ws in missed.items()}
    assert len(late) == len(driver.letters)
    assert sum(sum(report.late.values()) for report in driver.reports) == len(late)


def _micros(time: Any) -> int:
    return int(np.datetime64(time, "us").astype(np.int64))


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(windows(), epochs_of_splits(), st.integers(1, 4), st.booleans(), st.integers(0, 99))
def test_any_cut_and_any_shards_give_the_batch_result(
    window: WindowSpec, epochs: list[list[list[Row]]], shards: int, keyed: bool, seed: int
) -> None:
    stores = MemoryStores(shards, 16)
    driver = Driver(window_plan(window, keyed=keyed), shards, stores, seed=seed, duck=DUCK)
    run_all(driver, epochs)
    check(driver, window, epochs, keyed=keyed)
    for store in stores.stores.values():
        assert [store.scan_all(table.name).num_rows for table in store.schema.tables] == [0, 0]


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(windows(), epochs_of_splits(), st.integers(1, 3), st.booleans())
def test_after_any_epoch_exactly_the_closed_windows_are_out(
    window: WindowSpec, epochs: list[list[list[Row]]], shards: int, rises: bool
) -> None:
    stores = MemoryStores(shards, 16)
    driver = Driver(window_plan(window), shards, stores, duck=DUCK, rises=rises)
    for upto in range(1, len(epochs) + 1):
        driver.run([table_of(split) for split in epochs[upto - 1]])
        # What this epoch read closes windows in it, or in the next one where the watermark may not rise.
        before = Expected(window, epochs[: upto if rises else upto - 1])
        closed = before.rows(keyed=True, closed_at=before.final_watermark)
        assert comparable(driver.output, ordered=False) == comparable(closed, ordered=False)
        # Nothing is kept that no open window needs.
        kept = [
            store.scan_all(table.name) for store in stores.stores.values() for table in store.schema.tables
        ]
        for end in {end for table in kept for end in table.column(TIME).to_pylist()}:
            ends = [end] if not window.shared_slices else [e for _, e in naive_windows(window, end - 1)]
            assert max(ends) - TICK > before.final_watermark


@settings(max_examples=examples(3), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(windows(), epochs_of_splits(), st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_on_rocksdb_with_rescaling(
    tmp_path_factory: pytest.TempPathFactory,
    window: WindowSpec,
    epochs: list[list[list[Row]]],
    shards: list[int],
) -> None:
    base: Path = tmp_path_factory.mktemp("job")
    context = {"checkpoint": str(base / "checkpoint"), "local_dir": str(base / "local")}
    driver = Driver(window_plan(window), 1, rocks_stores, context=context, duck=DUCK)
    for number, splits in enumerate(epochs, start=1):
        driver.shards = shards[number - 1]
        driver.run([table_of(split) for split in splits], last=number == len(epochs))
    check(driver, window, epochs, keyed=True)
    assert all(version.is_empty for versions in driver.state.values() for version in versions)


def test_a_retry_gives_the_same_bytes() -> None:
    rows = [[[Row(7 * i % 40, "ab"[i % 2], i % 3, Decimal(i), i) for i in range(60)]]] * 2
    runs = []
    for _ in range(2):
        driver = Driver(window_plan(WindowSpec(WindowKind.HOP, 12, 4)), 3, MemoryStores(3, 16))
        run_all(driver, rows)
        runs.append([without_timings(report).to_bytes() for report in driver.reports])
    assert runs[0] == runs[1]
    assert any(Report.from_bytes(report).parts for report in runs[0])


# ------------------------------------------------------------------------------------------- the operator alo


def spec_of(plan: PhysicalPlan) -> WindowAggregateSpec:
    [spec] = [step.operator for s in plan.stages for step in s.steps if isinstance(step, OperatorStep)]
    assert isinstance(spec, WindowAggregateSpec)
    return spec


class Alone:
    """The operator without tasks, on in-memory state."""

    def __init__(self, window: WindowSpec, *, max_expanded_rows: int = 1 << 20) -> None:
        self.spec = spec_of(window_plan(window))
        self.operator = WindowAggregate(self.spec, max_expanded_rows=max_expanded_rows)
        self.store = MemoryShardStore(self.spec.state)

    def partials(self, rows: Sequence[tuple[int, str | None, int]]) -> list[pa.Table]:
        """Partials of (slice end, key, count), one each, in this order."""
        none: list[None] = [None] * len(rows)
        acc = pa.table(
            {
                SLICE_COLUMN: pa.array([end for end, _, _ in rows], pa.int64()),
                "k": pa.array([key for _, key, _ in rows], pa.string()),
                "c": pa.array([count for _, _, count in rows], pa.int64()),
                "s": pa.array(none, pa.decimal128(38, 0)),
                "ds": pa.array(none, pa.decimal128(38, 3)),
                "m": pa.array(none, pa.string()),
                "l": pa.array([[count] for _, _, count in rows], pa.list_(pa.int64())),
            }
        )
        distinct = pa.table(
            {
                SLICE_COLUMN: pa.array([], pa.int64()),
                "k": pa.array([], pa.string()),
                "v": pa.array([], pa.int64()),
                "f_all": pa.array([], pa.bool_()),
                "f_positive": pa.array([], pa.bool_()),
            }
        )
        return [acc, distinct]

    def process(
        self, rows: Sequence[tuple[int, str | None, int]], previous: int, late: int, close: int
    ) -> OperatorResult:
        context = OperatorContext(0, 1, 128, Watermarks(previous, late, close), self.store, DUCK)
        return self.operator.process(self.partials(rows), context)


def test_lists_keep_the_order_of_arrival_over_epochs_and_within_them() -> None:
    alone = Alone(WindowSpec(WindowKind.TUMBLE, 10, 10))
    rng = np.random.default_rng(5)
    expected: dict[tuple[int, str], list[int]] = defaultdict(list)
    count = 0
    for _ in range(3):
        rows = []
        for end, key in zip(rng.integers(1, 4, 5000) * 10, rng.integers(0, 700, 5000), strict=True):
            rows.append((int(end), f"k{key}", count))
            expected[int(end), f"k{key}"].append(count)
            count += 1
        result = alone.process(rows, WATERMARK_MIN, WATERMARK_MIN, WATERMARK_MIN)
        assert result.output.num_rows == 0
    result = alone.process(rows[:0], WATERMARK_MIN, WATERMARK_MIN, WATERMARK_MAX)
    found = {(_micros(row["window_end"]), row["k"]): row["l"] for row in result.output.to_pylist()}
    assert found == expected


def test_rows_of_a_slice_that_dies_in_the_epoch_are_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Alone(WindowSpec(WindowKind.TUMBLE, 10, 10))
    alone.process([(10, "a", 1)], WATERMARK_MIN, WATERMARK_MIN, WATERMARK_MIN)
    monkeypatch.setattr(alone.store, "put", lambda *_: pytest.fail("put"))
    result = alone.process([(10, "a", 2), (20, None, 3)], WATERMARK_MIN, WATERMARK_MIN, WATERMARK_MAX)
    assert sorted((row["k"] or "", row["c"], row["l"]) for row in result.output.to_pylist()) == [
        ("", 3, [3]),
        ("a", 3, [1, 2]),
    ]
    assert alone.store.scan_all("acc").num_rows == 0


def test_nothing_to_do_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Alone(WindowSpec(WindowKind.HOP, 10, 5))
    for read in ("scan_time", "get", "has_time"):
        monkeypatch.setattr(alone.store, read, lambda *_: pytest.fail("read"))
    result = alone.process([], 15, 18, 18)
    assert result.output.num_rows == 0
    assert result.output.schema.names == [column.name for column in alone.spec.output]


def test_rows_of_closed_windows_are_refused() -> None:
    alone = Alone(WindowSpec(WindowKind.TUMBLE, 10, 10))
    with pytest.raises(InternalError, match="closed windows"):
        alone.process([(10, "a", 1)], 0, 10, 10)


@pytest.mark.parametrize("kind", [WindowKind.TUMBLE, WindowKind.HOP, WindowKind.CUMULATE])
def test_many_windows_close_in_chunks(kind: WindowKind) -> None:
    size = 10 if kind is WindowKind.TUMBLE else 30
    rows = [(10 * (1 + i % 40), f"k{i % 7}", i) for i in range(300)]
    results = []
    for limit in (1 << 20, 25):
        alone = Alone(WindowSpec(kind, size, 10), max_expanded_rows=limit)
        alone.process(rows, WATERMARK_MIN, WATERMARK_MIN, WATERMARK_MIN)
        result = alone.process([], WATERMARK_MIN, WATERMARK_MIN, WATERMARK_MAX)
        results.append(comparable(result.output.to_pylist(), ordered=False))
        last = 400 if kind is WindowKind.TUMBLE else 420
        assert result.metrics["closed_windows"] == last // 10
        assert result.metrics["max_closed_end_us"] == last
    assert results[0] == results[1]


def test_metrics_count_the_state() -> None:
    alone = Alone(WindowSpec(WindowKind.TUMBLE, 10, 10))
    first = alone.process(
        [(10, "a", 1), (10, "a", 2), (20, "a", 1)], WATERMARK_MIN, WATERMARK_MIN, WATERMARK_MIN
    )
    assert first.metrics["state_rows_added"] == 2
    second = alone.process([(20, "a", 5), (20, "b", 1)], WATERMARK_MIN, 10, 10)
    assert (second.metrics["state_rows_added"], second.metrics["state_rows_removed"]) == (1, 1)
    assert second.metrics["max_closed_end_us"] == 10
    assert Column("k", alone.spec.keys[0].type) in alone.spec.output
