"""What an edit does to the places that sinks write to: other columns and keys, other names and places, begun anew.

Each result is compared with DuckDB's answer of the new query over all input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_server import Database
from tests.runtime.loop.test_sink_edits import (
    CHANGES,
    COUNTS,
    CSV,
    DUCK,
    JSON,
    PASSED,
    WINDOWED,
    Job,
    T,
    answer,
)
from tests.runtime.support import Crash, crash_at, manifests

POINTS = ("planned", "run", "prepared", "published", "committed")
ALTER = ["alter:o"]


@dataclass
class Table:
    """A database with the table `o`, as a reader and its owner see it."""

    job: Job
    with_: str
    postgres: Database | None = None

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        if self.postgres is not None:
            found: list[tuple[Any, ...]] = self.postgres.rows(text)
            return found
        with duckdb.connect(str(self.job.folder / "out.duckdb")) as con:
            made: list[tuple[Any, ...]] = con.execute(text).fetchall()
            return made

    def rows(self, columns: str = "*") -> Counter[tuple[Any, ...]]:
        return Counter(self.sql(f"SELECT {columns} FROM o"))

    def text(self, query: str, columns: str, key: str = "k") -> str:
        declared = f", PRIMARY KEY ({key}) NOT ENFORCED" if key else ""
        return T + f"CREATE TABLE o ({columns}{declared}) WITH ({self.with_});\nINSERT INTO o {query};"


@pytest.fixture(params=["duckdb", "postgres"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (1, 11, "b", 2), (2, 20, "a", 11), (3, 30, "c", 12))
    if request.param == "duckdb":
        yield Table(job, DUCK)
        return
    server: Database = request.getfixturevalue("database")
    yield Table(job, f"'connector' = 'postgres', 'url' = '{server.url}'", server)


def consent(job: Job, text: str) -> list[str]:
    """The codes with which a run asks for consent, having changed nothing."""
    told = job.required_consents(text)
    assert all(d.help and "--accept" in d.help for d in told)
    return [d.code for d in told]


SUMS = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"
#: New columns, key, query of SUMS into (k INT, n BIGINT, PRIMARY KEY (k)).
ALTERED = {
    "a column more": ("k INT, n BIGINT, m BIGINT", "k", "SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k"),
    "a column between": ("k INT, m STRING, n BIGINT", "k", "SELECT k, MIN(s), COUNT(*) FROM t GROUP BY k"),
    "a column renamed": ("k INT, total BIGINT", "k", "SELECT k, COUNT(*) FROM t GROUP BY k"),
    "a column less": ("k INT", "k", "SELECT k FROM t GROUP BY k"),
    "a wider key": ("k BIGINT, n BIGINT", "k", "SELECT k, COUNT(*) FROM t GROUP BY k"),
    "a wider key and a column": ("k BIGINT, n BIGINT, m INT", "k", "SELECT k, COUNT(*), 7 FROM t GROUP BY k"),
    "another key": ("k INT, n BIGINT", "k, n", "SELECT k, COUNT(*) FROM t GROUP BY k"),
    "another key and query": (
        "k INT, s STRING, n BIGINT",
        "s",
        "SELECT MAX(k), s, COUNT(*) FROM t GROUP BY s",
    ),
    "a key with a column more": (
        "k INT, s STRING, n BIGINT",
        "k, s",
        "SELECT k, s, COUNT(*) FROM t WHERE s <> 'c' GROUP BY k, s",
    ),
    "two queries": (
        "k INT, n BIGINT",
        "",
        "SELECT k, COUNT(*) FROM t GROUP BY k UNION ALL SELECT k, v FROM t",
    ),
    "no key": ("k INT, n BIGINT", "", "SELECT k % 2, COUNT(*) FROM t GROUP BY k"),
}


@pytest.mark.parametrize("edit", ALTERED)
@pytest.mark.sampled(4, each_value=False)
def test_a_table_that_is_kept_up_to_date_is_altered_with_consent(table: Table, edit: str) -> None:
    columns, key, query = ALTERED[edit]
    job = table.job
    job.run(table.text(SUMS, "k INT, n BIGINT"))
    job.add((1, 12, "a", 13), (4, 5, "b", 14))
    edited = table.text(query, columns, key)
    assert consent(job, edited) == ["STA019"]
    assert table.rows("k, n") == Counter([(1, 2), (2, 1), (3, 1)])
    assert job.run(edited, accept=ALTER, parallelism=3) == "exhausted"
    assert [d.code for d in job.warnings] == ["STA017"]
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    assert table.rows(names) == answer(job, edited)
    job.add((1, 13, "c", 15), (5, 5, "b", 16))
    assert job.run(edited) == "exhausted"
    assert not job.warnings
    assert table.rows(names) == answer(job, edited)


@pytest.mark.sampled(5, each_value=False)
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("edit", ["a column more", "another key and query", "no key"])
def test_a_run_that_is_cut_off_while_it_alters_a_table(table: Table, edit: str, point: str) -> None:
    columns, key, query = ALTERED[edit]
    job = table.job
    job.run(table.text(SUMS, "k INT, n BIGINT"))
    job.add((1, 12, "a", 13), (4, 5, "b", 14))
    edited = table.text(query, columns, key)
    with pytest.raises(Crash):
        job.run(edited, accept=ALTER, faults=crash_at(point, 2))
    job.run(edited, accept=ALTER, parallelism=1)
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    assert table.rows(names) == answer(job, edited)


def test_the_old_query_again_after_the_edit_was_cut_off(table: Table) -> None:
    columns, key, query = ALTERED["a column more"]
    job, old = table.job, table.text(SUMS, "k INT, n BIGINT")
    job.run(old)
    with pytest.raises(Crash):
        job.run(table.text(query, columns, key), accept=ALTER, faults=crash_at("prepared", 2))
    job.add((1, 12, "a", 13))
    job.run(old)
    assert table.rows() == answer(job, old)


def test_columns_and_rows_of_others_stay(table: Table) -> None:
    """What somebody else keeps beside the sink's columns is not lost when the table is altered."""
    job = table.job
    job.run(table.text(SUMS, "k INT, n BIGINT"))
    table.sql("ALTER TABLE o ADD COLUMN note VARCHAR(20)")
    table.sql("UPDATE o SET note = 'mine' WHERE k = 1")
    edited = table.text("SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k", "k INT, n BIGINT, m BIGINT")
    job.run(edited, accept=ALTER)
    assert table.rows("k, note") == Counter([(1, "mine"), (2, None), (3, None)])
    assert table.rows("k, n, m") == answer(job, edited)


