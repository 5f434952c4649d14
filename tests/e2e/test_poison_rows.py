"""A row that can't be computed with stops the run, and the message says where it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.connectors.filesystem.orders import FileOrders
from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.properties.in_process import run_here

QUERY = "SELECT k, CAST(v AS BIGINT) AS n FROM t"


def failure(
    folder: Path, format_: str, query: str = QUERY, sink: str = "", type_: str = "STRING"
) -> Diagnostic:
    where = sink or "'connector' = 'filesystem', 'path' = 'out', 'format' = 'json'"
    key = ", PRIMARY KEY (k) NOT ENFORCED" if sink else ""
    sql = (
        f"CREATE TABLE t (k STRING, v {type_}) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = '{format_}');\n"
        f"CREATE TABLE o (k STRING, n BIGINT{key}) WITH ({where});\n"
        f"INSERT INTO o {query};\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        run_here(plan_file(sql, file="p.sql"), folder)
    return caught.value.diagnostics[0]


def write(path: Path, values: list[str | None], *, keys: list[str | None] | None = None) -> Path:
    path.parent.mkdir(exist_ok=True)
    names = keys or ["a"] * len(values)
    rows = [{"k": key, "v": value} for key, value in zip(names, values, strict=True)]
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)
    elif path.suffix == ".csv":
        lines = [
            f'"two\nlines",{r["v"]}\n' if n % 7 == 3 else f"{r['k']},{r['v']}\n" for n, r in enumerate(rows)
        ]
        path.write_text("".join(lines))
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("at", [0, 1, 500, 999])
@pytest.mark.parametrize("name", ["b.json", "b.parquet", "b.csv"])
def test_the_row_is_named_by_file_and_line(tmp_path: Path, name: str, at: int) -> None:
    values: list[str | None] = [str(n) for n in range(1000)]
    for other in ("a", "c"):
        write(tmp_path / "in" / f"{other}{Path(name).suffix}", values)
    values[at] = "poison"
    path = write(tmp_path / "in" / name, values)
    format_ = path.suffix[1:]
    found = failure(tmp_path, format_)
    assert found.code == "DAT001"
    assert "poison" in found.message
    place = f"row {at + 1:,}" if format_ == "parquet" else f"line {at + 1:,}"
    if format_ == "csv":
        lines = path.read_text().split("\n")
        place = f"line {next(n for n, line in enumerate(lines, 1) if 'poison' in line):,}"
        if at % 7 == 3:
            place = place.replace("line", "lines")
    assert found.notes[0] == f"the row is in {path}, {place}" or at % 7 == 3


@pytest.mark.parametrize("at", [0, 1, 77, 499])
def test_a_row_of_a_compressed_file_is_named_by_its_line(tmp_path: Path, at: int) -> None:
    write(tmp_path / "in/a.json.gz", ["1"])
    values: list[str | None] = [str(n) for n in range(500)]
    values[at] = "poison"
    path = write(tmp_path / "in/b.json.gz", values)
    assert failure(tmp_path, "json").notes[0] == f"the row is in {path}, line {at + 1}"


def test_of_what_can_not_be_divided_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "in/a.json.gz", ["1"])
    path = write(tmp_path / "in/b.json.gz", ["1", "poison"])
    monkeypatch.setattr("sqlstream.connectors.filesystem.narrowing._UNPACKED", 10)
    assert failure(tmp_path, "json").notes[0] == f"the row is in {path}"


def test_blank_and_malformed_lines_count_as_lines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.json").write_text('{"v": "1"}\n\nnot json\n{"v": "poison"}\n{"v": "2"}')
    assert failure(tmp_path, "json").notes[0] == f"the row is in {tmp_path}/in/a.json, line 4"


def test_rows_that_only_fail_together_are_named_together(tmp_path: Path) -> None:
    """Of a sum that overflows no single row is to blame."""
    most = "9" * 38
    path = write(tmp_path / "in/a.json", ["1", most, most, "1"])
    query = "SELECT k, CAST(SUM(CAST(v AS DECIMAL(38, 0))) % 7 AS BIGINT) FROM t GROUP BY k"
    found = failure(tmp_path, "json", query, "'connector' = 'duckdb', 'path' = 'o.db'")
    assert found.code == "DAT001"
    assert found.notes[0] == f"the row is in {path}, lines 1 to 2", "the first that overflow together"


def test_a_row_without_a_key_is_named_before_the_table_refuses_it(tmp_path: Path) -> None:
    path = write(tmp_path / "in/a.json", ["1"] * 100, keys=[None if n == 42 else str(n) for n in range(100)])
    found = failure(
        tmp_path, "json", f"{QUERY} ON CONFLICT DO ERROR", "'connector' = 'duckdb', 'path' = 'o.db'"
    )
    assert found.code == "DAT002"
    assert found.message == "table o: a row has NULL in k, which belongs to the PRIMARY KEY"
    assert found.notes[0] == f"the row is in {path}, line 43"
    assert found.help == "leave such rows out (WHERE k IS NOT NULL), or choose another key"


def test_a_group_without_a_key_is_shown(tmp_path: Path) -> None:
    write(tmp_path / "in/a.json", ["1"] * 4, keys=["a", None, None, "b"])
    found = failure(
        tmp_path, "json", "SELECT k, COUNT(*) FROM t GROUP BY k", "'connector' = 'duckdb', 'path' = 'o.db'"
    )
    assert found.code == "DAT002"
    assert found.message == "table o: a row has NULL in k, which belongs to the PRIMARY KEY: k = NULL, n = 2"
    assert found.help == "leave such rows out (WHERE k IS NOT NULL), or choose another key"


def test_without_the_file_the_run_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "in/a.json", ["1"])
    path = write(tmp_path / "in/b.json", ["poison"])
    failure(tmp_path, "json")
    sql = (
        "CREATE TABLE t (k STRING, v STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        "CREATE TABLE o (k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');\n"
        f"INSERT INTO o {QUERY};\n"
    )
    result = run_here(
        plan_file(sql, file="p.sql"), tmp_path, orders=FileOrders([("skip", str(path))], (str(tmp_path),))
    )
    assert result.rows_written == {"o": 1}


@pytest.mark.parametrize("path", ["*", "$.*", "$[*]", "$.a[*]"])
@pytest.mark.parametrize("call", ["json_extract('{\"a\": [1, 2]}', v)", "('{\"a\": [1, 2]}'::JSON ->> v)"])
def test_a_path_with_a_wildcard_from_a_column_is_a_mistake_of_the_data(
    tmp_path: Path, path: str, call: str
) -> None:
    """DuckDB takes some of these for a mistake of its own, which would end its connection."""
    write(tmp_path / "in/1.json", ["$.a", path])
    reported = failure(
        tmp_path, "json", f"SELECT k, CAST(length(CAST({call} AS STRING)) AS BIGINT) AS n FROM t"
    )
    assert reported.code == "DAT001"
