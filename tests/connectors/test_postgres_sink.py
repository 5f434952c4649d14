from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pytest

from sqlstream.connectors.api import ConnectorContext
from sqlstream.connectors.database.postgres_connection import parameters
from sqlstream.connectors.database.postgres_table import PostgresTable
from sqlstream.connectors.database.postgres_types import holds, postgres_type
from sqlstream.connectors.exactly_once.sink import ExactlyOnceSink
from sqlstream.connectors.exactly_once.staged import StagingWriter
from sqlstream_operators.codec.arrow_types import to_arrow
from sqlstream_operators.errors import DataError
from sqlstream_operators.plan.types import parse_type
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_server import PASSWORD, USER, Database
from tests.connectors.staged_parts import Row, come, go
from tests.connectors.table_sinks import Job, TableSinkContract, TableWorld
from tests.runtime.support import Crash, crash_at

#: A type, its PostgreSQL type, and values with what PostgreSQL gives back for them (None: the same).
VALUES: list[tuple[str, str, list[Any], list[Any] | None]] = [
    ("BOOLEAN", "boolean", [True, False], None),
    ("TINYINT", "smallint", [-128, 127], None),
    ("SMALLINT", "smallint", [-32768, 32767], None),
    ("INTEGER", "integer", [-(2**31), 2**31 - 1], None),
    ("BIGINT", "bigint", [-(2**63), 2**63 - 1], None),
    ("HUGEINT", "numeric(39,0)", [10**38 - 1, -(10**38) + 1], None),
    ("UTINYINT", "smallint", [255], None),
    ("USMALLINT", "integer", [65535], None),
    ("UINTEGER", "bigint", [2**32 - 1], None),
    ("UBIGINT", "numeric(20,0)", [2**64 - 1], None),
    ("FLOAT", "real", [1.5, float("inf")], None),
    ("DOUBLE", "double precision", [0.1, 1e300, -1e-300, float("-inf"), 5e-324], None),
    ("DECIMAL(10,2)", "numeric(10,2)", [Decimal("12345678.90"), Decimal("-0.01")], None),
    ("DECIMAL(38,10)", "numeric(38,10)", [Decimal("1234567890123456789012345678.0123456789")], None),
    ("VARCHAR", "text", ["", "ü\n"], None),
    ("BLOB", "bytea", [b"", b"\x00\xff\\"], None),
    ("DATE", "date", [date(1, 1, 1), date(9999, 12, 31)], None),
    ("TIME", "time without time zone", [time(0, 0), time(23, 59, 59, 999999)], None),
    (
        "TIMESTAMP",
        "timestamp without time zone",
        [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29)],
        None,
    ),
    ("TIMESTAMP WITH TIME ZONE", "timestamp with time zone", [datetime(2024, 7, 1, 12, tzinfo=UTC)], None),
    ("INTERVAL", "interval", [timedelta(days=3, hours=-1, microseconds=5), timedelta(days=-400)], None),
    (
        "UUID",
        "uuid",
        ["6ccd780c-baba-1026-9564-5b8c656024db"],
        [UUID("6ccd780c-baba-1026-9564-5b8c656024db")],
    ),
    ("JSON", "jsonb", ['{"a": [1, null, "ü\\n"]}', '"x"'], [{"a": [1, None, "ü\n"]}, "x"]),
    ("BIGINT[]", "bigint[]", [[], [1, None, 3]], None),
    ("VARCHAR[]", "text[]", [["", "a,b", None, '"{}\\', "NULL", "null", " "]], None),
    ("BLOB[]", "bytea[]", [[b"\x00\\", None]], None),
    ("DATE[]", "date[]", [[date(2024, 1, 1), None]], None),
    ("BOOLEAN[]", "boolean[]", [[True, None, False]], None),
    ("DECIMAL(5,1)[]", "numeric(5,1)[]", [[Decimal("1.5"), None]], None),
    ("INTEGER[][]", "jsonb", [[[1], [], None]], None),
    (
        'STRUCT("a" BIGINT, "b" STRUCT("c" VARCHAR[], "d" BLOB))',
        "jsonb",
        [{"a": 2**62, "b": {"c": ['"\\\t', None], "d": b"\x00"}}],
        [{"a": 2**62, "b": {"c": ['"\\\t', None], "d": "AA=="}}],
    ),
    ('STRUCT("a" BIGINT)[]', "jsonb", [[{"a": 1}, None]], None),
    ("MAP(VARCHAR, BIGINT)", "jsonb", [[("k", 1), ("l", None)]], [{"k": 1, "l": None}]),
]


