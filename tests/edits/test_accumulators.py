"""Aggregates that follow from what is kept for others (row 7), and from rows that only came so far (row 40)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import APPEND, CHANGES, PHASES, assert_derived, data, needed, planned
from tests.examples import examples

TUMBLE = "TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '20' SECOND))"


def by(keys: str, *calls: str, where: str = "") -> str:
    named = ", ".join(f"{call} AS a{n}" for n, call in enumerate(calls))
    return f"SELECT {keys}, {named} FROM bid {where} GROUP BY {keys}"


def windows(*calls: str, keys: str = "k") -> str:
    named = ", ".join(f"{call} AS a{n}" for n, call in enumerate(calls))
    return f"SELECT window_end, {keys}, {named} FROM {TUMBLE} GROUP BY window_start, window_end, {keys}"


#: The format, the old query and the new one.
DERIVED = {
    "from a multiset": (CHANGES, by("k", "MIN(v)"), by("k", "MIN(v)", "SUM(v)", "COUNT(v)", "AVG(v)")),
    "the other end": (CHANGES, by("k", "MIN(v)"), by("k", "MAX(v)", "MIN(v)")),
    "the other end alone": (CHANGES, by("k", "MAX(v)", "COUNT(*)"), by("k", "MIN(v)")),
    "with a filter": (
        CHANGES,
        by("k, g", "MAX(v) FILTER (WHERE w > 0)"),
        by("k, g", "SUM(v) FILTER (WHERE w > 0)"),
    ),
    "from a multiset, rolled up": (CHANGES, by("k, g", "MIN(w)"), by("k", "SUM(w)", "MIN(w)")),
    "values of a function that keeps them": (
        APPEND,
        by("k", "MODE(v)"),
        by("k", "MODE(v)", "SUM(v)", "MIN(v)"),
    ),
    "SUM of distinct": (
        APPEND,
        by("k", "COUNT(DISTINCT v)"),
        by("k", "COUNT(DISTINCT v)", "SUM(DISTINCT v)"),
    ),
    "SUM of distinct that go": (
        CHANGES,
        by("k", "COUNT(DISTINCT v)"),
        by("k", "AVG(DISTINCT v)", "COUNT(DISTINCT v)"),
    ),
    "of distinct with filters": (
        CHANGES,
        by("g", "COUNT(DISTINCT v) FILTER (WHERE w > 0)", "COUNT(DISTINCT v)"),
        by("g", "SUM(DISTINCT v) FILTER (WHERE w > 0)", "COUNT(DISTINCT v)"),
    ),
    "extremes of distinct": (
        APPEND,
        by("k", "COUNT(DISTINCT v)"),
        by("k", "COUNT(DISTINCT v)", "MIN(v)", "MAX(v)"),
    ),
    "sums of distinct that are counted": (
        CHANGES,
        by("k", "COUNT(DISTINCT v)"),
        by("k", "COUNT(DISTINCT v)", "SUM(v)", "COUNT(v)"),
    ),
    "extremes in windows": (APPEND, windows("COUNT(DISTINCT v)"), windows("COUNT(DISTINCT v)", "MIN(v)")),
    "extremes in windows with a filter": (
        APPEND,
        windows("COUNT(*)", "COUNT(DISTINCT v) FILTER (WHERE w > 0)", keys="k, g"),
        windows("COUNT(*)", "MAX(v) FILTER (WHERE w > 0)"),
    ),
    "beside others": (
        APPEND,
        windows("COUNT(*)", "COUNT(DISTINCT g)", "COUNT(DISTINCT g) FILTER (WHERE v > 0)"),
        windows("COUNT(*)", "MIN(g)"),
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", DERIVED)
@settings(max_examples=examples(2), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_values_that_are_kept_give_other_aggregates(name: str, draw: st.DataObject) -> None:
    format_, old, new = DERIVED[name]
    found = assert_derived(planned(old, format_), planned(new, format_), draw.draw(data(format_)))
    assert Verdict.ADAPT in [edit.verdict for edit in found]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (by("k", "AVG(v)"), by("k", "COUNT(v)", "SUM(v)")),
        (by("k", "COUNT(v)", "SUM(v)"), by("k", "AVG(v)")),
    ],
)
@pytest.mark.parametrize("format_", [APPEND, CHANGES])
def test_the_same_accumulators_are_kept(format_: str, old: str, new: str) -> None:
    [edit] = needed(planned(old, format_), planned(new, format_))
    assert edit.verdict is Verdict.KEEP


NOT_DERIVABLE = {
    "other values": (CHANGES, by("k", "MIN(v)"), by("k", "MIN(v)", "SUM(w)")),
    "other rows": (
        CHANGES,
        by("k", "MIN(v) FILTER (WHERE w > 0)"),
        by("k", "MIN(v) FILTER (WHERE w > 0)", "SUM(v)"),
    ),
    "fewer rows": (CHANGES, by("k", "MIN(v)"), by("k", "MIN(v)", "SUM(v) FILTER (WHERE w > 0)")),
    "sums over values that are told once": (
        APPEND,
        by("k", "COUNT(DISTINCT v)"),
        by("k", "COUNT(DISTINCT v)", "SUM(v)"),
    ),
    "distinct values of others": (
        APPEND,
        by("k", "COUNT(DISTINCT v)"),
        by("k", "COUNT(DISTINCT v)", "MIN(w)"),
    ),
    "distinct values of other rows": (
        APPEND,
        by("k", "COUNT(DISTINCT v) FILTER (WHERE w > 0)"),
        by("k", "COUNT(DISTINCT v) FILTER (WHERE w > 0)", "MIN(v)"),
    ),
    "an extreme of the other end": (APPEND, by("k", "MIN(v)"), by("k", "MIN(v)", "MAX(v)")),
    "sums in windows": (APPEND, windows("COUNT(DISTINCT v)"), windows("COUNT(DISTINCT v)", "SUM(v)")),
    "filtered values in windows": (
        APPEND,
        windows("COUNT(DISTINCT v) FILTER (WHERE w > 0)"),
        windows("COUNT(DISTINCT v) FILTER (WHERE w > 0)", "MIN(v)"),
    ),
    "fewer of the values in windows": (
        APPEND,
        windows("COUNT(DISTINCT v)"),
        windows("COUNT(DISTINCT v)", "MIN(v) FILTER (WHERE w > 0)"),
    ),
    "values in windows under another filter": (
        APPEND,
        windows("COUNT(DISTINCT v) FILTER (WHERE w > 0)"),
        windows("COUNT(DISTINCT v) FILTER (WHERE w > 0)", "MIN(v) FILTER (WHERE w > 1)"),
    ),
    "a product of two": (CHANGES, by("k", "MIN(v)"), by("k", "MIN(v)", "SUM(v * w)")),
}


def test_values_that_may_be_forgotten_before_their_group() -> None:
    """They are whole as long as nothing was forgotten."""
    ttl = "SET 'table.exec.state.ttl' = '1 d'; "
    queries = by("k", "COUNT(DISTINCT v)"), by("k", "COUNT(DISTINCT v)", "SUM(DISTINCT v)")
    old, new = (planned(ttl + query, APPEND) for query in queries)
    assert needed(old, new)[-1].verdict is Verdict.ADAPT
    for state in old.physical.states:
        assert needed(old, new, forgetful=[state.state_id])[-1].verdict is Verdict.BACKFILL, state.operator


@pytest.mark.parametrize("name", NOT_DERIVABLE)
def test_what_looks_alike_is_backfilled(name: str) -> None:
    format_, old, new = NOT_DERIVABLE[name]
    edit = needed(planned(old, format_), planned(new, format_))[-1]
    assert edit.verdict is Verdict.BACKFILL
    assert {f.part for f in edit.missing} == {"value"}
    assert edit.old is not None
