"""Every type into every sink: what was written can be read and is the value, or the query is refused before it runs."""

from __future__ import annotations

import ast
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.connectors.filesystem.batch import batch_select
from sqlstream.planning import plan_file
from sqlstream_planner.catalog.descriptor import BatchFiles
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_server import Database
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
    "enum": "CAST('b' AS ENUM('b', 'a'))",
    "array of enums": "[CAST('b' AS ENUM('b', 'a'))]",
    "timetz": "TIMETZ '12:30:00.5+02:30'",
    "bits": "CAST('0101' AS BIT)",
    "struct of bits": "{'b': CAST('1' AS BIT), 'z': [TIMETZ '12:30:00+02']}",
    "timestamp_ns": "TIMESTAMP_NS '2024-01-31 12:30:00.123456789'",
    "null": "CAST(NULL AS VARCHAR)",
    "empty array": "CAST([] AS VARCHAR[])",
    "empty map": "CAST(MAP {} AS MAP(VARCHAR, VARCHAR))",
}
REFUSED = {("parquet", "interval"), ("parquet", "array of intervals"), ("postgres", "timestamp_ns")}
#: What Parquet has no type for is kept as another one.
OTHERWISE = {("parquet", "hugeint"), ("parquet", "json"), ("parquet", "uuid"), ("parquet", "struct")}
OTHERWISE |= {("parquet", "timetz"), ("parquet", "struct of bits")}


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


def _rows(value: str, shown: str = "z") -> list[Any]:
    with duckdb.connect() as con:
        con.execute("SET TimeZone = 'UTC'")
        rows = con.execute(
            f"SELECT {shown} FROM (SELECT {value} AS z FROM (VALUES (1), (CAST(NULL AS INTEGER))) AS t(k))"
        ).fetchall()
    return [row[0] for row in rows] if shown == "z" else rows


def _values(value: str, shown: str = "z") -> list[str]:
    return _asked(
        f"SELECT {shown} FROM (SELECT {value} AS z FROM (VALUES (1), (CAST(NULL AS INTEGER))) AS t(k))"
    )


@pytest.mark.sampled(2)
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
    otherwise = {"timestamptz": "replace(CAST(z AS VARCHAR), '+00', 'Z')", "blob": "to_base64(z)"}
    assert _asked(f"SELECT z FROM {read}") == _values(VALUES[name], otherwise.get(name, "CAST(z AS VARCHAR)"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("CAST('2024-01-31 12:30:00.5+02:30' AS TIMESTAMPTZ)", "2024-01-31 10:00:00.5Z"),
        ("CAST('0044-03-15 (BC) 00:00:00+00' AS TIMESTAMPTZ)", "0044-03-15 (BC) 00:00:00Z"),
        ("CAST('-infinity' AS TIMESTAMPTZ)", "-infinity"),
        ("CAST(NULL AS TIMESTAMPTZ)", None),
    ],
)
def test_instants_are_written_as_flink_writes_them_and_read_again(
    value: str, text: str | None, tmp_path: Path
) -> None:
    """Flink's JSON and CSV read an instant by a pattern that ends with Z."""
    for format_, read in (("json", "read_json"), ("csv", "read_csv")):
        folder = tmp_path / format_
        folder.mkdir()
        _written(folder, value, f"'connector' = 'filesystem', 'path' = 'out', 'format' = '{format_}'")
        columns = "columns = {'z': 'VARCHAR'}"
        more = ", header = false, nullstr = ''" if format_ == "csv" else ""
        assert _asked(f"SELECT z FROM {read}('{folder}/out/*', {columns}{more})") == [str((text,))] * 2
        again = f"{read}('{folder}/out/*', columns = {{'z': 'TIMESTAMPTZ'}}{more})"
        assert _asked(f"SELECT z FROM {again}") == _values(value)


