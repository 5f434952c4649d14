"""Flink's options that are accepted and that nothing depends on, once more: none is to get there by accident."""

from __future__ import annotations

_OF_JACKSON = ("encode.decimal-as-plain-number", "map-null-key.mode", "map-null-key.literal")
_WITH_THEM = ("json", "debezium-json", "changelog-json", "canal-json", "maxwell-json")
ACCEPTED = frozenset(
    f"{prefix}{name}"
    for prefix in ("", "key.", "value.")
    for name in (
        *(f"{format_}.{name}" for format_ in _WITH_THEM for name in _OF_JACKSON),
        "json.decode.json-parser.enabled",
        "csv.write-bigdecimal-in-scientific-notation",
    )
)
