"""Golden runs of updating queries: a golden is what a sink holds at the end, whatever it was given on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.golden import check as golden
from sqlstream.golden import files
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import DiagnosticError

TABLE = """
CREATE TABLE t (k STRING, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv');
"""
ROWS = "a,1\nb,5\na,3\nc,3\nb,5\na,7\nc,2\nb,\n"
#: Options of a sink's table; postgres needs no database, since a golden run does not write there.
SINKS = {
    "print": "'connector' = 'print'",
    "blackhole": "'connector' = 'blackhole'",
    "duckdb": "'connector' = 'duckdb', 'path' = 'out/kept.duckdb'",
    "postgres": "'connector' = 'postgres', 'url' = 'postgresql://nobody@localhost:1/none', 'table-name' = 'a.b'",
    "changelog-json": "'connector' = 'filesystem', 'path' = 'out/changes', 'format' = 'changelog-json'",
    "debezium-json": "'connector' = 'filesystem', 'path' = 'out/changes', 'format' = 'debezium-json'",
}


def pipeline(folder: Path, text: str, rows: str = ROWS) -> golden.Pipeline:
    (folder / "in.csv").write_text(rows)
    (folder / "p.sql").write_text(TABLE + text)
    return golden.Pipeline.load(folder / "p.sql", {}, None, None)


def kept(given: golden.Pipeline, rows_per_epoch: int | None = 2) -> list[tuple[str | None, ...]]:
    """Update, then check; the rows of the golden file. Nothing else is written."""
    (written,) = golden.update(given).sinks
    checked = golden.check(given, InProcessRunner(2), rows_per_epoch=rows_per_epoch)
    assert checked.ok, checked.sinks
    assert {path.name for path in given.file.parent.iterdir()} == {"in.csv", "p.sql", "golden"}
    return list(files.read(written.file, written.schema).rows)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sink", SINKS)
def test_a_key_has_one_row(tmp_path: Path, sink: str) -> None:
    text = f"""
        CREATE TABLE out (k STRING, n BIGINT, top BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({SINKS[sink]});
        INSERT INTO out SELECT k, COUNT(*), MAX(v) FROM t GROUP BY k;
    """
    assert kept(pipeline(tmp_path, text)) == [("a", "3", "7"), ("b", "3", "5"), ("c", "2", "3")]


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.sampled(2)
def test_rows_without_a_key_stand_as_often_as_they_are_there(tmp_path: Path, sink: str) -> None:
    text = f"""
        CREATE TABLE out (v BIGINT) WITH ({SINKS[sink]});
        INSERT INTO out SELECT v FROM t ORDER BY v DESC LIMIT 5;
    """
    assert kept(pipeline(tmp_path, text)) == [("3",), ("3",), ("5",), ("5",), ("7",)]


@pytest.mark.parametrize("sink", ["print", "duckdb"])
def test_a_global_aggregate_has_a_row_without_any_input(tmp_path: Path, sink: str) -> None:
    text = f"""
        CREATE TABLE out (n BIGINT, top BIGINT) WITH ({SINKS[sink]});
        INSERT INTO out SELECT COUNT(*), MAX(v) FROM t;
    """
    assert kept(pipeline(tmp_path, text, rows="")) == [("0", None)]


def test_appended_rows_of_a_table(tmp_path: Path) -> None:
    text = (
        f"CREATE TABLE out (k STRING, v BIGINT) WITH ({SINKS['duckdb']}); INSERT INTO out SELECT k, v FROM t;"
    )
    assert len(kept(pipeline(tmp_path, text))) == 8
    (tmp_path / "more").mkdir()
    assert kept(pipeline(tmp_path / "more", text, rows="")) == []


def test_a_wrong_row_is_seen(tmp_path: Path) -> None:
    text = f"""
        CREATE TABLE out (k STRING, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({SINKS["duckdb"]});
        INSERT INTO out SELECT k, COUNT(*) FROM t GROUP BY k;
    """
    given = pipeline(tmp_path, text)
    (written,) = golden.update(given).sinks
    written.file.write_text(written.file.read_text().replace("b,3", "b,2"))
    (sink,) = golden.check(given, InProcessRunner(1), rows_per_epoch=3).sinks
    assert sink.difference is not None
    assert list(sink.difference.changed) == [(("b", "2"), ("b", "3"))]


@pytest.mark.parametrize(
    ("rows", "expected"), [("a,1\na,2\n", "two rows have"), ("a,1\n,2\n", "a row has NULL in")]
)
def test_a_golden_that_the_key_forbids_is_not_written(tmp_path: Path, rows: str, expected: str) -> None:
    text = f"""
        CREATE TABLE out (k STRING, v BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({SINKS["postgres"]});
        INSERT INTO out SELECT k, v FROM t ON CONFLICT DO ERROR;
    """
    with pytest.raises(DiagnosticError) as raised:
        golden.update(pipeline(tmp_path, text, rows))
    [diagnostic] = raised.value.diagnostics
    assert diagnostic.code == "GLD007"
    assert expected in diagnostic.message
    assert not (tmp_path / "golden").exists()


def test_a_row_that_goes_and_never_came_is_told(tmp_path: Path) -> None:
    (tmp_path / "changes.json").write_text(
        '{"op": "+I", "data": {"k": "a"}}\n{"op": "-D", "data": {"k": "b"}}\n{"op": "-D", "data": {"k": null}}\n'
    )
    (tmp_path / "p.sql").write_text("""
        CREATE TABLE c (k STRING) WITH ('connector' = 'filesystem', 'path' = 'changes.json', 'format' = 'changelog-json');
        CREATE TABLE out (k STRING) WITH ('connector' = 'print');
        INSERT INTO out SELECT k FROM c;
    """)
    given = golden.Pipeline.load(tmp_path / "p.sql", {}, None, None)
    with pytest.raises(
        DiagnosticError, match="2 rows were retracted that were never inserted, such as k = NULL"
    ):
        golden.check(given, InProcessRunner(1))


@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id) NOT ENFORCED"], ids=["no key", "key"])
@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_changelogs_as_input(tmp_path: Path, key: str, partitioned: bool) -> None:
    lines = [
        '{"op":"c","after":{"id":1,"v":5,"day":1}}',
        '{"op":"c","after":{"id":2,"v":7,"day":1}}',
        '{"op":"u","before":{"id":1,"v":5,"day":1},"after":{"id":1,"v":6,"day":1}}',
        '{"op":"d","before":{"id":2,"v":7,"day":1}}',
        '{"op":"c","after":{"id":3,"v":7,"day":1}}',
    ]
    folder = tmp_path / ("in/day=1" if partitioned else "in")
    folder.mkdir(parents=True)
    (folder / "a.json").write_text("\n".join(lines[:3]) + "\n")
    (folder / "b.json").write_text("\n".join(lines[3:]) + "\n")
    (tmp_path / "p.sql").write_text(f"""
        CREATE TABLE t (id INT, v BIGINT, day INT{key}) {"PARTITIONED BY (day)" if partitioned else ""}
        WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'debezium-json');
        CREATE TABLE out (day INT, n BIGINT, top BIGINT, PRIMARY KEY (day) NOT ENFORCED) WITH ({SINKS["duckdb"]});
        INSERT INTO out SELECT day, COUNT(*), MIN(v) FROM t GROUP BY day;
    """)
    given = golden.Pipeline.load(tmp_path / "p.sql", {}, None, None)
    (written,) = golden.update(given).sinks
    assert list(files.read(written.file, written.schema).rows) == [("1", "2", "6")]
    assert golden.check(given, InProcessRunner(2), rows_per_epoch=2).ok


@pytest.mark.parametrize(
    ("format_", "options", "lines"),
    [
        (
            "maxwell-json",
            "",
            [
                '{"type":"bootstrap-start","data":{}}',
                '{"type":"bootstrap-insert","data":{"id":1,"v":5}}',
                '{"type":"bootstrap-complete","data":{}}',
                '{"type":"update","data":{"id":1,"v":6},"old":{"v":5}}',
            ],
        ),
        (
            "canal-json",
            ", 'canal-json.database.include' = 'sh.p', 'canal-json.table.include' = 'it''s'",
            [
                '{"type":"CREATE","data":null,"database":"shop","table":"it\'s"}',
                '{"type":"INSERT","data":[{"id":"1","v":"6"}],"database":"shop","table":"it\'s"}',
                '{"type":"INSERT","data":[{"id":"2","v":"9"}],"database":"shop","table":"other"}',
                '{"type":"INSERT","data":[{"id":"3","v":"9"}],"database":"shops","table":"it\'s"}',
            ],
        ),
    ],
    ids=["maxwell", "canal"],
)
def test_messages_that_are_skipped_are_no_rows_of_the_golden(
    tmp_path: Path, format_: str, options: str, lines: list[str]
) -> None:
    """DuckDB's side took the start of a bootstrap for a row of NULLs, and read all tables of a Canal log."""
    (tmp_path / "in.json").write_text("\n".join(lines) + "\n")
    (tmp_path / "p.sql").write_text(f"""
        CREATE TABLE t (id INT, v BIGINT)
        WITH ('connector' = 'filesystem', 'path' = 'in.json', 'format' = '{format_}'{options});
        CREATE TABLE out (id INT, v BIGINT) WITH ({SINKS["print"]});
        INSERT INTO out SELECT id, v FROM t;
    """)
    given = golden.Pipeline.load(tmp_path / "p.sql", {}, None, None)
    (written,) = golden.update(given).sinks
    assert list(files.read(written.file, written.schema).rows) == [("1", "6")]
    assert golden.check(given, InProcessRunner(2)).ok
