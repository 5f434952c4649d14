"""What is held back until windows close, what is released and what passes, against a model; first rows of keys."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext, OperatorResult
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.plan.first_row_spec import FirstRowSpec
from sqlstream_operators.plan.schema import WEIGHT_COLUMN, Column
from sqlstream_operators.plan.state_schema import StateField, StateSchema, StateTable
from sqlstream_operators.plan.suppress_until_close_spec import SuppressUntilCloseSpec
from sqlstream_operators.plan.types import BIGINT, TIMESTAMP, VARCHAR
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from sqlstream_operators.state.memory import MemoryShardStore
from tests.examples import examples

COLUMNS = (Column("e", TIMESTAMP), Column("k", VARCHAR), Column("n", BIGINT))
KEY = [StateField("e", TIMESTAMP, "e"), StateField("k", VARCHAR, "k")]
STATE = StateSchema(
    "s",
    "suppress_until_close",
    "",
    (StateTable.of("held", "time", key=KEY, value=[StateField("n", BIGINT, "n")]),),
)
TICK = 1_000
DUCK = DuckSession()
Key = tuple[int, str]


def suppressed(*, weighted: bool = True) -> SuppressUntilCloseSpec:
    return SuppressUntilCloseSpec(
        STATE, ("e", "k"), "e", COLUMNS, weighted, COLUMNS, ("t",), TICK, 10_000_000
    )


def at(second: int) -> datetime:
    return datetime(1970, 1, 1) + timedelta(seconds=second)


def table(rows: list[tuple[int, str, int, int]], *, weighted: bool = True) -> pa.Table:
    columns: dict[str, Any] = {
        "e": pa.array([at(e) for e, _, _, _ in rows], pa.timestamp("us")),
        "k": pa.array([k for _, k, _, _ in rows], pa.string()),
        "n": pa.array([n for _, _, n, _ in rows], pa.int64()),
    }
    if weighted:
        columns[WEIGHT_COLUMN] = pa.array([w for _, _, _, w in rows], pa.int64())
    return pa.table(columns)


class Job:
    def __init__(self, spec: SuppressUntilCloseSpec | FirstRowSpec) -> None:
        self.operator, self.store = operator_of(spec), MemoryShardStore(spec.state)

    def run(
        self, rows: pa.Table, previous: int = WATERMARK_MIN, close: int = WATERMARK_MIN
    ) -> OperatorResult:
        marks = Watermarks(previous, previous, close)
        context = OperatorContext(0, 1, 128, marks, self.store, DUCK)
        idle = self.operator.idle([rows], marks, stateless=not self.store.has_rows())
        result = self.operator.process([rows], context)
        if idle:
            assert result.output.num_rows == 0
        self.store.commit()
        assert result.metrics["emitted_rows"] == result.output.num_rows
        return result


def micros(second: int) -> int:
    return second * 1_000_000


updates = st.lists(
    st.tuples(st.sampled_from([10, 20, 30]), st.sampled_from("ab"), st.none() | st.integers(0, 3)), max_size=6
)
#: Watermarks about the ends of windows: a µs before one is closed, just then, and at its end.
marks = st.sampled_from([micros(e) + d for e in (10, 20, 30) for d in (-TICK - 1, -TICK, -1, 0)])
epochs = st.lists(st.tuples(updates, marks), min_size=1, max_size=6)


@settings(max_examples=examples(20))
@given(epochs, st.booleans())
@example([([(10, "a", 1)], micros(12)), ([(10, "a", 2)], 0), ([(10, "a", None)], 0)], False)
@example([([(10, "a", 1)], micros(10) - TICK), ([(10, "a", 2)], 0)], False)
@example([([(10, "a", 1)], micros(10) - TICK - 1), ([(10, "a", 2)], 0), ([], micros(10) - TICK)], False)
def test_closed_windows_are_as_they_are_and_open_ones_are_not_there(
    epochs: list[tuple[list[tuple[int, str, int | None]], int]], ends: bool
) -> None:
    """Each update makes the row of a key another one, or takes it away; the watermark goes on after each epoch."""
    job = Job(suppressed())
    now: dict[Key, int] = {}
    folded: Counter[tuple[datetime, str, int]] = Counter()
    previous = WATERMARK_MIN
    for number, (rows, mark) in enumerate(epochs):
        before = dict(now)
        for e, k, n in rows:
            if n is None:
                now.pop((e, k), None)
            else:
                now[e, k] = n
        changed = [(e, k, n, -1) for (e, k), n in before.items() if now.get((e, k)) != n]
        changed += [(e, k, n, 1) for (e, k), n in now.items() if before.get((e, k)) != n]
        close = WATERMARK_MAX if ends and number == len(epochs) - 1 else max(previous, mark)
        result = job.run(table(changed), previous, close)
        for row in result.output.to_pylist():
            folded[row["e"], row["k"], row["n"]] += row[WEIGHT_COLUMN]
        closed = {(at(e), k, n): 1 for (e, k), n in now.items() if micros(e) - TICK <= close}
        assert {row: count for row, count in folded.items() if count} == closed
        assert job.store.scan_all("held").num_rows == len(now) - len(closed)
        previous = close


def test_a_window_that_closes_says_so() -> None:
    job = Job(suppressed())
    job.run(table([(10, "a", 1, 1), (20, "a", 1, 1)]))
    metrics = job.run(table([]), WATERMARK_MIN, micros(10)).metrics
    assert (metrics["closed_windows"], metrics["max_closed_end_us"]) == (1, micros(10))


def test_a_watermark_that_closes_nothing_new_is_no_work() -> None:
    job = Job(suppressed())
    empty = table([])
    for previous, close, idle in (
        (micros(10), micros(10), True),
        (micros(10), micros(10) + 1, False),
        (WATERMARK_MAX, WATERMARK_MAX, True),
    ):
        marks = Watermarks(previous, previous, close)
        assert job.operator.idle([empty], marks, stateless=False) is idle
        assert job.operator.idle([empty], marks, stateless=True)
        assert not job.operator.idle([table([(10, "a", 1, 1)])], marks, stateless=True)


def test_rows_that_only_come_are_held_too() -> None:
    job = Job(suppressed(weighted=False))
    assert job.run(table([(10, "a", 1, 1), (20, "a", 1, 1)], weighted=False)).output.num_rows == 0
    output = job.run(table([(30, "a", 1, 1)], weighted=False), WATERMARK_MIN, micros(20)).output
    assert output.column_names == ["e", "k", "n"]
    assert output.num_rows == 2


def test_a_row_without_a_window_is_our_mistake() -> None:
    rows = table([(10, "a", 1, 1)]).set_column(0, "e", pa.nulls(1, pa.timestamp("us")))
    with pytest.raises(InternalError):
        Job(suppressed()).run(rows)


def test_the_first_row_of_each_key_in_order_of_arrival() -> None:
    state = StateSchema("s", "first_row", "", (StateTable.of("row", "key", key=[KEY[1]]),))
    job = Job(FirstRowSpec(state, ("k",), COLUMNS, COLUMNS))
    first = job.run(table([(3, "b", 9, 1), (1, "a", 5, 1), (2, "b", 0, 1)], weighted=False)).output
    assert [(row["k"], row["n"]) for row in first.to_pylist()] == [("b", 9), ("a", 5)]
    result = job.run(table([(0, "a", 0, 1), (4, "c", 1, 1)], weighted=False))
    assert [(row["k"], row["n"]) for row in result.output.to_pylist()] == [("c", 1)]
    assert result.metrics["dropped_rows"] == 1
    with pytest.raises(InternalError):
        job.run(table([(0, "a", 0, 1)]))


def test_first_rows_need_a_state_of_their_keys() -> None:
    key, more = KEY[1], StateField("n", BIGINT, "n")
    for wrong in (
        StateTable.of("row", "time", key=[key]),
        StateTable.of("row", "list", key=[key]),
        StateTable.of("row", "key", key=[key], value=[more]),
        StateTable.of("row", "key", key=[key, more]),
        StateTable.of("row", "key", key=[more]),
    ):
        state = StateSchema("s", "first_row", "", (wrong,))
        with pytest.raises(InternalError, match="has not the columns"):
            operator_of(FirstRowSpec(state, ("k",), COLUMNS, COLUMNS))


def test_first_rows_of_two_keys_in_any_order() -> None:
    """In the state keys are in the order of what they mean, in the query as they are written."""
    state = StateSchema("s", "first_row", "", (StateTable.of("row", "key", key=[KEY[0], KEY[1]]),))
    job = Job(FirstRowSpec(state, ("k", "e"), COLUMNS, COLUMNS))
    job.run(table([(1, "a", 1, 1)], weighted=False))
    rows = table([(1, "a", 2, 1), (1, "b", 3, 1), (2, "a", 4, 1), (1, "b", 5, 1)], weighted=False)
    assert [row["n"] for row in job.run(rows).output.to_pylist()] == [3, 4]
