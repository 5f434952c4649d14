from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import SinkPart
from sqlstream.connectors.filesystem.sink import FileSink, FileWriter, escape
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import parse_type
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.harness import context, read_all, sink_spec, source_spec
from tests.examples import examples


def _table(schema: dict[str, str], *rows: tuple[Any, ...]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        {
            name: pa.array(list(values), to_arrow(parse_type(type_)))
            for (name, type_), values in zip(schema.items(), columns, strict=True)
        }
    )


def _visible(folder: Path) -> list[str]:
    found = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return sorted(str(p) for p in found if not any(part.startswith(".") for part in p.parts))


def _sink(spec: SinkSpec, tmp_path: Path, state: str = "state") -> FileSink:
    return FileSink(spec, context(tmp_path, state))


SCHEMA = {"k": "VARCHAR", "n": "BIGINT"}


def test_only_committed_files_are_visible(tmp_path: Path) -> None:
    spec = sink_spec(SCHEMA, path="out", format="json")
    sink, writer = _sink(spec, tmp_path), FileWriter(spec, str(tmp_path))
    sink.abort_uncommitted(0)
    parts = [writer.write(_table(SCHEMA, (f"k{i}", i)), epoch=1, task=str(i)) for i in range(2)]
    parts.append(writer.write(_table(SCHEMA), epoch=1, task="2"))
    sink.prepare(1, parts)
    assert _visible(tmp_path / "out") == []
    sink.commit(1, parts)
    assert _visible(tmp_path / "out") == ["part-000001-0.json", "part-000001-1.json"]
    assert (tmp_path / "out/part-000001-1.json").read_text() == '{"k":"k1","n":1}\n'
    assert [part.rows for part in parts] == [1, 1, 0]
    sink.commit(1, parts)
    _sink(spec, tmp_path).commit(1, parts)
    assert len(_visible(tmp_path / "out")) == 2


def test_a_crash_before_and_within_the_commit(tmp_path: Path) -> None:
    spec = sink_spec(SCHEMA, path="out", format="csv")
    writer = FileWriter(spec, str(tmp_path))
    first = _sink(spec, tmp_path)
    first.abort_uncommitted(0)
    parts = [writer.write(_table(SCHEMA, (f"k{i}", i)), epoch=1, task=str(i)) for i in range(2)]
    later = [writer.write(_table(SCHEMA, ("later", 9)), epoch=2, task="0")]
    # Killed after one of the renames of epoch 1; epoch 2 was staged, but its manifest was never published.
    first.commit(1, parts[:1])
    (tmp_path / "out/.sqlstream/committed").unlink()
    again = _sink(spec, tmp_path)
    again.commit(1, parts)
    for number in (0, 2):  # DuckDB was killed while it wrote a file for the second time
        (tmp_path / f"out/.sqlstream/staging/tmp_part-00000{number}-0.csv").touch()
    again.abort_uncommitted(1)
    assert _visible(tmp_path / "out") == ["part-000001-0.csv", "part-000001-1.csv"]
    assert list((tmp_path / "out/.sqlstream/staging").iterdir()) == []
    with pytest.raises(DataError, match="is gone"):
        again.prepare(2, later)
    replay = [writer.write(_table(SCHEMA, ("later", 9)), epoch=2, task="0")]
    assert replay == later
    again.prepare(2, replay)
    again.commit(2, replay)
    assert (tmp_path / "out/part-000002-0.csv").read_text() == "later,9\n"


def test_a_reader_may_take_committed_files_away(tmp_path: Path) -> None:
    spec = sink_spec(SCHEMA, path="out", format="json")
    sink = _sink(spec, tmp_path)
    sink.abort_uncommitted(0)
    parts = [FileWriter(spec, str(tmp_path)).write(_table(SCHEMA, ("a", 1)), epoch=1, task="0")]
    sink.commit(1, parts)
    (tmp_path / "out/part-000001-0.json").unlink()
    _sink(spec, tmp_path).commit(1, parts)
    assert not (tmp_path / "out/part-000001-0.json").exists()
    # Nor does it come back where a task of the epoch that was left over stages it once more.
    assert FileWriter(spec, str(tmp_path)).write(_table(SCHEMA, ("a", 1)), epoch=1, task="0") == parts[0]
    _sink(spec, tmp_path).commit(1, parts)
    assert not (tmp_path / "out/part-000001-0.json").exists()