@dataclass
class PostgresBackend:
    folder: Path
    database: Database
    connector: str = "postgres"

    @property
    def options(self) -> Mapping[str, str]:
        return {"url": self.database.url}

    def rows(self, sql: str) -> list[Row]:
        return self.database.rows(sql)


@pytest.fixture
def backend(tmp_path: Path, database: Database) -> PostgresBackend:
    return PostgresBackend(tmp_path, database)


class TestPostgres(TableSinkContract):
    pass


contract = TableSinkContract()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("type_", "there", "values", "back"), VALUES, ids=[v[0] for v in VALUES])
def test_values_come_back_as_they_are(
    backend: PostgresBackend,
    type_: str,
    there: str,
    values: list[Any],
    back: list[Any] | None,
) -> None:
    job = contract.job(backend, {"n": "BIGINT", "v": type_})
    rows = list(enumerate([*values, None]))
    job.epoch(come(*rows))
    assert job.rows() == list(enumerate([*(values if back is None else back), None]))
    job.start()  # the table is there now, and is looked at
    changed = [(n, value) for (n, _), (_, value) in zip(rows, rows[1:] + rows[:1], strict=True)]
    job.epoch(go(*rows), come(*changed))
    job.epoch(go(*changed))
    assert job.rows() == []
    found = backend.rows(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'target'::regclass AND attname = 'v'"
    )
    assert found == [(there,)]


def test_values_of_all_types_are_replaced_by_key(backend: PostgresBackend) -> None:
    columns = {f"v{i}": type_ for i, (type_, _, _, _) in enumerate(VALUES)}
    job = contract.job(backend, {"n": "BIGINT", **columns}, key=("n",))
    first, last = (tuple(values[at] for _, _, values, _ in VALUES) for at in (0, -1))
    shown = tuple((values if back is None else back)[-1] for _, _, values, back in VALUES)
    nothing = (None,) * len(VALUES)
    job.epoch(come((1, *first), (2, *nothing)))
    job.epoch(go((1, *first), (2, *nothing)), come((1, *nothing), (2, *last)))
    assert job.rows() == [(1, *nothing), (2, *shown)]
    job.epoch(go((1, *nothing), (2, *last)))
    assert job.rows() == []


#: A type, a wider one of a table of the user's, and values.
WIDER: list[tuple[str, str, list[Any]]] = [
    ("TINYINT", "integer", [-128, 127]),
    ("SMALLINT", "numeric", [-32768, 9999, 10000, 0]),
    ("INTEGER", "bigint", [-(2**31), 2**31 - 1]),
    ("BIGINT", "numeric", [-(2**63), 2**63 - 1, 10**12]),
    ("UBIGINT", "numeric", [2**64 - 1, 0]),
    ("FLOAT", "double precision", [1.5, float("inf")]),
    ("DECIMAL(10,2)", "numeric(20,5)", [Decimal("12345678.90"), Decimal("-0.01")]),
    ("DECIMAL(10,2)", "numeric", [Decimal("12345678.90"), Decimal("0.00")]),
    ("VARCHAR", "character varying", ["", "ü"]),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("type_", "there", "values"), WIDER)
