"""Top-N and deduplication from other ranked rows of the same relation (rows 19, 22 to 26)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.pipeline import Planned
from tests.edits.derived import APPEND, CHANGES, PHASES, Epochs, assert_derived, data, needed, planned
from tests.examples import examples


def top(
    columns: str = "k, g, v, w",
    n: str = "<= 3",
    *,
    by: str = "k",
    order: str = "v DESC, g",
    where: str = "",
    function: str = "ROW_NUMBER",
) -> str:
    partition = f"PARTITION BY {by} " if by else ""
    return (
        f"SELECT {columns} FROM (SELECT *, {function}() OVER ({partition}ORDER BY {order}) AS rn "
        f"FROM bid {where}) WHERE rn {n}"
    )


BEST = {
    "fewer": (top(n="<= 5"), top(n="<= 2")),
    "fewer than a long list": (top(n="<= 120"), top(n="<= 110")),
    "a long list becomes a short one": (top(n="<= 120"), top(n="<= 2")),
    "one": (top(), top(n="= 1")),
    "the second alone": (top(), top(n="= 2")),
    "with the rank": (top(n="<= 4"), top("k, g, v, w, rn", n="<= 2")),
    "without the last column": (top("k, g, v, w"), top("k, g, v")),
    "RANK without any other column": (top(function="RANK"), top("k, v", function="RANK", order="v DESC, g")),
    "ROW_NUMBER of RANK": (top(function="RANK"), top("k, g, v, w", n="<= 2")),
    "RANK of DENSE_RANK": (top(function="DENSE_RANK"), top("k, v, g", function="RANK")),
    "a filter on the partition": (top(), top(where="WHERE k > 1", n="<= 2")),
    "without a partition": (top(by=""), top(by="", n="<= 1")),
    "limit": ("SELECT k, v FROM bid ORDER BY v LIMIT 5", "SELECT k, v FROM bid ORDER BY v LIMIT 3 OFFSET 1"),
}
ALL_ROWS = {
    "more, and another order": (top(), top(n="<= 9", order="g, v")),
    "another partition": (top(), top(by="g")),
    "without a partition": (top(), top(by="")),
    "a computed partition": (top(), top("k, g, v, w", by="v % 2")),
    "fewer columns": (top(), top("k, g, v")),
    "fewer columns of all": (top(), top("k, v", order="v")),
    "a filter on a column": (top(), top(where="WHERE w > 0")),
    "a filter on columns, another order and partition": (
        top(),
        top("g, v, w", by="", order="w DESC", where="WHERE v < 2 AND k = 1"),
    ),
    "another function": (top(function="RANK"), top("k, g, v, w", "<= 2", order="w")),
}


@pytest.mark.parametrize("name", BEST)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_fewer_rows_are_among_the_best(name: str, draw: st.DataObject) -> None:
    old, new = (planned(text) for text in BEST[name])
    [edit] = assert_derived(old, new, draw.draw(data(APPEND)))
    assert edit.verdict is Verdict.ADAPT


@pytest.mark.parametrize("name", ALL_ROWS)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_all_rows_can_be_ranked_anew(name: str, draw: st.DataObject) -> None:
    old, new = (planned(text, CHANGES) for text in ALL_ROWS[name])
    [edit] = assert_derived(old, new, draw.draw(data(CHANGES)))
    assert edit.verdict is Verdict.ADAPT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (top(), top(n="<= 9")),
        (top(), top(n="<= 2")),
        (top(), top(n="BETWEEN 2 AND 5")),
        (top(), top(function="RANK")),
        (top(), top("k, g, v, w, rn", n="<= 4")),
    ],
)
def test_all_rows_are_kept_whichever_are_given(old: str, new: str) -> None:
    [edit] = needed(planned(old, CHANGES), planned(new, CHANGES))
    assert edit.verdict is Verdict.KEEP
    assert edit.derivation is None


NOT_DERIVABLE = {
    "more": (top(), top(n="<= 4")),
    "as many, further on": (top(), top(n="BETWEEN 2 AND 4")),
    "another order": (top(), top(order="v, g")),
    "NULLs elsewhere": (top(order="v"), top(order="v NULLS FIRST")),
    "another partition": (top(), top(by="g")),
    "a partition less": (top(by="k, g"), top(by="k")),
    "a new column": (top("k, v, g", order="v, g"), top("k, v, g, w", order="v, g")),
    "RANK of ROW_NUMBER": (top(), top(function="RANK")),
    "DENSE_RANK of RANK": (top(function="RANK"), top(function="DENSE_RANK")),
    "a filter on a column": (top(), top(where="WHERE v > 0")),
    "a filter removed": (top(where="WHERE k > 0"), top(n="<= 2")),
    "keep last": (top(n="= 1", order="ts"), top(n="= 1", order="ts DESC")),
}


@pytest.mark.parametrize("name", NOT_DERIVABLE)
def test_what_looks_alike_is_computed_anew(name: str) -> None:
    old, new = (planned(text) for text in NOT_DERIVABLE[name])
    [edit] = needed(old, new)
    assert edit.verdict is Verdict.BACKFILL
    assert edit.derivation is None


@settings(max_examples=examples(2), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_only_the_column_that_breaks_ties_last_can_be_left_out(draw: st.DataObject) -> None:
    epochs = draw.draw(data(APPEND))
    old = planned(top("k, v, w, x", order="v"))
    found = [assert_edit(old, planned(top(columns, order="v")), epochs) for columns in ("k, v, x", "k, v, w")]
    assert sorted(found) == [Verdict.ADAPT, Verdict.BACKFILL]


def assert_edit(old: Planned, new: Planned, epochs: Epochs) -> Verdict:
    [edit] = needed(old, new)
    if edit.verdict is Verdict.ADAPT:
        assert_derived(old, new, epochs)
    return edit.verdict


def test_by_other_keys_it_needs_rows_that_were_not_forgotten() -> None:
    ttl = "SET 'table.exec.state.ttl' = '1 d';"
    old, new = planned(ttl + top(), CHANGES), planned(ttl + top(by="g"), CHANGES)
    assert [edit.verdict for edit in needed(old, new)] == [Verdict.ADAPT]
    forgot = [state.state_id for state in old.physical.states]
    assert [edit.verdict for edit in needed(old, new, forgetful=forgot)] == [Verdict.BACKFILL]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (top(), top("k, g, v, w, x")),
        (top(where="WHERE v > 0"), top()),
        (top(), top(order="x")),
    ],
)
def test_not_even_all_rows_have_it(old: str, new: str) -> None:
    [edit] = needed(planned(old, CHANGES), planned(new, CHANGES))
    assert edit.verdict is Verdict.BACKFILL
    assert edit.derivation is None


def test_rows_that_only_came_are_not_all_rows() -> None:
    [*_, edit] = needed(planned(top()), planned(top(n="<= 2"), CHANGES))
    assert edit.verdict is Verdict.BACKFILL


WINDOWED = (
    "SELECT window_end, k, v, g FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k "
    "ORDER BY v DESC, g) AS rn FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '20' SECOND)) {}) WHERE rn {}"
)


@pytest.mark.parametrize(("where", "n"), [("", "<= 1"), ("WHERE k >= 1", "<= 3")])
@settings(max_examples=examples(2), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_the_best_of_windows(where: str, n: str, draw: st.DataObject) -> None:
    old, new = planned(WINDOWED.format("", "<= 3")), planned(WINDOWED.format(where, n))
    [edit] = assert_derived(old, new, draw.draw(data(APPEND)))
    assert edit.verdict is Verdict.ADAPT
