"""Group aggregates as planned: the SQL of partials, merged and emitted, equals the batch SQL over what is left."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_planner.logical import AggregateCall
from tests.examples import examples
from tests.planner.physical.group_cases import Epoch, Row, Shape, assert_same, call, expected, plan
from tests.planner.physical.group_rows import MODES, SHAPES, TIES, day, fixed_epochs
from tests.planner.physical.group_running import Running, interpreted

_ORDERED = [
    f"{name} ORDER BY {order})"
    for name in ("list(s", "string_agg(s, '-'", "collect(x", "any_value(s")
    for order in ("x", "x DESC", "x DESC NULLS FIRST", "x NULLS FIRST, f", "x + y DESC NULLS LAST")
]
_FLOAT = ("stddev", "stddev_pop", "var_samp", "var_pop", "variance", "sem", "skewness", "kurtosis", "product")

PLAIN = [
    *(
        "count(*)",
        "count(x)",
        "count(x, s)",
        "count(*) FILTER (WHERE x > 0)",
        "count_if(x > y)",
        "count_if(b)",
    ),
    *(
        "sum(x)",
        "sum(y)",
        "sum(d)",
        "sum(f)",
        "sum(b)",
        "sum(x + y) FILTER (WHERE b)",
        "sum(x) FILTER (WHERE s = 'a')",
    ),
    *("avg(x)", "avg(d)", "avg(f)", "avg(t)", "mean(y)"),
    *(f"{f}({c})" for f in ("min", "max", "any_value") for c in ("x", "d", "z", "s", "b", "t", "l", "r")),
    "max(x) FILTER (WHERE y > 0)",
    *("bool_and(b)", "bool_or(b)", "bool_and(x > 0)", "bit_and(x)", "bit_or(x)", "bit_xor(x)", "bit_xor(y)"),
    *(f"{f}({c})" for f in _FLOAT for c in ("x", "f")),
    *(f"{f}({a})" for f in ("arg_min", "arg_max") for a in ("s, x", "x, z", "x, s", "l, t", "d, r", "r, x")),
    "arg_max(s, x) FILTER (WHERE b)",
    *(f"{f}({c})" for f in ("list", "array_agg", "collect") for c in ("x", "s", "z", "r")),
    "list(x) FILTER (WHERE x > 0)",
    *("string_agg(s)", "string_agg(s, '-')", "string_agg(x, '')"),
    *_ORDERED,
    *("median(x)", "median(f)", "mode(x)", "mode(s)", "mode(z)", "mad(x)", "entropy(x)", "entropy(s)"),
    *("quantile_cont(x, 0.25)", "quantile_disc(s, 0.5)", "quantile_cont(f, [0.1, 0.9])", "quantile(x, 0.5)"),
]
DISTINCT = [
    *(
        "count(DISTINCT x)",
        "count(DISTINCT s)",
        "count(DISTINCT x, s)",
        "count(DISTINCT k)",
        "count(DISTINCT z)",
    ),
    *(
        "count(DISTINCT x) FILTER (WHERE b)",
        "count(DISTINCT x) FILTER (WHERE y > 0)",
        "sum(DISTINCT x) FILTER (WHERE b)",
    ),
    *(
        "sum(DISTINCT x)",
        "sum(DISTINCT d)",
        "avg(DISTINCT x)",
        "sum(DISTINCT b)",
        "sum(DISTINCT f)",
        "avg(DISTINCT f)",
    ),
    *("list(DISTINCT x)", "list(DISTINCT x ORDER BY x DESC)", "list(DISTINCT x ORDER BY x NULLS FIRST)"),
    *("string_agg(DISTINCT s, '-')", "string_agg(DISTINCT s ORDER BY s DESC)", "collect(DISTINCT x)"),
    # Ordered by what is computed of the value; ties ascend.
    "string_agg(DISTINCT s, '-' ORDER BY length(s) DESC)",
    "string_agg(DISTINCT upper(s), '{}' ORDER BY length(upper(s)) || '{}') FILTER (WHERE b)",
    "list(DISTINCT x ORDER BY x % 2 DESC NULLS FIRST, -x)",
    "collect(DISTINCT x ORDER BY abs(x))",
    "any_value(DISTINCT x ORDER BY -x)",
    *(
        "median(DISTINCT x)",
        "stddev(DISTINCT x)",
        "mode(DISTINCT x)",
        "count_if(DISTINCT b)",
        "product(DISTINCT f)",
    ),
    *("min(DISTINCT x)", "arg_max(DISTINCT s, x)", "any_value(DISTINCT x)", "bit_xor(DISTINCT x)"),
    "quantile_cont(DISTINCT x, 0.5) FILTER (WHERE b)",
]
CALLS = {text: call(text) for text in (*PLAIN, *DISTINCT)}


@pytest.mark.sampled(2)
@MODES
@pytest.mark.parametrize("start", range(0, len(CALLS), 12))
def test_every_aggregate(start: int, retracting: bool) -> None:
    """Twelve at a time over ties, NULLs and duplicates, for keys, part of them, and everything."""
    shape, calls = SHAPES[4], list(CALLS.values())[start : start + 12]
    epochs = fixed_epochs(retracting=retracting)
    assert_same(
        interpreted(plan(shape, calls, retracting=retracting), epochs), expected(shape, calls, epochs)
    )


@pytest.mark.sampled(4, each_value=False)
@MODES
@pytest.mark.parametrize("start", range(0, len(CALLS), 30))
def test_the_operators(start: int, retracting: bool) -> None:
    """Thirty aggregates at a time by the real operators on two shards, after every epoch."""
    calls = list(CALLS.values())[start : start + 30]
    shape = SHAPES[4] if retracting else SHAPES[1]
    running = Running(plan(shape, calls, retracting=retracting), shards=2)
    epochs = fixed_epochs(retracting=retracting)
    for number, epoch in enumerate(epochs, start=1):
        assert_same(running.epoch(epoch), expected(shape, calls, epochs[:number]))


@pytest.mark.sampled(3)
@MODES
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nothing_at_all(shape: Shape, retracting: bool) -> None:
    """Over no rows: the grand total is there, with 0 for counts and NULL for the rest, as DuckDB has it.

    Each aggregate is in the grand total of one shape.
    """
    totals = [s for s in SHAPES if s.has_total]
    every = list(CALLS.values())
    calls = every[totals.index(shape) :: len(totals)] if shape.has_total else every[::20]
    assert_same(
        interpreted(plan(shape, calls, retracting=retracting), [[], []]), expected(shape, calls, [[]])
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_everything_goes(shape: Shape) -> None:
    """When all rows have gone the answer is that over no rows, and no state is left but the grand total's."""
    calls = list(CALLS.values())[SHAPES.index(shape) :: len(SHAPES)]
    running = Running(plan(shape, calls, retracting=True))
    came = [(r, 1) for r in TIES]
    running.epoch(came)
    assert_same(running.epoch([(r, -w) for r, w in came]), expected(shape, calls, [[]]))
    assert all(not store.has_rows() for stores in running.distinct_stores for store in stores)
    assert sum(len(store._memory.rows) for store in running.stores) == int(shape.has_total)


