"""What the `postgres` connector is, to the planner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.connectors.database.declared import in_postgres
from sqlstream_operators.plan.types import Kind
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, Settings, SinkAbilities
from sqlstream_planner.catalog.lookup_options import LOOKUP_OPTIONS, wrong_lookup
from sqlstream_planner.catalog.options import BOTH, OptionDef, ValueKind

if TYPE_CHECKING:
    from sqlstream_planner.diagnostics import Diagnostic
    from sqlstream_planner.sql.statements import CreateTable

_S = ValueKind.STRING


def _wrong(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    yield from in_postgres(table, settings)
    yield from wrong_lookup(table, settings)


DESCRIPTOR = ConnectorDescriptor(
    "postgres",
    "a table in a PostgreSQL database (ours; options are those of Flink's jdbc)",
    BOTH,
    (
        OptionDef(
            "url",
            _S,
            "postgresql://host:port/database, or the same with jdbc: before it",
            required=True,
        ),
        OptionDef("username", _S, "who connects; without it as in `url` or PGUSER"),
        OptionDef(
            "password",
            _S,
            "the password; without it as PGPASSWORD or ~/.pgpass say",
            secret=True,
            changes_rows=False,
        ),
        OptionDef("table-name", _S, "the table, or schema.table; without it the table's name here"),
        *LOOKUP_OPTIONS,
    ),
    dimension=True,
    lookup=ColumnLookup(by_position=False),
    # Not `alone`: the identity of a dimension has the shape, and stored ones must stay.
    source_lookup=ColumnLookup(by_position=False),
    sink=SinkAbilities(
        changes=True,
        keyed=True,
        checks_keys=True,
        records_epochs=True,
        place=("url", "table-name"),
        named_by="table-name",
        not_written=frozenset({Kind.TIMESTAMP_NS}),  # its times are in µs
    ),
    validate=_wrong,
)
