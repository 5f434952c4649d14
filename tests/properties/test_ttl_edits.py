"""The time to live of state is added, changed and removed between runs: row 33 of the edit matrix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from tests.properties.in_process import run_here

MINUTE = 60
TABLES = """CREATE TABLE t (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE out (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
INSERT INTO out SELECT k, {what} FROM t GROUP BY k;
"""
#: (minute, time to live, key): a run each.
Step = tuple[int, str | None, int]


def run(folder: Path, steps: Sequence[Step], what: str) -> list[tuple[int, int]]:
    (folder / "in").mkdir()
    for number, (minute, ttl, key) in enumerate(steps):
        (folder / f"in/{number}.json").write_text(json.dumps({"k": key, "v": number}) + "\n")
        text = TABLES.format(what=what)
        (folder / "p.sql").write_text((f"SET 'table.exec.state.ttl' = '{ttl}';\n" if ttl else "") + text)
        planned = plan_file(folder / "p.sql")
        run_here(
            planned,
            folder,
            parallelism=1 + number % 3,
            sql=planned.masked_sql,
            wall_clock=lambda minute=minute: 1_000_000.0 + minute * MINUTE,
        )
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as con:
        found: list[tuple[int, int]] = con.execute("SELECT k, n FROM out ORDER BY k").fetchall()
        return found


#: What key 1 has in the end, and why.
CASES: dict[str, tuple[list[Step], int]] = {
    "longer: not forgotten": ([(0, "1 h", 1), (30, "5 h", 2), (200, "5 h", 1)], 2),
    "longer, and then longer away": ([(0, "1 h", 1), (30, "5 h", 2), (500, "5 h", 1)], 1),
    "shorter: forgotten": ([(0, "5 h", 1), (30, "1 h", 2), (100, "1 h", 3), (200, "1 h", 1)], 1),
    "shorter, and touched meanwhile": ([(0, "5 h", 1), (30, "1 h", 1), (80, "1 h", 1), (120, "1 h", 1)], 4),
    "added: it counts from the edit on": ([(0, None, 1), (500, "1 h", 2), (540, "1 h", 1)], 2),
    "added: forgotten at last": ([(0, None, 1), (500, "1 h", 2), (700, "1 h", 2), (800, "1 h", 1)], 1),
    "removed: nothing is forgotten": ([(0, "1 h", 1), (30, None, 2), (5000, None, 1)], 2),
    "removed and added: what was noted before is not believed": (
        [(0, "1 h", 1), (10, None, 1), (20, "1 h", 2), (75, "1 h", 1)],
        3,
    ),
    "removed, added, and away": (
        [(0, "1 h", 1), (10, None, 1), (20, "1 h", 2), (200, "1 h", 3), (210, "1 h", 1)],
        1,
    ),
}


@pytest.mark.sampled(3, each_value=False)
@pytest.mark.parametrize("what", ["COUNT(*)", "COUNT(v + 1)"])
@pytest.mark.parametrize("name", CASES)
def test_a_count(name: str, what: str, tmp_path: Path) -> None:
    steps, count = CASES[name]
    assert dict(run(tmp_path, steps, what))[1] == count
