"""Key groups are fixed for ever; key bytes sort as SQL sorts and give the key back."""

from __future__ import annotations

import itertools
import struct
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream_operators.codec.arrow_types import from_arrow, to_arrow
from sqlstream_operators.codec.binary import from_list, interval_micros
from sqlstream_operators.codec.byte_order import bytes_order
from sqlstream_operators.codec.keys import (
    decode_keys,
    encode_keys,
    group_range,
    hash_rows,
    key_groups,
    shard_of,
)
from sqlstream_operators.plan import types as t
from sqlstream_operators.plan.types import Kind, SqlType
from tests.examples import examples
from tests.operators.arrow_strategies import any_types, columns, scalar_types

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
SLOW = settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def mix(z: int) -> int:
    z &= MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def tag(number: int) -> int:
    return mix(number * GOLDEN)


def row(*hashes: int) -> int:
    h = 0x53716C7374726561
    for value in hashes:
        h = mix(h ^ value)
    return h


def of_bytes(data: bytes) -> int:
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
    return mix(sum(mix(word + (i + 1) * GOLDEN) for i, word in enumerate(words)) ^ tag(6 + 256 * len(data)))


def one(value: Any, type_: pa.DataType) -> int:
    return int(hash_rows([pa.array([value], type_)])[0])


def test_the_hash_is_what_its_specification_says() -> None:
    assert one(None, pa.int64()) == row(tag(1))
    assert one(7, pa.int64()) == row(mix(7 ^ tag(2)))
    assert one(-7, pa.int8()) == row(mix((-7 & MASK) ^ tag(2)))
    assert one(Decimal("1.50"), pa.decimal128(10, 2)) == row(mix(15 ^ tag(2 + 256)))
    wide = 10**30
    expected = mix(mix((wide & MASK) ^ tag(3)) ^ (wide >> 64))
    assert one(Decimal(wide), pa.decimal128(38, 0)) == row(expected)
    odd = wide + 7  # of a scale that is left when trailing zeros are gone
    expected = mix(mix((odd & MASK) ^ tag(3 + 256 * 2)) ^ (odd >> 64))
    assert one(Decimal(f"{odd}e-2"), pa.decimal128(38, 2)) == row(expected)
    assert one(Decimal(f"{odd}e-2"), pa.decimal128(38, 5)) == row(expected)
    bits = struct.unpack("<Q", struct.pack("<d", 1.5))[0]
    assert one(1.5, pa.float64()) == row(mix(bits ^ tag(4)))
    assert one(True, pa.bool_()) == row(mix(1 ^ tag(5)))
    for text in ("", "a", "12345678", "123456789", "x" * 100):
        assert one(text, pa.string()) == row(of_bytes(text.encode()))
    assert one(5, pa.date32()) == row(mix(5 ^ tag(7)))
    assert one(5, pa.time64("us")) == row(mix(5 ^ tag(8)))
    assert one(-5, pa.timestamp("us")) == row(mix((-5 & MASK) ^ tag(9)))
    a, b = mix(1 ^ tag(2)), of_bytes(b"x")
    both = pa.struct([("a", pa.int32()), ("b", pa.string())])
    assert one({"a": 1, "b": "x"}, both) == row(mix(row(a, b) ^ tag(11)))
    terms = mix(a + GOLDEN) + mix(tag(1) + 2 * GOLDEN)
    assert one([1, None], pa.list_(pa.int32())) == row(mix((terms & MASK) ^ tag(12 + 512)))
    assert int(hash_rows([], rows=1)[0]) == row()


def test_key_groups_never_change() -> None:
    """Files written by a released version hold these: a change here loses state."""
    assert key_groups([pa.array([0, 1, -1, 2**62, None])], 128).tolist() == PINNED["int"]
    texts = ["", "a", "user-123456", "é" * 9, None]
    assert key_groups([pa.array(texts)], 128).tolist() == PINNED["text"]
    assert key_groups([pa.array([1.0, -0.0, float("nan")])], 1000).tolist() == PINNED["double"]
    assert key_groups([pa.array([1, 2]), pa.array(["a", "b"])], 32768).tolist() == PINNED["two"]


