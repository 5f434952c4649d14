"""What a catalog of the type `iceberg` is, to the planner."""

from __future__ import annotations

from sqlstream.connectors.iceberg.catalog_rules import wrong_catalog
from sqlstream.connectors.iceberg.options import TABLE_OPTIONS
from sqlstream_planner.catalog.foreign.descriptor import CatalogDescriptor
from sqlstream_planner.catalog.options import OptionDef, ValueKind

_OF_TABLES = ("catalog-database", "catalog-table")

DESCRIPTOR = CatalogDescriptor(
    "iceberg",
    "the tables of an Iceberg catalog",
    (
        *(option for option in TABLE_OPTIONS if option.name not in _OF_TABLES),
        OptionDef(
            "default-database",
            ValueKind.STRING,
            "the namespace that USE CATALOG begins with",
            default="default",
        ),
    ),
    default_database=lambda settings: str(settings["default-database"]),
    databases="namespaces",
    validate=wrong_catalog,
)
