"""Source columns of wider types (row 10): integers that are longer, decimals with more digits before the point."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import APPEND, CHANGES, PHASES, assert_derived, data, needed, planned
from tests.edits.test_ranked_rows import top
from tests.examples import examples

TUMBLE = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '20' SECOND))"
WIDER = {"k": "BIGINT", "v": "BIGINT", "d": "DECIMAL(12, 2)"}

SAME_VALUES = {
    "keys and accumulators": "SELECT k, COUNT(*) AS n, SUM(v) AS s, COUNT(v) AS c, AVG(d) AS a FROM bid GROUP BY k",
    "conditions": "SELECT g, COUNT(*) FILTER (WHERE d > 1.5 AND k IN (1, 2)) AS n FROM bid WHERE v <> 0 OR k = v GROUP BY g",
    "distinct rows": "SELECT DISTINCT k, d FROM bid",
    "all rows": top("k, v, d, w", "<= 3", order="v, d DESC"),
}
SAME_VALUES_OF_ROWS_THAT_STAY = {
    **SAME_VALUES,
    "extremes": "SELECT k, MIN(v) AS lo, MAX(d) AS hi, BOOL_OR(v > 0) AS b FROM bid GROUP BY k",
    "windows": f"SELECT window_end, k, SUM(v) AS s, MAX(d) AS m FROM {TUMBLE} GROUP BY window_start, window_end, k",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("format_", "query"),
    [(APPEND, q) for q in SAME_VALUES_OF_ROWS_THAT_STAY.values()]
    + [(CHANGES, q) for q in SAME_VALUES.values()],
)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_the_same_values_in_wider_types(format_: str, query: str, draw: st.DataObject) -> None:
    old, new = planned(query, format_), planned(query, format_, **WIDER)
    [edit] = assert_derived(old, new, draw.draw(data(format_)))
    assert edit.verdict is Verdict.ADAPT
    assert "wider" in edit.reason


@settings(max_examples=examples(2), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_wider_types_and_fewer_keys(draw: st.DataObject) -> None:
    old = planned("SELECT k, g, SUM(v) AS s, MIN(d) AS m FROM bid GROUP BY k, g")
    new = planned("SELECT k, SUM(v) AS s, MIN(d) AS m FROM bid GROUP BY k", **WIDER)
    [edit] = assert_derived(old, new, draw.draw(data(APPEND)))
    assert edit.reason == "the same values in wider types, rolled up from 2 keys to 1"


@pytest.mark.parametrize(
    ("query", "old", "new"),
    [
        ("SELECT k, COUNT(*) AS n FROM bid GROUP BY k", {"k": "BIGINT"}, {"k": "INT"}),
        ("SELECT d, COUNT(*) AS n FROM bid GROUP BY d", {}, {"d": "DECIMAL(12, 3)"}),
        ("SELECT x, COUNT(*) AS n FROM bid GROUP BY x", {"x": "FLOAT"}, {"x": "DOUBLE"}),
        ("SELECT k, COUNT(*) AS n FROM bid GROUP BY k", {}, {"k": "STRING"}),
        ("SELECT k / 2 AS q, COUNT(*) AS n FROM bid GROUP BY k / 2", {}, {"k": "BIGINT"}),
        ("SELECT g, COUNT(*) AS n FROM bid WHERE k << 20 > 0 GROUP BY g", {}, {"k": "BIGINT"}),
        ("SELECT g, SUM(x) AS s FROM bid GROUP BY g", {"x": "FLOAT"}, {"x": "DOUBLE"}),
        ("SELECT g, SUM(v * v) AS s FROM bid GROUP BY g", {}, {"v": "BIGINT"}),
        ("SELECT v, COUNT(*) AS n FROM bid GROUP BY v", {"k": "INT"}, {"v": "DOUBLE", "k": "BIGINT"}),
        (
            "SELECT k, COUNT(*) AS n FROM bid WHERE v > 0 GROUP BY k",
            {"v": "BIGINT"},
            {"v": "INT", "k": "BIGINT"},
        ),
        ("SELECT k, COUNT(*) AS n FROM bid WHERE v > w GROUP BY k", {}, {"v": "DOUBLE", "k": "BIGINT"}),
        (
            "SELECT k, COUNT(*) AS n FROM bid WHERE d IS NULL GROUP BY k",
            {},
            {"d": "DECIMAL(12, 3)", "k": "BIGINT"},
        ),
        ("SELECT k, COUNT(x) AS n FROM bid GROUP BY k", {"x": "FLOAT"}, {"x": "DOUBLE", "k": "BIGINT"}),
        (top("k, x", order="x"), {"x": "FLOAT"}, {"x": "DOUBLE", "k": "BIGINT"}),
    ],
)
def test_other_types_are_read_again(query: str, old: dict[str, str], new: dict[str, str]) -> None:
    [edit] = needed(planned(query, **old), planned(query, **new))
    assert edit.verdict is Verdict.BACKFILL
    assert edit.derivation is None


def test_a_wider_column_is_not_another_one() -> None:
    old = planned("SELECT k, COUNT(*) AS n, SUM(v) AS s FROM bid WHERE v > 0 GROUP BY k")
    new = planned("SELECT v AS k, COUNT(*) AS n, SUM(k) AS s FROM bid WHERE k > 0 GROUP BY v", **WIDER)
    [edit] = needed(old, new)
    assert edit.verdict is Verdict.BACKFILL
