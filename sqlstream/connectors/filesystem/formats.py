"""The formats of the `filesystem` connector, to the planner: their options and what they can do."""

from __future__ import annotations

from sqlstream_operators.plan.types import Kind
from sqlstream_planner.catalog.descriptor import ColumnLookup, FormatDescriptor, Settings
from sqlstream_planner.catalog.options import BOTH, OptionDef, Role, ValueKind

_SOURCE = (Role.SOURCE,)
_SINK = (Role.SINK,)
_B, _S = ValueKind.BOOLEAN, ValueKind.STRING

# Keys of JSON are compared as they are, and what makes a row malformed are the columns that are read.
_KEYS = ColumnLookup(by_position=False, alone=True)
_NAMES = ColumnLookup(by_position=False, any_case=True, alone=True)


def _csv_lookup(settings: Settings) -> ColumnLookup:
    """Without a header only positions and the number of fields count.

    Otherwise the first line may have the names or not, and which it is depends on all the names that are declared.
    """
    if settings.get("csv.header") is False:
        return ColumnLookup(by_name=False)
    return ColumnLookup(any_case=True)


def _tolerant(format_: str) -> OptionDef:
    return OptionDef(
        f"{format_}.ignore-parse-errors",
        _B,
        f"accepted: malformed {'messages' if format_.count('-') else 'rows'} go to the dead-letter table",
        default="false",
        changes_rows=False,
        changes_output=False,
    )


def _timestamps(format_: str) -> OptionDef:
    return OptionDef(
        f"{format_}.timestamp-format.standard",
        ValueKind.ENUM,
        "how timestamps are written: '2024-01-01 12:00:00' or '2024-01-01T12:00:00'",
        default="SQL",
        choices=("SQL", "ISO-8601"),
        changes_rows=False,
    )


def _without_nulls(format_: str) -> OptionDef:
    return OptionDef(
        f"{format_}.encode.ignore-null-fields",
        _B,
        "leave out fields that are null",
        default="false",
        roles=_SINK,
    )


def _changelog(name: str, roles: tuple[Role, ...], *options: OptionDef) -> FormatDescriptor:
    return FormatDescriptor(
        name,
        roles,
        (_tolerant(name), _timestamps(name), *options),
        changelog=True,
        lookup=lambda settings: _KEYS,
    )


FORMATS: tuple[FormatDescriptor, ...] = (
    FormatDescriptor(
        "json",
        options=(
            _tolerant("json"),
            OptionDef(
                "json.fail-on-missing-field",
                _B,
                "a missing field makes the row malformed",
                default="false",
                changes_output=False,
            ),
            _timestamps("json"),
            _without_nulls("json"),
        ),
        lookup=lambda settings: _KEYS,
    ),
    FormatDescriptor(
        "csv",
        options=(
            OptionDef("csv.field-delimiter", ValueKind.CHARACTER, "between two fields", default=","),
            OptionDef(
                "csv.allow-comments", _B, "skip lines that start with #", default="false", roles=_SOURCE
            ),
            _tolerant("csv"),
            OptionDef("csv.quote-character", ValueKind.CHARACTER, "around a field", default='"'),
            OptionDef("csv.disable-quote-character", _B, "no character quotes fields", default="false"),
            OptionDef(
                "csv.escape-character", ValueKind.CHARACTER, "before a character that is meant as it is"
            ),
            OptionDef("csv.null-literal", _S, "what stands for NULL"),
            OptionDef("csv.array-element-delimiter", _S, "between two elements of an array", default=";"),
            OptionDef(
                "csv.header", _B, "whether the first line has the columns' names; found out if not set (ours)"
            ),
        ),
        lookup=_csv_lookup,
    ),
    FormatDescriptor(
        "parquet",
        options=(
            OptionDef(
                "parquet.compression",
                ValueKind.ENUM,
                "how files are compressed",
                default="snappy",
                choices=("uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"),
                roles=_SINK,
                changes_output=False,
            ),
            OptionDef(
                "parquet.utc-timezone",
                _B,
                "times are UTC; nothing else can be read or written",
                default="true",
            ),
        ),
        lookup=lambda settings: _NAMES,
        not_written=frozenset({Kind.INTERVAL}),  # pyarrow has no Parquet type for it
    ),
    FormatDescriptor("orc", _SOURCE, lookup=lambda settings: _NAMES),
    _changelog(
        "debezium-json",
        BOTH,
        OptionDef(
            "debezium-json.schema-include",
            _B,
            "messages are wrapped in `schema` and `payload`",
            default="false",
            roles=_SOURCE,
        ),
        _without_nulls("debezium-json"),
    ),
    _changelog("changelog-json", BOTH),
    _changelog(
        "canal-json",
        _SOURCE,
        OptionDef(
            "canal-json.database.include", _S, "only changes of databases whose name matches", roles=_SOURCE
        ),
        OptionDef("canal-json.table.include", _S, "only changes of tables whose name matches", roles=_SOURCE),
    ),
    _changelog("maxwell-json", _SOURCE),
)
