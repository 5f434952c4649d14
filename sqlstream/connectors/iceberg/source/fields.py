"""Which field of a table each declared column is, by the field's id, as splits have it.

A field is `{"id": 5}`, with what is inside: `"fields"` of a struct by their names, `"element"` of a list, `"key"` and
`"value"` of a map.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from sqlstream.formats.values import cast_from
from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier, quote_literal

Field = Mapping[str, Any]


def field_of(field: NestedField) -> Field:
    """A field of a table."""
    return _numbered(field.field_id, field.field_type)


def _numbered(id_: int, type_: IcebergType) -> Field:
    if isinstance(type_, StructType):
        return {"id": id_, "fields": {one.name: field_of(one) for one in type_.fields}}
    if isinstance(type_, ListType):
        return {"id": id_, "element": _numbered(type_.element_id, type_.element_type)}
    if isinstance(type_, MapType):
        key, value = _numbered(type_.key_id, type_.key_type), _numbered(type_.value_id, type_.value_type)
        return {"id": id_, "key": key, "value": value}
    return {"id": id_}


def column_sql(field: Field, type_: SqlType, there: NestedField, read: SqlType | None) -> str:
    """SQL of a column as `type_`: of the file's field `there`, which has the id and which DuckDB reads as `read`."""
    name = quote_identifier(there.name)
    if _same(field, type_, there.field_type):
        return cast_from(read, name, type_)
    return _sql(field, type_, there.field_type, name, 0)


def _same(field: Field, type_: SqlType, there: IcebergType) -> bool:
    """Whether all that is inside is called in the file as it is in the declaration; of a text nothing is inside."""
    if type_.kind not in (Kind.STRUCT, Kind.ARRAY, Kind.MAP):
        return True
    if isinstance(there, StructType):
        inside = {one.name: one for one in there.fields}
        return all(
            name in inside
            and inside[name].field_id == field["fields"][name]["id"]
            and _same(field["fields"][name], inner, inside[name].field_type)
            for name, inner in type_.fields
        )
    if isinstance(there, ListType):
        return type_.element is not None and _same(field["element"], type_.element, there.element_type)
    if isinstance(there, MapType):
        return (
            type_.key is not None
            and type_.value is not None
            and _same(field["key"], type_.key, there.key_type)
            and _same(field["value"], type_.value, there.value_type)
        )
    return True


def _sql(field: Field, type_: SqlType, there: IcebergType, value: str, depth: int) -> str:
    """SQL of a value with what is inside found by ids."""
    if isinstance(there, StructType):
        by_id = {one.field_id: one for one in there.fields}
        parts = []
        for name, inner in type_.fields:
            wanted = field["fields"][name]
            found = by_id.get(wanted["id"])
            made = f"CAST(NULL AS {inner})"
            if found is not None:
                part = f"struct_extract({value}, {quote_literal(found.name)})"
                made = _sql(wanted, inner, found.field_type, part, depth)
            parts.append(f"{quote_identifier(name)} := {made}")
        return f"CASE WHEN {value} IS NOT NULL THEN struct_pack({', '.join(parts)}) END"
    if isinstance(there, ListType) and type_.element is not None:
        return _each(field["element"], type_.element, there.element_type, value, depth)
    if isinstance(there, MapType) and type_.key is not None and type_.value is not None:
        keys = _each(field["key"], type_.key, there.key_type, f"map_keys({value})", depth)
        values = _each(field["value"], type_.value, there.value_type, f"map_values({value})", depth)
        return f"CASE WHEN {value} IS NOT NULL THEN map({keys}, {values}) END"
    return f"CAST({value} AS {type_})"


def _each(field: Field, type_: SqlType, there: IcebergType, values: str, depth: int) -> str:
    made = _sql(field, type_, there, f"e{depth}", depth + 1)
    return f"list_transform({values}, lambda e{depth}: {made})"


@lru_cache(64)
def fields_by_id(schema: bytes, mapping: str) -> Mapping[int, NestedField]:
    """The columns of a file by their ids: `schema` as Arrow writes it, `mapping` the table's ids of names (JSON, or "").

    Files of a table have few schemas, and each takes a millisecond and more. Raises what Arrow and PyIceberg raise.
    """
    mapped = parse_mapping_from_json(mapping) if mapping else None
    read = pa.ipc.read_schema(pa.py_buffer(schema))
    found = pyarrow_to_schema(read, mapped, downcast_ns_timestamp_to_us=True)
    return MappingProxyType({field.field_id: field for field in found.fields})
