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

    # Only what has times is touched: a type such as a map without keys can be read, but can't be made or cast.
    for at, field in enumerate(table.schema):
        if _has_times(field.type):
            column = table.column(at).cast(numbered(field.type))
            table = table.set_column(at, field.with_type(column.type), column)
    return table


def _has_times(type_: pa.DataType) -> bool:
    if pa.types.is_list(type_):
        return _has_times(type_.value_type)
    if pa.types.is_map(type_):
        return _has_times(type_.key_type) or _has_times(type_.item_type)
    if pa.types.is_struct(type_):
        return any(_has_times(field.type) for field in type_)
    return bool(pa.types.is_temporal(type_))