@pytest.mark.parametrize("changelog", ["append", "retract"])
def test_a_table_with_wider_types(
    backend: PostgresBackend, type_: str, there: str, values: list[Any], changelog: str
) -> None:
    backend.rows(f"CREATE TABLE target (n INTEGER, v {there})")
    job = contract.job(backend, {"n": "SMALLINT", "v": type_}, changelog=changelog)
    rows = list(enumerate([*values, None]))
    job.epoch(come(*rows))
    assert job.rows() == rows
    if changelog == "retract":
        job.epoch(go(*rows))
        assert job.rows() == []


def test_numbers_of_every_length(backend: PostgresBackend) -> None:
    """Digits go in groups of four to each side of the point: every precision with every scale."""
    for precision in (1, 4, 5, 18, 19, 38):
        schema = {f"s{scale}": f"DECIMAL({precision},{scale})" for scale in range(precision + 1)}
        most = 10**precision - 1
        numbers = [0, 1, -1, most, -most, most // 3, 10 ** (precision - 1), -(10 ** (precision // 2))]
        rows: list[Row] = [tuple(Decimal(f"{n}E-{scale}") for scale in range(precision + 1)) for n in numbers]
        rows.append((None,) * (precision + 1))
        job = contract.job(backend, schema, changelog="append", name=f"p{precision}", state=f"p{precision}")
        job.epoch(come(*rows))
        assert Counter(job.rows()) == Counter(rows)
        texts = backend.rows(f"SELECT s{precision - 1}::text FROM p{precision} WHERE s0 = 1")
        assert (f"{Decimal(1).scaleb(1 - precision):f}",) in texts
        job.sink.close()


def test_arrays_of_every_length(backend: PostgresBackend) -> None:
    job = contract.job(backend, {"n": "BIGINT", "v": "VARCHAR[]", "d": "DECIMAL(38,3)[]"}, changelog="append")
    rows: list[Row] = [
        (
            n,
            None if n % 5 == 0 else ["x" * i or None for i in range(n % 7)],
            [Decimal(i) for i in range(n % 3)],
        )
        for n in range(50)
    ]
    job.epoch(come(*rows))
    assert job.rows() == rows


@pytest.mark.sampled(2)
@pytest.mark.parametrize("type_", [v[0] for v in VALUES])
def test_every_type_can_be_a_key(backend: PostgresBackend, type_: str) -> None:
    (values,) = [v[2] for v in VALUES if v[0] == type_]
    job = contract.job(backend, {"k": type_, "v": "BIGINT"}, key=("k",))
    job.epoch(come(*((value, 1) for value in values)))
    job.epoch(go(*((value, 1) for value in values)), come(*((value, 2) for value in values)))
    assert backend.rows("SELECT v FROM target") == [(2,)] * len(values)
    job.epoch(go(*((value, 2) for value in values)))
    assert job.rows() == []


@pytest.mark.parametrize("value", ["infinity", "-infinity", "0044-03-15 (BC)", "12345-06-07"])
@pytest.mark.parametrize("type_", ["DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"])
def test_dates_that_python_does_not_have(backend: PostgresBackend, type_: str, value: str) -> None:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = connection.sql(f"SELECT '{value}'::DATE::{type_} AS v").to_arrow_table()
    job = contract.job(backend, {"v": type_}, changelog="append")
    table = rows.cast(pa.schema([("v", to_arrow(parse_type(type_)))]))
    context = ConnectorContext(job.store, "/")
    parts = [StagingWriter(job.spec, context).write(table, epoch=1, task="t")]
    job.sink.prepare(1, parts, previous=0)
    job.commit(parts)
    expected = value.replace(" (BC)", " BC")
    assert backend.rows(f"SELECT v::date = '{expected}'::date FROM target") == [(True,)]


def test_not_a_number_and_minus_zero_are_values_like_others(backend: PostgresBackend) -> None:
    job = contract.job(backend, {"v": "DOUBLE"})
    job.epoch(come((float("nan"),), (float("nan"),), (-0.0,)))
    job.epoch(go((float("nan"),), (0.0,)))
    assert [str(v) for (v,) in job.rows()] == ["nan"]


def test_what_is_not_finite_inside_of_a_row(backend: PostgresBackend) -> None:
    job = contract.job(backend, {"v": 'STRUCT("a" DOUBLE)'})
    job.epoch(come(({"a": float("nan")},), ({"a": float("-inf")},), ({"a": None},)))
    job.epoch(go(({"a": float("nan")},)))
    assert sorted(job.rows(), key=repr) == [({"a": "-Infinity"},), ({"a": None},)]


def test_json_that_differs_in_spelling_only(backend: PostgresBackend) -> None:
    job = contract.job(backend, {"v": "JSON"})
    job.epoch(come(('{"a":1, "b":2}',), ('{"b":2,"a":1}',), ('{"a": 1}',)))
    job.epoch(go(('{"a":1, "b":2}',), ('{"b":2,"a":1}',)))
    assert job.rows() == [({"a": 1},)]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("VARCHAR", "a\x00b"),
        ("JSON", json.dumps("\x00")),
        ("JSON", '{"a": NaN}'),
    ],
)
def test_values_that_postgres_does_not_have(backend: PostgresBackend, type_: str, value: Any) -> None:
    job = contract.job(backend, {"v": type_})
    with pytest.raises(DataError, match="can't take a row"):
        job.prepare(come((value,)))
    job.start().abort_uncommitted(0)
    assert job.rows() == []


