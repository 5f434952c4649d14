"""Avro's container files: read as fastavro reads them, written so that it can, cut, damaged, and of changing schemas."""

from __future__ import annotations

import io
import json
import random
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import fs

from sqlstream.connectors.api import Limits
from sqlstream.connectors.filesystem.file_ranges import FileRange
from sqlstream.connectors.filesystem.source import FileSource
from sqlstream.formats.avro import files
from sqlstream.formats.avro.borders import BorderError, Borders
from sqlstream.formats.avro.schema import parse_schema
from sqlstream.planning import plan_file
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.harness import context, read_all, source_spec
from tests.formats.avro_rows import columns, record, written
from tests.properties.in_process import run_here

TYPES = {"id": "BIGINT", "name": "VARCHAR", "tags": "VARCHAR[]", "price": "DOUBLE"}
SCHEMA = record(
    ("id", "long"),
    ("name", ["null", "string"]),
    ("tags", {"type": "array", "items": "string"}),
    ("price", "double"),
)


def rows_of(count: int, seed: int = 1) -> list[dict[str, Any]]:
    rnd = random.Random(seed)
    return [
        {
            "id": rnd.choice([n, -n, 2**62 + n]),
            "name": rnd.choice(
                [None, "", "ä" * rnd.choice([1, 31, 32, 63, 64, 90]), "x" * rnd.randrange(300)]
            ),
            "tags": ["t" * rnd.randrange(3)] * rnd.choice([0, 0, 1, 70]),
            "price": rnd.random(),
        }
        for n in range(count)
    ]


def put(path: Path, rows: list[dict[str, Any]], schema: Any = SCHEMA, **options: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(json.loads(json.dumps(schema))), rows, **options)


def spec(types: dict[str, str] | None = None, path: str = "d", **options: str) -> Any:
    return source_spec(types or TYPES, {f"avro.{k}": v for k, v in options.items()}, path=path, format="avro")


def tuples(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows]


