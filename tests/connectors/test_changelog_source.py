"""Messages of each changelog format by hand, good ones and bad ones."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors.api import Limits
from sqlstream.connectors.filesystem import cutting
from sqlstream.formats.files import FileFormat
from sqlstream_operators.duck.session import DuckSession
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.harness import Read, context, read_all, source_spec

SCHEMA = {"id": "BIGINT", "name": "VARCHAR", "at": "TIMESTAMP"}


def read(
    tmp_path: Path,
    duck: DuckSession,
    format_: str,
    lines: str | bytes,
    options: Mapping[str, str] | None = None,
    schema: dict[str, str] | None = None,
    *,
    limits: Limits | None = None,
    **spec: Any,
) -> Read:
    content = lines.encode() if isinstance(lines, str) else lines
    (tmp_path / "a.json").write_bytes(content)
    made = source_spec(schema or SCHEMA, options, path="a.json", format=format_, **spec)
    return read_all(duck, made, context(tmp_path), limits)


def refused(read: Read) -> list[tuple[int | None, str]]:
    return [(row.line, row.reason) for row in read.bad]


DEBEZIUM = """\
{"before":null,"after":{"id":101,"name":"scooter","at":"2020-05-13 09:00:00"},"source":{"table":"p"},"op":"r","ts_ms":1}
{"before":null,"after":{"id":102,"name":null,"at":"2020-05-13T11:00:00+02:00"},"op":"c","transaction":null}
{"before":{"id":101,"name":"scooter","at":"2020-05-13 09:00:00"},"after":{"id":101,"name":"bike","other":1},"op":"u"}
{"before":{"id":102,"name":null,"at":"2020-05-13 09:00:00"},"after":null,"op":"d"}
null

