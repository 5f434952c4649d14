from __future__ import annotations

from typing import Any

import pytest

from sqlstream.formats.registry import record_reader, record_writer
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError, InternalError
from sqlstream_planner.diagnostics import DiagnosticError
from tests.formats.records import read, record_format, written


@pytest.mark.parametrize(
    ("type_", "value", "record"),
    [
        ("BOOLEAN", True, b"\x01"),
        ("TINYINT", -2, b"\xfe"),
        ("SMALLINT", 258, b"\x01\x02"),
        ("INTEGER", -2, b"\xff\xff\xff\xfe"),
        ("BIGINT", 1, b"\0\0\0\0\0\0\0\x01"),
        ("FLOAT", 1.5, b"\x3f\xc0\0\0"),
        ("DOUBLE", 1.5, b"\x3f\xf8\0\0\0\0\0\0"),
        ("VARCHAR", "ü", "ü".encode()),
        ("VARCHAR", "", b""),
        ("BLOB", b"\xff\0", b"\xff\0"),
    ],
)
def test_values(duck: DuckSession, type_: str, value: Any, record: bytes) -> None:
    format_ = record_format("raw", {"x": type_})
    assert written(duck, format_, [(value,), (None,), (value,)]) == [record, None, record]
    found = read(duck, format_, [record, None, record])
    assert (found.rows, found.bad) == ([(value, 0), (value, 2)], [])
    small = record_format("raw", {"x": type_}, {"raw.endianness": "little-endian"})
    if type_ not in ("VARCHAR", "BLOB"):
        assert written(duck, small, [(value,)]) == [record[::-1]]
        assert read(duck, small, [record[::-1]]).rows == [(value, 0)]


def test_a_number_of_another_size(duck: DuckSession) -> None:
    found = read(duck, record_format("raw", {"x": "SMALLINT"}), [b"\0\x01", b"\x01", b"", None, b"\0\x02"])
    assert found.rows == [(1, 0), (2, 4)]
    assert [number for number, _ in found.bad] == [1, 2]
    assert found.bad[0][1] == "column x: 1 bytes are no SMALLINT, which has 2"


def test_character_sets(duck: DuckSession) -> None:
    utf8 = read(duck, record_format("raw", {"x": "VARCHAR"}), [b"a", b"\xff", b"b"])
    assert utf8.rows == [("a", 0), ("b", 2)]
    assert [number for number, _ in utf8.bad] == [1]
    latin = record_format("raw", {"x": "VARCHAR"}, {"raw.charset": "ISO-8859-1"})
    assert read(duck, latin, [b"\xff"]).rows == [("ÿ", 0)]
    assert written(duck, latin, [("ÿ",)]) == [b"\xff"]
    with pytest.raises(DataError):
        written(duck, latin, [("€",)])


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        ({"x": "DATE"}, {}),
        ({"x": "INTEGER", "y": "INTEGER"}, {}),
        ({"x": "INTEGER"}, {"raw.endianness": "middle"}),
        ({"x": "VARCHAR"}, {"raw.charset": "none"}),
    ],
)
def test_what_raw_can_not(duck: DuckSession, schema: dict[str, str], options: dict[str, str]) -> None:
    with pytest.raises(DiagnosticError):
        read(duck, record_format("raw", schema, options), [])


def test_an_unknown_format() -> None:

    for make in (record_reader, record_writer):
        with pytest.raises(InternalError, match="there is no format 'yaml'"):
            make(record_format("yaml", {"x": "INTEGER"}))
