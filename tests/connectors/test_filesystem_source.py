from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from sqlstream.connectors.api import ConnectorContext, Limits
from sqlstream.connectors.filesystem import file_ranges, file_version, paths
from sqlstream.connectors.filesystem.file_ranges import FileRange
from sqlstream.connectors.filesystem.file_version import check_unchanged
from sqlstream.connectors.filesystem.paths import glob_pattern, list_files
from sqlstream.connectors.filesystem.source import FileSource
from sqlstream.storage.checked_json import DamagedFileError, encode
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InputFileError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.harness import context, read_all, read_split, source_spec

SCHEMA = {"a": "BIGINT"}


def _files(folder: Path, contents: Mapping[str, str]) -> None:
    for name, text in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _line(*values: int) -> str:
    return "".join(json.dumps({"a": value}) + "\n" for value in values)


def _read(duck: DuckSession, where: ConnectorContext, path: str, **more: Any) -> list[Any]:
    spec = source_spec(SCHEMA, path=path, format="json")
    return [row[0] for row in read_all(duck, spec, where, **more).rows]


def test_a_directory_is_read_recursively_in_natural_order_without_hidden_files(
    tmp_path: Path, duck: DuckSession
) -> None:
    _files(
        tmp_path / "d",
        {
            "part-10.json": _line(3),
            "part-9.json": _line(2),
            "a/b/x": _line(1),
            ".hidden": "no",
            "_SUCCESS": "",
            "a/_tmp/y": "no",
            ".sqlstream/staging/z": "no",
            "part-11.json": "",
        },
    )
    (tmp_path / "d/a/loop").symlink_to(tmp_path / "d")
    assert _read(duck, context(tmp_path), "d") == [1, 2, 3]


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("d/*.json", [1, 2]),
        ("d/*", [1, 2, 3, 4]),
        ("d/sub*", [3, 4]),
        ("d/**/*.json", [1, 2, 4]),
        ("d/[ab].json", [1, 2]),
        ("d/{a,sub/c}.*", [1, 3]),
        ("d/?.json", [1, 2]),
        ("d/[!a].json", [2]),
    ],
)
def test_globs(tmp_path: Path, duck: DuckSession, glob: str, expected: list[int]) -> None:
    _files(
        tmp_path / "d",
        {"a.json": _line(1), "b.json": _line(2), "sub/c.txt": _line(3), "sub/d.json": _line(4)},
    )
    assert _read(duck, context(tmp_path), glob) == expected


@pytest.mark.parametrize("name", ["a[1]*?{x}.json", "it's.json", "k=v/a.json", 'with "q".json', "ä b.json"])
@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_odd_names(tmp_path: Path, duck: DuckSession, name: str, format_: str) -> None:
    _files(tmp_path / "d", {name: _line(1, 2) if format_ == "json" else "1\n2\n"})
    _files(tmp_path / "d", {"a1x.json": "bait that a glob would match"})
    if format_ == "parquet":
        pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "d" / name)
    spec = source_spec(
        {"a": "BIGINT"}, path=f"d/{name}", format=format_, metadata=[("p", "file.path", "VARCHAR")]
    )
    read = read_all(duck, spec, context(tmp_path))
    assert read.rows == [(1, f"{tmp_path}/d/{name}"), (2, f"{tmp_path}/d/{name}")]


