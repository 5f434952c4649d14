"""Random tables, written as every format, read back by any cutting: the same rows in the same order."""

from __future__ import annotations

import string
import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import Limits
from sqlstream.connectors.filesystem import cutting
from sqlstream.connectors.filesystem.sink import FileWriter
from sqlstream.formats.boundaries import csv_range_end, json_range_end
from sqlstream.formats.csv.shape import CsvShape
from sqlstream.formats.files import FileFormat
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.types import parse_type
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.harness import context, read_all, rows, sink_spec, source_spec
from tests.examples import examples

TEXT = st.text(
    st.one_of(st.sampled_from("\"',;\n\r\t\\# {}[]:xé漢\U0001f600"), st.sampled_from(string.printable)),
    max_size=8,
).filter(lambda s: "\x0b" not in s and "\x0c" not in s)
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1))
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "TINYINT": st.integers(-128, 127),
    "INTEGER": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.integers(-(2**63), 2**63 - 1),
    "UBIGINT": st.integers(0, 2**64 - 1),
    "HUGEINT": st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
    "DECIMAL(20,4)": st.integers(-(10**20) + 1, 10**20 - 1).map(lambda i: Decimal(i).scaleb(-4)),
    "VARCHAR": TEXT,
    "BLOB": st.binary(max_size=6),
    "DATE": st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    "TIME": st.times(),
    "TIMESTAMP": TIMES,
    "TIMESTAMP WITH TIME ZONE": TIMES.map(lambda t: t.replace(tzinfo=UTC)),
}
NESTED: dict[str, st.SearchStrategy[Any]] = {
    "BIGINT[]": st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
    'STRUCT("x" TIMESTAMP, "Y y" VARCHAR)': st.fixed_dictionaries(
        {"x": st.none() | TIMES, "Y y": st.none() | TEXT}
    ),
    "MAP(VARCHAR, DOUBLE)": st.dictionaries(
        st.text(string.ascii_letters, max_size=3), st.none() | st.floats(-1e6, 1e6), max_size=3
    ).map(lambda d: list(d.items())),
}
TYPES = {**SCALARS, **NESTED}
# DuckDB's text form of nested values does not read back every string in them.
CSV_TYPES = {**SCALARS, "BIGINT[]": NESTED["BIGINT[]"]}


@st.composite
def tables(draw: st.DrawFn, types: dict[str, st.SearchStrategy[Any]]) -> tuple[dict[str, str], pa.Table]:
    chosen = draw(st.lists(st.sampled_from(sorted(types)), min_size=1, max_size=4))
    schema = {f"c{i} ä"[: 2 + i % 3]: type_ for i, type_ in enumerate(chosen)}
    schema = dict(zip([f"c{i}" if i % 2 else f"C {i}" for i in range(len(chosen))], chosen, strict=True))
    count = draw(st.integers(0, 30))
    columns = {
        name: pa.array(
            draw(st.lists(st.none() | types[type_], min_size=count, max_size=count)),
            to_arrow(parse_type(type_)),
        )
        for name, type_ in schema.items()
    }
    return schema, pa.table(columns)


