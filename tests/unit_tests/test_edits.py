"""Edits: rows, another text, and what becomes of operators and sinks, and of the rows."""

from __future__ import annotations

from pathlib import Path

from sqlstream.unit_tests.outcome import Status
from tests.unit_tests.support import SQL, failed, passes, refused, tried

GIVEN = """
          steps:
            - given: {bids: [{id: 1, price: 10, ts: 2024-01-01 00:00:00}, {id: 1, price: 30, ts: 2024-01-01 00:00:01}]}
              expect: {totals: [{id: 1, n: 2}]}
"""
MAXIMUM = "{'id, COUNT(*) FROM bids': 'id, MAX(price) FROM bids'}"


def test_a_replaced_text_and_another_file_are_edits(tmp_path: Path) -> None:
    passes(
        tmp_path,
        f"""
        - name: a text{GIVEN}
            - edit: {{replace: {MAXIMUM}}}
              plan: {{group_aggregate_1: BACKFILL, totals: reconciled with the new result, window_aggregate_1: keep}}
              expect:
                totals: {{changes: [{{-U: {{id: 1, n: 2}}}}, {{+U: {{id: 1, n: 30}}}}]}}
            - given: {{bids: [{{id: 1, price: 70}}]}}
              expect: {{totals: [{{id: 1, n: 70}}]}}
        - name: a list of texts{GIVEN}
            - edit:
                replace:
                  - text: id, COUNT(*) FROM bids
                    by: |
                      id, MAX(price) FROM bids
                  - {{text: INTERVAL '1' MINUTE, by: INTERVAL '2' MINUTE}}
                accept: [fresh:minutes]
              expect: {{totals: [{{id: 1, n: 30}}]}}
              drain: true
        - name: a file{GIVEN}
            - edit: other.sql
              expect: {{totals: [{{id: 1, n: 30}}]}}
        - name: back again{GIVEN}
            - edit: {{file: other.sql}}
              given: {{bids: [{{id: 2, price: 3}}]}}
              expect: {{totals: [{{id: 1, n: 30}}, {{id: 2, n: 3}}]}}
            - edit: p.sql
              expect: {{totals: [{{id: 1, n: 2}}, {{id: 2, n: 1}}]}}
        """,
        other_sql=SQL.replace("SELECT id, COUNT(*) FROM bids", "SELECT id, MAX(price) FROM bids"),
    )


def test_a_variable_may_be_what_is_edited(tmp_path: Path) -> None:
    sql = SQL + "CREATE TABLE d (id BIGINT, n BIGINT) WITH ('connector' = 'blackhole');\n"
    sql += "INSERT INTO d SELECT id, COUNT(*) FROM bids WHERE price > {{ var('least', 0) }} GROUP BY id;"
    passes(
        tmp_path,
        """
        - name: a variable
          vars: {least: 5}
          steps:
            - given: {bids: [{id: 1, price: 5}, {id: 1, price: 9}]}
              expect: {d: [{n: 1}]}
            - edit: {vars: {least: 1}}
              plan: {group_aggregate_2: BACKFILL}
        """,
        sql,
    )


def test_verdicts_that_are_otherwise_are_shown_with_why(tmp_path: Path) -> None:
    (outcome,) = tried(
        tmp_path,
        f"""
        - name: not kept{GIVEN}
            - edit: {{replace: {MAXIMUM}}}
              plan: {{group_aggregate_1: KEEP, window_aggregate_1: DROP}}
        """,
    )
    (failure,) = outcome.failures
    assert failure.summary == "2 verdicts otherwise than expected"
    why = "max of price was not kept"
    assert failure.changed[0] == (
        ("group_aggregate_1", "KEEP", why),
        ("group_aggregate_1", "BACKFILL", why),
    )
    (unknown,) = refused(
        tmp_path,
        f"""
        - name: no such operator{GIVEN}
            - edit: {{replace: {MAXIMUM}}}
              plan: {{group_agregate_1: KEEP}}
        """,
    )
    assert unknown.code == "TST003"
    assert unknown.help == "did you mean `group_aggregate_1`?"


def test_views_have_the_rows_of_the_new_query(tmp_path: Path) -> None:
    passes(
        tmp_path,
        f"""
        - name: and the plan is that of the pipeline without them{GIVEN}
            - edit: {{replace: {{SUM(price) AS total FROM bids: MIN(price) AS total FROM bids}}}}
              plan: {{group_aggregate_1: KEEP}}
              expect: {{sums: [{{id: 1, total: 10}}], totals: [{{id: 1, n: 2}}]}}
            - edit: {{vars: {{dear: 20}}}}
              expect: {{dear: [{{twice: 60}}]}}
            - given: {{bids: [{{id: 2, price: 40}}]}}
              expect: {{dear: [{{twice: 60}}, {{twice: 80}}], sums: [{{id: 1, total: 10}}, {{id: 2, total: 40}}]}}
        """,
    )