def test_a_state_directory_that_was_restored_from_an_older_copy_is_told(tmp_path: Path) -> None:
    spec = sink_spec(SCHEMA, path="out", format="json")
    sink = _sink(spec, tmp_path)
    sink.abort_uncommitted(0)
    parts = [FileWriter(spec, str(tmp_path)).write(_table(SCHEMA, ("a", 1)), epoch=3, task="0")]
    sink.commit(3, parts)
    _sink(spec, tmp_path).abort_uncommitted(3)
    with pytest.raises(DataError, match="has epoch 3, but its state is at epoch 2"):
        _sink(spec, tmp_path).abort_uncommitted(2)


def test_what_says_whose_a_directory_is_is_whole_or_not_there(tmp_path: Path) -> None:
    spec = sink_spec(SCHEMA, path="out", format="json")
    _sink(spec, tmp_path).abort_uncommitted(0)
    owner = tmp_path / "out/.sqlstream/owner.json"
    content = owner.read_bytes()
    owner.write_bytes(b"")  # as a full disk left it: nobody has written a row
    _sink(spec, tmp_path).abort_uncommitted(0)
    assert owner.read_bytes() == content
    for damaged in (content[:-3], b"[]", b"\xff"):
        owner.write_bytes(damaged)
        with pytest.raises(DataError, match=r"can't be read\. .*owner\.json' is damaged"):
            _sink(spec, tmp_path).abort_uncommitted(0)


def test_two_drivers_that_commit_at_once_are_not_in_each_others_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = sink_spec(SCHEMA, path="out", format="json")
    paused, other, writer = _sink(spec, tmp_path), _sink(spec, tmp_path), FileWriter(spec, str(tmp_path))
    paused.abort_uncommitted(0)
    parts = [writer.write(_table(SCHEMA, ("k", 1)), epoch=1, task="0")]
    paused.prepare(1, parts)
    turns = iter([lambda: other.commit(1, parts)])  # while it is paused before it renames what it has written

    def synced(path: str) -> None:
        if "committed" in path:
            next(turns, lambda: None)()

    monkeypatch.setattr("sqlstream.connectors.filesystem.sink.sync", synced)
    paused.commit(1, parts)
    assert next(turns, None) is None
    assert (tmp_path / "out/.sqlstream/committed").read_text() == "1"
    assert _visible(tmp_path / "out") == ["part-000001-0.json"]
    assert not list((tmp_path / "out/.sqlstream").glob("*.new"))


def test_a_small_file_that_could_not_be_written_leaves_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = sink_spec(SCHEMA, path="out", format="json")

    def full(path: str) -> None:
        raise OSError(28, "No space left on device", path)

    with monkeypatch.context() as patched:
        patched.setattr("sqlstream.connectors.filesystem.sink.sync", full)
        with pytest.raises(OSError, match="No space left"):
            _sink(spec, tmp_path).abort_uncommitted(0)
    assert [p for p in (tmp_path / "out/.sqlstream").iterdir() if p.is_file()] == []


def test_lost_staged_files_are_an_error(tmp_path: Path) -> None:
    spec = sink_spec(SCHEMA, path="out", format="json")
    sink = _sink(spec, tmp_path)
    sink.abort_uncommitted(0)
    parts = [FileWriter(spec, str(tmp_path)).write(_table(SCHEMA, ("a", 1)), epoch=1, task="0")]
    (tmp_path / "out" / parts[0].payload["files"][0][0]).unlink()
    with pytest.raises(DataError, match="is missing: epoch 1 is committed"):
        sink.commit(1, parts)


