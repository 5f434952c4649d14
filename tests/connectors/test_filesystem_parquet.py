from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from sqlstream.connectors.api import Limits
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.types import SqlType
from tests.connectors.harness import context, read_all, source_spec

FORMATS = ("parquet", "orc")


def _write(table: pa.Table, path: Path, format_: str, **options: object) -> None:
    if format_ == "orc":
        orc.write_table(table, path)
    else:
        pq.write_table(table, path, **options)


@pytest.mark.parametrize("format_", FORMATS)
def test_columns_are_found_by_name_and_cast(tmp_path: Path, duck: DuckSession, format_: str) -> None:
    (tmp_path / "d").mkdir()
    first = pa.table(
        {
            "B": pa.array([1.5, None]),
            "a": pa.array([1, 2], pa.int32()),
            "extra": ["x", "y"],
            "ts": pa.array([10**18 + 1, None], pa.timestamp("ns")),
            "s": [{"x": 1, "y": "q"}, None],
        }
    )
    second = pa.table({"a": pa.array([3], pa.int64()), "b": ["2.25"], "ts": ["2020-01-01T00:00:00+02:00"]})
    _write(first, tmp_path / "d/1", format_)
    _write(second, tmp_path / "d/2", format_)
    _write(second, tmp_path / "d/10", format_)
    spec = source_spec(
        {"a": "BIGINT", "b": "DECIMAL(10,2)", "ts": "TIMESTAMP", "S": "STRUCT(y VARCHAR, z BIGINT)"},
        path="d",
        format=format_,
        metadata=[("file", "file.name", "VARCHAR"), ("size", "file.size", "BIGINT")],
    )
    read = read_all(duck, spec, context(tmp_path), Limits(tasks=1))
    sizes = [(tmp_path / "d" / name).stat().st_size for name in ("1", "2", "10")]
    assert read.rows == [
        (1, Decimal("1.50"), datetime(2001, 9, 9, 1, 46, 40), {"y": "q", "z": None}, "1", sizes[0]),
        (2, None, None, None, "1", sizes[0]),
        (3, Decimal("2.25"), datetime(2019, 12, 31, 22), None, "2", sizes[1]),
        (3, Decimal("2.25"), datetime(2019, 12, 31, 22), None, "10", sizes[2]),
    ]


def test_duckdb_is_asked_once_for_files_with_one_footer(
    tmp_path: Path, duck: DuckSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow shows the timestamps of all of these files alike; INT96 and INT64 are not."""
    (tmp_path / "d").mkdir()
    at = datetime(2024, 2, 29, 12)
    for n in range(6):
        rows = pa.table({"n": [n, 10 + n], "ts": pa.array([at, None], pa.timestamp("ns"))})
        _write(rows, tmp_path / f"d/{n}", "parquet", use_deprecated_int96_timestamps=n in (2, 5))
    asked = []
    describe = DuckSession.describe

    def counted(self: DuckSession, sql: str) -> list[tuple[str, SqlType]]:
        asked.append(sql)
        return describe(self, sql)

    monkeypatch.setattr(DuckSession, "describe", counted)
    spec = source_spec({"n": "INTEGER", "ts": "TIMESTAMP"}, path="d", format="parquet")
    read = read_all(duck, spec, context(tmp_path), Limits(tasks=1))
    assert read.rows == [row for n in range(6) for row in ((n, at), (10 + n, None))]
    assert len(asked) == 2


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("content", [b"", b"PAR1 no", b"hello"])
def test_what_is_not_of_the_format_is_an_error_that_names_the_file(
    tmp_path: Path, duck: DuckSession, format_: str, content: bytes
) -> None:
    (tmp_path / "d").mkdir()
    _write(pa.table({"a": [1]}), tmp_path / "d/good", format_)
    (tmp_path / "d/worse").write_bytes(content)
    with pytest.raises(DataError, match=r"d/worse: not a readable"):
        read_all(duck, source_spec({"a": "BIGINT"}, path="d", format=format_), context(tmp_path))


def test_a_truncated_file_is_an_error(tmp_path: Path, duck: DuckSession) -> None:
    _write(pa.table({"a": list(range(10_000))}), tmp_path / "a.parquet", "parquet")
    data = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match=r"a\.parquet: not a readable Parquet file"):
        read_all(duck, source_spec({"a": "BIGINT"}, path="a.parquet", format="parquet"), context(tmp_path))


def test_damaged_pages_are_an_error(tmp_path: Path, duck: DuckSession) -> None:
    _write(pa.table({"a": [f"text {i * 7919}" for i in range(10_000)]}), tmp_path / "a.parquet", "parquet")
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[1000:3000] = b"\xff" * 2000
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(DataError, match=r"a\.parquet"):
        read_all(duck, source_spec({"a": "VARCHAR"}, path="a.parquet", format="parquet"), context(tmp_path))


@pytest.mark.parametrize("limits", [Limits(), Limits(rows=2)])
def test_values_that_can_not_be_cast_go_to_the_dead_letters(
    tmp_path: Path, duck: DuckSession, limits: Limits
) -> None:
    _write(pa.table({"a": ["1", "x", None, "4", "y"]}), tmp_path / "a.parquet", "parquet")
    spec = source_spec({"a": "BIGINT"}, path="a.parquet", format="parquet")
    read = read_all(duck, spec, context(tmp_path), limits)
    assert read.rows == [(1,), (None,), (4,)]
    assert [(b.line, b.raw) for b in read.bad] == [(2, '{"a":"x"}'), (5, '{"a":"y"}')]


def test_row_limits_are_hard_and_rows_are_known(tmp_path: Path, duck: DuckSession) -> None:
    (tmp_path / "d").mkdir()
    for i in range(3):
        table = pa.table({"a": list(range(i * 10, i * 10 + 10))})
        _write(table, tmp_path / f"d/{i}.parquet", "parquet", row_group_size=4)
    spec = source_spec({"a": "BIGINT"}, path="d", format="parquet")
    read = read_all(duck, spec, context(tmp_path), Limits(rows=7))
    assert read.rows == [(i,) for i in range(30)]
    assert [sum(s.rows or 0 for s in splits) for splits in read.splits] == [7, 7, 7, 7, 2]


def test_counting_needs_no_column(tmp_path: Path, duck: DuckSession) -> None:
    for format_ in FORMATS:
        _write(pa.table({"a": [1, 2, 3]}), tmp_path / f"a.{format_}", format_)
    (tmp_path / "a.json").write_text('{"a": 1}\n{"a": "x"}\n{}\n')
    (tmp_path / "a.csv").write_text("1\nx\n\n2\n")
    for format_ in (*FORMATS, "json", "csv"):
        spec = source_spec({"a": "BIGINT"}, columns=(), path=f"a.{format_}", format=format_)
        # An empty line is NULL where a record has one field.
        expected = 4 if format_ == "csv" else 3
        assert len(read_all(duck, spec, context(tmp_path, format_)).rows) == expected


def test_ambiguous_columns_are_refused(tmp_path: Path, duck: DuckSession) -> None:
    _write(pa.table({"a": [1], "A": [2]}), tmp_path / "a.parquet", "parquet")
    with pytest.raises(DataError, match="column a could be any of a, A"):
        read_all(duck, source_spec({"a": "BIGINT"}, path="a.parquet", format="parquet"), context(tmp_path))
