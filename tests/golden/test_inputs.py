"""Golden runs over every kind of input: both sides read the same rows."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import pytest

from sqlstream.golden import check as golden
from sqlstream.golden import files
from sqlstream.runtime.tasks.local_runner import InProcessRunner
from sqlstream_planner.diagnostics import DiagnosticError

QUERY = """
CREATE TABLE out (window_start TIMESTAMP(3), k STRING, n BIGINT, total BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO out SELECT window_start, k, COUNT(*), SUM(v)
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k;
"""
TABLE = """
CREATE TABLE t (k STRING, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' HOUR{columns}){more}
WITH ({options});
"""
EXPECTED = [("2024-01-01 00:00:00", "a", "2", "3"), ("2024-01-01 00:00:00", "b", "1", "4")]


def outcome(
    folder: Path,
    options: str,
    *,
    columns: str = "",
    more: str = "",
    head: str = "",
    query: str = QUERY,
    cut: int = 2,
) -> list[tuple[str | None, ...]]:
    """Update, then check; the rows of the golden file."""
    (folder / "p.sql").write_text(head + TABLE.format(options=options, columns=columns, more=more) + query)
    pipeline = golden.Pipeline.load(folder / "p.sql", {}, None, None)
    (written,) = golden.update(pipeline).sinks
    checked = golden.check(pipeline, InProcessRunner(2), rows_per_epoch=cut)
    assert checked.ok, dict(checked.dead_letters)
    return list(files.read(written.file, written.schema).rows)


@pytest.mark.parametrize(
    "text",
    [
        "k,v,ts\na,1,2024-01-01 00:00:00\na,2,2024-01-01 00:00:59.5\nb,4,2024-01-01 00:00:30\n",
        "a,1,2024-01-01 00:00:00\na,2,2024-01-01 00:00:59.5\nb,4,2024-01-01 00:00:30\n",
        "ts,more,V,k\n2024-01-01 00:00:00,x,1,a\n2024-01-01 00:00:59.5,x,2,a\n2024-01-01 00:00:30,x,4,b\n",
        "k,v,ts\na,1,2024-01-01 00:00:00\na,2,2024-01-01 00:00:59.5\nb,many,never\nb,4,2024-01-01 00:00:30\n",
    ],
    ids=["header", "no header", "header in another order", "a malformed row"],
)
def test_csv(tmp_path: Path, text: str) -> None:
    (tmp_path / "in.csv").write_text(text)
    assert outcome(tmp_path, "'connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv'") == EXPECTED


def test_json_in_a_watched_folder_of_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [
        '{"k": "a", "v": 1, "ts": "2024-01-01 00:00:00"}',
        '{"k": "a", "v": 2, "ts": "2024-01-01 00:00:59.5"}',
        '{"k": "b", "v": 4, "ts": "2024-01-01 00:00:30"}',
    ]
    for number, line in enumerate(lines):
        (tmp_path / f"in/{number}.json.gz").write_bytes(gzip.compress(line.encode() + b"\n"))
    options = (
        "'connector' = 'filesystem', 'path' = 'in', 'format' = 'json', 'source.monitor-interval' = '1 s'"
    )
    assert outcome(tmp_path, options) == EXPECTED


def test_partitioned_parquet(tmp_path: Path) -> None:
    duckdb.sql(
        f"""COPY (SELECT * FROM (VALUES ('a', 1::BIGINT, TIMESTAMP '2024-01-01 00:00:00'),
                                        ('a', 2, TIMESTAMP '2024-01-01 00:00:59.5'),
                                        ('b', 4, TIMESTAMP '2024-01-01 00:00:30')) AS t(k, v, ts))
            TO '{tmp_path}/in' (FORMAT parquet, PARTITION_BY (k))"""
    )
    options = "'connector' = 'filesystem', 'path' = 'in', 'format' = 'parquet'"
    assert outcome(tmp_path, options, more=" PARTITIONED BY (k)") == EXPECTED


def test_datagen(tmp_path: Path) -> None:
    options = (
        "'connector' = 'datagen', 'rows-per-second' = '1', 'number-of-rows' = '{{ var('rows', 3) }}', "
        "'fields.k.length' = '1', 'fields.v.min' = '0', 'fields.v.max' = '9'"
    )
    rows = outcome(tmp_path, options, head="-- golden: var rows=500\n", cut=60)
    assert sum(int(row[2] or 0) for row in rows) == 500
    # Nobody waits for them, and yet they are a second apart.
    assert len({row[0] for row in rows}) == 9


def test_an_empty_input(tmp_path: Path) -> None:
    assert outcome(tmp_path, "'connector' = 'datagen', 'number-of-rows' = '0'") == []
    (tmp_path / "in.json").write_text("")
    assert outcome(tmp_path, "'connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json'") == []


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("'connector' = 'datagen'", "GLD002"),
        ("'connector' = 'filesystem', 'path' = 'in', 'format' = 'json'", "GLD005"),
    ],
)
def test_input_that_gives_no_result(tmp_path: Path, options: str, code: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(DiagnosticError) as raised:
        outcome(tmp_path, options)
    assert [d.code for d in raised.value.diagnostics] == [code]


def test_rows_late_by_the_cutting_are_told(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(
        "a,1,2024-01-01 00:00:00\na,1,2024-01-01 09:00:00\na,1,2024-01-01 10:00:00\na,2,2024-01-01 00:00:59.5\n"
    )
    with pytest.raises(AssertionError, match="'late': 1"):
        outcome(tmp_path, "'connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv'")
    pipeline = golden.Pipeline.load(tmp_path / "p.sql", {}, None, None)
    assert golden.check(pipeline, InProcessRunner(1)).ok, "as one epoch no row is late"


def test_two_inserts_into_one_sink(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("a,1,2024-01-01 00:00:00\n")
    query = """
        CREATE TABLE out (k STRING, v BIGINT) WITH ('connector' = 'print');
        EXECUTE STATEMENT SET BEGIN
        INSERT INTO out SELECT k, v FROM t;
        INSERT INTO out SELECT k, v + 1 FROM t;
        END;
    """
    rows = outcome(tmp_path, "'connector' = 'filesystem', 'path' = 'in.csv', 'format' = 'csv'", query=query)
    assert rows == [("a", "1"), ("a", "2")]


def test_json_whose_values_are_of_another_type_is_no_row_for_the_referee_either(tmp_path: Path) -> None:
    """DuckDB alone would keep the row, with NULL for what it could not read."""
    (tmp_path / "in.json").write_text(
        '{"k": "a", "v": 1, "ts": "2024-01-01 00:00:00"}\n'
        '{"k": "b", "v": "many", "ts": "2024-01-01 00:00:01"}\n'
        "no json\n"
        '{"k": "c", "v": 3, "ts": "2024-01-01 00:00:02"}\n'
    )
    query = "CREATE TABLE out WITH ('connector' = 'print') AS SELECT k, v FROM t;"
    options = "'connector' = 'filesystem', 'path' = 'in.json', 'format' = 'json'"
    assert outcome(tmp_path, options, query=query) == [("a", "1"), ("c", "3")]
