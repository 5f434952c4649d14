"""Steps: rows that come one after the other, watermarks, late rows, the clock, and the end of the input."""

from __future__ import annotations

from pathlib import Path

from tests.unit_tests.support import failed, passes, refused


def test_one_step_as_in_dbt_ends_the_input(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: all of it
          given:
            bids:
              - {id: 1, price: 10, ts: 2024-01-01 00:00:00}
              - {id: 1, price: 20, ts: 2024-01-01 00:01:30}
          expect:
            minutes:
              - {start: 2024-01-01 00:01:00, n: 1, total: 20}
              - {start: 2024-01-01 00:00:00, n: 1, total: 10}
            totals: [{id: 1, n: 2}]
        - name: dbt's own words
          model: totals
          given:
            - input: ref('bids')
              rows: [{id: 1}]
            - input: source('raw', 'customers')
              rows: []
          expect:
            rows: [{id: 1, n: 1}]
        - name: the input stays open
          drain: false
          given: {bids: [{id: 1, price: 10, ts: 2024-01-01 00:00:00}]}
          expect: {minutes: []}
        """,
    )


def test_windows_wait_for_later_rows_and_leave_late_ones_out(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: step by step
          steps:
            - given: {bids: [{id: 1, price: 1, ts: 2024-01-01 00:00:00}, {id: 1, price: 2, ts: 2024-01-01 00:00:59}]}
              expect: {minutes: []}
            - name: nothing comes
              expect: {minutes: [], totals: {changes: []}}
            - given: {bids: [{id: 1, price: 4, ts: 2024-01-01 00:01:04}]}
              expect: {minutes: []}
            - given: {bids: [{id: 1, price: 8, ts: 2024-01-01 00:00:30}, {id: 1, price: 16, ts: 2024-01-01 00:01:05}]}
              expect: {minutes: [{n: 3, total: 11}]}
            - name: behind the watermark
              given: {bids: [{id: 7, price: 32, ts: 2024-01-01 00:00:59, origin: x.json}]}
              late: {bids: [{id: 7, price: 32, ts: 2024-01-01 00:00:59}]}
              dead_letters: [{kind: late, source: bids}]
              expect: {minutes: [{n: 3, total: 11}]}
            - drain: true
              late: {bids: []}
              dead_letters: []
              expect: {minutes: [{n: 3, total: 11}, {n: 2, total: 20}]}
        """,
    )


