from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from sqlstream.connectors.api import Limits
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.harness import context, read_all, source_spec


def test_reads_lines(tmp_path: Path, duck: DuckSession) -> None:
    (tmp_path / "a.json").write_text('{"a": 1, "b": "x"}\n\n{"a": null}\r\n{"b": "z", "c": 5, "a": 3}')
    spec = source_spec({"a": "BIGINT", "b": "VARCHAR"}, path="a.json", format="json")
    read = read_all(duck, spec, context(tmp_path))
    assert read.rows == [(1, "x"), (None, None), (3, "z")]
    assert read.bad == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-01 00:00:00", datetime(2020, 1, 1)),
        ("2020-01-01T00:00:00.5", datetime(2020, 1, 1, 0, 0, 0, 500000)),
        ("2020-01-01T00:00:00Z", datetime(2020, 1, 1)),
        ("2020-01-01T00:00:00+02:00", datetime(2019, 12, 31, 22)),
        ("2020-01-01 00:00:00-01", datetime(2020, 1, 1, 1)),
    ],
)
def test_timestamps_with_a_zone_become_utc(
    tmp_path: Path, duck: DuckSession, text: str, expected: datetime
) -> None:
    (tmp_path / "a.json").write_text(f'{{"t": "{text}", "z": "{text}", "s": {{"t": ["{text}"]}}}}\n')
    spec = source_spec(
        {"t": "TIMESTAMP", "z": "TIMESTAMP WITH TIME ZONE", "s": "STRUCT(t TIMESTAMP[])"},
        path="a.json",
        format="json",
    )
    read = read_all(duck, spec, context(tmp_path))
    assert read.rows == [(expected, expected.replace(tzinfo=UTC), {"t": [expected]})]


BAD = [
    b'{"a": 1',
    b'{"a": "x"}',
    b'{"a": 99999999999999999999}',
    b'[{"a": 1}]',
    b'"a"',
    b"1",
    b"oops",
    b'{"b": "\xff"}',
    b'{"b": "\\ud800"}',
    b'{"a": 1, "a": 2}',
    b'{"a": 1} {"a": 2}',
    b'{"a": [1]}',
    b'{"a": {}}',
    b'{"t": "yesterday"}',
    b'{"t": 5}',
    b'{"s": [1]}',
    b'{"s": {"x": "q"}}',
    b'{"s": {"x": 1, "x": 2}}',
    b'{"s": {"l": {}}}',
    b'{"s": {"l": [{"m": {"k": "q"}}]}}',
    b'{"s": {"l": [{"m": {"k": 1, "k": 2}}]}}',
    b'{"s": {"l": [null, {"m": 4}]}}',
    b'{"d": "12345.6"}',
    b'{"d": 99999}',
    b'{"k": {"x": 1}}',
    b"{'a': 1}",
    b'{"a": 1}x',
]
GOOD = [
    b'{"a": 1, "b": "x"}',
    b"null",
    b"{}",
    b' {"a": 1.5}\t',
    b'{"a": "7", "b": {"any": [1, "\\u00e9"]}}',
    b'{"a": true}',
    b'{"s": null}',
    b'{"s": {"x": null, "l": [null, {"m": {"k": null}}]}}',
    b'{"s": {"other": "\xc3\xa9"}}',
    b'{"d": "1.005", "t": "2020-01-01T00:00:00Z"}',
    b'{"k": {"1": 1, "2": null}}',
    b'{"unknown": 1, "unknown": 2}',
]
SCHEMA = {
    "a": "BIGINT",
    "b": "VARCHAR",
    "t": "TIMESTAMP",
    "s": "STRUCT(x INTEGER, l STRUCT(m MAP(VARCHAR, INTEGER))[])",
    "d": "DECIMAL(5,2)",
    "k": "MAP(INTEGER, INTEGER)",
}


@pytest.mark.parametrize("line", BAD, ids=repr)
def test_a_bad_line_goes_to_the_dead_letters(tmp_path: Path, duck: DuckSession, line: bytes) -> None:
    content = b'{"a": 1}\n\n' + line + b'\n{"a": 2}\n'
    (tmp_path / "a.json").write_bytes(content)
    spec = source_spec(SCHEMA, path="a.json", format="json")
    read = read_all(duck, spec, context(tmp_path))
    assert [row[0] for row in read.rows] == [1, 2]
    assert [(b.origin, b.line, b.raw) for b in read.bad] == [
        (str(tmp_path / "a.json"), 3, line.decode("utf-8", "replace"))
    ]
    assert read.bad[0].reason
    # Found in one pass over the block, not by trying: `acceptable` knows it.
    assert "JSON transform" not in read.bad[0].reason


def test_good_lines_stay_good_beside_a_bad_one(tmp_path: Path, duck: DuckSession) -> None:
    (tmp_path / "good.json").write_bytes(b"\n".join(GOOD))
    good = read_all(duck, source_spec(SCHEMA, path="good.json", format="json"), context(tmp_path, "s1"))
    assert good.bad == []
    (tmp_path / "both.json").write_bytes(b"\n".join([*GOOD, b"oops", *GOOD]))
    both = read_all(duck, source_spec(SCHEMA, path="both.json", format="json"), context(tmp_path, "s2"))
    assert both.rows == good.rows * 2
    assert len(good.rows) == len(GOOD)
    assert [b.line for b in both.bad] == [len(GOOD) + 1]


def test_line_numbers_are_those_of_the_file_when_it_is_cut(tmp_path: Path, duck: DuckSession) -> None:
    lines = [b'{"a": %d}' % i if i % 7 else b"bad %d" % i for i in range(100)]
    (tmp_path / "a.json").write_bytes(b"\n".join(lines))
    spec = source_spec({"a": "BIGINT"}, path="a.json", format="json")
    read = read_all(duck, spec, context(tmp_path), Limits(rows=9))
    assert read.rows == [(i,) for i in range(100) if i % 7]
    assert [(b.line, b.raw) for b in read.bad] == [(i + 1, f"bad {i}") for i in range(0, 100, 7)]
    assert len(read.splits) == 12


@pytest.mark.parametrize(
    "number", ["283939018348.7150", "9999999999999999.0000", "-1234567890123456.7891", "0.1"]
)
def test_decimals_with_many_digits_are_exact(tmp_path: Path, duck: DuckSession, number: str) -> None:
    """DuckDB's reader makes a double of them first."""
    lines = [
        f'{{"d": {number}, "n": [{{"d": {number}}}], "s": "{number}"}}',
        '{"d": "12.50", "s": "x: 1.5"}',
        "no",
    ]
    (tmp_path / "a.json").write_text("\n".join(lines))
    spec = source_spec(
        {"d": "DECIMAL(20,4)", "n": "STRUCT(d DECIMAL(38,18))[]", "s": "VARCHAR"},
        path="a.json",
        format="json",
    )
    read = read_all(duck, spec, context(tmp_path))
    exact = Decimal(number)
    assert read.rows == [(exact, [{"d": exact}], number), (Decimal("12.5"), None, "x: 1.5")]
    assert [b.raw for b in read.bad] == ["no"]
