"""State that suffices: what another query needs, in other words or of coarser keys, is computed from what is kept."""

from __future__ import annotations

import pytest

from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import APPEND, CHANGES, assert_derived, drawn, needed, planned
from tests.examples import seeds

FORMATS = pytest.mark.parametrize("format_", [APPEND, CHANGES])
_ALL = "COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, SUM(d) AS sd, AVG(w) AS a, MIN(v) AS lo, MAX(g) AS hi"
#: Two years of times.
_YEARS = 2 * 366 * 86_400

TIMES = {
    "hours become days": (
        f"SELECT DATE_TRUNC('hour', ts) AS q, {_ALL} FROM bid GROUP BY DATE_TRUNC('hour', ts)",
        f"SELECT DATE_TRUNC('day', ts) AS q, {_ALL} FROM bid GROUP BY DATE_TRUNC('day', ts)",
    ),
    "hours become weeks": (
        f"SELECT DATE_TRUNC('hour', ts) AS q, k, {_ALL} FROM bid GROUP BY DATE_TRUNC('hour', ts), k",
        f"SELECT DATE_TRUNC('week', ts) AS q, {_ALL} FROM bid GROUP BY DATE_TRUNC('week', ts)",
    ),
    "minutes become hours, in other words": (
        f"SELECT FLOOR(ts TO MINUTE) AS q, {_ALL} FROM bid GROUP BY FLOOR(ts TO MINUTE)",
        f"SELECT FLOOR(ts TO HOUR) AS q, {_ALL} FROM bid GROUP BY FLOOR(ts TO HOUR)",
    ),
    "days become months": (
        f"SELECT CAST(ts AS DATE) AS q, {_ALL} FROM bid GROUP BY CAST(ts AS DATE)",
        f"SELECT DATE_TRUNC('month', ts) AS q, {_ALL} FROM bid GROUP BY DATE_TRUNC('month', ts)",
    ),
    "hours become dates": (
        f"SELECT DATE_TRUNC('hour', ts) AS q, {_ALL} FROM bid GROUP BY DATE_TRUNC('hour', ts)",
        f"SELECT CAST(ts AS DATE) AS q, {_ALL} FROM bid WHERE EXTRACT(HOUR FROM ts) < 2 GROUP BY CAST(ts AS DATE)",
    ),
    "days as text": (
        f"SELECT DATE_TRUNC('day', ts) AS q, {_ALL} FROM bid GROUP BY DATE_TRUNC('day', ts)",
        f"SELECT DATE_FORMAT(ts, 'yyyy-MM') AS q, {_ALL} FROM bid GROUP BY DATE_FORMAT(ts, 'yyyy-MM')",
    ),
    "a day of the week, a quarter and a year": (
        f"SELECT CAST(DATE_TRUNC('hour', ts) AS DATE) AS q, {_ALL} FROM bid GROUP BY CAST(DATE_TRUNC('hour', ts) AS DATE)",
        f"SELECT DAYOFWEEK(ts) AS d, QUARTER(ts) AS q, EXTRACT(YEAR FROM ts) AS y, {_ALL} FROM bid "
        "GROUP BY DAYOFWEEK(ts), QUARTER(ts), EXTRACT(YEAR FROM ts)",
    ),
}


@FORMATS
@pytest.mark.parametrize("name", TIMES)
@pytest.mark.sampled(2)
def test_coarser_times_follow_from_finer_ones(name: str, format_: str) -> None:
    old, new = (planned(query, format_) for query in TIMES[name])
    for seed in seeds(1):
        [edit] = assert_derived(old, new, drawn(seed, format_, spread_s=_YEARS))
        assert edit.verdict is Verdict.ADAPT
        assert edit.derivation is not None


