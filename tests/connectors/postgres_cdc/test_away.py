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
from sqlstream.connectors.database import postgres_connection, postgres_copies, postgres_silence
from sqlstream.connectors.postgres_cdc import reader, server, slot_share
from sqlstream.connectors.postgres_cdc.options import CdcOptions
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
EXPECTED = (
    "SELECT g, count(*), sum(v)::bigint FROM (SELECT g, v FROM t UNION ALL SELECT g, v FROM u) b GROUP BY g"
)
SOON = RestartStrategy(20, 0.01, 0.01)
ROWS = 400


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again as often as ever is tried again at once."""
    monkeypatch.setattr(postgres_connection, "PAUSE_S", 0.01)


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
    found.leave()
    Database(stoppable, "postgres").rows(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def proxy(stoppable: Stoppable) -> Iterator[Proxy]:
    with proxy_to(stoppable.port) as found:
        yield found


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost connection is made anew at once, and small tables are copied over several connections."""
    monkeypatch.setattr(postgres_connection, "PAUSE_S", 0.0)
    monkeypatch.setattr(postgres_copies, "_PAGES", 1)


def change(cdc: Database, number: int) -> None:
    with psycopg.connect(cdc.url) as connection:
        for table in "tu":
            connection.execute(f"UPDATE {table} SET v = v + {number} WHERE k % 3 = {number % 3}".encode())
            connection.execute(f"DELETE FROM {table} WHERE k % 41 = {number}".encode())
            new = f"generate_series({1000 * number}, {1000 * number + 50}) i"
            connection.execute(f"INSERT INTO {table} SELECT i, i % 5, i FROM {new}".encode())


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
    for number in range(examples(5)):
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


# ------------------------------------------------------------------------------------ the server itself is away


def before(
    monkeypatch: pytest.MonkeyPatch, where: Any, name: str, what: Callable[[], None], skip: int = 0
) -> None:
    """Do something before a function is called for the first time, or after so many times."""
    function, called = getattr(where, name), list[bool]()

    def first(*args: Any, **kwargs: Any) -> Any:
        called.append(True)
        if len(called) == skip + 1:
            what()
        return function(*args, **kwargs)

    monkeypatch.setattr(where, name, first)


#: Where a server goes away: in the steps of a source (of which the first two are of the first run), then of an epoch.
STEPS: dict[str, tuple[Any, str]] = {
    "snapshot": (slot_share.SlotShare, "begin"),
    "copy": (postgres_copies, "content_of"),
    "count": (server.CdcServer, "ahead"),
    "read": (reader, "peek"),
    "confirm": (server.CdcServer, "advance"),
}