def _no_json(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


#: Floating point values as JSON has them, and as they are read back.
FLOATS = {
    "CAST('nan' AS DOUBLE)": "DOUBLE",
    "CAST('inf' AS FLOAT)": "FLOAT",
    "CASE WHEN k = 1 THEN CAST('-inf' AS DOUBLE) END": "DOUBLE",
    "[CAST('nan' AS DOUBLE), NULL, 1.5, CAST('-inf' AS DOUBLE)]": "ARRAY<DOUBLE>",
    "{'a': CAST('inf' AS DOUBLE), 'b': NULL::DOUBLE, 'c': [CAST('nan' AS FLOAT)]}": (
        "ROW<a DOUBLE, b DOUBLE, c ARRAY<FLOAT>>"
    ),
    "[{'a': CAST('inf' AS DOUBLE)}]": "ARRAY<ROW<a DOUBLE>>",
    "MAP {'x': CAST('nan' AS DOUBLE)}": "MAP<STRING, DOUBLE>",
    "MAP {CAST('inf' AS DOUBLE): 'x'}": "MAP<DOUBLE, STRING>",
    "CAST(k AS DOUBLE) / 3": "DOUBLE",
    "CAST(0.1 AS FLOAT)": "FLOAT",
    "{'a': CAST(0.1 AS FLOAT), 'b': [CAST(16777217 AS FLOAT), NULL], 'c': MAP {CAST(3e-9 AS FLOAT): CAST(1e20 AS FLOAT)}}": (
        "ROW<a FLOAT, b ARRAY<FLOAT>, c MAP<FLOAT, FLOAT>>"
    ),
    "CAST(1e300 AS DOUBLE) * k": "DOUBLE",
}


@pytest.mark.parametrize(
    "format_", ["json", "changelog-json", "debezium-json", "json.encode.ignore-null-fields"]
)
@pytest.mark.parametrize("value", FLOATS)
@pytest.mark.sampled(4)
def test_what_is_not_finite_is_json_and_is_read_back(value: str, format_: str, tmp_path: Path) -> None:
    options = "'connector' = 'filesystem', 'path' = 'out', 'format' = "
    options += f"'{format_}'" if "." not in format_ else f"'json', '{format_}' = 'true'"
    _written(tmp_path, value, options)
    [file] = (tmp_path / "out").glob("*.json*")
    for line in file.read_text().splitlines():
        json.loads(line, parse_constant=_no_json)
    (tmp_path / "q.sql").write_text(
        f"CREATE TABLE t (z {FLOATS[value]}) WITH ({options});\n"
        "CREATE TABLE back WITH ('connector' = 'duckdb', 'path' = 'o.duckdb', 'table-name' = 'o') AS SELECT z FROM t;\n"
    )
    run_here(plan_file(tmp_path / "q.sql"), tmp_path, state="back")
    with duckdb.connect(str(tmp_path / "o.duckdb")) as con:
        read = sorted(repr(row) for row in con.execute("SELECT z FROM o").fetchall())
    assert read == _values(value)


def test_a_float_has_the_digits_of_a_float(tmp_path: Path) -> None:
    """As in Flink, where DuckDB shows the double that is next to it."""
    value = "{'a': CAST(0.1 AS FLOAT), 'b': [CAST(2.7e-9 AS FLOAT)], 'c': 0.1::DOUBLE}"
    _written(tmp_path, value, "'connector' = 'filesystem', 'path' = 'out', 'format' = 'json'")
    [file] = (tmp_path / "out").glob("*.json")
    assert file.read_text().splitlines() == ['{"z":{"a":0.1,"b":[2.7e-9],"c":0.1}}'] * 2


def test_bytes_in_text_are_base64_to_us_and_to_the_referee(tmp_path: Path) -> None:
    """As in Flink; also what DuckDB's batch SQL makes of the files."""
    for format_ in ("csv", "json", "changelog-json"):
        folder = tmp_path / format_
        folder.mkdir()
        options = f"'connector' = 'filesystem', 'path' = 'out', 'format' = '{format_}'"
        _written(folder, "'\\x00\\xFF,'::BLOB", options)
        [file] = (folder / "out").glob("part-*")
        assert all("AP8s" in line for line in file.read_text().splitlines())
        (folder / "q.sql").write_text(
            f"CREATE TABLE t (z BYTES) WITH ({options});\nCREATE TABLE back WITH ('connector' = 'duckdb', "
            "'path' = 'o.duckdb', 'table-name' = 'o') AS SELECT octet_length(z) AS n, z FROM t;\n"
        )
        planned = plan_file(folder / "q.sql")
        run_here(planned, folder, state="back")
        with duckdb.connect(str(folder / "o.duckdb")) as con:
            assert con.execute("SELECT n, z FROM o").fetchall() == [(3, b"\x00\xff,")] * 2
        select = batch_select(planned.physical.sources[0], BatchFiles((str(file),), False))
        assert duckdb.sql(select).select("z").fetchall() == [(b"\x00\xff,",)] * 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", ["json", "changelog-json"])
@pytest.mark.parametrize("name", VALUES)
def test_json(name: str, format_: str, tmp_path: Path) -> None:
    _written(tmp_path, VALUES[name], f"'connector' = 'filesystem', 'path' = 'out', 'format' = '{format_}'")
    lines = [
        json.loads(line, parse_constant=_no_json)
        for f in (tmp_path / "out").glob("*.json*")
        for line in f.read_text().splitlines()
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
@pytest.mark.sampled(2)
def test_duckdb(name: str, tmp_path: Path) -> None:
    _written(tmp_path, VALUES[name], "'connector' = 'duckdb', 'path' = 'out.duckdb', 'table-name' = 'out'")
    with duckdb.connect(str(tmp_path / "out.duckdb")) as con:
        con.execute("SET TimeZone = 'UTC'")
        assert sorted(repr(row) for row in con.execute("SELECT z FROM out").fetchall()) == _values(
            VALUES[name]
        )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", VALUES)
def test_print(name: str, tmp_path: Path) -> None:
    printed = _written(tmp_path, VALUES[name], "'connector' = 'print'")
    lines = [line.removeprefix("+I").strip() for line in printed.splitlines() if line.startswith("+I")]
    texts = [eval(row)[0] for row in _values(VALUES[name], "CAST(z AS VARCHAR)")]
    if "\n" not in "".join(t or "" for t in texts):
        assert sorted(lines) == sorted("NULL" if t is None else t for t in texts)


#: What is `jsonb` in PostgreSQL.
AS_JSONB = {"struct of bits", "json", "array of structs", "map", "map of numbers", "struct", "empty map"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", VALUES)
def test_postgres(name: str, tmp_path: Path, database: Database) -> None:
    options = f"'connector' = 'postgres', 'url' = '{database.url}', 'table-name' = 'out'"
    if ("postgres", name) in REFUSED:
        with pytest.raises(DiagnosticError, match="a table of the connector 'postgres' can't hold"):
            _written(tmp_path, VALUES[name], options)
        return
    _written(tmp_path, VALUES[name], options)
    shown = "CAST(z AS VARCHAR)" if name not in AS_JSONB else "CAST(to_json(z) AS VARCHAR)"
    if name in ("interval", "array of intervals"):  # text of an interval is each system's own
        wanted = ["1 year 2 mons 3 days 00:00:01.5"] * 2 if name == "interval" else ['{"1 day"}'] * 2
        assert [text for (text,) in database.rows("SELECT z::text FROM out")] == wanted
        return
    given = [value for (value,) in database.rows("SELECT z FROM out")]
    if name in AS_JSONB:
        texts = [ast.literal_eval(row)[0] for row in _values(_IN_JSON.get(name, VALUES[name]), shown)]
        expected = [None if text is None else json.loads(text) for text in texts]
    else:
        expected = _rows(_IN_POSTGRES.get(name, VALUES[name]))
    assert len(given) == 2
    # NaN is not itself.
    assert sorted(map(_text, given)) == sorted(map(_text, expected))


def _text(value: Any) -> str:
    """Equal for NaNs, for 1 and Decimal(1), and for objects whose keys are in another order."""
    return json.dumps(value, sort_keys=True, default=str) if isinstance(value, dict | list) else str(value)


#: PostgreSQL has times of day with an offset as text.
_IN_POSTGRES = {"timetz": f"CAST({VALUES['timetz']} AS VARCHAR)"}
#: PostgreSQL has bytes inside of JSON as base64.
_IN_JSON = {"struct": VALUES["struct"].replace("encode('x')", "to_base64(encode('x'))")}


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("'a' || chr(0)", "0x00"),
        ("[chr(0)]", "0x00"),
        ("{'a': chr(0)}", "u0000"),
        ("DATE '290000-12-22 (BC)'", "date"),
        ("TIMESTAMP '290000-12-22 (BC) 00:00:00'", "timestamp"),
        ("CAST('{\"a\": NaN}' AS JSON)", "NaN"),
    ],
)
def test_what_postgres_can_not_have_is_told(
    value: str, named: str, tmp_path: Path, database: Database
) -> None:
    options = f"'connector' = 'postgres', 'url' = '{database.url}', 'table-name' = 'out'"
    with pytest.raises(DiagnosticError) as raised:
        _written(tmp_path, value, options)
    [told] = raised.value.diagnostics
    assert told.code == "DAT002"
    assert named in told.message
    assert database.rows("SELECT count(*) FROM out") == [(0,)]


@pytest.mark.parametrize(
    "value",
    [
        "CAST('infinity' AS DATE)",
        "CAST('-infinity' AS TIMESTAMP)",
        "CAST('infinity' AS TIMESTAMPTZ)",
        "DATE '4713-01-01 (BC)'",
        "DATE '12345-06-07'",
        "CAST('170141183460469231731687303715884105727' AS HUGEINT)",
        "CAST('-170141183460469231731687303715884105728' AS HUGEINT)",
        "CAST('18446744073709551615' AS UBIGINT)",
        "CAST('99999999999999999999999999999999999999' AS DECIMAL(38, 0))",
        "CAST('nan' AS FLOAT)",
        "TIME '24:00:00'",
        "CAST('-infinity' AS DOUBLE)",
        "INTERVAL '100000' YEAR",
        "'\U0001f469\u200d\U0001f467'",
    ],
)
def test_extreme_values_in_postgres(value: str, tmp_path: Path, database: Database) -> None:
    options = f"'connector' = 'postgres', 'url' = '{database.url}', 'table-name' = 'out'"
    _written(tmp_path, value, options)
    [given] = {text for (text,) in database.rows("SELECT z::text FROM out")}
    [wanted] = {text for (text,) in _rows(value, "CAST(z AS VARCHAR)")}
    spelled = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(wanted, wanted)
    zone = spelled.removesuffix("+00")
    assert given.removesuffix("+00") == zone.replace(" (BC)", " BC")