def _check(
    duck: DuckSession,
    format_: str,
    schema: dict[str, str],
    table: pa.Table,
    cuts: list[int],
    limits: Limits,
    queries: int,
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writer = FileWriter(sink_spec(schema, path="out", format=format_), name)
        (folder / "in").mkdir()
        ends = sorted(cut % (table.num_rows + 1) for cut in cuts)
        ranges = zip([0, *ends], [*ends, table.num_rows], strict=True)
        for i, (start, end) in enumerate(ranges):
            part = writer.write(table.slice(start, end - start), epoch=i, task="0")
            for staged, _ in part.payload.get("files", ()):
                (folder / "out" / staged).rename(folder / f"in/{i}.{format_}")
        spec = source_spec(schema, path="in", format=format_)
        if not table.num_rows:  # without rows there is no file
            with pytest.raises(DiagnosticError, match="DAT004"):
                read_all(duck, spec, context(folder, "whole"))
            return
        whole = read_all(duck, spec, context(folder, "whole"))
        cut = read_all(duck, spec, context(folder, "cut"), limits, queries=queries)
        assert whole.bad == []
        assert cut.bad == []
        assert whole.rows == rows(table)
        assert cut.rows == rows(table)
        for splits in cut.splits:
            assert len(splits) <= limits.tasks
        if limits.rows is not None and format_ == "parquet":
            assert all(sum(s.rows or 0 for s in splits) <= limits.rows for splits in cut.splits)


LIMITS = st.builds(
    Limits,
    rows=st.none() | st.integers(1, 12),
    files=st.none() | st.integers(1, 3),
    bytes=st.none() | st.integers(1, 2000),
    tasks=st.integers(1, 5),
)
_BOUNDED = settings(
    max_examples=examples(7), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are cut for parallelism too, however small they are."""
    monkeypatch.setattr(FileFormat, "smallest_range", 1)
    monkeypatch.setattr(cutting, "_SMALLEST_SPLIT", 16)


@_BOUNDED
@given(tables(TYPES), st.lists(st.integers(0, 30), max_size=3), LIMITS, st.integers(1, 2))
def test_json(
    duck: DuckSession, made: tuple[dict[str, str], pa.Table], cuts: list[int], limits: Limits, queries: int
) -> None:
    _check(duck, "json", *made, cuts, limits, queries)


@_BOUNDED
@given(tables(CSV_TYPES), st.lists(st.integers(0, 30), max_size=3), LIMITS, st.integers(1, 2))
def test_csv(
    duck: DuckSession, made: tuple[dict[str, str], pa.Table], cuts: list[int], limits: Limits, queries: int
) -> None:
    _check(duck, "csv", *made, cuts, limits, queries)


@_BOUNDED
@given(tables(TYPES), st.lists(st.integers(0, 30), max_size=3), LIMITS, st.integers(1, 2))
def test_parquet(
    duck: DuckSession, made: tuple[dict[str, str], pa.Table], cuts: list[int], limits: Limits, queries: int
) -> None:
    _check(duck, "parquet", *made, cuts, limits, queries)


FRAGMENTS = st.sampled_from(["a", '"', '""', ",", "\n", "\r\n", "\r", "é", '"x"', '"x\ny"', " "])


@settings(max_examples=300, deadline=None)
@given(st.lists(FRAGMENTS, max_size=20).map("".join), st.integers(1, 4), st.integers(1, 5))
def test_pieces_of_any_text_add_up_to_the_text(text: str, records: int, block: int) -> None:
    """Well-formed or not: ranges are contiguous, not empty and hold at most `records` records."""
    data = text.encode()
    with tempfile.TemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sqlstream.formats.boundaries._BLOCK", block)
        file.write(data)
        for cut in (json_range_end, lambda *args: csv_range_end(CsvShape(), *args)):
            position = 0
            while position < len(data):
                end, counted = cut(file, position, len(data), records, None)
                assert position < end <= len(data)
                assert counted is None or 0 < counted <= records
                if cut is json_range_end:
                    assert data[position : end - 1].count(b"\n") <= records - 1
                position = end


@settings(
    max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(FRAGMENTS, max_size=14).map("".join), st.integers(1, 3))
def test_csv_of_any_text_is_read_alike_however_it_is_cut(duck: DuckSession, text: str, records: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "a.csv").write_bytes(text.encode())
        spec = source_spec({"a": "VARCHAR", "b": "VARCHAR"}, path="a.csv", format="csv")
        whole = read_all(duck, spec, context(Path(name), "whole"))
        cut = read_all(duck, spec, context(Path(name), "cut"), Limits(rows=records))
        assert cut.rows == whole.rows
        assert [(b.raw, b.reason) for b in cut.bad] == [(b.raw, b.reason) for b in whole.bad]


VALUES = st.recursive(
    st.sampled_from(
        ["1", "-7.5", '"x"', '"12"', "null", "true", '"2020-01-01"', "1e400", "NaN", "99999999999999999999"]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda v: "[" + ", ".join(v) + "]"),
        st.lists(st.tuples(st.sampled_from("abxk"), inner), max_size=3).map(
            lambda kv: "{" + ", ".join(f'"{k}": {v}' for k, v in kv) + "}"
        ),
    ),
    max_leaves=6,
)
JSON_TYPES = st.recursive(
    st.sampled_from(
        [
            "BIGINT",
            "UTINYINT",
            "DOUBLE",
            "BOOLEAN",
            "VARCHAR",
            "DATE",
            "TIMESTAMP",
            "DECIMAL(5,2)",
            "JSON",
            "BLOB",
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda t: f"{t}[]"),
        inner.map(lambda t: f"STRUCT(a {t}, x VARCHAR)"),
        inner.map(lambda t: f"MAP(VARCHAR, {t})"),
        inner.map(lambda t: f"MAP(INTEGER, {t})"),
    ),
    max_leaves=3,
)


@settings(
    max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(JSON_TYPES, VALUES)
def test_careful_is_exactly_as_strict_as_strict(duck: DuckSession, type_: str, value: str) -> None:
    """A line that strict reads is good in lenient mode and gives the same row; one that it refuses is bad."""
    with tempfile.TemporaryDirectory() as name:
        line = f'{{"a": {value}}}'
        (Path(name) / "alone.json").write_text(line)
        (Path(name) / "beside.json").write_text(f"oops\n{line}\n")
        alone = read_all(
            duck, source_spec({"a": type_}, path="alone.json", format="json"), context(Path(name), "1")
        )
        beside = read_all(
            duck, source_spec({"a": type_}, path="beside.json", format="json"), context(Path(name), "2")
        )
        assert str(beside.rows) == str(alone.rows)
        assert [b.raw for b in beside.bad] == ["oops", *(b.raw for b in alone.bad)]
        assert all("transform" not in b.reason for b in beside.bad)
