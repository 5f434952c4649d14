"""Group aggregates as planned: the SQL of partials, merged and emitted, equals the batch SQL over what is left."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.operator import WATERMARK_MAX, Watermarks
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.fingerprint import Provenance
from sqlstream_planner.group_plan import plan_group
from sqlstream_planner.logical import AggregateCall, EventTime, GroupExpiry
from tests.planner.group_cases import (
    COLUMNS,
    Epoch,
    Row,
    Running,
    Shape,
    assert_same,
    call,
    expected,
    interpreted,
    plan,
)

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
MODES = pytest.mark.parametrize("retracting", [False, True], ids=["append-only", "retracting"])

SHAPES = [
    Shape(()),
    Shape(("k",)),
    Shape(("g", "k")),
    Shape(("k % 2", "g")),
    Shape(("k", "g"), ((0, 1), (0,), ())),
    Shape(("g", "k"), ((0,), (1,))),
    Shape((), ((),)),
]


def row(k: int | None = 1, g: str | None = "a", **values: Any) -> Row:
    """A row; columns that are not given are NULL."""
    return tuple({**dict.fromkeys(COLUMNS), "k": k, "g": g, **values}[name] for name in COLUMNS)


def _day(n: int) -> dt.datetime:
    return dt.datetime(2024, 1, n)


_TIES: list[Row] = [
    row(
        x=3,
        y=1,
        d=Decimal("1.50"),
        f=0.5,
        z=float("nan"),
        s="b",
        b=True,
        t=_day(1),
        l=[1, None],
        r={"p": 1, "q": None},
    ),
    row(x=1, y=2, d=Decimal("2.25"), f=2.0, z=0.0, s="a", b=False, t=_day(2), l=[1], r={"p": None, "q": "a"}),
    row(x=1, y=1, d=Decimal("-1.50"), f=-1.5, z=-0.0, s="c", b=True, t=_day(2), l=[], r={"p": 1, "q": "a"}),
    row(x=3, y=-1, d=Decimal("1.50"), f=0.5, z=1.0, s="", b=None, t=_day(3), l=[1, 2], r={"p": 2, "q": "b"}),
    row(x=2, y=1, s="a", b=False, f=1.25, l=[None], t=_day(1)),
    row(x=None, y=0, s="b", b=True, z=float("inf"), f=1.25, d=Decimal("0.01"), r={"p": 1, "q": "a"}),
    row(),
    row(k=2),
    row(k=2, g=None),
    row(
        k=None,
        x=7,
        s="z",
        b=True,
        f=7.0,
        d=Decimal("7.00"),
        z=7.0,
        y=7,
        t=_day(7),
        l=[7],
        r={"p": 7, "q": "z"},
    ),
]


def fixed_epochs(*, retracting: bool) -> list[Epoch]:
    """Ties, groups of NULLs, values that come twice; if rows can go, some go and a group vanishes."""
    first = [(r, 1 + n % 2) for n, r in enumerate(_TIES)]
    if not retracting:
        return [[(r, 1) for r in _TIES], [], [(r, 1) for r in _TIES[::2]]]
    extra = row(
        k=3,
        x=9,
        y=9,
        d=Decimal("99.99"),
        f=9.0,
        z=-9.0,
        s="~",
        b=False,
        t=_day(9),
        l=[9],
        r={"p": 0, "q": ""},
    )
    best = (*[1, "a"], *extra[2:])
    gone = [(_TIES[1], -2), (_TIES[0], -1), (_TIES[2], 1), (extra, -2), (best, -1), (_TIES[7], -2)]
    return [[*first[:5], (extra, 2), (best, 1)], first[5:], [], gone]


@MODES
@pytest.mark.parametrize("text", list(CALLS))
def test_every_aggregate(text: str, retracting: bool) -> None:
    """Each on its own over ties, NULLs and duplicates, for keys, part of them, and everything."""
    shape, calls, epochs = SHAPES[4], [CALLS[text]], fixed_epochs(retracting=retracting)
    assert_same(
        interpreted(plan(shape, calls, retracting=retracting), epochs), expected(shape, calls, epochs)
    )


@MODES
@pytest.mark.parametrize("start", range(0, len(CALLS), 10))
def test_the_operators(start: int, retracting: bool) -> None:
    """Ten aggregates at a time by the real operators on two shards, after every epoch."""
    calls = list(CALLS.values())[start : start + 10]
    shape = SHAPES[4] if retracting else SHAPES[1]
    running = Running(plan(shape, calls, retracting=retracting), shards=2)
    epochs = fixed_epochs(retracting=retracting)
    for number, epoch in enumerate(epochs, start=1):
        assert_same(running.epoch(epoch), expected(shape, calls, epochs[:number]))


@MODES
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nothing_at_all(shape: Shape, retracting: bool) -> None:
    """Over no rows: the grand total is there, with 0 for counts and NULL for the rest, as DuckDB has it."""
    calls = list(CALLS.values()) if shape.has_total else list(CALLS.values())[::20]
    assert_same(
        interpreted(plan(shape, calls, retracting=retracting), [[], []]), expected(shape, calls, [[]])
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_everything_goes(shape: Shape) -> None:
    """When all rows have gone the answer is that over no rows, and no state is left but the grand total's."""
    calls = list(CALLS.values())[SHAPES.index(shape) :: len(SHAPES)]
    running = Running(plan(shape, calls, retracting=True))
    came = [(r, 1) for r in _TIES]
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
    _or_null(_day(1), _day(2)),
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
@settings(max_examples=40)
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