def test_a_watermark_can_be_moved_without_rows_or_behind_them(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: moved
          steps:
            - given: {bids: [{id: 1, price: 1, ts: 2024-01-01 00:00:10}]}
              watermark: {bids: 2024-01-01 00:00:58}
              expect: {minutes: []}
            - watermark: {bids: 2024-01-01 00:01:00}
              expect: {minutes: [{n: 1}]}
            - given: {bids: [{id: 1, price: 1, ts: 2024-01-01 00:01:10}]}
              watermark: {bids: 2024-01-01T00:02:00Z}
              expect: {minutes: [{n: 1}, {n: 1}]}
            - name: it never goes back
              watermark: {bids: 2024-01-01 00:00:00}
              given: {bids: [{id: 9, price: 1, ts: 2024-01-01 00:01:20}]}
              late: {bids: [{id: 9}]}
        """,
    )


def test_late_rows_that_nothing_expects_are_mentioned(tmp_path: Path) -> None:
    from tests.unit_tests.support import tried

    tests = """
        - name: late
          steps:
            - given: {bids: [{id: 1, price: 1, ts: 2024-01-01 00:05:00}]}
            - given: {bids: [{id: 1, price: 1, ts: 2024-01-01 00:00:00}]}
              drain: true
              expect: {minutes: [{n: 1}, {n: 1}]}
        """
    (outcome,) = tried(tmp_path, tests)
    assert outcome.failures[0].note == "1 row of this step came late, and is not counted"


SEVERAL = """
CREATE TABLE t (id BIGINT, v BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
CREATE TABLE a (n BIGINT) WITH ('connector' = 'print');
CREATE TABLE b (v BIGINT, n BIGINT) WITH ('connector' = 'print');
INSERT INTO a SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
INSERT INTO b SELECT v, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' MINUTE)) WHERE id > 1
GROUP BY window_start, window_end, v;
"""


def test_a_row_that_is_late_for_several_operators_is_one_late_row(tmp_path: Path) -> None:
    tests = """
        - name: once each
          steps:
            - given: {t: [{id: 2, v: 1, ts: 2024-01-01 00:10:00}]}
            - given:
                t:
                  - {id: 1, v: 1, ts: 2024-01-01 00:00:00}
                  - {id: 2, v: 1, ts: 2024-01-01 00:00:00}
                  - {id: 3, v: 1, ts: 2024-01-01 00:09:30}
                  - {id: 2, v: 1, ts: 2024-01-01 00:00:00}
              late: {t: [{id: 1}, {id: 2}, {id: 2}, {id: 3}]}
              dead_letters: [{row: {id: 1, v: 1, ts: "2024-01-01 00:00:00"}}]
        """
    assert failed(tmp_path, tests, SEVERAL) == ["step 2|dead letters|6 rows unexpected"]  # of 7: 4 and 3


CLOCKS = """
CREATE TABLE t (id BIGINT, p AS PROCTIME()) WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
CREATE TABLE stamps (id BIGINT, at TIMESTAMP_LTZ(3)) WITH ('connector' = 'print');
CREATE TABLE minutes (start TIMESTAMP_LTZ(3), n BIGINT) WITH ('connector' = 'print');
INSERT INTO stamps SELECT id, CURRENT_TIMESTAMP FROM t;
INSERT INTO minutes SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(p), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
"""


def test_the_clock_is_what_the_test_says(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: a clock per step
          clock: 2024-05-01 12:00:00
          steps:
            - given: {t: [{id: 1}]}
              expect: {stamps: [{id: 1, at: 2024-05-01 12:00:00}], minutes: []}
            - clock: 2024-05-01 12:00:30
              given: {t: [{id: 2}]}
              expect: {stamps: {changes: [{+I: {id: 2, at: 2024-05-01 12:00:30}}]}, minutes: []}
            - clock: 2024-05-01 12:01:00
              expect: {minutes: [{start: 2024-05-01 12:00:00, n: 2}]}
        - name: one of its own
          clock: 2024-05-01 14:00:00+02
          given: {t: [{id: 1}]}
          expect: {stamps: [{at: 2024-05-01 12:00:00+00}]}
        - name: the same on every day
          given: {t: [{id: 1}]}
          expect: {stamps: [{at: 2025-01-01 00:00:00}]}
        """,
        CLOCKS,
    )


AHEAD = """
CREATE TABLE t (id BIGINT, ms BIGINT, at AS TO_TIMESTAMP_LTZ(ms, 3), ts TIMESTAMP(3),
  WATERMARK FOR at AS at - INTERVAL '1' SECOND)
WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
CREATE TABLE u (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '/nowhere/u', 'format' = 'json');
CREATE TABLE w (n BIGINT) WITH ('connector' = 'print');
CREATE TABLE x (start TIMESTAMP(3), n BIGINT, now TIMESTAMP_LTZ(3)) WITH ('connector' = 'print');
INSERT INTO w SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' MINUTE))
GROUP BY window_start, window_end;
INSERT INTO x SELECT window_start, COUNT(*), MAX(CURRENT_TIMESTAMP)
FROM TABLE(TUMBLE(TABLE u, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
"""


def test_without_a_clock_no_row_is_ahead_of_it(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: windows of years to come close, and late rows are late
          steps:
            - given: {u: [{id: 1, ts: 2026-05-01 00:00:00}, {id: 2, ts: 2031-05-01 00:02:00}]}
              expect: {x: [{start: 2026-05-01, n: 1}]}
            - given: {u: [{id: 3, ts: 2026-05-01 00:00:01}]}
              late: {u: [{id: 3}]}
            - given: {u: [{id: 4, ts: 2031-05-01 00:03:00}]}
              expect: {x: [{start: 2026-05-01, n: 1}, {start: 2031-05-01 00:02:00, n: 1}]}
        - name: by a time that is computed
          steps:
            - given: {t: [{id: 1, ms: 1777593600000}, {id: 2, ms: 1777593720000}]}
              expect: {w: [{n: 1}]}
        - name: by a watermark
          steps:
            - given: {u: [{id: 1, ts: 2024-05-01 00:00:00}]}
              watermark: {u: 2030-01-01 00:00:00}
              expect: {x: [{n: 1, now: 2030-01-01 00:00:00}]}
            - given: {u: [{id: 1, ts: 2030-01-01 00:00:00}, {id: 1, ts: 2030-01-01 12:00:00}]}
              expect: {x: [{n: 1, now: 2030-01-01 00:00:00}, {n: 1, now: 2030-01-01 12:00:00}]}
        - name: a clock that is written is what rows are ahead of
          steps:
            - clock: 2026-01-01 00:00:00
              given: {u: [{id: 1, ts: 2026-05-01 00:00:00}, {id: 2, ts: 2026-05-01 00:02:00}]}
              expect: {x: []}
            - given: {u: [{id: 3, ts: 2026-05-01 00:03:00}]}
              expect: {x: []}
            - clock: 2026-05-01 00:00:00
              given: {u: [{id: 3, ts: 2026-05-01 00:03:00}]}
              expect: {x: [{n: 1}, {n: 1}]}
        - name: what is too far away to be computed with moves nothing
          steps:
            - given: {u: [{id: 1, ts: 290000-05-01 00:00:00}]}
              dead_letters: [{source: u}]
            - given: {u: [{id: 2, ts: 2024-05-01 00:00:00}, {id: 2, ts: 2024-05-01 00:01:00}]}
              expect: {x: [{n: 1, now: 2025-01-01 00:00:00}]}
        """,
        AHEAD,
    )


def test_a_clock_does_not_go_back_behind_the_times_that_were_given(tmp_path: Path) -> None:
    (found,) = refused(
        tmp_path,
        """
        - name: x
          steps:
            - given: {u: [{id: 1, ts: 2026-05-01 00:00:00}]}
            - clock: 2026-04-01 00:00:00
              expect: {x: []}
        """,
        AHEAD,
    )
    assert (found.code, found.message) == ("TST005", "the clock goes back")
    assert found.notes == ("it is 2026-05-01 00:00:00 by now: without `clock:` it is the latest time given",)


ARRIVAL = """
CREATE TABLE t (id BIGINT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
CREATE TABLE lasts (id BIGINT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = '/nowhere/x.duckdb');
INSERT INTO lasts SELECT id, LAST_VALUE(v) FROM t GROUP BY id;
"""


def test_rows_arrive_in_the_order_in_which_they_are_written(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: the last one
          steps:
            - given: {t: [{id: 1, v: 3}, {id: 1, v: 1}, {id: 2, v: 9}]}
              expect: {rows: [{id: 1, v: 1}, {id: 2, v: 9}]}
            - given: {t: [{id: 1, v: 7}, {id: 1, v: 5}]}
              expect: {rows: [{id: 1, v: 5}, {id: 2, v: 9}]}
        """,
        ARRIVAL,
    )


def test_the_first_step_that_is_otherwise_ends_the_test(tmp_path: Path) -> None:
    found = failed(
        tmp_path,
        """
        - name: two steps
          steps:
            - given: {bids: [{id: 1}]}
              expect: {totals: [{id: 1, n: 1}]}
            - name: wrong
              given: {bids: [{id: 1}]}
              expect: {totals: [{id: 1, n: 3}], minutes: [{n: 1}]}
            - expect: {totals: []}
        """,
    )
    assert found == [
        "step 2 (wrong)|`totals`|1 row with other values",
        "step 2 (wrong)|`minutes`|1 row missing",
    ]


def test_a_row_over_which_an_expression_fails_is_named(tmp_path: Path) -> None:
    sql = """
        CREATE TABLE t (a STRING) WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
        SELECT CAST(a AS INT) AS n FROM t;
        """
    tests = """
        - name: no number
          given: {t: [{a: 1}, {a: x}]}
          error: DAT001
        """
    passes(tmp_path, tests, sql)
    assert failed(tmp_path, tests.replace("{a: x}", "{a: 2}"), sql) == [
        "|error|the step ended without the error DAT001"
    ]