@pytest.mark.parametrize(
    ("path", "options", "message", "notes", "help_"),
    [
        ("dta", {}, "path 'TMP/dta' does not exist", "in 'TMP' there is no 'dta', but 'data', 'x.json'", "TMP/data"),
        ("data/b/c", {}, "path 'TMP/data/b/c' does not exist", "in 'TMP/data' there is no 'b', but", None),
        ("x.json/y", {}, "path 'TMP/x.json/y' does not exist", "'TMP/x.json' is a file", None),
        ("nowhere/*.json", {}, "there is no folder 'TMP/nowhere'", "there is no 'nowhere', but 'data'", None),
        ("data/empty", {}, "'TMP/data/empty' is an empty folder", "", None),
        ("data/*.jsn", {}, "no file matches 'TMP/data/*.jsn'", "in 'TMP/data' there is 'a-1.json'", "TMP/data/a-1.json"),
        ("data/[z]*/{a,b}", {}, "no file matches", "there is 'a-1.json'", None),
        ("data/hidden", {}, "'TMP/data/hidden' has no visible file", "2 files in 'TMP/data/hidden' not read", None),
        ("data/.*", {}, "no file matches", "names that start with . or _ are hidden: '.tmp'", None),
        (
            "data",
            {"source.path.regex-pattern": "a-1.json"},
            "none of 1 file matches 'source.path.regex-pattern' = 'a-1.json'",
            "the pattern must match the whole absolute path; there are 'TMP/data/a-1.json'",
            ".*a-1.json.*",
        ),
    ],
)  # fmt: skip
def test_a_path_without_files_is_an_error_that_says_what_is_there(
    tmp_path: Path,
    duck: DuckSession,
    path: str,
    options: dict[str, str],
    message: str,
    notes: str,
    help_: str | None,
) -> None:
    _files(tmp_path, {"x.json": _line(1), "data/a-1.json": _line(1)})
    _files(tmp_path, {"data/.tmp": "", "data/hidden/_SUCCESS": "", "data/hidden/.x/y": ""})
    (tmp_path / "data/empty").mkdir()
    with pytest.raises(DiagnosticError) as caught:
        read_all(duck, source_spec(SCHEMA, options, path=path, format="json"), context(tmp_path))
    (found,) = caught.value.diagnostics
    assert (found.code, caught.value.exit_code) == ("DAT004", 1)
    shown = [text.replace("TMP", str(tmp_path)) for text in (message, notes)]
    assert shown[0] in found.message
    assert shown[1] in "; ".join(found.notes)
    assert (help_ is None) == (found.help is None)
    assert (help_ or "").replace("TMP", str(tmp_path)) in (found.help or "")


def test_a_state_that_had_files_needs_no_new_ones(tmp_path: Path, duck: DuckSession) -> None:
    _files(tmp_path / "d", {"1": _line(1)})
    first = read_all(duck, source_spec(SCHEMA, path="d", format="json"), context(tmp_path))
    (tmp_path / "d/1").unlink()
    again = read_all(
        duck,
        source_spec(SCHEMA, path="d", format="json"),
        context(tmp_path),
        position=first.position,
    )
    assert again.rows == []


@pytest.mark.parametrize("pattern", ["*.json", "a(", "[z-a]"])
def test_a_pattern_that_is_no_regular_expression(tmp_path: Path, pattern: str) -> None:
    spec = source_spec(SCHEMA, {"source.path.regex-pattern": pattern}, path="d", format="json")
    with pytest.raises(DiagnosticError, match=r"OPT003.*a regular expression \("):
        FileSource(spec, context(tmp_path))


def test_lists_of_older_versions_are_read(tmp_path: Path, duck: DuckSession) -> None:
    """They had no more than size and time of each file."""
    _files(tmp_path / "d", {"1": _line(1), "2": _line(2), "3": _line(3)})
    files = [[f"d/{n}", (tmp_path / f"d/{n}").stat().st_size, local_time(tmp_path / f"d/{n}")] for n in "12"]
    where = context(tmp_path)
    where.store.put("sources/t/000000.json", encode("listing", {"files": files}))
    spec = source_spec(SCHEMA, path="d", format="json")
    assert read_all(duck, spec, where, position={"segments": 1, "file": 1, "offset": 0}).rows == [(2,), (3,)]
    _files(tmp_path / "d", {"1": _line(7)})
    os.utime(tmp_path / "d/1", (1, 1))
    with pytest.raises(InputFileError, match="d/1 changed"):
        read_all(duck, spec, where, position={"segments": 2, "file": 3, "offset": 0})


