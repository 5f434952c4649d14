"""Files that nobody should write: each row is read or is a dead letter, and what can't be read at all is named."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.e2e.test_changed_files import World, content

BOM = b"\xef\xbb\xbf"
DEEP = b"[" * 10_000 + b"]" * 10_000
DEEP_OBJECTS = b'{"a":' * 10_000 + b"1" + b"}" * 10_000
JSON = b'{"a":1}\n{"a":2}\n'


def letters(world: World) -> list[int | None]:
    """The lines of the dead letters."""
    files = sorted((world.folder / "state/dead-letter").glob("*.jsonl"))
    return sorted(json.loads(line)["line"] for file in files for line in file.read_text().splitlines())


@pytest.mark.parametrize(
    ("format_", "data", "read", "refused"),
    [
        ("json", BOM + JSON, [1, 2], []),
        ("json", BOM, [], []),
        ("csv", BOM + b"a\n1\n", [1], []),
        ("csv", BOM + b"1\n2\n", [1, 2], []),
        ("json", JSON.replace(b"\n", b"\r\n"), [1, 2], []),
        ("csv", b"a\r\n1\r\n2\r\n", [1, 2], []),
        ("csv", b"a\r1\r2\r", [1, 2], []),
        ("csv", b"a", [], []),
        ("json", JSON[:-1], [1, 2], []),
        ("json", b'{"a":1,"a":2}\n{"a":3}\n', [3], [1]),
        ("json", b'{"a":1,"z":' + DEEP + b'}\n{"a":2}\n', [1, 2], []),
        ("json", DEEP + b'\n{"a":2}\n', [2], [1]),
        ("json", DEEP_OBJECTS + b'\n{"a":2}\n', [2], [1]),
        ("json", b'{"a":' * 100_000 + b'\n{"a":2}\n', [2], [1]),
        ("json", b'{"a":1,"z":"' + b"x" * 50_000_000 + b'"}\n{"a":2}\n', [1, 2], []),
        ("csv", b"x" * 17_000_000 + b"\n2\n", [2], [1]),
        ("csv", b'"' + b"x\n" * 8_500_000 + b'"\n2\n', [2], [1]),
        ("csv", b'1\n"2\n3\n4\n', [1, 3, 4], [2]),
        ("json", b'{"a":1}\n\0\0\n{"a":2}\0\n{"a":3}\n', [1, 3], [2, 3]),
        ("csv", b"1\n\0\n2\0\n3\n", [1, 3], [2, 3]),
        ("json", b"\0" * 5000, [], [1]),
        ("json", b'{"a":1,"s":"\xff"}\n{"a":2}\n\xfe\n', [2], [1, 3]),
        ("csv", b"1\n\xff\n2\n", [1, 2], [2]),
        ("json", b'[{"a":1},{"a":2}]\n', [], [1]),
        ("json", b'{"a":1}{"a":2}\n', [], [1]),
        ("json", b'{"a":1e400}\n{"a":9223372036854775808}\n{"a":NaN}\n{"a":7}\n', [7], [1, 2, 3]),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_each_row_is_read_or_refused(
    tmp_path: Path, format_: str, data: bytes, read: list[int], refused: list[int]
) -> None:
    world = World(tmp_path, format_)
    (world.data / "x").write_bytes(data)
    world.run()
    assert (world.read(), letters(world)) == (read, refused)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["a b", "ü%20ñ", "new\nline", "a%41", "q\"'`$x", "\\back", "日本", " lead", "trail ", "a;b", "a#b", "a?b*"]
)  # fmt: skip
@pytest.mark.parametrize("ending", ["json", "csv.gz", "parquet"])
def test_names(tmp_path: Path, name: str, ending: str) -> None:
    world = World(tmp_path, ending.removesuffix(".gz"))
    world.put(f"{name}.{ending}", [1, 2])
    world.run()
    assert world.read() == [1, 2]
    path = world.put(f"{name}.{ending}", [3, 4, 5])
    assert str(path) in world.fails().message
    world.run(("again", str(path)))
    assert world.read() == [1, 2, 3, 4, 5]


def test_what_is_no_file_and_files_in_folders(tmp_path: Path) -> None:
    world = World(tmp_path)
    (world.data / "x.json").mkdir()
    world.put("x.json/y", [1])
    (world.data / "link").symlink_to("/nowhere/at/all")
    os.mkfifo(world.data / "pipe.json")
    (world.data / "round").symlink_to(world.data)
    world.run()
    assert world.read() == [1]


def test_compressions_side_by_side(tmp_path: Path) -> None:
    world = World(tmp_path)
    for number, name in enumerate(("a.json", "b.json.gz", "c.json.zst")):
        world.put(name, [number])
    (world.data / "d.json.gz").write_bytes(content("x.json.gz", [3]) + content("x.json.gz", [4]))
    (world.data / "e.json.gz").write_bytes(gzip.compress(b""))
    world.run()
    assert world.read() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("format_", "name", "data"),
    [
        ("parquet", "x.parquet", JSON),
        ("orc", "x.orc", b"ORC" + b"\0" * 50),
        ("avro", "x.avro", b"Obj\x01" + b"\0" * 50),
        ("json", "x.json.gz", JSON),
        ("json", "x.json.zst", content("x.json.zst", list(range(9999)))[:-1]),
        ("csv", "x.csv.gz", content("x.csv.gz", [1]) + b"more"),
    ],
    ids=lambda value: "data" if isinstance(value, bytes) else value,
)
def test_what_is_not_of_its_format_is_named(tmp_path: Path, format_: str, name: str, data: bytes) -> None:
    world = World(tmp_path, format_)
    (world.data / name).write_bytes(data)
    error = world.fails()
    assert (error.code, str(world.data / name) in error.message) == ("DAT003", True)
    assert f"--skip-file '{world.data / name}'" in str(error.help)


PARQUET = content("x.parquet", [1])
XZ = lzma.compress(b"x\n1\n" * 3)


@pytest.mark.parametrize(
    ("format_", "name", "data", "expected", "instead"),
    [
        ("csv", "x.csv", gzip.compress(b"1\n"), "it is compressed with gzip", "ends with .gz"),
        ("json", "x.json", gzip.compress(JSON), "it is compressed with gzip", "ends with .gz"),
        ("json", "x.json", content("x.json.zst", [1]), "it is compressed with zstd", "ends with .zst"),
        ("csv", "x.csv", bz2.compress(b"1\n"), "it is compressed with bzip2", "ends with .bz2"),
        ("csv", "x.csv.xz", XZ, "it is compressed with xz", "instead"),
        ("csv", "x.csv.gz", gzip.compress(XZ), "what is in it is compressed with xz", "instead"),
        ("json", "x.zip", b"PK\x03\x04\n" + JSON, "a zip archive", "files that are in it"),
        ("json", "x.json", JSON.decode().encode("utf-16"), "text in UTF-16", "iconv"),
        ("csv", "x.csv", "\ufeff1\n".encode("utf-16-be"), "text in UTF-16", "iconv"),
        ("csv", "x.csv", b"Obj\x01\x04\x16avro.codec", "an Avro file", "'format' = 'avro'"),
        ("csv", "x.csv", PARQUET, "a Parquet file", "'format' = 'parquet'"),
    ],
    ids=lambda value: "data" if isinstance(value, bytes) else value,  # some have the time in them
)
def test_what_is_no_text_is_named(
    tmp_path: Path, format_: str, name: str, data: bytes, expected: str, instead: str
) -> None:
    """Small files are in archives as they are: lines of them were read as rows."""
    world = World(tmp_path, format_)
    (world.data / name).write_bytes(data)
    world.put("a.csv" if format_ == "csv" else "a.json", [])
    error = world.fails()
    assert (error.code, world.read(), letters(world)) == ("DAT003", [], [])
    assert f"{world.data / name} is not the text that the table says: " in error.message
    assert expected in error.message
    assert instead in str(error.help)
    world.run(("skip", str(world.data / name)))


@pytest.mark.parametrize("text", ["BZh9", "PAR1", "ORC", "PK"])
def test_text_that_begins_as_an_archive_does(tmp_path: Path, text: str) -> None:
    world = World(tmp_path, "csv")
    (world.data / "x.csv").write_text(f"{text}\n1\n")
    world.run()
    assert (world.read(), letters(world)) == ([1], [1])


@pytest.mark.parametrize("header", ["a,a", "a,b,A", '"a", a'])
def test_a_header_with_a_column_twice_is_refused(tmp_path: Path, header: str) -> None:
    world = World(tmp_path, "csv")
    (world.data / "x.csv").write_text(f"{header}\n" + ",".join("123"[: header.count(",") + 1]) + "\n")
    error = world.fails()
    assert (error.code, error.message.endswith("the header has the column a 2 times")) == ("DAT003", True)
    (world.data / "x.csv").write_text("b,a,b\n1,2,3\n")  # what nobody reads may be there twice
    world.run()
    assert world.read() == [2]


def test_a_link_to_itself_is_no_file(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a.json", [1])
    for name, target in (("self", "self"), ("b.json", "c.json"), ("c.json", "b.json"), ("d.json", "nowhere")):
        (world.data / name).symlink_to(target)
    world.run()
    assert world.read() == [1]


def test_parquet_of_other_types(tmp_path: Path) -> None:
    world = World(tmp_path, "parquet")
    for name, values in (("a", [1]), ("b", ["7", "x"]), ("c", [[1]])):
        pq.write_table(pa.table({"a": values}), world.data / f"{name}.parquet")
    world.run()
    assert (world.read(), letters(world)) == ([1, 7], [1, 2])


def test_a_file_that_goes_between_the_list_and_the_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a.json", [1])
    path = world.put("b.json", [2])

    def remove(point: str, epoch: int) -> None:
        if (point, epoch) == ("planned", 1):
            path.unlink()

    error = world.fails(faults=remove)
    assert (error.code, f"{path} is gone" in error.message) == ("DAT003", True)
    assert world.read() == []
    world.run(("skip", str(path)))
    assert world.read() == [1]
