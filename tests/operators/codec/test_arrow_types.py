"""What an Arrow type is in SQL: what DuckDB says."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from sqlstream_operators.codec.arrow_types import from_arrow
from sqlstream_operators.plan.types import BIGINT, TIME, TIMESTAMP, TIMESTAMPTZ, array, parse_type, struct


def duckdb_type(type_: pa.DataType) -> str:
    table = pa.table({"x": pa.array([], type_)})
    with duckdb.connect() as connection:
        connection.register("given", table)
        [[printed]] = connection.execute(
            "SELECT typeof(x) FROM given RIGHT JOIN (SELECT 1) ON TRUE"
        ).fetchall()
    return str(printed)


@pytest.mark.parametrize(
    "type_",
    [
        pa.bool_(),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.string_view()),
        *(pa.binary(), pa.large_binary(), pa.binary(16), pa.binary_view()),
        *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us")),
        *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("s", "Europe/Berlin")),
        pa.month_day_nano_interval(),
        *(pa.decimal128(10, 2), pa.decimal128(38, 0), pa.decimal32(5, 2), pa.decimal64(12, 2)),
        *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64())),
        *(pa.run_end_encoded(pa.int32(), pa.int64()), pa.run_end_encoded(pa.int16(), pa.string())),
        pa.timestamp("ns"),
        *(pa.list_(pa.int16()), pa.large_list(pa.string()), pa.list_(pa.list_(pa.float32()))),
        *(pa.map_(pa.string(), pa.int32()), pa.map_(pa.int64(), pa.list_(pa.string()))),
        pa.struct([("a", pa.int8()), ("B c", pa.struct([("d", pa.date32())]))]),
    ],
    ids=str,
)
def test_duckdb_says_the_same(type_: pa.DataType) -> None:
    assert from_arrow(type_) == parse_type(duckdb_type(type_))


def test_where_we_have_fewer_types() -> None:
    assert from_arrow(pa.time64("ns")) == TIME
    for unit in ("s", "ms"):
        assert from_arrow(pa.timestamp(unit)) == TIMESTAMP
    for unit in ("s", "ms", "ns"):
        assert from_arrow(pa.timestamp(unit, "UTC")) == TIMESTAMPTZ
    assert from_arrow(pa.list_(pa.int64(), 3)) == array(BIGINT)
    assert from_arrow(pa.struct([("a", pa.list_(pa.timestamp("ms")))])) == struct(("a", array(TIMESTAMP)))


@pytest.mark.parametrize("type_", [pa.float16(), pa.duration("us"), pa.decimal256(40, 2)], ids=str)
def test_others_are_none_of_ours(type_: pa.DataType) -> None:
    for made in (type_, pa.list_(type_), pa.struct([("a", type_)])):
        with pytest.raises(ValueError, match=r"no SQL type|precision"):
            from_arrow(made)