def test_a_column_that_is_left_out_is_null(table: Table) -> None:
    """In all rows, those that change later too; what somebody else keeps beside it stays."""
    job = table.job
    more = table.text("SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k", "k INT, n BIGINT, m BIGINT")
    edited = table.text(SUMS, "k INT, n BIGINT")
    job.run(more)
    table.sql("ALTER TABLE o ADD COLUMN note VARCHAR(20)")
    table.sql("UPDATE o SET note = 'mine' WHERE k = 1")
    job.run(edited, accept=ALTER)
    assert table.rows("k, m, note") == Counter([(1, None, "mine"), (2, None, None), (3, None, None)])
    assert table.rows("k, n") == answer(job, edited)
    job.add((1, 12, "a", 13), (4, 5, "b", 14))
    job.run(edited)
    assert table.rows("k, m, note") == Counter(
        [(1, None, "mine"), (2, None, None), (3, None, None), (4, None, None)]
    )
    assert table.rows("k, n") == answer(job, edited)
    job.run(more, accept=ALTER)
    assert table.rows("k, n, m") == answer(job, more)


def test_a_column_that_was_left_out_and_dropped_by_hand(table: Table) -> None:
    job = table.job
    job.run(table.text("SELECT k, COUNT(*), SUM(v) FROM t GROUP BY k", "k INT, n BIGINT, m BIGINT"))
    table.sql("ALTER TABLE o DROP COLUMN m")
    edited = table.text(SUMS, "k INT, n BIGINT")
    job.run(edited, accept=ALTER)
    assert table.rows() == answer(job, edited)


def test_a_narrower_column_is_refused(table: Table) -> None:
    job = table.job
    job.run(table.text(SUMS, "k INT, n BIGINT"))
    [told] = job.refused(table.text("SELECT k, CAST(COUNT(*) AS INT) FROM t GROUP BY k", "k INT, n INT"))
    assert told.code == "STA015"
    assert "its column `n` was BIGINT and is INTEGER" in told.notes
    assert "--rewrite o" in (told.help or "")
    assert told.span is not None


