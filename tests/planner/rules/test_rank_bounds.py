"""What is kept of a rank's rows is what its condition lets pass: conditions against DuckDB, rank by rank."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import duckdb
import pytest
import sqlglot

from sqlstream_planner.rules.streaming.rank_bounds import rank_bounds

RANKS = range(1, 12)
ATOMS = (
    *(f"rn {sign} 3" for sign in ("=", "<>", "<", "<=", ">", ">=")),
    *(f"4 {sign} rn" for sign in ("=", "<>", "<", "<=", ">", ">=")),
    *(f"NOT rn {sign} 5" for sign in ("=", "<", "<=", ">", ">=")),
    *("rn = 1", "rn < 1", "rn <= 0", "rn >= -2", "rn < 1 + 2 * 3", "rn <= -(-2)", "rn = CAST(6 AS BIGINT)"),
    *("rn IN (1, 3)", "rn IN (2, 3)", "rn IN (5, 0)", "rn IN (0, -1)", "rn IN (7)", "NOT rn IN (1, 2)"),
    *("rn BETWEEN 2 AND 4", "rn BETWEEN 4 AND 2", "rn BETWEEN -1 AND 2", "NOT rn BETWEEN 3 AND 5"),
    *("rn % 2 = 1", "rn + 1 <= 4", "other > 3", "rn > other"),
)


def passing(condition: str) -> frozenset[int]:
    """The ranks that pass, by DuckDB; `other` goes down as the rank goes up."""
    rows = duckdb.sql(
        f"SELECT rn FROM (SELECT rn, 12 - rn AS other FROM range(1, 12) AS t(rn)) WHERE {condition}"
    )
    return frozenset(row[0] for row in rows.fetchall())


PASSING = {atom: passing(atom) for atom in ATOMS}


def kept(conditions: Sequence[str], passing: Sequence[frozenset[int]]) -> frozenset[int]:
    """The ranks within the bounds of conditions that pass what of them must still be tested."""
    parsed = [sqlglot.parse_one(condition) for condition in conditions]
    bounds, rest = rank_bounds(parsed, "rn")
    still = [ranks for one, ranks in zip(parsed, passing, strict=True) if any(one is other for other in rest)]
    assert len(still) == len(rest)
    high = RANKS[-1] if bounds.high is None else bounds.high
    assert bounds.low >= 1
    return frozenset(range(bounds.low, high + 1)).intersection(RANKS, *still)


@pytest.mark.parametrize("one", ATOMS)
def test_what_passes_is_kept_and_nothing_else(one: str) -> None:
    first = PASSING[one]
    assert kept([one], [first]) == first
    for other in ATOMS:
        second = PASSING[other]
        assert kept([one, other], [first, second]) == first & second, other
        assert kept([f"({one}) AND ({other})"], [first & second]) == first & second, other
        assert kept([f"({one}) OR ({other})"], [first | second]) == first | second, other


def test_three_conditions_in_any_brackets() -> None:
    few = ("rn = 1", "rn IN (3, 4)", "rn >= 6", "rn BETWEEN 2 AND 3", "rn < 1", "rn % 2 = 1")
    for a, b, c in product(few, repeat=3):
        one, two, three = (PASSING.get(atom) or passing(atom) for atom in (a, b, c))
        assert kept([f"({a} OR {b}) OR {c}"], [one | two | three]) == one | two | three, (a, b, c)
        assert kept([f"({a} OR {b}) AND {c}"], [(one | two) & three]) == (one | two) & three, (a, b, c)
        assert kept([f"({a} AND {b}) OR {c}"], [(one & two) | three]) == (one & two) | three, (a, b, c)


@pytest.mark.parametrize(
    ("condition", "low", "high"),
    [
        ("rn = 1 OR rn = 3", 1, 3),
        ("rn BETWEEN 2 AND 4 AND rn % 2 = 1", 2, 4),
        ("(rn < 3 OR rn = 7) AND rn > 1", 2, 7),
        ("NOT rn > 4", 1, 4),
        ("5 > rn", 1, 4),
        ("rn < 1 OR rn BETWEEN 3 AND 4", 3, 4),
    ],
)
def test_no_more_is_kept_than_can_pass(condition: str, low: int, high: int) -> None:
    bounds, _ = rank_bounds([sqlglot.parse_one(condition)], "rn")
    assert (bounds.low, bounds.high) == (low, high)
