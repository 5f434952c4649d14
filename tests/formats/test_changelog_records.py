from __future__ import annotations

import pytest

from sqlstream_operators.duck.session import DuckSession
from tests.formats.records import read, record_format, written

SCHEMA = {"a": "INTEGER", "b": "VARCHAR"}
WRAPPED = {"debezium-json.schema-include": "true"}


def test_debezium(duck: DuckSession) -> None:
    given = [
        b'{"op": "c", "after": {"a": 1}}',
        b"null",
        None,
        b'{"op": "u",\n "before": {"a": 1}, "after": {"a": 2}}',
        b'{"op": "d", "before": {"a": 2}}',
    ]
    found = read(duck, record_format("debezium-json", SCHEMA), given)
    assert found.rows == [
        (1, None, "+I", 0),
        (1, None, "-U", 3),
        (2, None, "+U", 3),
        (2, None, "-D", 4),
    ]
    assert found.bad == []


def test_an_update_without_its_image_before(duck: DuckSession) -> None:
    given = [b'{"op": "u", "after": {"a": 2}}']
    assert read(duck, record_format("debezium-json", SCHEMA), given).bad == [(0, "no before")]
    keyed = record_format("debezium-json", SCHEMA, primary_key=("a",))
    assert read(duck, keyed, given).rows == [(2, None, "+U", 0)]


def test_debezium_wrapped(duck: DuckSession) -> None:
    given = [
        b'{"schema": 1, "payload": {"op": "c", "after": {"a": 1}}}',
        b'{"payload": null}',
        b'{"op": "c"}',
    ]
    found = read(duck, record_format("debezium-json", SCHEMA, WRAPPED), given)
    assert found.rows == [(1, None, "+I", 0)]
    assert [number for number, _ in found.bad] == [2]


def test_several_changes_of_a_message(duck: DuckSession) -> None:
    given = [
        b'{"type": "INSERT", "data": [{"a": 1}, {"a": 2}], "table": "t"}',
        b'{"type": "CREATE", "table": "t"}',
        b'{"type": "UPDATE", "data": [{"a": 1, "b": "n"}], "old": [{"b": "o"}], "table": "t"}',
        b'{"type": "DELETE", "data": [{"a": 2}], "table": "other"}',
        b"",
        b'{"type": "DELETE", "data": [{"a": 2}], "table": "t"}{}',
    ]
    found = read(duck, record_format("canal-json", SCHEMA, {"canal-json.table.include": "t"}), given)
    assert found.rows == [(1, None, "+I", 0), (2, None, "+I", 0), (1, "o", "-U", 2), (1, "n", "+U", 2)]
    assert found.bad == [(4, "the message is empty"), (5, "not valid JSON")]


def test_maxwell_and_changelog(duck: DuckSession) -> None:
    maxwell = [b'{"type": "insert", "data": {"a": 1}}', b'{"type": "x"}', b'{"type": "bootstrap-start"}']
    found = read(duck, record_format("maxwell-json", SCHEMA), maxwell)
    assert (found.rows, found.bad) == ([(1, None, "+I", 0)], [(1, "unknown type: x")])
    changes = [b'{"op": "+U", "data": {"a": 1}}', b'{"op": "-U", "data": {"a": 1}}']
    found = read(duck, record_format("changelog-json", SCHEMA), changes)
    assert found.rows == [(1, None, "+U", 0), (1, None, "-U", 1)]


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("name", ["debezium-json", "changelog-json", "canal-json", "maxwell-json"])
def test_what_is_written_is_read(duck: DuckSession, name: str, brief: bool) -> None:
    options = {f"{name}.encode.ignore-null-fields": "true"} if brief else {}
    format_ = record_format(name, SCHEMA, options)
    rows = [(1, 'ü"\n'), (2, None), (2, "x"), (1, "y")]
    records = written(duck, format_, rows, ["+I", "-U", "+U", "-D"])
    found = read(duck, format_, records)
    kinds = ["+I", "-U", "+U", "-D"] if name == "changelog-json" else ["+I", "-D", "+I", "-D"]
    assert found.rows == [(*row, kind, i) for i, (row, kind) in enumerate(zip(rows, kinds, strict=True))]
    assert found.bad == []


def test_messages_are_those_of_flink(duck: DuckSession) -> None:
    def of(name: str) -> list[bytes | None]:
        return written(duck, record_format(name, SCHEMA), [(1, "x"), (1, "x")], ["+U", "-U"])

    row = b'{"a":1,"b":"x"}'
    assert of("debezium-json") == [
        b'{"before":null,"after":' + row + b',"op":"c"}',
        b'{"before":' + row + b',"after":null,"op":"d"}',
    ]
    assert of("canal-json") == [
        b'{"data":[' + row + b'],"type":"INSERT"}',
        b'{"data":[' + row + b'],"type":"DELETE"}',
    ]
    assert of("maxwell-json") == [
        b'{"data":' + row + b',"type":"insert"}',
        b'{"data":' + row + b',"type":"delete"}',
    ]
