"""What the planner claims of a query's rows (unique keys, constants, that rows stay) holds in what DuckDB gives for it."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream_planner.logical import Sink
from sqlstream_planner.properties.facts import Facts
from tests.examples import examples
from tests.properties.query_generator import queries, rows
from tests.properties.updating import batch, plan

_BOUNDED = settings(
    max_examples=examples(10),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
_WINDOWS = {
    "TUMBLE": "INTERVAL '10' SECOND",
    "HOP": "INTERVAL '5' SECOND, INTERVAL '10' SECOND",
    "CUMULATE": "INTERVAL '5' SECOND, INTERVAL '20' SECOND",
}
Rows = list[dict[str, Any]]


def key_claims(root: Sink) -> list[tuple[int, ...]]:
    """The sets of columns, by position, that are claimed to be unique in what a sink gets."""
    places = {f.id: place for place, f in enumerate(root.input.fields)}
    return [tuple(places[id_] for id_ in key) for key in Facts().keys(root.input)]


def assert_rows_stay(folder: Path, query: str, data: Rows) -> None:
    """Rows that are claimed to stay, of a query without windows, are there whatever comes after."""
    planned = plan(folder, query, data)
    [root] = planned.logical
    if not Facts().changes(root.input):
        whole = Counter(map(repr, batch(folder, planned, data)))
        for upto in (len(data) // 3, len(data) // 2, max(len(data) - 1, 0)):
            assert Counter(map(repr, batch(folder, planned, data[:upto]))) <= whole, upto


def assert_claims_hold(folder: Path, query: str, data: Rows) -> list[tuple[int, ...]]:
    """The keys and the constants of a query over these rows; which keys were claimed."""
    planned = plan(folder, query, data)
    [root] = planned.logical
    whole = batch(folder, planned, data)
    keys = key_claims(root)
    for key in keys:
        times = Counter(repr([row[place] for place in key]) for row in whole)
        assert not times or max(times.values()) == 1, (key, times)
    same = Facts().constants(root.input)
    for place, f in enumerate(root.input.fields):
        if f.id in same:
            assert len({repr(row[place]) for row in whole}) <= 1, f
    return keys


@given(query=queries(), data=rows())
@_BOUNDED
def test_claims_of_updating_queries_hold(query: str, data: Rows) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_claims_hold(Path(folder) / "claims", query, data)
        assert_rows_stay(Path(folder) / "stay", query, data)


def timed(data: Rows) -> Rows:
    """The rows with times in their order, several in most windows."""
    return [{**row, "ts": f"2024-01-01 00:00:{n:02d}"} for n, row in enumerate(data)]


@given(
    kind=st.sampled_from(sorted(_WINDOWS)),
    items=st.lists(
        st.sampled_from(["window_start", "window_end", "window_time", "k", "b", "k + 1", "1"]),
        min_size=1,
        max_size=5,
        unique=True,
    ),
    keys=st.sampled_from(["k, b", "k, b, s", "ROLLUP (k, b)", "GROUPING SETS ((k, b), (k, b, s))"]),
    data=rows(),
)
@_BOUNDED
def test_keys_of_windows_hold(kind: str, items: Sequence[str], keys: str, data: Rows) -> None:
    listed = ", ".join(f"{item} AS c{n}" for n, item in enumerate(items))
    query = (
        f"SELECT {listed}, COUNT(*) AS n FROM TABLE({kind}(TABLE t, DESCRIPTOR(ts), {_WINDOWS[kind]})) "
        f"GROUP BY window_start, window_end, window_time, {keys}"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        planned = plan(folder, query, timed(data))
        [root] = planned.logical
        assert not Facts().changes(root.input)
        whole = batch(folder, planned, timed(data))
        for key in key_claims(root):
            times = Counter(repr([row[place] for place in key]) for row in whole)
            assert not times or max(times.values()) == 1, (key, times)


TUMBLE = f"TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), {_WINDOWS['TUMBLE']}))"
HOP = f"TABLE(HOP(TABLE t, DESCRIPTOR(ts), {_WINDOWS['HOP']}))"
CUMULATE = f"TABLE(CUMULATE(TABLE t, DESCRIPTOR(ts), {_WINDOWS['CUMULATE']}))"
RANKED = "SELECT k, v, {f}() OVER (PARTITION BY k ORDER BY v) AS rn FROM t"
#: Queries and the best key that has to be found, by position: without it a table with this key would be refused.
KEYS = {
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k": (0,),
    "SELECT COUNT(*) AS n FROM t": (),
    "SELECT 1 AS c, COUNT(*) AS n FROM t": (),
    "SELECT COUNT(*) AS n, v, k FROM t GROUP BY k, v": (2, 1),
    "SELECT CAST(k AS BIGINT) AS k, COUNT(*) AS n FROM t GROUP BY k": (0,),
    "SELECT CAST(v AS INT) AS v, COUNT(*) AS n FROM t GROUP BY v": (0,),
    "SELECT TRY_CAST(s AS INT) AS s, COUNT(*) AS n FROM t GROUP BY s": None,
    "SELECT TRY_CAST(v AS INT) AS v, COUNT(*) AS n FROM t GROUP BY v": None,
    "SELECT CAST(d AS INT) AS d, COUNT(*) AS n FROM t GROUP BY d": None,
    "SELECT CAST(ts AS DATE) AS d, COUNT(*) AS n FROM t GROUP BY ts": None,
    "SELECT k + 1 AS k, COUNT(*) AS n FROM t GROUP BY k": None,
    "SELECT k, COUNT(*) AS m FROM (SELECT DISTINCT k, v FROM t) AS q GROUP BY k": (0,),
    "SELECT k, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS q GROUP BY k, n": (0,),
    "SELECT DISTINCT k, b FROM t": (0, 1),
    "SELECT k, n FROM (SELECT k, v, COUNT(*) AS n FROM t GROUP BY k, v) AS q": None,
    "SELECT k, COUNT(*) AS n FROM t GROUP BY ROLLUP (k)": None,
    f"SELECT k, v FROM ({RANKED.format(f='ROW_NUMBER')}) AS q WHERE rn = 1": (0,),
    f"SELECT k, v FROM ({RANKED.format(f='ROW_NUMBER')}) AS q WHERE rn <= 2": None,
    f"SELECT k, v, rn FROM ({RANKED.format(f='ROW_NUMBER')}) AS q WHERE rn <= 2": (0, 2),
    f"SELECT k, v, rn FROM ({RANKED.format(f='RANK')}) AS q WHERE rn <= 2": None,
    f"SELECT k, v FROM ({RANKED.format(f='RANK')}) AS q WHERE rn = 1": None,
    f"SELECT window_end, k, COUNT(*) AS n FROM {HOP} GROUP BY window_start, window_end, k": (1, 0),
    f"SELECT window_start, k, COUNT(*) AS n FROM {HOP} GROUP BY window_start, window_end, k": (1, 0),
    f"SELECT window_start, k, COUNT(*) AS n FROM {CUMULATE} GROUP BY window_start, window_end, k": None,
    f"SELECT window_time, k, COUNT(*) AS n FROM {CUMULATE} GROUP BY window_start, window_end, window_time, k": (
        1,
        0,
    ),
    f"SELECT k, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start, window_end, k": None,
    f"SELECT window_end, k, COUNT(*) AS n FROM {TUMBLE} GROUP BY window_start, window_end, ROLLUP (k)": None,
    "SELECT k FROM t UNION SELECT v FROM t": (0,),
    "SELECT k FROM t EXCEPT SELECT v FROM t": (0,),
    "SELECT k FROM t EXCEPT ALL SELECT v FROM t": None,
    "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS q WHERE n > 1": (0,),
    "SELECT k, e FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS q CROSS JOIN UNNEST(ARRAY[1, n]) AS u (e)": None,
    "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS q ORDER BY n DESC LIMIT 2": (0,),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("query", KEYS)
def test_the_key_that_there_is_is_found_and_no_other(query: str, tmp_path: Path) -> None:
    data = [
        {"k": k, "v": v, "s": s, "b": True, "d": f"{v or 0}.{len(s)}"}
        for k in (None, 0, 1)
        for v in (None, 1, 2, 2)
        for s in ("1", "01", "x", "y")
    ]
    keys = assert_claims_hold(tmp_path, query, timed(data)[:45])
    wanted = KEYS[query]
    if wanted is None:
        assert keys == []
    else:
        assert set(wanted) in [set(key) for key in keys]
    if "TABLE(" not in query:
        assert_rows_stay(tmp_path / "stay", query, data)
