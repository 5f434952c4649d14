"""Polars, an engine with readers of its own, reads tables of lakes that are written here, and what it writes is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("polars")
pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

import polars as pl

from sqlstream.planning import plan_file
from tests.connectors.iceberg.tables import OPTIONS, table
from tests.properties.in_process import run_here

_KINDS = ("delta", "iceberg")
_FILES = "'connector' = 'filesystem', 'path' = 'in', 'format' = 'json'"
_SOURCE = f"CREATE TABLE t (k BIGINT, v STRING, d DATE) WITH ({_FILES});\n"


def _options(kind: str) -> str:
    return (
        "'connector' = 'delta', 'table-path' = 'table'" if kind == "delta" else OPTIONS.format(name="table")
    )


@pytest.fixture(autouse=True)
def planned_by_pyiceberg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # its own planner is another package


def _rows(kind: str, folder: Path, *columns: str) -> list[Any]:
    """What Polars finds."""
    if kind == "delta":
        scan = pl.scan_delta(str(folder / "table"))
    else:
        scan = pl.scan_iceberg(table(folder).metadata_location)
    found: list[Any] = scan.select(*columns).sort(*columns).collect().rows()
    return found


def _input(folder: Path, number: int) -> list[dict[str, Any]]:
    (folder / "in").mkdir(exist_ok=True)
    rows = [{"k": k % 20, "v": f"é{number}-{k % 3}", "d": f"2024-01-{1 + k % 3:02d}"} for k in range(60)]
    (folder / "in" / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return rows


@pytest.mark.parametrize("kind", _KINDS)
def test_tables_by_key_are_read(kind: str, tmp_path: Path) -> None:
    text = (
        f"{_SOURCE}CREATE TABLE o (k BIGINT, n BIGINT, last STRING, d DATE, PRIMARY KEY (k) NOT ENFORCED) "
        f"PARTITIONED BY (d) WITH ({_options(kind)}, 'auto-compaction' = 'true');\n"
        "INSERT INTO o SELECT k, COUNT(*), MAX(v), MAX(d) FROM t GROUP BY k;\n"
    )
    for number in range(3):
        rows = _input(tmp_path, number)
        run_here(plan_file(text, file="p.sql"), tmp_path, rows_per_epoch=20)
        last = {k: max(row["v"] for row in rows if row["k"] == k) for k in range(20)}
        wanted = [(k, 3 * (number + 1), last[k]) for k in range(20)]
        assert _rows(kind, tmp_path, "k", "n", "last") == wanted


@pytest.mark.parametrize("options", ["", ", 'auto-compaction' = 'true', 'compaction.file-size' = '1 mb'"])
@pytest.mark.parametrize("column", ["p", "é", "Day.of-week"])
def test_values_of_partitions_are_read(column: str, options: str, tmp_path: Path) -> None:
    """Polars takes them from the names of the folders that files are in, not from Delta's log."""
    (tmp_path / "in").mkdir()
    values = ["a/b=c%d e", "ü", "..", "q'\"{}\\:?*#+&", None, "2024-01-01", "%41"]
    text = (
        f"CREATE TABLE t (k BIGINT, v STRING) WITH ({_FILES});\n"
        f"CREATE TABLE o (k BIGINT, `{column}` STRING, n INT) PARTITIONED BY (`{column}`, n) "
        f"WITH ({_options('delta')}{options});\nINSERT INTO o SELECT k, v, CAST(k AS INT) % 2 FROM t;\n"
    )
    wanted = []
    for number in range(60 if options else 2):
        rows = [(number * 10 + i, value) for i, value in enumerate(values)]
        lines = "".join(json.dumps({"k": k, "v": v}) + "\n" for k, v in rows)
        (tmp_path / "in" / f"{number:03d}.json").write_text(lines)
        wanted += [(k, v, k % 2) for k, v in rows]
    run_here(plan_file(text, file="p.sql"), tmp_path, rows_per_epoch=len(values))
    assert _rows("delta", tmp_path, "k", column, "n") == wanted
    if options:
        made = list((tmp_path / "table").rglob("part-compacted-*.parquet"))
        assert len(made) == len(values)


@pytest.mark.parametrize("kind", _KINDS)
def test_rows_of_both_are_in_one_table(kind: str, tmp_path: Path) -> None:
    """Rows that are added here, and by Polars, are read by either."""
    write = f"{_SOURCE}CREATE TABLE o (k BIGINT, v STRING) WITH ({_options(kind)});\nINSERT INTO o SELECT k, v FROM t;\n"
    read = (
        f"CREATE TABLE o (k BIGINT, v STRING) WITH ({_options(kind)});\nCREATE TABLE f (k BIGINT, v STRING) "
        "WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');\nINSERT INTO f SELECT k, v FROM o;\n"
    )
    wanted: list[Any] = []
    for number in range(2):
        wanted += [(row["k"], row["v"]) for row in _input(tmp_path, number)]
        run_here(plan_file(write, file="p.sql"), tmp_path, rows_per_epoch=20)
        theirs = pl.DataFrame({"k": [100 + number], "v": ["theirs"]})
        if kind == "delta":
            theirs.write_delta(str(tmp_path / "table"), mode="append")
        else:
            theirs.write_iceberg(table(tmp_path), mode="append")
        wanted.append((100 + number, "theirs"))
        assert _rows(kind, tmp_path, "k", "v") == sorted(wanted)
        run_here(plan_file(read, file="r.sql"), tmp_path, state="reader")
        lines = [json.loads(line) for one in (tmp_path / "out").glob("*.json") for line in one.open()]
        assert sorted((line["k"], line["v"]) for line in lines) == sorted(wanted)
