"""TPC-H as streams: all 22 queries in one pipeline, and after every epoch each is what DuckDB gives for what was read."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import duckdb

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_planner.logical import walk
from sqlstream_planner.streaming import RegularJoin
from tests.golden.tpch import DATA, PIPELINES, QUERIES, TABLES, all_in_one, lines, load
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.updating import collecting, fetched


def test_every_prefix_of_all_queries(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(DATA)
    (tmp_path / "tpch.sql").write_text(all_in_one("'connector' = 'blackhole'"), encoding="utf-8")
    planned = plan_file(tmp_path / "tpch.sql")
    read: Counter[str] = Counter()
    epochs: list[int] = []
    with collecting() as collected, duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")

        def compare(report: EpochReport) -> None:
            read.update(report.rows_read)
            epochs.append(report.epoch)
            load(con, read)
            for name, query in QUERIES.items():
                try:
                    assert_same(collected.folded(name), fetched(con, query))
                except AssertionError as error:
                    raise AssertionError(f"{name} after {dict(read)}: {error}") from error

        run_here(planned, tmp_path, parallelism=2, rows_per_epoch=700, on_epoch=compare)
    assert read == Counter({table: len(lines(table)) for table in TABLES})
    assert len(epochs) > 2


def test_no_query_makes_all_pairs_where_an_equality_says_which() -> None:
    for name in QUERIES:
        planned = plan_file(PIPELINES / f"{name}.sql", search_path=[PIPELINES / "macros"])
        joins = [node for node in walk(planned.logical) if isinstance(node, RegularJoin)]
        assert all(join.keys for join in joins), name


def test_the_script_makes_the_same_bytes(tmp_path: Path) -> None:
    runpy.run_path(str(PIPELINES / "prepare_data.py"))["main"](tmp_path)
    made = {str(path.relative_to(tmp_path)): path.read_bytes() for path in tmp_path.rglob("*.csv")}
    assert made == {str(path.relative_to(DATA)): path.read_bytes() for path in DATA.rglob("*.csv")}
