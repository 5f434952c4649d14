"""Options that several formats have, to the planner, and how columns are found by a key."""

from __future__ import annotations

from sqlstream_planner.catalog.descriptor import ColumnLookup, Settings
from sqlstream_planner.catalog.options import OptionDef, Role, ValueKind


def by_key(settings: Settings) -> ColumnLookup:
    """Keys of JSON are compared as they are, and what makes a row malformed are the columns that are read."""
    return ColumnLookup(by_position=False, alone=True)


def by_name(settings: Settings) -> ColumnLookup:
    """Columns of a file that names them, in any case."""
    return ColumnLookup(by_position=False, any_case=True, alone=True)


def tolerant(format_: str) -> OptionDef:
    """Flink's option to pass over what can't be read."""
    return OptionDef(
        f"{format_}.ignore-parse-errors",
        ValueKind.BOOLEAN,
        f"accepted: malformed {'messages' if format_.count('-') else 'rows'} go to the dead-letter table",
        default="false",
        changes_rows=False,
        changes_output=False,
    )


def timestamps(format_: str) -> OptionDef:
    """How JSON has timestamps."""
    return OptionDef(
        f"{format_}.timestamp-format.standard",
        ValueKind.ENUM,
        "how timestamps are written: '2024-01-01 12:00:00' or '2024-01-01T12:00:00'",
        default="SQL",
        choices=("SQL", "ISO-8601"),
        changes_rows=False,
    )


def accepted(name: str, kind: ValueKind, why: str, default: str, choices: tuple[str, ...] = ()) -> OptionDef:
    """An option of Flink's on which nothing of rows or results depends here."""
    return OptionDef(
        name,
        kind,
        f"accepted: {why}",
        default=default,
        choices=choices,
        changes_rows=False,
        changes_output=False,
    )


#: Why how Flink writes decimals makes no difference.
PLAIN_DECIMALS = "decimals have no exponent either way"


def of_jackson(format_: str) -> tuple[OptionDef, ...]:
    """Options of Flink's JSON that name what is so here whatever they are."""
    no_null = "a MAP has no key that is NULL"
    modes = ("FAIL", "DROP", "LITERAL")
    return (
        accepted(f"{format_}.encode.decimal-as-plain-number", ValueKind.BOOLEAN, PLAIN_DECIMALS, "false"),
        accepted(f"{format_}.map-null-key.mode", ValueKind.ENUM, no_null, "FAIL", modes),
        accepted(f"{format_}.map-null-key.literal", ValueKind.STRING, no_null, "null"),
    )


def without_nulls(format_: str) -> OptionDef:
    """Whether JSON leaves out NULLs."""
    return OptionDef(
        f"{format_}.encode.ignore-null-fields",
        ValueKind.BOOLEAN,
        "leave out fields that are null",
        default="false",
        roles=(Role.SINK,),
    )
