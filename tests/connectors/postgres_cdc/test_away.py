"""Servers that go away, hang, cut connections and refuse while changes are read: bounded attempts, then what to do; and when
they are back each change was read once.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

from sqlstream.connectors.api import Limits
from sqlstream.connectors.database import postgres_copies, postgres_silence
from sqlstream.connectors.postgres_cdc import reader, server, slot_share
from sqlstream.connectors.postgres_cdc.positions import in_hex
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.loop.restarts import NEVER, Restart, RestartStrategy
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream_operators.duck.session import DuckSession
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_cdc.reading import SLOTS, Reading, cdc_spec, slot_of
from tests.connectors.postgres_proxy import Proxy, proxy_to
from tests.connectors.postgres_server import PASSWORD, USER, Database, Stoppable, run_server
from tests.examples import examples
from tests.properties.in_process import run_here

SQL = """
CREATE TABLE t (k BIGINT, g INT, v BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'postgres-cdc', 'url' = '{url}', 'slot.name' = '{slot}');
CREATE TABLE u (k BIGINT, g INT, v BIGINT)
WITH ('connector' = 'postgres-cdc', 'url' = '{url}', 'slot.name' = '{slot}');
CREATE TABLE sums (g INT, n BIGINT, s BIGINT, PRIMARY KEY (g) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
INSERT INTO sums SELECT g, COUNT(*), CAST(SUM(v) AS BIGINT) FROM
(SELECT g, v FROM t UNION ALL SELECT g, v FROM u) AS both_tables GROUP BY g;
"""
EXPECTED = "SELECT g, count(*), sum(v)::bigint FROM (SELECT g, v FROM t UNION ALL SELECT g, v FROM u) b GROUP BY g"
SOON = RestartStrategy(20, 0.01, 0.01)
ROWS = 400


@pytest.fixture(scope="module")
def stoppable() -> Iterator[Stoppable]:
    yield from run_server()


_numbers = iter(range(1 << 30))


@pytest.fixture
def cdc(stoppable: Stoppable) -> Iterator[Database]:
    """A database of the server that is stopped, with two tables of rows that cancel out nowhere."""
    name = f"away_{next(_numbers)}"
    Database(stoppable, "postgres").rows(f"CREATE DATABASE {name}")
    found = Database(stoppable, name)
    for table, of in (("t", "PRIMARY KEY"), ("u", "")):
        found.rows(f"CREATE TABLE {table} (k bigint {of}, g int, v bigint)")
        found.rows(f"INSERT INTO {table} SELECT i, i % 7, i FROM generate_series(1, {ROWS}) i")
    found.rows("ALTER TABLE u REPLICA IDENTITY FULL")
    yield found
    found.rows(SLOTS)
    Database(stoppable, "postgres").rows(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def proxy(stoppable: Stoppable) -> Iterator[Proxy]:
    with proxy_to(stoppable.port) as found:
        yield found


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost connection is made anew at once, and small tables are copied over several connections."""
    monkeypatch.setattr(server, "_PAUSE_S", 0.0)
    monkeypatch.setattr(postgres_copies, "_PAGES", 1)


def change(cdc: Database, number: int) -> None:
    with psycopg.connect(cdc.url) as connection:
        for table in "tu":
            connection.execute(f"UPDATE {table} SET v = v + {number} WHERE k % 3 = {number % 3}".encode())
            connection.execute(f"DELETE FROM {table} WHERE k % 41 = {number}".encode())
            connection.execute(
                f"INSERT INTO {table} SELECT i, i % 5, i FROM generate_series({1000 * number}, {1000 * number + 50}) i".encode()
            )


def run(folder: Path, cdc: Database, port: int | None = None, **options: Any) -> RunResult:
    url = cdc.url if port is None else cdc.url.replace(f":{cdc.server.port}/", f":{port}/")
    file = folder / "p.sql"
    file.write_text(SQL.replace("{url}", f"{url}?connect_timeout=2").replace("{slot}", slot_of(cdc)))
    return run_here(plan_file(file), folder, **{"rows_per_epoch": 300, "ends": True, **options})


def sums(folder: Path) -> Counter[Any]:
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as con:
        return Counter(con.execute("SELECT * FROM sums").fetchall())


def is_right(folder: Path, cdc: Database) -> bool:
    return sums(folder) == Counter(cdc.rows(EXPECTED))


def codes(restarts: list[Restart]) -> set[str]:
    return {d.code for restart in restarts for d in restart.diagnostics}


# -------------------------------------------------------------------------------------------- cut anywhere


@pytest.mark.parametrize("begins", [True, False], ids=["copy", "log"])
def test_a_connection_that_is_cut_anywhere(tmp_path: Path, cdc: Database, proxy: Proxy, begins: bool) -> None:
    """After so many bytes everything is cut, and nothing is answered until the second restart; then the rows are right."""
    rng = random.Random(27)
    whole = 0  # how many bytes a run takes is measured by one that is not cut
    for number in range(examples(12)):
        folder = tmp_path / str(number)
        folder.mkdir()
        if not begins:
            run(folder, cdc, proxy.port)
            change(cdc, number + 1)
        before, restarts = proxy.passed, list[Restart]()

        def again(restart: Restart, restarts: list[Restart] = restarts) -> None:
            restarts.append(restart)
            if len(restarts) == 2:
                proxy.heal()

        if whole:
            proxy.cut_after = rng.randrange(whole)
        try:
            run(folder, cdc, proxy.port, restart=SOON, on_restart=again)
        finally:
            proxy.heal()
        whole = whole or proxy.passed - before
        assert codes(restarts) <= {"ENV006"}
        assert PASSWORD not in str(restarts)
        while run(folder, cdc, proxy.port).outcome != "nothing new":
            pass
        assert is_right(folder, cdc), (number, restarts)
        cdc.rows(SLOTS)
    assert whole > 5_000


@pytest.mark.parametrize("begins", [True, False], ids=["copy", "log"])
def test_a_run_that_is_not_to_wait_ends_and_the_next_one_goes_on(
    tmp_path: Path, cdc: Database, proxy: Proxy, begins: bool
) -> None:
    if not begins:
        run(tmp_path, cdc, proxy.port)
        change(cdc, 1)
    for number in range(1, 5):
        proxy.cut_after = 3_000 * number
        with pytest.raises(DiagnosticError) as raised:
            run(tmp_path, cdc, proxy.port, restart=NEVER)
        (found,) = raised.value.diagnostics
        assert (found.code, raised.value.exit_code) == ("ENV006", 5)
        assert "run again" in (found.help or "")
        proxy.heal()
    while run(tmp_path, cdc, proxy.port).outcome != "nothing new":
        pass
    assert is_right(tmp_path, cdc)
