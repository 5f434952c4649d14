"""Files that nobody should write: each row is read or is a dead letter, and what can't be read at all is named."""

from __future__ import annotations

import gzip
import json
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
        ("csv", b'1\n"2\n3\n4\n', [1], [2]),
        ("json", b'{"a":1}\n\0\0\n{"a":2}\0\n{"a":3}\n', [1, 3], [2, 3]),
        ("csv", b"1\n\0\n2\0\n3\n", [1, 3], [2, 3]),
        ("json", b"\0" * 5000, [], [1]),
        ("json", b'{"a":1,"s":"\xff"}\n{"a":2}\n\xfe\n', [2], [1, 3]),
        ("csv", b"1\n\xff\n2\n", [1, 2], [2]),
        ("json", JSON.decode().encode("utf-16"), [], [1, 2, 3]),
        ("json", b'[{"a":1},{"a":2}]\n', [], [1]),
        ("json", b'{"a":1}{"a":2}\n', [], [1]),
        ("json", b'{"a":1e400}\n{"a":9223372036854775808}\n{"a":NaN}\n{"a":7}\n', [7], [1, 2, 3]),
        ("json", gzip.compress(JSON), [], [1]),
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
        ("json", "x.json.gz", JSON),
        ("json", "x.json.zst", content("x.json.zst", list(range(9999)))[:-1]),
        ("csv", "x.csv.gz", content("x.csv.gz", [1]) + b"more"),
    ],
)
def test_what_is_not_of_its_format_is_named(tmp_path: Path, format_: str, name: str, data: bytes) -> None:
    world = World(tmp_path, format_)
    (world.data / name).write_bytes(data)
    error = world.fails()
    assert (error.code, str(world.data / name) in error.message) == ("DAT003", True)
    assert f"--skip-file '{world.data / name}'" in str(error.help)


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
