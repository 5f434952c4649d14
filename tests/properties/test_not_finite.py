"""Values that are infinite, no number, -0.0, or too large: one answer, however the input is cut."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import batch, check, collecting, plan

#: Values, and by hand their number, the variance of the population, and that of different values.
CASES: dict[str, tuple[list[Any], int, float | None, float | None]] = {
    "an infinity": (["Infinity", 1.0, 2.0], 3, math.nan, math.nan),
    "an infinity alone": (["-Infinity"], 1, 0.0, 0.0),
    "infinities": (["Infinity", "Infinity", "-Infinity", "Infinity"], 4, math.nan, math.nan),
    "NaN": ([1.0, "NaN", 2.0, 3.0], 4, math.nan, math.nan),
    "NaN alone": (["NaN"], 1, 0.0, 0.0),
    "NaN and nothing": ([None, "NaN", None], 1, 0.0, 0.0),
    "nothing": ([None, None], 0, None, None),
    "large and equal": ([1e308, 1e308, 1e308, 1e308], 4, 0.0, 0.0),
    "large and apart": ([1e308, -1e308, 1e308, -1e308], 4, math.nan, math.nan),
    "squares too large": ([1e200, 0.0, 1.0, 1e200], 4, math.nan, math.nan),
    "plain": ([1.0, 2.0, 3.0, 6.0, 6.0], 5, 4.24, 3.5),
}
CALLS = "VAR_POP(x), VAR_SAMP(x), STDDEV_POP(x), STDDEV(x), SEM(x), VAR_POP(DISTINCT x)"
QUERIES = {
    "groups": f"SELECT COUNT(x) AS n, {CALLS} FROM t",
    "rows that change": f"SELECT COUNT(x) AS n, {CALLS} FROM "
    "(SELECT x, ROW_NUMBER() OVER (PARTITION BY v ORDER BY k DESC) AS rn FROM t) WHERE rn = 1",
    "windows": f"SELECT COUNT(x) AS n, {CALLS} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY)) "
    "GROUP BY window_start, window_end",
}


def _by_hand(count: int, variance: float | None, of_different: float | None, *, finite: bool) -> Rows:
    if variance is None:
        return [(count, None, None, None, None, None, None)]
    sample = variance * count / (count - 1) if count > 1 else None
    root = math.sqrt(variance)
    deviation = math.sqrt(sample) if sample is not None else None
    error = root / math.sqrt(count) if finite else math.nan
    return [(count, variance, sample, root, deviation, error, of_different)]


@pytest.mark.sampled(12, each_value=False)
@pytest.mark.parametrize("cut", [1, 2, 3, None])
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", CASES)
def test_the_answer_does_not_depend_on_the_cut(
    name: str, query: str, cut: int | None, tmp_path: Path
) -> None:
    values, count, variance, of_different = CASES[name]
    expected = _by_hand(count, variance, of_different, finite=not any(isinstance(v, str) for v in values))
    rows = [{"k": n, "v": n, "x": value, "ts": "2024-01-01 00:00:00"} for n, value in enumerate(values)]
    if query == "rows that change":
        rows += [{**row, "k": row["k"] + 100} for row in rows]
    planned = plan(tmp_path, QUERIES[query], rows, files=1 if cut else 2)
    assert_same(batch(tmp_path, planned, rows), expected)
    with collecting() as collected:
        run_here(planned, tmp_path, rows_per_epoch=cut)
        assert_same(collected.folded("out"), expected)


#: Queries over the DOUBLE `x`, which is a key, a value, or what rows are ordered by.
_LATEST = "(SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY v ORDER BY k DESC) AS rn FROM t) AS r WHERE rn = 1)"
OVER_DOUBLES = (
    "SELECT x, COUNT(*) AS n FROM {t} AS t GROUP BY x",
    "SELECT s, MIN(x) AS lo, MAX(x) AS hi, COUNT(DISTINCT x) AS n FROM {t} AS t GROUP BY s",
    "SELECT s, SUM(x) AS a, AVG(x) AS b, COUNT(x) AS n FROM {t} AS t GROUP BY s",
    "SELECT SUM(DISTINCT x) AS a, AVG(DISTINCT x) AS b, VAR_POP(x) AS c, STDDEV_SAMP(x) AS d FROM {t} AS t",
    "SELECT DISTINCT x, s FROM {t} AS t",
    "SELECT DISTINCT [x, 0.0] AS l FROM {t} AS t",
    "SELECT DISTINCT {{'a': x}} AS r FROM {t} AS t",
    "SELECT x FROM {t} AS t ORDER BY x LIMIT 3",
    "SELECT x FROM {t} AS t ORDER BY x DESC NULLS LAST LIMIT 2 OFFSET 1",
    "SELECT s, x, rn FROM (SELECT s, x, RANK() OVER (PARTITION BY s ORDER BY x DESC) AS rn FROM {t} AS t) WHERE rn <= 2",
    "SELECT x, n FROM (SELECT x, DENSE_RANK() OVER (ORDER BY x NULLS FIRST) AS n FROM {t} AS t) WHERE n <= 2",
    "SELECT x FROM {t} AS t UNION SELECT -x FROM {t} AS t",
    "SELECT x FROM {t} AS t WHERE s = 'a' INTERSECT SELECT x FROM {t} AS t WHERE s = 'b'",
    "SELECT x FROM {t} AS t EXCEPT ALL SELECT x FROM {t} AS t WHERE s = 'b'",
    "SELECT s, MEDIAN(x) AS m, MAX_BY(k, x) AS b, BOOL_OR(x > 1) AS o FROM {t} AS t GROUP BY s HAVING MAX(x) > 0",
    "SELECT s, x, SUM(v) AS n FROM {t} AS t GROUP BY GROUPING SETS ((s, x), (x), ())",
    "SELECT m, COUNT(*) AS n FROM (SELECT s, MAX(x) AS m FROM {t} AS t GROUP BY s) GROUP BY m",
    "SELECT SUM(m) AS n FROM (SELECT s, MIN(x) AS m FROM {t} AS t GROUP BY s) AS q",
    "SELECT s, ARRAY_AGG(x ORDER BY x, k) AS l, LISTAGG(DISTINCT CAST(x AS STRING)) AS d FROM {t} AS t GROUP BY s",
)


@settings(
    max_examples=examples(8),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    query=st.sampled_from(OVER_DOUBLES),
    changing=st.booleans(),
    values=st.lists(
        st.tuples(
            st.sampled_from([None, "NaN", "Infinity", "-Infinity", "-0.0", 0.0, 1.5, -1.5, 5e-324]),
            st.sampled_from(["a", "b", None]),
            st.integers(0, 5),
        ),
        max_size=14,
    ),
    rows_per_epoch=st.none() | st.integers(1, 6),
    parallelism=st.integers(1, 3),
    seed=st.integers(0, 3),
)
def test_doubles_of_every_kind_fold_to_the_batch(
    query: str,
    changing: bool,
    values: list[tuple[Any, str | None, int]],
    rows_per_epoch: int | None,
    parallelism: int,
    seed: int,
) -> None:
    rows = [
        {"k": n, "s": s, "v": v, "x": x, "ts": f"2024-01-01 00:00:{n:02d}"}
        for n, (x, s, v) in enumerate(values)
    ]
    text = query.format(t=_LATEST if changing else "t")
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder), text, rows, rows_per_epoch=rows_per_epoch, parallelism=parallelism, seed=seed)


def test_rows_that_differ_in_floats_alone_are_compared_in_any_order() -> None:
    assert_same([("a", 1.0), ("a", math.nan), ("a", 2.0)], [("a", 2.0), ("a", 1.0), ("a", math.nan)])
    with pytest.raises(AssertionError):
        assert_same([("a", 1.0), ("a", 1.0)], [("a", 1.0), ("a", 2.0)])
    with pytest.raises(AssertionError):
        assert_same([("a", math.nan)], [("a", math.inf)])
