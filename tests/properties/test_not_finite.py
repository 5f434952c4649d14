"""VARIANCE and STDDEV of values that are infinite, no number, or too large: one answer, however the input is cut."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import batch, collecting, plan

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
