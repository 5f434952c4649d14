"""What is said of servers, tables, slots and logs that changes can't be read of, or not any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from sqlstream.connectors.api import ConnectorContext, Limits
from sqlstream.connectors.postgres_cdc.source import CdcSource
from sqlstream.connectors.postgres_cdc.wal_kept import WalKept
from sqlstream.planning import plan_file
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.connectors.postgres_cdc.reading import Reading, cdc_spec, slot_of
from tests.connectors.postgres_server import Database, run_server

TABLE = "CREATE TABLE t (k bigint PRIMARY KEY, v text)"


def begun(cdc: Database, tmp_path: Path, duck: DuckSession, spec: SourceSpec | None = None) -> Reading:
    return Reading(spec or cdc_spec(cdc, key=("k",)), tmp_path, duck)


@pytest.mark.parametrize(
    ("sql", "code", "message"),
    [
        ("SELECT 1", "DAT004", "there is no table t in"),
        ("CREATE TABLE t (k bigint PRIMARY KEY)", "DAT018", "other columns than are declared"),
        ("CREATE TABLE t (k bigint PRIMARY KEY, v integer)", "DAT018", "other columns than are declared"),
        ("CREATE TABLE t (k numeric PRIMARY KEY, v text)", "DAT018", "other columns than are declared"),
        ("CREATE TABLE t (k bigint PRIMARY KEY, v inet)", "DAT018", "other columns than are declared"),
        ("CREATE TABLE t (k bigint, v text)", "DAT020", "its replica identity is nothing"),
        (f"{TABLE}; ALTER TABLE t REPLICA IDENTITY NOTHING", "DAT020", "its replica identity is nothing"),
        ("CREATE TABLE t (k bigint, v text PRIMARY KEY)", "DAT020", "its replica identity is (v)"),
        ("CREATE VIEW t AS SELECT 1::bigint AS k, ''::text AS v", "DAT020", "it is a view"),
        (
            "CREATE TABLE t (k bigint PRIMARY KEY, v text) PARTITION BY RANGE (k)",
            "DAT020",
            "partitioned table",
        ),
        (
            "CREATE TABLE t (k bigint PRIMARY KEY, w text, v text GENERATED ALWAYS AS (w || '') STORED)",
            *("DAT020", "its column `v` is generated"),
        ),
        (
            f"{TABLE}; CREATE PUBLICATION {{slot}} FOR TABLE t WHERE (k > 1)",
            "DAT020",
            "leaves out rows of it",
        ),
        (f"{TABLE}; CREATE PUBLICATION {{slot}} FOR TABLE t (k)", "DAT020", "leaves out its column `v`"),
        (
            f"{TABLE}; CREATE PUBLICATION {{slot}} FOR TABLE t WITH (publish = 'insert')",
            *("DAT020", "leaves out some kinds of changes"),
        ),
    ],
)
@pytest.mark.parametrize("runs", [True, False])
def test_what_is_refused_before_anything_is_read(
    cdc: Database, tmp_path: Path, duck: DuckSession, sql: str, code: str, message: str, runs: bool
) -> None:
    """A run says it, and so does a look (`sqlstream plan`), which makes neither a slot nor a publication."""
    for one in sql.replace("{slot}", slot_of(cdc)).split("; "):
        cdc.rows(one)
    reading = begun(cdc, tmp_path, duck)
    reading.runs = runs
    found = reading.refused()
    assert (found.code, message in found.message) == (code, True), found
    assert found.help
    assert cdc.rows("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()") == []


def test_a_look_makes_nothing_and_gives_the_rows(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    cdc.rows(TABLE)
    cdc.rows("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    one = begun(cdc, tmp_path, duck)
    one.runs = False
    epoch = one.epoch(one.source.initial_position(), Limits(rows=1))
    assert (epoch.rows, epoch.exhausted) == ([(1, "a", "+I")], True)
    assert cdc.rows("SELECT 1 FROM pg_replication_slots WHERE database = current_database()") == []
    assert cdc.rows("SELECT 1 FROM pg_publication") == []
    assert not one.store.list()


def test_a_key_must_be_declared_or_the_identity_full(
    cdc: Database, tmp_path: Path, duck: DuckSession
) -> None:
    cdc.rows(TABLE)
    found = begun(cdc, tmp_path, duck, cdc_spec(cdc)).refused()
    assert (found.code, "no key is declared" in found.message) == ("DAT020", True)
    assert "PRIMARY KEY (k) NOT ENFORCED" in (found.help or "")


def test_a_publication_of_others(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    cdc.rows(TABLE)
    cdc.rows("CREATE TABLE other (k bigint PRIMARY KEY)")
    cdc.rows("CREATE PUBLICATION theirs FOR TABLE other")
    spec = cdc_spec(cdc, key=("k",), publication="theirs")
    found = begun(cdc, tmp_path, duck, spec).refused()
    assert (found.code, "does not have it" in found.message) == ("DAT020", True)
    assert cdc.rows("SELECT tablename FROM pg_publication_tables") == [("other",)]
    cdc.rows('ALTER PUBLICATION theirs ADD TABLE "t"')
    assert begun(cdc, tmp_path, duck, spec).all()[0] == []


def test_the_slot_of_another_state_directory(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    cdc.rows(TABLE)
    one = begun(cdc, tmp_path / "one", duck)
    _, at = one.all()
    other = begun(cdc, tmp_path / "other", duck)
    found = other.refused()
    assert (found.code, "another state directory has made the slot" in found.message) == ("DAT020", True)
    assert other.again().refused(at).code == "DAT020", "a copy of the state directory's position"
    cdc.rows("INSERT INTO t VALUES (1, 'a')")
    assert one.all(at)[0] == [(1, "a", "+I")]


@pytest.mark.parametrize("plugin", ["test_decoding", "pgoutput"])
def test_a_slot_that_was_there(cdc: Database, tmp_path: Path, duck: DuckSession, plugin: str) -> None:
    cdc.rows(TABLE)
    cdc.rows(f"SELECT pg_create_logical_replication_slot('{slot_of(cdc)}', '{plugin}')")
    found = begun(cdc, tmp_path, duck).refused()
    assert (found.code, slot_of(cdc) in found.message) == ("DAT020", True)


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("SELECT pg_drop_replication_slot('{slot}')", "is gone"),
        ("SELECT * FROM pg_logical_slot_get_binary_changes('{slot}', NULL, NULL, 'proto_version', '1', "
         "'publication_names', '{slot}')", "somebody else has read the slot"),
        ("SELECT pg_drop_replication_slot('{slot}'); SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')",
         "somebody else has read the slot"),
        ("ALTER PUBLICATION {slot} DROP TABLE t", "has not all changes of the table"),
        ("ALTER PUBLICATION {slot} SET (publish = 'insert')", "has not all changes of the table"),
        ("DROP TABLE t", "the table was dropped"),
        ("ALTER TABLE t RENAME TO u", "the table was dropped, or has another name"),
        (f"DROP TABLE t; {TABLE}", "the table was made anew"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("again", [True, False])
def test_what_is_gone(
    cdc: Database, tmp_path: Path, duck: DuckSession, sql: str, what: str, again: bool
) -> None:
    cdc.rows(TABLE)
    cdc.rows("INSERT INTO t VALUES (1, 'a')")
    one = begun(cdc, tmp_path, duck)
    _, at = one.all()
    cdc.rows("INSERT INTO t VALUES (2, 'b')")
    for each in sql.replace("{slot}", slot_of(cdc)).split("; "):
        cdc.rows(each)
    one = one.again() if again else one
    with pytest.raises(DiagnosticError) as raised:
        one.all(at)
    (found,) = raised.value.diagnostics
    assert (found.code, raised.value.exit_code) == ("DAT015", 4)
    assert what in found.notes[1], found.notes
    assert "new state directory" in (found.help or "")


def test_a_slot_that_was_made_anew_behind_a_plan(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    """The task sees that it has not what was planned: nothing is left out silently."""
    cdc.rows(TABLE)
    one = begun(cdc, tmp_path, duck)
    _, at = one.all()
    cdc.rows("INSERT INTO t VALUES (2, 'b')")
    plan = one.source.plan(at, Limits())
    assert one.source.can_replay(plan.splits)
    cdc.rows(f"SELECT pg_drop_replication_slot('{slot_of(cdc)}')")
    assert not one.source.can_replay(plan.splits)
    cdc.rows(f"SELECT pg_create_logical_replication_slot('{slot_of(cdc)}', 'pgoutput')")
    with pytest.raises(DiagnosticError, match="DAT015") as raised:
        one.read(plan.splits[0])
    assert "1 changes were planned, and the slot has 0 of them" in raised.value.diagnostics[0].notes[1]


def test_truncate(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    cdc.rows(TABLE)
    one = begun(cdc, tmp_path, duck)
    _, at = one.all()
    cdc.rows("TRUNCATE t")
    assert one.refused(at).code == "DAT019"


def test_schema_changes(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    """Columns that are not declared come and go; a declared one that becomes wider than declared, or goes, is refused."""
    cdc.rows("CREATE TABLE t (k int PRIMARY KEY, w int, v varchar(5))")
    one = begun(cdc, tmp_path, duck)
    _, at = one.all()
    cdc.rows("INSERT INTO t VALUES (1, 0, 'a')")
    with psycopg.connect(cdc.url) as connection:
        for sql in (
            "INSERT INTO t VALUES (2, 0, 'b')",
            "ALTER TABLE t ADD COLUMN x inet DEFAULT '::1'",
            "INSERT INTO t VALUES (3, 0, 'c')",
            "ALTER TABLE t DROP COLUMN w",
            "INSERT INTO t VALUES (4, 'd')",
            "ALTER TABLE t ALTER COLUMN k TYPE bigint, ALTER COLUMN v TYPE text",
            "INSERT INTO t VALUES (5000000000, 'eeeeeeee')",
        ):
            connection.execute(sql.encode())
    rows, at = one.again().all(at)
    assert [(k, v) for k, v, _ in rows] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (4, "d"),
        (5_000_000_000, "eeeeeeee"),
    ]
    cdc.rows("ALTER TABLE t RENAME COLUMN v TO z")
    cdc.rows("INSERT INTO t VALUES (6, 'f')")
    found = one.again().refused(at)
    assert (found.code, "there is no `v`" in found.notes[1]) == ("DAT018", True)
    cdc.rows("ALTER TABLE t RENAME COLUMN z TO v")
    found = one.again().refused(at)
    assert (found.code, "as the changes that come next have it" in found.notes[0]) == ("DAT018", True)


def test_a_type_that_only_the_log_has_is_named(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    cdc.rows("CREATE TABLE t (k int PRIMARY KEY, v text)")
    one = begun(cdc, tmp_path, duck)
    _, at = one.all()
    cdc.rows("ALTER TABLE t ALTER COLUMN v TYPE bigint USING 1")
    cdc.rows("INSERT INTO t VALUES (1, 1)")
    cdc.rows("ALTER TABLE t ALTER COLUMN v TYPE text USING NULL")
    found = one.again().refused(at)
    assert (found.code, found.notes[1]) == ("DAT018", "`v` is bigint there and VARCHAR here")


def test_a_replica_identity_that_changes(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    cdc.rows(TABLE)
    cdc.rows("ALTER TABLE t REPLICA IDENTITY FULL")
    one = begun(cdc, tmp_path, duck, cdc_spec(cdc))
    _, at = one.all()
    cdc.rows("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    cdc.rows("INSERT INTO t VALUES (6, 'f')")
    assert one.refused(at).code == "DAT020"


def test_values_that_the_log_leaves_out(cdc: Database, tmp_path: Path, duck: DuckSession) -> None:
    cdc.rows("CREATE TABLE t (k bigint PRIMARY KEY, w int, v text)")
    cdc.rows("INSERT INTO t SELECT 1, 0, string_agg(md5(i::text), '') FROM generate_series(1, 500) i")
    one = begun(cdc, tmp_path, duck)
    _, at = one.all()
    assert [(d.code, d.severity) for d in one.told] == [("DAT020", "warning")]
    cdc.rows("UPDATE t SET w = 1")
    with pytest.raises(DataError, match="does not say what `v` is"):
        one.all(at)
    spec = cdc_spec(cdc, schema={"k": "BIGINT", "w": "INTEGER"}, key=("k",))
    assert one.again(spec=spec).all(at)[0] == [(1, 1, "+U")]


def test_the_log_is_let_go(
    cdc: Database, tmp_path: Path, duck: DuckSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is confirmed is what a manifest has, or what has nothing of the table; another run goes on behind that."""
    monkeypatch.setattr("sqlstream.connectors.postgres_cdc.source._IDLE_BYTES", 1000)
    confirmed = (
        f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{slot_of(cdc)}'"
    )
    cdc.rows(TABLE)
    cdc.rows("CREATE TABLE other (k bigint)")
    one = begun(cdc, tmp_path, duck)
    _, at = one.all()
    cdc.rows("INSERT INTO t VALUES (1, 'a')")
    plan = one.source.plan(at, Limits())
    before = cdc.rows(confirmed)
    one.read(plan.splits[0])
    assert cdc.rows(confirmed) == before
    one.source.committed(plan.next_position)
    at = plan.next_position
    after = cdc.rows(confirmed)
    assert after != before
    cdc.rows("INSERT INTO other SELECT generate_series(1, 1000)")
    one.source.plan(at, Limits())
    assert cdc.rows(confirmed) != after
    cdc.rows("INSERT INTO t VALUES (2, 'b')")
    assert one.again().all(at)[0] == [(2, "b", "+I")]