ROWS = "SELECT k, v FROM t"


@pytest.mark.sampled(3, each_value=False)
@pytest.mark.parametrize("point", [None, *POINTS])
def test_a_table_that_is_appended_to_gets_columns(table: Table, point: str | None) -> None:
    job = table.job
    job.run(table.text(ROWS, "k INT, n BIGINT", ""))
    job.add((7, 12, "x", 13))
    edited = table.text("SELECT k, v * 2, s FROM t", "k INT, n BIGINT, s STRING", "")
    assert consent(job, edited) == ["STA019"]
    if point is not None:
        with pytest.raises(Crash):
            job.run(edited, accept=ALTER, faults=crash_at(point, 2))
    job.run(edited, accept=ALTER)
    assert point is not None or [d.code for d in job.warnings] == ["STA016"]
    first = [(1, 10, None), (1, 11, None), (2, 20, None), (3, 30, None)]
    assert table.rows("k, n, s") == Counter([*first, (7, 24, "x")])
    less = table.text("SELECT s FROM t", "s STRING", "")
    job.add((8, 12, "y", 14))
    job.run(less, accept=["alter:all"])
    assert table.rows("k, n, s") == Counter([*first, (7, 24, "x"), (None, None, "y")])


@pytest.mark.sampled(2, each_value=False)
def test_a_wider_column_of_a_table_that_is_appended_to(table: Table) -> None:
    job = table.job
    job.run(table.text("SELECT k, CAST(v AS INT) FROM t", "k INT, n INT", ""))
    edited = table.text("SELECT k, v * 1000000000 FROM t", "k INT, n BIGINT", "")
    job.add((7, 12, "x", 13))
    job.run(edited, accept=ALTER)
    assert table.rows("k, n") == Counter([(1, 10), (1, 11), (2, 20), (3, 30), (7, 12_000_000_000)])


#: Queries of (k, n) of which one gives each row once.
DISTINCT = {
    "DISTINCT added": ("SELECT k, v FROM t", "SELECT DISTINCT k, v FROM t"),
    "DISTINCT removed": ("SELECT DISTINCT k, v FROM t", "SELECT k, v FROM t"),
    "DISTINCT around other rows": (
        "SELECT DISTINCT k, v FROM t",
        "SELECT DISTINCT k, v + 1 FROM t WHERE k > 1",
    ),
    "UNION ALL": ("SELECT k, v FROM t UNION SELECT 1, 10", "SELECT k, v FROM t UNION ALL SELECT 1, 10"),
    "GROUP BY of all columns": ("SELECT k, v FROM t", "SELECT k, v FROM t GROUP BY k, v"),
}


@pytest.mark.sampled(6, each_value=False)
@pytest.mark.parametrize("point", [None, "prepared", "published"])
@pytest.mark.parametrize("edit", DISTINCT)
def test_rows_that_are_given_once_are_replaced_with_consent(
    table: Table, edit: str, point: str | None
) -> None:
    job = table.job
    was, now = (table.text(query, "k INT, n BIGINT", "") for query in DISTINCT[edit])
    job.add((1, 10, "a", 1))  # twice
    job.run(was)
    job.add((1, 11, "a", 13), (9, 1, "a", 13), (9, 1, "a", 14))
    assert consent(job, now) == ["STA019"]
    assert not table.sql("SELECT 1 FROM o WHERE k = 9"), "nothing is changed"
    if point is not None:
        with pytest.raises(Crash):
            job.run(now, accept=ALTER, faults=crash_at(point, 2))
    job.run(now, accept=ALTER)
    assert table.rows("k, n") == answer(job, now)
    job.add((1, 10, "a", 13), (5, 1, "a", 13))
    job.run(now)
    assert table.rows("k, n") == answer(job, now)


