"""What a source has read can be read again as it was, up to any position; what can't is told."""

from __future__ import annotations

import gzip
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import ConnectorContext, Limits, Rereadable
from sqlstream.connectors.filesystem import cutting
from sqlstream.connectors.filesystem.orders import FileOrders, Order
from sqlstream.connectors.filesystem.source import FileSource
from sqlstream.connectors.registry import REGISTERED
from sqlstream.formats.files import FileFormat
from sqlstream.storage.checked_json import DamagedFileError, decode, encode
from sqlstream_operators.duck.session import DuckSession
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.connectors.harness import Read, context, read_on, source_spec
from tests.examples import examples

FORMATS = ("json", "csv", "parquet", "json.gz", "csv.gz")


def content(ending: str, values: Sequence[int]) -> bytes:
    if ending == "parquet":
        out = pa.BufferOutputStream()
        pq.write_table(pa.table({"a": pa.array(values, pa.int64())}), out, row_group_size=3)
        return bytes(out.getvalue())
    line = '{{"a": {}}}\n' if ending.startswith("json") else "{}\n"
    text = "".join(line.format(value) for value in values).encode()
    return gzip.compress(text, mtime=0) if ending.endswith("gz") else text


class World:
    """A folder of files, and a source that has read some of it."""

    def __init__(self, folder: Path, duck: DuckSession, ending: str = "json", **options: str) -> None:
        self.folder, self.duck, self.ending = folder, duck, ending
        (folder / "in").mkdir()
        self.spec = source_spec({"a": "BIGINT"}, options, path="in", format=ending.removesuffix(".gz"))
        self.where = context(folder)
        self.position = FileSource(self.spec, self.where).initial_position()
        self.read: list[int] = []

    def file(self, name: str) -> Path:
        return self.folder / "in" / f"{name}.{self.ending}"

    def write(self, name: str, values: Sequence[int]) -> None:
        self.file(name).write_bytes(content(self.ending, values))

    def append(self, name: str, values: Sequence[int]) -> None:
        with self.file(name).open("ab") as file:
            file.write(content(self.ending, values))

    def run(self, limits: Limits | None = None, epochs: int = 100, **orders: str) -> None:
        """A run of some epochs, which is given orders about files: `skip` or `again`."""
        given: list[tuple[Order, str]] = [(order, str(self.file(f))) for order, f in orders.items()]  # type: ignore[misc]
        told = FileOrders(given, (str(self.folder),))
        where = ConnectorContext(self.where.store, self.where.base_dir, orders=told)
        source = FileSource(self.spec, where)
        told.check(source.paths())
        for _ in range(epochs):
            plan = source.plan(self.position, limits or Limits())
            for split in plan.splits:
                self.read += values(read_on_split(self, split))
            self.position = plan.next_position
            if plan.exhausted:
                return

    def history(self, limits: Limits | None = None, position: Any = None) -> Read:
        """What was read, read again; it ends where the source is, and leaves the folder of the source as it is."""
        before = self.kept()
        end = position or self.position
        found = read_on(
            self.duck, self.spec, self.where, FileSource(self.spec, self.where).until(end), limits
        )
        assert found.position == end
        assert self.kept() == before
        return found

    def again(self, limits: Limits | None = None) -> list[int]:
        return values(self.history(limits))

    def refused(self) -> Diagnostic:
        before = self.kept()
        with pytest.raises(DiagnosticError, match="DAT008") as raised:
            FileSource(self.spec, self.where).until(self.position)
        assert self.kept() == before
        (diagnostic,) = raised.value.diagnostics
        return diagnostic

    def kept(self) -> dict[str, bytes]:
        return {name: self.where.store.get(name) for name in self.where.store.list()}


def read_on_split(world: World, split: Any) -> Read:
    from tests.connectors.harness import read_split, rows

    table, bad = read_split(world.duck, world.spec, world.where.base_dir, split)
    return Read(rows(table), bad)


def values(read: Read) -> list[int]:
    return [row[0] for row in read.rows]


LIMITS = st.builds(
    Limits,
    rows=st.none() | st.integers(1, 12),
    files=st.none() | st.integers(1, 3),
    bytes=st.none() | st.integers(1, 200),
    tasks=st.integers(1, 4),
    about=st.booleans(),
)


@pytest.mark.parametrize("ending", FORMATS)
@settings(
    max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 6), LIMITS, LIMITS, st.booleans())
def test_any_cut_is_read_again_by_any_cutting(
    duck: DuckSession,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    sizes: list[int],
    epochs: int,
    limits: Limits,
    others: Limits,
    more: bool,
) -> None:
    monkeypatch.setattr(FileFormat, "smallest_range", 1)
    monkeypatch.setattr(cutting, "_SMALLEST_SPLIT", 16)
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name), duck, ending)
        numbers = iter(range(100))
        for file, size in enumerate(sizes):
            if size or ending == "parquet":
                world.write(f"{file}", [next(numbers) for _ in range(size)])
        if not any((world.folder / "in").iterdir()):
            world.write("0", [next(numbers)])
        world.run(limits, epochs)
        if more:
            world.write("later", [99])
        assert world.again(others) == world.read
        if others.rows is not None and ending == "parquet":
            for splits in world.history(others).splits:
                assert sum(s.rows or 0 for s in splits) <= others.rows


