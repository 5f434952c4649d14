"""An edited interval join goes on with all pairs that are still to come: its state is kept, or read again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sqlstream.runtime.loop.recovery import former_plan
from sqlstream_planner.edits.decide import decide
from tests.edits.test_matrix import last_manifest
from tests.properties.in_process import run_here
from tests.properties.test_interval_joins import EXTREMES, EXTREMES_BY_KEY, ROWS, WITHIN, expected, plan
from tests.properties.updating import collecting

OLD = "SELECT t.k, v, w FROM t JOIN u ON t.k = u.k AND us BETWEEN ts - INTERVAL '3' SECOND AND ts + INTERVAL '4' SECOND"
EDITS = {
    "another spelling": (
        "SELECT t.k, v, w FROM t, u WHERE us BETWEEN ts - INTERVAL '3' SECOND AND ts + INTERVAL '4' SECOND AND u.k = t.k",
        "KEEP",
    ),
    "another projection": (OLD.replace("v, w", "v + 1 AS v, w - 1 AS w"), "KEEP"),
    "wider": (OLD.replace("'4'", "'6'"), "BACKFILL"),
    "narrower": (OLD.replace("'4'", "'1'"), "ADAPT"),
    "another condition": (f"{OLD} AND v < w", "ADAPT"),
    "narrower, of fewer rows": (
        f"{OLD.replace(chr(39) + '4' + chr(39), chr(39) + '2' + chr(39))} AND v > 1",
        "ADAPT",
    ),
    "narrower on one side": (OLD.replace("'4'", "'1'").replace("'3'", "'5'"), "BACKFILL"),
    "by another key": (OLD.replace("t.k = u.k AND", "t.k = u.w AND"), "BACKFILL"),
    "to a regular join": ("SELECT t.k, v, w FROM t JOIN u ON t.k = u.k", "BACKFILL"),
}


BEST = f"SELECT k, v, ts FROM t JOIN ({EXTREMES}) AS m ON v = most AND {WITHIN}"
#: Rows that can't be the best of their window are not there for a join that wants others.
EDITS_OF_BEST = {
    "the same": (BEST.replace("k, v, ts", "k, v + 1 AS v, ts"), "KEEP"),
    "of fewer rows": (f"{BEST} AND k > 0", "ADAPT"),
    "the least": (BEST.replace("v = most", "v = least"), "BACKFILL"),
    "another condition": (BEST.replace("v = most", "v >= most"), "BACKFILL"),
}


def test_the_best_of_a_window_is_the_same_in_whatever_order_its_conditions_stand(tmp_path: Path) -> None:
    least = f"SELECT t.k, v, ts FROM t JOIN ({EXTREMES_BY_KEY}) AS m ON {{}} AND {WITHIN}"
    both = [least.format(on) for on in ("t.k = m.k AND v = least", "least = v AND m.k = t.k")]
    one, other = ({s.state_id for s in plan(tmp_path, [q], ROWS).physical.states} for q in both)
    assert one == other


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EDITS)
def test_what_comes_behind_an_edit(name: str, tmp_path: Path) -> None:
    query, verdict = EDITS[name]
    follows(OLD, query, verdict, tmp_path)


@pytest.mark.parametrize("name", EDITS_OF_BEST)
def test_what_comes_behind_an_edit_of_a_join_with_the_best_of_a_window(name: str, tmp_path: Path) -> None:
    query, verdict = EDITS_OF_BEST[name]
    follows(BEST, query, verdict, tmp_path)


def follows(former: str, query: str, verdict: str, tmp_path: Path) -> None:
    """What a join gives behind an edit is all that its query gives and the former one has not given."""
    old = plan(tmp_path, [former], ROWS)
    read: Counter[str] = Counter()
    with collecting():
        run_here(
            old,
            tmp_path,
            rows_per_epoch=8,
            max_epochs=2,
            sql=old.masked_sql,
            on_epoch=lambda report: read.update(report.rows_read),
        )
    new = plan(tmp_path, [query], ROWS)
    (edit,) = (
        e
        for e in decide(former_plan(*last_manifest(tmp_path)), new.physical, new.state_nodes)
        if e.new is not None and "join" in e.new.state.operator
    )
    assert edit.verdict.value == verdict
    with collecting() as collected:
        run_here(new, tmp_path, parallelism=3, rows_per_epoch=8, sql=new.masked_sql)
        given = Counter(map(repr, collected.folded("out_0")))
    every = {name: len(lines) for name, lines in ROWS.lines().items()}
    (whole,), (before,) = (expected(tmp_path, new, ROWS, upto, ["out_0"]).values() for upto in (every, read))
    assert 0 < sum(read.values()) < sum(every.values())
    assert given == Counter(map(repr, whole)) - Counter(map(repr, before))


def test_whether_a_row_has_had_a_partner_is_not_known_for_other_bounds(tmp_path: Path) -> None:
    """The partner may have gone, and nothing says how near it was."""
    for kind in ("LEFT JOIN", "FULL JOIN"):
        old, new = (
            plan(tmp_path, [OLD.replace("JOIN", kind).replace("'4'", upto)], ROWS) for upto in ("'4'", "'1'")
        )
        verdicts = {e.verdict.value for e in decide(old.physical, new.physical, new.state_nodes)}
        assert verdicts == {"BACKFILL", "DROP"}