def test_a_directory_belongs_to_one_state_directory_and_table(tmp_path: Path) -> None:
    spec = sink_spec(SCHEMA, path="out", format="json")
    _sink(spec, tmp_path).abort_uncommitted(0)
    _sink(spec, tmp_path).abort_uncommitted(0)
    with pytest.raises(DataError, match="with another state directory"):
        _sink(spec, tmp_path, "fresh").abort_uncommitted(0)
    other = sink_spec(SCHEMA, path="out", format="json", name="other")
    with pytest.raises(DataError, match="two tables of the query write to one directory: s and"):
        _sink(other, tmp_path).prepare(1, [])


def test_partitions(tmp_path: Path, duck: DuckSession) -> None:
    schema = {"k": "VARCHAR", "n": "BIGINT", "d": "DATE"}
    spec = sink_spec(schema, path="out", format="parquet", partitioned_by=["d", "k"])
    rows = [
        ("a/b", 1, date(2024, 1, 1)),
        (None, 2, date(2024, 1, 1)),
        ("a/b", 3, date(2024, 1, 1)),
        ("", 4, None),
    ]
    sink, writer = _sink(spec, tmp_path), FileWriter(spec, str(tmp_path))
    sink.abort_uncommitted(0)
    parts = [writer.write(_table(schema, *rows), epoch=3, task="0")]
    sink.prepare(3, parts)
    sink.commit(3, parts)
    none = "__HIVE_DEFAULT_PARTITION__"
    assert _visible(tmp_path / "out") == [
        "d=2024-01-01/k=__HIVE_DEFAULT_PARTITION__/part-000003-0.parquet",
        "d=2024-01-01/k=a%2Fb/part-000003-0.parquet",
        f"d={none}/k={none}/part-000003-0.parquet",
    ]
    table = pq.ParquetFile(tmp_path / "out/d=2024-01-01/k=a%2Fb/part-000003-0.parquet").read()
    assert table.to_pydict() == {"n": [1, 3]}
    read = duck.query(
        f"SELECT n, k FROM read_parquet('{tmp_path}/out/*/*/*.parquet', hive_partitioning = true, "
        f"hive_types_autocast = false) ORDER BY n"
    )
    assert read["n"].to_pylist() == [1, 2, 3, 4]
    assert read["k"].to_pylist()[:3:2] == ["a/b", "a/b"]


@settings(
    max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(st.none() | st.text(max_size=4), st.integers(0, 3)), min_size=1, max_size=20))
def test_partitions_keep_every_row_in_order(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[str | None, int]]
) -> None:
    folder = tmp_path_factory.mktemp("sink")
    schema = {"k": "VARCHAR", "m": "INTEGER", "n": "BIGINT"}
    rows = [(k, m, i) for i, (k, m) in enumerate(made) if k is None or "\x00" not in k]
    spec = sink_spec(schema, path="out", format="json", partitioned_by=["k", "m"])
    part = FileWriter(spec, str(folder)).write(_table(schema, *rows), epoch=1, task="0")
    found: dict[str, list[int]] = {}
    for staged, final in part.payload.get("files", ()):
        lines = (folder / "out" / staged).read_text().splitlines()
        found[final] = [json.loads(line)["n"] for line in lines]
    expected: dict[str, list[int]] = {}
    for k, m, n in rows:
        name = escape(k) if k else "__HIVE_DEFAULT_PARTITION__"
        expected.setdefault(f"k={name}/m={m}/part-000001-0.json", []).append(n)
    assert found == expected