# -------------------------------------------------------------------------------------------- what is kept


def _accumulators(*texts: str, retracting: bool = True, shape: Shape = SHAPES[1]) -> list[str]:
    made = plan(shape, [call(t) for t in texts], retracting=retracting)
    return [c.name for c in made.spec.accumulators]


def test_equivalent_aggregates_share_their_state() -> None:
    """SUM, AVG and COUNT of one argument are one sum and one count; so are two spellings of one filter."""
    assert _accumulators("avg(x)", "sum(x)", "count(x)", "count(*)") == ["row_count", "count_x", "sum_x"]
    assert (
        len(_accumulators("count(*) FILTER (WHERE b AND x > 1)", "count(*) FILTER (WHERE 1 < x AND b)")) == 2
    )
    assert len(_accumulators("bool_or(b)", "bool_and(b)", "count_if(b)")) == 3


def test_a_group_without_aggregates_is_its_keys() -> None:
    """SELECT DISTINCT over append-only input keeps the keys alone, over retracting input how often they came."""
    assert _accumulators(retracting=False) == []
    assert _accumulators() == ["row_count"]
    assert _accumulators(retracting=False, shape=SHAPES[0]) == ["row_count"]


def test_distinct_aggregates_over_one_column_share_one_operator() -> None:
    """One state for all of them, one flag for each FILTER."""
    texts = [
        "count(DISTINCT x)",
        "sum(DISTINCT x)",
        "avg(DISTINCT x) FILTER (WHERE b)",
        "count(DISTINCT x) FILTER (WHERE b)",
    ]
    made = plan(SHAPES[1], [call(t) for t in texts], retracting=True)
    [distinct] = made.distinct
    assert len(distinct.spec.flags) == 2
    assert [f.name for f in distinct.spec.state.tables[0].value] == list(distinct.spec.flags)
    assert made.spec.counted == ()


def test_the_least_and_greatest_read_one_value() -> None:
    """MIN and MAX over retracting input read an end of their values, unless something needs all of these anyway."""

    def picks(*texts: str) -> list[str]:
        made = plan(SHAPES[1], [call(t) for t in texts], retracting=True)
        return sorted(c.pick for c in made.spec.counted)

    assert picks("min(x)") == ["first"]
    assert picks("min(x)", "max(x)", "any_value(x)") == ["first", "last"]
    assert picks("min(x)", "max(x)", "median(x)", "stddev(x)", "mode(x)") == ["all"]
    assert picks("arg_max(s, x)") == ["last"]
    assert picks("min(l)") == ["all"]  # NULLs inside a list sort differently in the state
    assert plan(SHAPES[1], [call("min(x)"), call("arg_max(s, x)")], retracting=False).spec.counted == ()


