"""Edits of a pipeline and its sinks: what can't be given exactly is refused with exit code 4, and nothing is changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.properties.in_process import run_here
from tests.properties.updating import batch_of
from tests.runtime.support import Crash, crash_at, manifests

T = """CREATE TABLE t (k INT, v BIGINT, s STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
"""
KEYED = T + "CREATE TABLE o (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({sink});\n"
DUCK = "'connector' = 'duckdb', 'path' = 'out.duckdb'"
CHANGES = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json'"
JSON = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'json'"
CSV = "'connector' = 'filesystem', 'path' = 'out', 'format' = 'csv'"
WINDOWS = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND))"


@dataclass
class Job:
    """A pipeline whose text is edited between runs over one state directory; each run reads one more file."""

    folder: Path
    warnings: list[Diagnostic] = field(default_factory=list)
    files: int = 0

    def add(self, *rows: tuple[int, int, str, int], folder: str = "in") -> None:
        path = self.folder / folder / f"{self.files:03d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = (
            {"k": k, "v": v, "s": s, "ts": f"2024-01-01 00:{second // 60:02d}:{second % 60:02d}"}
            for k, v, s, second in rows
        )
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.files += 1

    def run(self, text: str, **options: Any) -> str:
        (self.folder / "p.sql").write_text(text)
        planned = plan_file(self.folder / "p.sql")
        self.warnings.clear()
        result = run_here(
            planned,
            self.folder,
            sql=planned.masked_sql,
            written=planned.written,
            tell=self.warnings.append,
            **options,
        )
        return result.outcome

    def refused(self, text: str) -> Sequence[Diagnostic]:
        """What is said of an edit that is refused before anything is changed."""
        before = self.contents()
        with pytest.raises(DiagnosticError) as caught:
            self.run(text)
        assert caught.value.exit_code == 4
        assert self.contents() == before
        assert not self.warnings
        return caught.value.diagnostics

    def required_consents(self, text: str) -> Sequence[Diagnostic]:
        """What a run asks consent for before anything is changed."""
        before = self.contents()
        with pytest.raises(DiagnosticError) as caught:
            self.run(text)
        assert caught.value.exit_code == 3
        assert self.contents() == before
        return caught.value.diagnostics

    def contents(self) -> dict[str, bytes]:
        """All files but the pipeline's own."""
        files = (p for p in self.folder.rglob("*") if p.is_file() and p.name != "p.sql")
        return {str(p): p.read_bytes() for p in files if "cache" not in p.parts}

    def table(self, sql: str = "SELECT * FROM o") -> Counter[tuple[Any, ...]]:
        with duckdb.connect(str(self.folder / "out.duckdb"), read_only=True) as con:
            return Counter(con.execute(sql).fetchall())

    def batch(self, text: str) -> dict[str, int]:
        """DuckDB's rows of a query over all input, as lines of JSON, each with the end of its window in µs."""
        (self.folder / "p.sql").write_text(text)
        script = to_duckdb(
            plan_file(self.folder / "p.sql"), lambda _: sorted(map(str, (self.folder / "in").glob("*")))
        )
        rows = batch_of(script)
        return {
            json.dumps({"w": str(w), "k": k, "n": n}, separators=(",", ":")): round(
                w.replace(tzinfo=UTC).timestamp() * 1_000_000
            )
            for w, k, n in rows
        }

    def batch_rows(self) -> list[tuple[int, int]]:
        """The columns `k` and `v` of all input."""
        lines = (line for f in sorted((self.folder / "in").glob("*")) for line in f.read_text().splitlines())
        return [(row["k"], row["v"]) for row in map(json.loads, lines)]

    def lines(self, folder: str = "out", ending: str = "json") -> Counter[str]:
        files = (self.folder / folder).glob(f"*.{ending}")
        return Counter(line for file in files for line in file.read_text().splitlines())


@pytest.fixture
def job(tmp_path: Path) -> Job:
    found = Job(tmp_path)
    found.add((1, 10, "a", 1), (1, 11, "b", 2), (2, 20, "a", 11), (3, 30, "c", 12))
    return found


COUNTS = KEYED + "INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k;"
#: Edits of COUNTS that keep its state and change the answer that the table holds: the old and the new one are in the state.
BROUGHT = {
    "the projection": ("COUNT(*) FROM", "COUNT(*) * 10 FROM"),
    "another projection": ("COUNT(*) FROM", "COUNT(*) + 1 FROM"),
    "another column": ("COUNT(*) FROM", "COUNT(*) - k FROM"),
    "a new HAVING": ("BY k;", "BY k HAVING COUNT(*) > 1;"),
    "a condition on a key": ("BY k;", "BY k HAVING k <> 2;"),
    "a filter around": (
        "SELECT k, COUNT(*) FROM t GROUP BY k",
        "SELECT * FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) AS q WHERE n < 2",
    ),
    "a condition that is always met": ("BY k;", "BY k HAVING COUNT(*) > 0;"),
}
#: Edits of COUNTS that keep its state and change the table, and the code that refuses them where it can't be altered.
OTHER_ANSWERS = {
    "a column is renamed": ("n BIGINT", "total BIGINT", "STA015"),
    "a column has another type": ("n BIGINT", "n DECIMAL(20, 0)", "STA015"),
    "a column is wider": ("(k INT, n", "(k BIGINT, n", "STA015"),
    "no PRIMARY KEY": (", PRIMARY KEY (k) NOT ENFORCED", "", "STA015"),
    "another PRIMARY KEY": ("PRIMARY KEY (k)", "PRIMARY KEY (k, n)", "STA015"),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("edit", "sink"),
    [*((edit, CHANGES) for edit in OTHER_ANSWERS), ("a column has another type", DUCK)],
)
def test_what_holds_an_answer_goes_on_with_it_alone(job: Job, edit: str, sink: str) -> None:
    before, after, code = OTHER_ANSWERS[edit]
    text = COUNTS.replace("{sink}", sink)
    assert before in text
    edited = text.replace(before, after)
    job.run(text)
    job.add((1, 12, "a", 13), (4, 1, "x", 14))
    reported = job.refused(edited)
    assert [d.code for d in reported] == [code]
    assert all("o" in d.message and d.help and d.notes for d in reported)
    assert not any("Something else" in str(d) for d in reported)
    assert job.run(text) == "exhausted"
    if sink is DUCK:
        assert job.table() == Counter([(1, 3), (2, 1), (3, 1), (4, 1)])


def answer(job: Job, text: str) -> Counter[tuple[Any, ...]]:
    """What DuckDB says of the query of the first INSERT over all input."""
    query = text[text.index("INSERT INTO o") :].partition(";")[0].removeprefix("INSERT INTO o")
    with duckdb.connect() as con:
        con.execute(f"CREATE VIEW t AS SELECT * FROM read_json('{job.folder}/in/*.json')")
        return Counter(con.execute(query).fetchall())


def held(job: Job, sink: str) -> Counter[tuple[Any, ...]]:
    """What a reader of the sink has by now: the rows of the table, or what the messages add up to."""
    if sink is DUCK:
        return job.table("SELECT k, n FROM o")
    rows: Counter[tuple[Any, ...]] = Counter()
    for file in sorted((job.folder / "out").glob("*.json")):
        for line in file.read_text().splitlines():
            message = json.loads(line)
            key = (message["data"]["k"], message["data"]["n"])
            rows[key] += 1 if message["op"] in ("INSERT", "+I", "UPDATE_AFTER", "+U") else -1
            assert rows[key] >= 0, f"{file.name} takes back a row that was not given: {line}"
    return +rows


@pytest.mark.sampled(6, each_value=False)
@pytest.mark.parametrize("edit", BROUGHT)
@pytest.mark.parametrize("sink", [DUCK, CHANGES], ids=["a table", "a changelog"])
@pytest.mark.parametrize("more", [True, False], ids=["with input", "without input"])
def test_what_holds_an_answer_is_brought_to_that_of_an_edited_query(
    job: Job, edit: str, sink: str, more: bool
) -> None:
    text = COUNTS.replace("{sink}", sink)
    edited = text.replace(*BROUGHT[edit])
    assert edited != text
    job.run(text)
    for now, shards in ((edited, 2), (text, 3), (edited, 1)):
        if more:
            job.add((1, 12, "a", 13), (4, 1, "x", 14))
        assert job.run(now, parallelism=shards) == "exhausted"
        assert [(d.code, d.severity) for d in job.warnings] == [("STA017", "warning")]
        assert held(job, sink) == answer(job, now)
        assert job.run(now) == "nothing new"
        assert not job.warnings


def test_the_same_query_in_other_words_goes_on_with_state_and_sink(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK).replace("FROM t", "FROM t WHERE k > 1")
    other = text.replace("k > 1", "k >= 2 AND TRUE").replace("COUNT(*)", "COUNT(1)")
    job.run(text)
    for now in (other, text, other):
        job.add((1, 12, "a", 13), (4, 1, "x", 14))
        job.run(now)
        assert not job.warnings
        assert held(job, DUCK) == answer(job, now)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", ["planned", "run", "prepared", "published", "committed"])
@pytest.mark.parametrize("sink", [DUCK, CHANGES], ids=["a table", "a changelog"])
def test_a_run_that_is_cut_off_while_it_brings_a_sink_to_another_answer(
    job: Job, point: str, sink: str
) -> None:
    text = COUNTS.replace("{sink}", sink)
    edited = text.replace(*BROUGHT["a new HAVING"]).replace(*BROUGHT["the projection"])
    job.run(text)
    job.add((1, 12, "a", 13), (4, 1, "x", 14))
    with pytest.raises(Crash):
        job.run(edited, faults=crash_at(point, 2))
    job.run(edited)
    assert held(job, sink) == answer(job, edited)
    job.add((4, 12, "a", 13))
    job.run(edited)
    assert held(job, sink) == answer(job, edited)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", ["planned", "prepared", "published"])
def test_the_old_query_again_after_the_edited_one_was_cut_off(job: Job, point: str) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    edited = text.replace(*BROUGHT["the projection"])
    job.run(text)
    with pytest.raises(Crash):
        job.run(edited, faults=crash_at(point, 2))
    job.add((1, 12, "a", 13), (4, 1, "x", 14))
    job.run(text)
    assert held(job, DUCK) == answer(job, text)


def test_a_second_query_into_one_table(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK).replace("BY k;", "BY k ON CONFLICT DO ERROR;")
    job.run(text)
    more = f"{text} INSERT INTO o SELECT k + 100, COUNT(*) FROM t GROUP BY k ON CONFLICT DO ERROR;"
    job.run(more)
    [reported] = job.warnings
    assert (reported.code, reported.message) == ("STA017", "the table `o` gets the full result anew")
    assert job.table() == Counter([(1, 2), (2, 1), (3, 1), (101, 2), (102, 1), (103, 1)])


def test_the_refusal_says_what_differs_and_where(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text)
    job.run(text.replace("COUNT(*) FROM t GROUP BY k", "COUNT(*) * 10 FROM t GROUP BY k HAVING COUNT(*) > 2"))
    [reported] = job.warnings
    assert reported.message == "the table `o` is reconciled with the result of another query"
    assert "its rows must meet the condition count(rows) > 2" in reported.notes
    assert any("its column `n` was count(rows) and is count(rows) * 10" in note for note in reported.notes)
    assert reported.span is not None
    assert (Path(reported.span.file).name, reported.span.line) == ("p.sql", 4)
    [reported] = job.refused(text.replace("n BIGINT", "n INT"))
    assert reported.notes[0] == "its column `n` was BIGINT and is INTEGER"
    assert reported.span is not None
    assert reported.span.line == 3


#: Edits of COUNTS that change nothing that its sink holds.
SAME_ANSWERS = {
    "formatting and comments": ("SELECT k, COUNT(*)", "/* all */ select K,\n  count( * ) -- here\n  "),
    "an alias": (
        "k, COUNT(*) FROM t GROUP BY k",
        "q.k AS key, COUNT(*) AS how_many FROM t AS q GROUP BY q.k",
    ),
    "a view": ("INSERT INTO o", "CREATE VIEW w AS SELECT k, s FROM t;\nINSERT INTO o"),
    "through a view": (
        "INSERT INTO o SELECT k, COUNT(*) FROM t",
        "CREATE VIEW w AS SELECT k AS kk FROM t;\nINSERT INTO o SELECT kk AS k, COUNT(*) FROM w",
    ),
    "a sub-query around": (
        "SELECT k, COUNT(*) FROM t GROUP BY k",
        "SELECT a, b FROM (SELECT k AS a, COUNT(*) AS b FROM t GROUP BY k) AS q",
    ),
    "a list of columns": ("INTO o SELECT k, COUNT(*)", "INTO o (n, k) SELECT COUNT(*), k"),
    "the columns of the table in another order": ("(k INT, n BIGINT,", "(n BIGINT, k INT,"),
    "how many tasks": ("INSERT INTO o", "SET 'execution.max-rows-per-epoch' = '7';\nINSERT INTO o"),
    "a source column that is not read": ("s STRING,", "s STRING, unread STRING,"),
    "the source has another name": ("", ""),
}


@pytest.mark.sampled(4, each_value=False)
@pytest.mark.parametrize("edit", SAME_ANSWERS)
@pytest.mark.parametrize("sink", [DUCK, CHANGES], ids=["a table", "a changelog"])
def test_what_means_the_same_goes_on_without_a_word(job: Job, edit: str, sink: str) -> None:
    text = COUNTS.replace("{sink}", sink)
    edited = text.replace(*SAME_ANSWERS[edit])
    if "another name" in edit:
        edited = text.replace("TABLE t", "TABLE u").replace("FROM t", "FROM u")
    if "another order" in edit:
        edited = edited.replace("SELECT k, COUNT(*)", "SELECT COUNT(*), k")
    assert edited != text
    job.run(text)
    job.add((1, 12, "a", 13), (4, 1, "x", 14))
    assert job.run(edited) == "exhausted"
    assert not job.warnings
    if sink is DUCK:
        assert job.table("SELECT k, n FROM o") == Counter([(1, 3), (2, 1), (3, 1), (4, 1)])
    job.add((2, 12, "a", 15))
    job.run(text)


TWO = T + (
    "CREATE TABLE a (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
    "CREATE TABLE b (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
    "INSERT INTO a SELECT k, COUNT(*) FROM t GROUP BY k;\nINSERT INTO b SELECT k, SUM(v) FROM t GROUP BY k;"
)


def test_two_sinks_swap_their_queries(job: Job) -> None:
    job.run(TWO)
    job.add((1, 12, "a", 13))
    job.run(TWO.replace("INTO a", "INTO x").replace("INTO b", "INTO a").replace("INTO x", "INTO b"))
    assert sorted(d.message for d in job.warnings) == [
        "the table `a` is reconciled with the result of another query",
        "the table `b` is reconciled with the result of another query",
    ]
    assert job.table("SELECT * FROM b") == Counter([(1, 3), (2, 1), (3, 1)])
    assert job.table("SELECT * FROM a") == Counter([(1, 33), (2, 20), (3, 30)])
    reordered = TWO.split("INSERT")
    job.run("INSERT".join([reordered[0], reordered[2] + "\n", reordered[1]]))
    assert len(job.warnings) == 2
    assert job.table("SELECT * FROM a") == Counter([(1, 3), (2, 1), (3, 1)])
    assert job.table("SELECT * FROM b") == Counter([(1, 33), (2, 20), (3, 30)])


def test_one_sink_of_two_is_edited(job: Job) -> None:
    """The other one is given nothing by the epoch that brings the first to its answer."""
    text = TWO.replace("'connector' = 'duckdb', 'path' = 'out.duckdb');\nINSERT", f"{CHANGES});\nINSERT")
    assert text != TWO
    job.run(text)
    lines = job.lines()
    job.run(text.replace("COUNT(*) FROM", "COUNT(*) * 7 FROM"))
    assert job.table("SELECT * FROM a") == Counter([(1, 14), (2, 7), (3, 7)])
    assert job.lines() == lines


@pytest.mark.sampled(2)
@pytest.mark.parametrize("format_", ["changelog-json", "debezium-json"])
@pytest.mark.parametrize("point", [None, "run", "prepared", "published"])
def test_a_changelog_gets_columns(job: Job, format_: str, point: str | None) -> None:
    """Messages of before stay without it, and are taken back as they are: a reader of all of them has the new answer."""
    text = COUNTS.replace("{sink}", CHANGES.replace("changelog-json", format_))
    more = text.replace("n BIGINT", "n BIGINT, m BIGINT").replace("COUNT(*) FROM", "COUNT(*), SUM(v) FROM")
    job.run(text)
    job.add((1, 12, "a", 13), (4, 1, "x", 14))
    if point is not None:
        with pytest.raises(Crash):
            job.run(more, faults=crash_at(point, 2))
    job.run(more)
    if point is None:
        assert [(d.code, d.severity) for d in job.warnings] == [("STA017", "warning")]
        assert "its column `m` BIGINT is new" in job.warnings[0].notes
    job.add((2, 5, "b", 15))
    job.run(more)
    rows: Counter[str] = Counter()
    for file in sorted((job.folder / "out").glob("*.json")):
        for line in file.read_text().splitlines():
            message = json.loads(line)
            if format_ == "changelog-json":
                given = [(message["data"], message["op"] in ("INSERT", "+I", "UPDATE_AFTER", "+U"))]
            else:
                given = [(message.get("before"), False), (message.get("after"), True)]
            for row, comes in given:
                if row is not None:
                    rows[json.dumps(row, sort_keys=True)] += 1 if comes else -1
                    assert rows[json.dumps(row, sort_keys=True)] >= 0, "what was not given is taken back"
    assert {tuple(json.loads(row).values()): n for row, n in rows.items() if n} == dict.fromkeys(
        [(1, 33, 3), (2, 25, 2), (3, 30, 1), (4, 1, 1)], 1
    )


def test_an_answer_that_is_not_all_in_the_state_can_not_be_changed(job: Job) -> None:
    text = KEYED.replace("{sink}", CHANGES).replace(", PRIMARY KEY (k) NOT ENFORCED", "")
    text += "INSERT INTO o SELECT k, COUNT(*) FROM t GROUP BY k UNION ALL SELECT k, v FROM t;"
    job.run(text)
    [reported] = job.refused(text.replace("COUNT(*) FROM", "COUNT(*) * 10 FROM"))
    assert reported.code == "STA014"


def test_conflicts_that_two_sinks_swap(job: Job) -> None:
    text = TWO.replace("SELECT k, COUNT(*) FROM t GROUP BY k", "SELECT k, v FROM t ON CONFLICT DO NOTHING")
    text = text.replace("SELECT k, SUM(v) FROM t GROUP BY k", "SELECT k, v FROM t ON CONFLICT DO DEDUPLICATE")
    job.run(text)
    swapped = text.replace("NOTHING", "X").replace("DEDUPLICATE", "NOTHING").replace("X", "DEDUPLICATE")
    reported = job.required_consents(swapped)
    assert {d.code for d in reported} == {"STA019"}
    assert "ON CONFLICT was NOTHING and is DEDUPLICATE" in reported[0].notes
    job.run(swapped, accept=["alter:all"])
    assert job.table("SELECT * FROM a") == Counter([(1, 11), (2, 20), (3, 30)])
    assert job.table("SELECT * FROM b") == Counter([(1, 10), (2, 20), (3, 30)])


def test_a_new_sink_on_state_that_was_kept_is_given_its_whole_answer(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text)
    table = f"CREATE TABLE p (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({DUCK});\nINSERT"
    more = text.replace("INSERT", table, 1) + "\nINSERT INTO p SELECT k, COUNT(*) + 1 FROM t GROUP BY k;"
    job.add((1, 12, "a", 13))
    for point, epoch in (("planned", 2), ("prepared", 2), ("published", 2)):
        with pytest.raises(Crash):
            job.run(more, faults=crash_at(point, epoch))
    job.run(more)
    assert not job.warnings  # the epoch that gave it was published by then
    assert job.table() == Counter([(1, 3), (2, 1), (3, 1)])
    assert job.table("SELECT * FROM p") == Counter([(1, 4), (2, 2), (3, 2)])
    job.add((2, 12, "a", 13))
    job.run(more)
    assert job.table("SELECT * FROM p") == Counter([(1, 4), (2, 3), (3, 2)])


def test_a_new_sink_is_told_of(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text)
    table = f"CREATE TABLE p (k INT, n BIGINT) WITH ({CHANGES});\nINSERT"
    job.run(text.replace("INSERT", table, 1) + "\nINSERT INTO p SELECT k, COUNT(*) FROM t GROUP BY k;")
    assert [(d.code, d.message) for d in job.warnings] == [("STA017", "the table `p` is new")]


def test_a_new_sink_whose_answer_is_not_kept_is_given_what_was_read(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text, rows_per_epoch=1)
    rows = f"CREATE TABLE p (k INT, v BIGINT) WITH ({JSON});\nINSERT"
    kept = f"CREATE TABLE q (k INT, v BIGINT) WITH ({DUCK});\nINSERT"
    more = text.replace("INSERT", rows, 1).replace("INSERT", kept, 1)
    more += "\nINSERT INTO p SELECT k, v FROM t;\nINSERT INTO q SELECT k, v FROM t WHERE k > 1;"
    job.add((1, 12, "a", 13))
    at = max(manifests(job.folder / "state")) + 1
    for point in ("planned", "prepared", "published"):
        with pytest.raises(Crash):
            job.run(more, faults=crash_at(point, at))
    job.run(more)
    assert job.lines() == Counter(
        json.dumps({"k": k, "v": v}, separators=(",", ":")) for k, v in job.batch_rows()
    )
    assert job.table("SELECT * FROM q") == Counter(row for row in job.batch_rows() if row[0] > 1)


def test_new_windows_are_given_those_that_have_closed(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text)
    windows = (
        WINDOWED.removeprefix(T)
        .replace("{sink}", JSON)
        .replace("TABLE o", "TABLE w")
        .replace("INTO o", "INTO w")
    )
    job.add((1, 12, "a", 33), (1, 2, "a", 95))
    job.run(text + "\n" + windows)
    assert [(d.code, d.message) for d in job.warnings] == [
        ("STA017", "the table `w` is new, and gets the history of the sources")
    ]
    assert job.lines() == Counter(list(job.batch(WINDOWED.replace("{sink}", JSON))))


def test_a_new_sink_may_begin_now(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text)
    more = text.replace("INSERT", f"CREATE TABLE p (k INT, v BIGINT) WITH ({JSON});\nINSERT", 1)
    job.add((9, 12, "a", 13))
    job.run(f"{more}\nINSERT INTO p SELECT k, v FROM t;", accept=["fresh:p"])
    assert [d.code for d in job.warnings] == ["STA016"]
    assert job.lines() == Counter(['{"k":9,"v":12}'])


def test_a_sink_that_was_left_out_is_given_its_answer_once_it_is_empty(job: Job) -> None:
    text = TWO.replace("SUM(v)", "COUNT(*)")
    without = text[: text.index("INSERT INTO b")]
    job.run(text)
    job.add((1, 12, "a", 13))
    job.run(without)
    with pytest.raises(DiagnosticError) as caught:
        job.run(text)
    assert "has rows from before it was left out" in str(caught.value)
    with duckdb.connect(str(job.folder / "out.duckdb")) as con:
        con.execute("DROP TABLE b")
    job.run(text)
    assert job.table("SELECT * FROM b") == job.table("SELECT * FROM a")


def test_what_was_never_given_anything_may_have_any_query(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    with pytest.raises(Crash):
        job.run(text, faults=crash_at("prepared", 1))
    job.run(text.replace("COUNT(*) FROM", "COUNT(*) + 1 FROM"), parallelism=3, max_epochs=0)
    assert job.run(text.replace("COUNT(*) FROM", "COUNT(*) * 10 FROM")) == "exhausted"
    assert job.table() == Counter([(1, 20), (2, 10), (3, 10)])


def test_a_savepoint_is_the_way_to_the_new_answer(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    edited = text.replace("n BIGINT", "n BIGINT, m BIGINT").replace("COUNT(*) FROM", "COUNT(*) * 10, 7 FROM")
    job.run(text)
    store = CheckpointStore(str(job.folder / "state"), sync=False)
    origin = Origin(store, Savepoints(store).create("cut"))
    job.add((1, 12, "a", 13))
    job.run(edited.replace("out.duckdb", "new.duckdb"), state="fork", origin=origin)
    with duckdb.connect(str(job.folder / "new.duckdb"), read_only=True) as con:
        assert Counter(con.execute("SELECT * FROM o").fetchall()) == Counter(
            [(1, 30, 7), (2, 10, 7), (3, 10, 7)]
        )
    again = job.run(edited.replace("out.duckdb", "new.duckdb"), state="fork", origin=origin)
    assert again == "nothing new"
    with pytest.raises(DiagnosticError) as caught:
        job.run(text.replace("out.duckdb", "new.duckdb"), state="fork", origin=origin)
    assert [d.code for d in caught.value.diagnostics] == ["STA019"]


# ------------------------------------------------------------------------------- rows that are only appended

WINDOWED = T + (
    "CREATE TABLE o (w TIMESTAMP(3), k INT, n BIGINT) WITH ({sink});\n"
    f"INSERT INTO o SELECT window_end, k, COUNT(*) FROM {WINDOWS} GROUP BY window_start, window_end, k;"
)
PASSED = T + "CREATE TABLE o (k INT, n BIGINT) WITH ({sink});\nINSERT INTO o SELECT k, v FROM t;"


def test_a_run_from_a_savepoint_that_writes_a_sink_anew_can_be_said_again(job: Job) -> None:
    text = WINDOWED.replace("{sink}", JSON)
    job.run(text)
    given = job.lines()
    store = CheckpointStore(str(job.folder / "state"), sync=False)
    origin = Origin(store, Savepoints(store).create("cut"))
    moved = text.replace("'path' = 'out'", "'path' = 'new'")
    job.run(text.replace("'path' = 'out'", "'path' = 'other'"), state="other", origin=origin, max_epochs=0)
    assert [(d.code, d.help) for d in job.warnings] == [
        ("STA016", "to have all of it here, run with --rewrite o")
    ]
    options: dict[str, Any] = {"state": "fork", "origin": origin, "rewrite": ["o"]}
    with pytest.raises(Crash):
        job.run(moved, faults=crash_at("prepared", origin.savepoint.manifest.epoch + 2), **options)
    job.run(moved, **options)
    assert job.lines("new") == given
    assert job.run(moved, **options) == "nothing new"
    job.add((1, 12, "a", 45))
    assert job.run(moved, **options) == "exhausted"
    assert job.lines("new") > given


def test_a_table_that_another_state_directory_writes_is_named_as_such(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text)
    store = CheckpointStore(str(job.folder / "state"), sync=False)
    origin = Origin(store, Savepoints(store).create("cut"))
    for _ in range(2):
        with pytest.raises(DiagnosticError, match="was written with another state directory"):
            job.run(text, state="fork", origin=origin)
    assert job.table() == Counter([(1, 2), (2, 1), (3, 1)])


def test_windows_that_close_later_are_given_by_the_query_as_it_is_then(job: Job) -> None:
    text = WINDOWED.replace("{sink}", JSON)
    job.add((5, 1, "x", 21), (6, 1, "x", 31))
    job.run(text, max_epochs=4, rows_per_epoch=1)
    first = job.lines()
    assert first == Counter(['{"w":"2024-01-01 00:00:10","k":1,"n":2}'])
    job.run(text.replace("COUNT(*) FROM", "COUNT(*) * 100 FROM"))
    [reported] = job.warnings
    assert (reported.code, reported.severity) == ("STA016", "warning")
    assert reported.message == "the table `o` gets the rows of another query from now on"
    assert any("its column `n` was count(rows) and is count(rows) * 10" in note for note in reported.notes)
    closed = ((2, 20), (3, 20), (5, 30), (6, 40))
    later = Counter(f'{{"w":"2024-01-01 00:00:{end}","k":{k},"n":100}}' for k, end in closed)
    assert job.lines() == first + later
    assert job.run(text.replace("COUNT(*) FROM", "COUNT(*) * 100 FROM")) == "nothing new"
    assert not job.warnings


KINDS = {
    "TUMBLE": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)",
    "HOP": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '15' SECOND)",
    "CUMULATE": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '20' SECOND)",
}
ABOVE = {
    "a projection": "SELECT window_end, k, n * 10 + k AS n FROM ({q}) AS q",
    "a filter": "SELECT * FROM ({q}) AS q WHERE n > 1",
    "both": "SELECT window_end, k + 1 AS k, n FROM ({q}) AS q WHERE k <> 2",
    "the keys of another view": "SELECT window_end, CAST(n AS INT) AS k, CAST(k AS BIGINT) AS n FROM ({q}) AS q",
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("epochs", [5, 9])
def test_each_window_is_whole_and_by_one_query(job: Job, kind: str, above: str, epochs: int) -> None:
    """What closed before the edit is the old query's, what closes later the new one's, as DuckDB has it over all rows."""
    query = (
        f"SELECT window_end, k, COUNT(*) AS n FROM TABLE({KINDS[kind]}) GROUP BY window_start, window_end, k"
    )
    text = T + f"CREATE TABLE o (w TIMESTAMP(3), k INT, n BIGINT) WITH ({JSON});\nINSERT INTO o "
    old, new = f"{text}{query};", f"{text}{ABOVE[above].replace('{q}', query)};"
    job.add(*((n % 3, n, "a", 3 * n) for n in range(5, 15)))
    job.run(old, max_epochs=epochs, rows_per_epoch=1)
    closed = closed_up_to(job)
    assert job.lines() == Counter(row for row, end in job.batch(old).items() if end <= closed)
    job.run(new)
    assert [d.code for d in job.warnings] == ["STA016"]
    expected = [row for row, end in job.batch(old).items() if end <= closed]
    expected += [row for row, end in job.batch(new).items() if end > closed]
    assert job.lines() == Counter(expected)
    assert expected


def closed_up_to(job: Job) -> int:
    """The end of the last window that is closed, µs."""
    last = max(manifests(job.folder / "state").items())[1]
    return int(last["sources"][0]["applied"]) + 1000


@pytest.mark.parametrize(
    ("old", "new"),
    [("SELECT k, v FROM t", "SELECT k, v * 2 FROM t"), ("FROM t;", "FROM t WHERE v > 11;")],
    ids=["projection", "filter"],
)
def test_rows_that_are_read_later_are_given_by_the_query_as_it_is_then(job: Job, old: str, new: str) -> None:
    text = PASSED.replace("{sink}", JSON)
    job.run(text)
    first = job.lines()
    job.add((7, 12, "a", 13), (8, 9, "a", 13))
    job.run(text.replace(old, new))
    assert [d.code for d in job.warnings] == ["STA016"]
    later = {"projection": [(7, 24), (8, 18)], "filter": [(7, 12)]}["projection" if "*" in new else "filter"]
    assert job.lines() - first == Counter(f'{{"k":{k},"n":{n}}}' for k, n in later)


def test_a_row_that_is_given_once_can_not_be_given_by_another_query(job: Job) -> None:
    text = T + (
        f"CREATE TABLE o (k INT) WITH ({JSON});\n"
        "INSERT INTO o SELECT k FROM (SELECT DISTINCT k FROM t) AS d WHERE k > 1;"
    )
    job.run(text)
    job.add((1, 12, "a", 13))
    [reported] = job.refused(text.replace("k > 1", "k > 0"))
    assert reported.code == "STA014"
    assert "has rows of another query" in reported.message


def test_the_order_of_inserts_means_nothing_and_another_one_is_told_of(job: Job) -> None:
    """Two INSERTs into one table, in any order, are one query; a third is another."""
    text = PASSED.replace("{sink}", JSON) + "\nINSERT INTO o SELECT k + 10, v FROM t;"
    job.run(text)
    swapped = (
        PASSED.replace("{sink}", JSON).replace("SELECT k,", "SELECT k + 10,")
        + "\nINSERT INTO o SELECT k, v FROM t;"
    )
    job.add((7, 12, "a", 13))
    job.run(swapped)
    assert not job.warnings
    job.add((8, 12, "a", 13))
    job.run(f"{swapped}\nINSERT INTO o SELECT k + 20, v FROM t;")
    assert [d.code for d in job.warnings] == ["STA016"]
    assert set(job.lines()) >= {'{"k":28,"n":12}', '{"k":18,"n":12}', '{"k":8,"n":12}'}


MOVES = {
    "another format": (JSON, CSV),
    "another format of changes": (CHANGES, CHANGES.replace("changelog-json", "debezium-json")),
    "another delimiter": (CSV, f"{CSV}, 'csv.field-delimiter' = ';'"),
    "a header": (CSV, f"{CSV}, 'csv.header' = 'true'"),
    "times otherwise": (JSON, f"{JSON}, 'json.timestamp-format.standard' = 'ISO-8601'"),
    "NULLs otherwise": (JSON, f"{JSON}, 'json.encode.ignore-null-fields' = 'true'"),
}
#: Rows that stay, and another place to which rows go.
ELSEWHERE = {
    "another path": (JSON, JSON.replace("'out'", "'out2'")),
    "another connector": (JSON, DUCK),
    "a table is printed": (DUCK, "'connector' = 'print'"),
    "printed and then kept": ("'connector' = 'print'", JSON),
    "dropped and then kept": ("'connector' = 'blackhole'", JSON),
}


@pytest.mark.parametrize("move", MOVES)
def test_a_sink_stays_where_it_is(job: Job, move: str) -> None:
    before, after = MOVES[move]
    job.run(PASSED.replace("{sink}", before))
    job.add((7, 12, "a", 13))
    [reported] = job.refused(PASSED.replace("{sink}", after))
    assert reported.code == "STA015"
    assert reported.span is not None
    assert not (job.folder / "out2").exists()
    job.run(PASSED.replace("{sink}", before))


@pytest.mark.parametrize("move", ELSEWHERE)
def test_a_sink_begins_elsewhere_only_if_it_is_told_how(job: Job, move: str) -> None:
    before, after = ELSEWHERE[move]
    job.run(PASSED.replace("{sink}", before))
    job.add((7, 12, "a", 13))
    [reported] = job.required_consents(PASSED.replace("{sink}", after))
    assert reported.code == "STA013"
    assert "--rewrite o" in (reported.help or "")
    assert "--accept fresh:o" in (reported.help or "")
    assert reported.span is not None
    assert not (job.folder / "out2").exists()
    job.run(PASSED.replace("{sink}", before))


def test_partitions_are_where_rows_go(job: Job) -> None:
    job.run(PASSED.replace("{sink}", JSON))
    [reported] = job.refused(PASSED.replace("WITH ({sink})", f"PARTITIONED BY (k) WITH ({JSON})"))
    assert (reported.code, reported.notes[0]) == ("STA015", "partitioned_by was not set and is (k)")


STAYS = {
    "the size of files": (JSON, f"{JSON}, 'sink.rolling-policy.file-size' = '1 mb'"),
    "when files end": (JSON, f"{JSON}, 'sink.rolling-policy.rollover-interval' = '1 min'"),
    "how many tasks": (JSON, f"{JSON}, 'sink.parallelism' = '3'"),
    "what is only read": (JSON, f"{JSON}, 'json.ignore-parse-errors' = 'true'"),
    "a default that is written": (JSON, f"{JSON}, 'json.encode.ignore-null-fields' = 'false'"),
    "case": (JSON, JSON.replace("'json'", "'JSON'")),
    "the path's spelling": (JSON, JSON.replace("'out'", "'./out/'")),
    "the terminal": ("'connector' = 'print'", "'connector' = 'print', 'print-identifier' = 'x'"),
}


@pytest.mark.parametrize("change", STAYS)
def test_options_that_do_not_matter(job: Job, change: str) -> None:
    before, after = STAYS[change]
    job.run(PASSED.replace("{sink}", before))
    job.add((7, 12, "a", 13))
    job.run(PASSED.replace("{sink}", after))
    assert not job.warnings
    if before is JSON:
        assert job.lines() == Counter(
            f'{{"k":{k},"n":{n}}}' for k, n in [(1, 10), (1, 11), (2, 20), (3, 30), (7, 12)]
        )


def declared(columns: str, query: str, sink: str = JSON) -> str:
    return T + f"CREATE TABLE o ({columns}) WITH ({sink});\nINSERT INTO o SELECT {query} FROM t;"


@pytest.mark.parametrize(
    ("columns", "query", "code"),
    [
        ("k INT, n BIGINT, s STRING", "k, v, s", "STA016"),
        ("s STRING, k INT, n BIGINT", "s, k, v", "STA016"),
        ("n BIGINT, k INT", "v, k", None),
        ("k INT, total BIGINT", "k, v", "STA015"),
        ("k INT", "k", "STA015"),
        ("k BIGINT, n BIGINT", "k, v", "STA015"),
        ("k INT, n STRING", "k, CAST(v AS STRING)", "STA015"),
        ("K INT, n BIGINT", "k, v", "STA015"),
    ],
)
def test_columns_of_files_that_name_them(job: Job, columns: str, query: str, code: str | None) -> None:
    job.run(declared("k INT, n BIGINT", "k, v"))
    job.add((7, 12, "a", 13))
    edited = declared(columns, query)
    if code == "STA015":
        assert [d.code for d in job.refused(edited)] == ["STA015"]
        return
    job.run(edited)
    assert [d.code for d in job.warnings] == ([] if code is None else [code])
    assert json.loads((job.lines() - Counter(['{"k":1,"n":10}'])).popitem()[0]).keys() <= {"k", "n", "s"}


@pytest.mark.parametrize(
    ("columns", "query"), [("k INT, n BIGINT, s STRING", "k, v, s"), ("n BIGINT, k INT", "v, k")]
)
def test_columns_of_files_that_do_not(job: Job, columns: str, query: str) -> None:
    job.run(declared("k INT, n BIGINT", "k, v", CSV))
    assert [d.code for d in job.refused(declared(columns, query, CSV))] == ["STA015"]


def test_a_terminal_shows_what_it_is_given(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    job.run(T + "SELECT k, v FROM t;")
    job.add((7, 12, "a", 13))
    capsys.readouterr()
    job.run(T + "SELECT s, v, k + 1 AS j FROM t WHERE v > 11;")
    assert [d.code for d in job.warnings] == ["STA016"]
    assert "8" in capsys.readouterr().out
    job.add((8, 12, "a", 13))
    assert [d.code for d in job.refused(T + "SELECT DISTINCT s FROM t;")] == ["STA014"]


def test_changes_on_a_terminal_are_brought_to_another_query(job: Job) -> None:
    job.run(T + "SELECT k, COUNT(*) AS n FROM t GROUP BY k;")
    job.run(T + "SELECT k, COUNT(*) * 10 AS n FROM t GROUP BY k;")
    assert [d.code for d in job.warnings] == ["STA017"]


def test_rows_that_nobody_keeps_may_be_any(job: Job) -> None:
    text = COUNTS.replace("{sink}", "'connector' = 'blackhole'")
    job.run(text)
    job.add((7, 12, "a", 13))
    job.run(text.replace("COUNT(*) FROM", "COUNT(*) * 10 FROM"))
    assert not job.warnings


# ------------------------------------------------------------------------------------------- tables that move


def test_a_database_that_was_moved_with_what_it_has(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text)
    job.add((1, 12, "a", 13))
    (job.folder / "out.duckdb").rename(job.folder / "moved.duckdb")
    job.run(text.replace("out.duckdb", "moved.duckdb"))
    assert not job.warnings
    (job.folder / "moved.duckdb").rename(job.folder / "out.duckdb")
    assert job.table() == Counter([(1, 3), (2, 1), (3, 1)])


# -------------------------------------------------------------------------- states that know nothing of sinks


def forgotten(job: Job) -> None:
    """Make the state directory one that was written before sinks had identities."""
    journal = Journal(CheckpointStore(str(job.folder / "state")))
    last = journal.manifest(journal.epochs()[1][-1])
    plan = json.loads(journal.physical_plan(last.plan_digest))
    for sink in plan["sinks"]:
        del sink["identity"]
    digest = journal.put_physical_plan(json.dumps(plan).encode())
    name = f"epochs/{last.epoch:06d}.manifest.json"
    from dataclasses import replace

    (job.folder / "state" / name).write_bytes(replace(last, plan_digest=digest).to_bytes())


def test_a_state_that_does_not_say_what_its_sinks_hold(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK)
    job.run(text)
    forgotten(job)
    [reported] = job.refused(text.replace("COUNT(*) FROM", "COUNT(*) * 10 FROM"))
    assert reported.code == "STA014"
    assert "did not record" in reported.notes[0]
    [reported] = job.refused(text.replace("n BIGINT", "n INT"))
    assert reported.code == "STA015"
    assert job.run(text) == "nothing new"
    job.add((1, 12, "a", 13))
    job.run(text)
    assert job.table() == Counter([(1, 3), (2, 1), (3, 1)])
    job.run(text.replace("COUNT(*) FROM", "COUNT(*) * 10 FROM"))
    [reported] = job.warnings
    assert any("its column `n` was count(rows) and is count(rows) * 10" in note for note in reported.notes)


# ----------------------------------------------------------------------------------------- sources without state


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "edit",
    [
        ("'path' = 'in'", "'path' = 'in2'"),
        ("'path' = 'in'", "'path' = 'in/*.json'"),
        ("'in', 'format' = 'json'", "'in', 'format' = 'csv'"),
        ("'in', 'format' = 'json'", "'in', 'format' = 'json', 'json.fail-on-missing-field' = 'true'"),
        ("'in', 'format' = 'json'", "'in', 'format' = 'json', 'source.path.regex-pattern' = '.*1.json'"),
        ("'connector' = 'filesystem', 'path' = 'in', 'format' = 'json'", "'connector' = 'datagen'"),
    ],
)
@pytest.mark.parametrize("text", [PASSED.replace("{sink}", JSON), COUNTS.replace("{sink}", DUCK)])
def test_a_table_of_other_data(job: Job, text: str, edit: tuple[str, str]) -> None:
    job.run(text)
    assert edit[0] in text
    reported = job.refused(text.replace(*edit))
    assert "STA011" in [d.code for d in reported]
    assert not {"STA014", "STA015"} & {d.code for d in reported}


# ------------------------------------------------------------------------------------- what may begin now


def test_history_that_is_gone_needs_consent(job: Job) -> None:
    text = COUNTS.replace("{sink}", DUCK).replace("n BIGINT", "n BIGINT NOT NULL, m BIGINT")
    job.run(text.replace("COUNT(*) FROM", "COUNT(*), 0 FROM"))
    job.add((1, 12, "a", 13), (4, 5, "b", 14))
    (job.folder / "in" / "000.json").unlink()
    edited = text.replace("COUNT(*) FROM", "COUNT(v), MAX(v) FROM")
    before = job.table()
    with pytest.raises(DiagnosticError) as caught:
        job.run(edited)
    assert caught.value.exit_code == 3
    [reported] = caught.value.diagnostics
    assert reported.code == "DAT008"
    assert "--accept fresh:group_aggregate_1" in (reported.help or "")
    assert job.table() == before
    job.run(edited, accept=["fresh:group_aggregate_1"])
    assert job.table() == Counter([(1, 1, 12), (2, 0, None), (3, 0, None), (4, 1, 5)])


ONCE = (
    T
    + """CREATE TABLE o (k INT, s STRING{more}, PRIMARY KEY (k) NOT ENFORCED) WITH ({sink});
INSERT INTO o SELECT k, {s}{value} FROM t{where} ON CONFLICT DO NOTHING;
"""
)


@pytest.mark.parametrize("sink", [JSON, DUCK], ids=["files", "table"])
def test_rows_that_are_given_once_by_their_key_get_a_column_from_now_on(job: Job, sink: str) -> None:
    """The same rows come by both queries, so that none is missing and none comes twice."""
    before = ONCE.format(more="", value="", where="", s="s", sink=sink)
    after = ONCE.format(more=", v BIGINT", value=", v", where="", s="s", sink=sink)
    job.run(before)
    job.add((1, 99, "x", 13), (4, 40, "d", 14))
    if sink == DUCK:
        assert [d.code for d in job.required_consents(after)] == ["STA019"]
    job.run(after, accept=["alter:o"])
    assert [d.code for d in job.warnings] == ["STA016"]
    job.add((4, 41, "e", 15), (5, 50, "e", 16), (2, 7, "x", 17))
    job.run(after)
    if sink == DUCK:
        found = job.table("SELECT k, s, v FROM o")
    else:
        rows = (json.loads(line) for line in job.lines().elements())
        found = Counter((row["k"], row["s"], row.get("v")) for row in rows)
    assert found == Counter([(1, "a", None), (2, "a", None), (3, "c", None), (4, "d", 40), (5, "e", 50)])


@pytest.mark.parametrize(
    "other",
    [
        {"where": " WHERE v > 10"},  # a key that was left out, or is left out from now on
        {"where": " WHERE k <> 2"},
        {"s": "s FROM t WHERE v > 0 UNION ALL SELECT k, s"},
    ],
)
def test_other_rows_by_their_keys_are_refused(job: Job, other: dict[str, str]) -> None:
    options = {"more": "", "value": "", "where": "", "s": "s", "sink": JSON}
    job.run(ONCE.format(**options))
    assert [d.code for d in job.refused(ONCE.format(**{**options, **other}))] == ["STA014"]


def test_another_key_of_rows_that_are_given_once_is_refused(job: Job) -> None:
    text = ONCE.format(more="", value="", where="", s="s", sink=JSON)
    job.run(text)
    assert [d.code for d in job.refused(text.replace("SELECT k,", "SELECT k % 2 AS k,"))] == ["STA014"]
