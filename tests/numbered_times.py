"""Times as numbers, where Python has no value for them: no infinite ones, and no nanoseconds without pandas."""

from __future__ import annotations

import pyarrow as pa


def without_nanoseconds(table: pa.Table) -> pa.Table:
    """The table with a number in place of each time of nanoseconds, inside of nested values, too."""
    return _cast(table, ("ns",))


def without_times(table: pa.Table) -> pa.Table:
    """The table with a number in place of each date and time of any unit."""
    return _cast(table, ("s", "ms", "us", "ns"), dates=True)


def _cast(table: pa.Table, units: tuple[str, ...], *, dates: bool = False) -> pa.Table:
    def numbered(type_: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(type_) and type_.unit in units:
            return pa.int64()
        if dates and pa.types.is_date32(type_):
            return pa.int32()
        if pa.types.is_list(type_):
            return pa.list_(type_.value_field.with_type(numbered(type_.value_type)))
        if pa.types.is_struct(type_):
            return pa.struct([field.with_type(numbered(field.type)) for field in type_])
        if pa.types.is_map(type_):
            return pa.map_(numbered(type_.key_type), type_.item_field.with_type(numbered(type_.item_type)))
        return type_

    def of(field: pa.Field) -> pa.Field:
        # A map without keys can be read, but not be made: its type stays as it is.
        return field.with_type(numbered(field.type)) if _has_times(field.type) else field

    return table.cast(pa.schema([of(field) for field in table.schema]))


def _has_times(type_: pa.DataType) -> bool:
    inner = [type_.field(n).type for n in range(type_.num_fields)]
    return pa.types.is_temporal(type_) or any(map(_has_times, inner))
