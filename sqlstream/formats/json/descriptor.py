"""What the format `json` is, to the planner."""

from __future__ import annotations

from sqlstream.formats.shared_options import accepted, by_key, of_jackson, timestamps, tolerant, without_nulls
from sqlstream_planner.catalog.descriptor import FormatDescriptor
from sqlstream_planner.catalog.options import OptionDef, ValueKind

JSON = FormatDescriptor(
    "json",
    options=(
        tolerant("json"),
        OptionDef(
            "json.fail-on-missing-field",
            ValueKind.BOOLEAN,
            "a missing field makes the row malformed",
            default="false",
            changes_output=False,
        ),
        timestamps("json"),
        without_nulls("json"),
        *of_jackson("json"),
        accepted(
            "json.decode.json-parser.enabled",
            ValueKind.BOOLEAN,
            "which of Jackson's parsers reads, and none does",
            "true",
        ),
    ),
    lookup=by_key,
)
