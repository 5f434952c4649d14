"""`sink.publish-path`: a copy of a DuckDB file that others may keep open while a run writes the file."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.in_process import run_here

TABLES = """
CREATE TABLE t (k STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE a (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out/r.duckdb', 'sink.publish-path' = 'out/shown/r.duckdb');
CREATE TABLE b (v INT, n BIGINT)
WITH ('connector' = 'duckdb', 'path' = 'out/r.duckdb', 'sink.publish-path' = 'out/shown/r.duckdb');
INSERT INTO a SELECT k, COUNT(*) AS n FROM t GROUP BY k;
INSERT INTO b SELECT v, COUNT(*) AS n FROM t GROUP BY v;
"""


def write(folder: Path, name: str, *rows: tuple[str, int]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("".join(json.dumps({"k": k, "v": v}) + "\n" for k, v in rows))


def run(folder: Path, sql: str = TABLES) -> None:
    (folder / "p.sql").write_text(sql)
    run_here(plan_file(folder / "p.sql"), folder)


def shown(folder: Path, query: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(folder / "out/shown/r.duckdb"), read_only=True) as reader:
        found: list[tuple[object, ...]] = reader.execute(query).fetchall()
    return found


def test_readers_keep_the_copy_open_while_the_file_is_written(tmp_path: Path) -> None:
    write(tmp_path, "0.json", ("x", 1), ("y", 1))
    run(tmp_path)
    with duckdb.connect(str(tmp_path / "out/shown/r.duckdb"), read_only=True) as reader:
        assert reader.execute("FROM a ORDER BY ALL").fetchall() == [("x", 1), ("y", 1)]
        write(tmp_path, "1.json", ("x", 2))
        run(tmp_path)
        assert reader.execute("FROM a ORDER BY ALL").fetchall() == [("x", 1), ("y", 1)]
    assert shown(tmp_path, "FROM a ORDER BY ALL") == [("x", 2), ("y", 1)]
    assert shown(tmp_path, "FROM b ORDER BY ALL") == [(1, 2), (2, 1)]
    assert sorted(file.name for file in (tmp_path / "out/shown").iterdir()) == ["r.duckdb"]


def test_a_copy_that_a_killed_run_did_not_make_is_made_by_the_next(tmp_path: Path) -> None:
    write(tmp_path, "0.json", ("x", 1))
    run(tmp_path)
    (tmp_path / "out/shown/r.duckdb").rename(tmp_path / "out/shown/.r.duckdb.new")
    (tmp_path / "out/shown/.r.duckdb.new.wal").write_bytes(b"half")
    run(tmp_path)
    assert shown(tmp_path, "FROM a") == [("x", 1)]
    assert [file.name for file in (tmp_path / "out/shown").iterdir()] == ["r.duckdb"]


def test_the_option_is_added_and_left_out_without_an_edit_of_the_table(tmp_path: Path) -> None:
    without = TABLES.replace(", 'sink.publish-path' = 'out/shown/r.duckdb'", "")
    write(tmp_path, "0.json", ("x", 1))
    run(tmp_path, without)
    assert not (tmp_path / "out/shown").exists()
    write(tmp_path, "1.json", ("x", 1))
    run(tmp_path)
    assert shown(tmp_path, "FROM a") == [("x", 2)]
    write(tmp_path, "2.json", ("x", 1))
    run(tmp_path, without)
    assert shown(tmp_path, "FROM a") == [("x", 2)]


def test_a_copy_that_can_not_be_made_stops_the_run_which_goes_on(tmp_path: Path) -> None:
    write(tmp_path, "0.json", ("x", 1))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "shown").write_text("in the way")
    with pytest.raises(DiagnosticError, match="ENV006"):
        run(tmp_path)
    (tmp_path / "out" / "shown").unlink()
    run(tmp_path)
    assert shown(tmp_path, "FROM a") == [("x", 1)]
    assert shown(tmp_path, "FROM b") == [(1, 1)]


@pytest.mark.parametrize("path", ["out/r.duckdb", "s3://bucket/r.duckdb", ""])
def test_a_copy_that_can_not_be_there_is_refused(tmp_path: Path, path: str) -> None:
    write(tmp_path, "0.json", ("x", 1))
    with pytest.raises(DiagnosticError, match="OPT003"):
        run(tmp_path, TABLES.replace("out/shown/r.duckdb", path))
