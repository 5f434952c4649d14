"""All of Nexmark and all of TPC-H, each as one pipeline that is killed and goes on with other shards: DuckDB's answers."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from sqlstream.golden.sources import InputFiles
from sqlstream.planning import plan_file
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.examples import is_long
from tests.golden.tpch import PIPELINES as TPCH
from tests.golden.tpch import QUERIES, all_in_one, load
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same
from tests.properties.updating import fetched
from tests.runtime.support import Crash, crash_at

NEXMARK = TPCH.parent / "nexmark"
NUMBERS = range(23)
DUCKDB = "'connector' = 'duckdb', 'path' = 'results.duckdb'"
#: Where a run is killed, epoch by epoch, and with how many shards it goes on.
KILLED = (("planned", 2, 2), ("published", 3, 3)) if is_long() else (("published", 2, 3),)


def nexmark(folder: Path) -> Planned:
    """Every query of Nexmark, with tables of one DuckDB file as sinks."""
    texts = [(NEXMARK / "macros" / "nexmark.sql").read_text(encoding="utf-8")]
    for number in NUMBERS:
        text = (NEXMARK / f"q{number}.sql").read_text(encoding="utf-8")
        text = text.replace("{% include 'nexmark.sql' %}", "")
        text = text.replace("PARTITIONED BY (dt, hm) ", "")
        text, found = re.subn(
            r"WITH \('connector' = '\w+'(, 'path' = 'out/[^)]*)?\)", f"WITH ({DUCKDB})", text
        )
        assert found, f"q{number} has no sink"
        texts.append(text)
    (folder / "p.sql").write_text("\n".join(texts), encoding="utf-8")
    (folder / "data").symlink_to(NEXMARK / "data")
    return plan_file(
        folder / "p.sql", variables={"events": "2000", "rate": "40"}, search_path=[NEXMARK / "macros"]
    )


def tpch(folder: Path) -> Planned:
    """Every query of TPC-H, into tables of one DuckDB file that are called q1 to q22."""
    (folder / "p.sql").write_text(all_in_one(DUCKDB), encoding="utf-8")
    (folder / "data").symlink_to(TPCH / "data")
    return plan_file(folder / "p.sql")


def killed(planned: Planned, folder: Path, rows_per_epoch: int) -> dict[str, Rows]:
    """Run it to its end, killed under way; what its tables have then."""
    for point, epoch, shards in KILLED:
        with pytest.raises(Crash):
            run_here(
                planned,
                folder,
                parallelism=shards,
                rows_per_epoch=rows_per_epoch,
                faults=crash_at(point, epoch),
            )
    run_here(planned, folder, parallelism=2, rows_per_epoch=rows_per_epoch)
    with duckdb.connect(str(folder / "results.duckdb"), read_only=True) as con:
        return {s.name: fetched(con, f'SELECT * FROM "{s.name}"') for s in planned.physical.sinks}


def test_nexmark_goes_on_where_it_was(tmp_path: Path) -> None:
    planned = nexmark(tmp_path)
    found = killed(planned, tmp_path, rows_per_epoch=700)
    assert len(found) == len(NUMBERS)
    (tmp_path / "copies").mkdir()
    inputs = InputFiles(planned.catalog, tmp_path, tmp_path / "copies")
    script = to_duckdb(planned, inputs.files)
    with empty_duckdb() as con:
        for view in inputs.views(planned.physical.sources, dict(script.sources)):
            con.execute(view)
        for sink, text in script.sinks:
            expected = fetched(con, text)
            assert expected, f"{sink} has no rows"
            try:
                assert_same(found[sink], expected)
            except AssertionError as error:
                raise AssertionError(f"{sink}: {error}") from error


def test_tpch_goes_on_where_it_was(tmp_path: Path) -> None:
    found = killed(tpch(tmp_path), tmp_path, rows_per_epoch=1100)
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        load(con)
        for name, query in QUERIES.items():
            try:
                assert_same(found[name], fetched(con, query))
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from error
