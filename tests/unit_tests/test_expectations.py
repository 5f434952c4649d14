"""What is expected: rows or changes of sinks and views, in any order or in this one, of the columns that are named."""

from __future__ import annotations

from pathlib import Path

from tests.unit_tests.support import failed, passes, tried

BIDS = """
          given:
            bids:
              - {id: 1, price: 10, ts: 2024-01-01 00:00:00, origin: a.json}
              - {id: 2, price: 5, ts: 2024-01-01 00:00:01}
              - {id: 1, price: 30, ts: 2024-01-01 00:00:02}
"""


def test_views_are_expected_like_sinks(tmp_path: Path) -> None:
    passes(
        tmp_path,
        f"""
        - name: of rows that only come, and of sums{BIDS}
          expect:
            dear: [{{id: 1, twice: 20, origin: a.json}}, {{id: 1, twice: 60, origin: null}}]
            SUMS: [{{id: 1, total: 40}}, {{id: 2, total: 5}}]
            totals: [{{id: 1, n: 2}}, {{id: 2, n: 1}}]
        - name: by the test's model
          model: dear{BIDS}
          expect: {{rows: [{{twice: 20}}, {{twice: 60}}]}}
        - name: with a variable
          vars: {{dear: 30}}{BIDS}
          expect: {{dear: [{{twice: 60}}]}}
        - name: as changes
          steps:
            - given: {{bids: [{{id: 1, price: 10}}]}}
              expect: {{sums: {{changes: [{{+I: {{id: 1, total: 10}}}}]}}}}
            - given: {{bids: [{{id: 1, price: 10}}]}}
              expect:
                sums: {{changes: [{{-U: {{id: 1, total: 10}}}}, {{+U: {{id: 1, total: 20}}}}]}}
        """,
    )


def test_only_the_columns_that_are_named_count(tmp_path: Path) -> None:
    passes(
        tmp_path,
        f"""
        - name: some, and in another case{BIDS}
          expect:
            totals: [{{N: 2}}, {{n: 1}}]
        """,
    )
    assert failed(
        tmp_path,
        f"""
        - name: a row that does not say all that others say{BIDS}
          expect:
            totals: [{{id: 1, n: 2}}, {{n: 1}}]
        """,
    ) == ["|`totals`|1 row with other values"]


def test_rows_are_multisets_unless_their_order_counts(tmp_path: Path) -> None:
    tests = f"""
        - name: in this order{BIDS}
          expect:
            dear: {{ordered: true, rows: [{{twice: 20}}, {{twice: 60}}]}}
        """
    passes(tmp_path, tests)
    other = tests.replace("{twice: 20}, {twice: 60}", "{twice: 60}, {twice: 20}")
    (outcome,) = tried(tmp_path, other)
    (failure,) = outcome.failures
    assert failure.summary == "the same rows in another order"
    assert failure.changed == ((("60",), ("20",)), (("20",), ("60",)))
    passes(tmp_path, other.replace("ordered: true, ", ""))
    passes(tmp_path, other.replace("true", "false"))
    assert failed(tmp_path, other.replace("{twice: 60}, ", "")) == ["|`dear`|1 row unexpected"]


def test_changes_in_their_order(tmp_path: Path) -> None:
    tests = """
        - name: first what goes
          steps:
            - given: {bids: [{id: 1, price: 10}]}
            - given: {bids: [{id: 1, price: 10}]}
              expect:
                sums: {ordered: true, changes: [{-U: {total: 10}}, {+U: {total: 20}}]}
        """
    passes(tmp_path, tests)
    swapped = tests.replace("{-U: {total: 10}}, {+U: {total: 20}}", "{+U: {total: 20}}, {-U: {total: 10}}")
    assert failed(tmp_path, swapped) == ["step 2|`sums`|the same rows in another order"]
    assert failed(tmp_path, tests.replace("-U", "-D")) == ["step 2|`sums`|1 change with other values"]


TYPES = """
CREATE TABLE t (
  d DOUBLE, n DECIMAL(10, 2), s STRING, b BOOLEAN, day DATE, at TIMESTAMP(3), z TIMESTAMP_LTZ(3),
  tags ARRAY<STRING>, who ROW<name STRING, age INT>, m MAP<STRING, INT>, raw BYTES
) WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
CREATE TABLE out (
  d DOUBLE, n DECIMAL(10, 2), s STRING, b BOOLEAN, day DATE, at TIMESTAMP(3), z TIMESTAMP_LTZ(3),
  tags ARRAY<STRING>, who ROW<name STRING, age INT>, m MAP<STRING, INT>, raw BYTES
) WITH ('connector' = 'print');
INSERT INTO out SELECT d * 1, n, s, b, day, at, z, tags, who, m, raw FROM t;
"""


def test_values_are_compared_by_their_types(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: every type
          given:
            t:
              - d: 0.30000000000000004
                n: 1.5
                s: no
                b: true
                day: 2024-02-29
                at: 2024-02-29 12:30:00
                z: 2024-02-29 14:30:00+02
                tags: [x, "1", 2, null]
                who: {name: Ada, AGE: 36}
                m: {a: 1, b: 2}
                raw: abc
              - {s: "null"}
              - {s: ""}
              - {s: null, who: {age: 3}}
          expect:
            out:
              - {}
              - {s: null, who: {age: 3, name: null}}
              - {s: ""}
              - {s: "null"}
              - {d: 0.3, n: 1.50, s: "no", b: TRUE, day: 2024-02-29, at: "2024-02-29T12:30", z: 2024-02-29 12:30:00,
                 tags: [x, 1, 2, null], who: {age: 36, name: Ada}, m: {b: 2, a: 1}, raw: abc}
        """.replace("              - {}\n", ""),
        TYPES,
    )


def test_dead_letters_say_what_they_are(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: without a time
          given: {bids: [{id: 1, price: 3, ts: null}]}
          dead_letters:
            - {kind: no-time, source: bids, reason: the event time is NULL}
          expect: {minutes: [], totals: [{id: 1, n: 1}]}
        """,
    )
    assert failed(
        tmp_path,
        """
        - name: none
          given: {bids: [{id: 1, price: 3, ts: null}]}
          dead_letters: []
        """,
    ) == ["|dead letters|1 row unexpected"]


KEYED = """
CREATE TABLE t (id BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
CREATE TABLE latest (id BIGINT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = '/nowhere/x.duckdb');
INSERT INTO latest SELECT id, v FROM t ON CONFLICT DO {action};
"""


def test_a_table_with_a_key_has_the_last_row_of_each(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: written over
          steps:
            - given: {t: [{id: 1, v: 1}, {id: 2, v: 2}]}
            - given: {t: [{id: 1, v: 3}]}
              expect: {latest: [{id: 1, v: 3}, {id: 2, v: 2}]}
        """,
        KEYED.replace("{action}", "DEDUPLICATE"),
    )


def test_two_rows_with_a_key_are_refused_as_the_database_would(tmp_path: Path) -> None:
    tests = """
        - name: twice at once
          given: {t: [{id: 1, v: 1}, {id: 1, v: 2}]}
          error: DAT002
        """
    passes(tmp_path, tests, KEYED.replace("{action}", "ERROR"))
    assert failed(tmp_path, tests, KEYED.replace("{action}", "DEDUPLICATE")) == [
        "|error|the step ended without the error DAT002"
    ]
