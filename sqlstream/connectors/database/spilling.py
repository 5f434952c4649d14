"""A DuckDB on the driver in which an epoch's rows are put together."""

from __future__ import annotations

from typing import Any

from sqlstream.connectors.database.changes import memory_bytes
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.duck.session import DUCKDB_ERRORS, DuckSession

#: What it may use at most, bytes; beyond it, it spills to disk.
_MOST_MEMORY = 1 << 30


class SpillingDuck:
    """It is started by whoever asks for it first, and started anew after it was closed."""

    def __init__(self) -> None:
        self._session: DuckSession | None = None
        self._spill: RunFolder | None = None

    @property
    def is_open(self) -> bool:
        """Whether it was started."""
        return self._session is not None

    @property
    def session(self) -> DuckSession:
        """The DuckDB."""
        if self._session is None:
            self._spill = RunFolder("spill-")
            self._session = DuckSession(
                memory_limit=min(_MOST_MEMORY, memory_bytes()), temp_directory=str(self._spill.path)
            )
        return self._session

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query. Raises what `DuckSession.error` makes of what DuckDB raises."""
        session = self.session
        try:
            return list(session.connection.execute(sql).fetchall())
        except DUCKDB_ERRORS as error:
            raise session.error(error, sql) from error

    def close(self) -> None:
        """Let go of it, and remove what it has spilled."""
        if self._session is not None:
            self._session.close()
        if self._spill is not None:
            self._spill.close()
        self._session = self._spill = None
