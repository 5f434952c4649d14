"""What the `postgres-cdc` connector is, to the planner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.connectors.database.declared import in_postgres, split_table_name, wrong_table_name
from sqlstream.connectors.postgres_cdc.options import OPTIONS, SCHEMA, TABLE
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind
from sqlstream_planner.diagnostics import Diagnostic

if TYPE_CHECKING:
    from sqlstream_planner.sql.statements import CreateTable

_SOURCE = (Role.SOURCE,)
_S = ValueKind.STRING


def wrong_table(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    """What is wrong with a table that is read."""
    yield from in_postgres(table, settings)
    given = {option.key: option for option in table.options}
    name = given.get(TABLE)
    if name is None or SCHEMA not in given or wrong_table_name(name.value) is not None:
        return
    if split_table_name(name.value)[0] is not None:
        yield Diagnostic(
            "OPT003",
            f"`{TABLE}` and `{SCHEMA}` both name a schema",
            given[SCHEMA].key_span,
            help="leave one out",
        )


DESCRIPTOR = ConnectorDescriptor(
    "postgres-cdc",
    "the changes of a table in a PostgreSQL database, by logical replication",
    _SOURCE,
    (
        OptionDef(
            "url",
            _S,
            "postgresql://host:port/database, or the same with jdbc: before it",
            required=True,
            roles=_SOURCE,
        ),
        OptionDef(
            "username",
            _S,
            "who connects; without it as in `url` or PGUSER",
            roles=_SOURCE,
            changes_rows=False,
        ),
        OptionDef(
            "password",
            _S,
            "the password; without it as PGPASSWORD or ~/.pgpass say",
            roles=_SOURCE,
            secret=True,
            changes_rows=False,
        ),
        OptionDef(TABLE, _S, "the table, or schema.table; without it the table's name here", roles=_SOURCE),
        *OPTIONS,
    ),
    bounded=lambda settings: False,
    changelog=True,
    lookup=ColumnLookup(by_position=False),
    source_lookup=ColumnLookup(by_position=False, alone=True),
    validate=wrong_table,
)
