"""SQL types as Arrow types and back, as DuckDB exports them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from sqlstream_operators.plan.types import Kind, SqlType, array, decimal, map_of, struct

_SIMPLE: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INTEGER: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.HUGEINT: pa.decimal128(38, 0),
    Kind.UTINYINT: pa.uint8(),
    Kind.USMALLINT: pa.uint16(),
    Kind.UINTEGER: pa.uint32(),
    Kind.UBIGINT: pa.uint64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.VARCHAR: pa.string(),
    Kind.BLOB: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIME: pa.time64("us"),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
    Kind.TIMESTAMP_NS: pa.timestamp("ns"),
    Kind.TIMETZ: pa.string(),
    Kind.INTERVAL: pa.month_day_nano_interval(),
    Kind.UUID: pa.string(),
    Kind.JSON: pa.string(),
    Kind.BIT: pa.string(),
    Kind.ENUM: pa.string(),
    Kind.NULL: pa.null(),
}


@lru_cache(4096)
def to_arrow(type_: SqlType) -> pa.DataType:
    """The Arrow type that holds `type_`. Raises ValueError for UNKNOWN.

    >>> from sqlstream_operators.plan.types import DOUBLE
    >>> to_arrow(array(DOUBLE))
    ListType(list<element: double>)
    """
    match type_:
        case SqlType(kind=Kind.DECIMAL, precision=int(precision), scale=int(scale)):
            return pa.decimal128(max(precision, 1), scale)
        case SqlType(kind=Kind.ARRAY, element=SqlType() as element):
            return pa.list_(pa.field("element", to_arrow(element)))
        case SqlType(kind=Kind.MAP, key=SqlType() as key, value=SqlType() as value):
            return pa.map_(to_arrow(key), to_arrow(value))
        case SqlType(kind=Kind.STRUCT | Kind.TUPLE, fields=fields):
            return pa.struct([pa.field(name, to_arrow(field)) for name, field in fields])
    found = _SIMPLE.get(type_.kind)
    if found is None:
        raise ValueError(f"no Arrow type for {type_}")
    return found


def from_arrow(type_: pa.DataType) -> SqlType:
    """The SQL type that DuckDB gives an Arrow type. Raises ValueError where there is none.

    decimal128(38,0) is DECIMAL(38,0), not HUGEINT; strings are VARCHAR; timestamps without a zone
    are TIMESTAMP_NS where they are in nanoseconds, all others µs.
    """
    if pa.types.is_decimal(type_):
        return decimal(type_.precision, type_.scale)
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return from_arrow(type_.value_type)
    if pa.types.is_map(type_):
        return map_of(from_arrow(type_.key_type), from_arrow(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return array(from_arrow(type_.value_type))
    if pa.types.is_struct(type_):
        return struct(
            *((type_.field(i).name, from_arrow(type_.field(i).type)) for i in range(type_.num_fields))
        )
    if pa.types.is_timestamp(type_):
        if type_.tz is not None:
            return SqlType(Kind.TIMESTAMPTZ)
        return SqlType(Kind.TIMESTAMP_NS if type_.unit == "ns" else Kind.TIMESTAMP)
    if pa.types.is_time(type_):
        return SqlType(Kind.TIME)
    if pa.types.is_large_string(type_) or type_ == pa.string_view():
        return SqlType(Kind.VARCHAR)
    if pa.types.is_large_binary(type_) or pa.types.is_fixed_size_binary(type_) or type_ == pa.binary_view():
        return SqlType(Kind.BLOB)
    if pa.types.is_date(type_):
        return SqlType(Kind.DATE)
    for kind, arrow in _SIMPLE.items():
        if arrow == type_ and kind is not Kind.HUGEINT:  # texts are VARCHAR, which stands first
            return SqlType(kind)
    raise ValueError(f"no SQL type for the Arrow type {type_}")


@lru_cache(4096)
def carried(type_: SqlType) -> SqlType:
    """The type as which DuckDB must hand a column to Arrow: what Arrow would lose of the values becomes text.

    >>> print(carried(array(SqlType(Kind.TIMETZ))), carried(SqlType(Kind.ENUM, labels=("a",))))
    VARCHAR[] ENUM('a')
    """
    if type_.kind in (Kind.TIMETZ, Kind.BIT):
        return SqlType(Kind.VARCHAR)
    return replace(
        type_,
        element=type_.element and carried(type_.element),
        key=type_.key and carried(type_.key),
        value=type_.value and carried(type_.value),
        fields=tuple((name, carried(t)) for name, t in type_.fields),
    )


def conform(column: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array:
    """One contiguous array of exactly `type_`; raises pyarrow's ArrowInvalid if a value does not fit."""
    if isinstance(column, pa.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        if isinstance(
            column, pa.ChunkedArray
        ):  # combine_chunks gives one chunk or, over 2 GiB of text, several
            column = pa.concat_arrays(column.chunks)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column if column.type == type_ else column.cast(type_)