#: From which groups, which groups: over append-only rows, and over rows that come and go.
KEYS = {
    "counts with FILTER": (
        "SELECT k, g, COUNT(*) AS n FROM bid GROUP BY k, g",
        "SELECT k, COUNT(*) FILTER (WHERE g = 'a') AS a, COUNT(*) FILTER (WHERE g <> 'a' AND k > 1) AS b, COUNT(g) AS c "
        "FROM bid GROUP BY k",
    ),
    "extremes": (
        "SELECT k, g, COUNT(*) AS n FROM bid GROUP BY k, g",
        "SELECT k, MAX(g) AS hi, MIN(UPPER(g)) AS lo FROM bid WHERE k IS NOT NULL GROUP BY k",
    ),
    "sums": (
        "SELECT k, v, d, COUNT(*) AS n FROM bid GROUP BY k, v, d",
        "SELECT k % 2 AS q, SUM(v) AS s, AVG(v + 1) AS a, SUM(d) FILTER (WHERE v > 0) AS d, COUNT(v) AS c FROM bid "
        "GROUP BY k % 2",
    ),
    "all of them": (
        "SELECT k, v, COUNT(*) AS n FROM bid GROUP BY k, v",
        "SELECT COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi, COUNT(*) FILTER (WHERE k = 1) AS f FROM bid",
    ),
    "the same groups": (
        "SELECT k, v, COUNT(*) AS n FROM bid GROUP BY k, v",
        "SELECT k, v, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi, COUNT(k) AS c FROM bid GROUP BY k, v",
    ),
    "a list": (
        "SELECT k, g, COUNT(*) AS n FROM bid GROUP BY k, g",
        "SELECT k, ARRAY_AGG(g) AS l FROM bid GROUP BY k",
    ),
    "a median": (
        "SELECT k, v, COUNT(*) AS n FROM bid GROUP BY k, v",
        "SELECT k, MEDIAN(v) AS m, MEDIAN(v) FILTER (WHERE v > 0) AS f FROM bid GROUP BY k",
    ),
}


@pytest.mark.sampled(2)
@FORMATS
@pytest.mark.parametrize("name", KEYS)
def test_what_is_known_of_keys(name: str, format_: str) -> None:
    old, new = (planned(query, format_) for query in KEYS[name])
    for seed in seeds(1):
        [edit] = assert_derived(old, new, drawn(seed, format_))
        assert edit.verdict is Verdict.ADAPT


def test_extremes_of_keys_need_no_count() -> None:
    old = planned("SELECT k, g FROM bid GROUP BY k, g")
    new = planned("SELECT k, MAX(g) AS hi FROM bid GROUP BY k")
    [edit] = assert_derived(old, new, drawn(0, APPEND))
    assert edit.verdict is Verdict.ADAPT
    [edit] = needed(old, planned("SELECT k, COUNT(g) AS c, MAX(g) AS hi FROM bid GROUP BY k"))
    assert [f.meaning for f in edit.missing] == ["count of g"]


@pytest.mark.parametrize(
    "wanted",
    [
        "MAX(x)",  # -0.0 and 0.0 are one key
        "SUM(w)",
        "COUNT(*) FILTER (WHERE w > 0)",
        "MIN(CAST(x AS STRING))",
    ],
)
def test_what_keys_do_not_say(wanted: str) -> None:
    old = planned("SELECT k, g, x, COUNT(*) AS n FROM bid GROUP BY k, g, x")
    [edit] = needed(old, planned(f"SELECT k, COUNT(*) AS n, {wanted} AS y FROM bid GROUP BY k"))
    assert edit.verdict is Verdict.BACKFILL


@FORMATS
def test_counts_from_moments(format_: str) -> None:
    old = planned(
        "SELECT k, g, COUNT(*) AS n, STDDEV(v) AS s, STDDEV(v) FILTER (WHERE w > 0) AS f FROM bid GROUP BY k, g",
        format_,
    )
    new = planned(
        "SELECT k, COUNT(*) AS n, COUNT(v) AS c, COUNT(v) FILTER (WHERE w > 0) AS f FROM bid GROUP BY k",
        format_,
    )
    for seed in seeds(1):
        [edit] = assert_derived(old, new, drawn(seed, format_))
        assert edit.verdict is Verdict.ADAPT


