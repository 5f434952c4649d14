"""A table in a PostgreSQL database that lookup joins read."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.database.declared import table_in
from sqlstream.connectors.database.dimension import no_table, other_columns
from sqlstream.connectors.database.postgres_connection import PostgresConnection
from sqlstream.connectors.database.postgres_types import AS_TEXT, is_wider, postgres_type
from sqlstream.connectors.exactly_once.target import LostConnectionError, unusable
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import DimensionSpec
from sqlstream_operators.plan.types import Kind, SqlType, quote_identifier

_ROWS_PER_BATCH = 1 << 15
#: What text is, by the beginning of the type's name.
_TEXTS = ("text", "character varying", "character(", "name", "citext")
#: What psycopg has no value for that says all of it.
_UNREADABLE = (Kind.INTERVAL, Kind.STRUCT, Kind.MAP, Kind.TIMESTAMP_NS, *AS_TEXT)


class PostgresTableRows:
    """The rows of a table or view, each time by a connection of its own."""

    def __init__(self, spec: DimensionSpec) -> None:
        self._spec = spec
        self._schema, self._name = table_in(spec.source.options, spec.name)

    def version(self) -> None:
        """Nothing that costs less than reading the table shows whether it was changed."""

    def rows(self, duck: DuckSession) -> Iterator[pa.RecordBatch]:
        """All rows. Raises DiagnosticError: DAT009 if they are not as declared, ENV006 if the database can't be read."""
        connection = PostgresConnection(self._spec.source.options, self._name, done="read")
        schema = self._spec.schema
        try:
            connection.connect()
            sql = self._select(connection)
            for rows in connection.stream(sql, _ROWS_PER_BATCH):
                columns = zip(*rows, strict=True)
                arrays = [
                    pa.array(values, to_arrow(c.type)) for c, values in zip(schema, columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=[c.name for c in schema])
        except LostConnectionError as error:
            raise unusable(connection.location, str(error), done="read") from None
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise DataError(
                f"{connection.location} has a value that its column can't have: {error}"
            ) from error
        finally:
            connection.close()

    def _select(self, connection: PostgresConnection) -> str:
        """The SELECT of the copy's columns. Raises DiagnosticError (DAT009)."""
        text = quote_identifier(self._name)
        if self._schema is not None:
            text = f"{quote_identifier(self._schema)}.{text}"
        there = [
            (str(name), str(type_))
            for name, type_ in connection.run(
                "SELECT a.attname::text, pg_catalog.format_type(a.atttypid, a.atttypmod) FROM pg_catalog.pg_attribute a "
                "WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
                [text],
            )
        ]
        if not there:
            found = connection.run(
                "SELECT CASE WHEN table_schema = current_schema() THEN '' ELSE table_schema || '.' END || table_name "
                "FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema') "
                "ORDER BY 1 LIMIT 50"
            )
            raise no_table(self._spec.name, connection.location, [str(name) for (name,) in found])
        types = dict(there)
        wrong = [
            (c.name, str(c.type), types.get(c.name))
            for c in self._spec.schema
            if not _can_be(types.get(c.name), c.type)
        ]
        if wrong:
            raise other_columns(self._spec.name, connection.location, wrong, there)
        items = []
        for c in self._spec.schema:
            as_text = c.type.kind in (Kind.VARCHAR, Kind.JSON, Kind.UUID)
            items.append(f"{quote_identifier(c.name)}{'::text' if as_text else ''}")
        return f"SELECT {', '.join(items)} FROM {text}"


def _can_be(found: str | None, wanted: SqlType) -> bool:
    """Whether all values of a type of PostgreSQL's are values of the declared type, and can be read.

    >>> from sqlstream_operators.plan.types import parse_type
    >>> [_can_be(t, parse_type("DECIMAL(10, 2)")) for t in ("numeric(8,2)", "numeric(10,4)", "numeric", None)]
    [True, False, False, False]
    """
    inner = wanted.element if wanted.element is not None else wanted
    if found is None or inner.kind in _UNREADABLE or inner.element is not None:
        return False
    if wanted.kind is Kind.VARCHAR:
        return found.startswith(_TEXTS)
    if wanted.kind is Kind.JSON:
        return found in ("json", "jsonb")
    return found == postgres_type(wanted) or is_wider(found, postgres_type(wanted))


class PostgresDimension:
    """Makes dimensions of tables in PostgreSQL."""

    def dimension(self, spec: DimensionSpec, context: ConnectorContext) -> PostgresTableRows:
        """The driver's half."""
        return PostgresTableRows(spec)