@pytest.mark.parametrize(
    ("found", "type_", "expected"),
    [
        ("bigint", "INTEGER", True),
        ("integer", "BIGINT", False),
        ("numeric", "DECIMAL(38,10)", True),
        ("numeric(12,2)", "DECIMAL(10,2)", True),
        ("numeric(12,3)", "DECIMAL(10,2)", True),
        ("numeric(10,3)", "DECIMAL(10,2)", False),
        ("numeric(12,1)", "DECIMAL(10,2)", False),
        ("character varying", "VARCHAR", True),
        ("character varying(10)", "VARCHAR", False),
        ("character(10)", "VARCHAR", False),
        ("timestamp(3) without time zone", "TIMESTAMP", False),
        ("timestamp with time zone", "TIMESTAMP", False),
        ("json", "JSON", False),
        ("double precision", "FLOAT", True),
    ],
)
def test_which_columns_hold_a_type(found: str, type_: str, expected: bool) -> None:
    assert holds(found, parse_type(type_)) is expected


def test_a_type_that_the_planner_did_not_know() -> None:
    with pytest.raises(ValueError, match="UNKNOWN"):
        postgres_type(parse_type("UNKNOWN"))


# ------------------------------------------------------------------------------------------- connections


def _kill_connections(backend: PostgresBackend) -> int:
    killed = backend.rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'sqlstream' AND datname = current_database()"
    )
    return len(killed)


@pytest.mark.parametrize("key", [(), ("k",)])
def test_a_connection_that_is_lost_before_the_commit(backend: PostgresBackend, key: tuple[str, ...]) -> None:
    job = contract.job(backend, key=key)
    job.epoch(come((1, "a"), (2, "b")))
    parts = job.prepare(go((1, "a")), come((3, "c")))
    assert _kill_connections(backend) == 1
    assert job.rows() == [(1, "a"), (2, "b")]
    job.commit(parts)
    assert job.rows() == [(2, "b"), (3, "c")]
    assert job.recorded() == [("target", "target", 2)]


def test_a_connection_that_is_lost_between_epochs(backend: PostgresBackend) -> None:
    job = contract.job(backend)
    job.epoch(come((1, "a")))
    assert _kill_connections(backend) == 1
    job.epoch(come((2, "b")))
    assert job.rows() == [(1, "a"), (2, "b")]


class _LosesTheAnswer(PostgresTable):
    """The server commits, and the connection breaks before it says so."""

    def commit(self) -> None:
        super().commit()
        if self._schema is not None and self.losing:
            self.losing = False
            self.close()
            super().commit()

    losing = False


