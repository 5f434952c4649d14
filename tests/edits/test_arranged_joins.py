"""What joins of an edited query keep follows from what they kept, whether in arrangements or by themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.plan.arranged_spec import ArrangeSpec
from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import APPEND, CHANGES, PHASES, assert_derived, data, needed, planned
from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.test_joins import ROWS, expected, plan
from tests.properties.updating import collecting

ITSELF = "SELECT a.v, b.v AS bv FROM bid AS a JOIN bid AS b ON a.k = b.k"
OWN = "SELECT a.v, b.w FROM bid AS a {} bid AS b ON a.k = b.k"
THREE = "SELECT a.v, b.w, c.g FROM bid AS a JOIN bid AS b ON a.k = b.k JOIN bid AS c ON c.k = b.k"

DERIVABLE = {
    "from arrangements to a join of its own, with a column less": (
        ITSELF,
        "SELECT a.v, b.k AS bk FROM bid AS a JOIN bid AS b ON a.k = b.k",
    ),
    "from the sides of a join": (OWN.format("FULL JOIN").replace("b.w", "b.w, b.v AS bv"), ITSELF),
    "fewer sides": (THREE, OWN.format("JOIN")),
    "a filter more": (THREE, f"{THREE} WHERE a.v > 0"),
    "a column less": (THREE.replace("a.v", "a.v, a.d"), THREE),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", [APPEND, CHANGES])
@pytest.mark.parametrize("name", DERIVABLE)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(draw=st.data())
def test_it_follows_from_what_was_kept(name: str, format_: str, draw: st.DataObject) -> None:
    old, new = (planned(text, format_) for text in DERIVABLE[name])
    found = assert_derived(old, new, draw.draw(data(format_)))
    assert Verdict.ADAPT in {edit.verdict for edit in found}
    assert any(isinstance(edit.new or edit.old, ArrangeSpec) or edit.derivation for edit in found)


SAME = {
    "another condition": (ITSELF, f"{ITSELF} AND a.v < b.v"),
    "another order": (
        THREE,
        "SELECT a.v, b.w, c.g FROM bid AS c JOIN bid AS a ON a.k = c.k JOIN bid AS b ON c.k = b.k",
    ),
    "keys in another order": (
        THREE.replace("a.k = b.k", "a.k = b.k AND a.g = b.g").replace("c.k = b.k", "c.k = b.k AND b.g = c.g"),
        THREE.replace("a.k = b.k", "b.g = a.g AND a.k = b.k").replace("c.k = b.k", "c.g = a.g AND c.k = a.k"),
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_it_is_kept(name: str) -> None:
    old, new = (planned(text) for text in SAME[name])
    assert {edit.verdict for edit in needed(old, new)} == {Verdict.KEEP}


DIFFERENT = {
    "rows without a key": (ITSELF, ITSELF.replace("JOIN", "FULL JOIN")),
    "a column more": (ITSELF, THREE.replace("c.g", "c.g, c.d")),
    "a filter less": (f"{ITSELF} WHERE a.v > 0 AND b.v > 0", ITSELF),
    "another key": (ITSELF, ITSELF.replace("a.k = b.k", "a.w = b.w")),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_is_not_there_is_computed_anew(name: str) -> None:
    old, new = (planned(text) for text in DIFFERENT[name])
    assert any(edit.verdict is Verdict.BACKFILL for edit in needed(old, new))


def test_keys_that_were_forgotten_are_not_found_in_a_join() -> None:
    old, new = planned("SET 'table.exec.state.ttl' = '1 d';" + OWN.format("FULL JOIN")), planned(THREE)
    forgot = [state.state_id for state in old.physical.states]
    assert {edit.verdict for edit in needed(old, new, forgetful=forgot)} == {Verdict.BACKFILL}


FIRST = "SELECT t.k, t.v, id FROM t JOIN c ON t.k = c.k"
SECOND = "SELECT t.k, t.v, id FROM t JOIN c ON t.k = c.id"


def test_joins_that_come_and_go_leave_the_others_as_they_are(tmp_path: Path) -> None:
    """Rows move into an arrangement when a second join needs them, and back."""
    read: set[str] = set()
    with collecting() as collected:
        for queries, epochs in (([FIRST], 1), ([FIRST, SECOND], 1), ([FIRST], None)):
            new = plan(tmp_path, queries, ROWS)
            run_here(new, tmp_path, rows_per_epoch=9, max_epochs=epochs, sql=new.masked_sql)
            read.add(json.dumps(sorted(state.operator for state in new.physical.states)))
        assert len(read) == 2
        lines = {name: len(listed) for name, listed in ROWS.lines().items()}
        assert_same(collected.folded("out_0"), expected(tmp_path, new, ROWS, lines)["out_0"])
