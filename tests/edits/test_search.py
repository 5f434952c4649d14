"""A search for derivations that are wrong: random pairs of related queries, whatever the rules make of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import APPEND, CHANGES, PHASES, assert_derived, data, planned
from tests.edits.test_widened import WIDER
from tests.edits.test_windows import (
    CUMULATE_5_20,
    CUMULATE_10_20,
    HOP_5_10,
    HOP_5_30,
    HOP_10_40,
    SHIFTED_10,
    TUMBLE_10,
    TUMBLE_20,
)
from tests.examples import examples

KEYS = [
    "k",
    "g",
    "v",
    "d",
    "k % 2",
    "ABS(v)",
    "UPPER(g)",
    "LOWER(UPPER(g))",
    "ABS(v) % 2",
    "COALESCE(k, v)",
    "CASE WHEN k IS NULL THEN v ELSE k END",
    "MOD(k, 2)",
    "k > 0",
    "x",
    "FLOOR(x)",
    "x * 2",
    "x > 0",
]
CONDITIONS = [
    "k > 1",
    "k > 0",
    "k >= 1",
    "g = 'a'",
    "g IS NOT NULL",
    "UPPER(g) = 'A'",
    "v > 0",
    "w > 0",
    "k = v",
    "d <= 1.5",
    "x >= 0",
    "x * 2 < 1",
    "k >= 2",
    "v >= 1",
    "v IN (1, 2)",
    "v = 1 OR v = 2",
    "w > 0 AND w IS NOT NULL",
]
CALLS = [
    "COUNT(*)", "COUNT(v)", "SUM(v)", "AVG(v)", "MIN(v)", "MAX(v)", "COUNT(DISTINCT v)", "SUM(DISTINCT v)", "MIN(g)",
    "SUM(v) FILTER (WHERE w > 0)", "MIN(v) FILTER (WHERE w > 0)", "COUNT(DISTINCT v) FILTER (WHERE w > 0)", "SUM(d)",
    "BOOL_OR(v > 0)", "MAX(d)", "COUNT_IF(w > 0)", "STDDEV_POP(w)", "BIT_XOR(v)",
    "COUNT(1)", "SUM(1)", "COUNT(*) FILTER (WHERE w >= 1)", "SUM(CASE WHEN w > 0 THEN 1 ELSE 0 END)",
    "COUNT(CASE WHEN w > 0 THEN 1 END)", "SUM(CASE WHEN w > 0 THEN v END)", "SUM(CAST(v AS BIGINT))", "ARRAY_AGG(v)",
    "COVAR_POP(v, w)", "REGR_COUNT(v, w)", "MAX(v, 2)", "MAX_BY(g, v, 2)", "FSUM(x)", "HISTOGRAM(v)",
    "APPROX_TOP_K(v, 1)",
]  # fmt: skip
WINDOWS = [TUMBLE_10, TUMBLE_20, SHIFTED_10, HOP_5_10, HOP_5_30, HOP_10_40, CUMULATE_5_20, CUMULATE_10_20]
ORDERS = ["v DESC", "v", "v DESC, g", "g, v", "w, v", "d DESC NULLS LAST, k"]
COLUMNS = ["k, v", "k, g, v", "v, g, w", "k, g, v, w, d"]
UPTO = ["<= 1", "<= 2", "<= 5", "= 2", "BETWEEN 2 AND 4"]
TTL = "SET 'table.exec.state.ttl' = '1 d'; "


Pair = tuple[str, str]


def _related(
    draw: st.DrawFn, pool: Sequence[str], most: int, *, least: int = 0
) -> tuple[list[str], list[str]]:
    """Some of a pool, and the same, fewer, more or others of it."""
    some = st.lists(st.sampled_from(pool), min_size=least, max_size=most, unique=True)
    old = draw(some)
    kind = draw(st.sampled_from(["same", "same", "fewer", "more", "other"]))
    if kind == "fewer":
        return old, old[: max(least, len(old) - 1)]
    if kind == "more":
        return old, list(dict.fromkeys([*old, *draw(some)]))
    return old, old if kind == "same" else draw(some)


def _keys(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Keys, and some of them or functions of them."""
    old, new = _related(draw, KEYS, 3)
    if draw(st.booleans()):
        new = [{"k": "k % 2", "g": "UPPER(g)", "v": "ABS(v)"}.get(key, key) for key in new]
    return old, new


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _calls(calls: Sequence[str]) -> str:
    return ", ".join(f"{call} AS a{n}" for n, call in enumerate(calls))


