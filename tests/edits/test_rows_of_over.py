"""OVER from the rows that another OVER of the same relation keeps (row 32)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import APPEND, CHANGES, PHASES, assert_derived, data, needed, planned
from tests.examples import examples


def over(
    *functions: str, columns: str = "k, g, v, w", by: str = "k", order: str = "v", where: str = ""
) -> str:
    windows = [f.partition(" ROWS")[0] for f in functions]
    frames = [f.partition(" ROWS")[1] + f.partition(" ROWS")[2] for f in functions]
    items = [
        f"{f} OVER (PARTITION BY {by} ORDER BY {order}{frame}) AS f{n}"
        for n, (f, frame) in enumerate(zip(windows, frames, strict=True))
    ]
    return f"SELECT {', '.join([columns, *items])} FROM bid {where}"


EDITS = {
    "a function more": (over("SUM(v)"), over("SUM(v)", "COUNT(w)")),
    "another function": (over("SUM(v)"), over("LAG(v)")),
    "a shorter frame": (over("SUM(v) ROWS 3 PRECEDING"), over("SUM(v) ROWS 1 PRECEDING")),
    "a longer frame": (over("SUM(v) ROWS 1 PRECEDING"), over("SUM(v)")),
    "another order": (over("ROW_NUMBER()"), over("ROW_NUMBER()", order="w DESC, g")),
    "another partition": (over("SUM(v)"), over("SUM(v)", by="g")),
    "a computed partition": (over("SUM(v)"), over("SUM(v)", by="v % 2")),
    "fewer columns": (over("LAST_VALUE(g)"), over("LAST_VALUE(g)", columns="k, v")),
    "a filter": (over("SUM(v)"), over("SUM(v)", where="WHERE v > 0 AND g = 'a'")),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", [APPEND, CHANGES])
@pytest.mark.parametrize("name", EDITS)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_it_is_computed_anew_over_the_rows_that_are_kept(
    name: str, format_: str, draw: st.DataObject
) -> None:
    old, new = (planned(text, format_) for text in EDITS[name])
    [edit] = assert_derived(old, new, draw.draw(data(format_)))
    assert edit.verdict is Verdict.ADAPT


def test_a_function_less_leaves_the_others_as_they_are() -> None:
    [edit] = needed(planned(over("SUM(v)", "COUNT(v)")), planned(over("COUNT(v)")))
    assert edit.verdict is Verdict.KEEP
    assert edit.derivation is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (over("SUM(v)"), over("SUM(v)", columns="k, g, v, w, x")),
        (over("SUM(v)", where="WHERE v > 0"), over("SUM(v)")),
        (over("SUM(v)"), over("SUM(x)")),
        (over("SUM(v)", columns="k, v"), over("SUM(v)", columns="k, v", order="w")),
    ],
)
def test_what_has_not_the_rows_is_computed_from_the_sources(old: str, new: str) -> None:
    [edit] = needed(planned(old), planned(new))
    assert edit.verdict is Verdict.BACKFILL
    assert edit.derivation is None


def test_by_other_keys_it_needs_rows_that_were_not_forgotten() -> None:
    ttl = "SET 'table.exec.state.ttl' = '1 d';"
    old, new = planned(ttl + over("SUM(v)")), planned(ttl + over("SUM(v)", by="g"))
    assert [edit.verdict for edit in needed(old, new)] == [Verdict.ADAPT]
    forgot = [state.state_id for state in old.physical.states]
    assert [edit.verdict for edit in needed(old, new, forgetful=forgot)] == [Verdict.BACKFILL]
