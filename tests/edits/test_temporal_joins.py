"""Edits of a join with versions: the state is kept where it means the same, and computed from the history where not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.edits.decide import decide
from sqlstream_planner.edits.verdict import Verdict
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.test_temporal_joins import ROWS, TABLES
from tests.properties.updating import fetched

FORMER = "SELECT l.k, v, w FROM l LEFT JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k"


def planned(folder: Path, *queries: str) -> Planned:
    """A file with a table for each query."""
    tables = (
        f"CREATE TABLE out_{n} WITH ('connector' = 'filesystem', 'path' = 'out_{n}', 'format' = 'parquet') AS {query};\n"
        for n, query in enumerate(queries)
    )
    (folder / "p.sql").write_text(TABLES.format(delay=5) + "".join(tables))
    return plan_file(folder / "p.sql")


@pytest.mark.parametrize(
    ("query", "verdict"),
    [
        (
            "SELECT w, a.v AS v, a.k FROM l AS a LEFT JOIN r FOR SYSTEM_TIME AS OF a.ts AS b ON b.k = a.k",
            "KEEP",
        ),
        (FORMER.replace("LEFT JOIN", "JOIN"), "BACKFILL"),
        (f"{FORMER} AND w > 1", "BACKFILL"),
        (FORMER.replace("v, w", "v, w, r.s"), "BACKFILL"),
        (FORMER.replace("JOIN r FOR", "JOIN c FOR").replace("r.k", "c.k"), "BACKFILL"),
        ("SELECT l.k, v, w FROM l ASOF LEFT JOIN r ON l.k = r.k AND l.ts >= r.ts", "BACKFILL"),
    ],
)
def test_what_becomes_of_the_state(tmp_path: Path, query: str, verdict: str) -> None:
    old, new = planned(tmp_path, FORMER), planned(tmp_path, query)
    found = [edit.verdict for edit in decide(old.physical, new.physical, new.state_nodes)]
    assert Verdict[verdict] in found
    assert set(found) <= {Verdict[verdict], Verdict.DROP}


def test_a_new_table_gets_the_rows_that_the_history_gives(tmp_path: Path) -> None:
    """Also those that the watermark had reached before the edit; the old table goes on."""
    late = {"r": ROWS.right, "l": ROWS.left}
    for name, lines in ROWS.lines().items():
        (tmp_path / name).mkdir()
        # In the order of time: nothing is late.
        times = [row[3] or 0 for row in late.get(name, ())]
        order = sorted(range(len(lines)), key=lambda n: times[n]) if times else range(len(lines))
        (tmp_path / name / "0.json").write_text("".join(f"{lines[n]}\n" for n in order))
    old = planned(tmp_path, FORMER)
    run_here(old, tmp_path, rows_per_epoch=4, max_epochs=4, sql=old.masked_sql)
    assert (given := written(tmp_path, 0))
    new = planned(tmp_path, FORMER, FORMER.replace("v, w", "v, w, r.s"))
    run_here(new, tmp_path, rows_per_epoch=4, parallelism=3, sql=new.masked_sql)
    script = to_duckdb(new, lambda source: [str(tmp_path / source.name / "0.json")])
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        wanted = [fetched(con, text) for _, text in script.sinks]
    for number, rows in enumerate(wanted):
        assert len(given) < len(rows)
        assert_same(written(tmp_path, number), rows)


def written(folder: Path, number: int) -> Rows:
    """What a table holds."""
    files = folder / f"out_{number}" / "*.parquet"
    with empty_duckdb() as con:
        return fetched(con, f"SELECT * FROM read_parquet('{files}')")
