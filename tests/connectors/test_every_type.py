"""Every type into every sink: what was written can be read and is the value, or the query is refused before it runs."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from tests.properties.in_process import run_here

#: What a value is called -> a value of `k` (1, and then NULL) as the pipeline computes it, and as DuckDB does.
VALUES = {
    "boolean": "k = 1",
    "tinyint": "CAST(k AS TINYINT)",
    "smallint": "CAST(k AS SMALLINT)",
    "integer": "k",
    "bigint": "CAST(k AS BIGINT)",
    "hugeint": "CAST(k AS HUGEINT) * 100000000000000000000",
    "utinyint": "CAST(k AS UTINYINT)",
    "usmallint": "CAST(k AS USMALLINT)",
    "uinteger": "CAST(k AS UINTEGER)",
    "ubigint": "CAST(k AS UBIGINT)",
    "float": "CAST(k AS FLOAT) / 4",
    "double": "CAST(k AS DOUBLE) / 4",
    "nan": "CAST('nan' AS DOUBLE)",
    "infinity": "CAST('-inf' AS DOUBLE)",
    "decimal": "CAST(k AS DECIMAL(38, 10))",
    "text": "'a,\"b\n' || k",
    "empty text": "''",
    "blob": "encode('é' || k)",
    "date": "DATE '2024-01-31'",
    "time": "TIME '12:30:00.123456'",
    "timestamp": "TIMESTAMP '2024-01-31 12:30:00.123456'",
    "timestamptz": "CAST('2024-01-31 12:30:00.123456' AS TIMESTAMPTZ)",
    "interval": "INTERVAL '14' MONTH + INTERVAL '3' DAY + INTERVAL '1500' MILLISECOND",
    "uuid": "CAST('12345678-1234-1234-1234-123456789012' AS UUID)",
    "json": "CAST('{\"a\": 1}' AS JSON)",
    "array": "[k, NULL]",
    "array of structs": "[{'a': k}]",
    "array of intervals": "[INTERVAL '1' DAY]",
    "map": "MAP {'a': k}",
    "map of numbers": "MAP {1: k}",
    "struct": "{'a': k, 'b': [NULL, 'x'], 't': TIME '12:30:00', 'h': CAST(k AS HUGEINT), 'y': encode('x')}",
    "null": "CAST(NULL AS VARCHAR)",
    "empty array": "CAST([] AS VARCHAR[])",
    "empty map": "CAST(MAP {} AS MAP(VARCHAR, VARCHAR))",
}
REFUSED = {("parquet", "interval"), ("parquet", "array of intervals")}
#: What Parquet has no type for is kept as another one.
OTHERWISE = {("parquet", "hugeint"), ("parquet", "json"), ("parquet", "uuid"), ("parquet", "struct")}


def _written(folder: Path, value: str, options: str) -> str:
    """Runs a pipeline that writes `value` twice, for k = 1 and k = NULL; what it printed."""
    (folder / "in").mkdir()
    (folder / "in" / "0.json").write_text('{"k": 1}\n{"k": null}\n')
    (folder / "p.sql").write_text(
        "CREATE TABLE t (k INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
        f"CREATE TABLE out WITH ({options}) AS SELECT {value} AS z FROM t;\n"
    )
    printed = io.StringIO()
    planned = plan_file(folder / "p.sql")
    with redirect_stdout(printed):
        run_here(planned, folder)
    return printed.getvalue()


def _asked(sql: str) -> list[str]:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        return sorted(repr(row) for row in con.execute(sql).fetchall())


def _values(value: str, shown: str = "z") -> list[str]:
    return _asked(
        f"SELECT {shown} FROM (SELECT {value} AS z FROM (VALUES (1), (CAST(NULL AS INTEGER))) AS t(k))"
    )


@pytest.mark.parametrize("name", VALUES)
def test_parquet(name: str, tmp_path: Path) -> None:
    options = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'parquet'"
    if ("parquet", name) in REFUSED:
        with pytest.raises(DiagnosticError) as raised:
            _written(tmp_path, VALUES[name], options)
        [refused] = raised.value.diagnostics
        assert (refused.code, "INTERVAL" in refused.message) == ("SQL053", True)
        return
    _written(tmp_path, VALUES[name], options)
    file = f"read_parquet('{tmp_path}/out/*.parquet')"
    if ("parquet", name) in OTHERWISE:
        text = "CAST(z AS VARCHAR)"
        assert _asked(f"SELECT {text} FROM {file}") == _values(VALUES[name], text)
    else:
        assert _asked(f"SELECT z FROM {file}") == _values(VALUES[name])


@pytest.mark.parametrize("name", VALUES)
def test_csv(name: str, tmp_path: Path) -> None:
    _written(tmp_path, VALUES[name], "'connector' = 'filesystem', 'path' = 'out', 'format' = 'csv'")
    read = (
        f"read_csv('{tmp_path}/out/*.csv', header = false, columns = {{'z': 'VARCHAR'}}, all_varchar = true, "
    )
    read += "quote = '\"', escape = '\"', nullstr = '', allow_quoted_nulls = false, delim = ',', parallel = false)"
    assert _asked(f"SELECT z FROM {read}") == _values(VALUES[name], "CAST(z AS VARCHAR)")


@pytest.mark.parametrize("format_", ["json", "changelog-json"])
@pytest.mark.parametrize("name", VALUES)
def test_json(name: str, format_: str, tmp_path: Path) -> None:
    _written(tmp_path, VALUES[name], f"'connector' = 'filesystem', 'path' = 'out', 'format' = '{format_}'")
    lines = [
        json.loads(line) for f in (tmp_path / "out").glob("*.json*") for line in f.read_text().splitlines()
    ]
    rows = [line if format_ == "json" else line["data"] for line in lines]
    assert [set(row) for row in rows] == [{"z"}, {"z"}]
    if (
        "interval" not in name
        and "blob" not in name
        and name not in ("struct", "nan", "infinity", "timestamptz")
    ):
        wanted = _values(VALUES[name], "CAST(to_json(z) AS VARCHAR)")
        plain = [None if text == "(None,)" else json.loads(eval(text)[0]) for text in wanted]
        given = [str(row["z"]) if name == "timestamp" else row["z"] for row in rows]
        assert sorted(map(repr, given)) == sorted(map(repr, plain))


@pytest.mark.parametrize("name", VALUES)
def test_duckdb(name: str, tmp_path: Path) -> None:
    _written(tmp_path, VALUES[name], "'connector' = 'duckdb', 'path' = 'out.duckdb', 'table-name' = 'out'")
    with duckdb.connect(str(tmp_path / "out.duckdb")) as con:
        con.execute("SET TimeZone = 'UTC'")
        assert sorted(repr(row) for row in con.execute("SELECT z FROM out").fetchall()) == _values(
            VALUES[name]
        )


@pytest.mark.parametrize("name", VALUES)
def test_print(name: str, tmp_path: Path) -> None:
    printed = _written(tmp_path, VALUES[name], "'connector' = 'print'")
    lines = [line.removeprefix("+I").strip() for line in printed.splitlines() if line.startswith("+I")]
    texts = [eval(row)[0] for row in _values(VALUES[name], "CAST(z AS VARCHAR)")]
    if "\n" not in "".join(t or "" for t in texts):
        assert sorted(lines) == sorted("NULL" if t is None else t for t in texts)