ALL = {
    "h": "HUGEINT",
    "dec": "DECIMAL(38,10)",
    "t": "TIMESTAMP",
    "z": "TIMESTAMP WITH TIME ZONE",
    "u": "UUID",
    "j": "JSON",
    "b": "BLOB",
    "s": "STRUCT(x BIGINT, l VARCHAR[])",
    "r": "TUPLE(TIMESTAMP, DOUBLE)",
    "m": "MAP(VARCHAR, TIMESTAMP)",
    "f": "DOUBLE",
}
ROW = (
    10**37,
    Decimal("1.0000000001"),
    datetime(2024, 1, 1, 0, 0, 0, 500000),
    datetime(2024, 1, 1, tzinfo=UTC),
    "b7c4c9f0-0000-4000-8000-000000000001",
    '{"a":[1]}',
    b"\x00\xff",
    {"x": 1, "l": ["a", None]},
    {"element1": datetime(2024, 1, 1), "element2": float("inf")},
    [("k", datetime(2024, 1, 1))],
    float("nan"),
)


def _write_all(tmp_path: Path, format_: str, options: dict[str, str] | None = None) -> Path:
    spec = sink_spec(ALL, options, path="out", format=format_)
    table = _table(ALL, ROW, (None,) * len(ALL))
    part = FileWriter(spec, str(tmp_path)).write(table, epoch=1, task="0")
    return tmp_path / "out" / str(part.payload["files"][0][0])


def test_json_of_all_types(tmp_path: Path) -> None:
    first, second = _write_all(tmp_path, "json").read_text().splitlines()
    assert first == (
        '{"h":10000000000000000000000000000000000000,"dec":1.0000000001,"t":"2024-01-01 00:00:00.5",'
        '"z":"2024-01-01 00:00:00Z","u":"b7c4c9f0-0000-4000-8000-000000000001","j":{"a":[1]},"b":"AP8=",'
        '"s":{"x":1,"l":["a",null]},"r":["2024-01-01 00:00:00","Infinity"],"m":{"k":"2024-01-01 00:00:00"},"f":"NaN"}'
    )
    assert set(json.loads(second).values()) == {None}


def test_json_with_iso_timestamps(tmp_path: Path) -> None:
    path = _write_all(tmp_path, "json", {"json.timestamp-format.standard": "ISO-8601"})
    row = json.loads(path.read_text().splitlines()[0])
    assert (row["t"], row["z"], row["m"]) == (
        "2024-01-01T00:00:00.5",
        "2024-01-01T00:00:00Z",
        {"k": "2024-01-01T00:00:00"},
    )


def test_json_without_null_fields(tmp_path: Path) -> None:
    schema = {
        "k": "VARCHAR",
        "n": "DECIMAL(38,10)",
        "s": 'STRUCT("a b" BIGINT, l STRUCT(x BIGINT, y VARCHAR)[])',
        "r": "TUPLE(TIMESTAMP, BIGINT)",
    }
    spec = sink_spec(schema, {"json.encode.ignore-null-fields": "true"}, path="out", format="json")
    rows = [
        (None, Decimal("1234567890123456.1"), {"a b": None, "l": [{"x": 1, "y": None}, None]}, None),
        ('"\n', None, {"a b": 1, "l": None}, {"element1": None, "element2": 7}),
        (None, None, None, None),
    ]
    part = FileWriter(spec, str(tmp_path)).write(_table(schema, *rows), epoch=1, task="0")
    assert (tmp_path / "out" / part.payload["files"][0][0]).read_text() == (
        '{"n":1234567890123456.1000000000,"s":{"l":[{"x":1},null]}}\n{"k":"\\"\\n","s":{"a b":1},"r":[null,7]}\n{}\n'
    )


def test_parquet_has_the_declared_types(tmp_path: Path) -> None:
    schema = pq.read_schema(_write_all(tmp_path, "parquet"))
    assert schema.field("h").type == pa.decimal128(38, 0)
    assert schema.field("t").type == pa.timestamp("us")
    assert schema.field("z").type == pa.timestamp("us", tz="UTC")
    assert [schema.field(n).type for n in ("h", "dec", "s", "r")] == [
        to_arrow(parse_type(ALL[n])) for n in ("h", "dec", "s", "r")
    ]


