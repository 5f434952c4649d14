"""Types of ours as Iceberg's, and back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from pyiceberg import types as ice

from sqlstream_operators.plan.types import (
    BIGINT,
    BLOB,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    Kind,
    SqlType,
    array,
    decimal,
    map_of,
    struct,
)

_WRITTEN: dict[Kind, ice.PrimitiveType] = {
    Kind.BOOLEAN: ice.BooleanType(),
    Kind.TINYINT: ice.IntegerType(),
    Kind.SMALLINT: ice.IntegerType(),
    Kind.INTEGER: ice.IntegerType(),
    Kind.BIGINT: ice.LongType(),
    Kind.HUGEINT: ice.DecimalType(38, 0),
    Kind.FLOAT: ice.FloatType(),
    Kind.DOUBLE: ice.DoubleType(),
    Kind.DATE: ice.DateType(),
    Kind.TIME: ice.TimeType(),
    Kind.TIMESTAMP: ice.TimestampType(),
    Kind.TIMESTAMPTZ: ice.TimestamptzType(),
    Kind.VARCHAR: ice.StringType(),
    Kind.BLOB: ice.BinaryType(),
    **dict.fromkeys((Kind.UUID, Kind.JSON, Kind.TIMETZ, Kind.BIT, Kind.ENUM), ice.StringType()),
}
_READ: dict[type[ice.IcebergType], SqlType] = {
    ice.BooleanType: BOOLEAN,
    ice.IntegerType: INTEGER,
    ice.LongType: BIGINT,
    ice.FloatType: FLOAT,
    ice.DoubleType: DOUBLE,
    ice.DateType: DATE,
    ice.TimeType: SqlType(Kind.TIME),
    ice.TimestampType: TIMESTAMP,
    ice.TimestamptzType: TIMESTAMPTZ,
    ice.StringType: VARCHAR,
    ice.UUIDType: SqlType(Kind.UUID),
    ice.BinaryType: BLOB,
    ice.FixedType: BLOB,
}


def iceberg_type(type_: SqlType, ids: Iterator[int] | None = None) -> ice.IcebergType:
    """The type of a column that is written; `ids` of what is inside are given anew by the table. Raises ValueError for none.

    >>> str(iceberg_type(array(BIGINT))), str(iceberg_type(SqlType(Kind.TINYINT)))
    ('list<long>', 'int')
    """
    ids = count(1000) if ids is None else ids
    match type_:
        case SqlType(kind=Kind.DECIMAL, precision=int(precision), scale=int(scale)):
            return ice.DecimalType(max(precision, 1), scale)
        case SqlType(kind=Kind.ARRAY, element=SqlType() as element):
            return ice.ListType(
                element_id=next(ids), element=iceberg_type(element, ids), element_required=False
            )
        case SqlType(kind=Kind.MAP, key=SqlType() as key, value=SqlType() as value):
            return ice.MapType(
                key_id=next(ids),
                key_type=iceberg_type(key, ids),
                value_id=next(ids),
                value_type=iceberg_type(value, ids),
                value_required=False,
            )
        case SqlType(kind=Kind.STRUCT, fields=fields):
            return ice.StructType(
                *(
                    ice.NestedField(next(ids), name, iceberg_type(inner, ids), required=False)
                    for name, inner in fields
                )
            )
    found = _WRITTEN.get(type_.kind)
    if found is None:
        raise ValueError(f"Iceberg has no type for {type_}")
    return found


def sql_type(type_: ice.IcebergType) -> SqlType | None:
    """The type of a column that is read; None: there is none like it here.

    >>> str(sql_type(ice.DecimalType(10, 2))), sql_type(ice.UnknownType())
    ('DECIMAL(10,2)', None)
    """
    if isinstance(type_, ice.DecimalType):
        return decimal(type_.precision, type_.scale)
    if isinstance(type_, ice.ListType):
        element = sql_type(type_.element_type)
        return None if element is None else array(element)
    if isinstance(type_, ice.MapType):
        key, value = sql_type(type_.key_type), sql_type(type_.value_type)
        return None if key is None or value is None else map_of(key, value)
    if isinstance(type_, ice.StructType):
        fields = [(field.name, sql_type(field.field_type)) for field in type_.fields]
        known = [(name, inner) for name, inner in fields if inner is not None]
        return struct(*known) if known and len(known) == len(fields) else None
    return _READ.get(type(type_))


def alike(there: ice.IcebergType, here: ice.IcebergType) -> bool:
    """Whether two types have the same values, whatever the ids inside; what may not be NULL inside is another type."""
    if isinstance(there, ice.ListType) and isinstance(here, ice.ListType):
        return not there.element_required and alike(there.element_type, here.element_type)
    if isinstance(there, ice.MapType) and isinstance(here, ice.MapType):
        inside = alike(there.key_type, here.key_type) and alike(there.value_type, here.value_type)
        return inside and not there.value_required
    if isinstance(there, ice.StructType) and isinstance(here, ice.StructType):
        if [field.name for field in there.fields] != [field.name for field in here.fields]:
            return False
        pairs = zip(there.fields, here.fields, strict=True)
        return all(not a.required and alike(a.field_type, b.field_type) for a, b in pairs)
    return there == here


def promotes(there: ice.IcebergType, here: ice.IcebergType) -> bool:
    """Whether Iceberg lets a column of a type become one of another while its rows stay."""
    if isinstance(there, ice.DecimalType) and isinstance(here, ice.DecimalType):
        return there.scale == here.scale and there.precision <= here.precision
    pairs = ((ice.IntegerType, ice.LongType), (ice.FloatType, ice.DoubleType))
    return any(isinstance(there, a) and isinstance(here, b) for a, b in pairs)