PINNED: dict[str, list[int]] = {
    "int": [67, 23, 59, 58, 26],
    "text": [82, 0, 76, 4, 26],
    "double": [820, 303, 730],
    "two": [30483, 3599],
}


def test_equal_values_hash_equally_whatever_their_type() -> None:
    fives = [
        one(5, type_) for type_ in (pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64())
    ]
    decimals = [
        one(Decimal(5), pa.decimal128(precision, scale)) for precision, scale in ((1, 0), (10, 2), (38, 10))
    ]
    assert len({*fives, *decimals}) == 1
    assert one(2**63, pa.uint64()) == one(Decimal(2**63), pa.decimal128(38, 5))
    assert one(0.0, pa.float64()) == one(-0.0, pa.float64()) == one(-0.0, pa.float32())
    quiet, other = struct.unpack("<2d", struct.pack("<2Q", 0x7FF8000000000000, 0xFFF8000000000123))
    assert one(quiet, pa.float64()) == one(other, pa.float64())
    assert one("x", pa.string()) == one("x", pa.large_string()) == one("x", pa.string_view())
    assert one("x", pa.string()) == one("x", pa.dictionary(pa.int8(), pa.string()))
    assert one(1, pa.timestamp("ms")) == one(1000, pa.timestamp("us", tz="UTC"))
    assert one(None, pa.int64()) != one(0, pa.int64())


@SLOW
@given(st.data())
def test_a_hash_depends_on_the_value_only(data: st.DataObject) -> None:
    """Slices, chunks and neighbours make no difference."""
    type_ = data.draw(any_types())
    column = data.draw(columns(type_, data.draw(st.integers(1, 8))))
    whole = hash_rows([column]).tolist()
    alone = [int(hash_rows([column.slice(i, 1)])[0]) for i in range(len(column))]
    chunked = pa.chunked_array([column.slice(0, 1), column.slice(1)], type=column.type)
    assert whole == alone == hash_rows([chunked]).tolist()


@SLOW
@given(st.lists(st.text(max_size=80), max_size=30))
def test_text_hashes_as_specified(texts: list[str]) -> None:
    got = hash_rows([pa.array(texts, pa.string())]).tolist()
    assert got == [row(of_bytes(text.encode())) for text in texts]


def test_groups_are_spread_evenly() -> None:
    for column in (pa.array(np.arange(100_000)), pa.array([f"user-{i}" for i in range(100_000)])):
        counts = np.bincount(key_groups([column], 128), minlength=128)
        assert counts.min() > 650
        assert counts.max() < 920


@given(st.integers(1, 300), st.data())
def test_ranges_of_groups_are_the_groups_of_shards(max_parallelism: int, data: st.DataObject) -> None:
    shards = data.draw(st.integers(1, max_parallelism))
    groups = np.arange(max_parallelism, dtype=np.int32)
    owner = shard_of(groups, shards, max_parallelism)
    for shard in range(shards):
        low, high = group_range(shard, shards, max_parallelism)
        assert groups[owner == shard].tolist() == list(range(low, high))
        assert low < high


@pytest.mark.parametrize("bad", [(0, 128), (129, 128), (1, 1 << 16)])
def test_impossible_shards_are_refused(bad: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="max_parallelism"):
        group_range(0, *bad)


def _equal(left: pa.Array, right: pa.Array) -> bool:
    """Equal as SQL compares: NaN is NaN, -0.0 is 0.0, intervals by length."""
    same = hash_rows([left]).tolist() == hash_rows([right]).tolist()
    return same and bool(left.is_null().equals(right.is_null()))


@SLOW
@given(st.data())
def test_keys_come_back(data: st.DataObject) -> None:
    types = data.draw(st.lists(any_types(), min_size=1, max_size=3))
    rows = data.draw(st.integers(0, 8))
    given_ = [data.draw(columns(type_, rows)) for type_ in types]
    found = decode_keys(encode_keys(given_, types), types)
    for column, back, type_ in zip(given_, found, types, strict=True):
        back.validate(full=True)
        assert back.type == to_arrow(type_)
        assert _equal(column, back)
        if type_.kind not in (Kind.FLOAT, Kind.DOUBLE, Kind.INTERVAL) and not _nested(type_):
            assert back.equals(column)