def test_a_history_goes_on_from_any_of_its_positions(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", range(5))
    world.write("b", range(5, 9))
    world.run(Limits(rows=3), 2)
    source = FileSource(world.spec, world.where).until(world.position)
    first = source.plan(source.initial_position(), Limits(rows=4))
    assert not first.exhausted
    rest = read_on(duck, world.spec, world.where, source, position=first.next_position)
    assert [v for s in first.splits for v in values(read_on_split(world, s))] + values(rest) == world.read
    assert source.plan(world.position, Limits()).splits == ()
    assert source.plan(world.position, Limits()).exhausted
    assert source.lag(world.position) == 0
    assert source.bounded


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_what_was_appended_later_is_not_history(tmp_path: Path, duck: DuckSession, ending: str) -> None:
    world = World(tmp_path, duck, ending)
    world.write("a", range(5))
    world.run()
    world.append("a", [5, 6])
    assert world.again() == [0, 1, 2, 3, 4]
    assert world.again(Limits(rows=2)) == [0, 1, 2, 3, 4]


def test_a_file_whose_last_line_is_continued_later(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck, "csv")
    world.file("a").write_text("1\n2")
    world.run()
    with world.file("a").open("a") as file:
        file.write("3\n4\n")
    assert world.again() == world.read == [1, 2]


def test_a_grown_file_that_begins_with_other_rows_is_told(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", range(5))
    world.run()
    world.write("a", [9, 1, 2, 3, 4, 5])
    assert f"{world.file('a')} is not what it was when it was read" in world.refused().notes


def test_a_grown_file_whose_size_is_a_column_is_told(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.spec = source_spec(
        {"a": "BIGINT"}, path="in", format="json", metadata=[("size", "file.size", "BIGINT")]
    )
    world.write("a", range(5))
    world.run()
    world.append("a", [5])
    world.refused()


@pytest.mark.parametrize("ending", FORMATS)
def test_a_touched_file_is_the_same(tmp_path: Path, duck: DuckSession, ending: str) -> None:
    world = World(tmp_path, duck, ending)
    world.write("a", range(5))
    world.run()
    os.utime(world.file("a"), (1, 1))
    assert world.again() == world.read == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("ending", FORMATS)
def test_files_that_are_gone_or_others_are_named(tmp_path: Path, duck: DuckSession, ending: str) -> None:
    world = World(tmp_path, duck, ending)
    for number, name in enumerate("abcd"):
        world.write(name, [number])
    world.run()
    bytes_ = {name: world.file(name).stat().st_size for name in "abcd"}
    os.utime(world.file("d"), (1_700_000_000, 1_700_000_000))
    world.file("a").unlink()
    world.write("c", [7, 8, 9])
    said = world.refused()
    assert said.message == ("source `t` can't be read again: 2 of 4 files changed or are gone")
    assert said.notes == (
        f"{world.file('a')} is gone",
        f"{world.file('c')} is not what it was when it was read",
        f"they had {bytes_['a'] + bytes_['c']:,} of the {sum(bytes_.values()):,} bytes that were read; "
        "how many rows is not known",
        said.notes[3],
    )
    assert said.notes[3].startswith(f"the history is complete from {world.file('d')} on, written 20")


def test_the_whole_folder_is_gone(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", [1])
    world.run()
    world.file("a").unlink()
    (tmp_path / "in").rmdir()
    assert world.refused().notes[-1] == "nothing that was read after them is there"


def test_what_was_never_read_is_not_missed(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    for number, name in enumerate("abc"):
        world.write(name, [number])
    world.run(Limits(files=1), 2)
    world.file("c").unlink()
    assert world.again() == [0, 1]


def test_a_file_that_was_skipped_unread_is_not_history(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    for number, name in enumerate("abc"):
        world.write(name, [number])
    world.run(skip="b")
    world.file("b").unlink()
    assert world.read == world.again() == [0, 2]


def test_a_file_that_was_skipped_when_a_part_of_it_was_read(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", range(6))
    world.write("b", [6])
    world.run(Limits(rows=2), 1)
    world.run(skip="a")
    assert world.read == world.again() == [0, 1, 6]


def test_the_part_that_was_read_is_told_if_it_is_gone(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", range(6))
    world.write("b", [6])
    world.run(Limits(rows=2), 1)
    world.write("a", [9, 9])
    world.run(skip="a")
    assert world.read == [0, 1, 6]
    assert world.refused().notes[0] == f"{world.file('a')} is not what it was when it was read"


def test_a_file_that_vanished_half_read_and_was_skipped(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", range(6))
    world.write("b", [6])
    world.run(Limits(rows=2), 1)
    world.file("a").unlink()
    world.run(skip="a")
    assert world.read == [0, 1, 6]
    assert world.refused().notes[0] == f"{world.file('a')} is gone"


def test_a_file_that_was_written_anew_after_it_was_read(tmp_path: Path, duck: DuckSession) -> None:
    """What is in it now was never read, and what was read of it is gone: the list must not hide that."""
    world = World(tmp_path, duck)
    world.write("a", [1, 2])
    world.write("b", [3])
    world.run()
    world.write("a", [4, 5, 6])
    world.run(skip="a")
    assert world.read == [1, 2, 3]
    assert world.refused().notes[0] == f"{world.file('a')} is not what it was when it was read"


def test_an_appended_file_that_went_on_after_an_order(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", [1, 2])
    world.run()
    world.append("a", [3])
    world.run(skip="a")
    assert world.again() == world.read == [1, 2]


def test_a_file_that_was_read_twice_by_order(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", range(6))
    world.run(Limits(rows=2), 1)
    world.run(again="a")
    assert world.again() == world.read == [0, 1, 0, 1, 2, 3, 4, 5]


def test_of_a_file_that_was_read_again_as_another_the_first_is_missed(
    tmp_path: Path, duck: DuckSession
) -> None:
    world = World(tmp_path, duck)
    world.write("a", [1, 2])
    world.run()
    world.write("a", [3, 4, 5])
    world.run(again="a")
    assert world.read == [1, 2, 3, 4, 5]
    said = world.refused()
    assert said.notes[0] == f"{world.file('a')} is not what it was when it was read"
    assert said.notes[-1].startswith(f"the history is complete from {world.file('a')} on")


def test_a_file_that_was_written_anew_before_it_was_read(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", [1])
    world.write("b", [2])
    world.run(Limits(files=1), 1)
    world.write("b", [3, 4])
    world.run()
    assert world.again() == world.read == [1, 3, 4]


def test_an_order_that_came_later_changes_nothing(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", range(6))
    world.run(Limits(rows=2), 1)
    position, read = world.position, list(world.read)
    world.run(Limits(rows=2), 1)
    world.run(skip="a")
    assert values(world.history(position=position)) == read == [0, 1]


def test_lists_that_did_not_say_what_was_read_are_not_trusted(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", [1, 2])
    world.run()
    world.write("a", [3, 4, 5])
    world.run(skip="a")
    (name,) = [n for n in world.where.store.list("sources") if n.endswith("000001.json")]
    segment = decode("listing", name, world.where.store.get(name))
    del segment["reads_told"]
    segment["updates"] = [update[:7] for update in segment["updates"]]
    world.where.store.put(name, encode("listing", segment))
    assert "was replaced, and what was read of it is not known" in world.refused().notes[0]


def test_a_list_that_is_too_short_is_an_error(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", [1])
    world.run()
    with pytest.raises(DamagedFileError, match="incomplete"):
        FileSource(world.spec, world.where).until({"segments": 2, "file": 1, "offset": 0})


def test_a_file_that_changes_while_its_history_is_read(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", range(4))
    world.run()
    source = FileSource(world.spec, world.where).until(world.position)
    (split,) = source.plan(source.initial_position(), Limits()).splits
    assert source.can_replay([split])
    world.write("a", [9] * 4)
    assert not source.can_replay([split])
    with pytest.raises(DiagnosticError, match="DAT008"):
        read_on(duck, world.spec, world.where, source, Limits(rows=1))


def test_rows_with_numbers(tmp_path: Path, duck: DuckSession) -> None:
    specs = [
        source_spec({"n": "BIGINT"}, {"rows-per-second": "1"}, connector="datagen"),
        source_spec({"n": "BIGINT"}, {"number-of-rows": "3000"}, connector="datagen"),
        source_spec({"dateTime": "TIMESTAMP"}, {"events": "3000"}, connector="nexmark"),
    ]
    for spec in specs:
        source = REGISTERED.source(spec, context(tmp_path))
        assert isinstance(source, Rereadable)
        history = source.until({"row": 2500})
        position, counts = history.initial_position(), []
        for _ in range(9):
            plan = history.plan(position, Limits(rows=1000))
            counts.append(sum(split.rows or 0 for split in plan.splits))
            position = plan.next_position
            if plan.exhausted:
                break
        assert (counts, position, history.bounded) == ([1000, 1000, 500], {"row": 2500}, True)
        nothing = source.until({"row": 0})
        assert nothing.plan(nothing.initial_position(), Limits()).exhausted


def test_an_empty_history(tmp_path: Path, duck: DuckSession) -> None:
    world = World(tmp_path, duck)
    world.write("a", [1])
    assert world.again() == []


def test_json_lines_are_what_they_are(tmp_path: Path, duck: DuckSession) -> None:
    """Malformed rows of the history are malformed again, and in the same places."""
    world = World(tmp_path, duck)
    world.file("a").write_text('{"a": 1}\nnonsense\n' + json.dumps({"a": 2}) + "\n")
    world.run()
    found = world.history()
    assert values(found) == world.read == [1, 2]
    assert [(bad.line, bad.raw) for bad in found.bad] == [(2, "nonsense")]
