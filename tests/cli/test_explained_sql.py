"""`explain --format duckdb` gives SQL that DuckDB runs over the files as they lie."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.cli.main import run_cli


def write(path: Path, rows: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        path.write_text("".join(",".join(str(v) for v in row.values()) + "\n" for row in rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(
    sql: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> list[tuple[object, ...]]:
    (folder / "p.sql").write_text(sql)
    assert run_cli(["explain", "--format", "duckdb", str(folder / "p.sql")]) == 0
    monkeypatch.chdir(folder)
    with duckdb.connect() as connection:
        connection.execute(capsys.readouterr().out)
        return sorted(connection.execute('SELECT * FROM "result"').fetchall(), key=str)


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_partitions_are_read_from_the_names_of_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    for number, folder in enumerate(
        ["day=2024-01-01/k=a%2Fb", "day=2024-01-02/k=__HIVE_DEFAULT_PARTITION__", "day=2024-01-02/K=c"]
    ):
        write(tmp_path / f"in/{folder}/x.{format_}", [{"a": number}])
    write(tmp_path / f"in/day=2024-01-01/_temporary/k=z/x.{format_}", [{"a": 9}])
    write(tmp_path / f"in/.hidden/day=2024-01-01/k=z/x.{format_}", [{"a": 9}])
    (tmp_path / "in/.hidden/notes").write_text("nothing")
    sql = f"""
        CREATE TABLE t (a INT, day DATE, k STRING) PARTITIONED BY (day, k)
        WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = '{format_}');
        SELECT a, CAST(day AS STRING) AS day, k FROM t;
    """
    assert run(sql, tmp_path, capsys, monkeypatch) == [
        (0, "2024-01-01", "a/b"),
        (1, "2024-01-02", None),
        (2, "2024-01-02", "c"),
    ]


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_folders_within_folders_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, format_: str
) -> None:
    for number, name in enumerate(["x", "a/x", "a/b=1/x", "_x", ".x", ".sqlstream/x"]):
        write(tmp_path / f"in/{name}.{format_}", [{"a": number, "b": "file"}])
    sql = f"""
        CREATE TABLE t (a INT, b STRING) WITH ('connector' = 'filesystem', 'path' = 'in/', 'format' = '{format_}');
        SELECT a, b FROM t;
    """
    assert run(sql, tmp_path, capsys, monkeypatch) == [(0, "file"), (1, "file"), (2, "file")]


def test_one_file_is_read_as_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in/_x.json", [{"a": 1}])
    sql = """
        CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = 'in/_x.json', 'format' = 'json');
        SELECT a FROM t;
    """
    assert run(sql, tmp_path, capsys, monkeypatch) == [(1,)]