@pytest.mark.parametrize(
    ("columns", "key", "query"),
    [
        ("k INT, n BIGINT", "n", "SELECT k, v + 1 FROM t ON CONFLICT DO NOTHING"),
        ("k INT, n BIGINT", "", "SELECT k, v + 1 FROM t"),
    ],
)
@pytest.mark.sampled(2, each_value=False)
def test_a_table_of_first_rows_is_altered_with_consent(
    table: Table, columns: str, key: str, query: str
) -> None:
    job = table.job
    job.run(table.text("SELECT k, v FROM t ON CONFLICT DO NOTHING", "k INT, n BIGINT"))
    assert table.rows("k, n") == Counter([(1, 10), (2, 20), (3, 30)])
    job.add((1, 7, "c", 13), (4, 31, "d", 13))
    edited = table.text(query, columns, key)
    assert consent(job, edited) == ["STA019"]
    job.run(edited, accept=ALTER)
    rows = [(1, 10), (1, 11), (2, 20), (3, 30), (1, 7), (4, 31)]
    assert table.rows("k, n") == Counter((k, v + 1) for k, v in rows)


#: Queries of (k, n) into a table that is kept up to date: no column changes, and not all of a former answer is in the state,
#: or the new one only adds rows.
WITHOUT_CONSENT = {
    "rows of a key that stay": ("SELECT k, COUNT(*) FROM t GROUP BY k", "SELECT k, 7 FROM t GROUP BY k"),
    "rows in place of groups": ("SELECT k, SUM(v) FROM t GROUP BY k", "SELECT k, v FROM t"),
    "an inner join": (
        "SELECT a.k, b.v FROM t AS a LEFT JOIN (SELECT * FROM t WHERE v > 11) AS b ON a.k = b.k",
        "SELECT a.k, b.v FROM t AS a JOIN (SELECT * FROM t WHERE v > 11) AS b ON a.k = b.k",
    ),
    "rows beside groups": (
        "SELECT k, SUM(v) FROM t GROUP BY k UNION ALL SELECT k, v FROM t",
        "SELECT k, SUM(v) FROM t GROUP BY k UNION ALL SELECT k, v + 1 FROM t",
    ),
}


@pytest.mark.parametrize("edit", WITHOUT_CONSENT)
@pytest.mark.sampled(2, each_value=False)
def test_an_answer_is_given_anew_without_consent_where_no_column_changes(table: Table, edit: str) -> None:
    job = table.job
    was, now = (
        table.text(query, "k INT, n BIGINT", "k" if "a key" in edit else "")
        for query in WITHOUT_CONSENT[edit]
    )
    job.run(was)
    assert table.rows("k, n") == answer(job, was)
    job.add((1, 11, "a", 13), (9, 1, "a", 13))
    job.run(now)
    assert [d.code for d in job.warnings] == ["STA017"]
    assert table.rows("k, n") == answer(job, now)
    job.add((1, 10, "a", 13), (5, 1, "a", 13))
    job.run(now)
    assert table.rows("k, n") == answer(job, now)


def test_windows_in_a_table_get_a_column_from_a_window_on(table: Table) -> None:
    job = table.job
    windows = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
    query = f"SELECT window_end, k, {{}} FROM {windows} GROUP BY window_start, window_end, k"
    columns = "w TIMESTAMP(3), k INT, n BIGINT"
    job.add((5, 1, "x", 21), (6, 1, "x", 31))
    job.run(table.text(query.format("COUNT(*)"), columns, "w, k"), max_epochs=4, rows_per_epoch=1)
    given = table.rows("k, n")
    assert given == Counter([(1, 2)])
    edited = table.text(query.format("COUNT(*), MAX(v)"), f"{columns}, m BIGINT", "w, k")
    job.run(edited, accept=ALTER)
    assert table.rows("k, n, m") == Counter([(1, 2, None), (2, 1, 20), (3, 1, 30), (5, 1, 1), (6, 1, 1)])


def test_a_column_that_may_not_be_null_is_not_left_out(table: Table) -> None:
    job = table.job
    job.run(table.text(ROWS, "k INT, n BIGINT", ""))
    table.sql("ALTER TABLE o ALTER COLUMN n SET NOT NULL")
    job.add((7, 12, "x", 13))
    with pytest.raises(DiagnosticError) as caught:
        job.run(table.text("SELECT k FROM t", "k INT", ""), accept=ALTER)
    assert "NOT NULL" in str(caught.value)
    job.run(table.text(ROWS, "k INT, n BIGINT", ""))
    assert (7, 12) in table.rows()


# --------------------------------------------------------------------------------------------- names and places


