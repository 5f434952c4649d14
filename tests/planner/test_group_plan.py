"""Group aggregates as planned: the SQL of partials, merged and emitted, equals the batch SQL over what is left."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

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
    Shape(("k",), ((),)),
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
    """Each on its own over ties, NULLs and duplicates; grouped by a key, and over everything."""
    for shape in (SHAPES[1], SHAPES[4]):
        made = plan(shape, [CALLS[text]], retracting=retracting)
        epochs = fixed_epochs(retracting=retracting)
        assert_same(interpreted(made, epochs), expected(shape, [CALLS[text]], epochs))


@MODES
@pytest.mark.parametrize("text", list(CALLS))
def test_every_aggregate_by_the_operators(text: str, retracting: bool) -> None:
    """The same by the real operators on two shards, after every epoch."""
    shape = SHAPES[1]
    running = Running(plan(shape, [CALLS[text]], retracting=retracting), shards=2)
    epochs = fixed_epochs(retracting=retracting)
    for number, epoch in enumerate(epochs, start=1):
        assert_same(running.epoch(epoch), expected(shape, [CALLS[text]], epochs[:number]))


@MODES
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_nothing_at_all(shape: Shape, retracting: bool) -> None:
    """Over no rows: the grand total is there, with 0 for counts and NULL for the rest, as DuckDB has it."""
    calls = list(CALLS.values())
    assert_same(
        interpreted(plan(shape, calls, retracting=retracting), [[], []]), expected(shape, calls, [[]])
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_everything_goes(shape: Shape) -> None:
    """When all rows have gone the answer is that over no rows, and no state is left but the grand total's."""
    calls = list(CALLS.values())
    running = Running(plan(shape, calls, retracting=True))
    came = [(r, 1) for r in _TIES]
    running.epoch(came)
    assert_same(running.epoch([(r, -w) for r, w in came]), expected(shape, calls, [[]]))
    assert all(not store.has_rows() for stores in running.distinct_stores for store in stores)
    totals = (shape.sets is None and not shape.keys) or (shape.sets is not None and () in shape.sets)
    assert sum(len(store._memory.rows) for store in running.stores) == int(totals)
