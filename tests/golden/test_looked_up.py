"""A golden run of a table that is looked up and no source: the referee has its rows as they are today."""

from __future__ import annotations

from pathlib import Path

import duckdb

from sqlstream.golden.results import actual_rows, expected_rows
from sqlstream.planning import plan_file
from sqlstream.runtime.tasks.local_runner import InProcessRunner

SQL = """
CREATE TABLE l (k INT) WITH ('connector' = 'filesystem', 'path' = 'l.json', 'format' = 'json');
CREATE TABLE d (id BIGINT, name STRING) WITH ('connector' = 'duckdb', 'path' = 'd.duckdb');
CREATE TABLE o (k INT, name STRING) WITH ('connector' = 'print');
INSERT INTO o SELECT l.k, name FROM l LEFT JOIN d FOR SYSTEM_TIME AS OF PROCTIME() ON l.k = d.id;
"""


def test_a_table_that_is_looked_up(tmp_path: Path) -> None:
    (tmp_path / "l.json").write_text('{"k": 1}\n{"k": 2}\n{"k": 3}\n')
    (tmp_path / "p.sql").write_text(SQL)
    for rows, names in (((), {}), (((1, "one"), (3, None)), {1: "one"})):
        (tmp_path / "d.duckdb").unlink(missing_ok=True)
        with duckdb.connect(str(tmp_path / "d.duckdb")) as con:
            con.execute("CREATE TABLE d (id INTEGER, name VARCHAR)")
            for row in rows:
                con.execute("INSERT INTO d VALUES (?, ?)", row)
        planned = plan_file(tmp_path / "p.sql")
        wanted = [(str(k), names.get(k)) for k in (1, 2, 3)]
        assert sorted(expected_rows(planned, tmp_path)["o"].rows) == wanted
        assert sorted(actual_rows(planned, tmp_path, InProcessRunner(2)).sinks["o"].rows) == wanted