def test_what_needs_consent_or_is_refused_is_an_error_with_its_code(tmp_path: Path) -> None:
    other = """{"minutes', 'format' = 'csv'": "minutes', 'format' = 'json'"}"""
    tests = f"""
        - name: files stay as they are{GIVEN}
            - edit: {{replace: {other}}}
              error: STA015
        """
    passes(tmp_path, tests)
    (outcome,) = tried(tmp_path, tests.replace("error: STA015", "expect: {minutes: []}"))
    assert outcome.status is Status.ERROR
    assert [d.code for d in outcome.diagnostics] == ["STA015"]


def test_a_source_that_is_renamed_keeps_its_rows(tmp_path: Path) -> None:
    sql = """
        CREATE TABLE t (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
        CREATE TABLE n (n BIGINT) WITH ('connector' = 'print');
        INSERT INTO n SELECT SUM(id) FROM t;
        """
    passes(
        tmp_path,
        """
        - name: renamed
          steps:
            - given: {t: [{id: 1}]}
            - edit: new.sql
              given: {u: [{id: 2}]}
              plan: {group_aggregate_1: BACKFILL}
              expect: {n: [{n: 2}]}
        """,
        sql,
        new_sql=sql.replace("TABLE t", "TABLE u").replace("SUM(id) FROM t", "MAX(id) FROM u"),
    )


def test_a_new_column_of_a_source_is_null_in_what_was_given(tmp_path: Path) -> None:
    sql = """
        CREATE TABLE t (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
        CREATE TABLE n (id BIGINT, n BIGINT, PRIMARY KEY (id) NOT ENFORCED)
        WITH ('connector' = 'duckdb', 'path' = '/nowhere/n.duckdb');
        INSERT INTO n SELECT id, COUNT(*) FROM t GROUP BY id;
        """
    passes(
        tmp_path,
        """
        - name: one more
          steps:
            - given: {t: [{id: 1}, {id: 2}]}
            - edit:
                replace:
                  TABLE t (id BIGINT: TABLE t (id BIGINT, v BIGINT
                  SELECT id, COUNT(*): SELECT id, COUNT(v)
              given: {t: [{id: 2, v: 7}]}
              expect: {n: [{id: 1, n: 0}, {id: 2, n: 1}]}
        """,
        sql,
    )


def test_edits_that_can_not_be_made_are_mistakes(tmp_path: Path) -> None:
    def of(edit: str) -> str:
        (found,) = refused(tmp_path, f"        - name: x{GIVEN}            - edit: {edit}\n")
        assert found.span is not None
        return f"{found.code} {found.message.replace(str(tmp_path), '')}"

    assert of("{replace: {COUNT(+): x}}") == "TST008 this text does not stand in /p.sql"
    assert of("{replace: {FROM bids: x}}") == "TST008 this text stands 3 times in /p.sql"
    assert of("{vars: {}}") == "TST008 the edit changes nothing"
    assert of("{replace: {BIGINT NOT NULL: BIGINT NOT NULL}}") == "TST008 the edit changes nothing"
    assert of("{replace: {id, COUNT(x): y}}") == "TST002 nothing stands here in place of this text"
    assert of("none.sql") == "PRJ001 /none.sql does not exist"
    assert of("{replace: {MAX(: x}, fil: p.sql}").startswith("TST002 an edit has no key `fil`")
    assert of("{replace: {COUNT(*) FROM bids: COUNT(x) FROM bids}}") == "SQL010 unknown column `x`"


def test_the_text_of_an_edit_is_what_its_mistakes_are_shown_in(tmp_path: Path) -> None:
    (outcome,) = tried(
        tmp_path,
        f"""
        - name: x{GIVEN}
            - edit: {{replace: {{COUNT(*) FROM bids: COUNT(y) FROM bids}}}}
        """,
    )
    (diagnostic,) = outcome.diagnostics
    assert diagnostic.span is not None
    text = dict(outcome.sources)[diagnostic.span.file]
    assert "COUNT(y)" in text.splitlines()[diagnostic.span.line - 1]


