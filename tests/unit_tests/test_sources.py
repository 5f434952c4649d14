"""What is given: changelogs, tables that are looked up, METADATA columns, and rows as a list, CSV, SQL or a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit_tests.support import passes


def test_a_changelog_source_is_given_rows_or_changes(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: rows are inserts
          given: {customers: [{id: 1, name: ada}, {id: 2, name: bob}]}
          expect: {named: [{id: 1, name: ADA}, {id: 2, name: BOB}]}
        - name: changes, those of a key with what it was or without
          steps:
            - given: {customers: {changes: [{+I: {id: 1, name: ada}}, {+I: {id: 2, name: bob}}]}}
            - given: {customers: {changes: [{-U: {id: 1, name: ada}}, {+U: {id: 1, name: eva}}]}}
              expect:
                named: {changes: [{-U: {id: 1, name: ADA}}, {+U: {id: 1, name: EVA}}]}
            - given: {customers: {changes: [{+U: {id: 2, name: bill}}, {-D: {id: 1}}]}}
              expect: {named: [{id: 2, name: BILL}]}
        """,
    )


@pytest.mark.parametrize("connector", ["kafka", "upsert-kafka"])
def test_topics_are_rows(tmp_path: Path, connector: str) -> None:
    upsert = connector == "upsert-kafka"
    key = ", PRIMARY KEY (id) NOT ENFORCED" if upsert else ""
    format_ = "'key.format' = 'json', 'value.format' = 'json'" if upsert else "'format' = 'json'"
    sql = f"""
        CREATE TABLE t (id BIGINT, v BIGINT, part INT METADATA FROM 'partition'{key}) WITH (
          'connector' = '{connector}', 'topic' = 'x', 'properties.bootstrap.servers' = 'nowhere.invalid:9092',
          {format_});
        CREATE TABLE o (id BIGINT, v BIGINT, part INT) WITH (
          'connector' = 'postgres', 'url' = 'jdbc:postgresql://nowhere.invalid/x', 'table-name' = 'o',
          'username' = 'u', 'password' = '{{{{ env_var("SECRET_PASSWORD") }}}}');
        INSERT INTO o SELECT id, v, part FROM t;
        """
    passes(
        tmp_path,
        """
        - name: a topic
          given: {t: [{id: 1, v: 2, part: 7}]}
          expect: {o: [{id: 1, v: 2, part: 7}]}
        """,
        sql,
    )


LOOKUP = """
CREATE TABLE orders (id BIGINT, country STRING, at AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '/nowhere/o', 'format' = 'json');
CREATE TABLE taxes (country STRING, tax DECIMAL(4, 2), PRIMARY KEY (country) NOT ENFORCED)
WITH ('connector' = 'postgres', 'url' = 'jdbc:postgresql://nowhere.invalid/x', 'table-name' = 'taxes',
  'lookup.cache' = 'FULL', 'lookup.full-cache.periodic-reload.interval' = '10 min');
CREATE TABLE taxed (id BIGINT, tax DECIMAL(4, 2)) WITH ('connector' = 'print');
INSERT INTO taxed SELECT o.id, t.tax FROM orders AS o
LEFT JOIN taxes FOR SYSTEM_TIME AS OF o.at AS t ON t.country = o.country;
"""


def test_a_table_for_lookups_has_the_rows_that_it_was_given_last(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: as of the step
          steps:
            - given:
                taxes: [{country: DE, tax: 19}, {country: FR, tax: 20}]
                orders: [{id: 1, country: DE}, {id: 2, country: IT}]
              expect: {taxed: [{id: 1, tax: 19.00}, {id: 2, tax: null}]}
            - given: {orders: [{id: 3, country: FR}]}
              expect: {taxed: {changes: [{+I: {id: 3, tax: 20}}]}}
            - given: {taxes: [{country: IT, tax: 22}], orders: [{id: 4, country: IT}, {id: 5, country: FR}]}
              expect: {taxed: {changes: [{+I: {id: 4, tax: 22}}, {+I: {id: 5, tax: null}}]}}
        - name: without rows
          given: {orders: [{id: 1, country: DE}]}
          expect: {taxed: [{id: 1, tax: null}]}
        """,
        LOOKUP,
    )


def test_rows_in_every_form_are_the_same(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: a list with defaults
          given:
            bids:
              - &bid {id: 1, price: 10, ts: 2024-01-01 00:00:00, origin: x}
              - {<<: *bid, id: 2}
          expect: &two
            totals: [{id: 1, n: 1}, {id: 2, n: 1}]
            minutes: [{n: 2, total: 20}]
            dear: [{id: 1, origin: x}, {id: 2, origin: x}]
        - name: csv
          given:
            bids:
              format: csv
              rows: |
                id,price,ts,origin
                1,10,2024-01-01 00:00:00,"x"
                2,10,2024-01-01 00:00:00,x
          expect: *two
        - name: csv of expected rows
          given: {bids: [{id: 1, price: 10, origin: null}, {id: 2, price: 10, origin: ""}]}
          expect:
            dear:
              format: csv
              rows: |
                id,origin
                1,
                2,""
        - name: sql
          given:
            - input: bids
              format: sql
              rows: SELECT unnest([1, 2]) AS id, 10 AS price, TIMESTAMP '2024-01-01' AS ts, 'x' AS origin
          expect: *two
        - name: files
          given: {bids: {fixture: bids.csv}}
          expect:
            - {output: totals, fixture: totals.sql}
            - output: minutes
              rows: [{n: 2}]
        - name: changes in csv and sql
          given:
            customers:
              format: csv
              changes: |
                id,name,op
                1,ada,+I
                1,ada,-D
                2,bob,+I
          expect:
            named:
              format: sql
              changes: SELECT '+I' AS op, 2 AS id, 'BOB' AS name
        """,
        bids_csv="""\
            id,price,ts,origin
            1,10,2024-01-01 00:00:00,x
            2,10,2024-01-01 00:00:00,x
            """,
        totals_sql="SELECT i AS id, 1 AS n FROM range(1, 3) AS numbers (i);",
    )


def test_generators_and_selects_without_tables(tmp_path: Path) -> None:
    sql = """
        CREATE TABLE g (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '5');
        CREATE TABLE a (n BIGINT) WITH ('connector' = 'blackhole');
        CREATE TABLE b (n BIGINT) WITH ('connector' = 'print');
        INSERT INTO a SELECT n FROM g;
        INSERT INTO b SELECT 42;
        """
    passes(
        tmp_path,
        """
        - name: both
          given: {g: [{n: 7}]}
          expect: {a: [{n: 7}], b: [{n: 42}]}
        """,
        sql,
    )
