from __future__ import annotations

import random

import pytest

from sqlstream.formats.registry import record_reader
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from tests.examples import seeds
from tests.formats.records import array, read, record_format, written

SCHEMA = {"a": "INTEGER", "b": "VARCHAR"}


def test_fields_are_the_declared_columns(duck: DuckSession) -> None:
    found = read(duck, record_format("csv", SCHEMA), [b"1,x", None, b"2,", b'3,""\r\n', b'4,"a\r\nb,""q"""'])
    assert found.rows == [(1, "x", 0), (2, None, 2), (3, "", 3), (4, 'a\r\nb,"q"', 4)]
    assert read(duck, record_format("csv", SCHEMA, columns=["b"]), [b"1,x", b"z,y"]).rows == [
        ("x", 0),
        ("y", 1),
    ]
    assert read(duck, record_format("csv", SCHEMA), [None]).rows == []


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "the message is empty"),
        (b"\r\n", "the message is empty"),
        (b"3,x\n4,y", "not one record of CSV"),
        (b'3,"x\n4,y', ""),
        (b'x"', ""),
        (b"x,y", 'Error when converting column "a"'),
        (b"7", "Expected Number of Columns: 2 Found: 1"),
        (b"8,\xff", ""),
    ],
)
def test_bad_records(duck: DuckSession, record: bytes, reason: str) -> None:
    found = read(duck, record_format("csv", SCHEMA), [b"1,x", record, None, record, b'2,"y"'])
    assert found.rows == [(1, "x", 0), (2, "y", 4)]
    assert [number for number, _ in found.bad] == [1, 3]
    assert all(why.startswith(reason) for _, why in found.bad)


def test_flinks_options(duck: DuckSession) -> None:
    options = {
        "csv.field-delimiter": ";",
        "csv.quote-character": "'",
        "csv.escape-character": "\\",
        "csv.null-literal": "NULL",
        "csv.allow-comments": "true",
    }
    given = [b"1;'x\\'y\n'", b"2;NULL", b"#c", b"3;#", b"4;a\\"]
    found = read(duck, record_format("csv", SCHEMA, options), given)
    assert found.rows == [(1, "x'y\n", 0), (2, None, 1), (3, "#", 3), (4, "a\\", 4)]


def test_bytes_are_base64(duck: DuckSession) -> None:
    """As in Flink's CSV; what is no base64 is malformed."""
    format_ = record_format("csv", {"a": "INTEGER", "b": "BLOB"})
    found = read(duck, format_, [b"1,AP8s", b"2,x", b"3,", b'4,""'])
    assert found.rows == [(1, b"\x00\xff,", 0), (3, None, 2), (4, b"", 3)]
    assert [number for number, _ in found.bad] == [1]
    assert written(duck, format_, [(1, b"\x00\xff,"), (2, None), (3, b"")]) == [b"1,AP8s", b"2,", b'3,""']


TEXTS = ["", "x", '"', ",", "\n", "\r\n", "\\", "'", "#", "ü", " ", "NULL", ";", '""', '\\"']


@pytest.mark.parametrize("seed", seeds(6))
def test_what_is_written_is_read(duck: DuckSession, seed: int) -> None:
    chosen = random.Random(seed)
    options = dict(
        chosen.sample(
            [
                ("csv.field-delimiter", chosen.choice([";", "|", "\\t"])),
                ("csv.quote-character", "'"),
                ("csv.escape-character", "\\"),
                ("csv.null-literal", "NULL"),
            ],
            k=chosen.randrange(4),
        )
    )
    rows = [
        (chosen.choice([None, 1, -5]), chosen.choice([None, "".join(chosen.choices(TEXTS, k=3))]))
        for _ in range(chosen.randrange(1, 20))
    ]
    if options.get("csv.null-literal"):  # as in files, the text is written quoted and read as itself
        rows = [(number, text) for number, text in rows if text != "NULL"]
    format_ = record_format("csv", {"a": "INTEGER", "b": "VARCHAR"}, options)

    table, bad = record_reader(format_).read_leniently(duck, array(written(duck, format_, rows)))
    assert bad == []
    assert [tuple(row.values()) for row in table.to_pylist()] == [(*row, i) for i, row in enumerate(rows)]


@pytest.mark.parametrize("seed", seeds(6))
def test_a_record_is_what_it_is_alone(duck: DuckSession, seed: int) -> None:
    chosen = random.Random(seed)
    pieces = ["1", ",", '"', "x", "\n", "\r", ",y", '1,"a"', "#", '""', "2,z", "\\"]
    records: list[bytes | None] = [
        "".join(chosen.choices(pieces, k=chosen.randrange(1, 6))).encode()
        for _ in range(chosen.randrange(1, 15))
    ]
    format_ = record_format("csv", SCHEMA, {"csv.escape-character": "\\"} if seed % 3 == 0 else {})

    reader = record_reader(format_)
    table, bad = reader.read_leniently(duck, array(records))
    rows = [tuple(row.values()) for row in table.to_pylist()]
    wrong = {one.index for one in bad}
    for number, record in enumerate(records):
        mine = [row[:-1] for row in rows if row[-1] == number]
        alone, refused = reader.read_leniently(duck, array([record]))
        assert mine == [tuple(row.values())[:-1] for row in alone.to_pylist()]
        assert (number in wrong) == bool(refused)
        assert len(mine) + (number in wrong) == 1


def test_a_line_end_that_nothing_can_quote(duck: DuckSession) -> None:
    format_ = record_format("csv", SCHEMA, {"csv.disable-quote-character": "true"})
    assert written(duck, format_, [(1, "x")]) == [b"1,x"]
    with pytest.raises(DataError):
        written(duck, format_, [(1, "x\ny")])
