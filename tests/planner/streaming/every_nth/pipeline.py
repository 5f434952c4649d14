"""A pipeline with the operator, from its plan to a restart; run by the Python of a tree in which the operator is registered.

python -m tests.planner.streaming.every_nth.pipeline FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from tests.properties.in_process import run_here

TABLES = """CREATE TABLE t (k INT, g INT, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE o (k INT, v INT, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
"""
QUERY = """INSERT INTO o SELECT k, v, n FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY PROCTIME()) AS n FROM t) WHERE n % 3 = 0;
"""


def more(folder: Path, first: int, last: int) -> None:
    """Another file of rows: v counts, two keys take turns, and each of five groups g has a fifth."""
    rows = ({"k": v % 2, "g": v % 5, "v": v} for v in range(first, last))
    (folder / "in").mkdir(exist_ok=True)
    (folder / f"in/{first}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def given(folder: Path) -> list[tuple[int, int, int]]:
    """The rows of the sink."""
    lines = [
        line for file in sorted((folder / "out").glob("*.json")) for line in file.read_text().splitlines()
    ]
    return sorted((row["k"], row["v"], row["n"]) for row in map(json.loads, lines))


def run(file: Path, text: str, **options: object) -> None:
    file.write_text(text)
    planned = plan_file(file)
    run_here(planned, file.parent, sql=planned.masked_sql, drain=False, **options)  # type: ignore[arg-type]


def expected(numbers: Iterable[int]) -> list[tuple[int, int, int]]:
    """Of each of the two keys the row with each of the numbers: the n-th row of k has v = 2 (n - 1) + k."""
    return sorted((k, 2 * (n - 1) + k, n) for k in (0, 1) for n in numbers)


def main(folder: Path) -> None:
    file = folder / "p.sql"
    file.write_text(TABLES + QUERY)
    # Planned, explained, pruned.
    assert run_cli(["check", str(file)]) == 0
    assert run_cli(["explain", str(file)]) == 0
    # Run, and begun again with other numbers of shards.
    for first, last, shards in ((0, 10, 1), (10, 24, 3), (24, 40, 2)):
        more(folder, first, last)
        run(file, TABLES + QUERY, parallelism=shards)
    assert given(folder) == expected((3, 6, 9, 12, 15, 18)), given(folder)
    state_dir = ["--state-dir", str(folder / "state")]
    assert (
        run_cli(["state", "query", str(file), "SELECT k, rows FROM every_nth_1 ORDER BY k", *state_dir]) == 0
    )
    # Edited: the counts are what they are by whatever number they are divided (KEEP).
    edited = TABLES + QUERY.replace("% 3", "% 10")
    file.write_text(edited)
    assert run_cli(["plan", str(file), *state_dir]) in (0, 3)
    more(folder, 40, 60)
    run(file, edited)
    assert given(folder) == expected((3, 6, 9, 12, 15, 18, 30)), given(folder)
    # By other keys they are counted anew, over all that was read (BACKFILL).
    by_group = edited.replace("PARTITION BY k", "PARTITION BY g").replace("% 10", "% 13")
    file.write_text(by_group)
    run_cli(["plan", str(file), *state_dir])
    more(folder, 60, 70)
    run(file, by_group)
    new = sorted(set(given(folder)) - set(expected((3, 6, 9, 12, 15, 18, 30))))
    # The 13th row of group g is v = 60 + g: only what came since is given.
    assert new == sorted((v % 2, v, 13) for v in range(60, 65)), new


if __name__ == "__main__":
    main(Path(sys.argv[1]))
