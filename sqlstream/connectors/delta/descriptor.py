"""What the `delta` connector is, to the planner."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlstream.connectors.delta.source.options import CHANGES, SOURCE_OPTIONS, wrong_table
from sqlstream.connectors.delta.written_path import wrong_path
from sqlstream.connectors.filesystem.descriptor import FILE_SIZE, FILES, without_columns
from sqlstream.connectors.lakehouse.keys import nested_key
from sqlstream.connectors.lakehouse.options import SINK_OPTIONS
from sqlstream_operators.plan.types import BIGINT, Kind
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, SinkAbilities
from sqlstream_planner.catalog.options import BOTH, OptionDef, ValueKind
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_operators.plan.spec import SinkSpec

#: What Delta has no type for.
NOT_DELTA = frozenset(
    {
        Kind.UTINYINT,
        Kind.USMALLINT,
        Kind.UINTEGER,
        Kind.UBIGINT,
        Kind.TIME,
        Kind.TIMESTAMP_NS,
        Kind.INTERVAL,
    }
)


def wrong_sink(sink: SinkSpec) -> Diagnostic | None:
    """What is wrong with writing a table; None: nothing is."""
    nothing = without_columns(sink)
    if nothing is not None:
        return nothing
    partitions = {name.lower() for name in sink.partitioned_by}
    refused = _NO_FOLDERS | (_NO_KEYED_FOLDERS if sink.primary_key else frozenset())
    wrong = next((c for c in sink.schema if c.name.lower() in partitions and c.type.kind in refused), None)
    if wrong is not None:
        of_key = "with a PRIMARY KEY " if wrong.type.kind in _NO_KEYED_FOLDERS else ""
        return Diagnostic(
            "CAT007",
            f"`{sink.name}` {of_key}can't be PARTITIONED BY `{wrong.name}`, which is {wrong.type}",
            help=f"partition by {'an integer' if of_key else 'a number'}, a date or a text",
        )
    return nested_key(sink, "a Delta table")


#: Delta's library, which writes what is merged, makes folders of values, and of -1.50 one that nobody can read.
_NO_KEYED_FOLDERS = frozenset({Kind.DECIMAL, Kind.HUGEINT})
_NO_FOLDERS = frozenset({Kind.ARRAY, Kind.MAP, Kind.STRUCT, Kind.TUPLE, Kind.BLOB, Kind.FLOAT, Kind.DOUBLE})

DESCRIPTOR = ConnectorDescriptor(
    "delta",
    "a Delta table: kept up to date by key, added to, or read version by version",
    BOTH,
    (
        OptionDef(
            "table-path",
            ValueKind.PATH,
            "the table's folder, local or a URI; a sink creates the table if it is not there",
            required=True,
            refuse=wrong_path,
        ),
        FILE_SIZE,
        *SINK_OPTIONS,
        *SOURCE_OPTIONS,
    ),
    metadata=MappingProxyType({**FILES, "_commit_version": BIGINT}),
    bounded=lambda settings: settings.get("mode") != "streaming",
    changelog_option=CHANGES,
    source_lookup=ColumnLookup(by_position=False, any_case=True, alone=True),
    sink=SinkAbilities(
        changes=True,
        keyed=True,
        needs_key=True,
        widens=False,
        records_epochs=True,
        place=("table-path",),
        not_written=NOT_DELTA,
    ),
    validate=wrong_table,
    validate_sink=wrong_sink,
)
