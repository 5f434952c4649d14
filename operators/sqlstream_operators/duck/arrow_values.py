"""What changes between DuckDB and Arrow: types that one has and the other has not."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import pyarrow as pa

from sqlstream_operators.codec.arrow_types import carried, from_arrow, to_arrow
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import Kind, SqlType, parse_type, quote_identifier, quote_literal, spelled


def for_arrow(names: Sequence[str], types: Sequence[SqlType]) -> str | None:
    """What to select of columns so that Arrow can carry them; None where they can go as they are.

    An INTERVAL with more hours than Arrow's nanoseconds is an error: DuckDB 2.0 hands it over as another one, whose 64
    bits wrapped.
    """
    if not any(type_.kind is Kind.INTERVAL or carried(type_) != type_ for type_ in types):
        return None
    most = 2**63 // 3_600_000_000_000 - 1
    found = []
    for name, type_ in zip(names, types, strict=True):
        column = quote_identifier(name)
        if type_.kind is Kind.INTERVAL:
            text = quote_literal(f"an INTERVAL of more than {most} hours: write it in days")
            column = f"CASE WHEN abs(date_part('hour', {column})) > {most} THEN error({text}) ELSE {column} END AS {column}"
        elif carried(type_) != type_:
            column = f"CAST({column} AS {spelled(carried(type_))}) AS {column}"
        found.append(column)
    return ", ".join(found)


def casts_of(schema: Sequence[Column]) -> dict[str, SqlType]:
    """The columns that come back from Arrow as another type, with their own."""
    return {column.name: column.type for column in schema if is_lossy(column.type)}


def restored(name: str, table: pa.Table, casts: Mapping[str, SqlType]) -> str:
    """SQL for the rows of a relation whose columns have their own types again."""
    columns = (
        f"CAST({quote_identifier(c)} AS {spelled(casts[c])}) AS {quote_identifier(c)}"
        if c in casts
        else quote_identifier(c)
        for c in table.column_names
    )
    return f"SELECT {', '.join(columns)} FROM {quote_identifier(name)}"


@functools.lru_cache(4096)
def is_lossy(type_: SqlType) -> bool:
    """Whether a column of this type comes back from Arrow as another SQL type.

    >>> is_lossy(parse_type("HUGEINT[]")), is_lossy(parse_type("BIGINT"))
    (True, False)
    """
    return type_.kind is not Kind.UNKNOWN and from_arrow(to_arrow(type_)) != type_


def normalize(table: pa.Table) -> pa.Table:
    """The same rows with the types that the rest of the engine expects; the table itself if it has them."""
    fields = [field.with_type(_normal_type(field.type)) for field in table.schema]
    schema = pa.schema(fields)
    if all(a.type.equals(b.type) for a, b in zip(table.schema, schema, strict=True)):
        return table
    return table.cast(schema)


def _normal_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(type_):
        return _normal_type(type_.value_type)
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return pa.binary()
    if pa.types.is_timestamp(type_) and type_.unit != "us" and (type_.unit != "ns" or type_.tz):
        return pa.timestamp("us", tz=type_.tz)
    if pa.types.is_map(type_):
        return pa.map_(_normal_type(type_.key_type), _normal_type(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        return pa.list_(type_.value_field.with_type(_normal_type(type_.value_type)))
    if pa.types.is_struct(type_):
        inside = (type_.field(i) for i in range(type_.num_fields))
        return pa.struct([field.with_type(_normal_type(field.type)) for field in inside])
    return type_


def sql_type(text: str) -> SqlType:
    """The type that DuckDB spells like this; UNKNOWN for one that the plan does not know.

    >>> sql_type("HUGEINT[]").kind.name, sql_type("UNION(a INTEGER)").kind.name
    ('ARRAY', 'UNKNOWN')
    """
    if text in ('"NULL"', "NULL"):
        return SqlType(Kind.NULL)
    try:
        return parse_type(text)
    except ValueError:
        return SqlType(Kind.UNKNOWN)
