"""What the `iceberg` connector is, to the planner."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlstream.connectors.filesystem.descriptor import FILE_SIZE, FILES
from sqlstream.connectors.iceberg.options import PLACE, TABLE_OPTIONS
from sqlstream.connectors.iceberg.source.options import CHANGES, SOURCE_OPTIONS, wrong_table
from sqlstream.connectors.lakehouse.keys import nested_key
from sqlstream.connectors.lakehouse.options import SINK_OPTIONS
from sqlstream_operators.plan.types import BIGINT, Kind
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, SinkAbilities
from sqlstream_planner.catalog.options import BOTH
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_operators.plan.spec import SinkSpec

#: What Iceberg's tables of version 2 have no type for.
NOT_ICEBERG = frozenset(
    {
        Kind.UTINYINT,
        Kind.USMALLINT,
        Kind.UINTEGER,
        Kind.UBIGINT,
        Kind.TIMESTAMP_NS,
        Kind.INTERVAL,
        Kind.TUPLE,
    }
)
#: Values that are no part of a path, or are equal in more than one form.
_NO_PARTITIONS = frozenset({Kind.ARRAY, Kind.MAP, Kind.STRUCT, Kind.FLOAT, Kind.DOUBLE, Kind.TIME})


def wrong_sink(sink: SinkSpec) -> Diagnostic | None:
    """What is wrong with writing a table; None: nothing is."""
    if (
        sink.options.get("catalog-type", "").strip().lower() == "sql"
        and not sink.options.get("warehouse", "").strip()
    ):
        return Diagnostic(
            "OPT002",
            f"`{sink.name}` needs `warehouse`, the folder in which a catalog in a database creates tables",
            help="add 'warehouse' = 'lake', a folder or a URI",
        )
    partitions = {name.lower() for name in sink.partitioned_by}
    wrong = next(
        (c for c in sink.schema if c.name.lower() in partitions and c.type.kind in _NO_PARTITIONS), None
    )
    if wrong is not None:
        return Diagnostic(
            "CAT007",
            f"`{sink.name}` can't be PARTITIONED BY `{wrong.name}`, which is {wrong.type}",
            help="partition by a number, a date, a timestamp or a text",
        )
    return nested_key(sink, "an Iceberg table")


DESCRIPTOR = ConnectorDescriptor(
    "iceberg",
    "an Iceberg table: kept up to date by key, added to, or read snapshot by snapshot",
    BOTH,
    (*TABLE_OPTIONS, FILE_SIZE, *SINK_OPTIONS, *SOURCE_OPTIONS),
    metadata=MappingProxyType({**FILES, "_snapshot_id": BIGINT}),
    bounded=lambda settings: settings.get("streaming") is not True,
    changelog_option=CHANGES,
    source_lookup=ColumnLookup(by_position=False, any_case=True, alone=True),
    sink=SinkAbilities(
        changes=True,
        keyed=True,
        needs_key=True,
        records_epochs=True,
        place=PLACE,
        named_by="catalog-table",
        not_written=NOT_ICEBERG,
    ),
    validate=wrong_table,
    validate_sink=wrong_sink,
)