def _one(draw: st.DrawFn, pool: Sequence[str]) -> Pair:
    old = draw(st.sampled_from(pool))
    return old, old if draw(st.sampled_from([True, True, False])) else draw(st.sampled_from(pool))


@st.composite
def groups(draw: st.DrawFn) -> Pair:
    keys, calls = _keys(draw), _related(draw, CALLS, 4, least=1)
    where, ttl = _related(draw, CONDITIONS, 2), _one(draw, ["", "", TTL])

    def query(n: int) -> str:
        by = f"GROUP BY {', '.join(keys[n])}" if keys[n] else ""
        return f"{ttl[n]}SELECT {_calls(calls[n])} FROM bid {_where(where[n])} {by}"

    return query(0), query(1)


@st.composite
def windows(draw: st.DrawFn) -> Pair:
    keys, calls = _keys(draw), _related(draw, CALLS, 4, least=1)
    where, window, emit = (
        _related(draw, CONDITIONS, 2),
        _one(draw, WINDOWS),
        _one(draw, ["", "", " EMIT CHANGES"]),
    )

    def query(n: int) -> str:
        by = ", ".join(["window_start", "window_end", *keys[n]])
        rows = f"TABLE({window[n]}) {_where(where[n])}"
        return f"SELECT window_end, {_calls(calls[n])} FROM {rows} GROUP BY {by}{emit[n]}"

    return query(0), query(1)


@st.composite
def ranked(draw: st.DrawFn) -> Pair:
    keys, where, ttl = _keys(draw), _related(draw, CONDITIONS, 2), _one(draw, ["", TTL])
    function = _one(draw, ["ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"])
    order, columns = _one(draw, ORDERS), _one(draw, COLUMNS)
    upto = [draw(st.sampled_from(UPTO)) for _ in range(2)]

    def query(n: int) -> str:
        by = f"PARTITION BY {', '.join(keys[n])} " if keys[n] else ""
        inner = f"SELECT *, {function[n]}() OVER ({by}ORDER BY {order[n]}) AS rn FROM bid {_where(where[n])}"
        return f"{ttl[n]}SELECT {columns[n]} FROM ({inner}) WHERE rn {upto[n]}"

    return query(0), query(1)


CASES = {"groups": (groups(), 8), "windows": (windows(), 8), "ranked": (ranked(), 20)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", [APPEND, CHANGES])
@pytest.mark.parametrize("kind", CASES)
def test_whatever_is_derived_is_what_the_new_operator_has(kind: str, format_: str) -> None:
    strategy, number = CASES[kind]
    if kind == "windows" and format_ == CHANGES:
        pytest.skip("the changelog has no watermark")
    seen: Counter[Verdict] = Counter()

    @settings(
        max_examples=examples(number),
        deadline=None,
        phases=PHASES,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(strategy, st.sampled_from([False, False, True]), data(format_))
    def search(queries: Pair, wider: bool, epochs: object) -> None:
        old = planned(queries[0], format_)
        new = planned(queries[1], format_, **(WIDER if wider else {}))
        found = assert_derived(old, new, epochs, whatever=True)  # type: ignore[arg-type]
        seen.update(edit.verdict for edit in found if edit.derivation is not None)

    search()
    assert sum(seen.values()) > 0