def _nested(type_: SqlType) -> bool:
    return type_.kind in t.NESTED


@SLOW
@given(st.data())
def test_keys_sort_as_duckdb_sorts(data: st.DataObject) -> None:
    types = data.draw(st.lists(scalar_types(), min_size=1, max_size=2))
    types = [type_ for type_ in types if type_.kind is not Kind.NULL] or [t.BIGINT]
    rows = data.draw(st.integers(1, 10))
    given_ = [data.draw(columns(type_, rows)) for type_ in types]
    keys = encode_keys(given_, types)
    order = sorted(range(rows), key=lambda i: (keys[i], i))
    names = [f"c{i}" for i in range(len(types))]
    table = pa.table(dict(zip(names, given_, strict=True))).append_column("i", pa.array(range(rows)))
    by = ", ".join(f"{name} ASC NULLS FIRST" for name in names)
    with duckdb.connect() as connection:
        connection.register("rows_", table)
        expected = [i for (i,) in connection.sql(f"SELECT i FROM rows_ ORDER BY {by}, i").fetchall()]
    assert order == expected


@SLOW
@given(st.data())
def test_no_key_is_a_prefix_of_another(data: st.DataObject) -> None:
    type_ = data.draw(any_types())
    column = data.draw(columns(type_, 6))
    keys = sorted(set(encode_keys([column], [type_])))
    for left, right in itertools.pairwise(keys):
        assert not right.startswith(left)


def test_interval_keys_are_lengths() -> None:
    column = pa.array([pa.MonthDayNano((1, 0, 0)), pa.MonthDayNano((0, 30, 0))], pa.month_day_nano_interval())
    first, second = encode_keys([column], [t.INTERVAL])
    assert first == second
    assert interval_micros(decode_keys([first], [t.INTERVAL])[0]).tolist() == [30 * 86_400_000_000]


@pytest.mark.parametrize("damage", [b"\x02aa", b"\x01ab", b"\x01a\x00\x07", b"", b"\x01a\x00\x00x"])
def test_damaged_keys_are_refused(damage: bytes) -> None:
    with pytest.raises(ValueError, match="key bytes"):
        decode_keys([damage], [t.VARCHAR])


@given(any_types())
def test_arrow_types_come_back(type_: SqlType) -> None:
    texts = (Kind.UUID, Kind.JSON, Kind.BIT, Kind.TIMETZ, Kind.ENUM)
    lossy = {Kind.HUGEINT: t.decimal(38, 0), **dict.fromkeys(texts, t.VARCHAR)}
    if not _nested(type_):
        assert from_arrow(to_arrow(type_)) == lossy.get(type_.kind, type_)
    assert to_arrow(from_arrow(to_arrow(type_))) == to_arrow(type_)


@SLOW
@given(st.data())
def test_encoded_keys_are_sorted_by_their_bytes(data: st.DataObject) -> None:
    types = data.draw(st.lists(any_types(), min_size=1, max_size=3))
    rows = data.draw(st.integers(0, 12))
    keys = encode_keys([data.draw(columns(type_, rows)) for type_ in types], types)
    order = bytes_order(from_list(keys)).tolist()
    assert sorted(order) == list(range(rows))
    assert [keys[i] for i in order] == sorted(keys)


def test_keys_of_many_lengths_are_sorted_by_their_bytes() -> None:
    keys = [key for n in range(1, 40) for key in (bytes([n]) * n, bytes([n]) + b"\xff" * n)]
    assert [keys[i] for i in bytes_order(from_list(keys)[5:]) + 5] == sorted(keys[5:])
    matrix = np.array([[1, 255, 0], [1, 0, 255], [0, 255, 255]], np.uint8)
    assert bytes_order(matrix).tolist() == [2, 1, 0]
