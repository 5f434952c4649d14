"""A table in PostgreSQL as its catalog has it, and whether it can be read as it is declared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.database.postgres_read_types import ReadType, is_read_as, read_type
from sqlstream_operators.plan.spec import Column, Schema, SourceSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, did_you_mean

_TEXT = 25
_MOST_NAMED = 20
#: Object ids from here on are a database's own.
FIRST_OWN = 16384


@dataclass(frozen=True, slots=True)
class ThereColumn:
    """A column: its name, its type as SQL, as object id and modifier of a built-in one, and whether it is generated."""

    name: str
    sql: str
    oid: int
    modifier: int
    generated: bool = False
    may_be_apart: bool = False

    @property
    def read(self) -> ReadType | None:
        """What its values are; None: they can't be read."""
        return read_type(self.oid, self.modifier)


@dataclass(frozen=True, slots=True)
class ThereTable:
    """A table: its id, schema, kind (`r` table, `p` partitioned, `v` view …), replica identity (`f` full …), columns.

    `identity` are the columns of the replica identity; `pages` is how many blocks it has. `own_types` are the types of this
    database that columns have: what they are made of, as object id and modifier.
    """

    oid: int
    schema: str
    kind: str
    replica_identity: str
    columns: tuple[ThereColumn, ...]
    identity: frozenset[str]
    pages: int
    own_types: Mapping[int, tuple[int, int]]

    def column(self, name: str) -> ThereColumn | None:
        """The column of a name."""
        return next((one for one in self.columns if one.name == name), None)


def qualified(schema: str | None, name: str) -> str:
    """A table's name in SQL."""
    quoted = quote_identifier(name)
    return quoted if schema is None else f"{quote_identifier(schema)}.{quoted}"


def look(connection: PostgresConnection, table: str) -> ThereTable | None:
    """The table of a name (as SQL), None if there is none."""
    found = connection.run(
        "SELECT c.oid::bigint, (SELECT nspname::text FROM pg_namespace n WHERE n.oid = c.relnamespace), "
        "c.relkind::text, c.relreplident::text, pg_relation_size(c.oid) / "
        "current_setting('block_size')::int, ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a "
        "ON a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1]) "
        "WHERE i.indrelid = c.oid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident "
        "ELSE false END) FROM pg_class c WHERE c.oid = to_regclass(%s)",
        [table],
    )
    if not found:
        return None
    oid, schema, kind, identity, pages, key = found[0]
    rows = connection.run(
        "SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), a.atttypid::bigint, a.atttypmod, "
        "a.attgenerated <> '', t.typtype::text, t.typbasetype::bigint, t.typtypmod, a.attstorage <> 'p' "
        "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
        "WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
        [oid],
    )
    columns, own = [], {}
    for name, sql, type_, modifier, generated, sort, base, base_modifier, apart in rows:
        if type_ >= FIRST_OWN and sort in ("e", "d"):
            made_of = (_TEXT, -1) if sort == "e" else (int(base), int(base_modifier))
            own[int(type_)] = made_of
            type_, modifier = made_of
        columns.append(
            ThereColumn(str(name), str(sql), int(type_), int(modifier), bool(generated), bool(apart))
        )
    return ThereTable(
        int(oid),
        str(schema),
        str(kind),
        str(identity),
        tuple(columns),
        frozenset(map(str, key)),
        int(pages),
        own,
    )


def tables_there(connection: PostgresConnection) -> list[str]:
    """The names of tables and views of the database, as `table-name` has them."""
    found = connection.run(
        "SELECT CASE WHEN table_schema = current_schema() THEN '' ELSE table_schema || '.' END || table_name "
        "FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema') "
        "ORDER BY 1 LIMIT 50"
    )
    return [str(name) for (name,) in found]


def no_table(spec: SourceSpec, location: str, there: Sequence[str], written: str) -> DiagnosticError:
    """The error for a table that is not there."""
    near = did_you_mean(written, there)
    return DiagnosticError(
        Diagnostic(
            "DAT004",
            f"`{spec.name}` can't be read: there is no {location}",
            notes=(
                f"it has the tables {', '.join(there)}" if there else "it has no tables that this user sees",
            ),
            help=f"did you mean 'table-name' = '{near}'?" if near else "say which with 'table-name' = '…'",
        )
    )


def check_columns(spec: SourceSpec, there: Sequence[ThereColumn], location: str, when: str = "") -> None:
    """Raise DiagnosticError (DAT018) for a table whose columns are not what `spec` declares; `when`: as of which time."""
    wrong = list(_wrong(spec.physical, there))
    if wrong:
        raise DiagnosticError(
            Diagnostic(
                "DAT018",
                f"the table of `{spec.name}` has other columns than are declared",
                notes=(f"it is {location}{when}", *wrong),
                help="declare them as they are; columns that are not needed may be left out",
            ),
            exit_code=4 if when else 1,
        )


def _wrong(declared: Schema, there: Sequence[ThereColumn]) -> Iterator[str]:
    by_name = {one.name: one for one in there}
    for column in declared:
        found = by_name.get(column.name)
        if found is None:
            near = did_you_mean(column.name, list(by_name))
            listed = ", ".join(list(by_name)[:_MOST_NAMED]) + (" …" if len(by_name) > _MOST_NAMED else "")
            yield f"there is no `{column.name}`" + (
                f"; did you mean `{near}`?" if near else f": it has {listed}"
            )
        elif found.read is None:
            yield f"`{column.name}` is {found.sql}, which can't be read here"
        elif not is_read_as(found.read.type, column.type):
            yield f"`{column.name}` is {found.sql} there and {column.type} here"


def types_of(columns: Sequence[Column], there: Sequence[ThereColumn]) -> list[ReadType]:
    """What the values of declared columns are; all of them are there, and can be read (`check_columns`)."""
    by_name = {one.name: one.read for one in there}
    found = [by_name[column.name] for column in columns]
    return [one for one in found if one is not None]