@pytest.mark.parametrize("step", [*STEPS, "planned", "run", "prepared", "published", "committed"])
@pytest.mark.sampled(4)
def test_a_watched_run_outlives_its_server(
    tmp_path: Path, stoppable: Stoppable, cdc: Database, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The server crashes; a run that watches waits for it without being asked, and then goes on by itself."""
    begins = step in ("snapshot", "copy")
    if not begins:
        run(tmp_path, cdc)
    change(cdc, 1)
    restarts: list[Restart] = []
    stop = StopFlag()
    went: list[int] = []

    def away(at: str, epoch: int) -> None:
        if at == step and not went:
            went.append(epoch)
            stoppable.stop()

    def again(restart: Restart) -> None:
        restarts.append(restart)
        if len(restarts) == 3:
            stoppable.start()
            change(cdc, 2)

    def until_all(report: Any) -> None:
        if len(restarts) == 3 and is_right(tmp_path, cdc):
            stop.request()

    if step in STEPS:
        # What the run before has read is confirmed once more when a run begins, before it is up.
        before(monkeypatch, *STEPS[step], stoppable.stop, skip=int(step == "confirm"))
    monkeypatch.setattr(
        "sqlstream.runtime.loop.restarts.WATCHING", RestartStrategy(None, 0.01, 0.01, once_up=True)
    )
    timer = threading.Timer(60, stop.request)
    timer.start()
    try:
        run(tmp_path, cdc, ends=False, drain=False, stop=stop, faults=away, on_restart=again,
            on_epoch=until_all, poll_s=0.01)  # fmt: skip
    finally:
        timer.cancel()
        if len(restarts) < 3:
            stoppable.start()
    assert [restart.attempt for restart in restarts] == [1, 2, 3]
    assert codes(restarts) == {"ENV006"}
    assert is_right(tmp_path, cdc)


def test_a_run_that_can_not_start_says_so(tmp_path: Path, stoppable: Stoppable, cdc: Database) -> None:
    """A run that watches and has never reached its server does not wait for it: the address may be wrong."""
    for begun in (False, True):
        if begun:
            run(tmp_path, cdc)
        stoppable.stop()
        restarts: list[Restart] = []
        try:
            with pytest.raises(DiagnosticError) as raised:
                run(tmp_path, cdc, ends=False, drain=False, on_restart=restarts.append)
        finally:
            stoppable.start()
        (found,) = raised.value.diagnostics
        assert (found.code, raised.value.exit_code, restarts) == ("ENV006", 5, [])
        assert "run again" in (found.help or "")


@pytest.mark.parametrize("step", ["copy", "count", "read"])
def test_a_server_that_falls_silent(
    tmp_path: Path, cdc: Database, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It answers nothing, and its connections stay open, as those of a machine that hangs; nobody waits for ever."""
    monkeypatch.setattr(postgres_silence, "SILENCE_S", 0.3)
    if step != "copy":
        run(tmp_path, cdc, proxy.port)
    change(cdc, 1)
    restarts: list[Restart] = []

    def again(restart: Restart) -> None:
        restarts.append(restart)
        proxy.hush(False)

    before(monkeypatch, *(STEPS["snapshot"] if step == "copy" else STEPS[step]), lambda: proxy.hush(True))
    run(tmp_path, cdc, proxy.port, restart=SOON, on_restart=again)
    assert codes(restarts) == {"ENV006"}
    assert is_right(tmp_path, cdc)


def test_a_server_that_takes_long_is_not_away(
    cdc: Database, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked whether it is there as long as a statement runs, and has its time."""
    monkeypatch.setattr(postgres_silence, "SILENCE_S", 0.05)
    given = cdc_spec(cdc).options
    there = server.CdcServer(given, CdcOptions.read(given, "t"))
    asked: list[int] = []
    before(monkeypatch, postgres_silence.WatchedConnection, "_knock", lambda: asked.append(1))
    assert there.run("SELECT 1 FROM pg_sleep(0.5)") == [(1,)]
    assert asked
    there.close()


# -------------------------------------------------------------------------------------------------- refusals


@pytest.fixture
def etl(cdc: Database) -> Iterator[str]:
    """The address of the database for a user who owns the tables, and may replicate."""
    cdc.rows("CREATE ROLE etl LOGIN REPLICATION PASSWORD 'secret'")
    cdc.rows(f"GRANT CREATE ON DATABASE {cdc.name} TO etl")
    cdc.rows("GRANT CREATE ON SCHEMA public TO etl")
    for table in "tu":
        cdc.rows(f"ALTER TABLE {table} OWNER TO etl")
    yield cdc.url.replace(f"{USER}:{PASSWORD}", "etl:secret")
    cdc.rows(SLOTS)
    cdc.rows("DROP OWNED BY etl CASCADE")
    cdc.rows("DROP ROLE etl")


def as_etl(cdc: Database, url: str, folder: Path, duck: DuckSession) -> Reading:
    spec = cdc_spec(cdc, schema={"k": "BIGINT", "v": "BIGINT"}, key=("k",))
    return Reading(type(spec)(**{**_fields(spec), "options": {**spec.options, "url": url}}), folder, duck)


def _fields(spec: Any) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__dataclass_fields__}


@pytest.mark.parametrize(
    ("sql", "undo", "message", "help_"),
    [
        ("ALTER ROLE etl NOREPLICATION", "ALTER ROLE etl REPLICATION", "replication", "REPLICATION"),
        ("ALTER ROLE etl PASSWORD 'other'", "ALTER ROLE etl PASSWORD 'secret'", "password auth", "'password'"),
        ("ALTER ROLE etl NOLOGIN", "ALTER ROLE etl LOGIN", "not permitted to log in", "LOGIN"),
        ("ALTER ROLE etl CONNECTION LIMIT 0", "ALTER ROLE etl CONNECTION LIMIT 9", "too many conn", "run again"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("begun", [False, True])
def test_what_is_refused(
    cdc: Database, etl: str, tmp_path: Path, duck: DuckSession, sql: str, undo: str, message: str, help_: str,
    begun: bool,
) -> None:  # fmt: skip
    """At the start, and in the middle; once the right is there again reading goes on."""
    one = as_etl(cdc, etl, tmp_path, duck)
    at = one.all()[1] if begun else one.source.initial_position()
    cdc.rows("INSERT INTO t VALUES (5000, 0, 1)")
    one = one.again()
    cdc.rows(sql)
    with pytest.raises(DiagnosticError) as raised:
        one.all(at)
    (found,) = raised.value.diagnostics
    assert (found.code, message in found.message.lower(), help_ in (found.help or "")) == (
        "ENV006",
        True,
        True,
    ), found
    assert "secret" not in str(found)
    cdc.rows(undo)
    rows, _ = one.again().all(at)
    assert ((5000, 1, "+I") in rows, len(rows)) == (True, 1 if begun else ROWS + 1)


def test_the_right_to_read_the_table(cdc: Database, etl: str, tmp_path: Path, duck: DuckSession) -> None:
    cdc.rows(f"ALTER TABLE t OWNER TO {USER}")
    cdc.rows(f"CREATE PUBLICATION {slot_of(cdc)} FOR TABLE t")
    found = as_etl(cdc, etl, tmp_path, duck).refused()
    assert (found.code, "permission denied for table t" in found.message) == ("ENV006", True), found
    assert "SELECT on the table" in (found.help or "")


def test_few_connections(cdc: Database, etl: str, tmp_path: Path, duck: DuckSession) -> None:
    """Three are enough: one looks, one keeps the snapshot, one copies all."""
    cdc.rows("ALTER ROLE etl CONNECTION LIMIT 3")
    one = as_etl(cdc, etl, tmp_path, duck)
    assert len(one.all()[0]) == ROWS
    cdc.rows("ALTER ROLE etl CONNECTION LIMIT 2")
    other = as_etl(cdc, etl, tmp_path / "other", duck)
    cdc.rows(SLOTS)
    found = other.refused()
    assert (found.code, "too many connections" in found.message) == ("ENV006", True), found


def test_limits_of_a_role(cdc: Database, etl: str, tmp_path: Path, duck: DuckSession) -> None:
    """Times that a role gives its statements and sessions end nothing that is read; files that it may not write do."""
    cdc.rows("ALTER ROLE etl SET statement_timeout = '5ms'")
    cdc.rows("ALTER ROLE etl SET idle_in_transaction_session_timeout = '1ms'")
    cdc.rows("ALTER ROLE etl SET idle_session_timeout = '50ms'")
    one = as_etl(cdc, etl, tmp_path, duck)
    rows, at = one.all()
    threading.Event().wait(0.2)
    cdc.rows("INSERT INTO t VALUES (5000, 0, 1)")
    more, at = one.all(at)
    assert (len(rows), more) == (ROWS, [(5000, 1, "+I")])
    cdc.rows("ALTER ROLE etl SET temp_file_limit = 0")
    cdc.rows("ALTER ROLE etl SET work_mem = '64kB'")
    cdc.rows("INSERT INTO t SELECT i, 0, i FROM generate_series(10000, 15000) i")
    found = one.again().refused(at)
    assert (found.code, "temporary file size exceeds temp_file_limit" in found.message) == ("ENV006", True)
    assert "temp_file_limit" in (found.help or "")
    cdc.rows("ALTER ROLE etl RESET temp_file_limit")
    assert len(one.again().all(at)[0]) == 5001


def test_all_slots_are_in_use(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    ((most, used),) = cdc.rows(
        "SELECT current_setting('max_replication_slots')::int, (SELECT count(*) FROM pg_replication_slots)::int"
    )
    for number in range(most - used):
        cdc.rows(f"SELECT pg_create_logical_replication_slot('other_{number}', 'pgoutput')")
    one = Reading(cdc_spec(cdc, schema={"k": "BIGINT", "v": "BIGINT"}, key=("k",)), tmp_path, duck)
    found = one.refused()
    assert (found.code, "all replication slots are in use" in found.message) == ("ENV006", True), found
    assert "max_replication_slots" in (found.help or "")
    cdc.rows("SELECT pg_drop_replication_slot('other_0')")
    assert len(one.again().all()[0]) == ROWS


def test_a_host_that_is_not_let_in(
    cdc: Database, stoppable: Stoppable, tmp_path: Path, duck: DuckSession
) -> None:
    ((file,),) = cdc.rows("SELECT current_setting('hba_file')")
    text = Path(file).read_text()
    Path(file).write_text(f"host {cdc.name} {USER} 127.0.0.1/32 reject\n{text}")
    postgres = Database(stoppable, "postgres")
    try:
        postgres.rows("SELECT pg_reload_conf()")
        threading.Event().wait(0.2)
        one = Reading(cdc_spec(cdc, schema={"k": "BIGINT", "v": "BIGINT"}, key=("k",)), tmp_path, duck)
        found = one.refused()
        assert (found.code, "pg_hba.conf rejects" in found.message) == ("ENV006", True), found
        assert "pg_hba.conf" in (found.help or "")
    finally:
        Path(file).write_text(text)
        postgres.rows("SELECT pg_reload_conf()")


# ---------------------------------------------------------------------------------------- the slot and its log


def test_a_log_that_is_more_than_the_server_keeps(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    one = Reading(cdc_spec(cdc, schema={"k": "BIGINT", "v": "BIGINT"}, key=("k",)), tmp_path, duck)
    _, at = one.all()
    cdc.rows("ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'")
    cdc.rows("SELECT pg_reload_conf()")
    try:
        for _ in range(4):
            cdc.rows("INSERT INTO t SELECT i, 0, 0 FROM generate_series(10000, 10010) i")
            cdc.rows("DELETE FROM t WHERE k >= 10000")
            cdc.rows("SELECT pg_switch_wal()")
        cdc.rows("CHECKPOINT")
        with pytest.raises(DiagnosticError, match="DAT015") as raised:
            one.again().all(at)
        assert raised.value.exit_code == 4
        assert "max_slot_wal_keep_size" in raised.value.diagnostics[0].notes[1]
        with pytest.raises(DiagnosticError, match="DAT015"):
            one.again(runs=False).all(at)
    finally:
        cdc.rows("ALTER SYSTEM RESET max_slot_wal_keep_size")
        cdc.rows("SELECT pg_reload_conf()")


def test_a_slot_that_a_lost_run_is_still_making(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    """The server goes on making it while a transaction is open, though who has asked for it is gone: it is waited for."""
    spec = cdc_spec(cdc, schema={"k": "BIGINT", "v": "BIGINT"}, key=("k",))
    one = Reading(spec, tmp_path, duck)
    slot_share.note_made_here(one.store, slot_of(cdc), one.source._server.status().system)
    cdc.rows(f"CREATE PUBLICATION {slot_of(cdc)} FOR TABLE t")
    with psycopg.connect(cdc.url) as open_one:
        open_one.execute("INSERT INTO t VALUES (7000, 0, 7)")
        make = f"SELECT pg_create_logical_replication_slot('{slot_of(cdc)}', 'pgoutput')"
        lost = threading.Thread(target=cdc.rows, args=(make,))
        lost.start()
        while not cdc.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot_of(cdc)}'"):
            pass
        read: list[Any] = []
        worker = threading.Thread(target=lambda: read.append(one.epoch(one.source.initial_position())))
        worker.start()
        worker.join(0.5)
        assert worker.is_alive()
        open_one.execute("INSERT INTO t VALUES (7001, 0, 7)")
        open_one.commit()
    worker.join()
    lost.join()
    (epoch,) = read
    cdc.rows("INSERT INTO t VALUES (7002, 0, 7)")
    rows = epoch.rows + one.all(epoch.after)[0]
    assert len(rows) == len(set(rows)) == ROWS + 3


def test_a_transaction_that_is_larger_than_what_is_read_at_once(
    cdc: Database, tmp_path: Path, duck: DuckSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read block by block, through a change of its table in its middle."""
    from sqlstream.connectors.database import postgres_blocks

    monkeypatch.setattr(postgres_blocks, "_ROWS", 3)
    one = Reading(cdc_spec(cdc, schema={"k": "BIGINT", "v": "BIGINT"}, key=("k",)), tmp_path, duck)
    rows, at = one.all()
    with psycopg.connect(cdc.url) as connection:
        for sql in (
            "INSERT INTO t SELECT i, 0, i FROM generate_series(1000, 1010) i",
            "INSERT INTO u SELECT i, 0, i FROM generate_series(1000, 1010) i",
            "ALTER TABLE t ADD COLUMN more text DEFAULT 'x'",
            "UPDATE t SET v = -v WHERE k > 1005",
            "UPDATE t SET k = k + 5000 WHERE k = 1000",
            "DELETE FROM t WHERE k BETWEEN 1 AND 20",
            "ALTER TABLE t DROP COLUMN g",
            "INSERT INTO t SELECT i, i FROM generate_series(2000, 2010) i",
        ):
            connection.execute(sql.encode())
        epoch = one.epoch(at, Limits(rows=5))
        assert not epoch.rows, "it is not committed"
    epoch = one.epoch(at, Limits(rows=5))
    there = {row[0]: row for row in rows}
    for k, v, kind in epoch.rows:
        if kind == "-D":
            del there[k]
        else:
            there[k] = (k, v, kind)
    assert {(k, v) for k, v, _ in there.values()} == set(cdc.rows("SELECT k, v FROM t"))
    assert len(epoch.rows) == 11 + 5 + 2 + 20 + 11
