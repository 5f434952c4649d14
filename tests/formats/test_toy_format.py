"""To add a format is to write and register it: this one is read from records and files, written and judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from sqlstream.connectors.api import Limits
from sqlstream.connectors.filesystem import batch, options
from sqlstream.connectors.filesystem.batch_input import batch_input
from sqlstream.connectors.filesystem.sink import FileWriter
from sqlstream.formats import registry
from sqlstream.formats.api import RECORD_COLUMN, BadRecord, RecordFormat
from sqlstream.formats.file_parts import BadText, FilePart, FileTable
from sqlstream.formats.files import FileFormat, Unit, line_ends
from sqlstream.formats.referee import BatchRead, Referee, always
from sqlstream.formats.registry import Format
from sqlstream.formats.scratch import Scratch
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import Column
from sqlstream_planner.catalog.descriptor import FormatDescriptor
from tests.connectors.harness import context, read_all, sink_spec, source_spec
from tests.formats.records import read, record_format, written


class Stars:
    """A line is a number, written as so many stars."""

    parses = True

    def __init__(self, table: FileTable | RecordFormat) -> None:
        self._name = table.columns[0].name
        self._type = table.columns[0].type

    def read(self, duck: DuckSession, values: pa.Array) -> pa.Table:
        table, bad = self.read_leniently(duck, values)
        if bad:
            raise DataError(bad[0].reason)
        return table

    def read_leniently(self, duck: DuckSession, values: pa.Array) -> tuple[pa.Table, Sequence[BadRecord]]:
        given = [(i, value) for i, value in enumerate(values.to_pylist()) if value is not None]
        good = [(i, len(value)) for i, value in given if not value.strip(b"*")]
        bad = [BadRecord(i, "no stars") for i, value in given if value.strip(b"*")]
        numbers = pa.array([n for _, n in good], pa.int64())
        return pa.table({self._name: numbers, RECORD_COLUMN: pa.array([i for i, _ in good], pa.int64())}), bad

    def write(self, duck: DuckSession, rows: pa.Table) -> pa.Array:
        return pa.array([b"*" * n for n in rows.column(0).to_pylist()], pa.large_binary())

    def strict(self, duck: DuckSession, parts: Sequence[FilePart], work: Scratch) -> str | pa.Table:
        tables = [self.lenient(duck, part, work) for part in parts]
        if any(bad for _, bad in tables):
            raise DataError("no stars")
        return pa.concat_tables([table for table, _ in tables])

    def lenient(self, duck: DuckSession, part: FilePart, work: Scratch) -> tuple[pa.Table, list[BadText]]:
        lines = Path(part.text()).read_bytes().splitlines()
        table, bad = self.read_leniently(duck, pa.array(lines, pa.large_binary()))
        first = 1 + part.lines_before()
        refused = [BadText(first + one.index, lines[one.index].decode(), one.reason) for one in bad]
        return table.select([self._name]), refused


def write_stars(
    filesystem: fs.FileSystem,
    path: str,
    rows: pa.Table,
    columns: Sequence[Column],
    options: Mapping[str, str],
) -> None:
    with filesystem.open_output_stream(path) as out:
        out.write(b"".join(b"*" * n + b"\n" for n in rows.column(0).to_pylist()))


def judge(read: BatchRead) -> str:
    [column] = read.columns
    return f"(SELECT length(l) AS {column.name} FROM read_csv({read.listed}, columns = {{l: 'VARCHAR'}}, header = false))"


STARS = Format(
    FormatDescriptor("stars"),
    Stars,
    Stars,
    FileFormat(
        Unit.TEXT,
        Stars,
        Referee(judge, always, typed=True),
        write_stars,
        ".stars",
        appendable=True,
        smallest_range=1,
        range_end=line_ends,
    ),
)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line in the registry."""
    formats = registry.REGISTERED.with_format(STARS)
    for module in (registry, options, batch):
        monkeypatch.setattr(module, "REGISTERED", formats)
    monkeypatch.setattr(options, "FORMATS", tuple(one.name for one in formats.of_files))


def test_records(duck: DuckSession) -> None:
    format_ = record_format("stars", {"n": "BIGINT"})
    assert written(duck, format_, [(2,), (0,)]) == [b"**", b""]
    found = read(duck, format_, [b"**", None, b"x", b""])
    assert (found.rows, found.bad) == ([(2, 0), (0, 3)], [(2, "no stars")])


def test_files(tmp_path: Path, duck: DuckSession) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.stars").write_text("*\n**\nx\n***\n")
    spec = source_spec({"n": "BIGINT"}, path="in", format="stars")
    found = read_all(duck, spec, context(tmp_path), Limits(rows=2, tasks=2))
    assert found.rows == [(1,), (2,), (3,)]
    assert [(one.line, one.raw, one.reason) for one in found.bad] == [(3, "x", "no stars")]
    assert len(found.splits) > 1


def test_what_is_written_is_read_and_judged(tmp_path: Path, duck: DuckSession) -> None:
    sink = sink_spec({"n": "BIGINT"}, path="out", format="stars")
    part = FileWriter(sink, str(tmp_path)).write(pa.table({"n": [3, 1]}), epoch=1, task="0")
    [[staged, name]] = part.payload["files"]
    assert name.endswith(".stars")
    (tmp_path / "in").mkdir()
    (tmp_path / "out" / staged).rename(tmp_path / "in/x.stars")
    spec = source_spec({"n": "BIGINT"}, path="in", format="stars")
    assert read_all(duck, spec, context(tmp_path)).rows == [(3,), (1,)]
    files = batch_input(spec, str(tmp_path))
    assert files is not None
    assert duck.query(batch.batch_select(spec, files)).to_pylist() == [{"n": 3}, {"n": 1}]
