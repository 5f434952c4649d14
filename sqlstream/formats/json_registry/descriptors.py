"""What the format `json-registry` is, to the planner."""

from __future__ import annotations

from sqlstream.formats.schema_registry.settings import registry_options
from sqlstream_planner.catalog.descriptor import ColumnLookup, FormatDescriptor, Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind


def _by_name(settings: Settings) -> ColumnLookup:
    """Keys are found by their names; a missing one may be an error, which other columns decide."""
    return ColumnLookup(by_position=False, alone=not settings.get("json-registry.fail-on-missing-field"))


JSON_REGISTRY = FormatDescriptor(
    "json-registry",
    options=(
        *registry_options("json-registry"),
        OptionDef(
            "json-registry.fail-on-missing-field",
            ValueKind.BOOLEAN,
            "a missing field makes the record malformed",
            default="false",
            roles=(Role.SOURCE,),
        ),
        OptionDef(
            "json-registry.timestamp-format.standard",
            ValueKind.ENUM,
            "how a sink writes timestamps; both are read",
            default="SQL",
            choices=("SQL", "ISO-8601"),
            changes_rows=False,
        ),
    ),
    lookup=_by_name,
)
