"""What an edit makes of joins that read the result of an aggregate, and of those that keep rows of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.pipeline import Planned
from tests.edits.derived import needed, planned
from tests.properties.test_edited_answers import check_chain
from tests.properties.test_shared_sides import answered
from tests.properties.updating import TABLE

READS = "SELECT a.v, n FROM bid AS a JOIN (SELECT k, COUNT(*) AS n, SUM(w) AS sw FROM bid GROUP BY k) AS g ON a.k = g.k"
#: Keeps the rows of both sides.
KEEPS = f"{READS} AND a.v = g.n".replace("a JOIN", "a LEFT JOIN")

VERDICTS = {
    "another condition": (READS, f"{READS} AND a.v > n", {Verdict.KEEP}),
    "another kind": (READS, READS.replace("JOIN", "SEMI JOIN").replace("a.v, n", "a.v"), {Verdict.KEEP}),
    "a filter on the groups": (READS, f"{READS} WHERE n > 1", {Verdict.KEEP}),
    "another column of the groups": (READS, READS.replace("a.v, n", "a.v, sw"), {Verdict.KEEP}),
    "rows that were kept": (KEEPS, READS, {Verdict.KEEP, Verdict.ADAPT}),
    "a time to live": (
        READS,
        f"SET 'table.exec.state.ttl' = '1 d';{READS}",
        {Verdict.ADAPT, Verdict.BACKFILL},
    ),
    "rows that were kept nowhere": (READS, KEEPS, {Verdict.KEEP, Verdict.BACKFILL}),
}


@pytest.mark.parametrize("name", VERDICTS)
def test_what_an_edit_costs(name: str) -> None:
    old, new, verdicts = VERDICTS[name]
    assert {edit.verdict for edit in needed(planned(old), planned(new))} == verdicts


G = "(SELECT k, COUNT(*) AS n, MAX(v) AS most FROM t GROUP BY k) AS g"
#: With the numbers of sides that are answers.
CHAIN = [
    (f"SELECT t.v, n FROM t JOIN {G} ON t.k = g.k AND t.v = g.n", 0),
    (f"SELECT t.v, n FROM t LEFT JOIN {G} ON t.k = g.k", 1),
    (f"SELECT t.v, n FROM t JOIN {G} ON t.k = g.k JOIN t AS u ON u.k = t.k WHERE most > 0", 1),
    (f"SELECT t.v, n FROM {G} FULL JOIN t ON t.k = g.k", 1),
    (f"SELECT t.v, n FROM t FULL JOIN {G} ON t.v = g.n", 0),
]


def test_a_chain_of_edits_has_duckdbs_answer_after_each() -> None:
    rows = [
        {"k": k, "v": v, "s": None, "b": True} for k, v in zip([1, 2, None, 1, 3] * 4, range(20), strict=True)
    ]

    def planned_step(folder: Path, number: int) -> Planned:
        query, answers = CHAIN[number]
        sink = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json'"
        file = folder / "p.sql"
        file.write_text(f"{TABLE}CREATE TABLE out WITH ({sink}) AS {query};\n")
        found = plan_file(file)
        assert answered(found.physical) == answers
        return found

    check_chain(planned_step, len(CHAIN), rows[:8], rows[8:], 5, [1, 2, 1, 3, 2])
