"""What the `postgres` connector is, to the planner."""

from __future__ import annotations

from sqlstream.connectors.database.declared import in_postgres
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, SinkAbilities
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_SINK = (Role.SINK,)
_S = ValueKind.STRING

DESCRIPTOR = ConnectorDescriptor(
    "postgres",
    "a table in a PostgreSQL database (ours; options are those of Flink's jdbc)",
    _SINK,
    (
        OptionDef(
            "url",
            _S,
            "postgresql://host:port/database, or the same with jdbc: before it",
            required=True,
            roles=_SINK,
        ),
        OptionDef("username", _S, "who connects; without it as in `url` or PGUSER", roles=_SINK),
        OptionDef(
            "password",
            _S,
            "the password; without it as PGPASSWORD or ~/.pgpass say",
            roles=_SINK,
            secret=True,
        ),
        OptionDef("table-name", _S, "the table, or schema.table; without it the sink's name", roles=_SINK),
    ),
    lookup=ColumnLookup(by_position=False),
    sink=SinkAbilities(
        changes=True,
        keyed=True,
        checks_keys=True,
        tells_epochs=True,
        place=("url", "table-name"),
        named_by="table-name",
    ),
    validate=in_postgres,
)
