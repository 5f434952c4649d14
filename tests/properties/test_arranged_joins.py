"""Joins that share what they keep, and joins of several inputs by one key, give what DuckDB gives; also after a restart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_operators.plan.arranged_spec import ArrangeSpec
from sqlstream_operators.plan.join_spec import JoinSpec
from sqlstream_operators.plan.spec import JoinStep, PhysicalPlan
from tests.properties.test_joins import ROWS, Input, check, check_with_other_shards, plan

KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
#: Of all kinds, over rows that stay and rows that go: each pair of tables has the same columns.
SHARING = [
    *(f"SELECT t.k, v, w FROM t {kind} u ON t.k = u.k" for kind in KINDS),
    *(f"SELECT t.k, t.v, c.id, c.v AS cv FROM t {kind} c ON t.k = c.k AND t.v >= c.v" for kind in KINDS),
    "SELECT k, v FROM t SEMI JOIN u ON t.k = u.k",
    "SELECT k, v FROM t ANTI JOIN c ON t.k = c.k",
]
TOGETHER = (
    "SELECT t.k, COUNT(*) AS n, SUM(w) AS sw FROM t JOIN u ON t.k = u.k JOIN c ON c.k = t.k GROUP BY t.k",
    "SELECT k, v, w FROM (SELECT t.k, t.v, w, ROW_NUMBER() OVER (PARTITION BY t.k ORDER BY w DESC, t.v, id) AS rn "
    "FROM t JOIN u ON t.k = u.k JOIN c ON c.k = t.k) AS r WHERE rn <= 2",
)


def kept(physical: PhysicalPlan) -> tuple[int, int, Counter[int]]:
    """How many arrangements there are, how many joins with a state, and those without one by their sides."""
    specs = [step.operator for step in physical.operators]
    joins = [step.join for stage in physical.stages for step in stage.steps if isinstance(step, JoinStep)]
    return (
        sum(isinstance(spec, ArrangeSpec) for spec in specs),
        sum(isinstance(spec, JoinSpec) for spec in specs),
        Counter(len(join.sides) for join in joins),
    )


def test_every_prefix_where_joins_share_what_they_keep(tmp_path: Path) -> None:
    # t by k as either type that it is compared in, u and c by k; each with the rows without a key, which an outer join
    # gives, and without them; of u and c also the keys alone.
    assert kept(plan(tmp_path, SHARING, ROWS).physical) == (10, 0, Counter({2: 10}))
    check(tmp_path, SHARING, ROWS, rows_per_epoch=10)


def test_a_restart_with_other_shards_goes_on_with_arrangements(tmp_path: Path) -> None:
    """An aggregate and a Top-N above a join of three, which begins with one shard and goes on with three."""
    check_with_other_shards(tmp_path, [*TOGETHER, *SHARING[4:6]])


NOTHING = Input([], [], [])


@pytest.mark.parametrize(
    ("queries", "wanted"),
    [
        # Alone a join keeps its rows itself.
        (["SELECT t.v, w FROM t JOIN u ON t.k = u.k"], (0, 1, {})),
        # By one key, whichever of those that are equal it is called by; the result of a view is joined with its rows.
        (["SELECT t.v, w, id FROM t JOIN u ON t.k = u.k JOIN c ON c.k = u.k"], (3, 0, {3: 1})),
        (["SELECT t.v, w, id FROM t JOIN u ON t.k = u.k JOIN c ON c.id = u.k"], (3, 0, {3: 1})),
        (
            ["WITH j AS (SELECT u.k AS x, w FROM t JOIN u ON t.k = u.k) SELECT w FROM j JOIN c ON x = c.k"],
            (3, 0, {3: 1}),
        ),
        # By another key, or another value of it.
        (["SELECT t.v, w, id FROM t JOIN u ON t.k = u.k JOIN c ON c.k = u.w"], (0, 2, {})),
        (["SELECT t.v, w, id FROM t JOIN u ON t.k = u.k JOIN c ON c.k = u.k + 1"], (0, 2, {})),
        # What an outer join gives is no combination of rows; nor is one that two read kept by nobody.
        (["SELECT t.v, w, id FROM t LEFT JOIN u ON t.k = u.k JOIN c ON c.k = t.k"], (0, 2, {})),
        # With itself, by the same columns, one side is the other.
        (["SELECT a.v, b.v AS bv FROM t AS a JOIN t AS b ON a.k = b.k"], (1, 0, {2: 1})),
        (["SELECT a.v, b.v AS bv FROM t AS a JOIN t AS b ON a.k = b.v"], (0, 1, {})),
        # The same columns by the same key as another join, or others.
        ([f"SELECT t.k, t.v, id FROM t JOIN c ON t.k = {key}" for key in ("c.k", "c.id")], (3, 0, {2: 2})),
        (
            [f"SELECT t.{x}, id FROM t JOIN c ON t.k = {key}" for x, key in (("v", "c.k"), ("s", "id"))],
            (0, 2, {}),
        ),
        # What one of them gives the other needs: they can't run together; the other reads what the aggregate keeps.
        (
            [
                "SELECT t.k, t.v, n FROM t JOIN (SELECT t.k, COUNT(*) AS n FROM t JOIN c ON t.k = c.k AND t.v > c.v "
                "GROUP BY t.k) AS g ON g.k = t.k"
            ],
            (1, 1, {2: 1}),
        ),
    ],
)
def test_what_is_arranged(
    tmp_path: Path, queries: list[str], wanted: tuple[int, int, dict[int, int]]
) -> None:
    arrangements, joins, without = wanted
    assert kept(plan(tmp_path, queries, NOTHING).physical) == (arrangements, joins, Counter(without))


def test_a_time_to_live_is_each_joins_own(tmp_path: Path) -> None:
    planned = plan(tmp_path, ["SELECT t.v, w, id FROM t JOIN u ON t.k = u.k JOIN c ON c.k = u.k"], NOTHING)
    assert kept(planned.physical)[0] == 3
    file = tmp_path / "p.sql"
    file.write_text(f"SET 'table.exec.state.ttl' = '1 d';\n{file.read_text()}")
    assert kept(plan_file(file).physical) == (0, 2, Counter())
