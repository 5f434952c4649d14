"""Edits that rules carry through a run: the old query over the first rows, the new one over the rest of them.

After every run the sink holds what DuckDB gives for the query of that run over all rows so far.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.pipeline import Planned
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.test_edited_answers import held
from tests.properties.updating import TABLE, batch

SINK = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json'"
TTL = "SET 'table.exec.state.ttl' = '1 d';\n"
TOP = (
    "SELECT k AS a, v AS b FROM (SELECT k, s, v, ROW_NUMBER() OVER (PARTITION BY {} ORDER BY v DESC, s, k) AS rn "
    "FROM {}) WHERE rn <= {}"
)
COUNTED = "(SELECT k, s, COUNT(*) AS v FROM t GROUP BY k, s)"

#: Rules carry a part of these, and the sources' history the rest.
MIXED = {
    "fewer keys and another aggregate": (
        "SELECT COUNT(*) AS a, SUM(v) AS b FROM t GROUP BY k, s",
        "SELECT MIN(v) IS NULL AS a, SUM(v) AS b FROM t GROUP BY k",
    ),
    "a filter on a key and another multiset": (
        f"SELECT COUNT(*) AS a, MIN(v) AS b FROM {COUNTED} GROUP BY k",
        f"SELECT COUNT(*) AS a, MIN(v) + LENGTH(MAX(s)) AS b FROM {COUNTED} WHERE k > 0 GROUP BY k",
    ),
}
#: The old query and the new one; each gives two numbers, `a` and `b`.
EDITS = {
    "what a key says that is dropped": (
        "SELECT COUNT(*) AS a, SUM(v) AS b FROM t GROUP BY k, s",
        "SELECT COUNT(DISTINCT s) AS a, SUM(v) + COUNT(*) FILTER (WHERE s IS NULL) + LENGTH(MAX(s)) AS b FROM t GROUP BY k",
    ),
    "FILTERs become a condition": (
        "SELECT COUNT(*) FILTER (WHERE v > 1) AS a, SUM(v) FILTER (WHERE v > 1) AS b FROM t GROUP BY k",
        "SELECT COUNT(*) AS a, SUM(v) AS b FROM t WHERE v > 1 GROUP BY k",
    ),
    "distinct values by fewer keys": (
        "SELECT COUNT(DISTINCT v) AS a, SUM(v) AS b FROM t GROUP BY k, s",
        "SELECT COUNT(DISTINCT v) AS a, SUM(v) AS b FROM t GROUP BY k",
    ),
    "a key dropped": (
        "SELECT COUNT(*) AS a, SUM(v) AS b FROM t GROUP BY k, s",
        "SELECT COUNT(*) AS a, SUM(v) AS b FROM t GROUP BY k",
    ),
    "all keys dropped": (
        "SELECT COUNT(*) AS a, MAX(v) AS b FROM t GROUP BY k, s",
        "SELECT COUNT(*) AS a, MAX(v) AS b FROM t",
    ),
    "a coarser key and a filter": (
        "SELECT COUNT(*) AS a, MIN(v) AS b FROM t GROUP BY k, s",
        "SELECT COUNT(*) AS a, MIN(v) AS b FROM t WHERE k > 0 GROUP BY UPPER(s)",
    ),
    "an extreme of distinct values": (
        "SELECT k AS a, COUNT(DISTINCT v) AS b FROM t GROUP BY k",
        "SELECT COUNT(DISTINCT v) AS a, SUM(DISTINCT v) + MIN(v) AS b FROM t GROUP BY k",
    ),
    "a sum of a multiset": (
        f"SELECT k AS a, MIN(v) AS b FROM {COUNTED} GROUP BY k",
        f"SELECT SUM(v) AS a, MIN(v) AS b FROM {COUNTED} GROUP BY k",
    ),
    "fewer of the best": (TOP.format("k", "t", 3), TOP.format("k", "t", 1)),
    "ranked anew": (TOP.format("k", COUNTED, 2), TOP.format("s", COUNTED, 3)),
    "more of all": (TOP.format("k", COUNTED, 1), TOP.format("k", COUNTED, 3)),
}


def planned(folder: Path, query: str, before: str = "") -> Planned:
    typed = f"SELECT CAST(a AS BIGINT) AS a, CAST(b AS BIGINT) AS b FROM ({query})"
    (folder / "p.sql").write_text(f"{before}{TABLE}CREATE TABLE out WITH ({SINK}) AS {typed};\n")
    return plan_file(folder / "p.sql")


def some_rows(seed: int, number: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    start = dt.datetime(2024, 1, 1)
    return [
        {
            "k": chance.choice([None, -1, 1, 2]),
            "s": chance.choice([None, "a", "A", "b"]),
            "v": chance.choice([None, -2, 0, 1, 1, 5]),
            "ts": str(start + dt.timedelta(seconds=chance.randint(0, 300))),
        }
        for _ in range(number)
    ]


@pytest.mark.parametrize("cut", [0, 7, 25])
@pytest.mark.parametrize("name", EDITS)
@pytest.mark.sampled(5, each_value=False)
def test_after_an_edit_the_answer_is_the_new_querys_over_all_rows(name: str, cut: int) -> None:
    assert _carried(EDITS[name], cut) <= {Verdict.KEEP, Verdict.ADAPT}


@pytest.mark.parametrize("cut", [7, 25])
@pytest.mark.parametrize("name", MIXED)
@pytest.mark.sampled(2)
def test_what_rules_can_not_carry_is_read_again_beside_the_rest(name: str, cut: int) -> None:
    assert Verdict.BACKFILL in _carried(MIXED[name], cut)


@pytest.mark.parametrize("name", ["a key dropped", "fewer of the best", "ranked anew"])
def test_a_time_to_live_is_added(name: str) -> None:
    query, _ = EDITS[name]
    assert _carried((query, query), 25, TTL) == {Verdict.ADAPT}


def _carried(queries: tuple[str, str], cut: int, before: str = "") -> set[Verdict]:
    """Run an edit, compare after both runs; the verdicts about the new states. `before` stands before the new query."""
    rows = some_rows(cut, 40)
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        (folder / "input").mkdir()
        plans = [planned(folder, query, text) for query, text in zip(queries, ("", before), strict=True)]
        edits = decide(plans[0].physical, plans[1].physical, plans[1].state_nodes)
        assert any(e.derivation is not None or e.verdict is Verdict.KEEP for e in edits)
        read: list[dict[str, Any]] = []
        for number, (plan, new) in enumerate(zip(plans, (rows[:cut], rows[cut:]), strict=True)):
            lines = "".join(json.dumps(row) + "\n" for row in new)
            (folder / "input" / f"{number}.json").write_text(lines)
            read = [*read, *new]
            run_here(
                plan,
                folder,
                parallelism=2 + number,
                rows_per_epoch=9,
                sql=plan.masked_sql,
                tell=lambda _: None,
            )
            assert_same(held(folder, ("a", "b")), batch(folder, plan, read))
    return {edit.verdict for edit in edits if edit.new is not None}
