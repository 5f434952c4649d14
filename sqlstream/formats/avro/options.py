"""The options of the formats in Avro, and the schema that a table's records have by them."""

from __future__ import annotations

from collections.abc import Mapping

from sqlstream.formats.avro.derived import RECORD_NAME, Timestamps, derive
from sqlstream.formats.avro.schema import AvroSchema, SchemaError, parse_schema
from sqlstream_operators.plan.schema import Schema
from sqlstream_planner.catalog.options import OptionDef, ValueKind
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError


def time_options(format_: str) -> tuple[OptionDef, ...]:
    """How a format writes timestamps."""
    return (
        OptionDef(
            f"{format_}.timestamp_mapping.legacy",
            ValueKind.BOOLEAN,
            "TIMESTAMP is written as an instant (timestamp-millis), as Flink did before 1.19 and does by default",
            default="true",
        ),
        OptionDef(
            f"{format_}.timestamp-precision",
            ValueKind.ENUM,
            "digits of a second that are written; by default 3, or 6 if timestamp_mapping.legacy is false",
            choices=("3", "6"),
        ),
    )


def timestamps(format_: str, options: Mapping[str, str]) -> Timestamps:
    """How timestamps are written with these options."""
    legacy = options.get(f"{format_}.timestamp_mapping.legacy", "true").strip().lower() != "false"
    digits = options.get(f"{format_}.timestamp-precision", "").strip()
    return Timestamps(legacy, int(digits) if digits in ("3", "6") else 3 if legacy else 6)


def given_schema(format_: str, options: Mapping[str, str]) -> AvroSchema | None:
    """The schema in the option `schema`. Raises DiagnosticError (OPT003) if it is none."""
    text = options.get(f"{format_}.schema")
    if text is None:
        return None
    try:
        return parse_schema(text)
    except SchemaError as error:
        raise DiagnosticError(
            Diagnostic("OPT003", f"option '{format_}.schema' is no Avro schema", notes=(str(error),))
        ) from None


def table_schema(
    format_: str, options: Mapping[str, str], columns: Schema, name: str = RECORD_NAME
) -> AvroSchema:
    """The schema of a table's records: the option `schema`, or what follows from its columns.

    Raises DiagnosticError: OPT003 for a schema that is none, SQL053 for a column that Avro has no type for.
    """
    given = given_schema(format_, options)
    if given is not None:
        return given
    try:
        return derive(columns, timestamps(format_, options), name)
    except SchemaError as error:
        raise not_of_schema(format_, error) from None


def not_of_schema(format_: str, error: SchemaError) -> DiagnosticError:
    """The error for columns that are not of their schema."""
    return DiagnosticError(Diagnostic("SQL053", f"format {format_}: {error}"))