def test_a_commit_whose_answer_is_lost(backend: PostgresBackend) -> None:
    job = contract.job(backend)
    table = _LosesTheAnswer(job.spec)
    sink = ExactlyOnceSink(job.spec, ConnectorContext(job.store, "/"), table, wait=lambda seconds: None)
    parts = [job.part(come((1, "a")))]
    sink.prepare(1, parts, previous=0)
    table.losing = True
    sink.commit(1, parts, previous=0)
    assert table.losing is False
    assert job.rows() == [(1, "a")]
    parts = [job.part(go((1, "a")))]
    sink.prepare(2, parts, previous=1)
    sink.commit(2, parts, previous=1)
    assert job.rows() == []


def test_what_is_prepared_is_not_seen_before_it_is_committed(backend: PostgresBackend) -> None:
    job = contract.job(backend)
    parts = job.prepare(come((1, "a")))
    assert job.rows() == []
    assert job.recorded() == [("target", "target", 0)]
    job.commit(parts)
    assert job.rows() == [(1, "a")]


def test_constraints_are_checked_before_the_manifest(backend: PostgresBackend) -> None:
    backend.rows("CREATE TABLE target (k BIGINT, v TEXT, UNIQUE (v) DEFERRABLE INITIALLY DEFERRED)")
    job = contract.job(backend)
    with pytest.raises(DataError, match=r"can't take a row: .*Key \(v\)=\(a\) already exists"):
        job.prepare(come((1, "a"), (2, "a")))


