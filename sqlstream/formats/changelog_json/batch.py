"""Files of changes as DuckDB batch SQL, for the referee: each message's changes in order.

Written apart from the reader of these formats, so that it can judge it: JSON functions over the text of a line.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.formats.referee import BatchRead, Referee, always
from sqlstream_operators.errors import InternalError
from sqlstream_operators.plan.schema import KIND_COLUMN, Column
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import Kind, quote_identifier, quote_literal
from sqlstream_planner.batch.sources import ORDER_COLUMN

_KIND = quote_identifier(KIND_COLUMN)
_ORDER = quote_identifier(ORDER_COLUMN)

_TEXTS = frozenset(
    {
        *(Kind.VARCHAR, Kind.DECIMAL, Kind.ENUM, Kind.BIT),
        *(Kind.DATE, Kind.TIME, Kind.TIMETZ, Kind.TIMESTAMPTZ, Kind.TIMESTAMP_NS),
    }
)
# What of a message `m` (JSON) its changes are: a list of {kind, the row as JSON}, or NULL where it is about no row. In an
# image `patched`, the values of `old` stand over those of `data`.
_PATCHED = "json_merge_patch(m -> '$.data', m -> '$.old')"
_CHANGES = {
    "debezium-json": """CASE m ->> '$.op'
    WHEN 'u' THEN [{'kind': '-U', 'image': m -> '$.before'}, {'kind': '+U', 'image': m -> '$.after'}]
    WHEN 'd' THEN [{'kind': '-D', 'image': m -> '$.before'}]
    WHEN 'c' THEN [{'kind': '+I', 'image': m -> '$.after'}]
    WHEN 'r' THEN [{'kind': '+I', 'image': m -> '$.after'}] END""",
    "changelog-json": "[{'kind': m ->> '$.op', 'image': m -> '$.data'}]",
    "maxwell-json": f"""CASE m ->> '$.type'
    WHEN 'update' THEN [{{'kind': '-U', 'image': {_PATCHED}}}, {{'kind': '+U', 'image': m -> '$.data'}}]
    WHEN 'delete' THEN [{{'kind': '-D', 'image': m -> '$.data'}}]
    WHEN 'insert' THEN [{{'kind': '+I', 'image': m -> '$.data'}}]
    WHEN 'bootstrap-insert' THEN [{{'kind': '+I', 'image': m -> '$.data'}}] END""",
    "canal-json": """flatten(list_transform(range(json_array_length(m, '$.data')::BIGINT), lambda i: CASE m ->> '$.type'
    WHEN 'UPDATE' THEN [
      {'kind': '-U', 'image': json_merge_patch(m -> '$.data' -> i::INTEGER, m -> '$.old' -> i::INTEGER)},
      {'kind': '+U', 'image': m -> '$.data' -> i::INTEGER}]
    WHEN 'DELETE' THEN [{'kind': '-D', 'image': m -> '$.data' -> i::INTEGER}]
    WHEN 'INSERT' THEN [{'kind': '+I', 'image': m -> '$.data' -> i::INTEGER}]
    WHEN 'INIT' THEN [{'kind': '+I', 'image': m -> '$.data' -> i::INTEGER}] END))""",
}


def changelog_select(spec: SourceSpec, format_: str, listed: str, metadata: Sequence[str] = ()) -> str:
    """A SELECT of the changes in the files `listed` (a DuckDB list): the columns, the kind, and the order.

    `metadata` are columns made of `filename`.
    """
    message = "json"
    if spec.options.get("debezium-json.schema-include") == "true":
        message = "json -> '$.payload'"
    wanted = "".join(
        f" AND regexp_full_match(m ->> '$.{key}', {quote_literal(pattern)})"
        for key in ("database", "table")
        if (pattern := spec.options.get(f"canal-json.{key}.include")) is not None
    )
    items = ", ".join([*(f"{_value(c)} AS {quote_identifier(c.name)}" for c in spec.physical), *metadata])
    beside, named = (", filename", ", filename = true") if metadata else ("", "")
    return (
        f"SELECT {items}, change.kind AS {_KIND}, row_number() OVER () AS {_ORDER}\n"
        f"FROM (\n  SELECT unnest({_CHANGES[format_]}) AS change{beside}\n"
        f"  FROM (SELECT {message} AS m{beside} FROM read_ndjson_objects({listed}{named}))\n"
        f"  WHERE json_type(m) = 'OBJECT'{wanted}\n)"
    )


def _value(c: Column) -> str:
    """A column of an image, of its declared type."""
    path = "'$.\"" + c.name.replace("'", "''").replace('"', '\\"') + "\"'"
    if c.type.kind is Kind.TIMESTAMP:
        return f"CAST(CAST(change.image ->> {path} AS TIMESTAMPTZ) AT TIME ZONE 'UTC' AS {c.type})"
    if c.type.kind is Kind.BLOB:
        return f"from_base64(change.image ->> {path})"
    if c.type.kind in _TEXTS:
        return f"CAST(change.image ->> {path} AS {c.type})"
    return f"CAST(change.image -> {path} AS {c.type})"


def _unread(read: BatchRead) -> str:
    raise InternalError("changes are read by a SELECT of their own")


def _referee(format_: str) -> Referee:
    return Referee(
        _unread,
        always,
        changes=lambda spec, listed, beside: changelog_select(spec, format_, listed, beside),
    )


DEBEZIUM, CHANGELOG = _referee("debezium-json"), _referee("changelog-json")
CANAL, MAXWELL = _referee("canal-json"), _referee("maxwell-json")
