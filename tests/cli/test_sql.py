"""`sqlstream sql` with -c, -f and from a pipe, over a pipeline with sources, views, sinks and state."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from tests.cli.command import Command
from tests.properties.in_process import run_here

PIPELINE = """\
CREATE TABLE orders (
  customer STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3), item AS upper(customer),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE numbers (id BIGINT, ts TIMESTAMP(3)) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1',
  'fields.id.kind' = 'sequence', 'fields.id.start' = '1', 'fields.id.end' = '1000000'
);
CREATE TABLE gone (a INT) WITH ('connector' = 'filesystem', 'path' = 'nowhere', 'format' = 'json');
CREATE TABLE "my orders" ("a b" INT) WITH ('connector' = 'filesystem', 'path' = 'quoted', 'format' = 'json');
CREATE TABLE remote (a INT PRIMARY KEY NOT ENFORCED) WITH (
  'connector' = 'postgres', 'url' = 'postgresql://me:geheim@127.0.0.1:1/db'
);
CREATE TABLE rates (currency STRING PRIMARY KEY NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'rates.duckdb');
CREATE VIEW totals AS SELECT customer, COUNT(*) AS n, SUM(amount) AS amount FROM orders GROUP BY customer;
CREATE TABLE kept (customer STRING, n BIGINT, amount DECIMAL(38, 2), PRIMARY KEY (customer) NOT ENFORCED)
WITH ('connector' = 'duckdb', 'path' = 'kept.duckdb');
CREATE TABLE written (customer STRING, amount DECIMAL(10, 2))
WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'json');
CREATE TABLE shown (n BIGINT) WITH ('connector' = 'print');
INSERT INTO kept SELECT * FROM totals;
INSERT INTO written SELECT customer, amount FROM orders;
"""
ROWS = [("ada", "12.50", "10:00:03"), ("bob", "3.00", "10:00:10"), ("ada", "7.25", "10:01:00")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    for folder in ("in", "quoted"):
        (tmp_path / folder).mkdir()
    lines = [json.dumps({"customer": c, "amount": a, "ts": f"2024-01-01 {t}"}) for c, a, t in ROWS]
    (tmp_path / "in/1.json").write_text("\n".join(lines) + "\n")
    path = tmp_path / "p.sql"
    path.write_text(PIPELINE)
    return path


@pytest.fixture
def ran(file: Path) -> Path:
    planned = plan_file(file)
    run_here(planned, file.parent, state=".sqlstream/p", sql=planned.masked_sql, parallelism=1)
    return file


def rows(sqlstream: Command, file: Path, statement: str, *more: str) -> list[str]:
    """The lines of CSV that a statement gives."""
    code, out, err = sqlstream("sql", str(file), "--format", "csv", *more, "-c", statement)
    assert code == 0, err
    return out.splitlines()


def wrong(sqlstream: Command, file: Path, statement: str, code: int = 1) -> str:
    found, _, err = sqlstream("sql", str(file), "-c", statement)
    assert found == code, err
    return err


def test_a_source_and_a_view_are_selected_from(sqlstream: Command, file: Path) -> None:
    assert rows(sqlstream, file, "SELECT customer, item FROM orders ORDER BY amount DESC") == [
        "customer,item", "ada,ADA", "ada,ADA", "bob,BOB",
    ]  # fmt: skip
    assert rows(sqlstream, file, "SELECT * FROM totals ORDER BY n") == [
        "customer,n,amount", "bob,1,3.00", "ada,2,19.75",
    ]  # fmt: skip


def test_windows_give_what_a_finished_run_gives(sqlstream: Command, file: Path) -> None:
    query = """SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end ORDER BY window_start"""
    assert rows(sqlstream, file, query) == [
        "window_start,n", "2024-01-01 10:00:00,2", "2024-01-01 10:01:00,1",
    ]  # fmt: skip


def test_sinks_have_what_is_committed_and_state_what_is_kept(sqlstream: Command, ran: Path) -> None:
    assert sorted(rows(sqlstream, ran, "SELECT * FROM kept")) == [
        "ada,2,19.75",
        "bob,1,3.00",
        "customer,n,amount",
    ]
    assert len(rows(sqlstream, ran, "SELECT * FROM written")) == 4
    assert rows(sqlstream, ran, "SELECT n FROM state.group_aggregate_1 WHERE customer = 'ada'") == ["n", "2"]
    joined = "SELECT s.n, k.n FROM state.group_aggregate_1.acc a JOIN kept k ON a.customer = k.customer, "
    joined += "state.group_aggregate_1 s WHERE s.customer = k.customer ORDER BY 1"
    assert rows(sqlstream, ran, joined) == ["n,n_2", "1,1", "2,2"]
    assert "state.group_aggregate_1,state," in rows(sqlstream, ran, "SHOW TABLES")


def test_state_that_is_not_there_is_said(sqlstream: Command, file: Path, tmp_path: Path) -> None:
    assert "error[STA020]: there is no state in" in wrong(sqlstream, file, "SELECT * FROM state.x")
    code, _, err = sqlstream("sql", "-c", "SELECT * FROM state.x")
    assert code == 1
    assert "opened without a pipeline" in err


def test_an_unknown_relation_names_those_that_are_there(sqlstream: Command, ran: Path) -> None:
    said = wrong(sqlstream, ran, "SELECT * FROM state.group_agregate_1")
    assert "error[STA024]" in said
    assert "did you mean `state.group_aggregate_1`?" in said
    assert "did you mean `state.group_aggregate_1`?" in wrong(
        sqlstream, ran, "DESCRIBE state.group_agregate_1"
    )


def test_a_sample_that_was_cut_is_said(sqlstream: Command, file: Path) -> None:
    code, out, err = sqlstream("sql", str(file), "--sample", "7", "-c", "SELECT COUNT(*) AS n FROM numbers")
    assert (code, out.split()[:2]) == (0, ["n", "7"])
    assert err == "note: `numbers` is a sample: its first 7 rows (--sample)\n"
    assert sqlstream("sql", str(file), "--sample", "3", "-c", "SELECT * FROM orders")[2] == ""


def test_dead_letters_in_a_sample_are_said(sqlstream: Command, file: Path) -> None:
    with (file.parent / "in/1.json").open("a") as out:
        out.write('{"customer": "cy", "amount": "many"}\n')
    code, out_, err = sqlstream("sql", str(file), "-c", "SELECT COUNT(*) AS n FROM orders")
    assert (code, out_.split()[:2]) == (0, ["n", "3"])
    assert "note: `orders`: 1 row that can't be read is left out" in err
    assert "1.json, line 4" in err


def test_an_empty_source_has_no_rows_and_a_missing_one_is_an_error(sqlstream: Command, file: Path) -> None:
    (file.parent / "quoted/1.json").write_text("")
    assert rows(sqlstream, file, 'SELECT "a b" FROM "my orders"') == ["a b"]
    assert "error[DAT004]" in wrong(sqlstream, file, "SELECT * FROM gone")
    assert "keeps no rows" in wrong(sqlstream, file, "SELECT * FROM shown")
    said = wrong(sqlstream, file, "SELECT * FROM remote", 5)
    assert "error[ENV006]" in said
    assert "geheim" not in said


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO shown SELECT 1", "the shell only reads: INSERT is refused"),
        (
            "CREATE TABLE x WITH ('connector' = 'print') AS SELECT 1 AS a",
            "CREATE TABLE AS would write a table",
        ),
        ("COPY orders TO 'x'", "the shell only reads: COPY is refused"),
        ("DROP TABLE orders", "is declared by the file"),
        ("SELECT nope FROM orders", "  |        ^^^^"),
        ("SHOW NONSENSE", "SHOW NONSENSE is not known"),
        ("DESCRIBE order", "did you mean `orders`?"),
        ("SELECT 'a", "this string is never closed"),
        ("SET 'no.such' = '1'", "there is no setting `no.such`"),
        ("CREATE VIEW totals AS SELECT 1", "`totals` is declared twice"),
        ("CREATE VIEW v AS SELECT nope FROM orders", "unknown column `nope`"),
        ("EXPLAIN", "EXPLAIN needs a query"),
        ("\\nix", "there is no command \\nix"),
        ("\\i nowhere.sql", "can't read `nowhere.sql`: No such file or directory"),
    ],
)
def test_mistakes(statement: str, said: str, sqlstream: Command, file: Path) -> None:
    assert said in wrong(sqlstream, file, statement)


def test_what_is_declared_is_known_to_the_next_statement(sqlstream: Command, file: Path) -> None:
    text = """CREATE VIEW best AS SELECT * FROM totals WHERE n > 1;
        CREATE TEMPORARY VIEW two AS SELECT * FROM best; SELECT customer FROM two; SHOW VIEWS LIKE 'b%'; DROP VIEW two;
        DROP VIEW IF EXISTS two; SELECT * FROM two;"""
    code, out, err = sqlstream("sql", str(file), "-c", text)
    assert code == 1
    assert [line for line in out.splitlines() if not line.startswith("(")] == [
        "created best", "created two", "customer", "ada", "name", "best", "dropped two", "there is no two",
    ]  # fmt: skip
    assert " --> -c:3:48" in err


def test_a_file_that_only_declares(sqlstream: Command, tmp_path: Path) -> None:
    declaring = tmp_path / "d.sql"
    declaring.write_text(PIPELINE.split("CREATE VIEW", 1)[0])
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text(json.dumps({"customer": "ada", "amount": "1.50"}) + "\n")
    assert rows(sqlstream, declaring, "SELECT item, amount FROM orders") == ["item,amount", "ADA,1.50"]


def test_describe_and_show(sqlstream: Command, file: Path) -> None:
    assert rows(sqlstream, file, "DESCRIBE orders")[1:] == [
        "customer,VARCHAR,true,,,",
        'amount,"DECIMAL(10,2)",true,,,',
        "ts,TIMESTAMP,true,,,ts - INTERVAL '5' SECOND",
        'item,VARCHAR,true,,AS UPPER(customer),',
    ]  # fmt: skip
    assert rows(sqlstream, file, "\\d kept")[1] == "customer,VARCHAR,false,PRI(customer),,"
    assert [line.split(",")[0] for line in rows(sqlstream, file, "DESCRIBE totals")] == [
        "name", "customer", "n", "amount",
    ]  # fmt: skip
    kinds = dict(line.split(",")[:2] for line in rows(sqlstream, file, "SHOW TABLES"))
    assert kinds == {
        "name": "kind", "orders": "source", "numbers": "source", "gone": "source", "my orders": "source",
        "remote": "source", "rates": "lookup table", "totals": "view", "kept": "sink", "written": "sink", "shown": "sink",
    }  # fmt: skip
    assert "upper,scalar,DuckDB" in rows(sqlstream, file, "SHOW FUNCTIONS LIKE 'UPP%'")
    assert "tumble,window,Flink" in rows(sqlstream, file, "\\df tumb%")
    text = sqlstream("sql", str(file), "-c", "SHOW CREATE TABLE remote")[1]
    assert "postgresql://me:***@127.0.0.1" in text
    assert sqlstream("sql", str(file), "-c", "SHOW CREATE VIEW totals")[1].startswith(
        "CREATE VIEW totals AS SELECT"
    )


def test_settings(sqlstream: Command, file: Path) -> None:
    shown = rows(sqlstream, file, "SET 'parallelism.default' = '3'; SET;")
    assert any(line.startswith("parallelism.default,3,") for line in shown)


def test_explain_is_the_plan_that_would_run(sqlstream: Command, file: Path) -> None:
    code, out, _ = sqlstream(
        "sql", str(file), "-c", "EXPLAIN SELECT customer, COUNT(*) FROM orders GROUP BY customer"
    )
    assert code == 0
    assert "group_aggregate_1" in out
    assert "unbounded: it grows" in out


def test_a_table_that_is_made_of_a_query(sqlstream: Command, file: Path) -> None:
    made = "CREATE TABLE made WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json') AS "
    made += "SELECT customer FROM orders;"
    file.write_text(PIPELINE + made)
    assert rows(sqlstream, file, "SELECT COUNT(customer) AS n FROM made") == ["n", "3"]
    assert rows(sqlstream, file, "DESCRIBE made")[1:] == ["customer,VARCHAR,true,,,"]
    plan = sqlstream("sql", str(file), "-c", "EXPLAIN SELECT customer FROM orders")[1]
    assert "sink result" in plan
    assert "sink made" not in plan


def test_a_row_that_fails_ends_the_query(sqlstream: Command, file: Path) -> None:
    said = wrong(sqlstream, file, "SELECT CAST(customer AS INT) FROM orders")
    assert "error[DAT001]: Conversion Error: Could not convert string 'ada' to INT32" in said
    assert "LINE" not in said


def test_json_and_long_results(sqlstream: Command, file: Path) -> None:
    code, out, _ = sqlstream(
        "sql", str(file), "--format", "json", "-c", "SELECT * FROM totals ORDER BY n;\n\\d totals"
    )
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    assert found[:2] == [
        {"customer": "bob", "n": 1, "amount": 3.0},
        {"customer": "ada", "n": 2, "amount": 19.75},
    ]
    assert found[2]["name"] == "customer"
    query = "SELECT id FROM numbers"
    table = sqlstream("sql", str(file), "--max-rows", "2", "-c", query)[1].splitlines()
    assert table[:3] == ["id", "1", "2"]
    assert table[3].startswith("(the first 2 rows; there are more, ")
    assert len(rows(sqlstream, file, query, "--max-rows", "2")) == 1_001


def test_expanded_rows_and_null(sqlstream: Command, file: Path) -> None:
    _, out, _ = sqlstream("sql", str(file), "-c", "\\x\nSELECT 1 AS one, CAST(NULL AS STRING) AS nothing")
    assert out.splitlines()[1:4] == ["-- row 1", "one      1", "nothing  NULL"]


def test_a_script_stops_at_its_first_error_and_names_its_place(
    sqlstream: Command, file: Path, tmp_path: Path
) -> None:
    script = tmp_path / "s.sql"
    script.write_text("SELECT 1 AS a;\n\n-- a comment; of its own\nSELECT\n  nope FROM orders;\nSELECT 2;\n")
    code, out, err = sqlstream("sql", str(file), "--format", "csv", "-f", str(script))
    assert (code, out) == (1, "a\n1\n")
    assert f" --> {script}:5:3" in err
    code, out, _ = sqlstream("sql", "-c", f"\\i {script}")
    assert code == 1
    assert sqlstream("sql", "-c", "SELECT 1", "-f", str(script))[0] == 2


def test_without_a_file_tables_are_typed(
    sqlstream: Command, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    text = "CREATE TABLE t (customer STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(text + "SELECT COUNT(*) AS n\nFROM t"))
    code, out, err = sqlstream("sql", "--format", "csv")
    assert (code, out, err) == (0, "created t\nn\n3\n", "")


def test_a_file_with_mistakes(sqlstream: Command, file: Path) -> None:
    file.write_text(PIPELINE + "INSERT INTO shown SELECT nope FROM orders;\nCREATE TABLE;\n")
    assert "error[SQL" in wrong(sqlstream, file, "SELECT 1")
    assert wrong(sqlstream, file.parent / "none.sql", "SELECT 1", 2).startswith("error[PRJ001]")


def test_nothing_is_written(sqlstream: Command, ran: Path) -> None:
    def content() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in ran.parent.rglob("*") if p.is_file()}

    before = content()
    for name in ("orders", "totals", "kept", "written", "state.group_aggregate_1"):
        rows(sqlstream, ran, f"SELECT * FROM {name}")
    assert content() == before


def test_from_a_pipe(file: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sqlstream", "sql", str(file)],
        input="SELECT 1 AS a;\n\\q\nSELECT 2;\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("a\n1\n(1 row, ")
    assert "2" not in done.stdout.split("(1 row")[0]
