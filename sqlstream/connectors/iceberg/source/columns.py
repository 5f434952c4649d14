"""Whether a table is what is declared, and which of its fields the declared columns are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sqlstream.connectors.iceberg.source.fields import Field, field_of
from sqlstream.connectors.iceberg.types import sql_type
from sqlstream.connectors.lakehouse.reading import is_read_as
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

_MOST_NAMED = 20
#: Later versions may have what is not known here.
_FORMAT = 3


def fields_of(spec: SourceSpec, schema: Schema) -> dict[str, Field]:
    """The table's field of each declared column; of a column that is not there, none."""
    by_lower = {field.name.lower(): field for field in schema.fields}
    return {
        column.name: field_of(by_lower[column.name.lower()])
        for column in spec.physical
        if column.name.lower() in by_lower
    }


def check_table(spec: SourceSpec, metadata: TableMetadata, schema: Schema, place: str) -> None:
    """Raise DiagnosticError (DAT018) for a table that is not what `spec` declares, or that is not understood here."""
    wrong = [*_wrong(spec, schema)]
    unknown = []
    if metadata.format_version > _FORMAT:
        unknown.append(f"format version {metadata.format_version}")
    if "encryption.key-id" in metadata.properties:
        unknown.append("encryption")
    if unknown:
        raise DiagnosticError(
            Diagnostic(
                "DAT018",
                f"the Iceberg table of `{spec.name}` needs what can't be read here: {', '.join(unknown)}",
                notes=(f"it is '{place}'",),
                help="read a copy without it",
            )
        )
    if wrong:
        raise DiagnosticError(
            Diagnostic(
                "DAT018",
                f"the Iceberg table of `{spec.name}` is another than is declared",
                notes=(f"it is '{place}'", *wrong),
                help="declare it as it is; columns that are not needed may be left out",
            )
        )


def _wrong(spec: SourceSpec, schema: Schema) -> Iterable[str]:
    names: dict[str, list[str]] = {}
    for field in schema.fields:
        names.setdefault(field.name.lower(), []).append(field.name)
    there = {field.name: field for field in schema.fields}
    for column in spec.physical:
        found = names.get(column.name.lower(), [])
        if len(found) > 1:
            yield f"`{column.name}` could be any of {', '.join(found)}"
            continue
        if not found:
            near = did_you_mean(column.name, list(there))
            listed = ", ".join(list(there)[:_MOST_NAMED]) + (" …" if len(there) > _MOST_NAMED else "")
            yield f"there is no `{column.name}`" + (
                f"; did you mean `{near}`?" if near else f": it has {listed}"
            )
            continue
        field = there[found[0]]
        type_ = sql_type(field.field_type)
        if type_ is None:
            yield f"`{field.name}` is of a type that can't be read here: {field.field_type}"
        elif not is_read_as(type_, column.type):
            yield f"`{field.name}` is {type_} there and {column.type} here"
        elif field.initial_default is not None:
            yield f"`{field.name}` has a default value in files that were written before it, which can't be read here"