DISTINCT = {
    "of a key": (
        "SELECT k, g, COUNT(*) AS n FROM bid GROUP BY k, g",
        "SELECT k, COUNT(*) AS n, COUNT(DISTINCT g) AS d FROM bid GROUP BY k",
    ),
    "of a function of a key, with FILTER": (
        "SELECT k, g, v, COUNT(*) AS n FROM bid GROUP BY k, g, v",
        "SELECT k % 2 AS q, COUNT(*) AS n, COUNT(DISTINCT UPPER(g)) AS d, "
        "SUM(DISTINCT v) FILTER (WHERE v > 0 OR k = 1) AS s, COUNT(DISTINCT v) AS c FROM bid "
        "WHERE g IS NOT NULL GROUP BY k % 2",
    ),
    "of a key beside distinct values of another column, which have no NULLs": (
        "SELECT k, g, COUNT(*) AS n, COUNT(DISTINCT v) AS c FROM bid GROUP BY k, g",
        "SELECT k, COUNT(*) AS n, COUNT(DISTINCT g) AS d FROM bid GROUP BY k",
    ),
    "of a key where no count is kept": (
        "SELECT k, g, COUNT(DISTINCT v) AS c FROM bid GROUP BY k, g",
        "SELECT k, COUNT(DISTINCT g) AS d, COUNT(DISTINCT v) AS c FROM bid GROUP BY k",
    ),
    "of all": (
        "SELECT g, COUNT(*) AS n FROM bid GROUP BY g",
        "SELECT COUNT(*) AS n, COUNT(DISTINCT g) AS d FROM bid",
    ),
    "of the key that stays": (
        "SELECT k, g, COUNT(*) AS n FROM bid GROUP BY k, g",
        "SELECT k, g, COUNT(*) AS n, COUNT(DISTINCT g) AS d FROM bid GROUP BY k, g",
    ),
    "a FILTER on the value": (
        "SELECT k, COUNT(*) AS n, COUNT(DISTINCT v) AS d FROM bid GROUP BY k",
        "SELECT k, COUNT(*) AS n, COUNT(DISTINCT v) FILTER (WHERE v > 0) AS d FROM bid GROUP BY k",
    ),
    "a FILTER on the value and the key beside all": (
        "SELECT k, g, COUNT(*) AS n, COUNT(DISTINCT v) AS d FROM bid GROUP BY k, g",
        "SELECT k, COUNT(*) AS n, COUNT(DISTINCT v) AS d, COUNT(DISTINCT v) FILTER (WHERE v <> 2 AND g = 'a') AS f FROM bid "
        "GROUP BY k",
    ),
}


#: Aggregates that need their values one by one, where rows go, and what has the same values.
VALUES = {
    "a CASE becomes a FILTER": ("MAX(CASE WHEN w > 0 THEN v END)", "MAX(v) FILTER (WHERE w > 0)"),
    "a FILTER becomes a CASE": (
        "MIN(v) FILTER (WHERE w > 0), MAX(v) FILTER (WHERE w > 0)",
        "MIN(CASE WHEN w > 0 THEN v END)",
    ),
    "a function in other words": ("MIN(v % 2), MEDIAN(v % 2)", "MAX(MOD(v, 2)), MEDIAN(MOD(v, 2))"),
    "a FILTER on a function in other words": (
        "MAX(ABS(v % 2)) FILTER (WHERE w > 0)",
        "MAX(CASE WHEN w > 0 THEN ABS(MOD(v, 2)) END)",
    ),
    "NULLs among them": ("COUNT(*), MEDIAN(v)", "ARRAY_AGG(v), MEDIAN(v)"),
    "NULLs among text": ("COUNT(*), STRING_AGG(g, ',' ORDER BY g)", "ARRAY_AGG(g)"),
    "without NULLs": ("ARRAY_AGG(v)", "MEDIAN(v), COLLECT(v)"),
}


@pytest.mark.parametrize("keys", ["k", "k % 2", ""])
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.sampled(3)
def test_values_one_by_one_in_other_words(name: str, keys: str) -> None:
    was, now = VALUES[name]
    by = f" GROUP BY {keys}" if keys else ""
    old = planned(f"SELECT k, {was} FROM bid GROUP BY k" if keys else f"SELECT {was} FROM bid", CHANGES)
    new = planned(f"SELECT {keys and f'{keys} AS q, '}{now} FROM bid{by}", CHANGES)
    for seed in seeds(1):
        for edit in assert_derived(old, new, drawn(seed, CHANGES)):
            assert edit.verdict is not Verdict.BACKFILL


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("MAX(v) FILTER (WHERE w > 0)", "MAX(CASE WHEN w > 1 THEN v END)"),
        ("MAX(v) FILTER (WHERE w > 0)", "MAX(v)"),
        ("MAX(v)", "MAX(v) FILTER (WHERE w > 0)"),
        ("MAX(CASE WHEN w > 0 THEN v ELSE 0 END)", "MAX(v) FILTER (WHERE w > 0)"),
        ("MEDIAN(v) FILTER (WHERE w > 0), COUNT(*)", "ARRAY_AGG(v) FILTER (WHERE w > 0)"),
        ("MEDIAN(v) FILTER (WHERE w > 0), COUNT(*)", "ARRAY_AGG(v)"),
        ("MAX(x)", "MAX(x + 0)"),
    ],
)
def test_values_one_by_one_that_are_others(was: str, now: str) -> None:
    old, new = (planned(f"SELECT k, {c} FROM bid GROUP BY k", CHANGES) for c in (was, now))
    assert Verdict.BACKFILL in [edit.verdict for edit in needed(old, new)]


