"""What the formats of changes as JSON are, to the planner."""

from __future__ import annotations

from sqlstream.formats.changelog_json.metadata import types_of
from sqlstream.formats.patterns import wrong_re2_pattern
from sqlstream.formats.shared_options import by_key, of_jackson, timestamps, tolerant, without_nulls
from sqlstream_planner.catalog.descriptor import FormatDescriptor
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind

_SOURCE = (Role.SOURCE,)


def _changelog(name: str, *options: OptionDef) -> FormatDescriptor:
    return FormatDescriptor(
        name,
        options=(tolerant(name), timestamps(name), *options, *of_jackson(name)),
        changelog=True,
        metadata=types_of(name),
        lookup=by_key,
    )


def _not_wrapped(text: str) -> str | None:
    """Why a sink can't have the option of messages that are wrapped; None: it can."""
    if text.strip().lower() != "true":
        return None
    return "messages that are written are not wrapped in `schema` and `payload`"


def _matching(key: str) -> OptionDef:
    return OptionDef(
        f"canal-json.{key}.include",
        ValueKind.STRING,
        f"only changes of {key}s whose name matches",
        roles=_SOURCE,
        refuse=wrong_re2_pattern,
    )


DEBEZIUM_JSON = _changelog(
    "debezium-json",
    OptionDef(
        "debezium-json.schema-include",
        ValueKind.BOOLEAN,
        "messages are wrapped in `schema` and `payload`",
        default="false",
        roles=_SOURCE,
        refuse_written=_not_wrapped,
    ),
    without_nulls("debezium-json"),
)
CHANGELOG_JSON = _changelog("changelog-json")
CANAL_JSON = _changelog("canal-json", _matching("database"), _matching("table"))
MAXWELL_JSON = _changelog("maxwell-json")
