"""Random rows, windows and aggregates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st

BASE = datetime(1969, 12, 31, 23, 59, 30)

#: Aggregates whose answer does not depend on the order of rows.
AGGREGATES = (
    "COUNT(*)",
    "COUNT(v)",
    "SUM(v)",
    "MIN(v)",
    "MAX(s)",
    "AVG(v)",
    "AVG(d)",
    "SUM(d)",
    "SUM(x)",
    "AVG(x)",
    "MIN(x)",
    "STDDEV_POP(x)",
    "STDDEV_SAMP(k)",
    "VAR_POP(v / 1000000)",
    "VAR_SAMP(d)",
    "BOOL_AND(b)",
    "BOOL_OR(b)",
    "BIT_AND(k)",
    "BIT_OR(k)",
    "BIT_XOR(k)",
    "MIN(ts)",
    "MAX(d)",
    "COUNT(DISTINCT s)",
    "COUNT(DISTINCT v)",
    "SUM(DISTINCT k)",
    "AVG(DISTINCT k)",
    "COUNT(DISTINCT s) FILTER (WHERE b)",
    "COUNT(DISTINCT s) FILTER (WHERE k > 1)",
    "COUNT(DISTINCT k, s)",
    "COUNT(*) FILTER (WHERE b)",
    "SUM(v) FILTER (WHERE s = 'a')",
    "MAX(k) FILTER (WHERE NOT b)",
    "MEDIAN(k)",
    "COUNT_IF(b)",
    "LISTAGG(DISTINCT s, '|')",
    "ARRAY_AGG(DISTINCT k)",
    "COUNT(DISTINCT d)",
)

#: Aggregates that depend on the order of rows, which is the source's, or on ties.
ORDERED = (
    "ARRAY_AGG(k)",
    "COLLECT(s)",
    "LISTAGG(s)",
    "STRING_AGG(s, '-')",
    "ANY_VALUE(k)",
    "FIRST_VALUE(k)",
    "LAST_VALUE(s)",
    "MAX_BY(s, v)",
    "MIN_BY(k, x)",
    "ARRAY_AGG(k ORDER BY v, k)",
    "ARRAY_AGG(s ORDER BY ts DESC, v DESC, s DESC)",
)

KEYS = ("k", "s", "b", "k % 2", "upper(s)", "d", "coalesce(k, -1)")


@dataclass(frozen=True)
class WindowClause:
    """A window table function over `t`, in SQL; lengths in seconds."""

    kind: str
    sql: str
    size: int
    step: int


@st.composite
def windows(draw: st.DrawFn) -> WindowClause:
    """TUMBLE, HOP (also with gaps, and sizes that the slide does not divide) or CUMULATE, with an offset or without."""
    kind = draw(st.sampled_from(["TUMBLE", "HOP", "CUMULATE"]))
    step = draw(st.integers(1, 8))
    offset = draw(st.sampled_from([None, 0, 1, -3, 7]))
    tail = f", INTERVAL '{offset}' SECOND" if offset is not None else ""
    if kind == "TUMBLE":
        lengths, size = f"INTERVAL '{step}' SECOND", step
    elif kind == "HOP":
        size = draw(st.integers(1, 16))
        lengths = f"INTERVAL '{step}' SECOND, INTERVAL '{size}' SECOND"
    else:
        size = step * draw(st.integers(1, 4))
        lengths = f"INTERVAL '{step}' SECOND, INTERVAL '{size}' SECOND"
    return WindowClause(kind, f"TABLE({kind}(TABLE t, DESCRIPTOR(ts), {lengths}{tail}))", size, step)


@st.composite
def rows(draw: st.DrawFn, *, spread: int = 40, null_times: bool = True) -> dict[str, Any]:
    """One row of `t` around the epoch of Unix time, so that times are negative too."""
    moment = BASE + timedelta(milliseconds=draw(st.integers(0, spread * 1000)))
    moment = draw(st.sampled_from([moment, moment.replace(microsecond=0)]))
    time = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"
    special = st.sampled_from(["NaN", "Infinity", "-Infinity", "-0.0"])
    big = st.sampled_from([2**63 - 1, -(2**63), 0, 10**15])
    return {
        "k": draw(st.none() | st.integers(0, 3)),
        "s": draw(st.none() | st.sampled_from(["a", "b", "", "ü", "日本", "A'\"\\"])),
        "v": draw(st.none() | st.integers(-5, 5) | big),
        "d": draw(st.none() | st.decimals(-99, 99, places=2).map(str)),
        "x": draw(st.none() | st.floats(-1e6, 1e6, allow_nan=False).map(lambda f: round(f, 3)) | special),
        "b": draw(st.none() | st.booleans()),
        "a": draw(st.none() | st.lists(st.none() | st.integers(0, 3), max_size=3)),
        "ts": None if null_times and draw(st.integers(0, 30)) == 0 else time,
    }


def files(**options: Any) -> st.SearchStrategy[list[list[dict[str, Any]]]]:
    """One to three files of rows."""
    return st.lists(st.lists(rows(**options), max_size=25), min_size=1, max_size=3)
