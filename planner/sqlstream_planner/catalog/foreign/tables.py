"""A table of a catalog as the CREATE TABLE that it is the same as."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sqlstream_operators.plan.schema import RESERVED
from sqlstream_operators.plan.types import quote_identifier, quote_literal
from sqlstream_planner.catalog.foreign.descriptor import CatalogDef, FoundColumn, FoundTable, LeftOut
from sqlstream_planner.catalog.table_options import CONNECTOR
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, Span
from sqlstream_planner.sql.qualified import dotted
from sqlstream_planner.sql.statements import CreateTable, Option, PhysicalColumn, PrimaryKey
from sqlstream_planner.text.masking import shown_options

if TYPE_CHECKING:
    from sqlstream_planner.catalog.tables import TableDef


def full_name(catalog: CatalogDef, found: FoundTable) -> str:
    """What the table is called in plans and messages."""
    return dotted((catalog.name, found.database, found.name))


def as_create_table(
    catalog: CatalogDef, found: FoundTable, at: Span
) -> tuple[CreateTable, tuple[LeftOut, ...]]:
    """The declaration of a table that is named `at`, and its columns that are left out. Raises DiagnosticError (CAT015)."""
    cases = Counter(column.name.lower() for column in found.columns)
    out = tuple(LeftOut(c.name, why) for c in found.columns if (why := _wrong(c, cases)) is not None)
    left = {one.name for one in out}
    name = full_name(catalog, found)
    columns = tuple(
        PhysicalColumn(c.name, c.type, c.nullable, None, at)
        for c in found.columns
        if c.name not in left and c.type is not None
    )
    if not columns:
        raise DiagnosticError(
            Diagnostic(
                "CAT015",
                f"`{name}` has no column that can be read",
                at,
                tuple(f"`{one.name}`: {one.why}" for one in out[:5]),
            )
        )
    key = found.primary_key if not left.intersection(found.primary_key) else ()
    table = CreateTable(
        name=name,
        columns=columns,
        watermark=None,
        primary_key=PrimaryKey(key, at) if key else None,
        partitioned_by=tuple(n for n in found.partitioned_by if n not in left),
        options=tuple(
            Option(k, v, at, at) for k, v in ((CONNECTOR, found.connector), *found.options.items())
        ),
        like=None,
        as_select=None,
        if_not_exists=False,
        temporary=False,
        span=at,
        name_span=at,
        options_span=at,
        partition_span=at,
    )
    return table, out


def _wrong(column: FoundColumn, cases: Counter[str]) -> str | None:
    if column.type is None:
        return f"it is {column.there}, which can't be read here" if column.there else "it can't be read here"
    if cases[column.name.lower()] > 1:
        return "another column differs from it only by case"
    if column.name.lower() in RESERVED:
        return "sqlstream adds a column of this name to rows"
    return None


def written(table: TableDef) -> str:
    """The declaration of a table of a catalog as text, without passwords."""
    lines = [
        f"  {quote_identifier(c.name)} {c.type}{'' if c.nullable else ' NOT NULL'}"
        for c in table.columns
        if isinstance(c, PhysicalColumn)
    ]
    if table.primary_key is not None:
        key = ", ".join(map(quote_identifier, table.primary_key.columns))
        lines.append(f"  PRIMARY KEY ({key}) NOT ENFORCED")
    partitions = ", ".join(map(quote_identifier, table.partitioned_by))
    options = shown_options({option.key: option.value for option in table.options})
    listed = ",\n".join(f"  {quote_literal(k)} = {quote_literal(v)}" for k, v in options.items())
    return (
        f"CREATE TABLE {table.name} (\n"
        + ",\n".join(lines)
        + "\n)"
        + (f" PARTITIONED BY ({partitions})" if partitions else "")
        + f" WITH (\n{listed}\n)"
    )
