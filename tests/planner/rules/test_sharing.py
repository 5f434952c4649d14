"""Which sub-plans of a file run once: those that are structurally equal, and no others."""

from __future__ import annotations

import pytest

from sqlstream.planning import plan_file

TABLES = """
CREATE TABLE t (k INT, v INT, s STRING) WITH ('connector' = 'filesystem', 'path' = 't', 'format' = 'json');
CREATE TABLE c (k INT, v INT, s STRING, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'filesystem', 'path' = 'c', 'format' = 'debezium-json');
"""


def operators(*queries: str) -> list[str]:
    """The operators that keep state, of a file that prints these queries."""
    return [state.operator for state in plan_file(TABLES + ";".join(queries)).physical.states]


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        (("SELECT k, COUNT(*) FROM t GROUP BY k", "SELECT k AS x, COUNT(*) AS n FROM t AS u GROUP BY k"), 1),
        (("SELECT k, v FROM c", "SELECT s FROM c WHERE v > 1", "SELECT k FROM c"), 1),
        (("SELECT DISTINCT k FROM t", "SELECT DISTINCT k AS z FROM t"), 1),
        (("SELECT k FROM t ORDER BY v LIMIT 2", "SELECT k FROM t ORDER BY v LIMIT 2"), 1),
        # Alike, and not the same.
        (("SELECT k, COUNT(*) FROM t GROUP BY k", "SELECT k, COUNT(v) FROM t GROUP BY k"), 2),
        (("SELECT k FROM t ORDER BY v LIMIT 2", "SELECT k FROM t ORDER BY v NULLS FIRST LIMIT 2"), 2),
        (("SELECT k FROM t ORDER BY v LIMIT 2", "SELECT k, s FROM t ORDER BY v LIMIT 2"), 2),
        (("SELECT DISTINCT k FROM t WHERE v > 1", "SELECT DISTINCT k FROM t WHERE v >= 1"), 2),
        (("SELECT DISTINCT k FROM t", "SELECT /*+ STATE_TTL('t' = '1h') */ DISTINCT k FROM t"), 2),
        # One meaning in two spellings: two operators, which is dear and right.
        (("SELECT DISTINCT k FROM t WHERE v > 1", "SELECT DISTINCT k FROM t WHERE 1 < v"), 2),
    ],
)
def test_what_is_equal_runs_once(queries: tuple[str, ...], expected: int) -> None:
    assert len(operators(*queries)) == expected


def test_times_to_live_alone_give_states_of_their_own_whatever_stands_first() -> None:
    one = "SELECT /*+ STATE_TTL('t' = '1h') */ DISTINCT k FROM t"
    other = "SELECT /*+ STATE_TTL('t' = '2h') */ DISTINCT k FROM t"
    first, second = (
        [s.state_id for s in plan_file(TABLES + f"{a};{b}").physical.states]
        for a, b in ((one, other), (other, one))
    )
    assert first == second[::-1]
    assert len(set(first)) == 2


INNER = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
WINDOWED = """SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end"""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (INNER, INNER.replace("SELECT", "SELECT /*+ STATE_TTL('t' = '1h') */")),
        (WINDOWED, f"{WINDOWED} EMIT CHANGES"),
    ],
)
def test_what_is_below_tells_states_apart_whatever_stands_first(one: str, other: str) -> None:
    """The groups above mean the same, but of two that forget or are given at other times each has seen other rows."""
    times = """CREATE TABLE e (ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
    WITH ('connector' = 'filesystem', 'path' = 'e', 'format' = 'json');"""
    above = [f"SELECT n, COUNT(*) AS m FROM ({inner}) AS i GROUP BY n" for inner in (one, other)]
    first, second = (
        {s.state_id for s in plan_file(TABLES + times + ";".join(texts)).physical.states}
        for texts in (above, above[::-1])
    )
    assert first == second
    alone = {s.state_id for s in plan_file(TABLES + times + above[0]).physical.states}
    assert not any(id_.endswith("-2") for id_ in first)
    assert len(first) == 2 * len(alone)


def test_a_chain_of_views_that_are_read_twice_is_linear() -> None:
    """Each is a relation that is computed once; written out, 60 would be 2^60 blocks."""
    text = TABLES + "CREATE VIEW v0 AS SELECT k, v FROM t;"
    for n in range(1, 60):
        text += f"CREATE VIEW v{n} AS SELECT k + 1 AS k, v FROM v{n - 1} UNION ALL SELECT k, v FROM v{n - 1};"
    steps = {
        n: sum(
            len(s.steps) for s in plan_file(f"{text}SELECT k, COUNT(*) FROM v{n} GROUP BY k").physical.stages
        )
        for n in (29, 59)
    }
    assert steps[59] - steps[29] == 30
