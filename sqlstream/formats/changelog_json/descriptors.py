"""What the formats of changes as JSON are, to the planner."""

from __future__ import annotations

from sqlstream.formats.changelog_json.metadata import types_of
from sqlstream.formats.shared_options import by_key, timestamps, tolerant, without_nulls
from sqlstream_planner.catalog.descriptor import FormatDescriptor
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_SOURCE = (Role.SOURCE,)


def _changelog(name: str, *options: OptionDef) -> FormatDescriptor:
    return FormatDescriptor(
        name,
        options=(tolerant(name), timestamps(name), *options),
        changelog=True,
        metadata=types_of(name),
        lookup=by_key,
    )


def _matching(key: str) -> OptionDef:
    return OptionDef(
        f"canal-json.{key}.include",
        ValueKind.STRING,
        f"only changes of {key}s whose name matches",
        roles=_SOURCE,
    )


DEBEZIUM_JSON = _changelog(
    "debezium-json",
    OptionDef(
        "debezium-json.schema-include",
        ValueKind.BOOLEAN,
        "messages are wrapped in `schema` and `payload`",
        default="false",
        roles=_SOURCE,
    ),
    without_nulls("debezium-json"),
)
CHANGELOG_JSON = _changelog("changelog-json")
CANAL_JSON = _changelog("canal-json", _matching("database"), _matching("table"))
MAXWELL_JSON = _changelog("maxwell-json")
