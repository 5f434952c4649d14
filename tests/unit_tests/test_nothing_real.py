"""A test touches nothing: no file of a source or sink, no server, no password, even where an edit reads history."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.unit_tests.support import passes

SQL = """
CREATE TABLE orders (id BIGINT, amount BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'orders', 'properties.bootstrap.servers' = '{{ env_var("BROKER") }}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset'
);
CREATE TABLE rates (id BIGINT, rate BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'postgres', 'url' = 'jdbc:postgresql://localhost/x', 'table-name' = 'rates', 'username' = 'me',
  'password' = '{{ env_var("PASSWORD_OF_RATES") }}', 'lookup.cache' = 'FULL',
  'lookup.full-cache.periodic-reload.interval' = '10 min'
);
CREATE TABLE sums (id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'postgres', 'url' = 'jdbc:postgresql://localhost/x', 'table-name' = 'sums', 'username' = 'me',
  'password' = '{{ env_var("PASSWORD_OF_SUMS") }}'
);
CREATE TABLE small (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{{ var("out") }}/small', 'format' = 'csv');
CREATE TABLE large (id BIGINT) WITH ('connector' = 'duckdb', 'path' = '{{ var("out") }}/large.duckdb');
CREATE TABLE topic (id BIGINT, n BIGINT) WITH (
  'connector' = 'kafka', 'topic' = 'sums', 'properties.bootstrap.servers' = '{{ env_var("BROKER") }}',
  'format' = 'debezium-json'
);
INSERT INTO sums SELECT o.id, SUM(amount * rate)
FROM (SELECT *, PROCTIME() AS now FROM orders) AS o JOIN rates FOR SYSTEM_TIME AS OF o.now AS r ON r.id = o.id GROUP BY o.id;
INSERT INTO small SELECT id FROM orders WHERE amount < 10;
INSERT INTO large SELECT id FROM orders WHERE amount >= 10;
INSERT INTO topic SELECT id, COUNT(*) FROM orders GROUP BY id;
"""


def test_no_file_and_no_server_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*arguments: Any) -> NoReturn:
        raise AssertionError(f"something connects to {arguments}")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", connect)
    monkeypatch.delenv("PASSWORD_OF_SUMS", raising=False)
    out = tmp_path / "out"
    sql = SQL.replace('{{ var("out") }}', str(out))
    edited = (
        sql.replace("'path' = '", "'path' = '")
        .replace("/small'", "/smaller'")
        .replace("COUNT(*)", "MAX(amount)")
    )
    before = set(Path().iterdir())
    passes(
        tmp_path,
        """
        - name: all connectors
          steps:
            - given:
                orders: [{id: 1, amount: 5}, {id: 1, amount: 50}]
                rates: [{id: 1, rate: 2}]
              expect:
                sums: [{id: 1, n: 110}]
                small: [{id: 1}]
                large: [{id: 1}]
                topic: [{id: 1, n: 2}]
            - edit: {file: new.sql, rewrite: small}
              expect:
                topic: [{id: 1, n: 50}]
                small: [{id: 1}]
        """,
        sql,
        new_sql=edited,
    )
    assert not out.exists()
    assert set(Path().iterdir()) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.sql", "p.sql", "p.test.yaml"]


def test_variables_of_the_environment_are_those_of_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = """
        CREATE TABLE t (id BIGINT) WITH ('connector' = 'datagen');
        SELECT id, '{{ env_var("REGION", "none") }}' AS region, '{{ env_var("STAGE") }}' AS stage FROM t;
        """
    monkeypatch.setenv("REGION", "eu")
    monkeypatch.setenv("STAGE", "prod")
    passes(
        tmp_path,
        """
        - name: not the machine's
          given: {t: [{id: 1}]}
          expect: {rows: [{region: none, stage: STAGE}]}
        - name: its own
          env_vars: {REGION: us, STAGE: test}
          given: {t: [{id: 1}]}
          expect: {rows: [{region: us, stage: test}]}
        """,
        sql,
    )
