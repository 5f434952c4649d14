"""Whether a table is as its sink is declared, and what it lacks of that."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from sqlstream.connectors.api import TargetEdit
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.errors import TargetError
from sqlstream_operators.plan.spec import SinkSpec

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: Features of tables that mean nothing to rows that are added, or that are seen where a table uses them.
_FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
#: What uses such a feature: columns under other names in files, conditions on rows, and values that are computed.
_MAPPING, _CONSTRAINTS = "delta.columnMapping.mode", "delta.constraints."
_OF_COLUMNS = ("delta.generationExpression", "delta.invariants", "delta.identity.")
#: What keeps rows from being changed, and lets them be deleted outside of their files.
_APPEND_ONLY, _VECTORS = "delta.appendOnly", "deletionVectors"


def arrow_schema(table: DeltaTable) -> pa.Schema:
    """The table's columns, as Arrow has them."""
    return pa.schema(table.schema().to_arrow())


def wanted_columns(spec: SinkSpec) -> dict[str, pa.DataType]:
    """The sink's columns."""
    return {column.name: to_arrow(column.type) for column in spec.schema}


def missing_columns(spec: SinkSpec, table: DeltaTable) -> list[pa.Field]:
    """The columns of the sink that the table lacks."""
    there = set(arrow_schema(table).names)
    return [pa.field(name, type_) for name, type_ in wanted_columns(spec).items() if name not in there]


def altered_schema(spec: SinkSpec, table: DeltaTable) -> pa.Schema | None:
    """The table's columns with the types that the sink has, and behind them those that it lacks; None: it has all."""
    there, wanted = arrow_schema(table), wanted_columns(spec)
    new = missing_columns(spec, table)
    wider = {f.name for f in there if f.name in wanted and not _alike(f.type, wanted[f.name])}
    if not new and not wider:
        return None
    return pa.schema([f.with_type(wanted[f.name]) if f.name in wider else f for f in there] + new)


def check_shape(
    spec: SinkSpec,
    table: DeltaTable,
    place: str,
    *,
    edit: TargetEdit | None,
    merges: bool,
    given: Collection[str],
) -> None:
    """Raises TargetError if rows could not be written to the table as its sink is declared.

    With an `edit` it may lack columns, which it is given, and one that replaces all of its rows may change types. `merges`:
    rows are changed, too. `given` are the columns that the table has from here, those of former queries too.
    """
    unknown = sorted(_of_the_table(table, merges=merges or edit is TargetEdit.REPLACE))
    if unknown:
        raise TargetError(
            f"the table of `{spec.name}` has what can't be kept up here: {', '.join(unknown)}",
            (f"it is '{place}'", "rows would be written that it does not allow, or that are read as others"),
            "choose another 'table-path'; or take that from the table with the tool that gave it",
        )
    wrong = [*_differences(spec, table, edit)]
    if wrong:
        raise TargetError(
            f"the table of `{spec.name}` is another than is declared",
            (f"it is '{place}'", *wrong),
            "declare it as it is, or choose another 'table-path'",
        )
    lost = [*_lost(spec, table, given)] if edit is TargetEdit.REPLACE else []
    if lost:
        raise TargetError(
            f"the table of `{spec.name}` has columns of others, whose values would be lost: {', '.join(lost)}",
            (f"it is '{place}'", "all of its rows would be replaced by the new result"),
            f"choose another 'table-path', and run with --rewrite {spec.name}; or take the columns from the table",
        )


def _differences(spec: SinkSpec, table: DeltaTable, edit: TargetEdit | None) -> Iterator[str]:
    there = {field.name: field.type for field in arrow_schema(table)}
    any_case = {name.lower(): name for name in there}
    wanted = wanted_columns(spec)
    for name, type_ in wanted.items():
        if name in there:
            if edit is not TargetEdit.REPLACE and not _alike(there[name], type_):
                yield f"`{name}` is {there[name]} there and {type_} here"
        elif name.lower() in any_case:
            yield f"there is `{any_case[name.lower()]}`, and no `{name}`"
        elif edit not in (TargetEdit.ALTER, TargetEdit.REPLACE):
            yield f"there is no `{name}`"
    for field in table.schema().fields:
        if not field.nullable and field.name not in wanted:
            yield f"`{field.name}`, which is not declared here, can't be NULL"
    partitions = table.metadata().partition_columns
    if tuple(partitions) != spec.partitioned_by:
        yield f"it is partitioned by ({', '.join(partitions)})"


def _of_the_table(table: DeltaTable, *, merges: bool) -> set[str]:
    """What a table has that whoever writes to it must know of, and is not known here."""
    configuration, protocol = table.metadata().configuration, table.protocol()
    found = {name for name in configuration if name.startswith(_CONSTRAINTS)}
    found |= {
        name for field in table.schema().fields for name in field.metadata if name.startswith(_OF_COLUMNS)
    }
    if configuration.get(_MAPPING, "none") != "none":
        found.add(_MAPPING)
    features = {*(protocol.writer_features or ())}
    if merges:
        if configuration.get(_APPEND_ONLY, "").lower() == "true":
            found.add(_APPEND_ONLY)
        found |= features & {_VECTORS}
    return found | (features - _FEATURES)


def _lost(spec: SinkSpec, table: DeltaTable, given: Collection[str]) -> Iterator[str]:
    """Columns that neither the sink nor a former one has written, and that have values, by what the log says of files."""
    known = {name.lower() for name in (*wanted_columns(spec), *given)}
    others = [name for name in arrow_schema(table).names if name.lower() not in known]
    if not others:
        return
    files = pa.table(table.get_add_actions(flatten=True))
    rows = files.column("num_records").to_pylist()
    for name in others:
        counted = f"null_count.{name}"
        nulls = files.column(counted).to_pylist() if counted in files.column_names else [None] * len(rows)
        # A file from before the column has no count of it, as one of a writer that counts nothing.
        if any(count is None or count != of for count, of in zip(nulls, rows, strict=True)):
            yield name


def _alike(there: pa.DataType, here: pa.DataType) -> bool:
    """Whether Delta's type of a column is ours: lists and maps have other names inside."""
    if pa.types.is_map(there) and pa.types.is_map(here):
        return _alike(there.key_type, here.key_type) and _alike(there.item_type, here.item_type)
    if pa.types.is_nested(there) and type(there) is type(here):
        if there.num_fields != here.num_fields:
            return False
        pairs = [(there.field(i), here.field(i)) for i in range(there.num_fields)]
        named = not pa.types.is_struct(there) or all(a.name == b.name for a, b in pairs)
        return named and all(_alike(a.type, b.type) for a, b in pairs)
    return bool(there == here)
