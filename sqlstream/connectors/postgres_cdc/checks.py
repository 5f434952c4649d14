"""Whether a table's changes say all that is needed: its replica identity, its columns, and the publication."""

from __future__ import annotations

from collections.abc import Sequence

from sqlstream.connectors.database.postgres_catalog import ThereTable, check_columns, no_table, tables_there
from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.postgres_cdc import refusals
from sqlstream.connectors.postgres_cdc.messages import Relation
from sqlstream.connectors.postgres_cdc.options import PUBLICATION, CdcOptions
from sqlstream.connectors.postgres_cdc.server import CdcServer
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.diagnostics import Diagnostic

FULL, NOTHING = "f", "n"


def check_table(spec: SourceSpec, server: CdcServer, options: CdcOptions) -> ThereTable:
    """The table as it is. Raises DiagnosticError: DAT004, DAT018, DAT020."""
    there = server.look()
    if there is None:
        raise no_table(spec, server.location, _tables(server), options.table)
    check_columns(spec, there.columns, server.location)
    declared = {column.name for column in spec.physical}
    generated = next((one.name for one in there.columns if one.generated and one.name in declared), None)
    if generated is not None:
        raise refusals.not_readable(
            spec.name,
            server.location,
            f"its column `{generated}` is generated, and not in the log",
            "leave the column out, and compute it in the query",
        )
    if there.kind != "r":
        kind = {"p": "a partitioned table", "v": "a view", "m": "a materialized view", "f": "a foreign table"}
        raise refusals.not_readable(
            spec.name,
            server.location,
            f"it is {kind.get(there.kind, 'no table')}",
            "name a table that has its rows itself: a partition, or what the view reads",
        )
    ((filtered,),) = server.run("SELECT row_security_active(%s)", [server.table])
    if filtered:
        raise refusals.not_readable(
            spec.name,
            server.location,
            "row-level security hides rows of it from this user, and not those of its log",
            "connect as a user with BYPASSRLS, or as the table's owner",
        )
    check_identity(spec, there.replica_identity, there.identity, server.location)
    return there


def _tables(server: CdcServer) -> list[str]:
    connection: PostgresConnection = server.connection()
    try:
        connection.connect()
        return tables_there(connection)
    finally:
        connection.close()


def check_identity(spec: SourceSpec, identity: str, key: frozenset[str], location: str) -> None:
    """Raise DiagnosticError (DAT020) if the log does not say which row goes in an update or a delete."""
    if identity == FULL:
        return
    columns = ", ".join(sorted(key))
    full = "run ALTER TABLE … REPLICA IDENTITY FULL"
    if identity == NOTHING or not key:
        raise refusals.not_readable(
            spec.name,
            location,
            "its replica identity is nothing, so the log does not say which rows go",
            f"give it a PRIMARY KEY, or {full}",
        )
    if not spec.primary_key:
        raise refusals.not_readable(
            spec.name,
            location,
            f"the log says of rows that go only ({columns}), and no key is declared",
            f"declare PRIMARY KEY ({columns}) NOT ENFORCED, or {full}",
        )
    if set(spec.primary_key) != key:
        raise refusals.not_readable(
            spec.name,
            location,
            f"its replica identity is ({columns}), and the declared key ({', '.join(spec.primary_key)})",
            f"declare PRIMARY KEY ({columns}) NOT ENFORCED, or {full}",
        )


def check_relation(spec: SourceSpec, relation: Relation, location: str) -> None:
    """Raise DiagnosticError for a table as the log has it from some change on. What may change is what is not read."""
    check_columns(spec, relation.columns, location, ", as the changes that come next have it")
    key = frozenset[str]() if relation.replica_identity == FULL else relation.key
    check_identity(spec, relation.replica_identity, key, location)


def values_apart(spec: SourceSpec, there: ThereTable) -> Diagnostic | None:
    """The warning about values that an update may leave out of the log; None: there can be none."""
    if there.replica_identity == FULL:
        return None
    declared = {column.name for column in spec.physical}
    apart = [one.name for one in there.columns if one.may_be_apart and one.name in declared - there.identity]
    if not apart:
        return None
    return Diagnostic(
        "DAT020",
        f"updates of `{spec.name}` may not say what `{apart[0]}` is",
        notes=(
            "values of more than 2 kB are stored apart, and not in the log where an update leaves them as they were; "
            "such an update stops the run",
        ),
        help="run ALTER TABLE … REPLICA IDENTITY FULL if the column has such values, or leave it out",
        severity="warning",
    )


def check_publication(spec: SourceSpec, server: CdcServer, options: CdcOptions, *, make: bool) -> None:
    """Raise DiagnosticError (DAT020) for a publication that leaves something out; with `make` it is made if need be.

    One that is named by the slot is ours, and gets the table. One that is named by 'publication.name' is made if it is not
    there, and else as the user has it.
    """
    name, quoted = options.publication, quote_identifier(options.publication)
    found = server.run(
        "SELECT puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate, EXISTS (SELECT FROM "
        "pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = to_regclass(%s)) "
        "FROM pg_publication p WHERE pubname = %s",
        [server.table, name],
    )
    if not found:
        if make:
            server.run(f"CREATE PUBLICATION {quoted} FOR TABLE {server.table}")
        return
    ((_, whole, _),) = found
    if not whole:
        raise refusals.not_readable(
            spec.name,
            server.location,
            f"the publication `{name}` leaves out some kinds of changes",
            f"run ALTER PUBLICATION {quoted} SET (publish = 'insert, update, delete, truncate')",
        )
    published = server.run(
        "SELECT to_jsonb(t) FROM pg_publication_tables t JOIN pg_class c ON c.oid = to_regclass(%s) "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE t.pubname = %s AND t.schemaname = n.nspname AND t.tablename = c.relname",
        [server.table, name],
    )
    if not published:
        own = name == options.slot
        if not own:
            raise refusals.not_readable(
                spec.name,
                server.location,
                f"the publication `{name}` does not have it",
                f"run ALTER PUBLICATION {quoted} ADD TABLE {server.table}, or leave '{PUBLICATION}' out",
            )
        if make:
            server.run(f"ALTER PUBLICATION {quoted} ADD TABLE {server.table}")
        return
    ((details,),) = published
    if details.get("rowfilter"):
        raise refusals.not_readable(
            spec.name,
            server.location,
            f"the publication `{name}` leaves out rows of it ({details['rowfilter']})",
            "use a publication without a row filter, and a WHERE in the query",
        )
    columns: Sequence[str] | None = details.get("attnames")
    missing = [] if columns is None else sorted({c.name for c in spec.physical} - set(columns))
    if missing:
        raise refusals.not_readable(
            spec.name,
            server.location,
            f"the publication `{name}` leaves out its column `{missing[0]}`",
            "leave the column out here, or add it to the publication's list",
        )


def check_server(spec: SourceSpec, location: str, wal_level: str, *, standby: bool) -> None:
    """Raise DiagnosticError (DAT020) for a server that has no logical replication."""
    if standby:
        raise refusals.not_readable(
            spec.name, location, "the server is a standby", "name the primary server in 'url'"
        )
    if wal_level != "logical":
        raise refusals.not_readable(
            spec.name,
            location,
            f"the server's wal_level is '{wal_level}'",
            "run ALTER SYSTEM SET wal_level = logical, and start the server again",
        )