@pytest.mark.parametrize("sink", [DUCK + ", 'table-name' = 'o'", CHANGES], ids=["a table", "a changelog"])
def test_a_table_of_another_name_in_the_same_place_goes_on(tmp_path: Path, sink: str) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (2, 20, "a", 11))
    text = COUNTS.replace("{sink}", sink)
    job.run(text)
    for name in ("p", "q", "o"):
        job.add((1, 12, "a", 13))
        renamed = text.replace("TABLE o", f"TABLE {name}").replace("INTO o", f"INTO {name}")
        assert job.run(renamed) == "exhausted"
        assert not job.warnings
        job.run(renamed)
    if sink is not CHANGES:
        assert job.table("SELECT k, n FROM o") == Counter([(1, 4), (2, 1)])
    else:
        assert len(job.lines()) == 2 + 3 * 2


def test_a_table_of_another_name_and_query_is_brought_to_it(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (2, 20, "a", 11))
    text = COUNTS.replace("{sink}", DUCK + ", 'table-name' = 'o'")
    job.run(text)
    edited = text.replace("COUNT(*) FROM", "COUNT(*) * 10 FROM").replace("TABLE o", "TABLE p")
    edited = edited.replace("INTO o", "INTO p")
    for point in ("planned", "prepared", "published"):
        with pytest.raises(Crash):
            job.run(edited, faults=crash_at(point, 2))
    job.run(edited)
    assert job.table() == Counter([(1, 10), (2, 10)])
    job.run(text)
    assert job.table() == Counter([(1, 1), (2, 1)])


PLACES = {
    "another table": DUCK + ", 'table-name' = 'p'",
    "another file": DUCK.replace("out.duckdb", "out2.duckdb"),
    "a changelog": CHANGES,
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_kept_up_to_date_gets_its_whole_answer_in_another_place(tmp_path: Path, place: str) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (1, 11, "b", 2), (2, 20, "a", 11))
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text)
    job.add((1, 12, "a", 13))
    edited = COUNTS.replace("{sink}", PLACES[place])
    for point in POINTS:
        with pytest.raises(Crash):
            job.run(edited, faults=crash_at(point, max(manifests(tmp_path / "state")) + 1))
    job.run(edited)
    assert job.run(edited) == "nothing new"
    if place == "another table":
        assert job.table("SELECT * FROM p") == answer(job, edited)
    elif place == "another file":
        with duckdb.connect(str(tmp_path / "out2.duckdb"), read_only=True) as con:
            assert Counter(con.execute("SELECT * FROM o").fetchall()) == answer(job, edited)
    assert job.table() == Counter([(1, 2), (2, 1)])


@pytest.mark.parametrize("old", [JSON, DUCK], ids=["files", "a table"])
@pytest.mark.parametrize(
    "new", [JSON.replace("'out'", "'out2'"), CSV.replace("'out'", "'out2'")], ids=["json", "csv"]
)
def test_rows_that_stay_need_a_word_about_another_place(tmp_path: Path, old: str, new: str) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (2, 20, "a", 11))
    job.run(PASSED.replace("{sink}", old))
    job.add((7, 12, "a", 13))
    edited = PASSED.replace("{sink}", new)
    assert consent(job, edited) == ["STA013"]
    job.run(edited, accept=["fresh:o"])
    ending = "csv" if "csv" in new else "json"
    assert len(job.lines("out2", ending)) == 1


@pytest.mark.parametrize("point", [None, *POINTS])
def test_rows_that_stay_are_given_anew_in_another_place(tmp_path: Path, point: str | None) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (2, 20, "a", 11))
    job.run(PASSED.replace("{sink}", JSON))
    job.add((7, 12, "a", 13))
    edited = PASSED.replace("{sink}", JSON.replace("'out'", "'out2'")).replace("k, v FROM", "k, v * 2 FROM")
    if point is not None:
        with pytest.raises(Crash):
            job.run(edited, rewrite=["o"], faults=crash_at(point, 2))
        job.run(edited, rewrite=["o"] if point in ("planned", "run") else [])
    else:
        job.run(edited, rewrite=["o"])
    assert job.lines("out2") == Counter(['{"k":1,"n":20}', '{"k":2,"n":40}', '{"k":7,"n":24}'])
    with pytest.raises(DiagnosticError) as caught:
        job.run(edited, rewrite=["o"])
    assert [d.code for d in caught.value.diagnostics] == ["STA026"]
    assert "without --rewrite it goes on with what it has" in str(caught.value.diagnostics[0].help)
    assert caught.value.exit_code == 4
    job.add((8, 1, "a", 14))
    job.run(edited)
    assert '{"k":8,"n":2}' in job.lines("out2")