@FORMATS
@pytest.mark.parametrize("name", DISTINCT)
@pytest.mark.sampled(4)
def test_distinct_values_that_are_known(name: str, format_: str) -> None:
    old, new = (planned(query, format_) for query in DISTINCT[name])
    for seed in seeds(1):
        for edit in assert_derived(old, new, drawn(seed, format_)):
            assert edit.verdict is not Verdict.BACKFILL


@FORMATS
@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("COUNT(DISTINCT v)", "COUNT(DISTINCT v) FILTER (WHERE w > 0)"),
        ("COUNT(DISTINCT v) FILTER (WHERE v > 0)", "COUNT(DISTINCT v) FILTER (WHERE v > 1)"),
        ("COUNT(DISTINCT v) FILTER (WHERE v > 0)", "COUNT(DISTINCT v)"),
        ("COUNT(DISTINCT v)", "COUNT(DISTINCT v + 1) FILTER (WHERE w = 1)"),
        ("COUNT(DISTINCT x)", "COUNT(DISTINCT x) FILTER (WHERE CAST(x AS STRING) <> '0.0')"),
    ],
)
def test_distinct_values_that_are_not_known(was: str, now: str, format_: str) -> None:
    old, new = (
        planned(f"SELECT k, COUNT(*) AS n, {c} AS d FROM bid GROUP BY k", format_) for c in (was, now)
    )
    assert Verdict.BACKFILL in [edit.verdict for edit in needed(old, new)]


_WHERE = "v > 0 AND w IS NOT NULL"
FILTERED = {
    "one condition": (
        "SELECT k, COUNT(*) FILTER (WHERE v > 0) AS n, SUM(w) FILTER (WHERE v > 0) AS s FROM bid GROUP BY k",
        "SELECT k, COUNT(*) AS n, SUM(w) AS s FROM bid WHERE v > 0 GROUP BY k",
    ),
    "two, with others beside, by fewer keys": (
        f"SELECT k, g, COUNT(*) AS m, COUNT(*) FILTER (WHERE {_WHERE}) AS n, AVG(v) FILTER (WHERE {_WHERE}) AS a, "
        f"SUM(d) FILTER (WHERE {_WHERE} AND d > 1) AS s FROM bid WHERE k <> 2 GROUP BY k, g",
        f"SELECT k, COUNT(*) AS n, AVG(v) AS a, SUM(d) FILTER (WHERE d > 1) AS s FROM bid "
        f"WHERE {_WHERE} AND k <> 2 GROUP BY k",
    ),
    "without keys": (
        "SELECT SUM(v) FILTER (WHERE v > 2) AS s, COUNT(*) FILTER (WHERE v > 2) AS n FROM bid",
        "SELECT SUM(v) AS s, COUNT(*) AS n FROM bid WHERE v > 2",
    ),
    "distinct values": (
        "SELECT k, g, COUNT(*) FILTER (WHERE w > 0) AS n, COUNT(DISTINCT v) FILTER (WHERE w > 0) AS d, "
        "COUNT(DISTINCT v) AS e FROM bid GROUP BY k, g",
        "SELECT k, g, COUNT(*) AS n, COUNT(DISTINCT v) AS d FROM bid WHERE w > 0 GROUP BY k, g",
    ),
}


