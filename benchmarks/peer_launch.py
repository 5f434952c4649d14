"""Run one script of the peers' harness, as it is but for the additions that are written here.

``python peer_launch.py HARNESS SCRIPT [ARGUMENT…]`` runs ``HARNESS/SCRIPT`` with HARNESS as the working
folder. Each addition replaces a line that must occur exactly once, so a harness that has changed stops here
with a message and is not measured with half an addition. Standard library only: it runs under the peers'
interpreters.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# What the harness does not have: the first half of Nexmark q5, and queries without state. Flink's REGEXP_EXTRACT gives NULL
# where nothing matches, the others' ''.
_TIME = "`dateTime`"
_EUROS = "0.908 * price > 1000000 AND 0.908 * price < 50000000"
_TIME_OF_DAY = """CASE WHEN {hour} BETWEEN 8 AND 18 THEN 'dayTime' WHEN {hour} <= 6 OR {hour} >= 20 THEN 'nightTime'
        ELSE 'otherTime' END"""
_CHANNEL = """CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
        ELSE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id"""
_KNOWN_CHANNEL = "LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')"


def _stateless(hour: str, found: str, part: str) -> dict[str, str]:
    """Nexmark q14, q21 and q22: how a system says the hour, that a pattern was found, and a part of a URL (from 0)."""
    parts = ", ".join(f"{part.format(n=n)} AS dir{n - 2}" for n in (3, 4, 5))
    return {
        "q14": f"""SELECT auction, bidder, 0.908 * price AS price, {_TIME_OF_DAY.format(hour=hour)} AS bid_time_type,
        {_TIME}, extra, CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts FROM bid WHERE {_EUROS}""",
        "q21": f"""SELECT auction, bidder, price, channel, {_CHANNEL} FROM bid
        WHERE REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2) {found} OR {_KNOWN_CHANNEL}""",
        "q22": f"SELECT auction, bidder, price, channel, {parts} FROM bid",
    }


FLINK_QUERIES = {
    **_stateless(f"HOUR({_TIME})", "IS NOT NULL", "SPLIT_INDEX(url, '/', {n})"),
    "q5_hop": """SELECT auction, COUNT(*) AS bids, window_start, window_end
        FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
        GROUP BY auction, window_start, window_end""",
}
SPARK_QUERIES = {
    **{
        name: ("append", text, "native")
        for name, text in _stateless(f"hour({_TIME})", "<> ''", "split(url, '/')[{n}]").items()
    },
    "q5_hop": (
        "append",
        """SELECT auction, count(*) AS bids, window.start, window.end
        FROM bid GROUP BY auction, window(dateTime, '10 seconds', '2 seconds')""",
        "native",
    ),
}
# Counted once a 2 s slice, then each slice put into its five windows: 0.35 s in DuckDB for 9.2 M bids, where
# multiplying the bids themselves takes 0.6 s.
DUCKDB_QUERIES = {
    **{
        name: text.replace("`", '"').replace("CHAR_LENGTH", "length")
        for name, text in _stateless(f"hour({_TIME})", "<> ''", "split(url, '/')[{n} + 1]").items()
    },
    "q5_hop": """WITH slices AS (
          SELECT auction, time_bucket(INTERVAL '2 seconds', dateTime) AS slice, count(*) AS n
          FROM bid GROUP BY auction, slice)
        SELECT auction, sum(n) AS bids, slice - to_seconds(2 * k) AS window_start
        FROM slices, (SELECT unnest(range(5)) AS k) GROUP BY auction, window_start""",
}

# script -> ((line of the script, what stands in its place), …)
ADDITIONS: dict[str, tuple[tuple[str, str], ...]] = {
    "flink_bench.py": (
        ("from queries_flink import Q\n", "from queries_flink import Q; Q.update(MORE_QUERIES)\n"),
        # A relative folder in a file:// address is taken for a host's name, and Flink refuses to start.
        (
            'W = f"work/flink-{os.getpid()}"; os.makedirs',
            'W = os.path.abspath(f"work/flink-{os.getpid()}"); os.makedirs',
        ),
    ),
    "spark_ss_bench.py": (
        ("mode, sql, note = Q[a.query]\n", "Q.update(MORE_QUERIES); mode, sql, note = Q[a.query]\n"),
    ),
    "duckdb_bench.py": (
        (
            "n = sum(meta[k] for k in tables); runs = []",
            "Q.update(MORE_QUERIES); n = sum(meta[k] for k in tables); runs = []",
        ),
    ),
}
MORE_QUERIES: dict[str, dict[str, object]] = {
    "flink_bench.py": dict(FLINK_QUERIES),
    "spark_ss_bench.py": dict(SPARK_QUERIES),
    "duckdb_bench.py": dict(DUCKDB_QUERIES),
}


def with_additions(script: str, text: str) -> str:
    """Return ``text``, the source of ``script``, with our additions; ValueError if a line is not there."""
    for line, replacement in ADDITIONS[script]:
        if text.count(line) != 1:
            raise ValueError(
                f"{script}: expected exactly once, found {text.count(line)} times: {line.strip()!r}"
            )
        text = text.replace(line, replacement)
    return text


def main() -> None:
    harness, script = Path(sys.argv[1]).resolve(), sys.argv[2]
    path = harness / script
    code = compile(with_additions(script, path.read_text()), str(path), "exec")
    os.chdir(harness)
    sys.path[0] = str(harness)
    sys.argv = [str(path), *sys.argv[3:]]
    exec(code, {"__name__": "__main__", "__file__": str(path), "MORE_QUERIES": MORE_QUERIES[script]})


if __name__ == "__main__":
    main()
