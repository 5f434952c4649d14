"""A PostgreSQL server that goes away, hangs or refuses while a table of it is copied or looked up."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.connectors.database import copies, postgres_connection, postgres_copies, postgres_silence
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.restarts import RestartStrategy
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_proxy import Proxy, proxy_to
from tests.connectors.postgres_server import PASSWORD, Database, Server
from tests.examples import examples
from tests.properties.in_process import run_here

SQL = """
CREATE TABLE t (k BIGINT, v STRING) WITH ('connector' = 'postgres', 'url' = '{url}?connect_timeout=2');
CREATE TABLE counts (v STRING, n BIGINT, s BIGINT, PRIMARY KEY (v) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
INSERT INTO counts SELECT v, COUNT(*), CAST(SUM(k) AS BIGINT) FROM t GROUP BY v;
"""


@pytest.fixture
def proxy(postgres_server: Server) -> Iterator[Proxy]:
    with proxy_to(postgres_server.port) as found:
        yield found


@pytest.fixture
def table(database: Database, monkeypatch: pytest.MonkeyPatch) -> Counter[Any]:
    """The table, which is copied over several connections, and what is expected of it."""
    monkeypatch.setattr(postgres_copies, "_PAGES", 1)
    monkeypatch.setattr(postgres_connection, "PAUSE_S", 0.0)
    database.rows("CREATE TABLE t (k bigint, v text)")
    database.rows("INSERT INTO t SELECT i, 'v' || i % 3 FROM generate_series(1, 2000) i")
    return Counter(database.rows("SELECT v, count(*), sum(k)::bigint FROM t GROUP BY v"))


def run(folder: Path, database: Database, proxy: Proxy, **options: Any) -> Any:
    url = database.url.replace(f":{database.server.port}/", f":{proxy.port}/")
    (folder / "p.sql").write_text(SQL.replace("{url}", url))
    return run_here(plan_file(folder / "p.sql"), folder, rows_per_epoch=700, **options)


def counts(folder: Path) -> Counter[Any]:
    with duckdb.connect(str(folder / "out.duckdb"), read_only=True) as con:
        return Counter(con.execute("SELECT * FROM counts").fetchall())


def test_cut_anywhere(tmp_path: Path, database: Database, proxy: Proxy, table: Counter[Any]) -> None:
    """A run ends, with what to do, and the next one reads the table once; no part of a broken copy stays."""
    rng, whole, ended = random.Random(27), 0, 0
    for number in range(examples(8)):
        folder = tmp_path / str(number)
        folder.mkdir()
        before = proxy.passed
        proxy.cut_after = rng.randrange(whole) if whole else None
        raised: DiagnosticError | None = None
        try:
            run(folder, database, proxy)
        except DiagnosticError as error:
            raised = error
            ended += 1
        if raised is not None:
            (found,) = raised.diagnostics
            assert (found.code, raised.exit_code) == ("ENV006", 5)
            assert "run again" in (found.help or "")
            assert PASSWORD not in str(found)
        proxy.heal()
        whole = whole or proxy.passed - before
        run(folder, database, proxy)
        assert counts(folder) == table
        assert not list((folder / "state" / "copies").rglob("*.*"))
    assert ended


def test_a_connection_that_is_lost_once(
    tmp_path: Path, database: Database, proxy: Proxy, table: Counter[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is copied anew, of another snapshot, without a word."""
    make, lost = copies.content_of, list[bool]()

    def content(rows: Any) -> bytes:
        if not lost:
            lost.append(True)
            proxy.cut()
            proxy.heal()
        return make(rows)

    monkeypatch.setattr(postgres_copies, "content_of", content)
    run(tmp_path, database, proxy)
    assert (lost, counts(tmp_path)) == ([True], table)


def test_a_server_that_falls_silent(
    tmp_path: Path, database: Database, proxy: Proxy, table: Counter[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_silence, "SILENCE_S", 0.2)
    make = postgres_copies.make_copy

    def hushed(*given: Any) -> Any:
        proxy.hush(True)
        return make(*given)

    monkeypatch.setattr("sqlstream.connectors.postgres.source.make_copy", hushed)
    restarts: list[Any] = []

    def again(restart: Any) -> None:
        restarts.append(restart)
        monkeypatch.undo()
        proxy.hush(False)

    run(tmp_path, database, proxy, restart=RestartStrategy(3, 0.01, 0.01), on_restart=again)
    assert len(restarts) == 1
    assert counts(tmp_path) == table
