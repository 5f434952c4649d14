"""What the tests of Avro share: records by fastavro, the referee, and formats over columns."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from sqlstream.formats.api import RecordFormat
from sqlstream_operators.plan.schema import Column, Schema
from sqlstream_operators.plan.types import parse_type


def columns(types: Mapping[str, str]) -> Schema:
    """Columns by name; a type that ends with ! is NOT NULL."""
    return tuple(
        Column(name, parse_type(type_.removesuffix("!")), nullable=not type_.endswith("!"))
        for name, type_ in types.items()
    )


def record_format(
    name: str,
    types: Mapping[str, str],
    options: Mapping[str, str] | None = None,
    *,
    wanted: Sequence[str] | None = None,
    primary_key: tuple[str, ...] = (),
    subject: str = "t-value",
) -> RecordFormat:
    declared = columns(types)
    chosen = declared if wanted is None else tuple(c for c in declared if c.name in wanted)
    named = {f"{name}.{key}": value for key, value in (options or {}).items()}
    return RecordFormat(name, chosen, declared, named, primary_key, subject)


def written(schema: Any, rows: Sequence[Any]) -> list[bytes]:
    """Rows as records, by fastavro."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    records = []
    for row in rows:
        into = io.BytesIO()
        fastavro.schemaless_writer(into, parsed, row)
        records.append(into.getvalue())
    return records


def read_back(schema: Any, records: Sequence[bytes], reader: Any = None) -> list[Any]:
    """Records as rows, by fastavro."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    wanted = None if reader is None else fastavro.parse_schema(json.loads(json.dumps(reader)))
    return [fastavro.schemaless_reader(io.BytesIO(record), parsed, wanted) for record in records]


def binary(records: Sequence[bytes | None]) -> pa.Array:
    return pa.array(records, pa.large_binary())


def record(*fields: tuple[str, Any] | dict[str, Any], name: str = "r") -> dict[str, Any]:
    made = [f if isinstance(f, dict) else {"name": f[0], "type": f[1]} for f in fields]
    return {"type": "record", "name": name, "fields": made}
