from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sqlstream.formats import scratch
from sqlstream.formats.json import records as json_records
from sqlstream.formats.registry import record_reader
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.harness import context, read_all, source_spec
from tests.connectors.test_filesystem_json import BAD, GOOD
from tests.connectors.test_filesystem_json import SCHEMA as OF_FILES
from tests.examples import seeds
from tests.formats.records import array, read, record_format, written

SCHEMA = {"a": "INTEGER", "b": "VARCHAR", "t": "TIMESTAMP", "d": "DECIMAL(30,10)", "s": "STRUCT(x INTEGER[])"}


def test_rows_have_the_numbers_of_their_records(duck: DuckSession) -> None:
    found = read(
        duck, record_format("json", SCHEMA, columns=["a", "b"]), [b'{"a": 1, "b": "x"}', None, b'{"a": 2}']
    )
    assert found.rows == [(1, "x", 0), (2, None, 2)]
    assert found.bad == []


@pytest.mark.parametrize("records", [[], [None], [None, None]])
def test_no_records(duck: DuckSession, records: list[bytes | None]) -> None:
    found = read(duck, record_format("json", SCHEMA), records)
    assert (found.rows, found.bad) == ([], [])


def test_a_record_may_have_lines_and_a_mark(duck: DuckSession) -> None:
    given = [b'{"a":\r\n 1,\n"b": "x"\n}\n', b'\xef\xbb\xbf{"a": 2}', b' \t{"a": 3}', b"null"]
    found = read(duck, record_format("json", SCHEMA, columns=["a", "b"]), given)
    assert found.rows == [(1, "x", 0), (2, None, 1), (3, None, 2), (None, None, 3)]
    assert found.bad == []


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"", "the message is empty"),
        (b" \r\n\t", "the message is empty"),
        (b"\xef\xbb\xbf", "the message is empty"),
        (b'{"a":1}{"a":2}', "not valid JSON"),
        (b'{"a":1} {"a":2}', "not valid JSON"),
        (b'{"a":1}\n{"a":2}', "not valid JSON"),
        (b'{"a":1}\r\n{"a":2}\n', "not valid JSON"),
        (b'{"b":"x\ny"}', "not valid JSON"),
        (b'\n\xef\xbb\xbf{"a":1}', "not valid JSON"),
        (b'{"a":1}\x00', "not valid JSON"),
        (b'{"a":"x"}', 'column a: not a BIGINT: "x"'),
        *((record, "") for record in BAD),
    ],
)
def test_bad_records(duck: DuckSession, record: bytes, reason: str) -> None:
    found = read(duck, record_format("json", OF_FILES), [None, b'{"a": 1}', record, b'{"a": 3}'])
    assert [row[-1] for row in found.rows] == [1, 3]
    [(number, why)] = found.bad
    assert number == 2
    assert why.startswith(reason)


def test_good_records(duck: DuckSession) -> None:
    found = read(duck, record_format("json", OF_FILES), GOOD)
    assert [row[-1] for row in found.rows] == list(range(len(GOOD)))


def test_missing_fields_may_be_bad(duck: DuckSession) -> None:
    options = {"json.fail-on-missing-field": "true"}
    format_ = record_format("json", {"a": "INTEGER", "b": "VARCHAR"}, options)
    found = read(duck, format_, [b'{"a": 1}', b'{"a": 2, "b": null}'])
    assert (found.rows, found.bad) == ([(2, None, 1)], [(0, "key b is missing")])
    assert read(duck, format_, [b'{"a": 2, "b": null}']).rows == [(2, None, 0)]


def test_long_decimals_are_exact(duck: DuckSession) -> None:

    given = array([b'{"d": 12345678901234567.1234567}', None, b"x", b'{"d": 1}'])
    table, bad = record_reader(record_format("json", SCHEMA, columns=["d"])).read_leniently(duck, given)
    assert table.to_pylist() == [
        {"d": Decimal("12345678901234567.1234567000"), "__record": 0},
        {"d": Decimal(1), "__record": 3},
    ]
    assert [one.index for one in bad] == [2]


def test_no_column_is_wanted(duck: DuckSession) -> None:
    found = read(duck, record_format("json", SCHEMA, columns=[]), [b'{"a": 1}', b"x", None, b'{"a": "y"}'])
    assert (found.rows, [number for number, _ in found.bad]) == ([(0,), (3,)], [1])


def test_a_system_without_files_in_memory(duck: DuckSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_OPEN_FILES", Path("/nowhere"))
    assert read(duck, record_format("json", {"a": "INTEGER"}), [b'{"a": 1}']).rows == [(1, 0)]


PIECES = [
    *(
        b'{"a": 1}',
        b'{"a": "1", "b": 5}',
        b'{"b": [1,\n2]}',
        b'{"b": "\\n"}',
        b"null",
        b'{"t": "2020-01-01T01:00:00+01"}',
    ),
    *(b'{"a": "x"}', b"{", b"}", b'"', b",", b'{"s": {"x": [1, null]}}', b'{"s": {"x": 1}}', b"\xff", b"[]"),
    *(
        b'{"d": 1.5}',
        b'{"d": 12345678901234567.5}',
        b'{"t": "x"}',
        b'{"a": 1, "a": 2}',
        b"\x0b",
        b"  ",
        b"\r",
    ),
]


@pytest.mark.parametrize("seed", seeds(6))
def test_a_record_is_what_it_is_alone_and_in_a_file(
    duck: DuckSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(json_records, "_BLOCK", random.Random(seed).choice([1, 30, 2 << 20]))
    chosen = random.Random(seed)
    records: list[bytes | None] = []
    for _ in range(chosen.randrange(12)):
        parts = chosen.choices(PIECES, k=chosen.choice([1, 1, 1, 2]))
        records.append(chosen.choice([b"".join(parts), b" ".join(parts), b"\n".join(parts), b"", None]))

    format_ = record_format("json", SCHEMA)
    table, bad = record_reader(format_).read_leniently(duck, array(records))
    rows = [tuple(row.values()) for row in table.to_pylist()]
    wrong = {one.index for one in bad}
    for number, record in enumerate(records):
        mine = [row[:-1] for row in rows if row[-1] == number]
        if record is None:
            assert (mine, number in wrong) == ([], False)
            continue
        assert len(mine) + (number in wrong) == 1
        (tmp_path / "one.json").write_bytes(record.replace(b"\n", b"\t"))
        where = context(tmp_path, f"state{number}")
        alone = read_all(duck, source_spec(SCHEMA, path="one.json", format="json"), where)
        assert mine == alone.rows
        assert (number in wrong) == bool(alone.bad) or not record.strip()


def test_writes_an_object_a_row(duck: DuckSession) -> None:
    schema = {"a": "INTEGER", "b": "VARCHAR", "t": "TIMESTAMP", "x": "BLOB"}
    rows: list[tuple[Any, ...]] = [(1, 'ü"\n', None, b"\0"), (None, None, None, None)]
    assert written(duck, record_format("json", schema), rows) == [
        '{"a":1,"b":"ü\\"\\n","t":null,"x":"AA=="}'.encode(),
        b'{"a":null,"b":null,"t":null,"x":null}',
    ]
    brief = record_format("json", schema, {"json.encode.ignore-null-fields": "true"})
    assert written(duck, brief, rows) == ['{"a":1,"b":"ü\\"\\n","x":"AA=="}'.encode(), b"{}"]
    assert written(duck, brief, []) == []
    for record in written(duck, record_format("json", schema), rows):
        assert record is not None
        json.loads(record)
