"""Files of a source that change, are damaged, or go: nothing is lost or counted twice in silence, and there is a way on."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sqlstream.cli.summary import summary
from sqlstream.connectors.filesystem.orders import FileOrders, Order
from sqlstream.connectors.filesystem.paths import local_entry
from sqlstream.connectors.filesystem.whole_files import is_whole
from sqlstream.formats.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.properties.in_process import run_here

ENDINGS = {
    "json": "json",
    "json.gz": "json",
    "json.zst": "json",
    "csv": "csv",
    "csv.gz": "csv",
    "parquet": "parquet",
}


def content(name: str, values: list[int]) -> bytes:
    """A file with these values of `a`, in the format that the name ends with."""
    out = pa.BufferOutputStream()
    if name.endswith("parquet"):
        pq.write_table(pa.table({"a": pa.array(values, pa.int64())}), out)
        return bytes(out.getvalue())
    line = '{{"a": {}}}\n' if ".json" in name else "{}\n"
    text = "".join(line.format(value) for value in values).encode()
    if name.endswith(".gz"):
        return gzip.compress(text, mtime=0)
    if name.endswith(".zst"):
        with pa.CompressedOutputStream(out, "zstd") as packed:
            packed.write(text)
        return bytes(out.getvalue())
    return text


class World:
    """A pipeline that copies `in` to `out`; what it wrote is what was read, in any order."""

    def __init__(self, folder: Path, format_: str = "json", options: str = "", settings: str = "") -> None:
        self.folder = folder
        self.data = folder / "in"
        self.data.mkdir()
        self.warnings: list[Diagnostic] = []
        (folder / "p.sql").write_text(
            f"{settings}\n"
            f"CREATE TABLE t (a BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = '{format_}'{options});\n"
            "CREATE TABLE o (a BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');\n"
            "INSERT INTO o SELECT a FROM t;\n"
        )

    def put(self, name: str, values: list[int]) -> Path:
        path = self.data / name
        path.write_bytes(content(name, values))
        return path

    def run(self, *orders: tuple[Order, str], **options: Any) -> RunResult:
        return run_here(
            plan_file(self.folder / "p.sql"),
            self.folder,
            orders=FileOrders(orders, (str(self.folder),)) if orders else None,
            tell=self.warnings.append,
            **options,
        )

    def fails(self, *orders: tuple[Order, str], **options: Any) -> Diagnostic:
        with pytest.raises(DiagnosticError) as caught:
            self.run(*orders, **options)
        return caught.value.diagnostics[0]

    def watch(
        self,
        until: Callable[[], bool],
        meanwhile: Callable[[int], None] = lambda look: None,
        *,
        orders: Sequence[tuple[Order, str]] = (),
        **options: Any,
    ) -> RunResult:
        """Run a watched source until a condition holds; `meanwhile` is called between looks, with their number."""
        stop = StopFlag()
        looks = 0

        def wait(seconds: float) -> None:
            nonlocal looks
            looks += 1
            meanwhile(looks)
            time.sleep(0.002)
            if until() or looks > 5000:
                stop.request()

        stop.wait = wait  # type: ignore[method-assign]
        return self.run(*orders, stop=stop, **options)

    def read(self) -> list[int]:
        files = sorted((self.folder / "out").glob("*.json"))
        return sorted(json.loads(line)["a"] for file in files for line in file.read_text().splitlines())


def rewrite(path: Path, data: bytes, *, times: str = "new") -> None:
    """Give a file other content, with its old time of modification if that is wanted."""
    before = path.stat()
    path.write_bytes(data)
    if times == "old":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))


@pytest.mark.parametrize("times", ["new", "old"])
def test_a_file_replaced_by_another_of_the_same_size_is_noticed(tmp_path: Path, times: str) -> None:
    world = World(tmp_path)
    path = world.put("x.json", [1, 2, 3])
    world.put("y.json", [4])
    world.run()
    rewrite(path, content("x.json", [7, 8, 9]), times=times)
    error = world.fails()
    assert error.code == "DAT003"
    assert f"{path} changed: it has 27 bytes still, but was written again" in error.message
    assert f"--read-again '{path}'" in str(error.help)
    assert world.read() == [1, 2, 3, 4]
    world.run(("again", "in/x.json"))
    assert world.read() == [1, 2, 3, 4, 7, 8, 9]
    assert world.run().outcome == "nothing new"


def test_a_replaced_file_can_be_passed_over(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = world.put("x.json", [1])
    world.run()
    rewrite(path, content("x.json", [2]))
    world.run(("skip", "in/x.json"))
    assert world.run().outcome == "nothing new"
    assert world.read() == [1]
    rewrite(path, content("x.json", [3]))
    assert world.fails().code == "DAT003", "passed over was what was in it then"


@pytest.mark.parametrize("size", [1, 200_000])
def test_a_touched_file_is_the_same(tmp_path: Path, size: int) -> None:
    world = World(tmp_path)
    path = world.put("x.json", list(range(size)))
    world.run()
    os.utime(path, (1, 1))
    path.chmod(0o600)
    assert world.run().outcome == "nothing new"
    path.rename(path.with_name(".x"))
    path.with_name("copy").write_bytes(path.with_name(".x").read_bytes())
    path.with_name("copy").rename(path)
    assert world.run().outcome == "nothing new"


def test_a_change_anywhere_in_a_large_file_of_the_same_size_is_noticed_at_its_pieces(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = world.put("x.json", list(range(100_000, 200_000)))
    world.run()
    data = path.read_bytes()
    assert len(data) > 1 << 20
    for place in (0, len(data) - 20):
        at = data.index(b"1", place)
        rewrite(path, data[:at] + b"7" + data[at + 1 :])
        assert "written again" in world.fails().message
    rewrite(path, data)
    assert world.run().outcome == "nothing new"


@pytest.mark.parametrize("ending", [e for e in ENDINGS if e not in ("json", "csv")])  # a cut text is a text
@pytest.mark.parametrize("broken", ["short", "head", "nothing"])
def test_a_damaged_file_is_named_and_read_exactly_once_it_is_whole(
    tmp_path: Path, ending: str, broken: str
) -> None:
    world = World(tmp_path, ENDINGS[ending])
    values = list(range(3000))
    world.put(f"a.{ending}", [-1])
    path = world.put(f"b.{ending}", values)
    whole = path.read_bytes()
    path.write_bytes({"short": whole[:-5], "head": whole[:60], "nothing": b""}[broken])
    for _ in range(2):
        error = world.fails()
        assert error.code == "DAT003", error
        assert str(path) in error.message
        assert f"--skip-file '{path}'" in str(error.help)
        assert world.read() == []
    path.write_bytes(whole)
    world.put(f"c.{ending}", [-2])
    world.run()
    assert world.read() == [-2, -1, *values]
    assert world.run().outcome == "nothing new"


@pytest.mark.parametrize("way", ["skip", "remove"])
def test_the_way_on_without_a_damaged_file(tmp_path: Path, way: str) -> None:
    world = World(tmp_path)
    world.put("a.json.gz", [1])
    path = world.put("b.json.gz", list(range(3000)))
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    world.put("c.json.gz", [3])
    world.fails()
    if way == "remove":
        path.unlink()
        error = world.fails()
        assert (error.code, f"{path} is gone" in error.message) == ("DAT003", True)
        assert f"--skip-file '{path}'" in str(error.help)
    world.run(("skip", str(path)))
    assert world.read() == [1, 3]
    assert world.run().outcome == "nothing new"
    path.write_bytes(whole)
    assert world.fails().code == "DAT003"
    world.run(("again", "in/*b.json.gz"))
    assert world.read() == sorted([1, 3, *range(3000)])


def test_what_is_passed_over_is_told_at_the_end_of_every_run_and_can_be_taken_back(tmp_path: Path) -> None:
    """Also the rest of a file, and what a file was replaced by; not a file that was read whole."""
    world = World(tmp_path)
    for number, name in enumerate(("a", "b", "c", "d")):
        world.put(f"{name}.json", [number, 10 + number])
    assert world.run(("skip", "in/b.json")).skipped == (f"{world.data}/b.json",)
    rewrite(world.data / "c.json", content("c.json", [7, 8]))
    two = (f"{world.data}/b.json", f"{world.data}/c.json")
    assert world.run(("skip", "in/[cd].json")).skipped == two
    later = world.run()
    assert (later.outcome, later.skipped) == ("nothing new", two)
    lines = summary("p", plan_file(world.folder / "p.sql").physical, later, "state")
    assert lines[0] == "p: nothing new, everything but 2 files up to here was read and committed before"
    assert lines[1] == f"  skipped '{two[0]}', '{two[1]}': --read-again PATH takes a file back"
    assert later.to_json()["skipped_files"] == list(two)
    assert world.run(("again", "in/b.json")).skipped == two[1:]
    assert world.run(("again", "in/c.json")).skipped == ()
    assert world.read() == sorted([0, 10, 1, 11, 2, 12, 7, 8, 3, 13])


@pytest.mark.parametrize("gone", [False, True])
def test_the_rest_of_a_file_that_is_passed_over_is_told(tmp_path: Path, gone: bool) -> None:
    world = World(tmp_path)
    path = world.put("x.json", [1, 2, 3, 4])
    world.run(rows_per_epoch=2, max_epochs=1)
    if gone:
        path.unlink()
    assert world.run(("skip", "in/x.json")).skipped == (str(path),)
    assert world.run().skipped == (str(path),)


def test_a_flipped_byte_in_a_compressed_file_is_no_other_row(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = world.put("b.json.gz", [1])
    data = bytearray(path.read_bytes())
    data[-8] ^= 1  # of its checksum
    path.write_bytes(data)
    assert "can't be decompressed" in world.fails().message
    assert world.read() == []


def test_a_file_that_changes_after_a_part_of_it_was_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = world.put("x.json", [1, 2, 3, 4])
    world.put("y.json", [9])
    world.run(rows_per_epoch=2, max_epochs=1)
    assert world.read() == [1, 2]
    rewrite(path, content("x.json", [1, 2, 5, 6]))
    assert world.fails(rows_per_epoch=2).code == "DAT003"
    assert world.read() == [1, 2]
    world.run(("skip", "in/x.json"), rows_per_epoch=2)
    assert world.read() == [1, 2, 9]


def test_a_file_of_which_a_part_was_read_can_be_read_again_whole(tmp_path: Path) -> None:
    world = World(tmp_path)
    path = world.put("x.json", [1, 2, 3, 4])
    world.put("y.json", [9])
    world.run(rows_per_epoch=2, max_epochs=1)
    rewrite(path, content("x.json", [1, 2, 5, 6]))
    world.run(("again", "in/x.json"), rows_per_epoch=2)
    assert world.read() == [1, 1, 2, 2, 5, 6, 9]
    assert world.run().outcome == "nothing new"


def test_an_unread_file_that_changes_is_read_as_it_is_then(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("x.json", [1, 2])
    path = world.put("y.json", [3, 4])
    world.run(rows_per_epoch=2, max_epochs=1)
    rewrite(path, content("y.json", [5, 6, 7]))
    world.run(rows_per_epoch=2)
    assert world.read() == [1, 2, 5, 6, 7]


def test_an_empty_file_is_read_when_something_is_in_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("a.json", [1])
    (world.data / "b.json").touch()
    world.run()
    world.put("b.json", [2])
    world.run()
    assert world.read() == [1, 2]


def test_orders_about_files_that_are_not_there(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("part-1.json", [1])
    error = world.fails(("skip", "in/part1.json"))
    assert (error.code, error.message) == (
        "DAT004",
        "--skip-file in/part1.json: no source of the pipeline has such a file",
    )
    assert error.help == f"did you mean '{world.data}/part-1.json'?"
    assert world.read() == []


def test_an_order_is_carried_out_once(tmp_path: Path) -> None:
    """Reading again what is not read yet reads it once, and so does a run that takes up what a failed one was told."""
    world = World(tmp_path)
    world.put("a.json.gz", [1])
    path = world.put("b.json.gz", [2])
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    for _ in range(2):
        world.fails(("again", "in/a.json.gz"))
    path.write_bytes(whole)
    world.run(("again", "in/a.json.gz"))
    assert world.read() == [1, 2]
    world.run(("again", "in/*"))
    assert world.read() == [1, 1, 2, 2]


def test_a_file_that_is_written_slowly_is_taken_when_it_is_still(tmp_path: Path) -> None:
    watched = ", 'source.monitor-interval' = '1 ms', 'source.settle-time' = '300 ms'"
    world = World(tmp_path, options=watched)
    data = content("x.json", list(range(40)))
    path = world.data / "x.json"

    def write(look: int) -> None:
        with path.open("ab") as file:
            file.write(data[(look - 1) * 7 : look * 7])

    world.watch(lambda: bool(world.read()), write)
    assert world.read() == list(range(40))


def test_a_file_that_is_renamed_into_place_is_taken_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, options=", 'source.monitor-interval' = '1 ms', 'source.settle-time' = '1 h'")
    path = world.put(".x.json", [1, 2])
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns - 50_000_000))

    def move(look: int) -> None:
        if look == 2:
            path.rename(world.data / "x.json")

    world.watch(lambda: bool(world.read()), move)
    assert world.read() == [1, 2]


WATCHED = ", 'source.monitor-interval' = '1 ms'"


def _seconds(world: World, arrive: Callable[[int], None], rows: int) -> float:
    started = time.monotonic()
    world.watch(lambda: len(world.read()) >= rows, arrive)
    return time.monotonic() - started


@pytest.mark.parametrize("name", ["x.json", "x.json.gz", "x.csv", "x.csv.gz", "x.parquet"])
def test_a_new_file_that_is_whole_need_not_settle(tmp_path: Path, name: str) -> None:
    """Written and renamed within one tick of the clock that stamps files: its times say nothing."""
    world = World(tmp_path, ENDINGS[name.partition(".")[2]], WATCHED)

    def arrive(look: int) -> None:
        if look == 2:
            hidden = world.put(f".{name}", [1, 2])
            hidden.rename(world.data / name)
            info = (world.data / name).stat()
            # ctime can't be set: mtime is brought up to it.
            os.utime(world.data / name, ns=(info.st_atime_ns, (world.data / name).stat().st_ctime_ns + 10**9))

    assert _seconds(world, arrive, 2) < 3
    assert world.read() == [1, 2]


def test_a_file_that_was_seen_growing_must_settle_though_it_ends_with_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.connectors.filesystem.options.SETTLE_US", 300_000)
    world = World(tmp_path, options=WATCHED)
    path = world.data / "x.json"

    def write(look: int) -> None:
        if look <= 30:
            with path.open("ab") as file:
                file.write(content("x.json", [look]))
            soon = (
                time.time_ns() + 10**10
            )  # however slow this machine is, it is not old when it is seen first
            os.utime(path, ns=(soon, soon))

    world.watch(lambda: bool(world.read()), write)
    assert world.read() == list(range(1, 31))


def test_a_file_that_grew_after_it_was_read_says_how_to_wait_for_such_files(tmp_path: Path) -> None:
    world = World(tmp_path, options=WATCHED)
    path = world.put("x.json", [1])
    world.watch(lambda: bool(world.read()))
    with path.open("ab") as file:
        file.write(content("x.json", [2]))
    error = world.fails()
    assert error.code == "DAT003"
    assert "'source.settle-time' = '5 s'" in str(error.help)
    assert "--read-again" in str(error.help)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.json", b'{"a": 1}\n{"a": 2'),
        ("x.csv", b"1\n2"),
        ("x.json.gz", gzip.compress(b'{"a": 1}\n', mtime=0)[:-3]),
        ("x.json.gz", gzip.compress(b'{"a": 1}\n', mtime=0) + gzip.compress(b'{"a": 2}\n', mtime=0)[:-9]),
        ("x.json.zst", content("x.json.zst", [1])),
    ],
)
def test_a_file_that_may_not_be_whole_must_settle(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    entry = local_entry(str(tmp_path / name), (tmp_path / name).stat())
    assert not is_whole(entry, REGISTERED.in_files("json" if "json" in name else "csv"))


def test_members_of_gzip_are_whole_together(tmp_path: Path) -> None:
    path = tmp_path / "x.json.gz"
    path.write_bytes(gzip.compress(b"1" * 3_000_000 + b"\n") + gzip.compress(b"2\n"))
    assert is_whole(local_entry(str(path), path.stat()), REGISTERED.in_files("json"))


def test_a_time_to_settle_that_is_set_holds_for_all_files(tmp_path: Path) -> None:
    world = World(tmp_path, options=WATCHED + ", 'source.settle-time' = '700 ms'")
    world.put("x.json", [1])
    assert _seconds(world, lambda look: None, 1) > 0.5


def test_a_watched_source_waits_for_the_end_of_a_parquet_file(tmp_path: Path) -> None:
    watched = ", 'source.monitor-interval' = '1 ms', 'source.settle-time' = '1 ms'"
    world = World(tmp_path, "parquet", watched)
    path = world.put("b.parquet", [5, 6])
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    world.put("a.parquet", [1])
    world.watch(lambda: bool(world.warnings) and world.read() == [1])
    assert [warning.code for warning in world.warnings] == ["DAT007"]
    assert str(path) in world.warnings[0].message
    path.write_bytes(whole)
    world.watch(lambda: len(world.read()) > 1)
    assert world.read() == [1, 5, 6]


def test_a_watched_source_without_files_waits_and_says_for_what(tmp_path: Path) -> None:
    world = World(tmp_path, options=", 'source.monitor-interval' = '1 ms', 'source.settle-time' = '0 s'")

    def arrive(look: int) -> None:
        if look == 3:
            world.put("x.json", [1])

    world.watch(lambda: bool(world.read()), arrive)
    assert world.read() == [1]
    assert [(w.code, w.severity) for w in world.warnings] == [("DAT004", "warning")]
    assert f"'{world.data}' is an empty folder; waiting for files" in world.warnings[0].message


@pytest.mark.parametrize("path", ["in", "in/*.json", "in/deep/x*", "in/x1.json"])
def test_a_watched_path_that_does_not_exist_yet_is_waited_for(tmp_path: Path, path: str) -> None:
    """The pipeline that makes it may be started together with this one."""
    world = World(tmp_path, options=", 'source.monitor-interval' = '1 ms', 'source.settle-time' = '0 s'")
    file = tmp_path / "p.sql"
    file.write_text(file.read_text().replace("'path' = 'in'", f"'path' = '{path}'"))
    world.data.rmdir()

    def arrive(look: int) -> None:
        if look == 3:
            world.data.mkdir()
        if look == 6:
            (world.data / "deep").mkdir()
            world.put("deep/x1.json" if "deep" in path else "x1.json", [1])

    world.watch(lambda: bool(world.read()), arrive)
    assert world.read() == [1]
    assert [(w.code, w.severity) for w in world.warnings] == [("DAT004", "warning")]
    assert "does not exist" in world.warnings[0].message
    assert world.warnings[0].message.endswith("; waiting for files")


def test_a_path_that_is_not_watched_must_exist(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.data.rmdir()
    assert world.fails().code == "DAT004"


def test_a_watched_folder_that_is_gone_after_it_was_read_is_no_new_one(tmp_path: Path) -> None:
    world = World(tmp_path, options=WATCHED + ", 'source.settle-time' = '0 s'")
    world.put("x.json", [1])
    world.watch(lambda: bool(world.read()))
    (world.data / "x.json").unlink()
    world.data.rmdir()
    assert world.fails().code == "DAT004"


def test_a_bounded_source_with_a_settle_time_waits_for_its_files(tmp_path: Path) -> None:
    world = World(tmp_path, options=", 'source.settle-time' = '100 ms'")
    world.put("x.json", [1])
    world.run()
    assert world.read() == [1]


def test_a_watched_file_that_is_written_on_after_it_was_listed_is_waited_for(tmp_path: Path) -> None:
    """The epoch that was planned with it is given up, and the run goes on."""
    watched = ", 'source.monitor-interval' = '1 h', 'source.settle-time' = '0 s'"
    world = World(tmp_path, options=watched)
    path = world.put("x.json", [1, 2])

    def write_on(point: str, epoch: int) -> None:
        if (point, epoch) == ("planned", 1):
            rewrite(path, content("x.json", [1, 2, 3]))

    world.watch(lambda: bool(world.read()), faults=write_on)
    assert world.read() == [1, 2, 3]


def test_a_watched_file_that_changes_after_a_part_of_it_was_read_stops_the_run(tmp_path: Path) -> None:
    watched = ", 'source.monitor-interval' = '1 ms', 'source.settle-time' = '0 s'"
    world = World(tmp_path, options=watched)
    path = world.put("x.json", [1, 2, 3, 4])

    def write_on(point: str, epoch: int) -> None:
        if (point, epoch) == ("planned", 2):
            rewrite(path, content("x.json", [1, 2, 3, 4, 5]))

    assert world.fails(rows_per_epoch=2, faults=write_on).code == "DAT003"
    assert world.read() == [1, 2]


def test_an_order_holds_for_the_files_that_were_there_and_for_each_source_that_has_them(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, options=", 'source.monitor-interval' = '1 ms', 'source.settle-time' = '0 s'")
    file = tmp_path / "p.sql"
    second = (
        "CREATE TABLE t2 (a BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in/*', 'format' = 'json');\n"
    )
    file.write_text(second + file.read_text().replace("FROM t;", "FROM t UNION ALL SELECT a FROM t2;"))
    world.put("x.json", [1])
    world.put("y.json", [2])

    def arrive(look: int) -> None:
        if look == 5:
            world.put("x2.json", [3])

    world.watch(lambda: 3 in world.read(), arrive, orders=[("skip", "in/x*")])
    assert world.read() == [2, 2, 3], "t2 is not watched, and x2 came later"
