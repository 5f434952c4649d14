"""What a catalog of the type `duckdb` is, to the planner."""

from __future__ import annotations

from sqlstream.connectors.database.declared import wrong_path
from sqlstream_planner.catalog.foreign.descriptor import CatalogDescriptor
from sqlstream_planner.catalog.options import OptionDef, ValueKind

DESCRIPTOR = CatalogDescriptor(
    "duckdb",
    "the tables of a DuckDB file",
    (
        OptionDef("path", ValueKind.PATH, "the DuckDB file", required=True, refuse=wrong_path),
        OptionDef(
            "default-database",
            ValueKind.STRING,
            "the schema that USE CATALOG begins with",
            default="main",
        ),
    ),
    default_database=lambda settings: str(settings["default-database"]),
    databases="schemas",
)
