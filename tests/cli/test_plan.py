"""`sqlstream plan`: what it shows, how it ends, and that it changes nothing. The texts were written by hand."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream.storage.journal import Journal
from sqlstream.storage.savepoint_copies import export_savepoint
from sqlstream.storage.savepoints import Savepoints
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.properties.in_process import run_here

#: 2026-11-22 09:14 UTC.
NOW = 1_795_338_840.0

TEXT = """\
CREATE TABLE t (k INT, r STRING, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE counts (k INT, n BIGINT, s BIGINT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');
CREATE TABLE copies (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
INSERT INTO counts
SELECT
  k,
  COUNT(*),
  SUM(v)
FROM t
GROUP BY k;
INSERT INTO copies SELECT k, v FROM t;
"""
WINDOWS = """\
CREATE TABLE t (k INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE per_minute (ends TIMESTAMP(3), k INT, n BIGINT)
WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
INSERT INTO per_minute SELECT window_end, k, COUNT(*)
FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, k;
"""


def ran(folder: Path, text: str, *, state: str = ".sqlstream/p", **options: Any) -> Path:
    """A pipeline whose input was read, with its state where `run` has it: ten rows of 28 bytes in one file."""
    (folder / "in").mkdir(exist_ok=True)
    rows = (f'{{"k": {n % 3}, "r": "r{n % 2}", "v": {n}}}\n' for n in range(10))
    if "ts TIMESTAMP" in text:
        rows = (f'{{"k": {n % 3}, "ts": "2026-11-22 09:0{n}:30"}}\n' for n in range(5))
    (folder / "in/0.json").write_text("".join(rows))
    file = folder / "p.sql"
    file.write_text(text)
    planned = plan_file(file)
    run_here(planned, folder, state=state, sql=planned.masked_sql, wall_clock=lambda: NOW, **options)
    return file


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return ran(tmp_path, TEXT)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    return Printed(capsys)


class Printed:
    """Runs `plan` and gives what it says; the exit code is checked."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: object, code: int = 0) -> str:
        assert run_cli(["plan", *map(str, arguments)]) == code
        shown = self._capsys.readouterr()
        self.err = shown.err
        return shown.out


def edited(file: Path, *changes: tuple[str, str]) -> Path:
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


def test_without_a_state_all_is_read(tmp_path: Path, printed: Printed) -> None:
    file = tmp_path / "p.sql"
    file.write_text(TEXT)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.json").touch()
    assert (
        printed(file)
        == f"""\
{file} has no state yet in {tmp_path}/.sqlstream/p

  t (filesystem)       is read from its beginning
  counts (duckdb)      gets the full result
  copies (filesystem)  gets the full result

Nothing is kept yet: a run reads everything, and the result is exact.
"""
    )
    assert not (tmp_path / ".sqlstream").exists()


def test_a_first_plan_looks_at_what_a_run_reads(tmp_path: Path, printed: Printed) -> None:
    file = tmp_path / "p.sql"
    file.write_text(TEXT)
    printed(file, code=1)
    assert f"error[DAT004]: path '{tmp_path}/in' does not exist" in printed.err
    file.write_text(TEXT.replace("'json'", "'parquet'"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in/0.parquet").write_text("k,v\n")
    printed(file, code=1)
    assert "error[DAT003]" in printed.err
    assert "not a readable Parquet file" in printed.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "p.sql"]


def test_a_first_plan_waits_for_no_folder_that_is_watched(tmp_path: Path, printed: Printed) -> None:
    file = tmp_path / "p.sql"
    file.write_text(TEXT.replace("'path' = 'in'", "'path' = 'in', 'source.monitor-interval' = '1 s'"))
    assert "Nothing is kept yet" in printed(file)


def test_a_plan_looks_at_a_source_that_is_new(file: Path, printed: Printed) -> None:
    more = "CREATE TABLE u (k INT) WITH ('connector' = 'filesystem', 'path' = 'more', 'format' = 'json');\n"
    sink = "CREATE TABLE o WITH ('connector' = 'filesystem', 'path' = 'o', 'format' = 'json') AS SELECT k FROM u;\n"
    file.write_text(more + file.read_text() + sink)
    printed(file, code=1)
    assert "error[DAT004]" in printed.err
    (file.parent / "more").mkdir()
    (file.parent / "more/0.json").touch()
    assert "u (filesystem)" in printed(file)


def test_the_same_file_changes_nothing(file: Path, printed: Printed) -> None:
    expected = f"""\
{file} against its last state: epoch 1, 2026-11-22 09:14, 3 rows of state, 102 B

Nothing changes: all state is kept. The result is exact.
"""
    assert printed(file) == expected
    assert printed.err == ""
    edited(
        file,
        ("COUNT(*)", "count(*) AS c"),
        ("SUM(v)", "sum(x.v) AS total"),
        ("FROM t\nGROUP", "FROM t AS x\nGROUP"),
    )
    assert printed(file) == expected


def test_what_is_kept_computed_anew_and_dropped(file: Path, printed: Printed) -> None:
    shown = printed(edited(file, ("SUM(v)", "MAX(v)")))
    lines = shown.splitlines()
    assert lines[2:6] == [
        "  t (filesystem)                  reads on at file 1, offset 0; 10 rows read",
        "  group_aggregate_1: groups by k  3 rows, 102 B                                                p.sql:11:10",
        "    = k, count of rows            KEEP",
        "    + max of v                    BACKFILL  it was not kept; reads 10 rows of t (280 B) again  p.sql:9:3",
    ]
    assert lines[6:9] == [
        "    - sum of v                    DROP",
        "  counts (duckdb)                 reconciled with the new result                               p.sql:6:1",
        "  copies (filesystem)             goes on",
    ]
    assert lines[-1] == "2 fields kept, 1 backfilled, 1 dropped. The result is exact."
    assert "warning[STA017]: the table `counts` is reconciled with the result of another query" in printed.err
    assert "= note: its column `s` was cast(sum(v) as BIGINT) and is max(v)" in printed.err


def test_a_state_that_nothing_needs_is_dropped_whole(file: Path, printed: Printed) -> None:
    text = TEXT[: TEXT.index("INSERT INTO counts")] + TEXT[TEXT.index("INSERT INTO copies") :]
    file.write_text(
        text.replace(text[text.index("CREATE TABLE counts") : text.index("CREATE TABLE copies")], "")
    )
    assert printed(file).splitlines()[2:] == [
        "  t (filesystem)                    reads on at file 1, offset 0; 10 rows read",
        "  - group_aggregate_1: groups by k  DROP      3 rows, 102 B; stays in savepoints",
        "  copies (filesystem)               goes on",
        "  counts (duckdb)                   no longer written: what it has stays",
        "",
        "3 fields dropped. The result is exact.",
    ]


def test_rows_that_stay_as_they_were_given_are_told_of(file: Path, printed: Printed) -> None:
    shown = printed(edited(file, ("SELECT k, v FROM", "SELECT k, v + 1 FROM")))
    assert "  copies (filesystem)             the new query from the next row on  p.sql:12:20\n" in shown
    assert shown.endswith(
        "3 fields kept. `copies` has the new query from the next row on; rows that it has stay as they are.\n"
    )
    assert "warning[STA016]" in printed.err


def test_windows_that_close_later_are_by_the_new_query(tmp_path: Path, printed: Printed) -> None:
    """The row of the fourth epoch is of 09:03:30, so that its watermark is 09:03:25."""
    file = ran(tmp_path, WINDOWS, rows_per_epoch=1, max_epochs=4)
    shown = printed(edited(file, ("COUNT(*)", "COUNT(*) * 2")))
    assert "the new query in windows that end after 2026-11-22 09:03:00 " in shown
    assert "  window_aggregate_1: TUMBLE window of 1 minute by k" in shown
    text = file.read_text()
    file.write_text(text[:-2] + "\nUNION ALL SELECT ts, k, 0 FROM t;\n")
    assert "the new query from the next row on" in printed(file)


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        (
            "'path' = 'in'",
            "'path' = 'other'",
            "STA011",
            "has other data than before\n",
        ),
        (
            "'path' = 'out', 'format' = 'json'",
            "'path' = 'out', 'format' = 'csv'",
            "STA015",
            "  copies (filesystem)             refused: STA015",
        ),
    ],
)
def test_what_a_run_refuses_is_refused(
    old: str, new: str, code: str, line: str, file: Path, printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = printed(edited(file, (old, new)), code=4)
    assert line in shown
    assert shown.endswith("Refused: 1 error.\n")
    assert f"error[{code}]" in printed.err
    assert run_cli(["run", str(file)]) == 4
    assert f"error[{code}]" in capsys.readouterr().err


def test_a_sink_that_begins_elsewhere(
    file: Path, printed: Printed, capsys: pytest.CaptureFixture[str]
) -> None:
    edited(file, ("'path' = 'out',", "'path' = 'out2',"))
    shown = printed(file, code=3)
    assert "  copies (filesystem)             only what is read from now on  p.sql:4:14\n" in shown
    assert "to agree, give `run` --accept fresh:copies" in shown
    assert "--rewrite copies" in printed.err
    assert run_cli(["run", str(file)]) == 3
    assert "error[STA013]" in capsys.readouterr().err
    shown = printed(file, "--rewrite", "copies")
    assert "gets the full result: reads 10 rows of t (280 B) again for it" in shown
    assert shown.endswith("The result is exact.\n")


def test_a_source_that_is_new_or_gone(file: Path, printed: Printed) -> None:
    text = TEXT.replace(
        "INSERT INTO copies SELECT k, v FROM t", "INSERT INTO copies SELECT k, v FROM u"
    ).replace(
        "CREATE TABLE counts",
        "CREATE TABLE u (k INT, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '5');\n"
        "CREATE TABLE counts",
    )
    file.write_text(text)
    shown = printed(file)
    assert "  u (datagen)                     is read from its beginning: it was not read before\n" in shown


def test_a_table_that_is_called_otherwise_reads_on(file: Path, printed: Printed) -> None:
    edited(
        file,
        ("CREATE TABLE t ", "CREATE TABLE events "),
        ("FROM t\n", "FROM events\n"),
        ("FROM t;", "FROM events;"),
    )
    assert json.loads(printed(file, "--json"))["sources"] == [
        {
            "name": "events",
            "connector": "filesystem",
            "change": "reads on",
            "was": "t",
            "position": {"segments": 1, "file": 1, "offset": 0},
            "rows": 10,
        }
    ]


def test_history_that_is_gone_asks_for_consent(file: Path, printed: Printed) -> None:
    (file.parent / "in/0.json").unlink()
    (file.parent / "in/1.json").write_text('{"k": 1, "r": "r1", "v": 1}\n')
    shown = printed(edited(file, ("SUM(v)", "MAX(v)")), code=3)
    assert "    + max of v                    FRESH     it begins now" in shown
    assert (
        "consent is needed: max of v can't be computed from the input again; to let it begin now, give `run` "
        "--accept fresh:group_aggregate_1\n" in shown
    )
    assert shown.endswith("Not exact: max of v of `group_aggregate_1` only from now on.\n")
    assert "warning[DAT008]: source `t` can't be read again: " in printed.err
    assert "0.json is gone" in printed.err
    data = json.loads(printed(file, "--json", code=3))
    assert [consent["accept"] for consent in data["consents"]] == ["fresh:group_aggregate_1"]
    assert data["exact"] is False
    assert data["exit_code"] == 3


def test_what_was_consented_to_is_not_asked_for(file: Path, printed: Printed) -> None:
    (file.parent / "in/0.json").unlink()
    edited(file, ("SUM(v)", "MAX(v)"))
    for word, fragment in (
        ("fresh:group_aggregat", "did you mean 'group_aggregate_1'?"),
        ("fresh:xyz", "there are counts, copies, group_aggregate_1, and all"),
        ("alter:group_aggregate_1", "the pipeline has no sink 'group_aggregate_1'"),
        ("fresh", "--accept 'fresh' is not fresh:NAME, alter:NAME or lost:NAME"),
    ):
        printed(file, "--accept", word, code=2)
        assert fragment in printed.err
    for accept in ("fresh:group_aggregate_1", "fresh:all"):
        shown = printed(file, "--accept", accept)
        assert "    + max of v                    FRESH     it begins now" in shown
        assert "consent is needed" not in shown
        assert shown.endswith("Not exact: max of v of `group_aggregate_1` only from now on.\n")


def test_a_source_that_was_left_out_for_a_while(file: Path, printed: Printed) -> None:
    """It is told of once, and reads on where it was when it comes back."""
    other = "CREATE TABLE u (k INT, v BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '5');\n"
    file.write_text(other + TEXT.replace("FROM t", "FROM u"))
    assert "is no longer read\n" in printed(file)
    planned = plan_file(file)
    run_here(planned, file.parent, state=".sqlstream/p", sql=planned.masked_sql, accept=("fresh:all",))
    assert printed(file).endswith("\nNothing changes: all state is kept. The result is exact.\n")
    file.write_text(TEXT)
    assert "reads on at file 1, offset 0; 10 rows read\n" in printed(file)


def test_history_that_nothing_needs_may_be_gone(file: Path, printed: Printed) -> None:
    (file.parent / "in/0.json").unlink()
    assert printed(edited(file, ("COUNT(*)", "COUNT(*) * 2"))).endswith(
        "3 fields kept. The result is exact.\n"
    )


def test_json(file: Path, printed: Printed) -> None:
    data = json.loads(printed(edited(file, ("SUM(v)", "MAX(v)"), ("k, v FROM", "k, v + 1 FROM")), "--json"))
    assert data["file"] == str(file)
    assert data["against"] == {
        "state_dir": str(file.parent / ".sqlstream/p"),
        "epoch": 1,
        "savepoint": None,
        "at": int(NOW * 1e6),
        "rows": 3,
        "bytes": 102,
    }
    assert (data["changes"], data["exact"], data["exit_code"]) == (True, False, 0)
    [state] = data["states"]
    assert (state["name"], state["title"], state["verdict"]) == (
        "group_aggregate_1",
        "groups by k",
        "BACKFILL",
    )
    assert state["reads"] == [{"source": "t", "rows": 10, "bytes": 280, "seconds": None}]
    assert {(f["verdict"], f["part"], f["meaning"]) for f in state["fields"]} == {
        ("KEEP", "key", "k"),
        ("KEEP", "value", "count of rows"),
        ("BACKFILL", "value", "max of v"),
        ("DROP", "value", "sum of v"),
    }
    assert [(s["name"], s["change"]) for s in data["sinks"]] == [
        ("counts", "reconciled with the new result"),
        ("copies", "from now on"),
    ]
    assert data["counts"] == {"KEEP": 2, "BACKFILL": 1, "DROP": 1}
    assert [warning["code"] for warning in data["warnings"]] == ["STA017", "STA016"]


def test_two_files_are_compared_without_a_state(tmp_path: Path, printed: Printed) -> None:
    old, new = tmp_path / "old.sql", tmp_path / "new.sql"
    old.write_text(TEXT)
    new.write_text(TEXT.replace("SUM(v)", "MAX(v)"))
    assert printed("--diff", old, new).splitlines()[:6] == [
        f"{new} against {old}",
        "",
        "  t (filesystem)                  reads on",
        "  group_aggregate_1: groups by k                                            new.sql:11:10",
        "    = k, count of rows            KEEP",
        "    + max of v                    BACKFILL  it was not kept; reads t again  new.sql:9:3",
    ]
    assert (
        printed("--diff", old, old).splitlines()[-1]
        == "Nothing changes: all state is kept. The result is exact."
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.sql", "old.sql"]
    new.write_text(TEXT.replace("'path' = 'in'", "'path' = 'other'"))
    printed("--diff", old, new, code=4)
    assert "error[STA011]" in printed.err


@pytest.mark.parametrize("path", ["./in", "{here}/in", "in/"])
def test_a_path_in_other_words_is_no_other_data_of_two_files(
    path: str, tmp_path: Path, printed: Printed
) -> None:
    """Relative paths of both files are those of the new one; the folder need not be there."""
    old, new = tmp_path / "former/old.sql", tmp_path / "new.sql"
    old.parent.mkdir()
    old.write_text(TEXT)
    changed = TEXT.replace("'path' = 'in'", f"'path' = '{path.format(here=tmp_path)}'")
    changed = re.sub("'path' = '(out[^']*)'", f"'path' = '{tmp_path}/\\1'", changed)
    assert changed != TEXT
    new.write_text(changed)
    assert "Nothing changes: all state is kept." in printed("--diff", old, new)
    new.write_text(changed.replace("SUM(v)", "MAX(v)"))
    assert "+ max of v                    BACKFILL" in printed("--diff", old, new)


def test_states_of_joins_are_told_in_the_querys_names(tmp_path: Path, printed: Printed) -> None:
    """Also where a file has no header, so that a column's place is all that its identity has."""
    old, new = tmp_path / "old.sql", tmp_path / "new.sql"
    files = "WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv', 'csv.header' = 'false');"
    text = (
        f"CREATE TABLE orders (id INT, customer INT, price INT) {files.format('o')}\n"
        f"CREATE TABLE customers (cust INT, region INT, name STRING) {files.format('c')}\n"
        f"CREATE TABLE regions (rid INT, title STRING) {files.format('r')}\n"
        "CREATE TABLE out (title STRING, name STRING, s BIGINT, PRIMARY KEY (title, name) NOT ENFORCED)\n"
        "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
        "INSERT INTO out SELECT title, name, SUM(price)\n"
        "FROM orders JOIN customers ON customer = cust JOIN regions ON region = rid GROUP BY title, name;\n"
    )
    old.write_text(text)
    new.write_text(text.replace("SUM(price)", "MAX(price)"))
    lines = printed("--diff", old, new).splitlines()
    shown = " ".join(" ".join(lines).split())
    assert "join_1: inner join by customer " in shown
    assert "= customer, " in shown
    assert "join_2: inner join by region " in shown
    assert "group_aggregate_1: groups by title, name " in shown
    assert "reads orders, customers and regions again" in shown
    assert set(re.findall(r"(?:\w+ of )?column \d", shown)) == {"max of column 3", "sum of column 3"}


def test_variables_are_those_of_both_files(tmp_path: Path, printed: Printed) -> None:
    old, new = tmp_path / "old.sql", tmp_path / "new.sql"
    old.write_text(TEXT.replace("FROM t\n", "FROM t WHERE v > {{ var('least') }}\n"))
    new.write_text(TEXT.replace("FROM t\n", "FROM t WHERE {{ var('least') }} < v\n"))
    assert "Nothing changes" in printed("--diff", old, new, "--var", "least=3")
    new.write_text(TEXT.replace("FROM t\n", "FROM t WHERE 4 < v\n"))
    assert "BACKFILL" in printed("--diff", old, new, "--var", "least=3")


def test_against_savepoints(file: Path, printed: Printed) -> None:
    """By name, of another state directory, and exported: each sink is new then, and gets what the state has."""
    state = CheckpointStore(file.parent / ".sqlstream/p")
    made = Savepoints(state).create("before")
    export_savepoint(state, made, CheckpointStore(file.parent / "copy"))
    edited(file, ("COUNT(*)", "COUNT(*) * 2"))
    printed(file, "--from", "before", "--state-dir", file.parent / "new", code=4)
    assert "the table of `counts` was written with another state directory" in printed.err
    assert "the directory of `copies` was written with another state directory" in printed.err
    file.write_text(file.read_text().replace("'out", "'new_out"))
    for savepoint in ("before", f"{file.parent}/.sqlstream/p@before", f"{file.parent}/copy/"):
        shown = printed(file, "--from", savepoint, "--state-dir", file.parent / "new").splitlines()
        assert shown[0].startswith(f"{file} against savepoint before: epoch 1, ")
        assert shown[2:] == [
            "  t (filesystem)                  reads on at file 1, offset 0; 10 rows read",
            "  group_aggregate_1: groups by k  3 rows, 102 B  p.sql:11:10",
            "    = k, sum of v, count of rows  KEEP",
            "  counts (duckdb)                 gets the full result: from the state, before new input",
            "  copies (filesystem)             only what comes after the savepoint",
            "",
            "3 fields kept. `copies` has only what comes after the savepoint.",
        ]
    assert printed(file, "--from", "before") != ""
    printed(file, "--from", "befor", code=2)
    assert "did you mean `before`?" in printed.err


def test_a_state_directory_that_has_another_state(file: Path, printed: Printed) -> None:
    Savepoints(CheckpointStore(file.parent / ".sqlstream/p")).create("before")
    shutil.copytree(file.parent / ".sqlstream/p", file.parent / "other")
    printed(file, "--from", "before", "--state-dir", file.parent / "other", code=4)
    assert "error[SAV006]" in printed.err


def test_an_answer_that_no_savepoint_has(tmp_path: Path, printed: Printed) -> None:
    changes = """
CREATE TABLE changes (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'log', 'format' = 'debezium-json');
INSERT INTO changes SELECT k, v FROM t UNION ALL SELECT k, COUNT(*) FROM t GROUP BY k;
"""
    file = ran(tmp_path, TEXT + changes)
    Savepoints(CheckpointStore(tmp_path / ".sqlstream/p")).create("before")
    file.write_text(file.read_text().replace("'out", "'new_out").replace("'log'", "'new_log'"))
    shown = printed(file, "--from", "before", "--state-dir", tmp_path / "new", code=4)
    assert "refused: SAV007\n" in shown
    assert "error[SAV007]" in printed.err


@pytest.mark.parametrize(
    ("change", "is_reported"),
    [
        (("INTERVAL '5' SECOND", "INTERVAL '15' SECOND"), True),
        (("INTERVAL '5' SECOND", "interval '5' second"), False),
    ],
)
def test_another_watermark_is_told_of(
    change: tuple[str, str], is_reported: bool, tmp_path: Path, printed: Printed
) -> None:
    file = ran(tmp_path, WINDOWS)
    shown = printed(edited(file, change))
    note = "the watermark of t is computed in another way: it never goes back, emitted windows stay\n"
    assert (note in shown) == is_reported
    assert ("Nothing changes" in shown) != is_reported


def test_key_groups_are_told_of(file: Path, printed: Printed) -> None:
    file.write_text(TEXT + "SET 'pipeline.max-parallelism' = '64';\n")
    assert "  max-parallelism was 128 and is 64: every key goes to its new key group\n" in printed(file)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["{folder}/wrong.sql"], 1, "error[SQL"),
        (["{folder}/none.sql"], 2, "does not exist"),
        (["--diff", "{folder}/wrong.sql", "{file}"], 1, "error[SQL"),
        (["--diff", "{file}", "{file}", "--from", "x"], 2, "leave --from, --state-dir,"),
        (["{file}", "--from", "x"], 2, "there is no savepoint `x`"),
    ],
)
def test_mistakes(arguments: list[str], code: int, message: str, file: Path, printed: Printed) -> None:
    (file.parent / "wrong.sql").write_text(TEXT.replace("SUM(v)", "SUM(w)"))
    assert printed(*(a.format(folder=file.parent, file=file) for a in arguments), code=code) == ""
    assert message in printed.err


def test_nothing_is_written_and_nothing_heavy_is_loaded(file: Path) -> None:
    """Not even where a backfill looks whether the history is there: these imports would be half of the time. What it takes
    to look at the tables themselves is loaded where there are any.

    The first run of all asks DuckDB for types and keeps the answers (ADR 18); it is the second that is looked at.
    """
    edited(file, ("SUM(v)", "MAX(v)"))
    before = {path: path.stat().st_mtime_ns for path in file.parent.rglob("*")}
    script = (
        "import sys; from sqlstream.cli.main import run_cli; "
        f"code = run_cli(['plan', {str(file)!r}]); "
        "heavy = {'pyspark', 'pandas', 'rocksdict'}; "
        "print(sorted(heavy & sys.modules.keys()), code)"
    )
    subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[] 0", done.stderr
    assert "BACKFILL" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in file.parent.rglob("*")} == before


def test_groups_that_are_rolled_up(tmp_path: Path, printed: Printed) -> None:
    text = TEXT.replace("counts (k INT, n", "counts (k INT, r STRING, n").replace("KEY (k)", "KEY (k, r)")
    file = ran(tmp_path, text.replace("  k,\n", "  k, r,\n").replace("BY k", "BY k, r"))
    file.write_text(text.replace("  k,\n", "  k, upper(r),\n").replace("BY k", "BY k, upper(r)"))
    data = json.loads(printed(file, "--json"))
    [state] = data["states"]
    assert (state["verdict"], state["place"]) == (
        "ADAPT",
        {"file": str(file), "line": 11, "column": 10, "length": 11},
    )
    assert {f["meaning"]: f["verdict"] for f in state["fields"]}["count of rows"] == "ADAPT"
    assert data["exact"] is True
    shown = printed(file)
    assert "ADAPT     rolled up" in shown
    assert (
        f"""
  --> {file}:11:10
   |
11 | GROUP BY k, upper(r);
   |          ^^^^^^^^^^^ k, upper(r), sum of v, count of rows: ADAPT

4 fields adapted, 1 dropped. The result is exact.
"""
        in shown
    )


def test_colours_are_for_terminals(file: Path, printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    edited(file, ("SUM(v)", "MAX(v)"))
    assert "\x1b[" not in printed(file)
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = printed(file)
    assert "\n\x1b[31m    - sum of v                    DROP\x1b[0m\n" in shown
    assert shown.endswith("\n\x1b[1m2 fields kept, 1 backfilled, 1 dropped. The result is exact.\x1b[0m\n")


def test_passwords_in_the_file_are_not_shown(tmp_path: Path, printed: Printed) -> None:
    """The line of a clause may have one: an INSERT behind a CREATE TABLE."""
    table = "CREATE TABLE o (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'postgres', "
    table += "'url' = 'postgresql://me:hush@host/db', 'table-name' = 'o');"
    source = TEXT.splitlines()[0]
    old, new = tmp_path / "old.sql", tmp_path / "new.sql"
    old.write_text(f"{source}\n{table} INSERT INTO o SELECT k, SUM(v) FROM t GROUP BY k;\n")
    new.write_text(f"{source}\n{table} INSERT INTO o SELECT k, MAX(v) FROM t GROUP BY k;\n")
    shown = printed("--diff", old, new)
    assert "^^^^^^ max of v: BACKFILL" in shown
    assert "hush" not in shown + printed.err


def test_a_state_of_which_nothing_was_committed(tmp_path: Path, printed: Printed) -> None:
    """Its sinks get everything, also what a state that had been read into would not have."""
    file = ran(tmp_path, TEXT + "SET 'table.exec.state.ttl' = '1 d';\n", max_epochs=0)
    planned = plan_file(file)
    store = CheckpointStore(tmp_path / ".sqlstream/p")

    def give_up(step: str, epoch: int) -> None:
        if step == "planned":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql, faults=give_up)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql, parallelism=1, max_epochs=0)
    [epoch] = Journal(store).epochs()[1]
    assert Journal(store).manifest(epoch).void
    shown = printed(file)
    assert "  counts (duckdb)                     gets the full result\n" in shown
    assert "SAV007" not in shown + printed.err