def test_ranges_of_older_plans_are_read(tmp_path: Path) -> None:
    _files(tmp_path, {"1": _line(1)})
    old = [str(tmp_path / "1"), 9, local_time(tmp_path / "1"), 0, None]
    file_range = FileRange.from_json(old, "")
    check_unchanged(file_range.entry)
    assert FileRange.from_json(file_range.to_json(), "") == file_range


def local_time(path: Path) -> int:
    return path.stat().st_mtime_ns // 1000


def test_objects_are_compared_by_size_and_time(
    tmp_path: Path, duck: DuckSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of a store has fractions of a second, what it says of one object has none."""
    store = fs.SubTreeFileSystem(str(tmp_path / "bucket"), fs.LocalFileSystem())

    def opened(path: str) -> tuple[fs.FileSystem, str]:
        return store, path.removeprefix("s3://bucket/")

    for module in (paths, file_version, file_ranges):
        monkeypatch.setattr(module, "open_filesystem", opened)
    _files(tmp_path / "bucket/d", {"1": _line(1), "2": _line(2)})
    spec = source_spec(SCHEMA, path="s3://bucket/d", format="json")
    first = read_all(duck, spec, context(tmp_path))
    assert first.rows == [(1,), (2,)]
    file = tmp_path / "bucket/d/2"
    second = file.stat().st_mtime_ns // 10**9
    os.utime(file, (second, second))
    assert read_all(duck, spec, context(tmp_path), position=first.position).rows == []
    os.utime(file, (second, second + 1))
    with pytest.raises(InputFileError, match=r"s3://bucket/d/2 changed: it has 9 bytes still"):
        read_all(duck, spec, context(tmp_path), position=first.position)


def test_a_file_uri(tmp_path: Path, duck: DuckSession) -> None:
    _files(tmp_path, {"a b.json": _line(1)})
    assert _read(duck, context(tmp_path), (tmp_path / "a b.json").as_uri()) == [1]


def test_a_regex_on_the_path(tmp_path: Path, duck: DuckSession) -> None:
    _files(tmp_path / "d", {"a1": _line(1), "b2": _line(2)})
    spec = source_spec(SCHEMA, {"source.path.regex-pattern": ".*/b.*"}, path="d", format="json")
    assert read_all(duck, spec, context(tmp_path)).rows == [(2,)]


def test_a_second_run_reads_what_is_new(tmp_path: Path, duck: DuckSession) -> None:
    where = context(tmp_path)
    _files(tmp_path / "d", {"2": _line(1, 2)})
    spec = source_spec(SCHEMA, path="d", format="json")
    first = read_all(duck, spec, where)
    assert first.rows == [(1,), (2,)]
    again = read_all(duck, spec, where, position=first.position)
    assert again.rows == []
    _files(tmp_path / "d", {"1": _line(3), "3": _line(4)})
    more = read_all(duck, spec, where, position=again.position)
    assert more.rows == [(3,), (4,)]
    (tmp_path / "d/2").unlink()  # what was read may go
    assert read_all(duck, spec, where, position=more.position).rows == []


def test_a_position_means_the_same_whatever_came_since(tmp_path: Path, duck: DuckSession) -> None:
    where = context(tmp_path)
    _files(tmp_path / "d", {"5": _line(*range(10))})
    spec = source_spec(SCHEMA, path="d", format="json")
    source = FileSource(spec, where)
    half = source.plan(source.initial_position(), Limits(rows=4))
    _files(tmp_path / "d", {"1": _line(99)})
    later = FileSource(spec, where)
    assert [s.payload for s in later.plan(later.initial_position(), Limits(rows=4)).splits] == [
        s.payload for s in half.splits
    ]
    rest = read_all(duck, spec, where, Limits(rows=4), position=half.next_position)
    assert [row[0] for row in rest.rows] == [4, 5, 6, 7, 8, 9, 99]


def test_rows_that_are_aimed_at_are_estimated_and_none_is_lost(tmp_path: Path, duck: DuckSession) -> None:
    where = context(tmp_path)
    _files(tmp_path / "d", {str(f): _line(*range(f * 1000, f * 1000 + 1000)) for f in range(1, 4)})
    read = read_all(duck, source_spec(SCHEMA, path="d", format="json"), where, Limits(rows=300, about=True))
    assert [row[0] for row in read.rows] == list(range(1000, 4000))
    sizes = [table.num_rows for table in read.tables]
    assert all(200 <= size <= 400 for size in sizes[:-1])


def test_positions_do_not_grow(tmp_path: Path, duck: DuckSession) -> None:
    _files(tmp_path / "d", {str(i): _line(i) for i in range(300)})
    source = FileSource(source_spec(SCHEMA, path="d", format="json"), context(tmp_path))
    position = source.plan(source.initial_position(), Limits(files=250)).next_position
    assert position == {"segments": 1, "file": 250, "offset": 0}


def test_watching(tmp_path: Path, duck: DuckSession) -> None:
    now = 0.0
    _files(tmp_path / "d", {"b": _line(1), "a": _line(2)})
    os.utime(tmp_path / "d/b", (1, 1))
    options = {"source.monitor-interval": "10 s", "source.settle-time": "0 s"}
    spec = source_spec(SCHEMA, options, path="d", format="json")
    source = FileSource(spec, context(tmp_path), clock=lambda: now)
    assert not source.bounded
    plan = source.plan(source.initial_position(), Limits(tasks=1))
    names = [Path(file_range[0]).name for file_range in plan.splits[0].payload["ranges"]]
    assert (names, plan.exhausted) == (["b", "a"], False)  # by modification time
    _files(tmp_path / "d", {"c": _line(3)})
    now = 9.0
    assert source.plan(plan.next_position, Limits()).splits == ()
    now = 10.0
    more = source.plan(plan.next_position, Limits())
    assert [file_range[0] for file_range in more.splits[0].payload["ranges"]] == [str(tmp_path / "d/c")]
    assert not more.exhausted


@pytest.mark.parametrize("change", ["grow", "shrink", "delete"])
@pytest.mark.parametrize("format_", ["json", "csv", "parquet"])
def test_a_file_that_changes_before_it_is_read_is_an_error(
    tmp_path: Path, duck: DuckSession, change: str, format_: str
) -> None:
    content = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), content)
    text = {
        "json": _line(*range(10, 20)).encode(),
        "csv": b"1\n" * 50,
        "parquet": content.getvalue().to_pybytes(),
    }
    (tmp_path / "d").mkdir()
    for name in "12":
        (tmp_path / "d" / name).write_bytes(text[format_])
    size = len(text[format_])
    source = FileSource(source_spec(SCHEMA, path="d", format=format_), context(tmp_path))
    plan = source.plan(source.initial_position(), Limits(tasks=1))
    path = tmp_path / "d/2"
    if change == "delete":
        path.unlink()
    else:
        path.write_text("z" * (size + 1 if change == "grow" else size - 1))
    expected = "d/2 is gone" if change == "delete" else rf"d/2 changed: it had {size} bytes"
    with pytest.raises(DataError, match=expected):
        read_split(duck, source_spec(SCHEMA, path="d", format=format_), str(tmp_path), plan.splits[0])
    with pytest.raises(DataError, match=expected):
        source.plan({"segments": 1, "file": 1, "offset": 0}, Limits(rows=1))


def test_a_file_that_grew_after_it_was_read_is_an_error_in_the_next_run(
    tmp_path: Path, duck: DuckSession
) -> None:
    where = context(tmp_path)
    _files(tmp_path / "d", {"1": _line(1)})
    spec = source_spec(SCHEMA, path="d", format="json")
    first = read_all(duck, spec, where)
    _files(tmp_path / "d", {"1": _line(1, 2)})
    with pytest.raises(InputFileError, match=" changed: "):
        read_all(duck, spec, where, position=first.position)


def test_a_damaged_or_missing_listing_is_an_error(tmp_path: Path, duck: DuckSession) -> None:
    where = context(tmp_path)
    _files(tmp_path / "d", {"1": _line(1)})
    _read(duck, where, "d")
    segment = tmp_path / "state/sources/t/000000.json"
    data = segment.read_bytes()
    for damaged in (data[: len(data) // 2], data.replace(b'"d/1"', b'"d/2"'), b""):
        segment.write_bytes(damaged)
        with pytest.raises(DamagedFileError):
            _read(duck, where, "d")
    segment.unlink()
    with pytest.raises(DamagedFileError, match="incomplete"):
        _read(duck, where, "d", position={"segments": 1, "file": 1, "offset": 0})
    segment.with_name("000001.json").write_bytes(data)
    with pytest.raises(DamagedFileError, match=r"000000\.json: is missing"):
        _read(duck, where, "d")


def test_a_state_directory_can_move_with_its_data(tmp_path: Path, duck: DuckSession) -> None:
    _files(tmp_path / "one/d", {"1": _line(1), "2": _line(2)})
    spec = source_spec(SCHEMA, path="d", format="json")
    source = FileSource(spec, context(tmp_path / "one"))
    position = source.plan(source.initial_position(), Limits(files=1)).next_position
    (tmp_path / "one").rename(tmp_path / "two")
    assert read_all(duck, spec, context(tmp_path / "two"), position=position).rows == [(2,)]


def test_small_files_are_put_together_and_large_ones_cut(tmp_path: Path, duck: DuckSession) -> None:
    _files(tmp_path / "d", {str(i): _line(*range(i * 2000, i * 2000 + 2000)) for i in range(64)})
    spec = source_spec(SCHEMA, path="d", format="json")
    read = read_all(duck, spec, context(tmp_path), Limits(tasks=4))
    assert len(read.splits[0]) == 4
    sizes = [split.bytes or 0 for split in read.splits[0]]
    assert max(sizes) - min(sizes) <= (tmp_path / "d/63").stat().st_size
    assert [row[0] for row in read.rows] == list(range(128_000))
    one = "x" * 1000
    (tmp_path / "large.json").write_text("".join(f'{{"a": {i}, "x": "{one}"}}\n' for i in range(40_000)))
    large = read_all(
        duck,
        source_spec(SCHEMA, path="large.json", format="json"),
        context(tmp_path, "s2"),
        Limits(tasks=4),
    )
    sizes = [split.bytes or 0 for split in large.splits[0]]
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) < 5000
    assert [row[0] for row in large.rows] == list(range(40_000))


@pytest.mark.parametrize("ending", ["gz", "GZ", "zst", "bz2", "lz4"])
@pytest.mark.parametrize("format_", ["json", "csv"])
def test_compressed_files(tmp_path: Path, duck: DuckSession, ending: str, format_: str) -> None:
    text = "".join(f'{{"a": {i}}}\n' if format_ == "json" else f"{i}\n" for i in range(1000)).encode()
    bad = b"oops\n"
    codec = {"gz": "gzip", "zst": "zstd", "bz2": "bz2", "lz4": "lz4"}[ending.lower()]
    for name, content in (("good", text), ("bad", text + bad)):
        with pa.CompressedOutputStream(pa.OSFile(str(tmp_path / f"{name}.{ending}"), "wb"), codec) as out:
            out.write(content)
        spec = source_spec(SCHEMA, path=f"{name}.{ending}", format=format_)
        read = read_all(duck, spec, context(tmp_path, name), Limits(rows=10))
        assert read.rows == [(i,) for i in range(1000)]
        assert [b.line for b in read.bad] == ([] if name == "good" else [1001])


@pytest.mark.parametrize("format_", ["json", "csv"])
def test_a_truncated_compressed_file_is_an_error(tmp_path: Path, duck: DuckSession, format_: str) -> None:
    text = "".join(f'{{"a": {i * 7919}}}\n' if format_ == "json" else f"{i * 7919}\n" for i in range(20000))
    packed = gzip.compress(text.encode())
    for name, content in (("cut", packed[: len(packed) // 2]), ("none", b"not gzip at all")):
        (tmp_path / f"{name}.gz").write_bytes(content)
        spec = source_spec(SCHEMA, path=f"{name}.gz", format=format_)
        with pytest.raises(DataError, match=rf"{name}\.gz"):
            read_all(duck, spec, context(tmp_path, name))


def test_metadata(tmp_path: Path, duck: DuckSession) -> None:
    _files(tmp_path / "d", {"1": _line(1), "2": _line(2, 3)})
    os.utime(tmp_path / "d/1", ns=(0, 1_600_000_000_123_456_000))
    spec = source_spec(
        SCHEMA,
        path="d",
        format="json",
        metadata=[
            ("name", "file.name", "VARCHAR"),
            ("size", "file.size", "BIGINT"),
            ("time", "file.modification-time", "TIMESTAMP"),
        ],
    )
    read = read_all(duck, spec, context(tmp_path), Limits(tasks=1))
    assert [row[:3] for row in read.rows] == [(1, "1", 9), (2, "2", 18), (3, "2", 18)]
    assert read.rows[0][3].isoformat() == "2020-09-13T12:26:40.123456"


def test_lag(tmp_path: Path, duck: DuckSession) -> None:
    _files(tmp_path / "d", {str(i): _line(*range(100, 200)) for i in range(10)})
    source = FileSource(source_spec(SCHEMA, path="d", format="json"), context(tmp_path))
    assert source.lag(source.initial_position()) == 1000
    position = source.plan(source.initial_position(), Limits(rows=250)).next_position
    assert source.lag(position) == 750
    assert source.lag(source.plan(position, Limits()).next_position) == 0


@pytest.mark.parametrize("rows_at_once", [100_000, 33_333])
def test_lag_of_parquet_goes_down_within_a_file(tmp_path: Path, rows_at_once: int) -> None:
    (tmp_path / "d").mkdir()
    for name, rows in (("a", 200_000), ("b", 50_000)):
        pq.write_table(pa.table({"a": pa.array(range(rows), pa.int64())}), tmp_path / f"d/{name}.parquet")
    source = FileSource(source_spec({"a": "BIGINT"}, path="d", format="parquet"), context(tmp_path))
    position, read = source.initial_position(), 0
    while read < 250_000:
        left = source.lag(position)
        assert left is not None
        assert abs(left - (250_000 - read)) < 6_000, "what the second file has is estimated by its bytes"
        plan = source.plan(position, Limits(rows=rows_at_once))
        position, read = plan.next_position, read + sum(split.rows or 0 for split in plan.splits)
    assert source.lag(position) == 0


def test_needed_paths_and_several_queries(tmp_path: Path, duck: DuckSession) -> None:
    (tmp_path / "a.json").write_text('{"s": {"x": 1, "y": "q", "bad": 5}}\n')
    spec = source_spec(
        {"s": "STRUCT(x BIGINT, y VARCHAR, bad DATE)"}, path="a.json", format="json", needed_paths=("s.x",)
    )
    read = read_all(duck, spec, context(tmp_path), queries=2)
    assert read.rows == [({"x": 1},)]


def test_listing_other_file_systems(tmp_path: Path) -> None:
    _files(tmp_path, {"x/a": "1"})
    uri = (tmp_path / "x").as_uri()
    assert [entry.path for entry in list_files(str(tmp_path / "x"))] == [str(tmp_path / "x/a")]
    assert uri.startswith("file://")


def test_glob_patterns_treat_other_characters_literally() -> None:
    assert glob_pattern("a.b+(c)").fullmatch("a.b+(c)")
    assert not glob_pattern("a.b").fullmatch("axb")