def test_a_trigger_that_keeps_rows_back(backend: PostgresBackend) -> None:
    job = contract.job(backend, key=["k"])
    job.epoch(come((1, "a")))
    backend.rows("CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
    backend.rows("CREATE TRIGGER keep BEFORE DELETE ON target FOR EACH ROW EXECUTE FUNCTION keep()")
    with pytest.raises(DataError, match="0 rows changed instead of 1: a trigger"):
        job.prepare(go((1, "a")))


def test_a_view_is_no_table(backend: PostgresBackend) -> None:
    backend.rows("CREATE VIEW target AS SELECT 1::BIGINT AS k, 'x' AS v")
    with pytest.raises(DiagnosticError, match="target is no ordinary table"):
        contract.job(backend).prepare(come((1, "a")))


def test_a_user_who_may_not_write(backend: PostgresBackend) -> None:
    job = contract.job(backend)
    job.epoch(come((1, "a")))
    job.sink.close()
    backend.rows("CREATE ROLE reader LOGIN PASSWORD 'reader-secret'")
    spec = contract.job(backend, options={"username": "reader", "password": "reader-secret"}).spec
    job = Job(backend.folder, spec, last=1, committed=1, backend=backend)
    with pytest.raises(DiagnosticError, match="permission denied") as caught:
        job.prepare(come((2, "b")))
    assert caught.value.diagnostics[0].code == "ENV006"
    assert "reader-secret" not in str(caught.value)
    backend.rows("DROP ROLE reader")


# ------------------------------------------------------------------------------------------------ options


def test_a_user_that_was_renamed_before_the_last_epoch_was_committed(backend: PostgresBackend) -> None:
    """The sink of the file as it was, with the old name and password, is not needed to commit again."""
    backend.rows("CREATE ROLE before LOGIN SUPERUSER PASSWORD 'one'")
    world = TableWorld.over(backend, ())
    world.plan = TableWorld.program_to(backend, {**backend.options, "username": "before", "password": "one"})
    with pytest.raises(Crash):
        world.run(faults=crash_at("published", 2))
    backend.rows("ALTER ROLE before RENAME TO after")
    backend.rows("ALTER ROLE after PASSWORD 'two'")
    world.run(
        plan=TableWorld.program_to(backend, {**backend.options, "username": "after", "password": "two"})
    )
    world.check(backend)
    backend.rows("ALTER TABLE target OWNER TO sqlstream")
    backend.rows("ALTER TABLE sqlstream_epochs OWNER TO sqlstream")
    backend.rows("DROP ROLE after")


def test_user_and_password_apart_from_a_jdbc_address(backend: PostgresBackend) -> None:
    port = backend.database.server.port
    address = f"jdbc:postgresql://127.0.0.1:{port}/{backend.database.name}"
    job = contract.job(backend, options={"url": address, "username": USER, "password": PASSWORD})
    job.epoch(come((1, "a")))
    assert job.rows() == [(1, "a")]


def _quick(job: Job) -> ExactlyOnceSink:
    table = PostgresTable(job.spec)
    return ExactlyOnceSink(job.spec, ConnectorContext(job.store, "/"), table, wait=lambda seconds: None)


def test_a_wrong_password_is_not_shown(backend: PostgresBackend) -> None:
    wrong = backend.database.url.replace(PASSWORD, "Wrong-Secret")
    with pytest.raises(DiagnosticError, match="password authentication failed") as caught:
        _quick(contract.job(backend, options={"url": wrong})).abort_uncommitted(0)
    shown = str(caught.value) + repr(caught.value.diagnostics) + repr(caught.value.__cause__)
    assert "Wrong-Secret" not in shown
    assert caught.value.__suppress_context__


def test_a_server_that_is_not_there(backend: PostgresBackend) -> None:
    job = contract.job(backend, options={"url": "postgresql://u:Hidden-Secret@127.0.0.1:1/x"})
    with pytest.raises(DiagnosticError, match=r"table target in postgresql://127\.0\.0\.1:1/x") as caught:
        _quick(job).abort_uncommitted(0)
    assert "Hidden-Secret" not in str(caught.value)
    assert "goes on where it stopped" in (caught.value.diagnostics[0].help or "")


def test_a_server_that_takes_connections_and_says_nothing(backend: PostgresBackend) -> None:
    """It is asked once: the timeout of each attempt is ten seconds, unless the address says another."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        url = f"postgresql://u:Hidden-Secret@{address}/x?connect_timeout=2"
        job = contract.job(backend, options={"url": url})
        since = monotonic()
        with pytest.raises(
            DiagnosticError, match=rf"table target in postgresql://{address}/x .*timeout"
        ) as caught:
            _quick(job).abort_uncommitted(0)
        assert monotonic() - since < 4
    assert "Hidden-Secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:Hidden-Secret@h/db",
        "jdbc:mysql://u:Hidden-Secret@h/db",
        "postgresql://u:Hidden-Secret@h:port/db?nonsense=Hidden-Secret",
        "host=h password=Hidden-Secret",
        "",
    ],
)
def test_addresses_that_can_not_be(url: str) -> None:
    with pytest.raises(DiagnosticError, match="option 'url'") as caught:
        parameters({"url": url})
    assert "Secret" not in str(caught.value) + repr(caught.value.diagnostics)


def test_a_name_that_postgres_would_cut_off(backend: PostgresBackend) -> None:
    with pytest.raises(DiagnosticError, match="at most 63 bytes"):
        contract.job(backend, {"é" * 32: "BIGINT"}).start()


def test_rows_are_applied_in_statements_over_all_of_them(backend: PostgresBackend) -> None:
    """A hundred thousand rows come, change and go; a statement for each row, or a comparison of all pairs, would show."""
    rows = [(i, f"v{i}") for i in range(100_000)]
    changed = [(i, f"w{i}") for i in range(100_000)]
    for key in ([], ["k"]):
        name = f"many_{len(key)}"
        job = contract.job(backend, key=key, name=name, state=name)
        job.epoch(come(*rows))
        job.epoch(go(*rows), come(*changed))
        same = f"SELECT count(*), count(*) FILTER (WHERE v = 'w' || k) FROM {name}"
        assert backend.rows(same) == [(100_000, 100_000)]
        job.epoch(go(*changed))
        assert job.rows() == []
        job.sink.close()