def test_csv_options(tmp_path: Path) -> None:
    options = {"csv.header": "true", "csv.field-delimiter": ";", "csv.null-literal": "NA"}
    spec = sink_spec(SCHEMA, options, path="out", format="csv")
    rows = [("a;b", 1), ("NA", 2), (None, None), ("", 3)]
    part = FileWriter(spec, str(tmp_path)).write(_table(SCHEMA, *rows), epoch=1, task="0")
    text = (tmp_path / "out" / part.payload["files"][0][0]).read_text()
    assert text == 'k;n\n"a;b";1\n"NA";2\nNA;NA\n;3\n'


def test_values_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    spec = sink_spec({"n": "TINYINT"}, path="out", format="parquet")
    with pytest.raises(DataError, match="does not fit"):
        FileWriter(spec, str(tmp_path)).write(pa.table({"n": [1000]}), epoch=1, task="0")


def test_large_parts_are_several_files(tmp_path: Path) -> None:
    options = {"sink.rolling-policy.file-size": "1 kb"}
    spec = sink_spec(SCHEMA, options, path="out", format="csv")
    rows = [("x" * 100, i) for i in range(25)]
    part = FileWriter(spec, str(tmp_path)).write(_table(SCHEMA, *rows), epoch=1, task="0")
    files = part.payload["files"]
    assert [final for _, final in files] == [f"part-000001-0{end}.csv" for end in ("", "-1", "-2")]
    text = "".join((tmp_path / "out" / staged).read_text() for staged, _ in files)
    assert text == "".join(f"{k},{n}\n" for k, n in rows)


def test_orc_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(DiagnosticError):
        FileWriter(sink_spec(SCHEMA, path="out", format="orc"), str(tmp_path))


@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_partitions_are_read_back(tmp_path: Path, duck: DuckSession, format_: str) -> None:
    schema = {"k": "VARCHAR", "n": "BIGINT", "t": "TIMESTAMP"}
    spec = sink_spec(schema, path="out", format=format_, partitioned_by=["t", "k"])
    rows = [("a/b", 1, datetime(2024, 1, 1, 12)), (None, 2, datetime(2024, 1, 1, 12)), ("ä=%", 3, None)]
    sink, writer = _sink(spec, tmp_path), FileWriter(spec, str(tmp_path))
    sink.abort_uncommitted(0)
    sink.commit(1, [writer.write(_table(schema, *rows), epoch=1, task="0")])
    source = source_spec(
        schema, path="out", format=format_, partitioned_by=("k", "t"), columns=["t", "n", "k"]
    )
    read = read_all(duck, source, context(tmp_path, "reader"))
    names = [read.tables[0].column_names.index(name) for name in schema]
    assert sorted([tuple(row[i] for i in names) for row in read.rows], key=lambda row: row[1]) == rows
    good = next((tmp_path / "out").rglob("part-*"))
    (tmp_path / "out/stray").write_bytes(good.read_bytes())
    with pytest.raises(DataError, match="is not in a folder"):
        read_all(duck, source, context(tmp_path, "reader"))


def test_what_a_sink_writes_a_source_reads(tmp_path: Path, duck: DuckSession) -> None:
    spec = sink_spec(SCHEMA, path="out", format="json")
    sink, writer = _sink(spec, tmp_path), FileWriter(spec, str(tmp_path))
    sink.abort_uncommitted(0)
    parts: list[SinkPart] = []
    for epoch in (1, 2):
        parts = [writer.write(_table(SCHEMA, (f"k{t}", epoch)), epoch=epoch, task=f"{t}") for t in range(2)]
        sink.prepare(epoch, parts)
        sink.commit(epoch, parts)
    read = read_all(duck, source_spec(SCHEMA, path="out", format="json"), context(tmp_path, "reader"))
    assert Counter(read.rows) == Counter([("k0", 1), ("k1", 1), ("k0", 2), ("k1", 2)])