@pytest.fixture
def owner(cdc: Database) -> Iterator[str]:
    """The address of the database for a user who is no superuser, and may replicate."""
    cdc.rows("CREATE ROLE etl LOGIN REPLICATION PASSWORD 'secret'")
    cdc.rows(f"GRANT CREATE ON DATABASE {cdc.name} TO etl")
    cdc.rows("GRANT CREATE ON SCHEMA public TO etl")
    yield cdc.url.replace(cdc.url[len("postgresql://") : cdc.url.index("@")], "etl:secret")
    cdc.rows("DROP OWNED BY etl CASCADE")
    cdc.rows("DROP ROLE etl")


def test_a_user_who_owns_the_table_and_replicates(
    cdc: Database, tmp_path: Path, duck: DuckSession, owner: str
) -> None:
    cdc.rows(TABLE)
    cdc.rows("ALTER TABLE t OWNER TO etl")
    cdc.rows("INSERT INTO t VALUES (1, 'a')")
    spec = cdc_spec(cdc, key=("k",))
    one = begun(cdc, tmp_path, duck, replace(spec, options={**spec.options, "url": owner}))
    rows, at = one.all()
    cdc.rows("INSERT INTO t VALUES (2, 'b')")
    more, _ = one.again().all(at)
    assert rows + more == [(1, "a", "+I"), (2, "b", "+I")]
    one.close()


