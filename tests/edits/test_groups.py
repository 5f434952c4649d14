"""Groups of groups: keys that are dropped, or functions of old keys, and filters on keys (matrix rows 12, 14, 19)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_planner.edits.verdict import Verdict
from tests.edits.derived import APPEND, CHANGES, PHASES, assert_derived, data, needed, planned
from tests.examples import examples

FORMATS = pytest.mark.parametrize("format_", [APPEND, CHANGES])
_ALL = "COUNT(*) AS n, COUNT(v) AS c, SUM(v) AS s, SUM(d) AS sd, AVG(w) AS a, MIN(v) AS lo, MAX(g) AS hi"

ROLLED_UP = {
    "a key dropped": (f"SELECT k, g, {_ALL} FROM bid GROUP BY k, g", f"SELECT k, {_ALL} FROM bid GROUP BY k"),
    "all keys dropped": (f"SELECT k, g, {_ALL} FROM bid GROUP BY k, g", f"SELECT {_ALL} FROM bid"),
    "a function of a key": (
        f"SELECT g, {_ALL} FROM bid GROUP BY g",
        f"SELECT UPPER(g) AS u, {_ALL} FROM bid GROUP BY UPPER(g)",
    ),
    "a function of two keys": (
        f"SELECT k, g, {_ALL} FROM bid GROUP BY k, g",
        f"SELECT q, {_ALL} FROM (SELECT *, CONCAT(g, CAST(k % 2 AS STRING)) AS q FROM bid) GROUP BY q",
    ),
    "a function of a computed key": (
        f"SELECT v + 1 AS q, {_ALL} FROM bid GROUP BY v + 1",
        f"SELECT ABS(v + 1) % 2 AS q, {_ALL} FROM bid GROUP BY ABS(v + 1) % 2",
    ),
    "a day becomes an hour's opposite": (
        f"SELECT DATE_TRUNC('minute', ts) AS q, {_ALL} FROM bid GROUP BY DATE_TRUNC('minute', ts)",
        f"SELECT EXTRACT(HOUR FROM DATE_TRUNC('minute', ts)) AS q, {_ALL} FROM bid "
        "GROUP BY EXTRACT(HOUR FROM DATE_TRUNC('minute', ts))",
    ),
    "a filter on a key": (
        f"SELECT k, g, {_ALL} FROM bid GROUP BY k, g",
        f"SELECT k, g, {_ALL} FROM bid WHERE k > 1 OR g = 'a' GROUP BY k, g",
    ),
    "a filter on a key that is dropped": (
        f"SELECT k, g, {_ALL} FROM bid GROUP BY k, g",
        f"SELECT k, {_ALL} FROM bid WHERE LOWER(g) = 'a' GROUP BY k",
    ),
    "a narrower filter": (
        f"SELECT k, {_ALL} FROM bid WHERE k >= 1 AND v > 0 GROUP BY k",
        f"SELECT k, {_ALL} FROM bid WHERE k > 1 AND v > 0 GROUP BY k",
    ),
    "a function of a FLOAT key": (
        f"SELECT x, {_ALL} FROM bid GROUP BY x",
        f"SELECT FLOOR(x * 2 + 1) AS q, {_ALL} FROM bid GROUP BY FLOOR(x * 2 + 1)",
    ),
    "a FLOAT key as a whole number": (
        f"SELECT x, g, {_ALL} FROM bid GROUP BY x, g",
        f"SELECT CAST(x AS INT) AS q, {_ALL} FROM bid GROUP BY CAST(x AS INT)",
    ),
    "a filter on a FLOAT key": (
        f"SELECT x, g, {_ALL} FROM bid GROUP BY x, g",
        f"SELECT x, {_ALL} FROM bid WHERE x >= 0 OR x IS NULL GROUP BY x",
    ),
    "a FLOAT key with the other sign": (
        f"SELECT x, {_ALL} FROM bid GROUP BY x",
        f"SELECT -x AS q, {_ALL} FROM bid GROUP BY -x",
    ),
    "a grouping set less": (
        f"SELECT k, g, {_ALL} FROM bid GROUP BY GROUPING SETS ((k, g), (k), ())",
        f"SELECT k, g, {_ALL} FROM bid GROUP BY GROUPING SETS ((k, g), ())",
    ),
    "one grouping set left": (
        f"SELECT k, g, {_ALL} FROM bid GROUP BY GROUPING SETS ((k, g), (k))",
        f"SELECT k, {_ALL} FROM bid GROUP BY k",
    ),
    "one grouping set becomes several": (
        f"SELECT k, g, {_ALL} FROM bid GROUP BY k, g",
        f"SELECT k, g, {_ALL} FROM bid GROUP BY CUBE (k, g)",
    ),
    "a grouping set more": (
        f"SELECT k, g, v, {_ALL} FROM bid GROUP BY GROUPING SETS ((g, k), (v))",
        f"SELECT g, k, v, {_ALL} FROM bid WHERE TRUE GROUP BY GROUPING SETS ((v), (g, k), (g), ())",
    ),
    "grouping sets by functions of keys": (
        f"SELECT k, g, {_ALL} FROM bid GROUP BY ROLLUP (k, g)",
        f"SELECT k % 2 AS q, UPPER(g) AS u, {_ALL} FROM bid GROUP BY ROLLUP (k % 2, UPPER(g))",
    ),
    "distinct rows": ("SELECT DISTINCT k, g, v FROM bid", "SELECT DISTINCT k, v % 2 AS q FROM bid"),
}


@FORMATS
@pytest.mark.parametrize("name", ROLLED_UP)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(st.data())
@pytest.mark.sampled(8, each_value=False)
def test_new_groups_are_made_of_old_ones(name: str, format_: str, draw: st.DataObject) -> None:
    old, new = (planned(query, format_) for query in ROLLED_UP[name])
    [edit] = assert_derived(old, new, draw.draw(data(format_)))
    assert edit.verdict is Verdict.ADAPT
    assert edit.derivation is not None
    assert edit.reason


NOT_DERIVABLE = {
    "a key added": (
        "SELECT k, COUNT(*) AS n FROM bid GROUP BY k",
        "SELECT k, g, COUNT(*) AS n FROM bid GROUP BY k, g",
    ),
    "another key": (
        "SELECT k, COUNT(*) AS n FROM bid GROUP BY k",
        "SELECT g, COUNT(*) AS n FROM bid GROUP BY g",
    ),
    "a function is no inverse": (
        "SELECT k % 2 AS q, COUNT(*) AS n FROM bid GROUP BY k % 2",
        "SELECT k % 4 AS q, COUNT(*) AS n FROM bid GROUP BY k % 4",
    ),
    "a function of the wrong key": (
        "SELECT UPPER(g) AS q, COUNT(*) AS n FROM bid GROUP BY UPPER(g)",
        "SELECT LOWER(g) AS q, COUNT(*) AS n FROM bid GROUP BY LOWER(g)",
    ),
    "-0.0 and 0.0 are one group": (
        "SELECT x, COUNT(*) AS n FROM bid GROUP BY x",
        "SELECT CAST(x AS STRING) AS q, COUNT(*) AS n FROM bid GROUP BY CAST(x AS STRING)",
    ),
    "days don't say hours": (
        "SELECT DATE_TRUNC('day', ts) AS q, COUNT(*) AS n FROM bid GROUP BY DATE_TRUNC('day', ts)",
        "SELECT DATE_TRUNC('hour', ts) AS q, COUNT(*) AS n FROM bid GROUP BY DATE_TRUNC('hour', ts)",
    ),
    "months don't say weeks": (
        "SELECT DATE_TRUNC('month', ts) AS q, COUNT(*) AS n FROM bid GROUP BY DATE_TRUNC('month', ts)",
        "SELECT DATE_TRUNC('week', ts) AS q, COUNT(*) AS n FROM bid GROUP BY DATE_TRUNC('week', ts)",
    ),
    "weeks don't say months": (
        "SELECT DATE_TRUNC('week', ts) AS q, COUNT(*) AS n FROM bid GROUP BY DATE_TRUNC('week', ts)",
        "SELECT DATE_TRUNC('month', ts) AS q, COUNT(*) AS n FROM bid GROUP BY DATE_TRUNC('month', ts)",
    ),
    "hours don't say seconds": (
        "SELECT DATE_TRUNC('hour', ts) AS q, COUNT(*) AS n FROM bid GROUP BY DATE_TRUNC('hour', ts)",
        "SELECT EXTRACT(SECOND FROM ts) AS q, COUNT(*) AS n FROM bid GROUP BY EXTRACT(SECOND FROM ts)",
    ),
    "hours don't say minutes as text": (
        "SELECT DATE_TRUNC('hour', ts) AS q, COUNT(*) AS n FROM bid GROUP BY DATE_TRUNC('hour', ts)",
        "SELECT DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm') AS q, COUNT(*) AS n FROM bid "
        "GROUP BY DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm')",
    ),
    "hours of another time": (
        "SELECT DATE_TRUNC('hour', ts + INTERVAL '7' MINUTE) AS q, COUNT(*) AS n FROM bid "
        "GROUP BY DATE_TRUNC('hour', ts + INTERVAL '7' MINUTE)",
        "SELECT DATE_TRUNC('day', ts) AS q, COUNT(*) AS n FROM bid GROUP BY DATE_TRUNC('day', ts)",
    ),
    "a filter on another column": (
        "SELECT k, COUNT(*) AS n FROM bid GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM bid WHERE v > 1 GROUP BY k",
    ),
    "a filter on a key and another column": (
        "SELECT k, COUNT(*) AS n FROM bid GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM bid WHERE k > 1 OR v > 1 GROUP BY k",
    ),
    "a filter removed": (
        "SELECT k, COUNT(*) AS n FROM bid WHERE k > 1 GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM bid GROUP BY k",
    ),
    "a wider filter": (
        "SELECT k, COUNT(*) AS n FROM bid WHERE k > 1 GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM bid WHERE k >= 1 GROUP BY k",
    ),
    "a filter on text that reads like a narrower one of numbers": (
        "SELECT g, COUNT(*) AS n FROM bid WHERE g < '30' GROUP BY g",
        "SELECT g, COUNT(*) AS n FROM bid WHERE g < '5' GROUP BY g",
    ),
    "a filter of the other direction": (
        "SELECT k, COUNT(*) AS n FROM bid WHERE k > 1 GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM bid WHERE k < 0 GROUP BY k",
    ),
    "another filter on a key": (
        "SELECT k, COUNT(*) AS n FROM bid WHERE g = 'a' GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM bid WHERE g = 'b' GROUP BY k",
    ),
    "a filter on a key that had another one": (
        "SELECT g, COUNT(*) AS n FROM bid WHERE k > 1 GROUP BY g",
        "SELECT g, COUNT(*) AS n FROM bid WHERE k > 2 GROUP BY g",
    ),
    "a grouping set that no other has": (
        "SELECT k, g, COUNT(*) AS n FROM bid GROUP BY GROUPING SETS ((k), (g))",
        "SELECT k, g, COUNT(*) AS n FROM bid GROUP BY GROUPING SETS ((k, g), (k))",
    ),
    "a grouping set without the key of the filter": (
        "SELECT k, g, COUNT(*) AS n FROM bid GROUP BY GROUPING SETS ((k), (g))",
        "SELECT k, g, COUNT(*) AS n FROM bid WHERE k > 1 GROUP BY GROUPING SETS ((k), (g))",
    ),
    "-0.0 divides": (
        "SELECT x, COUNT(*) AS n FROM bid GROUP BY x",
        "SELECT 1 / x AS q, COUNT(*) AS n FROM bid GROUP BY 1 / x",
    ),
    "-0.0 as text in a filter": (
        "SELECT x, COUNT(*) AS n FROM bid GROUP BY x",
        "SELECT x, COUNT(*) AS n FROM bid WHERE CAST(x AS STRING) <> '0.0' GROUP BY x",
    ),
    "elements of an array": (
        "SELECT k, COUNT(*) AS n FROM bid GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM bid CROSS JOIN UNNEST(ARRAY[1, 2]) AS u(e) GROUP BY k",
    ),
    "rows and groups of them": (
        "SELECT k, COUNT(*) AS n FROM (SELECT k, g, COUNT(*) AS m FROM bid GROUP BY k, g HAVING COUNT(*) > 1) GROUP BY k",
        "SELECT g, COUNT(*) AS n FROM (SELECT k, g, COUNT(*) AS m FROM bid GROUP BY k, g HAVING COUNT(*) > 2) GROUP BY g",
    ),
}


@FORMATS
@pytest.mark.parametrize("name", NOT_DERIVABLE)
def test_what_looks_alike_is_computed_anew(name: str, format_: str) -> None:
    old, new = (planned(query, format_) for query in NOT_DERIVABLE[name])
    last = needed(old, new)[-1]
    assert last.verdict is Verdict.BACKFILL
    assert last.derivation is None
    assert last.old is None


_DISTINCT = (
    "COUNT(*) AS n, COUNT(DISTINCT v) AS c, SUM(DISTINCT v) AS s, COUNT(DISTINCT d) AS cd, AVG(DISTINCT w) AS a, "
    "COUNT(DISTINCT v) FILTER (WHERE w > 0) AS f"
)
DISTINCT = {
    "a key dropped": ("k, g", "k"),
    "all keys dropped": ("k, g", ""),
    "a function of a key": ("g", "UPPER(g)"),
    "a filter, and a function": ("k, g", "k % 2"),
    "the value is a key": ("k, v", "k"),
}


@pytest.mark.sampled(2)
@FORMATS
@pytest.mark.parametrize("name", DISTINCT)
@settings(max_examples=examples(1), deadline=None, phases=PHASES)
@given(st.data())
def test_distinct_values_of_several_groups_are_counted_once(
    name: str, format_: str, draw: st.DataObject
) -> None:
    was, now = DISTINCT[name]
    where = "WHERE g = 'a' OR k > 1" if name.startswith("a filter") else ""
    old = planned(f"SELECT {was}, {_DISTINCT} FROM bid GROUP BY {was}", format_)
    by = f" GROUP BY {now}" if now else ""
    new = planned(f"SELECT {_DISTINCT} FROM bid {where}{by}", format_)
    for edit in assert_derived(old, new, draw.draw(data(format_))):
        assert edit.verdict is Verdict.ADAPT


@FORMATS
def test_distinct_values_dont_add_up(format_: str) -> None:
    """They follow from the values, and from no counts of them: these are of other rows."""
    old = planned("SELECT k, g, COUNT(*) AS m, COUNT(DISTINCT v) AS n FROM bid GROUP BY k, g", format_)
    new = planned(
        "SELECT k, COUNT(*) AS m, COUNT(DISTINCT v) FILTER (WHERE w > 0) AS n FROM bid GROUP BY k", format_
    )
    groups = needed(old, new)[-1]
    assert groups.verdict is Verdict.BACKFILL
    assert groups.derivation is not None
    assert [f.meaning[:8] for f in groups.missing] == ["count of"]
    assert "distinct" in groups.missing[0].name


def test_an_edit_says_why_and_where() -> None:
    old = planned("SELECT k, g, v, COUNT(*) AS n, SUM(w) AS s FROM bid GROUP BY k, g, v")
    new = planned("SELECT k, g, COUNT(*) AS n, SUM(w) AS s FROM bid GROUP BY k, g")
    [edit] = needed(old, new)
    assert edit.reason == "rolled up from 3 keys to 2"
    assert edit.at is not None
    assert edit.at.line == 2
    at = {f.meaning: f.at for f in edit.fields if f.part == "value" and f.verdict is Verdict.ADAPT}
    assert {meaning: span.column for meaning, span in at.items() if span} == {
        "count of rows": 106,
        "sum of w": 106,
    }