def sunk(path: Path, types: dict[str, str], rows: dict[str, list[Any]], **options: str) -> None:
    declared = columns(types)
    table = pa.table({c.name: pa.array(rows[c.name], to_arrow(c.type)) for c in declared})
    files.write(
        fs.LocalFileSystem(), str(path), table, declared, {f"avro.{k}": v for k, v in options.items()}
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
@pytest.mark.parametrize("sync_interval", [1, 500, 16_000])
def test_read_as_fastavro_wrote_it(tmp_path: Path, duck: DuckSession, codec: str, sync_interval: int) -> None:
    rows = rows_of(300)
    put(tmp_path / "d/a.avro", rows, codec=codec, sync_interval=sync_interval)
    put(tmp_path / "d/b.avro", rows[:2], codec=codec)
    put(tmp_path / "d/c.avro", [], codec=codec)
    assert read_all(duck, spec(), context(tmp_path)).rows == tuples(rows + rows[:2])


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_what_is_written_is_read(tmp_path: Path, duck: DuckSession, codec: str) -> None:
    rows = rows_of(2000)
    (tmp_path / "d").mkdir()
    sunk(tmp_path / "d/a", TYPES, {name: [row[name] for row in rows] for name in TYPES}, codec=codec)
    assert read_all(duck, spec(), context(tmp_path)).rows == tuples(rows)
    if codec not in ("snappy", "zstandard"):  # fastavro needs another package for these
        with (tmp_path / "d/a").open("rb") as file:
            assert list(fastavro.reader(file)) == rows


def test_the_default_codec_is_that_of_flink(tmp_path: Path) -> None:
    sunk(tmp_path / "a", {"a": "BIGINT"}, {"a": [1]})
    assert b"avro.codec\x0csnappy" in (tmp_path / "a").read_bytes()


def test_limits_of_rows_hold_and_places_are_rows(tmp_path: Path, duck: DuckSession) -> None:
    rows = rows_of(100)
    put(tmp_path / "d/a.avro", rows[:60], sync_interval=300)
    put(tmp_path / "d/b.avro", rows[60:], sync_interval=100_000)
    read = read_all(duck, spec(), context(tmp_path), Limits(rows=7))
    assert read.rows == tuples(rows)
    assert [sum(split.rows or 0 for split in splits) for splits in read.splits] == [7] * 14 + [2]


def test_large_files_are_cut_between_blocks(tmp_path: Path, duck: DuckSession) -> None:
    rows = [{"id": n, "name": f"{n:0>500}"} for n in range(30_000)]
    schema = record(("id", "long"), ("name", "string"))
    put(tmp_path / "d/a.avro", rows, schema, sync_interval=64_000)
    types = {"id": "BIGINT", "name": "VARCHAR"}
    read = read_all(duck, spec(types), context(tmp_path), Limits(tasks=3))
    assert read.rows == tuples(rows)
    assert len(read.splits[0]) == 3
    with (tmp_path / "d/a.avro").open("rb") as file:
        begins = {0}
        for block in fastavro.block_reader(file):
            begins.add(max(begins) + block.num_records)
    for split in read.splits[0]:
        assert FileRange.from_json(split.payload["ranges"][0], "").start in begins


def test_files_of_several_schemas_are_read_as_one_table(tmp_path: Path, duck: DuckSession) -> None:
    put(tmp_path / "d/1", [{"a": 1, "gone": "x"}], record(("a", "int"), ("gone", "string")))
    put(tmp_path / "d/2", [{"b": "y", "a": 2}], record(("b", "string"), ("a", "long")))
    types = {"a": "BIGINT", "b": "VARCHAR"}
    assert read_all(duck, spec(types), context(tmp_path)).rows == [(1, None), (2, "y")]
    reader = record(
        ("a", "long"), {"name": "b", "type": "string", "default": "none", "aliases": ["gone"]}, name="t"
    )
    given = spec(types, schema=json.dumps(reader))
    assert read_all(duck, given, context(tmp_path, "other")).rows == [(1, "x"), (2, "y")]


def test_a_schema_that_the_table_is_not_of_is_an_error(tmp_path: Path, duck: DuckSession) -> None:
    put(tmp_path / "d/1", [{"a": "x"}], record(("a", "string")))
    with pytest.raises(
        InputFileError, match=r"d/1: its schema is not the table's: a: string can't be read as BIGINT"
    ):
        read_all(duck, spec({"a": "BIGINT"}), context(tmp_path))


def test_values_that_the_column_can_not_have_are_bad_rows(tmp_path: Path, duck: DuckSession) -> None:
    schema = record(("a", "int"), ("b", "string"))
    rows = [{"a": n, "b": "x"} for n in (1, 70_000, 3, -70_000)]
    put(tmp_path / "d/1", rows, schema)
    read = read_all(duck, spec({"a": "SMALLINT", "b": "VARCHAR"}), context(tmp_path))
    assert read.rows == [(1, "x"), (3, "x")]
    expected = [data.hex() for data in written(schema, rows)]
    assert [(bad.line, bad.raw) for bad in read.bad] == [(2, expected[1]), (4, expected[3])]
    assert "70000 is not within" in read.bad[0].reason


def test_damage_anywhere_is_an_error_or_another_value(tmp_path: Path, duck: DuckSession) -> None:
    """Whatever byte is another one, and wherever a file ends: rows, bad rows or an error, never a crash."""
    rows = rows_of(40)
    whole = io.BytesIO()
    fastavro.writer(whole, fastavro.parse_schema(SCHEMA), rows, sync_interval=400)
    data = whole.getvalue()
    rnd = random.Random(3)
    (tmp_path / "d").mkdir()
    errors = 0
    for n in range(150):
        at = rnd.randrange(len(data))
        if n % 2:
            damaged = data[:at]
        else:
            damaged = data[:at] + bytes([data[at] ^ (1 << rnd.randrange(8))]) + data[at + 1 :]
        (tmp_path / f"d/{n}").write_bytes(damaged)
        try:
            read = read_all(duck, spec(path=f"d/{n}"), context(tmp_path, f"state{n}"))
        except (DataError, DiagnosticError):
            errors += 1
        else:
            assert len(read.rows) + len(read.bad) <= len(rows)
    assert errors > 75


@pytest.mark.parametrize("damage", [b"", b"Obj\x01", b"not avro at all", b"Obj\x01\x00" + b"m" * 16])
def test_what_is_no_container_is_named(tmp_path: Path, duck: DuckSession, damage: bytes) -> None:
    (tmp_path / "a.avro").write_bytes(damage)
    with pytest.raises(DataError, match=r"a\.avro: not a readable Avro file"):
        read_all(duck, spec(path="a.avro"), context(tmp_path))


def test_an_unknown_codec_is_named(tmp_path: Path, duck: DuckSession) -> None:
    put(tmp_path / "a.avro", rows_of(1))
    data = (tmp_path / "a.avro").read_bytes().replace(b"avro.codec\x08null", b"avro.codec\x08lzma")
    (tmp_path / "a.avro").write_bytes(data)
    with pytest.raises(DataError, match="compressed as 'lzma', not as null, deflate, snappy"):
        read_all(duck, spec(path="a.avro"), context(tmp_path))


def test_a_file_is_whole_when_it_ends_with_its_marker(tmp_path: Path) -> None:
    put(tmp_path / "a.avro", rows_of(20), sync_interval=200)
    assert files.is_whole(tmp_path / "a.avro")
    (tmp_path / "b.avro").write_bytes((tmp_path / "a.avro").read_bytes()[:-1])
    assert not files.is_whole(tmp_path / "b.avro")


def test_a_row_in_the_middle_is_found_by_halves(tmp_path: Path, duck: DuckSession) -> None:
    from sqlstream.connectors.filesystem.reader import FileReader

    put(tmp_path / "d/a.avro", rows_of(10), sync_interval=100)
    source = FileSource(spec(), context(tmp_path))
    split = source.plan(source.initial_position(), Limits()).splits[0]
    reader = FileReader(spec(), str(tmp_path))
    while halves := reader.halves(split):
        split = halves[-1]
    assert reader.place(split).endswith("d/a.avro, row 10")


def test_a_pipeline_from_avro_to_avro(tmp_path: Path) -> None:
    """With types that have no like in Arrow, columns of folders and metadata."""
    (tmp_path / "in.json").write_text('{"k": 1, "day": "2024-01-02"}\n{"day": "2024-01-03"}\n')
    values = {
        "u": ("UUID", "CAST('12345678-1234-1234-1234-123456789012' AS UUID)"),
        "d": ("DECIMAL(10, 2)", "CAST(k / 4 AS DECIMAL(10, 2))"),
        "ts": ("TIMESTAMP(3)", "CAST(day AS TIMESTAMP)"),
        "lt": ("TIMESTAMP_LTZ(3)", "CAST(day AS TIMESTAMPTZ)"),
        "b": ("BYTES", "encode('é')"),
        "a": ("ARRAY<INT>", "[k, NULL]"),
        "m": ("MAP<STRING, INT>", "MAP {'x': k}"),
        "r": ("ROW<p INT, q STRING>", "{'p': k, 'q': 'z'}"),
    }
    declared = ", ".join(f"{name} {type_}" for name, (type_, _) in values.items())
    made = ", ".join(f"{sql} AS {name}" for name, (_, sql) in values.items())
    for number, (select, source, target, format_) in enumerate(
        (
            (f"day, {made}", "'path' = 'in.json', 'format' = 'json'", "kept", "avro"),
            (f"day, {', '.join(values)}, file", "'path' = 'kept', 'format' = 'avro'", "out", "json"),
        )
    ):
        columns_ = (
            "k INT, day DATE"
            if number == 0
            else f"day DATE, {declared}, file STRING METADATA FROM 'file.name'"
        )
        folders = "PARTITIONED BY (day) " if number else ""
        written_to = "PARTITIONED BY (day) " if not number else ""
        (tmp_path / f"{number}.sql").write_text(
            f"CREATE TABLE t ({columns_}) {folders}WITH ('connector' = 'filesystem', {source});\n"
            f"CREATE TABLE s {written_to}WITH ('connector' = 'filesystem', 'path' = '{target}', "
            f"'format' = '{format_}') AS SELECT {select} FROM t;\n"
        )
        run_here(plan_file(tmp_path / f"{number}.sql"), tmp_path, state=f"state{number}")
    shown = [
        json.loads(line)
        for path in (tmp_path / "out").glob("*.json")
        for line in path.read_text().splitlines()
    ]
    same = {"u": "12345678-1234-1234-1234-123456789012", "b": "w6k="}
    first: dict[str, Any] = {"d": 0.25, "a": [1, None], "m": {"x": 1}, "r": {"p": 1, "q": "z"}}
    second: dict[str, Any] = {"d": None, "a": [None, None], "m": {"x": None}, "r": {"p": None, "q": "z"}}
    for row, day, rest in zip(
        sorted(shown, key=lambda r: r["day"]), ("02", "03"), (first, second), strict=True
    ):
        assert row.pop("file").endswith(".avro")
        at = f"2024-01-{day} 00:00:00"
        assert row == {"day": f"2024-01-{day}", **same, **rest, "ts": at, "lt": f"{at}Z"}


_SCALARS = ["null", "boolean", "int", "long", "float", "double", "string", "bytes"]


def _schema(rnd: random.Random, depth: int, names: list[int]) -> Any:
    names[0] += 1
    kinds = ["scalar"] * 4 + (["union", "array", "map", "record", "fixed", "enum"] if depth else [])
    match rnd.choice(kinds):
        case "union":
            inside = _schema(rnd, depth - 1, names)
            return ["null", inside] if inside != "null" and not isinstance(inside, list) else inside
        case "array":
            return {"type": "array", "items": _schema(rnd, depth - 1, names)}
        case "map":
            return {"type": "map", "values": _schema(rnd, depth - 1, names)}
        case "record":
            name = f"r{names[0]}"
            fields = [(f"f{n}", _schema(rnd, depth - 1, names)) for n in range(rnd.randrange(1, 4))]
            return record(*fields, name=name)
        case "fixed":
            return {"type": "fixed", "name": f"x{names[0]}", "size": rnd.randrange(1, 20)}
        case "enum":
            return {"type": "enum", "name": f"e{names[0]}", "symbols": ["A", "B", "C"]}
        case _:
            return rnd.choice(_SCALARS)


def _value(rnd: random.Random, schema: Any) -> Any:
    if isinstance(schema, list):
        return None if rnd.random() < 0.3 else _value(rnd, schema[1])
    kind = schema if isinstance(schema, str) else schema["type"]
    size = rnd.choice([0, 1, 5, 63, 64, 127, 128, 200])
    match kind:
        case "null":
            return None
        case "boolean":
            return rnd.random() < 0.5
        case "int":
            return rnd.choice([0, 63, 64, -(2**31), rnd.randrange(2**31)])
        case "long":
            return rnd.choice([0, -65, 2**63 - 1, -(2**63), rnd.randrange(2**63)])
        case "float" | "double":
            return float(rnd.randrange(1000))
        case "string":
            return "a" * size
        case "bytes":
            return rnd.randbytes(size)
        case "array":
            return [_value(rnd, schema["items"]) for _ in range(rnd.choice([0, 1, 3]))]
        case "map":
            return {f"k{n}": _value(rnd, schema["values"]) for n in range(rnd.choice([0, 1, 3]))}
        case "record":
            return {f["name"]: _value(rnd, f["type"]) for f in schema["fields"]}
        case "fixed":
            return rnd.randbytes(schema["size"])
    return rnd.choice(schema["symbols"])


@pytest.mark.parametrize("seed", range(60))
def test_borders_of_records_of_any_schema(seed: int) -> None:
    rnd = random.Random(seed)
    names = [0]
    schema = record(*((f"c{n}", _schema(rnd, 3, names)) for n in range(rnd.randrange(1, 7))), name="top")
    pieces = written(schema, [_value(rnd, schema) for _ in range(rnd.randrange(1, 30))])
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    data = b"".join(pieces)
    borders = Borders(parse_schema(json.dumps(schema)))
    assert borders.of(data, len(pieces)).tolist() == ends
    if data:
        with pytest.raises(BorderError):
            borders.of(data[:-1], len(pieces))
        with pytest.raises(BorderError):
            borders.of(data + b"\x00", len(pieces))


def test_borders_of_records_that_contain_themselves() -> None:
    tree = {
        "type": "record",
        "name": "t",
        "fields": [{"name": "v", "type": "long"}, {"name": "next", "type": ["null", "t"]}],
    }
    chain: dict[str, Any] = {"v": 1, "next": {"v": 2, "next": {"v": 3, "next": None}}}
    piece = written(tree, [chain])[0]
    assert Borders(parse_schema(json.dumps(tree))).of(piece * 2, 2).tolist() == [
        0,
        len(piece),
        2 * len(piece),
    ]
    deep = b"\x02\x02" * 100_000 + b"\x02\x00"
    with pytest.raises(BorderError, match="nested too deeply"):
        Borders(parse_schema(json.dumps(tree))).of(deep, 1)


def test_items_with_their_size_before_them_are_passed_over() -> None:
    schema = parse_schema(json.dumps(record(("a", {"type": "array", "items": "long"}))))
    sized = bytes([0x03, 0x04, 0x02, 0x02, 0x00])  # -2 items in 2 bytes
    assert Borders(schema).of(sized, 1).tolist() == [0, 5]


@pytest.mark.parametrize(
    ("schema", "data", "count"),
    [
        (record(("a", "null")), b"", 2**40),
        (record(("a", "long")), b"\x00" * 9, 2**40),
        (record(("a", {"type": "array", "items": "null"})), b"\x80\x80\x80\x80\x80\x40\x00", 1),
        (record(("a", "string")), b"\x03abc", 1),
        (record(("a", ["null", "string"])), b"\x08abc", 1),
        (record(("a", "long")), b"\xff" * 11, 1),
    ],
)
def test_numbers_that_can_not_be_are_refused_at_once(schema: Any, data: bytes, count: int) -> None:
    with pytest.raises(BorderError):
        Borders(parse_schema(json.dumps(schema))).of(data, count)
