"""The connection of a `postgres` table: its options, its errors, and COPY."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sqlstream.connectors.database.postgres_binary import HEADER, TRAILER
from sqlstream.connectors.database.postgres_refusals import help_of_refusal, help_of_state
from sqlstream.connectors.database.postgres_url import wrong_url
from sqlstream.connectors.exactly_once.target import LostConnectionError, unusable
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.types import quote_identifier
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError

if TYPE_CHECKING:
    import psycopg

_T = TypeVar("_T")
#: How often what was lost with its connection is tried before it is an error, and how long is waited between, s.
ATTEMPTS, PAUSE_S = 3, 0.5
#: Older servers can't hash records, which finding copies of a row needs.
OLDEST = 140000
#: What a role is given for the queries of people would end an epoch, or a copy, that is large; pg_dump does the same.
_UNLIMITED = "SET statement_timeout = 0"
_SETTINGS = (
    "SET TimeZone = 'UTC'",
    "SET DateStyle = 'ISO, YMD'",
    "SET IntervalStyle = 'postgres'",
    "SET standard_conforming_strings = on",
    "SET lock_timeout = '30s'",
    "SELECT set_config(name, '0', false) FROM pg_settings "  # not every server knows both
    "WHERE name IN ('transaction_timeout', 'idle_in_transaction_session_timeout')",
    # A commit that the server may forget would not be repeated.
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
)


class PostgresConnection:
    """One connection, opened when it is first needed and again after it was lost.

    Methods raise what `Target` says. No message has the password in it.
    """

    def __init__(self, options: Mapping[str, str], table: str, *, done: str = "written") -> None:
        self._done = done
        self._parameters = parameters(options)
        self._open: psycopg.Connection[tuple[Any, ...]] | None = None
        where = self._parameters
        host = where.get("host") or where.get("hostaddr") or "localhost"
        port = f":{where['port']}" if where.get("port") else ""
        self.location = f"table {table} in postgresql://{host}{port}/{where.get('dbname') or ''}"

    def connect(self) -> None:
        """Open the connection if it is not open."""
        if self._open is not None and not self._open.closed:
            return
        driver = _psycopg()
        from sqlstream.connectors.database.postgres_silence import watched_connection

        try:
            self._open = watched_connection(self._parameters)
        except driver.errors.ConnectionTimeout as error:
            # A server that does not answer for ten seconds is not connected to again at once: that would be a minute of
            # silence.
            raise unusable(self.location, self._safe(error), done=self._done) from None
        except driver.Error as error:
            text = self._safe(error)
            help_ = help_of_refusal(text)
            if help_ is not None:  # the next attempt would be refused as well, and may lock the user out
                raise unusable(self.location, text, help_, done=self._done) from None
            raise LostConnectionError(text) from None
        self.run(_UNLIMITED)
        self.run("; ".join(_SETTINGS))
        if self._open.info.server_version < OLDEST:
            raise unusable(self.location, "PostgreSQL 14 or newer is needed", done=self._done)

    def run(self, sql: str, parameters: Sequence[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows, if it has any."""
        return self._execute(sql, parameters)[0]

    def changed(self, sql: str) -> int:
        """Run a statement and return how many rows it touched."""
        return self._execute(sql, None)[1]

    def status(self, sql: str) -> str:
        """Run a statement and return what the server says it did."""
        return self._execute(sql, None)[2]

    def stream(self, sql: str, rows: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query, so many at a time; in a transaction of its own."""
        driver = _psycopg()
        try:
            with self._live().transaction(), self._live().cursor(name="sqlstream_rows") as cursor:
                cursor.itersize = rows
                cursor.execute(sql.encode())
                while found := cursor.fetchmany(rows):
                    yield found
        except driver.Error as error:
            raise self._error(error, sql) from None

    def copied(self, query: str) -> Iterator[bytes]:
        """The result of a query in the binary format of COPY, as the server sends it: a row at a time."""
        driver = _psycopg()
        sql = f"COPY ({query}) TO STDOUT (FORMAT binary)"
        try:
            with self._live().cursor() as cursor, cursor.copy(sql.encode()) as copy:
                for block in copy:
                    yield bytes(block)
        except driver.Error as error:
            raise self._error(error, sql) from None

    def copy(self, table: str, names: Sequence[str], blocks: Iterable[bytes | memoryview]) -> None:
        """Append rows to a table by COPY; each block has whole rows in the binary format and is sent on its own."""
        driver = _psycopg()
        listed = ", ".join(quote_identifier(name) for name in names)
        try:
            with (
                self._live().cursor() as cursor,
                cursor.copy(f"COPY {table} ({listed}) FROM STDIN (FORMAT binary)".encode()) as copy,
            ):
                copy.write(HEADER)
                for block in blocks:
                    copy.write(block)
                copy.write(TRAILER)
        except driver.Error as error:
            raise self._error(error, f"COPY {table}") from None

    def close(self) -> None:
        """Close the connection; never raises."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def roll_back(self) -> None:
        """Roll back the transaction if there is one; never raises."""
        if self._open is None:
            return
        driver = _psycopg()
        try:
            if self._open.info.transaction_status != driver.pq.TransactionStatus.IDLE:
                self._open.execute("ROLLBACK")
        except driver.Error:
            self.close()

    def _execute(self, sql: str, parameters: Sequence[Any] | None) -> tuple[list[tuple[Any, ...]], int, str]:
        driver = _psycopg()
        try:
            # With an empty list the client would take % in a name for a parameter.
            cursor = self._live().execute(sql.encode(), parameters or None)
            rows = cursor.fetchall() if cursor.description is not None else []
        except driver.Error as error:
            raise self._error(error, sql) from None
        return rows, cursor.rowcount, cursor.statusmessage or ""

    def _live(self) -> psycopg.Connection[tuple[Any, ...]]:
        if self._open is None or self._open.closed:
            raise LostConnectionError("the connection was closed")
        return self._open

    def _error(self, error: psycopg.Error, sql: str) -> Exception:
        """What to raise: lost connections can be tried again, values and constraints are the data's fault."""
        if self._open is None or self._open.closed or self._open.broken:
            return LostConnectionError(self._safe(error))
        state = error.sqlstate or ""
        if state.startswith(("21", "22", "23")):
            cannot = "can't be read" if self._done == "read" else "can't take a row"
            return DataError(f"{self.location} {cannot}: {self._safe(error)}", sql)
        if state.startswith("55P03"):
            what = f"someone else holds a lock on it ({self._safe(error)})"
            return unusable(self.location, what, done=self._done)
        return unusable(self.location, self._safe(error), help_of_state(state), done=self._done)

    def _safe(self, error: Exception) -> str:
        text = "; ".join(" ".join(line.split()) for line in str(error).splitlines() if line.strip(" \t^"))
        password = self._parameters.get("password")
        return text.replace(password, "***") if password else text


def retried(what: Callable[[], _T], location: str) -> _T:
    """Do what may be done again, some times if the connection is lost.

    Raises DiagnosticError (ENV006) if it is lost each time, and what `what` does.
    """
    for attempt in range(ATTEMPTS):
        try:
            return what()
        except LostConnectionError as error:
            if attempt == ATTEMPTS - 1:
                raise unusable(location, str(error), done="read") from None
            time.sleep(PAUSE_S)
    raise AssertionError("not reached")


def parameters(options: Mapping[str, str]) -> dict[str, str]:
    """What to connect with: `url` as libpq or JDBC writes it, and `username` and `password` over it.

    Raises DiagnosticError (OPT003); the message has no password in it.
    """
    driver = _psycopg()
    url = options.get("url", "").strip().removeprefix("jdbc:")
    wrong = wrong_url(url)
    if wrong is not None:
        raise DiagnosticError(
            Diagnostic("OPT003", f"option 'url' is no address of a PostgreSQL database; expected {wrong}")
        )
    try:
        given = {k: str(v) for k, v in driver.conninfo.conninfo_to_dict(url).items() if v is not None}
    except driver.Error:
        raise DiagnosticError(
            Diagnostic(
                "OPT003",
                "option 'url' can't be read as an address of a PostgreSQL database",
                notes=("the names after ? are libpq's, and special characters are written as %40",),
                help="write 'postgresql://host:port/database?name=value'",
            )
        ) from None
    for option, name in (("username", "user"), ("password", "password")):
        if option in options:
            given[name] = options[option]
    given.setdefault("connect_timeout", "10")
    given.setdefault("application_name", "sqlstream")
    given["client_encoding"] = "UTF8"
    return given


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise DiagnosticError(
            Diagnostic(
                "ENV006",
                "the connector 'postgres' needs the Python package psycopg",
                help="pip install 'sqlstream-spark[postgres]'",
            )
        ) from None
    return psycopg
