"""Joins that read what an aggregate or a deduplication keeps anyway give what DuckDB gives; also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream_operators.plan.arranged_spec import ArrangeSpec
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.spec import JoinStep, PhysicalPlan
from tests.properties.test_arranged_joins import KINDS
from tests.properties.test_joins import ROWS, Input, check, check_with_other_shards, plan

G = "(SELECT k, COUNT(*) AS n, SUM(v) AS sv FROM t GROUP BY k) AS g"
#: Over rows that go.
H = "(SELECT k, COUNT(*) AS m, MIN(v) AS least, MAX(v) AS most FROM c GROUP BY k) AS h"
FIRST = (
    "(SELECT k, w, s FROM (SELECT k, w, s, ROW_NUMBER() OVER (PARTITION BY k ORDER BY w DESC, s) AS rn FROM u) AS r "
    "WHERE rn = 1) AS f"
)

#: What two of the joins of one answer make is read by two others, one of which joins it with another answer of the stage.
BESIDE = f"SELECT t.k, t.v, n, least FROM t JOIN {G} ON t.k = g.k JOIN {H} ON h.k = t.k AND n > m"

#: All read an answer on one side or both, and keep no rows of their own.
ANSWERED = [
    *(f"SELECT t.k, t.v, n, sv FROM t {kind} {G} ON t.k = g.k" for kind in KINDS),
    *(f"SELECT c.id, least, most FROM {H} {kind} c ON c.k = h.k AND c.v >= h.least" for kind in KINDS[2:]),
    f"SELECT t.k, t.v FROM t SEMI JOIN {H} ON t.k = h.k",
    f"SELECT t.k, t.v FROM t ANTI JOIN {H} ON t.k = h.k AND h.m > 1",
    f"SELECT g.k, n FROM {G} ANTI JOIN c ON c.k = g.k",
    # HAVING, expressions, and columns that are not shown.
    "SELECT t.v, x FROM t LEFT JOIN (SELECT k AS y, n * 2 AS x FROM (SELECT k, COUNT(*) AS n FROM c GROUP BY k "
    "HAVING COUNT(*) > 1)) AS g ON t.k = y",
    f"SELECT t.v FROM t JOIN {H} ON t.k = h.k",
    # By a longer integer, and a shorter one, which not all keys are.
    f"SELECT x.z, n FROM (SELECT w, k + 2147483646 * (w % 2) AS z FROM u) AS x LEFT JOIN {G} ON x.z = g.k",
    "SELECT t.v, m FROM t JOIN (SELECT k, SUM(w) AS m FROM u GROUP BY k) AS g ON t.k = g.k",
    # Two answers, or the same one twice.
    f"SELECT g.k, n, m FROM {G} FULL JOIN {H} ON g.k = h.k",
    f"WITH g AS (SELECT * FROM {G}) SELECT a.n, b.sv FROM g AS a JOIN g AS b ON a.k = b.k AND a.n <= b.sv",
    # By one key with others.
    f"SELECT c.v, n, least FROM c JOIN {G} ON c.k = g.k JOIN {H} ON h.k = c.k AND n > m",
    # By two keys, in another order.
    "SELECT t.v, n FROM t LEFT JOIN (SELECT k, s, COUNT(*) AS n FROM t GROUP BY s, k) AS g ON t.s = g.s AND g.k = t.k",
    # DISTINCT, and distinct values that are counted.
    "SELECT t.v FROM t LEFT JOIN (SELECT DISTINCT s, k FROM t) AS d ON t.s = d.s AND t.k = d.k",
    "SELECT t.v, n FROM t JOIN (SELECT k, COUNT(DISTINCT v) AS n FROM c GROUP BY k) AS d ON t.k = d.k",
    "SELECT c.id FROM c WHERE c.v > (SELECT AVG(x.v) FROM c AS x WHERE x.k = c.k)",
    "SELECT t.v FROM t WHERE k IN (SELECT k FROM c GROUP BY k HAVING SUM(v) > 3)",
    # The first row of each key.
    *(f"SELECT y.k, y.w AS yw, f.w FROM u AS y {kind} {FIRST} ON y.k = f.k" for kind in KINDS[1::2]),
]


def joins_of(physical: PhysicalPlan) -> list[JoinStep]:
    return [step for stage in physical.stages for step in stage.steps if isinstance(step, JoinStep)]


def answered(physical: PhysicalPlan) -> int:
    """How many sides of joins are answers that are kept anyway."""
    return sum(side.answer is not None for join in joins_of(physical) for side in join.join.sides)


def test_every_prefix_where_joins_read_answers(tmp_path: Path) -> None:
    physical = plan(tmp_path, ANSWERED, ROWS).physical
    assert not any(isinstance(step.operator, JoinSpec) for step in physical.operators)
    assert all(any(side.answer is not None for side in step.join.sides) for step in joins_of(physical))
    check(tmp_path, ANSWERED, ROWS, rows_per_epoch=12)


def test_a_restart_with_other_shards_goes_on_with_answers(tmp_path: Path) -> None:
    check_with_other_shards(tmp_path, [*ANSWERED[3::6], BESIDE])


NOTHING = Input([], [], [])


@pytest.mark.parametrize(
    ("query", "sides", "arrangements"),
    [
        (f"SELECT t.v, n FROM t JOIN {G} ON t.k = g.k", 1, 1),
        # By fewer keys, another column, an integer of another type, or what is computed of a key.
        (
            "SELECT t.v, n FROM t JOIN (SELECT k, s, COUNT(*) AS n FROM t GROUP BY k, s) AS g ON t.k = g.k",
            0,
            0,
        ),
        (f"SELECT t.v, n FROM t JOIN {G} ON t.k = g.n", 0, 0),
        (
            "SELECT t.v, n FROM t JOIN (SELECT k + 1 AS k, COUNT(*) AS n FROM t GROUP BY k) AS g ON t.k = g.k",
            0,
            0,
        ),
        (f"SELECT w, n FROM u JOIN {G} ON u.k = g.k", 1, 1),
        (f"SELECT w, n FROM u JOIN {G} ON u.k = CAST(g.k AS DOUBLE)", 0, 0),
        # All values of a group would be read.
        ("SELECT t.v, n FROM t JOIN (SELECT k, MEDIAN(v) AS n FROM c GROUP BY k) AS g ON t.k = g.k", 0, 0),
        # Several sets, and more than one row of a key.
        (
            "SELECT t.v, n FROM t JOIN (SELECT k, COUNT(*) AS n FROM t GROUP BY ROLLUP (k)) AS g ON t.k = g.k",
            0,
            0,
        ),
        # What is joined with an answer is made of it.
        (
            f"WITH g AS (SELECT * FROM {G}) SELECT a.n, b.sn FROM g AS a JOIN "
            "(SELECT g.k, SUM(g.n + c.v) AS sn FROM g JOIN c ON c.id = g.n GROUP BY g.k) AS b ON a.k = b.k",
            1,
            1,
        ),
    ],
)
def test_what_is_answered(tmp_path: Path, query: str, sides: int, arrangements: int) -> None:
    physical = plan(tmp_path, [query], NOTHING).physical
    kept = sum(isinstance(step.operator, ArrangeSpec) for step in physical.operators)
    assert (answered(physical), kept) == (sides, arrangements)
