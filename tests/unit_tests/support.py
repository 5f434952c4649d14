"""A pipeline with a bit of everything, and its tests, run in this process."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

from sqlstream.unit_tests.outcome import Outcome, Status
from sqlstream.unit_tests.reading import read_tests
from sqlstream.unit_tests.running import run_file
from sqlstream.unit_tests.worker import ready
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

SQL = """
CREATE TABLE bids (
  id BIGINT NOT NULL,
  price BIGINT,
  ts TIMESTAMP(3),
  origin STRING METADATA FROM 'file.path',
  twice AS price * 2,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '/nowhere/bids', 'format' = 'json');

CREATE TABLE customers (
  id BIGINT, name STRING, PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'filesystem', 'path' = '/nowhere/customers', 'format' = 'debezium-json');

CREATE TABLE minutes (
  start TIMESTAMP, n BIGINT, total BIGINT
) WITH ('connector' = 'filesystem', 'path' = '/nowhere/minutes', 'format' = 'csv');

CREATE TABLE totals (
  id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'duckdb', 'path' = '/nowhere/totals.duckdb');

CREATE TABLE named (
  id BIGINT, name STRING
) WITH ('connector' = 'filesystem', 'path' = '/nowhere/named', 'format' = 'debezium-json');

CREATE VIEW dear AS SELECT id, twice, origin FROM bids WHERE price >= {{ var('dear', 10) }};
CREATE VIEW sums AS SELECT id, SUM(price) AS total FROM bids GROUP BY id;

INSERT INTO minutes
SELECT window_start, COUNT(*), SUM(price)
FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
INSERT INTO totals SELECT id, COUNT(*) FROM bids GROUP BY id;
INSERT INTO named SELECT id, UPPER(name) FROM customers;
"""


def tried(folder: Path, tests: str, sql: str = SQL, **files: str) -> list[Outcome]:
    """Run tests, written below `unit_tests:`, of a pipeline; `files` are others beside them (`a_sql` is a.sql)."""
    file = written(folder, tests, sql, **files)
    ready()
    found = read_tests(file)
    return run_file(found, [test.name for test in found.tests])[0]


def written(folder: Path, tests: str, sql: str = SQL, **files: str) -> Path:
    """Write a pipeline and its test file, which is returned."""
    (folder / "p.sql").write_text(sql, encoding="utf-8")
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(dedent(text), encoding="utf-8")
    file = folder / "p.test.yaml"
    file.write_text("unit_tests:\n" + indent(dedent(tests).strip("\n"), "  ") + "\n", encoding="utf-8")
    return file


def passes(folder: Path, tests: str, sql: str = SQL, **files: str) -> None:
    """All tests pass."""
    for outcome in tried(folder, tests, sql, **files):
        assert outcome.status is Status.PASSED, outcome


def refused(folder: Path, tests: str, sql: str = SQL, **files: str) -> list[Diagnostic]:
    """The diagnostics of a file, or of its one test."""
    try:
        (outcome,) = tried(folder, tests, sql, **files)
    except DiagnosticError as error:
        return list(error.diagnostics)
    assert outcome.status is Status.ERROR, outcome
    return list(outcome.diagnostics)


def failed(folder: Path, tests: str, sql: str = SQL, **files: str) -> list[str]:
    """The summaries of what the one test found to be otherwise."""
    (outcome,) = tried(folder, tests, sql, **files)
    assert outcome.status is Status.FAILED, outcome
    return [f"{f.step}|{f.about}|{f.summary}" for f in outcome.failures]