{"op":"c","after":{}}
"""
NINE = datetime(2020, 5, 13, 9)
DEBEZIUM_ROWS = [
    (101, "scooter", NINE, "+I"),
    (102, None, NINE, "+I"),
    (101, "scooter", NINE, "-U"),
    (101, "bike", None, "+U"),
    (102, None, NINE, "-D"),
    (None, None, None, "+I"),
]


def test_debezium(tmp_path: Path, duck: DuckSession) -> None:
    found = read(tmp_path, duck, "debezium-json", DEBEZIUM)
    assert found.rows == DEBEZIUM_ROWS
    assert found.bad == []
    assert found.tables[0].column_names == ["id", "name", "at", "__kind"]


def test_debezium_with_schema(tmp_path: Path, duck: DuckSession) -> None:
    wrapped = [
        f'{{"schema":{{"type":"struct"}},"payload":{line}}}' if line else "" for line in DEBEZIUM.splitlines()
    ]
    lines = "\n".join([*wrapped, '{"schema":null,"payload":null}', "null"])
    include = {"debezium-json.schema-include": "true"}
    found = read(tmp_path, duck, "debezium-json", lines, include)
    assert found.rows == DEBEZIUM_ROWS
    assert found.bad == []
    (other := tmp_path / "other").mkdir()
    (bare := tmp_path / "bare").mkdir()
    assert [r.split("(")[0] for _, r in refused(read(other, duck, "debezium-json", wrapped[0]))] == ["no op "]
    unwrapped = read(bare, duck, "debezium-json", DEBEZIUM.splitlines()[0], include)
    assert [r.split("(")[0] for _, r in refused(unwrapped)] == ["no payload "]


def test_a_message_of_other_keys_is_no_tombstone(tmp_path: Path, duck: DuckSession) -> None:
    found = read(tmp_path, duck, "debezium-json", 'null\n{}\n{"op":null}\n{"ts_ms":1}\nnull\n')
    assert found.rows == []
    assert [line for line, _ in refused(found)] == [2, 3, 4]


BAD_DEBEZIUM = {
    '{"before":null,"after":{"id":1},"op":"u"}': "no before",
    '{"after":{"id":1},"op":"u"}': "no before",
    '{"before":{"id":1},"after":null,"op":"u"}': "no after",
    '{"before":{"id":1},"op":"c"}': "no after",
    '{"before":null,"after":{"id":1},"op":"d"}': "no before",
    '{"before":{"id":1},"after":{"id":1},"op":"t"}': "unknown op: t",
    '{"after":{"id":1},"op":5}': "unknown op: 5",
    '{"after":{"id":"x"},"op":"c"}': 'after: column id: not a BIGINT: "x"',
    '{"before":{"at":"noon"},"after":{"id":1},"op":"c"}': 'before: column at: not a TIMESTAMP: "noon"',
    '{"after":{"id":1,"id":2},"op":"c"}': "key id twice in after",
    '{"after":{"id":1},"after":{"id":2},"op":"c"}': "key after twice",
    '{"after":[1],"op":"c"}': "after is not a row",
    '{"after":{"id":1},"op":"c"': "not valid JSON",
    '[{"after":{"id":1},"op":"c"}]': "not a JSON object but ARRAY",
    '"c"': "not a JSON object but VARCHAR",
}


@pytest.mark.parametrize("line", BAD_DEBEZIUM)
def test_a_bad_message_goes_to_the_dead_letters(tmp_path: Path, duck: DuckSession, line: str) -> None:
    good = '{"after":{"id":%d},"op":"c"}\n'
    found = read(tmp_path, duck, "debezium-json", f"{good % 1}null\n{line}\n\n{good % 2}")
    assert [(row[0], row[-1]) for row in found.rows] == [(1, "+I"), (2, "+I")]
    assert [(b.origin, b.line, b.raw, b.reason) for b in found.bad] == [
        (str(tmp_path / "a.json"), 3, line, BAD_DEBEZIUM[line])
    ]


def test_with_a_key_an_update_needs_no_before_image(tmp_path: Path, duck: DuckSession) -> None:
    lines = """\
{"before":null,"after":{"id":1,"name":"a"},"op":"u"}
{"before":{"id":1,"name":"a"},"after":{"id":1,"name":"b"},"op":"u"}
{"before":{"id":1},"after":null,"op":"d"}
"""
    found = read(tmp_path, duck, "debezium-json", lines, columns=("id", "name"), primary_key=("id",))
    assert found.rows == [(1, "a", "+U"), (1, "a", "-U"), (1, "b", "+U"), (1, None, "-D")]
    assert found.bad == []
    for format_, line in [
        ("canal-json", '{"type":"UPDATE","data":[{"id":"1"},{"id":"2"}],"old":null}'),
        ("maxwell-json", '{"type":"update","data":{"id":1}}\n{"type":"update","data":{"id":2}}'),
    ]:
        (folder := tmp_path / format_).mkdir()
        found = read(folder, duck, format_, line, columns=("id",), primary_key=("id",))
        assert found.rows == [(1, "+U"), (2, "+U")]


def test_changelog(tmp_path: Path, duck: DuckSession) -> None:
    lines = """\
{"data":{"id":1,"name":"a"},"op":"+I"}
{"op":"-U","data":{"id":1,"name":"a"}}
{"op":"+U","data":{"id":1,"name":"b","x":[1]}}
{"data":{"id":"1","name":"b"},"op":"-D"}
null
"""
    found = read(tmp_path, duck, "changelog-json", lines, columns=("name", "id"))
    assert found.rows == [("a", 1, "+I"), ("a", 1, "-U"), ("b", 1, "+U"), ("b", 1, "-D")]
    assert found.bad == []


def test_bad_changelog(tmp_path: Path, duck: DuckSession) -> None:
    lines = """\
{"data":{"id":1},"op":"I"}
{"data":{"id":1},"op":"+i"}
{"data":null,"op":"+I"}
{"op":"-D"}
{"data":{"id":1}}
{"data":{"id":{}},"op":"+I"}
{"data":{"id":1},"op":"+I"}
"""
    found = read(tmp_path, duck, "changelog-json", lines, columns=("id",))
    assert found.rows == [(1, "+I")]
    assert refused(found) == [
        (1, "unknown op: I"),
        (2, "unknown op: +i"),
        (3, "no data"),
        (4, "no data"),
        (5, "no op"),
        (6, "data: column id: not a BIGINT: {}"),
    ]


CANAL = """\
{"data":[{"id":"1","name":"a"},{"id":"2","name":null}],"old":null,"type":"INSERT","database":"inv","table":"p","pkNames":["id"]}
{"data":[{"id":"1","name":"b"},{"id":"2","name":"c"},{"id":"9","name":"d"}],"old":[{"name":"a"},{"name":null},{"id":"3"}],"type":"UPDATE","database":"inv","table":"p"}
{"data":[{"id":"1","name":"b"}],"old":null,"type":"DELETE","database":"inv","table":"q"}
{"data":null,"old":null,"type":"CREATE","isDdl":true,"database":"inv","table":"p","sql":"CREATE TABLE p (id int)"}
{"data":[],"old":null,"type":"INSERT","database":"inv","table":"p"}
null
"""
CANAL_ROWS = [
    (1, "a", "+I"),
    (2, None, "+I"),
    (1, "a", "-U"),
    (1, "b", "+U"),
    (2, None, "-U"),
    (2, "c", "+U"),
    (3, "d", "-U"),
    (9, "d", "+U"),
    (1, "b", "-D"),
]


def test_canal(tmp_path: Path, duck: DuckSession) -> None:
    found = read(tmp_path, duck, "canal-json", CANAL, columns=("id", "name"))
    assert found.rows == CANAL_ROWS
    assert found.bad == []


@pytest.mark.parametrize(
    ("option", "pattern", "count"),
    [("table", "p", 8), ("table", "p|q", 9), ("table", "", 0), ("table", "Q", 0), ("database", "i.v", 9)],
)
def test_canal_of_some_tables(
    tmp_path: Path, duck: DuckSession, option: str, pattern: str, count: int
) -> None:
    options = {f"canal-json.{option}.include": pattern}
    found = read(tmp_path, duck, "canal-json", CANAL, options, columns=("id", "name"))
    assert found.rows == CANAL_ROWS[:count]
    assert found.bad == []


def test_another_table_may_have_other_types(tmp_path: Path, duck: DuckSession) -> None:
    lines = (
        CANAL
        + """\
{"data":[{"id":"x"}],"old":null,"type":"INSERT","database":"inv","table":"other"}
{"data":null,"old":null,"type":"TRUNCATE","isDdl":true,"database":"inv","table":"other"}
{"data":[{"id":"x"}],"old":null,"type":"INSERT","database":"inv"}
"""
    )
    options = {"canal-json.table.include": "p|q", "canal-json.database.include": "inv"}
    found = read(tmp_path, duck, "canal-json", lines, options, columns=("id", "name"))
    assert found.rows == CANAL_ROWS
    assert refused(found) == [(9, "no table")]


def test_a_pattern_that_can_t_be_run_is_refused(tmp_path: Path, duck: DuckSession) -> None:
    for pattern in ("(?!a)b", "("):
        with pytest.raises(DiagnosticError, match=r"canal-json\.table\.include"):
            read(tmp_path, duck, "canal-json", CANAL, {"canal-json.table.include": pattern})


def test_bad_canal(tmp_path: Path, duck: DuckSession) -> None:
    lines = """\
{"data":[{"id":"1"}],"old":[{"id":"q"}],"type":"UPDATE"}
{"data":[{"id":"1"}],"old":null,"type":"UPDATE"}
{"data":[{"id":"1"}],"old":[{},{}],"type":"UPDATE"}
{"data":[{"id":"1"}],"old":[null],"type":"UPDATE"}
{"data":[{"id":"1"}],"old":{"id":"2"},"type":"UPDATE"}
{"data":[{"id":"1"},null],"old":null,"type":"INSERT"}
{"data":[{"id":"1"},5],"old":null,"type":"INSERT"}
{"data":{"id":"1"},"old":null,"type":"INSERT"}
{"data":null,"old":null,"type":"DELETE"}
{"data":null,"old":null,"type":"ALTER"}
{"data":[{"id":"1"}],"old":null}
{"data":[{"id":"1"}],"old":null,"type":"INSERT"}
"""
    found = read(tmp_path, duck, "canal-json", lines, columns=("id",))
    assert found.rows == [(1, "+I")]
    assert refused(found) == [
        (1, 'old is not an array of rows of the table: [{"id":"q"}]'),
        (2, "no old"),
        (3, "old is not of the length of data"),
        (4, "old is not an array of rows of the table: [null]"),
        (5, "old is not an array of rows"),
        (6, 'data is not an array of rows of the table: [{"id":"1"},null]'),
        (7, 'data is not an array of rows of the table: [{"id":"1"},5]'),
        (8, "data is not an array of rows"),
        (9, "no data"),
        (10, "unknown type: ALTER"),
        (11, "no type"),
    ]


MAXWELL = """\
{"database":"test","table":"p","type":"insert","ts":1,"data":{"id":1,"name":null},"primary_key_columns":["id"]}
{"database":"test","table":"p","type":"update","data":{"id":1,"name":"a"},"old":{"name":null}}
{"database":"test","table":"p","type":"update","data":{"id":1,"name":"b","other":2},"old":{"name":"a","other":1}}
{"database":"test","table":"p","type":"update","data":{"id":2,"name":"b"},"old":{"id":1}}
{"database":"test","table":"p","type":"delete","data":{"id":2,"name":"b"}}
{"database":"test","table":"p","type":"bootstrap-start","data":{}}
{"database":"test","table":"p","type":"bootstrap-insert","data":{"id":3,"name":"c"}}
{"database":"test","table":"p","type":"bootstrap-complete","data":{}}
null
"""


def test_maxwell(tmp_path: Path, duck: DuckSession) -> None:
    found = read(tmp_path, duck, "maxwell-json", MAXWELL, columns=("id", "name"))
    assert found.rows == [
        (1, None, "+I"),
        (1, None, "-U"),
        (1, "a", "+U"),
        (1, "a", "-U"),
        (1, "b", "+U"),
        (1, "b", "-U"),
        (2, "b", "+U"),
        (2, "b", "-D"),
        (3, "c", "+I"),
    ]
    assert found.bad == []


def test_bad_maxwell(tmp_path: Path, duck: DuckSession) -> None:
    lines = """\
{"type":"update","data":{"id":1}}
{"type":"update","data":{"id":1},"old":5}
{"type":"update","data":{"id":1},"old":{"id":"u"}}
{"type":"update","data":{"id":1},"old":{"id":1,"id":2}}
{"type":"update","old":{"id":1}}
{"type":"table-alter"}
{"type":"insert","data":{"id":1},"old":"is not looked at"}
"""
    found = read(tmp_path, duck, "maxwell-json", lines, columns=("id",))
    assert found.rows == [(1, "+I")]
    assert refused(found) == [
        (1, "no old"),
        (2, "old is not a row"),
        (3, 'old: column id: not a BIGINT: "u"'),
        (4, "key id twice in old"),
        (5, "no data"),
        (6, "unknown type: table-alter"),
    ]


NESTED = {
    "d": "DECIMAL(20,4)",
    "b": "BLOB",
    "s": "STRUCT(x INTEGER, l STRUCT(t TIMESTAMP)[])",
    "m": "MAP(VARCHAR, DECIMAL(20,4))",
    "j": "JSON",
}
OLD = {
    "d": "9999999999999999.0001",
    "b": "AAE=",
    "s": {"l": [{"t": "2020-01-01T00:00:00Z"}, None]},
    "m": {"k": 1.5},
    "j": {"a": 1},
}
NEW = {"d": 1, "b": None, "s": {"x": 1}, "m": None, "j": [1]}
OLD_ROW = (
    Decimal("9999999999999999.0001"),
    b"\0\x01",
    {"x": None, "l": [{"t": datetime(2020, 1, 1)}, None]},
    [("k", Decimal("1.5000"))],
    '{"a":1}',
)
NEW_ROW = (Decimal("1.0000"), None, {"x": 1, "l": None}, None, "[1]")


@pytest.mark.parametrize("bad", ["", "oops\n"])
def test_values_of_all_kinds_in_both_images(tmp_path: Path, duck: DuckSession, bad: str) -> None:
    messages = {
        "debezium-json": {"op": "u", "before": OLD, "after": NEW},
        "canal-json": {"type": "UPDATE", "data": [NEW], "old": [OLD]},
        "maxwell-json": {"type": "update", "data": NEW, "old": OLD},
    }
    for format_, message in messages.items():
        (folder := tmp_path / format_).mkdir()
        found = read(folder, duck, format_, bad + json.dumps(message), schema=NESTED)
        assert found.rows == [(*OLD_ROW, "-U"), (*NEW_ROW, "+U")]
        assert len(found.bad) == bool(bad)


def test_decimals_that_a_double_can_t_hold(tmp_path: Path, duck: DuckSession) -> None:
    long = "9999999999999999.0001"
    lines = f'{{"op":"u","before":{{"d":{long}}},"after":{{"d":1.5}}}}\n'
    found = read(tmp_path, duck, "debezium-json", lines, schema={"d": "DECIMAL(20,4)"})
    assert found.rows == [(Decimal(long), "-U"), (Decimal("1.5"), "+U")]


def test_metadata_and_partitions(tmp_path: Path, duck: DuckSession) -> None:
    for name in ("1", "2"):
        (folder := tmp_path / f"t/day={name}").mkdir(parents=True)
        (folder / f"{name}.json").write_text(
            f'{{"op":"u","before":{{"id":{name}}},"after":{{"id":5}}}}\nnull\n'
        )
    spec = source_spec(
        {"id": "BIGINT", "day": "INTEGER"},
        path="t",
        format="debezium-json",
        partitioned_by=("day",),
        metadata=[("f", "file.name", "VARCHAR")],
    )
    found = read_all(duck, spec, context(tmp_path))
    assert found.rows == [
        (1, 1, "1.json", "-U"),
        (5, 1, "1.json", "+U"),
        (2, 2, "2.json", "-U"),
        (5, 2, "2.json", "+U"),
    ]


def test_only_kinds_are_needed(tmp_path: Path, duck: DuckSession) -> None:
    for format_, lines, count in [
        ("debezium-json", DEBEZIUM, 6),
        ("canal-json", CANAL, 9),
        ("maxwell-json", MAXWELL, 9),
    ]:
        (folder := tmp_path / format_).mkdir()
        found = read(folder, duck, format_, lines, columns=())
        assert len(found.rows) == count
        assert found.tables[0].column_names == ["__kind"]


def test_the_source_s_filter_is_not_applied(tmp_path: Path, duck: DuckSession) -> None:
    lines = '{"data":{"id":1},"op":"-U"}\n{"data":{"id":2},"op":"+U"}\n'
    found = read(tmp_path, duck, "changelog-json", lines, columns=("id",), filter_="id = 2")
    assert found.rows == [(1, "-U"), (2, "+U")]


@pytest.mark.parametrize("ending", [".gz", ".bz2"])
@pytest.mark.parametrize("bad", ["", "oops\n"])
def test_compressed(tmp_path: Path, duck: DuckSession, ending: str, bad: str) -> None:
    packed = (gzip if ending == ".gz" else bz2).compress((DEBEZIUM + bad).encode())
    (tmp_path / f"a.json{ending}").write_bytes(packed)
    spec = source_spec(SCHEMA, path=f"a.json{ending}", format="debezium-json")
    found = read_all(duck, spec, context(tmp_path), Limits(rows=2))
    assert found.rows == DEBEZIUM_ROWS
    assert [b.line for b in found.bad] == ([8] if bad else [])


def test_cuts_fall_between_messages_and_keep_order(
    tmp_path: Path, duck: DuckSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FileFormat, "smallest_range", 1)
    monkeypatch.setattr(cutting, "_SMALLEST_SPLIT", 100)
    lines = [
        json.dumps({"type": "UPDATE", "data": [{"id": i}, {"id": -i}], "old": [{"id": 0}, {"id": 1}]})
        if i % 7
        else f"bad {i}"
        for i in range(100)
    ]
    expected = [row for i in range(100) if i % 7 for row in [(0, "-U"), (i, "+U"), (1, "-U"), (-i, "+U")]]
    for limits, epochs in [(Limits(), 1), (Limits(rows=9), 12), (Limits(bytes=700), None)]:
        (folder := tmp_path / f"{limits.rows}-{limits.bytes}").mkdir()
        found = read(folder, duck, "canal-json", "\n".join(lines), limits=limits, columns=("id",))
        assert found.rows == expected
        assert [(b.line, b.raw) for b in found.bad] == [(i + 1, f"bad {i}") for i in range(0, 100, 7)]
        assert epochs is None or len(found.splits) == epochs
        assert max(map(len, found.splits)) > 1
