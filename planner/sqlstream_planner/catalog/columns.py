"""What can be wrong with a table's columns: names, keys, watermarks, metadata. Each check adds to `errors`."""

from __future__ import annotations

from collections.abc import Iterable

from sqlstream_operators.plan.schema import RESERVED
from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier
from sqlstream_operators.plan.widening import widens
from sqlstream_planner.catalog.descriptor import ConnectorDescriptor
from sqlstream_planner.diagnostics import Diagnostic, Span, did_you_mean, suggestion
from sqlstream_planner.sql.statements import (
    Column,
    ComputedColumn,
    CreateTable,
    MetadataColumn,
    PhysicalColumn,
)


def check_columns(table: CreateTable, errors: list[Diagnostic]) -> None:
    """The columns, the primary key and PARTITIONED BY: CAT003, CAT006, CAT007, CAT010, CAT012."""
    seen: set[str] = set()
    for column in table.columns:
        if column.name.lower() in seen:
            errors.append(Diagnostic("CAT003", f"the column `{column.name}` is declared twice", column.span))
        if column.name.lower() in RESERVED:
            errors.append(reserved_name(column.name, column.span))
        seen.add(column.name.lower())
    if not table.columns and table.as_select is None:
        errors.append(
            Diagnostic(
                "CAT010",
                f"`{table.name}` has no columns",
                table.name_span,
                help="write them in parentheses after its name, or LIKE another table",
            )
        )
    if table.as_select is not None and not table.columns:
        return  # The query's columns are not known yet.
    if table.primary_key is not None:
        for name in table.primary_key.columns:
            _column_of(table, name, "CAT006", "the primary key", table.primary_key.span, errors)
    for name in table.partitioned_by:
        found = _column_of(
            table, name, "CAT007", "PARTITIONED BY", table.partition_span or table.name_span, errors
        )
        if found is not None and not isinstance(found, PhysicalColumn):
            errors.append(
                Diagnostic(
                    "CAT007",
                    f"`{name}` can't partition files: it is not stored",
                    table.partition_span or table.name_span,
                )
            )


def reserved_name(name: str, span: Span | None) -> Diagnostic:
    """CAT012."""
    return Diagnostic(
        "CAT012",
        f"no column of a table can be called `{name}`",
        span,
        notes=("sqlstream adds columns of its own to rows: " + ", ".join(sorted(RESERVED)),),
        help=f"give the column another name, such as {name.strip('_')}",
    )


def check_watermark(table: CreateTable, errors: list[Diagnostic]) -> None:
    """The column of WATERMARK FOR, except a computed one, whose type the binder knows: CAT004, CAT005."""
    watermark = table.watermark
    if watermark is None:
        return
    if table.as_select is not None and not table.columns:
        return
    name = watermark.column[0]
    column = _column_of(table, name, "CAT004", "WATERMARK FOR", watermark.column_span, errors)
    if column is None or isinstance(column, ComputedColumn):
        return  # The binder knows a computed column's type.
    type_ = column.type
    for part in watermark.column[1:]:
        fields = {n.lower(): t for n, t in type_.fields}
        if part.lower() not in fields:
            errors.append(
                Diagnostic(
                    "CAT004",
                    f"`{name}` has no field `{part}`",
                    watermark.column_span,
                    notes=("fields: " + ", ".join(n for n, _ in type_.fields),) if type_.fields else (),
                )
            )
            return
        type_ = fields[part.lower()]
    if not type_.is_timestamp:
        errors.append(
            Diagnostic(
                "CAT005",
                f"`{'.'.join(watermark.column)}` is {type_}: a watermark needs a timestamp",
                watermark.column_span,
                help=_time_column_help(watermark.column, type_),
            )
        )


def check_metadata(table: CreateTable, connector: ConnectorDescriptor, errors: list[Diagnostic]) -> None:
    """The METADATA columns, of which each connector has its own, with types of their own: CAT008."""
    keys = connector.metadata_with({option.key: option.value for option in table.options})
    for column in table.columns:
        if not isinstance(column, MetadataColumn):
            continue
        if column.key not in keys:
            near = did_you_mean(column.key, keys)
            errors.append(
                Diagnostic(
                    "CAT008",
                    f"the connector '{connector.name}' has no metadata `{column.key}`",
                    column.span,
                    notes=("metadata: " + ", ".join(keys),) if keys else (),
                    help=f"write METADATA FROM '{near}'" if near else None,
                )
            )
        elif not _can_be(keys[column.key], column.type):
            errors.append(
                Diagnostic(
                    "CAT008",
                    f"`{column.name}` is {column.type}, and the metadata `{column.key}` can't be that: "
                    f"it is {keys[column.key]}",
                    column.span,
                    help=f"declare it {keys[column.key]}, and CAST it in the query",
                )
            )


def _can_be(metadata: SqlType, declared: SqlType) -> bool:
    """Whether each value of some metadata is one of the declared type; times may lose their zone, which is UTC."""
    times = (Kind.TIMESTAMP, Kind.TIMESTAMPTZ)
    return (
        widens(metadata, declared)
        or (metadata.kind in times and declared.kind in times)
        or (metadata.is_integer and declared.kind is Kind.VARCHAR)
    )


def _column_of(
    table: CreateTable, name: str, code: str, what: str, span: Span, errors: list[Diagnostic]
) -> Column | None:
    found = next((c for c in table.columns if c.name.lower() == name.lower()), None)
    if found is None:
        names = [c.name for c in table.columns]
        errors.append(
            Diagnostic(
                code,
                f"{what} names `{name}`, which is no column of `{table.name}`",
                span,
                notes=("columns: " + ", ".join(names),),
                help=suggestion(name, names),
            )
        )
    return found


def _time_column_help(path: Iterable[str], type_: SqlType) -> str:
    column = ".".join(quote_identifier(p) if not p.isidentifier() else p for p in path)
    new = f"{column.split('.')[-1]}_time"
    if type_.is_integer:
        made = f"TO_TIMESTAMP_LTZ({column}, 3)"
    elif type_.kind is Kind.VARCHAR:
        made = f"TO_TIMESTAMP({column})"
    else:
        made = f"CAST({column} AS TIMESTAMP(3))"
    return f"add a column `{new} AS {made}` and write WATERMARK FOR {new} AS {new} - INTERVAL '5' SECOND"