def test_windows_that_have_closed_are_given_anew(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (2, 20, "a", 11), (1, 1, "a", 35))
    text = WINDOWED.replace("{sink}", JSON)
    job.run(text, rows_per_epoch=1)
    edited = text.replace("'out'", "'out2'").replace("COUNT(*)", "SUM(v)")
    job.add((2, 20, "a", 58))
    job.run(edited, rewrite=["o"])
    assert job.lines("out2") == Counter(list(job.batch(edited)))


@pytest.mark.parametrize("how", ["DELETE FROM o", "DROP TABLE o"])
@pytest.mark.parametrize("point", [None, *POINTS])
@pytest.mark.sampled(4, each_value=False)
def test_a_table_that_was_emptied_is_given_its_answer_again(
    table: Table, how: str, point: str | None
) -> None:
    job, text = table.job, table.text(SUMS, "k INT, n BIGINT")
    job.run(text)
    job.add((1, 12, "a", 13), (4, 5, "b", 14))
    with pytest.raises(DiagnosticError) as caught:
        job.run(text, rewrite=["o"])
    assert [d.code for d in caught.value.diagnostics] == ["STA026"]
    table.sql(how)
    if point is not None:
        with pytest.raises(Crash):
            job.run(text, rewrite=["o"], faults=crash_at(point, 2))
    job.run(text, rewrite=["o"])
    assert table.rows() == answer(job, text)
    job.add((1, 12, "a", 13))
    job.run(text)
    assert table.rows() == answer(job, text)


def test_a_folder_that_was_deleted_is_given_its_answer_again(tmp_path: Path) -> None:
    import shutil

    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (1, 11, "b", 2), (2, 20, "a", 11))
    text = COUNTS.replace("{sink}", CHANGES)
    job.run(text)
    job.add((1, 12, "a", 13))
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(DiagnosticError):
        job.run(text)
    job.run(text, rewrite=["o"])
    assert sum(job.lines().values()) == 2 + 2  # two rows from the state, then an update


def test_a_sink_to_rewrite_that_is_not_there(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1))
    text = COUNTS.replace("{sink}", DUCK)
    for _ in range(2):
        with pytest.raises(DiagnosticError) as caught:
            job.run(text, rewrite=["oo"])
        assert caught.value.exit_code == 2
        assert [d.help for d in caught.value.diagnostics] == ["did you mean `o`?"]
        job.run(text)


def test_history_that_is_gone_is_told(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1))
    job.run(PASSED.replace("{sink}", JSON))
    job.add((7, 12, "a", 13))
    (tmp_path / "in/000.json").unlink()
    edited = PASSED.replace("{sink}", JSON.replace("'out'", "'out2'"))
    with pytest.raises(DiagnosticError) as caught:
        job.run(edited, rewrite=["o"])
    assert caught.value.exit_code == 3
    assert [d.code for d in caught.value.diagnostics] == ["DAT008"]
    assert "--accept fresh:o" in str(caught.value.diagnostics[0].help)
    job.run(edited, rewrite=["o"], accept=["fresh:o"])
    assert job.lines("out2") == Counter(['{"k":7,"n":12}'])


def test_files_of_a_table_that_was_left_out_for_a_while_are_not_given_twice(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1))
    both = PASSED.replace("{sink}", JSON)
    both += f"\nCREATE TABLE q (k INT) WITH ({JSON.replace('out', 'q')});\nINSERT INTO q SELECT k FROM t;"
    without = both[: both.index("INSERT INTO o")] + both[both.index("\nCREATE TABLE q") :]
    job.run(both)
    job.add((7, 12, "a", 13))
    job.run(without)
    with pytest.raises(DiagnosticError) as caught:
        job.run(both)
    assert "has rows from before it was left out" in str(caught.value)
    with pytest.raises(DiagnosticError) as caught:
        job.run(both, rewrite=["o"])
    # Without --rewrite it does not go on: that was refused above.
    [told] = caught.value.diagnostics
    assert (told.code, told.help) == ("STA026", "empty it, or name another place; nothing was changed")
    assert job.lines() == Counter(['{"k":1,"n":10}'])
