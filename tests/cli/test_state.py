"""`sqlstream state`, on a state directory that a run in this process has left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from tests.cli.summed import SOURCE, ran
from tests.properties.in_process import run_here


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return ran(tmp_path, "a", "a", 'b,\\"', parallelism=1)


def output_of(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    assert run_cli(["state", *map(str, arguments)]) == code
    shown = capsys.readouterr()
    return shown.out, shown.err


def test_list_and_show(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = file.parent / ".sqlstream/p"
    lines = output_of(capsys, "list", file)[0].splitlines()
    assert lines[0] == f"epoch 1 of {state}"
    assert lines[2].startswith("groups by k: sum(v) (group_aggregate): 2 rows, ")
    assert [line.split() for line in lines[3:]] == [
        ["group_aggregate_1", "answer", "k,", "n"],
        ["group_aggregate_1.acc", "stored", "k,", "sum_v"],
    ]
    listed = [json.loads(line) for line in output_of(capsys, "list", file, "--json")[0].splitlines()]
    assert [(one["name"], one["rows"]) for one in listed] == [
        ("group_aggregate_1", 2),
        ("group_aggregate_1.acc", 2),
    ]
    shown = output_of(capsys, "show", file, "group_aggregate_1")[0].splitlines()
    assert "  k  VARCHAR" in shown
    assert "key: k" in shown
    found = json.loads(output_of(capsys, "show", file, "Group_Aggregate_1.acc", "--json")[0])
    assert found["key"] == ["k"]
    assert [(c["name"], c["part"], c["meaning"]) for c in found["columns"]][:2] == [
        ("k", "key", "k"),
        ("sum_v", "value", "sum of v"),
    ]
    assert all(isinstance(c["field"], int) for c in found["columns"])
    assert [shard["rows"] for shard in found["shards"]] == [2]


def test_query_as_table_csv_and_json(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT k, n, NULL AS nothing, '' AS empty FROM group_aggregate_1 ORDER BY n DESC; -- all of it"
    table = output_of(capsys, "query", file, sql)[0].splitlines()
    assert [line.split() for line in table] == [
        ["k", "n", "nothing", "empty"],
        ["a", "2", "NULL"],
        ['b,"', "1", "NULL"],
        ["(2", "rows)"],
    ]
    assert output_of(capsys, "query", file, sql, "--csv")[0] == 'k,n,nothing,empty\na,2,,""\n"b,""",1,,""\n'
    rows = [json.loads(line) for line in output_of(capsys, "query", file, sql, "--json")[0].splitlines()]
    assert rows == [
        {"k": "a", "n": 2, "nothing": None, "empty": ""},
        {"k": 'b,"', "n": 1, "nothing": None, "empty": ""},
    ]


