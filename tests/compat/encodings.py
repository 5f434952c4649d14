"""How stored things are written, as text: another text means that what is stored by now would be misread.

Of every type its key bytes, its hash (which decides the key group), its place in an ORDER BY and its bytes in a value, in
hex; the physical keys of every layout; the body of a delta; the versions of identities.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sqlstream.storage import checked_json
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.codec.key_bytes import encode_keys
from sqlstream_operators.codec.keys import hash_rows
from sqlstream_operators.codec.rows import encode_lists, encode_rows
from sqlstream_operators.codec.runs import encode_runs
from sqlstream_operators.codec.sort_keys import sort_keys
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.schema import Column
from sqlstream_operators.plan.state_schema import TIME, StateField, StateSchema, StateTable
from sqlstream_operators.plan.top_n_spec import Ordering
from sqlstream_operators.plan.types import Kind, SqlType
from sqlstream_operators.state.delta import MAGIC, encode_delta
from sqlstream_operators.state.memory import MemoryShardStore
from sqlstream_operators.state.version import Delta, StateFile, chain_after, digest_of, file_digest
from sqlstream_planner.catalog import source_identity as source
from sqlstream_planner.identity import sink, state
from sqlstream_planner.identity.expression import FORM_VERSION

_MOMENT = datetime(2024, 2, 29, 12, 34, 56, 789012)
_INT = t.INTEGER
#: Values of every type that can be in state; NULL comes to each.
VALUES: Mapping[SqlType, list[Any]] = {
    t.BOOLEAN: [False, True],
    SqlType(Kind.TINYINT): [-128, 5, 127],
    SqlType(Kind.SMALLINT): [-32768, 5],
    t.INTEGER: [-(2**31), -1, 0, 5],
    t.BIGINT: [-(2**63), 5, 2**63 - 1],
    SqlType(Kind.HUGEINT): [Decimal(-(10**30)), Decimal(5), Decimal(10**30)],
    SqlType(Kind.UTINYINT): [0, 255],
    SqlType(Kind.USMALLINT): [0, 65535],
    SqlType(Kind.UINTEGER): [0, 2**32 - 1],
    SqlType(Kind.UBIGINT): [0, 2**64 - 1],
    SqlType(Kind.FLOAT): [-1.5, 0.0, -0.0, float("inf"), float("nan")],
    t.DOUBLE: [-1.5, 0.0, -0.0, 0.1, float("-inf"), float("nan")],
    t.decimal(10, 2): [Decimal("-0.05"), Decimal("5.00"), Decimal("12345678.90")],
    t.decimal(38, 10): [Decimal("5.0000000000"), Decimal("-1234567890123456789012345678.0000000001")],
    t.VARCHAR: ["", "a", "a\0b", "é😀", "eight by", "x" * 20],
    t.BLOB: [b"", b"\0\xff\0"],
    t.DATE: [date(1969, 12, 31), date(2024, 2, 29)],
    SqlType(Kind.TIME): [time(0), time(12, 34, 56, 789012)],
    t.TIMESTAMP: [datetime(1969, 12, 31, 23, 59, 59), _MOMENT],
    t.TIMESTAMPTZ: [_MOMENT.replace(tzinfo=UTC)],
    SqlType(Kind.INTERVAL): [pa.MonthDayNano((1, 2, 3_000)), pa.MonthDayNano((0, -1, 0))],
    SqlType(Kind.UUID): ["0189f7ea-0000-7000-8000-000000000001"],
    SqlType(Kind.JSON): ['{"a":[1,null]}'],
    t.array(_INT): [[], [1, None], [1, 2, 3]],
    t.array(t.array(t.VARCHAR)): [[["a"], [], None]],
    t.map_of(t.VARCHAR, _INT): [[("a", 1), ("b", None)]],
    t.struct(("x", _INT), ("y", t.VARCHAR)): [{"x": 1, "y": "a"}, {"x": None, "y": None}],
    t.TIMESTAMP_NS: [-1, 0, 1_709_210_096_789_012_345],
    t.TIMETZ: ["00:00:00+15:59:59", "12:34:56.789012+00", "24:00:00-15:59:59", "11:34:56.789012-01:30"],
    t.BIT: ["0", "00", "101", "1" * 70],
    t.enum("sad", "ok", "it's"): ["it's", "sad", "ok"],
    t.tuple_of(_INT, t.VARCHAR): [{"element1": 1, "element2": "a"}, {"element1": None, "element2": None}],
}
_LAYOUTS: tuple[Literal["key", "time", "list"], ...] = ("key", "time", "list")


def encodings() -> dict[str, str]:
    """Everything by what it is."""
    found = dict(_versions())
    for type_, values in VALUES.items():
        column = pa.array([None, *values], to_arrow(type_))
        table = pa.table({"v": column})
        field = StateField("v", type_, "v")
        order = (Ordering("v", descending=True),)
        found |= {
            f"key of {type_}": _hex(encode_keys([column], [type_])),
            f"hash of {type_}": " ".join(f"{int(h):016x}" for h in hash_rows([column])),
            f"order of {type_}": _hex(sort_keys(table, order, (Column("v", type_),)).to_pylist()),
            f"value of {type_}": _hex(encode_rows(table, [field], 3)),
        }
    found |= dict(_tables())
    return found


def written() -> str:
    """The same as the content of `encodings.json`."""
    return json.dumps(encodings(), indent=1, ensure_ascii=False) + "\n"


def _versions() -> Iterator[tuple[str, str]]:
    yield "format of JSON", str(checked_json.FORMAT)
    yield "version of identities of states", str(state.VERSION)
    yield "version of identities of sources", str(source.VERSION)
    yield "version of identities of sinks", str(sink.VERSION)
    yield "version of forms of expressions", str(FORM_VERSION)
    body = json.loads(checked_json.encode("kind", {"b": [1, "é", None], "a": {"y": 1.5, "x": True}}))
    yield "checksum of JSON", body["checksum"]
    yield "digest of a file", file_digest(b"content")
    yield "digest of what is small", digest_of(b"content")
    file = StateFile("name", 7, file_digest(b"content"))
    yield "chain after a delta", chain_after("chain", Delta(4, file, (("00", "ff"),), 2))


def _tables() -> Iterator[tuple[str, str]]:
    """The physical keys and values of a state with a table of each layout, and the delta that they are."""
    key = [StateField("s", t.VARCHAR, "s"), StateField("i", _INT, "i")]
    value = [StateField("n", t.BIGINT, "n"), StateField("t", t.VARCHAR, "t"), StateField("b", t.BOOLEAN, "b")]
    sub = [StateField("at", _INT, "at")]
    tables = tuple(
        StateTable.of(layout, layout, key=key, sub_key=sub if layout == "key" else (), value=value)
        for layout in _LAYOUTS
    )
    store = MemoryShardStore(StateSchema("s", "Test", "", tables), max_parallelism=1000)
    rows = pa.table(
        {
            "s": pa.array(["a", None, "\0"]),
            "i": pa.array([1, 2, None], pa.int32()),
            "at": pa.array([7, -7, 0], pa.int32()),
            TIME: pa.array([-1, 0, 1_700_000_000_000_000], pa.int64()),
            "n": pa.array([1, None, 3], pa.int64()),
            "t": pa.array([None, "é", "long " * 3]),
            "b": pa.array([True, None, False]),
        }
    )
    store.put("key", rows)
    store.put("time", rows)
    store.put_lists("list", rows, pa.concat_tables([rows, rows]), np.array([1, 2, 3], np.int64))
    yield "runs of rows", _hex(encode_runs(rows, np.array([2, 1], np.int64), value, 3).to_pylist())
    yield "list of rows", _hex(encode_lists(rows, np.array([2, 1], np.int64), value, 300))
    for index, layout in enumerate(_LAYOUTS):
        keys, values = store.scan_bytes(bytes([index]), bytes([index + 1]))
        yield f"keys of layout '{layout}'", _hex(keys)
        yield f"values of layout '{layout}'", _hex(values)
    delta = encode_delta({b"b": b"2", b"a": None, b"ccc": b""})
    size = int.from_bytes(delta[8:16], "little")
    body = pa.Codec("zstd").decompress(memoryview(delta)[16:], decompressed_size=size, asbytes=True)
    yield "delta", _hex([MAGIC, delta[:16], body])


def _hex(values: list[bytes]) -> str:
    return " ".join(value.hex() or "-" for value in values)
