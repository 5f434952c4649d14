"""The partition of each row, by the transforms of a table's partition spec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import transforms
from pyiceberg import types as ice
from pyiceberg.partitioning import PartitionField, PartitionFieldValue, PartitionKey, PartitionSpec

from sqlstream.connectors.filesystem.written_files import combined_codes, grouped

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

_HOUR_US = 3_600_000_000
_TIMES = (
    *(transforms.YearTransform, transforms.MonthTransform, transforms.DayTransform, transforms.HourTransform),
)
_STAMPS = (ice.TimestampType, ice.TimestamptzType)
#: What is written here: the transforms, and the types of columns that they are of.
_WRITTEN: dict[type[transforms.Transform[Any, Any]], tuple[type[ice.IcebergType], ...]] = {
    transforms.IdentityTransform: (
        *(ice.BooleanType, ice.IntegerType, ice.LongType, ice.DecimalType),
        *(ice.DateType, *_STAMPS, ice.StringType, ice.BinaryType),
    ),
    transforms.BucketTransform: (
        *(
            ice.IntegerType,
            ice.LongType,
            ice.DecimalType,
            ice.DateType,
            *_STAMPS,
            ice.StringType,
            ice.BinaryType,
        ),
    ),
    transforms.TruncateTransform: (
        *(ice.IntegerType, ice.LongType, ice.DecimalType, ice.StringType, ice.BinaryType),
    ),
    transforms.YearTransform: (ice.DateType, *_STAMPS),
    transforms.MonthTransform: (ice.DateType, *_STAMPS),
    transforms.DayTransform: (ice.DateType, *_STAMPS),
    transforms.HourTransform: _STAMPS,
    transforms.VoidTransform: (ice.PrimitiveType,),
}


def not_written(spec: PartitionSpec, schema: Schema) -> Iterator[str]:
    """What of a partition spec can't be written here, in words."""
    columns = {field.field_id: field for field in schema.fields}
    sources = [field.source_id for field in spec.fields]
    for field in spec.fields:
        column = columns.get(field.source_id)
        shown = f"{field.transform} of `{schema.find_column_name(field.source_id)}`"
        if column is None:
            yield f"{shown}, which is a field inside a column"
        elif sources.count(field.source_id) > 1:
            yield f"{shown}, by which it is partitioned twice"
        elif not _is_written(field, column.field_type):
            yield f"{shown}, which is {column.field_type}"


def _is_written(field: PartitionField, type_: ice.IcebergType) -> bool:
    return isinstance(type_, _WRITTEN.get(type(field.transform), ()))


def partitions(
    rows: pa.Table, spec: PartitionSpec, schema: Schema
) -> Iterator[tuple[PartitionKey | None, pa.Table]]:
    """The rows of each partition, in their order, and which one that is; a column that `rows` lack is NULL."""
    if spec.is_unpartitioned():
        yield None, rows
        return
    values = [_values(rows, field, schema) for field in spec.fields]
    codes = combined_codes(values, len(rows))
    for first, part in grouped(rows, codes):
        key = [
            PartitionFieldValue(field, value[first].as_py())
            for field, value in zip(spec.fields, values, strict=True)
        ]
        yield PartitionKey(key, spec, schema), part


def _values(rows: pa.Table, field: PartitionField, schema: Schema) -> pa.ChunkedArray:
    """The partition value of each row."""
    column = schema.find_field(field.source_id)
    if column.name not in rows.column_names or isinstance(field.transform, transforms.VoidTransform):
        return pa.chunked_array([pa.nulls(len(rows), pa.int32())])
    values = _plain(rows.column(column.name), column.field_type)
    if isinstance(field.transform, transforms.IdentityTransform):
        return values
    if isinstance(field.transform, _TIMES) and isinstance(column.field_type, _STAMPS):
        # All times of an hour are in one partition, and hours are few.
        values = pc.multiply(_hours(values), _HOUR_US)
    return _each(values, field.transform.transform(column.field_type))


def _hours(micros: pa.ChunkedArray) -> pa.ChunkedArray:
    """The hour since 1970 of each time; Arrow's division rounds towards 1970."""
    hours = pc.divide(micros, _HOUR_US)
    below = pc.less(micros, pc.multiply(hours, _HOUR_US))
    return pc.if_else(below, pc.subtract(hours, 1), hours)


def _plain(values: pa.ChunkedArray, type_: ice.IcebergType) -> pa.ChunkedArray:
    """Dates and times as the numbers that Iceberg has for them, as Python has no date before the year 1."""
    if isinstance(type_, ice.DateType):
        return values.cast(pa.int32())
    if isinstance(type_, _STAMPS):
        return values.cast(pa.int64())
    return values


def _each(values: pa.ChunkedArray, transform: Callable[[Any], Any]) -> pa.ChunkedArray:
    """A transform of each value, which is computed once for each that is different."""
    encoded = values.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    made = pa.array([transform(value) for value in encoded.dictionary.to_pylist()], from_pandas=False)
    if not len(made):
        return pa.chunked_array([pa.nulls(len(values), pa.int32())])
    return pa.chunked_array([made.take(encoded.indices)])