@pytest.mark.sampled(2)
@FORMATS
@pytest.mark.parametrize("name", FILTERED)
def test_filters_of_all_aggregates_become_a_condition(name: str, format_: str) -> None:
    old, new = (planned(query, format_) for query in FILTERED[name])
    for seed in seeds(1):
        for edit in assert_derived(old, new, drawn(seed, format_)):
            assert edit.verdict is Verdict.ADAPT


@FORMATS
@pytest.mark.parametrize(
    ("was", "now"),
    [
        # Which groups have a row?
        ("COUNT(w) FILTER (WHERE v > 0) AS n", "COUNT(w) AS n FROM bid WHERE v > 0"),
        ("COUNT(*) FILTER (WHERE v > 0) AS n", "COUNT(*) AS n FROM bid WHERE v > 1"),
        ("COUNT(*) FILTER (WHERE v > 0 AND w > 0) AS n", "COUNT(*) AS n FROM bid WHERE v > 0"),
        ("COUNT(*) FILTER (WHERE v > 0 OR w > 0) AS n", "COUNT(*) AS n FROM bid WHERE v > 0 AND w > 0"),
    ],
)
def test_other_filters_say_nothing(was: str, now: str, format_: str) -> None:
    old = planned(f"SELECT k, {was} FROM bid GROUP BY k", format_)
    [edit] = needed(old, planned(f"SELECT k, {now} GROUP BY k", format_))
    assert edit.verdict is Verdict.BACKFILL
    assert edit.derivation is None


_ROWS = "SUM(w) OVER (PARTITION BY k ORDER BY v) AS s FROM bid"
OF_ROWS = {
    "of OVER": (
        f"SELECT k, g, v, w, d, ts, {_ROWS}",
        "SELECT k % 2 AS q, COUNT(*) AS n, SUM(v) AS s, MAX(g) AS hi, AVG(d) AS a, MEDIAN(v) AS m FROM bid GROUP BY k % 2",
    ),
    "of OVER, fewer of them": (
        f"SELECT k, g, v, w, ts, {_ROWS} WHERE v > 0",
        "SELECT k, g, COUNT(*) FILTER (WHERE w > 0) AS n, SUM(v) AS s FROM bid WHERE v > 1 AND k IS NOT NULL GROUP BY k, g",
    ),
    "of OVER, all": (f"SELECT k, v, w, {_ROWS}", "SELECT COUNT(*) AS n, SUM(v) AS s FROM bid"),
    "of a side of a join": (
        "SELECT a.k, a.v, a.g, b.w FROM bid AS a LEFT JOIN bid AS b ON a.k = b.k AND b.v > 2",
        "SELECT g, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo FROM bid GROUP BY g",
    ),
    "of a side that is filtered": (
        "SELECT a.k, a.v, a.g, b.w FROM (SELECT * FROM bid WHERE v > 0) AS a FULL JOIN bid AS b ON a.k = b.k",
        "SELECT k, COUNT(*) AS n FROM bid WHERE v > 0 AND g <> 'b' GROUP BY k",
    ),
}


@pytest.mark.sampled(2)
@FORMATS
@pytest.mark.parametrize("name", OF_ROWS)
def test_groups_of_rows_that_are_kept(name: str, format_: str) -> None:
    old, new = (planned(query, format_) for query in OF_ROWS[name])
    for seed in seeds(1):
        [edit] = assert_derived(old, new, drawn(seed, format_))
        assert edit.verdict is Verdict.ADAPT


@FORMATS
@pytest.mark.parametrize(
    ("was", "now"),
    [
        # Rows without a key are not there.
        (
            "SELECT a.k, a.g, b.w FROM bid AS a JOIN bid AS b ON a.k = b.k",
            "SELECT g, COUNT(*) AS n FROM bid GROUP BY g",
        ),
        (f"SELECT k, v, w, {_ROWS} WHERE v > 1", "SELECT k, COUNT(*) AS n FROM bid GROUP BY k"),
        (f"SELECT k, v, w, {_ROWS}", "SELECT k, MAX(g) AS m FROM bid GROUP BY k"),
        (f"SELECT k, x, w, {_ROWS}", "SELECT x, COUNT(*) AS n FROM bid GROUP BY x"),
    ],
)
def test_groups_of_rows_that_are_not_kept(was: str, now: str, format_: str) -> None:
    [edit] = needed(planned(was, format_), planned(now, format_))
    assert edit.verdict is Verdict.BACKFILL