def test_keys_and_calls_in_another_order_are_the_same_state() -> None:
    """The state's bytes follow from what is kept, not from how the query lists it."""
    texts = ["sum(x)", "count(DISTINCT s)", "median(f)", "max(x)"]
    one = plan(Shape(("g", "k")), [call(t) for t in texts], retracting=True)
    other = plan(Shape(("k", "g")), [call(t) for t in reversed(texts)], retracting=True)
    assert one.spec.state.schema_id == other.spec.state.schema_id
    assert one.spec.state.state_id == other.spec.state.state_id
    assert [d.spec.state.schema_id for d in one.distinct] == [d.spec.state.schema_id for d in other.distinct]
    assert [d.spec.state.state_id for d in one.distinct] == [d.spec.state.state_id for d in other.distinct]
    changed = plan(Shape(("k", "g")), [call(t) for t in texts[:-1]], retracting=True)
    assert changed.spec.state.schema_id != one.spec.state.schema_id


def test_another_state_id_takes_the_distinct_values_along() -> None:
    """Two group aggregates over the same groups have states of their own, all of them."""
    made = plan(SHAPES[1], [call("count(DISTINCT x)"), call("count(DISTINCT s)")], retracting=False)
    moved = made.with_state_id("another")
    assert moved.spec.state.state_id == "another"
    ids = [d.spec.state.state_id for p in (made, moved) for d in p.distinct]
    assert len(set(ids)) == 4


def test_a_key_may_be_called_as_a_column_of_ours() -> None:
    """No column of the state collides with the count of values, the group's id or the weight."""
    for name in ("count", "time", "grouping_id", "__weight", "row_count", "value_x"):
        node = Shape(("k", "g"), ((0, 1), ())).node([call("median(x)"), call("count(DISTINCT x)")])
        keys = (replace(node.keys[0], name=name), node.keys[1])
        made = plan_group(replace(node, keys=keys), Provenance(), retracting=True)
        for state in (made.spec.state, *(d.spec.state for d in made.distinct)):
            for table in state.tables:
                columns = [f.name for f in (*table.key, *table.sub_key, *table.value)]
                assert len({c.lower() for c in columns}) == len(columns)
        epochs = fixed_epochs(retracting=True)
        calls = [call("median(x)"), call("count(DISTINCT x)")]
        running = Running(made)
        for epoch in epochs:
            got = running.epoch(epoch)
        assert_same(got, expected(Shape(("k", "g"), ((0, 1), ())), calls, epochs))


# ------------------------------------------------------------------------------------------------- expiry


@MODES
def test_groups_that_expire(retracting: bool) -> None:
    """Groups go with the watermark, values and all; their results stay."""
    expiry = GroupExpiry("key0", EventTime(("rows",), 1, direct=False), lateness_us=0)
    shape = Shape(("t", "k"))
    calls = [
        call(t)
        for t in ("sum(x)", "max(x)", "count(DISTINCT x)", "median(f)", "sum(DISTINCT x) FILTER (WHERE b)")
    ]
    made = plan(shape, calls, retracting=retracting, expiry=expiry)
    assert made.distinct == ()
    assert {t.layout for t in made.spec.state.tables} == {"time"}
    assert made.spec.expiry is not None
    assert made.spec.expiry.column in {c.name for c in made.spec.keys}
    running = Running(made, shards=2)
    rows = [(r, 1) for r in _TIES if r[9] is not None]
    assert_same(running.epoch(rows), expected(shape, calls, [rows]))
    before = sum(len(store._memory.rows) for store in running.stores)
    low = int(_day(2).replace(tzinfo=dt.UTC).timestamp() * 1_000_000)
    assert_same(running.epoch([], Watermarks(close=low)), expected(shape, calls, [rows]))
    between = sum(len(store._memory.rows) for store in running.stores)
    assert 0 < between < before
    assert_same(running.epoch([], Watermarks(low, low, WATERMARK_MAX)), expected(shape, calls, [rows]))
    assert all(not store.has_rows() for store in running.stores)


def test_a_distinct_list_ordered_by_something_else_is_refused() -> None:
    """DISTINCT leaves one row of several, and no one can say which one's order counts."""
    with pytest.raises(DiagnosticError, match="DISTINCT"):
        plan(SHAPES[1], [call("list(DISTINCT x ORDER BY y)")], retracting=True)
