"""Whether a table is as its sink is declared, and what it lacks of that."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import count
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, NestedField

from sqlstream.connectors.api import TargetEdit
from sqlstream.connectors.iceberg.sink.partitions import not_written
from sqlstream.connectors.iceberg.types import alike, iceberg_type, promotes
from sqlstream_operators.errors import TargetError
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from pyiceberg.table import Table

#: Tables of later versions have what no commit of ours would keep up.
_FORMAT = 2
#: What is said of a table in its properties that whoever writes to it must know of, and is not known here.
_REFUSED = ("encryption.key-id", "write.location-provider.impl", "write.py-location-provider.impl")


def wanted_columns(spec: SinkSpec) -> dict[str, IcebergType]:
    """The sink's columns; ids inside are none of a table."""
    return {column.name: iceberg_type(column.type) for column in spec.schema}


def new_schema(spec: SinkSpec) -> Schema:
    """The columns of a table that is created; it gives them other ids."""
    ids = count(1)
    return Schema(
        *(NestedField(next(ids), c.name, iceberg_type(c.type, ids), required=False) for c in spec.schema)
    )


def new_partitions(spec: SinkSpec, schema: Schema) -> PartitionSpec:
    """How a table that is created is partitioned: by the values of columns."""
    fields = [
        PartitionField(
            schema.find_field(name).field_id, PARTITION_FIELD_ID_START + i, IdentityTransform(), name
        )
        for i, name in enumerate(spec.partitioned_by)
    ]
    return PartitionSpec(*fields)


def missing_columns(spec: SinkSpec, table: Table) -> dict[str, IcebergType]:
    """The columns of the sink that the table lacks."""
    there = {field.name for field in table.schema().fields}
    return {name: type_ for name, type_ in wanted_columns(spec).items() if name not in there}


def wider_columns(spec: SinkSpec, table: Table) -> dict[str, IcebergType]:
    """The columns of the table that are of a type that can become the sink's."""
    wanted = wanted_columns(spec)
    return {
        field.name: wanted[field.name]
        for field in table.schema().fields
        if field.name in wanted
        and not alike(field.field_type, wanted[field.name])
        and promotes(field.field_type, wanted[field.name])
    }


def check_shape(
    spec: SinkSpec, table: Table, place: str, *, edit: TargetEdit | None, given: Collection[str]
) -> None:
    """Raises TargetError if rows could not be written to the table as its sink is declared.

    With an `edit` it may lack columns, or have narrower ones, which it is given. `given` are the columns that the table has
    from here, those of former queries too: one that replaces all rows may not lose those of others.
    """
    refused = sorted(_of_the_table(table))
    if refused:
        raise TargetError(
            f"the table of `{spec.name}` has what can't be kept up here: {', '.join(refused)}",
            (f"it is '{place}'",),
            "choose another 'catalog-table'; or take that from the table with the tool that gave it",
        )
    wrong = [*_differences(spec, table, edit, is_new=not given)]
    if wrong:
        raise TargetError(
            f"the table of `{spec.name}` is another than is declared",
            (f"it is '{place}'", *wrong),
            "declare it as it is, or choose another 'catalog-table'",
        )
    if edit is TargetEdit.REPLACE:
        known = {name.lower() for name in (*wanted_columns(spec), *given)}
        lost = [field.name for field in table.schema().fields if field.name.lower() not in known]
        if lost and table.current_snapshot() is not None:
            raise TargetError(
                f"the table of `{spec.name}` has columns of others, whose values would be lost: {', '.join(lost)}",
                (f"it is '{place}'", "all of its rows would be replaced by the new result"),
                f"choose another 'catalog-table', and run with --rewrite {spec.name}; or take the columns from the table",
            )


def _of_the_table(table: Table) -> Iterator[str]:
    properties = table.properties
    if table.format_version > _FORMAT:
        yield f"format version {table.format_version}"
    format_ = properties.get("write.format.default", "parquet").lower()
    if format_ != "parquet":
        yield f"'write.format.default' = '{format_}'"
    yield from (f"'{name}'" for name in _REFUSED if name in properties)
    for transform in not_written(table.spec(), table.schema()):
        yield f"the partition {transform}"


def _differences(spec: SinkSpec, table: Table, edit: TargetEdit | None, *, is_new: bool) -> Iterator[str]:
    there = {field.name: field for field in table.schema().fields}
    any_case = {name.lower(): name for name in there}
    alters = edit in (TargetEdit.ALTER, TargetEdit.REPLACE)
    for name, type_ in wanted_columns(spec).items():
        if name in there:
            has = there[name].field_type
            if not alike(has, type_) and not (alters and promotes(has, type_)):
                yield f"`{name}` is {has} there and {type_} here" + (
                    ": Iceberg lets no column become that" if alters else ""
                )
        elif name.lower() in any_case:
            yield f"there is `{any_case[name.lower()]}`, and no `{name}`"
        elif not alters:
            yield f"there is no `{name}`"
    written = {column.name for column in spec.schema}
    for field in table.schema().fields:
        if field.name in written:
            continue
        if field.required:
            yield f"`{field.name}`, which is not declared here, can't be NULL"
        elif field.write_default is not None:
            yield f"`{field.name}`, which is not declared here, has a default value"
    if spec.partitioned_by and is_new:  # later others may let it be partitioned in another way
        names = [
            table.schema().find_column_name(field.source_id)
            if isinstance(field.transform, IdentityTransform)
            else None
            for field in table.spec().fields
        ]
        if names != list(spec.partitioned_by):
            shown = ", ".join(
                f"{f.transform} of {table.schema().find_column_name(f.source_id)}"
                for f in table.spec().fields
            )
            yield (
                f"it is partitioned by ({shown}): leave PARTITIONED BY out"
                if shown
                else "it is not partitioned"
            )
