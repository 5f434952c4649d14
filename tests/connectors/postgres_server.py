"""A PostgreSQL server of the tests' own: started once a session on a free port, a fresh database for each test."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

USER, PASSWORD = "sqlstream", "not-to-be-shown"


@dataclass(frozen=True, slots=True)
class Server:
    """Where the server listens."""

    port: int

    def url(self, database: str = "postgres", *, password: str | None = PASSWORD) -> str:
        secret = "" if password is None else f":{password}"
        return f"postgresql://{USER}{secret}@127.0.0.1:{self.port}/{database}"


@dataclass(frozen=True, slots=True)
class Database:
    """One database of the server, dropped after the test."""

    server: Server
    name: str
    #: A client's connection for each thread: it takes longer to make than a query does.
    _kept: dict[int, psycopg.Connection[tuple[Any, ...]]] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def url(self) -> str:
        return self.server.url(self.name)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What another client sees."""
        me = threading.get_ident()
        if me not in self._kept:
            self._kept[me] = psycopg.connect(self.url, autocommit=True, prepare_threshold=None)
        try:
            cursor = self._kept[me].execute(sql.encode())
        except psycopg.OperationalError:
            if not self._kept[me].closed:
                raise
            del self._kept[me]  # the server was away meanwhile
            return self.rows(sql)
        return cursor.fetchall() if cursor.description is not None else []

    def leave(self) -> None:
        """Close the connections."""
        while self._kept:
            self._kept.popitem()[1].close()


def _binary(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else shutil.which(name)


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom the server runs as, if this process is root: PostgreSQL refuses root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is no other user")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, slots=True)
class Stoppable(Server):
    """A server that is stopped and started while it is used."""

    control: Callable[..., None]

    def stop(self) -> None:
        """Stop it as a crash would: connections break off."""
        self.control("-m", "immediate", "-w", "stop")

    def start(self) -> None:
        """Start it again, with what was committed."""
        self.control("-w", "start")


def run_server(wal_level: str = "logical") -> Iterator[Stoppable]:
    """Start a server, give it, stop it; skips the test with the reason if there is none to start."""
    initdb, control = _binary("initdb"), _binary("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("there is no PostgreSQL server on this machine (initdb, pg_ctl)")
    user = _unprivileged()
    folder = Path(tempfile.mkdtemp(prefix="sqlstream-postgres-"))
    data, port = folder / "data", _free_port()
    secret = folder / "password"
    secret.write_text(PASSWORD)
    if user is not None:
        for path in (folder, secret):
            os.chown(path, user.pw_uid, user.pw_gid)

    def run(*command: str) -> None:
        # The server inherits what it is given: a pipe would never end.
        with (folder / "output").open("a+b") as output:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                user=None if user is None else user.pw_uid,
                group=None if user is None else user.pw_gid,
                extra_groups=None if user is None else (),
            )
            output.seek(0)
            assert done.returncode == 0, output.read().decode(errors="replace")

    try:
        run(
            *(initdb, "-D", str(data), "-U", USER, "--pwfile", str(secret), "-A", "scram-sha-256"),
            *("-E", "UTF8", "--locale", "C", "--no-sync"),
        )
        settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=50"
        settings += f" -c wal_level={wal_level} -c max_replication_slots=20"

        def controlled(*arguments: str) -> None:
            run(control, "-D", str(data), "-l", str(folder / "log"), "-o", settings, *arguments)

        server = Stoppable(port, controlled)
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(AssertionError):  # a test may have left it stopped
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    yield from run_server()


_numbers = itertools.count()


@pytest.fixture
def database(postgres_server: Server) -> Iterator[Database]:
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
        made = Database(postgres_server, name)
        yield made
        made.leave()
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