def test_row_level_security(cdc: Database, tmp_path: Path, duck: DuckSession, owner: str) -> None:
    """What a policy hides is in the log."""
    cdc.rows(TABLE)
    cdc.rows("GRANT SELECT ON t TO etl")
    cdc.rows("ALTER TABLE t ENABLE ROW LEVEL SECURITY")
    cdc.rows("CREATE POLICY few ON t USING (k > 1)")
    spec = cdc_spec(cdc, key=("k",))
    found = begun(cdc, tmp_path, duck, replace(spec, options={**spec.options, "url": owner})).refused()
    assert (found.code, "row-level security" in found.message) == ("DAT020", True)


def test_a_column_that_is_declared_while_the_copy_is_read(
    cdc: Database, tmp_path: Path, duck: DuckSession
) -> None:
    cdc.rows("CREATE TABLE t (k bigint PRIMARY KEY, w int, v text)")
    cdc.rows("INSERT INTO t VALUES (1, 2, 'a'), (2, 3, 'b')")
    one = begun(cdc, tmp_path, duck)
    at = one.epoch(one.source.initial_position(), Limits(rows=1)).after
    spec = cdc_spec(cdc, schema={"k": "BIGINT", "w": "INTEGER", "v": "VARCHAR"}, key=("k",))
    with pytest.raises(DataError, match="the copy of the table has no column `w`"):
        one.again(spec=spec).all(at)


