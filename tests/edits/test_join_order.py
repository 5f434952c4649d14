"""An edit that puts joins into another order: what lies between them is computed anew, and the answer stays right."""

from __future__ import annotations

from pathlib import Path

from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import needed
from tests.planner.rules.test_join_order import order
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.test_joins import ROWS, expected, plan
from tests.properties.updating import collecting

CHAIN = "SELECT a.v, b.s, d.id FROM t AS a JOIN t AS b ON a.v = b.k JOIN c AS d ON b.v = d.id"


def test_a_condition_that_changes_the_order(tmp_path: Path) -> None:
    with collecting() as collected:
        orders = []
        for query, epochs in ((f"{CHAIN} WHERE a.k = 1 AND a.s = 'a'", 1), (CHAIN, None)):
            new = plan(tmp_path, [query], ROWS)
            run_here(new, tmp_path, rows_per_epoch=5, max_epochs=epochs, sql=new.masked_sql)
            orders.append((order(new.logical[0]), new))
        assert orders[0][0] != orders[1][0]
        assert Verdict.BACKFILL in {edit.verdict for edit in needed(orders[0][1], new)}
        lines = {name: len(listed) for name, listed in ROWS.lines().items()}
        assert_same(collected.folded("out_0"), expected(tmp_path, new, ROWS, lines)["out_0"])
