"""DuckDB files that sinks write: attached to a DuckDB that stays, since to start one takes more than to write a small epoch.

To start and to close a DuckDB takes 15 to 40 ms of CPU, to attach a file to it and to detach it 2. A file is locked while it
is attached. Sinks of this process that write to one file share its DuckDB, and have a connection each. The DuckDB that was
given back last waits for the next file.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from pathlib import Path

import duckdb

from sqlstream.connectors.database.changes import memory_bytes
from sqlstream_operators.plan.types import quote_identifier, quote_literal

#: The database of a DuckDB in memory, whose name no file attached to it can have.
_IN_MEMORY = "memory"
#: The databases of a DuckDB to which no file is attached.
_ALWAYS = {_IN_MEMORY, "system", "temp"}


class _Shared:
    """The DuckDB for one file, by those that use it."""

    def __init__(self, path: Path, spare: _Spare) -> None:
        self.path = path
        self._spare = spare
        self._name = ""
        self._instance: duckdb.DuckDBPyConnection | None = None
        self._open = 0
        self.users = 0

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A connection whose database is the file, which is locked until `let_go` was called for each of them."""
        try:
            if self._instance is None:
                self._instance = self._spare.take(f"{self.path}.tmp")
            if not self._open:
                self._instance.execute(f"SET memory_limit = '{memory_bytes()}B'")
                self._name = self._attach(self._instance)
            connection = self._instance.cursor()
            connection.execute(f"USE {quote_identifier(self._name)}")
        except duckdb.Error:
            if not self._open:
                self.close()
            raise
        self._open += 1
        return connection

    def _attach(self, instance: duckdb.DuckDBPyConnection) -> str:
        """Attach the file under the name that DuckDB gives it when it is opened: what is in it may have that name."""
        taken = self.path.name.split(".")[0].lower() == _IN_MEMORY
        alias = f" AS {quote_identifier(f'{_IN_MEMORY}_db')}" if taken else ""
        instance.execute(f"ATTACH {quote_literal(str(self.path))}{alias}")
        if self._name:
            return self._name  # a path gives the same name each time
        (name,) = _databases(instance) - _ALWAYS
        return name

    def let_go(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Close a connection; what it has not committed is rolled back. The last one lets go of the file, too."""
        # Closing also tidies the file up; what is committed is safe if that fails.
        with contextlib.suppress(duckdb.Error):
            connection.close()
        self._open -= 1
        if self._open or self._instance is None:
            return
        try:
            self._instance.execute(f"DETACH {quote_identifier(self._name)}")
        except duckdb.Error:  # a disk that is full makes a DuckDB unusable for good
            self.close()

    def close(self) -> None:
        """Let go of the file and of the memory."""
        if self._instance is not None:
            _closed(self._instance)
            self._instance = None

    def give_back(self) -> None:
        """Let go of the file; the DuckDB waits for another one."""
        if self._instance is not None and not self._open:
            self._spare.put(self._instance)
            self._instance = None
        self.close()


class _Spare:
    """A DuckDB to which nothing is attached, for the next file: at most one."""

    def __init__(self) -> None:
        self._instance: duckdb.DuckDBPyConnection | None = None

    def take(self, temp_directory: str) -> duckdb.DuckDBPyConnection:
        """The one that is there, or a new one; it spills to the folder."""
        instance, self._instance = self._instance, None
        spill = f"SET temp_directory = {quote_literal(temp_directory)}"
        if instance is not None:
            try:
                instance.execute(spill)
            except duckdb.Error:  # it has spilled, and can't do so elsewhere any more
                _closed(instance)
            else:
                return instance
        instance = duckdb.connect(":memory:")
        instance.execute(
            f"SET GLOBAL TimeZone = 'UTC'; SET GLOBAL python_enable_replacements = false; {spill}"
        )
        return instance

    def put(self, instance: duckdb.DuckDBPyConnection) -> None:
        """Keep it, or close it if there is another one."""
        if self._instance is None:
            self._instance = instance
        else:
            _closed(instance)


def _closed(instance: duckdb.DuckDBPyConnection) -> None:
    with contextlib.suppress(duckdb.Error):
        instance.close()


def _databases(instance: duckdb.DuckDBPyConnection) -> set[str]:
    return {
        str(name) for (name,) in instance.execute("SELECT database_name FROM duckdb_databases()").fetchall()
    }


class _Files:
    """The files of this process's sinks."""

    def __init__(self) -> None:
        self._shared: dict[Path, _Shared] = {}
        self._spare = _Spare()
        # Garbage may be collected, and a file given back, at any step of whoever has it.
        self._lock = threading.RLock()

    def take(self, path: Path) -> _Shared:
        with self._lock:
            shared = self._shared.get(path) or _Shared(path, self._spare)
            shared.users += 1
            self._shared[path] = shared
            return shared

    def give_back(self, shared: _Shared) -> None:
        with self._lock:
            shared.users -= 1
            if not shared.users:
                shared.give_back()
                if self._shared.get(shared.path) is shared:
                    del self._shared[shared.path]

    def connect(self, shared: _Shared) -> duckdb.DuckDBPyConnection:
        with self._lock:
            return shared.connect()

    def let_go(self, shared: _Shared, connection: duckdb.DuckDBPyConnection) -> None:
        with self._lock:
            shared.let_go(connection)


#: A lock is a process's, and so are the files that it has attached: DuckDB refuses to open one twice.
_FILES = _Files()


class DuckFile:
    """What one sink has of a DuckDB file: the file is locked while it is open, the memory is there until `close`.

    Raises duckdb.Error as DuckDB does where a file can't be opened.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()  # two ways to name a file are one file
        self._shared: _Shared | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._given_back: weakref.finalize[[_Shared], DuckFile] | None = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection | None:
        """The connection, while the file is open."""
        return self._connection

    def open(self) -> duckdb.DuckDBPyConnection:
        """Open the file, or make it."""
        self.release()
        if self._shared is None:
            self._shared = _FILES.take(self._path)
            self._given_back = weakref.finalize(self, _FILES.give_back, self._shared)
        self._connection = _FILES.connect(self._shared)
        return self._connection

    def release(self) -> None:
        """Let go of the file; a transaction that is open is rolled back."""
        if self._connection is not None and self._shared is not None:
            _FILES.let_go(self._shared, self._connection)
        self._connection = None

    def close(self) -> None:
        """The same, and let go of the memory that is kept for the next time."""
        self.release()
        self._shared = None
        if self._given_back is not None:
            self._given_back()
            self._given_back = None
