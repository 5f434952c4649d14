"""Another shape for a table of PostgreSQL: columns that are new or wider, another PRIMARY KEY; in the open transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlstream.connectors.database.names import not_reshaped
from sqlstream.connectors.database.postgres_types import holds, is_wider, postgres_type
from sqlstream.connectors.database.statements import columns_of
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import quote_identifier

#: Runs SQL with parameters, and returns its rows.
Run = Callable[[str, Sequence[Any]], Sequence[tuple[Any, ...]]]


def reshape(run: Run, spec: SinkSpec, table: str, location: str, *, keep_rows: bool) -> None:
    """Bring `table` (quoted) to the columns and the key of `spec`. Raises DataError for what can't be done exactly."""
    rows = run(
        "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull, "
        "a.atthasdef OR a.attidentity <> '' FROM pg_catalog.pg_attribute a "
        "WHERE a.attrelid = %s::regclass AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        [table],
    )
    types = {str(name): str(type_) for name, type_, _, _ in rows}
    unique = _unique(run, table)
    key = sorted(spec.primary_key)
    primary = next(((name, columns) for name, columns, is_key in unique if is_key), None)
    rekeyed = key not in [sorted(columns) for _, columns, _ in unique] if key else bool(unique)
    if rekeyed:
        others = [name for name, _, is_key in unique if not is_key]
        if others and not key:
            raise not_reshaped(
                location,
                f"it has the unique index {others[0]}, and the sink has no PRIMARY KEY",
                f"Run DROP INDEX or ALTER TABLE … DROP CONSTRAINT {others[0]}",
            )
        if primary is not None:
            run(f"ALTER TABLE {table} DROP CONSTRAINT {quote_identifier(primary[0])}", [])
        if not keep_rows:
            run(f"DELETE FROM {table}", [])
    names = {column.name for column in spec.schema}
    former = set(primary[1]) if rekeyed and primary is not None else set()
    for name, _, needed, given in rows:
        if name in former and name not in spec.primary_key:
            run(f"ALTER TABLE {table} ALTER COLUMN {quote_identifier(name)} DROP NOT NULL", [])
        elif name not in names and needed and not given:
            raise not_reshaped(
                location,
                f"its column {name} is NOT NULL, and the query does not write it any more",
                f"Run ALTER TABLE {table} ALTER COLUMN {name} DROP NOT NULL, or drop the column",
            )
    for column in spec.schema:
        wanted = postgres_type(column.type)
        quoted = quote_identifier(column.name)
        if column.name not in types:
            run(f"ALTER TABLE {table} ADD COLUMN {quoted} {wanted}", [])
        elif not holds(types[column.name], column.type):
            if not is_wider(types[column.name], wanted):
                raise not_reshaped(
                    location,
                    f"its column {column.name} is {types[column.name]}, which can't become {wanted} without another value",
                    "Give the column another name, or declare the type that it has",
                )
            run(f"ALTER TABLE {table} ALTER COLUMN {quoted} TYPE {wanted}", [])
    if rekeyed and key:
        run(f"ALTER TABLE {table} ADD PRIMARY KEY ({columns_of(spec.primary_key)})", [])
    # It has the types that the table had when it was made.
    run("DROP TABLE IF EXISTS pg_temp.sqlstream_changes", [])


def _unique(run: Run, table: str) -> list[tuple[str, list[str], bool]]:
    """The unique indexes over plain columns: name (that of a constraint, if it is one), columns, whether it is the key."""
    found = run(
        "SELECT c.relname::text, array_agg(a.attname::text), i.indisprimary FROM pg_catalog.pg_index i "
        "JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid "
        "JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid "
        "AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) "
        "WHERE i.indrelid = %s::regclass AND i.indisunique AND i.indimmediate AND i.indisvalid "
        "AND i.indpred IS NULL AND i.indexprs IS NULL GROUP BY c.relname, i.indisprimary",
        [table],
    )
    return [(str(name), list(columns), bool(is_key)) for name, columns, is_key in found]
