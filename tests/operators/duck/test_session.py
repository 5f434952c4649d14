"""One DuckDB session: names, types, order, errors, and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sqlstream_operators.duck.session import DuckSession, worker_session
from sqlstream_operators.errors import DataError, InternalError, OperatorError
from sqlstream_operators.plan.spec import Column
from sqlstream_operators.plan.types import (
    BIGINT,
    HUGEINT,
    JSON,
    NULL,
    TIMESTAMPTZ,
    UUID,
    VARCHAR,
    array,
    decimal,
    enum,
    parse_type,
    quote_identifier,
)

DUCK = DuckSession()


@settings(max_examples=50, deadline=None)
@given(st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=8))
def test_any_name_is_a_relation(name: str) -> None:
    table = pa.table({"a": [1, 2, None]})
    sql = f"SELECT * FROM {quote_identifier(name)}"
    assert DUCK.query(sql, {name: table}).equals(table)
    with pytest.raises(DataError):
        DUCK.query(sql)


def test_strings_are_plain_strings_whatever_duckdb_makes_of_them() -> None:
    table = DUCK.query(
        "SELECT 'a'::ENUM('a', 'b') AS e, {x: 'b'::ENUM('a', 'b')} AS s, ['a'::ENUM('a')] AS l, "
        "MAP {'k': 'b'::ENUM('a', 'b')} AS m, repeat('long', 9) AS v, TIMESTAMP_S '2020-01-01' AS t, "
        "[1, 2]::INTEGER[2] AS f"
    )
    assert [field.type for field in table.schema] == [
        pa.string(),
        pa.struct([("x", pa.string())]),
        pa.list_(pa.string()),
        pa.map_(pa.string(), pa.string()),
        pa.string(),
        pa.timestamp("us"),
        pa.list_(pa.int32()),
    ]
    assert table.column("e").to_pylist() == ["a"]
    assert table.column("s").to_pylist() == [{"x": "b"}]


def test_sums_of_bigint_are_exact_decimals() -> None:
    table = DUCK.query("SELECT sum(x) AS s FROM t", {"t": pa.table({"x": [2**62] * 4})})
    assert table.schema.field("s").type == pa.decimal128(38, 0)
    assert int(table.column("s")[0].as_py()) == 2**64


def test_declared_types_are_restored() -> None:
    schema = (Column("h", HUGEINT), Column("u", UUID), Column("j", array(JSON)), Column("plain", BIGINT))
    table = DUCK.query("SELECT 1::HUGEINT AS h, uuid() AS u, ['{\"a\": 1}'::JSON] AS j, 7 AS plain")
    DUCK.register("t", table, schema)
    [kinds] = DUCK.query("SELECT typeof(h) h, typeof(u) u, typeof(j) j, typeof(plain) p FROM t").to_pylist()
    assert kinds == {"h": "HUGEINT", "u": "UUID", "j": "JSON[]", "p": "INTEGER"}
    DUCK.drop("t")
    with pytest.raises(DataError):
        DUCK.query("SELECT * FROM t")


def test_order_survives_grouping() -> None:
    rows = pa.table(
        {"k": pa.array([i * 7919 % 50021 for i in range(300_000)]), "n": pa.array(range(300_000))}
    )
    grouped = DUCK.query("SELECT k, list(n) AS l, first(n) AS f FROM t GROUP BY k", {"t": rows})
    bad = DUCK.query("SELECT count(*) AS c FROM g WHERE l <> list_sort(l) OR f <> l[1]", {"g": grouped})
    assert bad.column("c")[0].as_py() == 0


def test_our_variables_are_not_relations() -> None:
    secret = pa.table({"a": [1]})
    with pytest.raises(DataError, match="secret"):
        DUCK.query("SELECT * FROM secret")
    assert secret.num_rows == 1


def test_a_workers_session_spills_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    duck = worker_session(64 << 20, str(tmp_path / "cache"))
    duck.connection.execute(
        "CREATE TEMP TABLE t AS SELECT md5(i::VARCHAR) AS s FROM range(3_000_000) AS t(i)"
    )
    assert list((tmp_path / "cache").iterdir())
    other = worker_session(None, str(tmp_path / "other"))  # the former can't change its folder any more
    assert other is not duck
    assert worker_session(None, str(tmp_path / "third")) is other
    assert ".tmp" not in {p.name for p in tmp_path.iterdir()}


def test_a_worker_session_starts_empty() -> None:
    first = worker_session()
    first.view("v", "SELECT 1 AS a")
    first.register("t", pa.table({"a": [1]}))
    first.register("lossy", pa.table({"a": [1]}), (Column("a", parse_type("HUGEINT")),))
    again = worker_session()
    assert again is first
    assert again.query("SELECT count(*) AS n FROM duckdb_views() WHERE NOT internal")["n"].to_pylist() == [0]
    for name in ("v", "t", "lossy"):
        with pytest.raises(DataError, match=name):
            again.query(f"SELECT * FROM {name}")


def test_errors_carry_the_sql() -> None:
    with pytest.raises(DataError, match="Could not convert") as caught:
        DUCK.query("SELECT 'x'::INTEGER AS a")
    assert caught.value.sql == "SELECT 'x'::INTEGER AS a"
    with pytest.raises(InternalError, match="a SELECT"):
        DUCK.query("-- nothing")


def test_too_little_memory_is_not_the_datas_fault() -> None:
    small = DuckSession(memory_limit=8 << 20)
    small.connection.execute("SET max_temp_directory_size = '0B'")
    with pytest.raises(OperatorError, match="memory") as caught:
        small.query("SELECT list(i::VARCHAR) AS l FROM range(5000000) r(i)")
    assert not isinstance(caught.value, DataError)


def test_describe_gives_types_without_running() -> None:
    schemas = {"q d": (Column("a", BIGINT), Column("h", HUGEINT), Column("t", TIMESTAMPTZ))}
    described = DUCK.describe(
        "SELECT a + 1 AS b, sum(h) OVER () AS s, [t] AS l, NULL AS n, 'x'::ENUM('x') AS e, "
        "a::DECIMAL(9, 2) AS d, 'no'::VARCHAR AS v FROM \"q d\"",
        schemas,
    )
    assert described == [
        ("b", BIGINT),
        ("s", HUGEINT),
        ("l", array(TIMESTAMPTZ)),
        ("n", NULL),
        ("e", enum("x")),
        ("d", decimal(9, 2)),
        ("v", VARCHAR),
    ]
    with pytest.raises(DataError, match="nope"):
        DUCK.describe('SELECT nope FROM "q d"', schemas)
    with pytest.raises(DataError):
        DUCK.query('SELECT * FROM "q d"')