# ------------------------------------------------------------------------------------------- random rows


def _or_null(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from([*values, None])


_ROWS = st.tuples(
    _or_null(1, 2, 3),
    _or_null("a", "b"),
    _or_null(-1, 0, 1, 2),
    _or_null(0, 1, 2**40),
    _or_null(Decimal("0.10"), Decimal("-3.25"), Decimal("9.99")),
    _or_null(-1.5, 0.0, 0.25, 4.0),
    _or_null(float("nan"), -0.0, 0.0, 1.0),
    _or_null("", "a", "b", "ä"),
    _or_null(True, False),
    _or_null(day(1), day(2)),
    _or_null([], [1], [1, None], [2]),
    _or_null({"p": 1, "q": "a"}, {"p": None, "q": "b"}, {"p": 1, "q": None}),
)


@st.composite
def _epochs(draw: st.DrawFn, *, retracting: bool) -> list[Epoch]:
    """Rows that come; with `retracting`, several at once, and some go in the same epoch or later."""
    count = draw(st.integers(1, 4))
    epochs: list[list[tuple[Row, int]]] = [[] for _ in range(count)]
    for r in draw(st.lists(_ROWS, max_size=12)):
        at = draw(st.integers(0, count - 1))
        weight = draw(st.integers(1, 3)) if retracting else 1
        epochs[at].append((r, weight))
        if retracting and draw(st.booleans()):
            later = draw(st.integers(at, count - 1))
            epochs[later].insert(draw(st.integers(0, len(epochs[later]))), (r, -draw(st.integers(1, weight))))
    return [list(e) for e in epochs]


_SOME_CALLS = st.lists(st.sampled_from(list(CALLS.values())), max_size=5, unique_by=lambda c: c.field.id)


@MODES
@settings(max_examples=examples(5))
@given(data=st.data())
def test_random_rows(data: st.DataObject, retracting: bool) -> None:
    """Some aggregates over random rows: after every epoch by the operators, at the end by the SQL alone."""
    calls: list[AggregateCall] = data.draw(_SOME_CALLS)
    shape = data.draw(st.sampled_from(SHAPES if calls else SHAPES[1:]))  # SQL has no row without columns
    epochs = data.draw(_epochs(retracting=retracting))
    made = plan(shape, calls, retracting=retracting)
    running = Running(made, shards=data.draw(st.integers(1, 3)))
    for number, epoch in enumerate(epochs, start=1):
        assert_same(running.epoch(epoch), expected(shape, calls, epochs[:number]))
    assert_same(interpreted(made, epochs), expected(shape, calls, epochs))
