"""Joins from the rows that other joins of the same relations keep (rows 21 and 27 to 30)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import APPEND, CHANGES, PHASES, assert_derived, data, needed, planned
from tests.examples import examples


def join(
    kind: str = "JOIN",
    columns: str = "a.v, b.w",
    on: str = "a.k = b.v",
    *,
    left: str = "bid",
    right: str = "bid",
    where: str = "",
) -> str:
    return f"SELECT {columns} FROM {left} AS a {kind} {right} AS b ON {on} {where}"


#: All columns that some tests need, on both sides.
WIDE = "a.v, a.w, a.g, b.w AS bw, b.g AS bg, b.k AS bk"

DERIVABLE = {
    "a column less": (join(columns=WIDE), join()),
    "a column computed of others": (join(columns=WIDE), join(columns="a.v + a.w AS s, upper(b.g) AS g")),
    "LEFT to INNER": (join("LEFT JOIN"), join()),
    "FULL to LEFT": (join("FULL JOIN"), join("LEFT JOIN")),
    "FULL to RIGHT": (join("FULL JOIN"), join("RIGHT JOIN")),
    "LEFT to ANTI": (join("LEFT JOIN"), join("ANTI JOIN", "a.v")),
    "LEFT to SEMI": (join("LEFT JOIN"), join("SEMI JOIN", "a.v")),
    "RIGHT to LEFT, the other way round": (
        join("RIGHT JOIN"),
        "SELECT b.v, a.w FROM bid AS a LEFT JOIN bid AS b ON a.v = b.k",
    ),
    "INNER to LEFT, where every row has a key": (
        join(on="coalesce(a.k, 0) = b.v"),
        join("LEFT JOIN", on="coalesce(a.k, 0) = b.v"),
    ),
    "a condition more": (join("LEFT JOIN", WIDE), join("LEFT JOIN", WIDE, "a.k = b.v AND a.w < b.w")),
    "a condition less": (join("LEFT JOIN", WIDE, "a.k = b.v AND a.w < b.w"), join("LEFT JOIN", WIDE)),
    "a filter on a side": (join(columns=WIDE), join(columns=WIDE, where="WHERE a.w > 0")),
    "a filter on both sides": (join(columns=WIDE), join(columns=WIDE, where="WHERE a.g <> 'a' AND b.w < 2")),
    "a filter on a key": (join(), join(where="WHERE a.k > 1")),
    "a filter below, narrower": (
        join(left="(SELECT * FROM bid WHERE w > 0)", columns=WIDE),
        join(left="(SELECT * FROM bid WHERE w > 1)", columns=WIDE),
    ),
    "a key more": (join(columns=WIDE), join(columns=WIDE, on="a.k = b.v AND a.g = b.g")),
    "a key less": (join("FULL JOIN", WIDE, "a.k = b.v AND a.g = b.g"), join(columns=WIDE)),
    "another key": (join("FULL JOIN", WIDE), join("LEFT JOIN", WIDE, "a.w = b.w")),
    "the key of the other side": (join(columns=WIDE), join(columns="b.w AS bw, a.g AS bg", on="a.v = b.k")),
    "a computed key": (join("FULL JOIN", WIDE), join(columns=WIDE, on="a.k + 1 = b.v")),
    "a key that was computed": (join(on="upper(a.g) = b.g"), join("SEMI JOIN", "a.v", "upper(a.g) = b.g")),
    "without keys": (join("FULL JOIN", WIDE), join(columns=WIDE, on="a.w < b.w")),
}


@pytest.mark.parametrize("format_", [APPEND, CHANGES])
@pytest.mark.parametrize("name", DERIVABLE)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(draw=st.data())
@pytest.mark.sampled(6, each_value=False)
def test_both_sides_are_found_in_another_join(name: str, format_: str, draw: st.DataObject) -> None:
    old, new = (planned(text, format_) for text in DERIVABLE[name])
    [edit] = assert_derived(old, new, draw.draw(data(format_)))
    assert edit.verdict is Verdict.ADAPT


@settings(max_examples=examples(2), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_wider_types_hold_the_same_rows(draw: st.DataObject) -> None:
    query = join("LEFT JOIN", "a.v, a.w, b.w AS bw, b.d")
    old, new = planned(query), planned(query, k="BIGINT", d="DECIMAL(10, 2)")
    [edit] = assert_derived(old, new, draw.draw(data(APPEND)))
    assert edit.verdict is Verdict.ADAPT


NOT_DERIVABLE = {
    "INNER to LEFT, where rows without a key were not kept": (join(), join("LEFT JOIN")),
    "LEFT to FULL, the same": (join("LEFT JOIN"), join("FULL JOIN")),
    "INNER to ANTI, the same": (join(columns=WIDE), join("ANTI JOIN", "a.v")),
    "a column that is not kept": (join(), join(columns="a.v, b.w, b.g")),
    "a key that is not kept": (join(), join(on="a.k = b.v AND a.g = b.g")),
    "a condition on a column that is not kept": (join(), join("JOIN", on="a.k = b.v AND a.g < b.g")),
    "a filter removed": (join(columns=WIDE, where="WHERE a.w > 0"), join(columns=WIDE)),
    "another relation": (join(columns=WIDE), join(columns=WIDE, left="(SELECT DISTINCT * FROM bid)")),
    "another key, where rows without the old one were not kept": (
        join(columns=WIDE),
        join(columns=WIDE, on="a.w = b.w"),
    ),
    "a key less, the same": (join("LEFT JOIN", WIDE, "a.k = b.v AND a.g = b.g"), join("LEFT JOIN", WIDE)),
}


@pytest.mark.parametrize("name", NOT_DERIVABLE)
def test_what_looks_alike_is_computed_anew(name: str) -> None:
    old, new = (planned(text) for text in NOT_DERIVABLE[name])
    edit = next(e for e in needed(old, new) if e.state.description.find("join") >= 0)
    assert edit.verdict is Verdict.BACKFILL
    assert edit.derivation is None


def test_by_other_keys_it_needs_rows_that_were_not_forgotten() -> None:
    ttl = "SET 'table.exec.state.ttl' = '1 d';"
    old = planned(ttl + join("FULL JOIN", WIDE))
    new = planned(ttl + join("FULL JOIN", WIDE, "a.w = b.w"))
    assert [edit.verdict for edit in needed(old, new)] == [Verdict.ADAPT]
    forgot = [state.state_id for state in old.physical.states]
    assert [edit.verdict for edit in needed(old, new, forgetful=forgot)] == [Verdict.BACKFILL]