def test_how_long_reading_again_takes(tmp_path: Path, printed: Printed) -> None:
    """As the last epoch tells, which is large enough."""
    file = ran(tmp_path, TEXT)
    (tmp_path / "in/1.json").write_text(
        "".join(f'{{"k": {n % 3}, "r": "x", "v": {n}}}\n' for n in range(20_000))
    )
    planned = plan_file(file)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
    edited(file, ("SUM(v)", "MAX(v)"))
    manifest = Journal(CheckpointStore(tmp_path / ".sqlstream/p")).manifest(2)
    assert manifest.metrics["epoch_us"] > 0
    [state] = json.loads(printed(file, "--json"))["states"]
    rate = 20_000 / manifest.metrics["epoch_us"] * 1e6
    assert state["reads"][0]["seconds"] == pytest.approx(20_010 / rate, abs=0.06)


def test_a_long_time_is_said(file: Path, printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.runtime.edits.plan.edit_plan.speed_of", lambda manifest: 0.05)
    edited(file, ("SUM(v)", "MAX(v)"))
    assert "it was not kept; reads 10 rows of t (280 B) again, about 3 min  p.sql:9:3\n" in printed(file)


def test_the_graph_of_an_edit_has_the_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = ran(tmp_path, TEXT)
    file.write_text(TEXT.replace("SUM(v)", "MAX(v)"))
    run_cli(["plan", str(file), "--state-dir", str(tmp_path / ".sqlstream/p"), "--graph"])
    drawn, _, _ = capsys.readouterr().out.partition("\n\n")
    lines = drawn.split("\n")
    assert [line.split("  ")[0] for line in lines] == ["▷", "├─╮", "│ ■", "│", "●", "■"]
    operator = next(line for line in lines if line.startswith("●"))
    assert "group_aggregate_1: group aggregate  BACKFILL  p.sql:11:10" in operator


def test_a_graph_is_coloured_on_request_and_says_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ran(tmp_path, TEXT)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for command in (["plan", "--graph"], ["explain"]):
        run_cli([*command, str(file)])
        plain = capsys.readouterr().out
        with monkeypatch.context() as context:
            context.setenv("FORCE_COLOR", "1")
            run_cli([*command, str(file)])
        coloured = capsys.readouterr().out
        assert "\x1b[" in coloured
        assert "\x1b[" not in plain
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain
