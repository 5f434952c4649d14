"""What the `duckdb` connector is, to the planner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlstream.connectors.database.declared import in_duckdb
from sqlstream_planner.catalog.descriptor import ColumnLookup, ConnectorDescriptor, Settings, SinkAbilities
from sqlstream_planner.catalog.lookup_options import LOOKUP_OPTIONS, wrong_lookup
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

if TYPE_CHECKING:
    from sqlstream_planner.diagnostics import Diagnostic
    from sqlstream_planner.sql.statements import CreateTable

_SINK = (Role.SINK,)


def _wrong(table: CreateTable, settings: Settings) -> Iterator[Diagnostic]:
    yield from in_duckdb(table, settings)
    yield from wrong_lookup(table, settings)


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
        ),
        OptionDef(
            "table-name",
            ValueKind.STRING,
            "the table, or schema.table; without it the table's name here",
        ),
        OptionDef(
            "sink.publish-path",
            ValueKind.PATH,
            "a copy of the file for readers, made anew after each commit and put in place by renaming",
        ),
        *LOOKUP_OPTIONS,
    ),
    dimension=True,
    lookup=ColumnLookup(by_position=False, any_case=True),
    sink=SinkAbilities(
        changes=True,
        keyed=True,
        checks_keys=True,
        records_epochs=True,
        place=("path", "table-name"),
        named_by="table-name",
    ),
    validate=_wrong,
)