def test_neither_the_file_nor_its_tables_need_be_there(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = file.parent / ".sqlstream/p"
    (file.parent / "in/1.json").unlink()
    file.unlink()
    out, _ = output_of(
        capsys, "query", file, "FROM group_aggregate_1 ORDER BY k", "--csv", "--state-dir", state
    )
    assert out.splitlines()[1] == "a,2"


def test_at_a_savepoint(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["savepoint", "create", str(file), "one"]) == 0
    capsys.readouterr()
    (file.parent / "in/2.json").write_text('{"k": "a", "v": 5, "ts": "2026-01-01 00:00:01"}\n')
    planned = plan_file(file)
    run_here(planned, file.parent, state=".sqlstream/p", sql=planned.masked_sql, parallelism=1)
    sql = "SELECT n FROM group_aggregate_1 WHERE k = 'a'"
    assert output_of(capsys, "query", file, sql, "--csv")[0] == "n\n7\n"
    assert output_of(capsys, "query", file, sql, "--csv", "--at", "one")[0] == "n\n2\n"
    assert output_of(capsys, "query", file, sql, "--csv", "--at", "1")[0] == "n\n2\n"
    assert output_of(capsys, "list", file, "--at", "one")[0].startswith("savepoint one: epoch 1 of ")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELEC 1",
            'error[STA023]: syntax error at or near "SELEC"\n --> query:1:1\n  |\n1 | SELEC 1\n  | ^^^^^\n',
        ),
        (
            "SELECT k,\n  m FROM group_aggregate_1",
            '"m" not found in FROM clause!\n --> query:2:3\n  |\n2 |   m FROM group_aggregate_1\n  |   ^\n',
        ),
        ("FROM group_agregate_1", "help: did you mean `group_aggregate_1`?"),
        ("FROM group_aggregate_1.ac", "note: there is group_aggregate_1, group_aggregate_1.acc"),
        ("SELECT CAST(k AS INT) FROM group_aggregate_1", "query:1:8\n  |\n1 | SELECT CAST(k AS INT)"),
        ("DELETE FROM group_aggregate_1", "error[STA022]: state can only be read: one SELECT"),
        ("SELECT 1; DROP VIEW group_aggregate_1", "query:1:11\n  |\n1 | SELECT 1; DROP"),
        ("", "STA022"),
        ("COPY group_aggregate_1 TO 'x.csv'", "STA022"),
        ("ATTACH 'x.duckdb'", "STA022"),
        ("CREATE TABLE x AS FROM group_aggregate_1", "STA022"),
        ("SET threads = 4", "STA022"),
        ("INSTALL httpfs", "STA022"),
        ("PIVOT group_aggregate_1 ON k USING SUM(n)", "STA022"),
        ("FROM read_csv('/etc/passwd')", "a query of state can't reach files"),
        ("FROM read_text('p.sql')", "a query of state can't reach files"),
        ("FROM glob('*')", "a query of state can't reach files"),
        ("FROM 'in/1.json'", "a query of state can't reach files"),
        ("SELECT 'ö', m FROM group_aggregate_1", "query:1:13\n"),
    ],
)
def test_mistakes_in_a_query(sql: str, message: str, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = output_of(capsys, "query", file, sql, code=1)
    assert (out, message in err) == ("", True), err
    out, _ = output_of(capsys, "query", file, sql, "--json", code=1)
    assert not json.loads(out)["ok"]


def test_mistakes_in_names(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "did you mean `group_aggregate_1`?" in output_of(capsys, "show", file, "group_aggregate", code=2)[1]
    )
    err = output_of(capsys, "list", file, "--at", "7", code=2)[1]
    assert "error[STA021]: there is neither an epoch nor a savepoint `7`" in err
    assert "note: epochs that are kept: 1" in err
    assert "note: savepoints: none" in err
    err = output_of(capsys, "query", file, "SELECT 1", "--state-dir", file.parent / "none", code=1)[1]
    assert "error[STA020]: there is no state" in err


def test_nothing_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"k": "a", "v": 1, "ts": "2026-01-01 00:00:00"}\n')
    file = tmp_path / "p.sql"
    file.write_text(
        f"{SOURCE}CREATE TABLE o (k STRING) WITH ('connector' = 'blackhole');\nINSERT INTO o SELECT k FROM t;\n"
    )
    planned = plan_file(file)
    run_here(planned, tmp_path, state=".sqlstream/p", sql=planned.masked_sql)
    assert "no operator of this query keeps state" in output_of(capsys, "list", file)[0]
    assert "no operator of this query keeps state" in output_of(capsys, "show", file, "x", code=2)[1]
    assert "no operator of this query keeps state" in output_of(capsys, "query", file, "FROM x", code=1)[1]


def test_control_characters_do_nothing_to_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON and CSV are for programs: there they are what they are."""
    odd = "\x1b[2Jx\x07\r\x7f\x9b\u202e"
    file = ran(tmp_path, json.dumps(odd)[1:-1], parallelism=1)
    sql = 'SELECT k, n AS "a\x1b[31mb" FROM group_aggregate_1'
    out = output_of(capsys, "query", file, sql)[0]
    assert "\\x1b[2Jx\\x07\\r\\x7f\\x9b\\u202e" in out
    assert "a\\x1b[31mb" in out
    assert all(character.isprintable() or character == "\n" for character in out)
    assert json.loads(output_of(capsys, "query", file, sql, "--json")[0])["k"] == odd
    err = output_of(capsys, "query", file, "SELECT \x1b[31mx", code=1)[1]
    assert "\x1b" not in err
    err = output_of(capsys, "show", file, "\x1b[31mx", code=2)[1]
    assert "`\\x1b[31mx`" in err
