"""Another shape for a table of DuckDB: columns that are new or wider, another PRIMARY KEY; all in the open transaction.

DuckDB can't drop a key or change the type of a column in one: then the table is made anew under its name, with the rows
that it had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlstream.connectors.database.names import not_reshaped
from sqlstream.connectors.database.statements import columns_of
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.plan.types import UNKNOWN, SqlType, parse_type, quote_identifier
from sqlstream_operators.plan.widening import widens

#: Runs SQL with parameters, and returns its rows.
Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    type: str
    nullable: bool
    default: str | None


def reshape(run: Run, spec: SinkSpec, schema: str, name: str, location: str, *, keep_rows: bool) -> None:
    """Bring the table to the columns and the key of `spec`. Raises DataError for what can't be done exactly."""
    table = f"{quote_identifier(schema)}.{quote_identifier(name)}"
    there = _columns(run, schema, name)
    keys = _constraints(run, schema, name)
    wanted = {column.name.lower(): column for column in spec.schema}
    wider = _wider(there, spec, location)
    has_key = sorted(k.lower() for k in keys.get("PRIMARY KEY", [()])[0])
    unique = [
        sorted(k.lower() for k in one) for kind in ("PRIMARY KEY", "UNIQUE") for one in keys.get(kind, [])
    ]
    key = sorted(k.lower() for k in spec.primary_key)
    rekeyed = key not in unique if key else bool(unique)
    for has in there:
        free = has.nullable or has.default is not None or (rekeyed and has.name.lower() in has_key)
        if has.name.lower() not in wanted and not free:
            raise not_reshaped(
                location,
                f"its column {has.name} is NOT NULL, and the query does not write it any more",
                f"Run ALTER TABLE {name} ALTER {has.name} DROP NOT NULL, or drop the column",
            )
    new = [c for c in spec.schema if c.name.lower() not in {column.name.lower() for column in there}]
    in_index = {k.lower() for one in unique for k in one}
    if not rekeyed and not in_index & wider.keys():
        for column in new:
            run(f"ALTER TABLE {table} ADD COLUMN {quote_identifier(column.name)} {column.type}", [])
        for has in there:
            if has.name.lower() in wider:
                run(
                    f"ALTER TABLE {table} ALTER {quote_identifier(has.name)} TYPE {wider[has.name.lower()]}",
                    [],
                )
        return
    _check_plain(run, schema, name, location, keys, spec)
    made = [
        _Column(
            c.name,
            str(wider.get(c.name.lower(), c.type)),
            c.nullable or c.name.lower() in wanted or c.name.lower() in has_key,
            c.default,
        )
        for c in there
    ]
    made += [_Column(c.name, str(c.type), True, None) for c in new]
    copy = f"{quote_identifier(schema)}.{quote_identifier(f'{name}__sqlstream')}"
    items = [
        f"{quote_identifier(c.name)} {c.type}{'' if c.default is None else f' DEFAULT ({c.default})'}"
        f"{'' if c.nullable else ' NOT NULL'}"
        for c in made
    ]
    if spec.primary_key:
        items.append(f"PRIMARY KEY ({columns_of(spec.primary_key)})")
    run(f"CREATE TABLE {copy} ({', '.join(items)})", [])
    if keep_rows or not rekeyed:
        listed = columns_of([c.name for c in there])
        run(f"INSERT INTO {copy} ({listed}) SELECT {listed} FROM {table}", [])
    run(f"DROP TABLE {table}", [])
    run(f"ALTER TABLE {copy} RENAME TO {quote_identifier(name)}", [])


def _wider(there: Sequence[_Column], spec: SinkSpec, location: str) -> dict[str, SqlType]:
    """The types that columns get which have narrower ones, by their names in lower case."""
    found: dict[str, SqlType] = {}
    types = {column.name.lower(): _type(column.type) for column in there}
    for column in spec.schema:
        has = types.get(column.name.lower())
        if has is None or has == column.type:
            continue
        if has == UNKNOWN or not widens(has, column.type):
            raise not_reshaped(
                location,
                f"its column {column.name} is {has}, which can't become {column.type} without another value",
                "Give the column another name, or declare the type that it has",
            )
        found[column.name.lower()] = column.type
    return found


def _columns(run: Run, schema: str, name: str) -> list[_Column]:
    rows = run(
        "SELECT column_name, data_type, is_nullable, column_default FROM duckdb_columns() "
        "WHERE database_name = current_database() AND lower(schema_name) = lower($1) "
        "AND lower(table_name) = lower($2) ORDER BY column_index",
        [schema, name],
    )
    return [_Column(str(n), str(t), bool(nullable), default) for n, t, nullable, default in rows]


def _constraints(run: Run, schema: str, name: str) -> dict[str, list[Sequence[str]]]:
    """The columns of the table's constraints, by kind."""
    found: dict[str, list[Sequence[str]]] = {}
    for kind, columns in run(
        "SELECT constraint_type, constraint_column_names FROM duckdb_constraints() WHERE database_name = "
        "current_database() AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2)",
        [schema, name],
    ):
        found.setdefault(str(kind), []).append(columns)
    return found


def _check_plain(
    run: Run,
    schema: str,
    name: str,
    location: str,
    keys: dict[str, list[Sequence[str]]],
    spec: SinkSpec,
) -> None:
    """A table that is made anew must have nothing that would be lost."""
    own = {kind for kind in keys if kind not in ("PRIMARY KEY", "NOT NULL")}
    indexes = run(
        "SELECT index_name FROM duckdb_indexes() WHERE database_name = current_database() "
        "AND lower(schema_name) = lower($1) AND lower(table_name) = lower($2)",
        [schema, name],
    )
    lost = [*sorted(f"{kind} constraints" for kind in own), *(f"the index {index}" for (index,) in indexes)]
    if lost:
        key = f"PRIMARY KEY ({', '.join(spec.primary_key)})" if spec.primary_key else "no PRIMARY KEY"
        raise not_reshaped(
            location,
            f"DuckDB must make it anew to give it {key}, and it has {', '.join(lost)} of its own",
            "Drop these before the run and create them again afterwards, or write another table ('table-name')",
        )


def _type(text: str) -> SqlType:
    try:
        return parse_type(text)
    except ValueError:
        return UNKNOWN
