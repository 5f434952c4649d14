"""Window Top-N: each window comes out once, when it closes, as the batch definition over all its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.errors import InternalError
from sqlstream_operators.operators.operator import OperatorContext
from sqlstream_operators.operators.registry import operator_of
from sqlstream_operators.operators.window.windows import closed_upto
from sqlstream_operators.plan.schema import WEIGHT_COLUMN
from sqlstream_operators.plan.top_n_spec import Ordering, WindowTopNSpec
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN, Watermarks
from tests.examples import examples
from tests.operators.ranked_cases import (
    COLUMNS,
    DUCK,
    GROUPS,
    NAMES,
    RANK,
    Case,
    Row,
    Shards,
    answer,
    cases,
    ranked_state,
    rows,
    tuples,
    windowed,
)

TICK = 3
Timed = tuple[int, Row]
Epoch = tuple[Watermarks, list[Timed]]


@st.composite
def epochs(draw: st.DrawFn) -> list[Epoch]:
    """Epochs whose rows are of windows that are open, some of which the epoch itself closes."""
    found = []
    previous = WATERMARK_MIN
    last = draw(st.integers(1, 4))
    for number in range(1, last + 1):
        start = -5 if previous == WATERMARK_MIN else previous
        late = draw(st.sampled_from([previous, start, start + 4]))
        close = draw(st.sampled_from([late, late, max(late, start + 4)]))
        late = max(late, previous)
        if number == last:
            close = draw(st.sampled_from([close, WATERMARK_MAX]))
        first = -20 if late == WATERMARK_MIN else closed_upto(late, TICK) + 1
        listed = draw(st.lists(st.tuples(st.integers(first, first + 6), rows), max_size=12))
        found.append((Watermarks(previous, late, close), listed))
        previous = close
    return found


def spec_of(case: Case) -> WindowTopNSpec:
    return WindowTopNSpec(
        ranked_state(case, "time"),
        COLUMNS,
        case.partition,
        case.order,
        case.function,
        case.limit,
        case.offset,
        RANK.name if case.rank else None,
        case.columns,
        ("source",),
        TICK,
    )


def shards_of(case: Case, shards: int, root: Path | None = None) -> Shards:
    spec = spec_of(case)
    return Shards(operator_of(spec), spec.state, shards, root)


def expected(case: Case, listed: Sequence[Timed], after: int, upto: int) -> Counter[Row]:
    """What the windows that end in (after, upto] give."""
    found: Counter[Row] = Counter()
    for end in {end for end, _ in listed if after < end <= upto}:
        found += answer(case, Counter(row for other, row in listed if other == end))
    return found


def check(case: Case, drawn: list[Epoch], job: Shards, shards: Sequence[int] = ()) -> None:
    listed: list[Timed] = []
    for number, (marks, came) in enumerate(drawn):
        if shards:
            job.shards = shards[number % len(shards)]
        output = job.run(windowed(came), marks)
        listed += came
        after, upto = closed_upto(marks.previous, TICK), closed_upto(marks.close, TICK)
        found = Counter(tuples(output)) if output is not None else Counter()
        assert found == expected(case, listed, after, upto)
        if output is not None:
            assert output.column_names == [column.name for column in case.columns]
        check_state(case, job, [(end, row) for end, row in listed if end > upto])
    if drawn[-1][0].close == WATERMARK_MAX:
        assert job.stored() == []


def check_state(case: Case, job: Shards, still: Sequence[Timed]) -> None:
    """Of open windows exactly the rows that can be in the answer are kept."""
    plain = Case(case.partition, case.order, case.function, 0, case.offset + case.limit, False, tuple(NAMES))
    kept: Counter[tuple[int, Row]] = Counter()
    for row in job.stored():
        assert row["$count"] > 0
        kept[row["$time"], tuple(row[name] for name in NAMES)] += row["$count"]
    wanted: Counter[tuple[int, Row]] = Counter()
    for end in {end for end, _ in still}:
        there = answer(plain, Counter(row for other, row in still if other == end))
        wanted.update({(end, row): count for row, count in there.items()})
    assert kept == wanted


@settings(max_examples=examples(15))
@given(cases(), epochs(), st.integers(1, 3))
def test_each_window_comes_out_when_it_closes(case: Case, drawn: list[Epoch], shards: int) -> None:
    check(case, drawn, shards_of(case, shards))


@settings(max_examples=examples(3))
@given(cases(), epochs(), st.lists(st.integers(1, 3), min_size=1, max_size=3))
def test_on_rocksdb_with_rescaling(
    tmp_path_factory: pytest.TempPathFactory, case: Case, drawn: list[Epoch], shards: list[int]
) -> None:
    check(case, drawn, shards_of(case, 1, tmp_path_factory.mktemp("job")), shards)


@settings(max_examples=examples(10))
@given(cases(), epochs())
def test_the_order_of_rows_in_an_epoch_means_nothing(case: Case, drawn: list[Epoch]) -> None:
    runs = []
    for mixed in (False, True):
        job = shards_of(case, 2)
        outputs = []
        for marks, listed in drawn:
            came = list(reversed(listed)) if mixed else listed
            output = job.run(windowed(came), marks)
            outputs.append(None if output is None else sorted(map(repr, tuples(output))))
        runs.append((outputs, job.bytes()))
    assert runs[0] == runs[1]


# ----------------------------------------------------------------------------------------------- by hand

BEST = Case((), (Ordering("count", descending=True),), "row_number", 0, 1, True, tuple(NAMES))
OPEN = Watermarks()


def row(count: int) -> Row:
    return (1, count, "a", None)


def test_rows_of_a_window_that_closes_in_the_epoch_are_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    job = shards_of(BEST, 1)
    job.run(windowed([(10, row(1))]), OPEN)
    monkeypatch.setattr(job.memory[0], "put", lambda *_: pytest.fail("put"))
    output = job.run(windowed([(10, row(2)), (20, row(1))]), Watermarks(close=WATERMARK_MAX))
    assert sorted(r["count"] for r in output.to_pylist()) == [1, 2]
    assert job.stored() == []


def test_windows_that_the_late_watermark_closes_go_without_the_rows_of_the_epoch() -> None:
    job = shards_of(BEST, 1)
    job.run(windowed([(10, row(1))]), OPEN)
    output = job.run(windowed([(30, row(5))]), Watermarks(WATERMARK_MIN, 10 - TICK, 10 - TICK))
    assert [r["count"] for r in output.to_pylist()] == [1]
    assert [r["$time"] for r in job.stored()] == [30]


def test_rows_of_closed_windows_and_changes_are_refused() -> None:
    with pytest.raises(InternalError, match="closed windows"):
        shards_of(BEST, 1).run(windowed([(10, row(1))]), Watermarks(0, 10 - TICK, 10 - TICK))
    changes = windowed([(10, row(1))]).append_column(WEIGHT_COLUMN, pa.array([1], pa.int64()))
    with pytest.raises(InternalError, match="append-only"):
        shards_of(BEST, 1).run(changes, OPEN)


def test_a_window_is_closed_a_tick_before_its_end_and_not_earlier() -> None:
    job = shards_of(BEST, 1)
    job.run(windowed([(10, row(1))]), OPEN)
    early = job.run(windowed([]), Watermarks(WATERMARK_MIN, 10 - TICK - 1, 10 - TICK - 1))
    assert early.num_rows == 0
    assert job.run(windowed([]), Watermarks(10 - TICK - 1, 10 - TICK, 10 - TICK)).num_rows == 1


def test_metrics_say_which_windows_closed() -> None:
    job = shards_of(BEST, 1)
    seen = []
    process = job.operator.process
    for listed, marks in (
        ([(10, row(1)), (10, row(2)), (20, row(3))], OPEN),
        ([], Watermarks(close=30)),
    ):
        with job.store(0) as store:
            seen.append(
                process([windowed(listed)], OperatorContext(0, 1, GROUPS, marks, store, DUCK)).metrics
            )
            store.commit()
    assert (seen[0]["closed_windows"], seen[0]["state_rows_added"]) == (0, 2)
    assert "max_closed_end_us" not in seen[0]
    assert (seen[1]["closed_windows"], seen[1]["state_rows_removed"]) == (2, 2)
    assert seen[1]["max_closed_end_us"] == 20


def test_idle_while_no_window_can_close() -> None:
    operator = shards_of(BEST, 1).operator
    nothing = [windowed([])]
    assert operator.idle(nothing, Watermarks(5, 5, 5), stateless=False)
    assert operator.idle(nothing, Watermarks(5, 5, 9), stateless=True)
    assert not operator.idle(nothing, Watermarks(5, 5, 9), stateless=False)
    assert not operator.idle([windowed([(10, row(1))])], Watermarks(5, 5, 5), stateless=True)
