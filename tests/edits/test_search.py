"""A search for derivations that are wrong: random pairs of related queries, whatever the rules make of them."""

from __future__ import annotations

from collections import Counter

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

KEYS = ["k", "g", "v", "d", "k % 2", "ABS(v)", "UPPER(g)", "LOWER(UPPER(g))", "ABS(v) % 2", "COALESCE(k, v)", "k > 0"]
CONDITIONS = ["k > 1", "k > 0", "k >= 1", "g = 'a'", "g IS NOT NULL", "UPPER(g) = 'A'", "v > 0", "w > 0", "k = v", "d <= 1.5"]
CALLS = [
    "COUNT(*)", "COUNT(v)", "SUM(v)", "AVG(v)", "MIN(v)", "MAX(v)", "COUNT(DISTINCT v)", "SUM(DISTINCT v)", "MIN(g)",
    "SUM(v) FILTER (WHERE w > 0)", "MIN(v) FILTER (WHERE w > 0)", "COUNT(DISTINCT v) FILTER (WHERE w > 0)", "SUM(d)",
    "BOOL_OR(v > 0)", "MAX(d)", "COUNT_IF(w > 0)", "STDDEV_POP(w)", "BIT_XOR(v)",
]  # fmt: skip
WINDOWS = [TUMBLE_10, TUMBLE_20, SHIFTED_10, HOP_5_10, HOP_5_30, HOP_10_40, CUMULATE_5_20, CUMULATE_10_20]
ORDERS = ["v DESC", "v", "v DESC, g", "g, v", "w, v", "d DESC NULLS LAST, k"]
COLUMNS = ["k, v", "k, g, v", "v, g, w", "k, g, v, w, d"]
TTL = "SET 'table.exec.state.ttl' = '1 d'; "


def _where(draw: st.DrawFn) -> str:
    chosen = draw(st.lists(st.sampled_from(CONDITIONS), max_size=2, unique=True))
    return f"WHERE {' AND '.join(chosen)}" if chosen else ""


def _calls(draw: st.DrawFn) -> str:
    chosen = draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=4, unique=True))
    return ", ".join(f"{call} AS a{n}" for n, call in enumerate(chosen))


def _keys(draw: st.DrawFn, least: int = 0) -> list[str]:
    return draw(st.lists(st.sampled_from(KEYS), min_size=least, max_size=3, unique=True))


@st.composite
def groups(draw: st.DrawFn) -> str:
    keys = _keys(draw)
    by = f"GROUP BY {', '.join(keys)}" if keys else ""
    ttl = draw(st.sampled_from(["", "", "", TTL]))
    return f"{ttl}SELECT {_calls(draw)} FROM bid {_where(draw)} {by}"


@st.composite
def windows(draw: st.DrawFn) -> str:
    by = ", ".join(["window_start", "window_end", *_keys(draw)])
    window = draw(st.sampled_from(WINDOWS))
    emit = draw(st.sampled_from(["", "", "", " EMIT CHANGES"]))
    return f"SELECT window_end, {_calls(draw)} FROM TABLE({window}) {_where(draw)} GROUP BY {by}{emit}"


@st.composite
def ranked(draw: st.DrawFn) -> str:
    function = draw(st.sampled_from(["ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"]))
    keys = _keys(draw)
    by = f"PARTITION BY {', '.join(keys)} " if keys else ""
    order, columns = draw(st.sampled_from(ORDERS)), draw(st.sampled_from(COLUMNS))
    upto = draw(st.sampled_from(["<= 1", "<= 2", "<= 5", "= 2", "BETWEEN 2 AND 4"]))
    inner = f"SELECT *, {function}() OVER ({by}ORDER BY {order}) AS rn FROM bid {_where(draw)}"
    return f"{draw(st.sampled_from(['', '', TTL]))}SELECT {columns} FROM ({inner}) WHERE rn {upto}"


CASES = {"groups": (groups(), 40), "windows": (windows(), 30), "ranked": (ranked(), 30)}


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
    @given(st.lists(strategy, min_size=2, max_size=2), st.booleans(), data(format_))
    def search(queries: list[str], wider: bool, epochs: object) -> None:
        old = planned(queries[0], format_)
        new = planned(queries[1], format_, **(WIDER if wider else {}))
        found = assert_derived(old, new, epochs, whatever=True)  # type: ignore[arg-type]
        seen.update(edit.verdict for edit in found if edit.derivation is not None)

    search()
    assert sum(seen.values()) > 0
