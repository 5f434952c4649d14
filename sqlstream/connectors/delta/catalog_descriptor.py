"""What a catalog of the type `delta` is, to the planner."""

from __future__ import annotations

from sqlstream.connectors.delta.written_path import wrong_path
from sqlstream_planner.catalog.foreign.descriptor import CatalogDescriptor
from sqlstream_planner.catalog.options import OptionDef, ValueKind

#: The database of the tables that are in the folder itself.
DEFAULT = "default"

DESCRIPTOR = CatalogDescriptor(
    "delta",
    "a folder of Delta tables",
    (
        OptionDef(
            "path",
            ValueKind.PATH,
            "the folder, local or a URI: tables are folders in it, or in folders of it",
            required=True,
            refuse=wrong_path,
        ),
        OptionDef(
            "default-database",
            ValueKind.STRING,
            "the database that USE CATALOG begins with",
            default=DEFAULT,
        ),
    ),
    default_database=lambda settings: str(settings["default-database"]),
    databases="folders",
)