def test_what_the_server_keeps_is_said() -> None:
    told: list[Diagnostic] = []
    kept = WalKept("t", told.append)
    for size in (1 << 20, 1 << 30, (1 << 30) + 5, 5 << 30):
        kept.look(size, "reserved")
    kept.look(1, "unreserved")
    kept.look(1, "unreserved")
    assert [d.message.split(" keeps ")[1][:7] for d in told] == ["1.0 GiB", "5.0 GiB", "0.0 GiB"]
    assert "unreserved" in told[-1].notes[1]


def test_a_server_without_logical_replication(tmp_path: Path) -> None:
    servers = run_server("replica")
    server = next(servers)
    try:
        database = Database(server, "postgres")
        database.rows(TABLE)
        context = ConnectorContext(CheckpointStore(tmp_path, sync=False), str(tmp_path), runs=True)
        source = CdcSource(cdc_spec(database, key=("k",)), context)
        with pytest.raises(DiagnosticError, match="wal_level is 'replica'"):
            source.plan(source.initial_position(), Limits())
    finally:
        next(servers, None)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("'slot.name' = 'Not A Slot'", "OPT003"),
        ("'slot.name' = 's', 'decoding.plugin.name' = 'wal2json'", "OPT003"),
        ("'slot.name' = 's', 'table-name' = 'a.b', 'schema-name' = 'c'", "OPT003"),
        ("'table-name' = 't'", "OPT004"),
    ],
)
def test_options_that_are_refused(options: str, code: str) -> None:
    with pytest.raises(DiagnosticError) as raised:
        plan_file(
            "CREATE TABLE t (k BIGINT) WITH ('connector' = 'postgres-cdc', 'url' = 'postgresql://h/d', "
            f"{options});\nSELECT COUNT(*) FROM t;",
            file="p.sql",
        )
    assert [d.code for d in raised.value.diagnostics] == [code]
