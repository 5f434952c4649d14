"""What the `duckdb` connector is, to the planner."""

from __future__ import annotations

from sqlstream.connectors.database.declared import in_duckdb
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, SinkAbilities
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_SINK = (Role.SINK,)

DESCRIPTOR = ConnectorDescriptor(
    "duckdb",
    "a table in a DuckDB file (ours)",
    _SINK,
    (
        OptionDef(
            "path",
            ValueKind.PATH,
            "the DuckDB file; it is created if it is not there",
            required=True,
            roles=_SINK,
        ),
        OptionDef(
            "table-name",
            ValueKind.STRING,
            "the table, or schema.table; without it the sink's name",
            roles=_SINK,
        ),
    ),
    lookup=ColumnLookup(by_position=False, any_case=True),
    sink=SinkAbilities(
        changes=True,
        keyed=True,
        checks_keys=True,
        tells_epochs=True,
        place=("path", "table-name"),
        named_by="table-name",
    ),
    validate=in_duckdb,
)