def test_a_sink_can_be_written_anew(tmp_path: Path) -> None:
    assert failed(
        tmp_path,
        f"""
        - name: elsewhere{GIVEN}
            - edit:
                replace: {{/nowhere/minutes: /nowhere/other}}
                accept: fresh:minutes
              drain: true
              expect: {{minutes: []}}
        """,
    ) == ["step 2|`minutes`|1 row unexpected"]


FILES = """
CREATE TABLE t (id BIGINT, v INT) WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
CREATE TABLE p (id BIGINT, v INT) WITH ('connector' = 'filesystem', 'path' = '/nowhere/p', 'format' = 'json');
CREATE TABLE q (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '/nowhere/q', 'format' = 'json');
INSERT INTO p SELECT id, v FROM t WHERE v > 1;
INSERT INTO q SELECT id FROM t;
"""


def test_files_begin_anew_only_where_none_are(tmp_path: Path) -> None:
    edit = "edit: {replace: {WHERE v > 1: WHERE v > 0}, rewrite: p}"
    passes(
        tmp_path,
        f"""
        - name: rows are there
          steps:
            - given: {{t: [{{id: 1, v: 1}}, {{id: 2, v: 2}}]}}
            - {edit}
              error: STA026
        - name: none are
          steps:
            - given: {{t: [{{id: 1, v: 1}}]}}
              expect: {{p: []}}
            - {edit}
              expect: {{p: [{{id: 1}}]}}
        - name: elsewhere none are
          steps:
            - given: {{t: [{{id: 1, v: 1}}, {{id: 2, v: 2}}]}}
            - edit: {{replace: {{WHERE v > 1: WHERE v > 0, /nowhere/p: /nowhere/other}}, rewrite: p}}
              expect: {{p: [{{id: 1}}, {{id: 2}}]}}
        - name: left out for a while
          steps:
            - given: {{t: [{{id: 1, v: 2}}]}}
            - edit: without.sql
              given: {{t: [{{id: 2, v: 2}}]}}
              expect: {{q: [{{id: 1}}, {{id: 2}}]}}
            - edit: p.sql
              error: STA030
        """,
        FILES,
        without_sql=FILES.replace("INSERT INTO p SELECT id, v FROM t WHERE v > 1;", ""),
    )
    (outcome,) = tried(
        tmp_path,
        f"""
        - name: old rows are not kept
          steps:
            - given: {{t: [{{id: 1, v: 1}}, {{id: 2, v: 2}}]}}
            - {edit}
              expect: {{p: [{{id: 1}}, {{id: 2}}]}}
        """,
        FILES,
    )
    assert [d.code for d in outcome.diagnostics] == ["STA026"]


def test_an_edit_that_can_not_be_planned_is_an_error_with_its_code(tmp_path: Path) -> None:
    tests = f"""
        - name: no such column{GIVEN}
            - edit: {{replace: {{COUNT(*) FROM bids: COUNT(nope) FROM bids}}}}
              error: SQL010
        - name: in the first step
          steps:
            - edit: {{replace: {{COUNT(*) FROM bids: COUNT(nope) FROM bids}}}}
              error: SQL010
        - name: of what a test sets
          vars: {{dear: nope}}
          steps:
            - error: SQL010
              name: a view is planned where rows are expected of it
              edit: {{replace: {{COUNT(*) FROM bids: COUNT(twice) FROM dear}}}}
        - name: with views{GIVEN}
              dead_letters: []
            - expect: {{sums: [{{id: 1, total: 40}}]}}
            - edit: {{replace: {{"minutes', 'format' = 'csv'": "minutes', 'format' = 'json'"}}}}
              error: STA015
        """
    passes(tmp_path, tests)
    of_one = tests[: tests.index("        - name: in the first step")]
    assert failed(tmp_path, of_one.replace("error: SQL010", "error: SQL999")) == [
        "step 2|error|the step ended with SQL010, and not with SQL999"
    ]
    assert failed(tmp_path, of_one.replace("totals: [{id: 1, n: 2}]", "totals: []")) == [
        "step 1|`totals`|1 row unexpected"
    ]
    (found,) = refused(tmp_path, of_one + "            - drain: true\n")
    assert found.message == "nothing runs after a step that ends with an error"


def test_another_code_than_expected_is_told(tmp_path: Path) -> None:
    (outcome,) = tried(
        tmp_path,
        f"""
        - name: files stay as they are{GIVEN}
            - edit: {{replace: {{"minutes', 'format' = 'csv'": "minutes', 'format' = 'json'"}}}}
              error: STA014
        """,
    )
    (failure,) = outcome.failures
    assert failure.summary == "the step ended with STA015, and not with STA014"
    assert failure.note
