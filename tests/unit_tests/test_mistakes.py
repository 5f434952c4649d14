"""Mistakes in test files: each is reported with its place, what there is, and what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.unit_tests.reading import read_tests
from sqlstream.unit_tests.yaml_nodes import parse_yaml
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError, render
from tests.unit_tests.support import passes, refused, written

#: A test, the text at which the mistake is reported, and the message.
MISTAKES = {
    "unknown key of a test": ("expct: []", "expct", "TST002 a test has no key `expct`"),
    "no name": ("", "", "TST002 the test has no name"),
    "unknown key of a step": (
        "steps: [{given: {}, expects: {}}]",
        "expects",
        "TST002 a step has no key `expects`",
    ),
    "steps and rows": ("steps: []\n  given: {}", "given", "TST002 `given` stands beside `steps`"),
    "no steps": ("steps: []", "[]", "TST002 the test has no steps"),
    "steps as keys": (
        "steps: {given: {}}",
        "{given",
        "TST002 `steps` must be a list, and is keys and values",
    ),
    "unknown table": ("given: {bid: []}", "bid", "TST003 the pipeline has no table `bid`"),
    "a view is given": (
        "given: {dear: []}",
        "dear",
        "TST003 `dear` is a view: rows are given to the tables that it reads",
    ),
    "a sink is given": ("given: {totals: []}", "totals", "TST003 the pipeline does not read `totals`"),
    "unknown sink": ("expect: {total: []}", "total", "TST003 the pipeline has no sink or view `total`"),
    "a source is expected": ("expect: {bids: []}", "bids", "TST003 the pipeline does not write `bids`"),
    "which sink": ("expect: {rows: []}", "[]", "TST003 this does not say of which sink or view the rows are"),
    "unknown model": (
        "model: nix\n  expect: {rows: []}",
        "nix",
        "TST003 the pipeline has no sink or view `nix`",
    ),
    "unknown column": ("given: {bids: [{id: 1, prize: 2}]}", "prize", "TST004 `bids` has no column `prize`"),
    "computed column": (
        "given: {bids: [{id: 1, twice: 2}]}",
        "twice",
        "TST004 `twice` of `bids` is computed by the table",
    ),
    "unknown column of a view": ("expect: {dear: [{idd: 1}]}", "idd", "TST004 `dear` has no column `idd`"),
    "no integer": ("given: {bids: [{id: 1.5}]}", "1.5", "TST005 `id` is BIGINT, and '1.5' is none"),
    "no time": ("given: {bids: [{id: 1, ts: noon}]}", "noon", "TST005 `ts` is TIMESTAMP, and 'noon' is none"),
    "too large": ("given: {bids: [{id: 99999999999999999999}]}", "9999", "TST005 `id` is BIGINT, and"),
    "a list": ("given: {bids: [{id: [1]}]}", "[1]", "TST005 `id` is BIGINT, and a list is none"),
    "null": ("given: {bids: [{id: null}]}", "id", "TST005 `id` of `bids` is NOT NULL, and is NULL here"),
    "missing": (
        "given: {bids: [{price: 1}]}",
        "{price",
        "TST005 `id` of `bids` is NOT NULL, and has no value here",
    ),
    "expected value": ("expect: {totals: [{id: x}]}", "x}", "TST005 `id` is BIGINT, and 'x' is none"),
    "changes of rows": (
        "given: {bids: {changes: [{+I: {id: 1}}]}}",
        "[{",
        "TST002 `bids` gives rows, and no changes",
    ),
    "kind": (
        "given: {customers: {changes: [{+X: {id: 1}}]}}",
        "{+X",
        "TST002 a change begins with one of +I, -U, +U, -D",
    ),
    "a change among rows": ("expect: {totals: [{+I: {id: 1}}]}", "{+I", "TST002 this is a change and no row"),
    "a row as a word": (
        "expect: {totals: [x]}",
        "x]",
        "TST002 a row must have keys and values, and is one value",
    ),
    "rows as a word": (
        "expect: {totals: {rows: x}}",
        "x}",
        "TST002 the rows of `totals` are a text, and nothing says",
    ),
    "no rows": ("expect: {totals: {ordered: true}}", "{ordered", "TST002 `totals` has no rows"),
    "both": (
        "expect: {totals: {rows: [], changes: []}}",
        "{rows",
        "TST002 `rows` and `changes` exclude each other",
    ),
    "unknown format": (
        "expect: {totals: {format: cvs, rows: x}}",
        "cvs",
        "TST002 `format` is 'dict', 'csv' or 'sql'",
    ),
    "list in csv": (
        "expect: {totals: {format: csv, rows: []}}",
        "[]",
        "TST002 rows in the format 'csv' are a text",
    ),
    "csv fields": (
        "expect: {totals: {format: csv, rows: 'id,n\n\n    1'}}",
        "",
        "TST006 1 fields, but 2 columns",
    ),
    "csv changes": (
        "expect: {totals: {format: csv, changes: id}}",
        "id}",
        "TST006 changes need a column `op`",
    ),
    "sql": ("expect: {totals: {format: sql, rows: SELEC}}", "SELEC", "TST006 DuckDB can't run this"),
    "sql reads": (
        "expect: {totals: {format: sql, rows: FROM '/etc/passwd'}}",
        "FROM",
        "TST006 DuckDB can't run this",
    ),
    "fixture": ("expect: {totals: {fixture: none.csv}}", "none.csv", "TST006 can't read"),
    "fixture's format": ("expect: {totals: {fixture: none.txt}}", "none.txt", "TST006 `none.txt` is neither"),
    "no flag": ("drain: maybe", "maybe", "TST002 `drain` is true or false"),
    "clock": ("clock: noon", "noon", "TST005 a clock is a time, and 'noon' is none"),
    "watermark": ("steps: [{watermark: {bids: x}}]", "x}", "TST005 a watermark is a time, and 'x' is none"),
    "no watermark": (
        "steps: [{watermark: {customers: 2024-01-01}}]",
        "customers",
        "TST003 `customers` has no watermark",
    ),
    "late of nothing": ("late: {nix: []}", "nix", "TST003 the pipeline has no table `nix`"),
    "dead letters": ("dead_letters: [{kin: late}]", "kin", "TST004 a dead letter has no column `kin`"),
    "a plan without an edit": (
        "steps: [{plan: {x: KEEP}}]",
        "x:",
        "TST002 `plan` stands in a step without `edit`",
    ),
    "steps after an error": (
        "steps: [{error: DAT001}, {drain: true}]",
        "DAT001",
        "TST002 nothing runs after a step",
    ),
    "rows of an error": (
        "error: DAT001\n  expect: {totals: []}",
        "DAT001",
        "TST002 a step that ends with an error gives no",
    ),
    "a clock that goes back": (
        "steps: [{clock: 2024-01-02}, {clock: 2024-01-01}]",
        "2024-01-01",
        "TST005 the clock goes",
    ),
    "a column twice": ("given: {bids: [{id: 1, ID: 2}]}", "ID", "TST002 `ID` stands twice"),
    "an expected column twice": ("expect: {totals: [{id: 1, ID: 2}]}", "ID", "TST002 `ID` stands twice"),
    "a csv column twice": (
        "expect: {totals: {format: csv, rows: 'id,Id'}}",
        "'id,Id",
        "TST002 `Id` stands twice",
    ),
    "a key twice": ("given: {}\n  given: {}", "given: {}\n", "TST002 the key `given` stands twice"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_at_its_place(tmp_path: Path, name: str) -> None:
    text, at, message = MISTAKES[name]
    first = "- description: x" if name == "no name" else "- name: x"
    found = refused(tmp_path, f"{first}\n  {text}")
    assert len(found) == 1, found
    (diagnostic,) = found
    assert f"{diagnostic.code} {diagnostic.message}".startswith(message)
    assert diagnostic.span is not None
    assert len(diagnostic.message) < 120
    if at:
        lines = (tmp_path / "p.test.yaml").read_text().splitlines()
        line = lines[diagnostic.span.line - 1][diagnostic.span.column - 1 :]
        assert line.startswith(at.split("\n")[0]), line


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    found = refused(
        tmp_path,
        """
        - name: x
          given: {bid: [], bids: [{id: a, price: b}, {idd: 1}]}
          expect: {totals: [{n: c}], nix: []}
        """,
    )
    assert [d.code for d in found] == ["TST003", "TST004", "TST005", "TST003"]


def test_it_reads_well(tmp_path: Path) -> None:
    (found,) = refused(tmp_path, "- name: x\n  given: {bids: [{id: 1, pirce: 2}]}")
    text = (tmp_path / "p.test.yaml").read_text()
    assert render(found, text).replace(str(tmp_path), "") == (
        "error[TST004]: `bids` has no column `pirce`\n"
        " --> /p.test.yaml:3:27\n"
        "  |\n"
        "3 |     given: {bids: [{id: 1, pirce: 2}]}\n"
        "  |                            ^^^^^\n"
        "  = note: it has id, price, ts, origin\n"
        "  = help: did you mean `price`?"
    ).replace("3:27", f"3:{found.span.column if found.span else 0}")


def test_fields_of_rows_in_columns(tmp_path: Path) -> None:
    sql = """
        CREATE TABLE t (who ROW<name STRING, at ROW<x INT>>) WITH ('connector' = 'datagen');
        SELECT who FROM t;
        """
    found = refused(tmp_path, "- name: x\n  given: {t: [{who: {nam: a, at: {y: 1}}}]}", sql)
    assert [d.message for d in found] == ["`who` has no field `nam`", "`who.at` has no field `y`"]
    (found_,) = refused(tmp_path, "- name: x\n  given: {t: [{who: {name: a, at: {x: b}}}]}", sql)
    assert found_.code == "TST005"


TYPES = """
    CREATE TABLE t (d DECIMAL(10, 2), a ARRAY<INT>, day DATE, time TIME(0), ts TIMESTAMP(6), tz TIMESTAMP_LTZ(6),
      r ROW<x DECIMAL(10, 2), y BOOLEAN, at DATE, s STRING>, m MAP<INT, DECIMAL(4, 1)>, v ARRAY<STRING>)
    WITH ('connector' = 'filesystem', 'path' = '/nowhere/t', 'format' = 'json');
    CREATE TABLE o WITH ('connector' = 'print') AS SELECT * FROM t;
    """
LOST = {
    "d: 1.555": "1.555",
    "d: '1e-3'": "'1e-3'",
    "a: [1, 1.6]": "1.6]",
    "a: [true]": "true",
    "a: '[1, 1.6]'": "'[1",
    "day: 2024-01-01 12:00:00": "2024",
    "day: 2024-01-01T00:00:01": "2024",
    "time: 2024-01-01 12:00:00": "2024",
    "time: 12:00:00+02": "12",
    "ts: 2024-01-01 12:00:00+02": "2024",
    "ts: 2024-01-01 12:00:00.1234567": "2024",
    "tz: 2024-01-01 12:00:00.1234567Z": "2024",
    "r: {x: 1.555}": "1.555",
    "r: {y: 2}": "2}",
    "r: {at: 2024-01-01 01:00}": "2024",
    "m: {1: 1.55}": "1.55",
    "m: {1.5: 1.5}": "1.5: 1.5",
}


@pytest.mark.parametrize("table", ["given: {t", "expect: {o"])
@pytest.mark.parametrize("cell", LOST)
def test_no_value_loses_something(tmp_path: Path, cell: str, table: str) -> None:
    (found,) = refused(tmp_path, f"- name: x\n  {table}: [{{{cell}}}]}}", TYPES)
    assert found.code == "TST005"
    assert found.notes
    assert found.span is not None
    line = (tmp_path / "p.test.yaml").read_text().splitlines()[found.span.line - 1]
    assert line[found.span.column - 1 :].startswith(LOST[cell])


def test_values_that_lose_nothing_are_what_they_say(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - name: x
          given:
            t:
              - {d: 1.500, a: [1, 2.0], day: 2024-01-01 00:00:00, time: 12:00:00, ts: 2024-01-01T12:00:00.1234560Z,
                 tz: 2024-01-01 12:00:00+02, r: {x: 1.550, y: TRUE, at: 2024-01-01, s: TRUE}, m: {1: 1.50}, v: [1.50, on]}
          expect:
            o:
              - {d: 1.5, a: '[1, 2]', day: 2024-01-01, time: 12:00, ts: 2024-01-01 12:00:00.123456,
                 tz: 2024-01-01 10:00:00, r: {x: 1.55, y: true, at: 2024-01-01, s: "TRUE"},
                 m: '{"1": 1.5}', v: ["1.50", "on"]}
        """,
        TYPES,
    )


def test_a_key_that_stands_twice_in_a_value(tmp_path: Path) -> None:
    for cell in ("r: {x: 1, X: 2}", """r: '{"x": 1, "x": 2}'""", """m: '{"1": 1, "1": 2}'"""):
        (found,) = refused(tmp_path, f"- name: x\n  given: {{t: [{{{cell}}}]}}", TYPES)
        assert found.code == "TST002", found
        assert " stands twice" in found.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unit_tests:\n  - name: a: b\n", "this is no YAML: mapping values are not allowed"),
        ("unit_tests:\n\t- name: x\n", "this is no YAML: found character that cannot start any token"),
        ("", "the file is empty"),
        ("{[a]: 1}", "a key must be a word"),
        ("a: {<<: 1}", "`<<` takes keys and values of another place"),
        ("a: 'x", "this is no YAML: found unexpected end of stream"),
        ("unit_tests: &a [*a]", "what is named here has itself in it"),
        ("unit_tests: &a\n  - name: x\n    given: {b: *a}", "what is named here has itself in it"),
        ("unit_tests: &a {<<: *a}", "what is named here has itself in it"),
        ("[" * 900 + "]" * 900, "the file has too many lists and keys within each other"),
        ("a: 1\n---\nb: 1", "this is no YAML: but found another document"),
    ],
)
def test_what_is_no_yaml_is_reported(text: str, message: str) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse_yaml(text, "x.test.yaml")
    (found,) = caught.value.diagnostics
    assert found.message.startswith(message)
    assert found.span is not None


@pytest.mark.parametrize(
    "text",
    [
        "given: {bids: [{id: 1}]}",
        "expect: {}",
        "expect: {totals: [{}, {}]}",
        "steps: [{given: {bids: [{id: 1}]}}, {expect: {totals: [{}]}}, {drain: true}]",
        "steps: [{late: {bids: [{}]}}]",
    ],
)
def test_a_test_that_expects_nothing(tmp_path: Path, text: str) -> None:
    (found,) = refused(tmp_path, f"- name: x\n  {text}")
    assert (found.code, found.message) == ("TST002", "the test `x` expects nothing")
    assert found.span is not None
    assert found.help is not None


def test_no_rows_are_an_expectation(tmp_path: Path) -> None:
    passes(
        tmp_path,
        """
        - {name: none, expect: {totals: []}}
        - {name: no changes, expect: {totals: {changes: []}}}
        - {name: none is late, late: {bids: []}}
        - {name: all is used, dead_letters: []}
        """,
    )


def _mistakes_of(file: Path) -> list[Diagnostic]:
    with pytest.raises(DiagnosticError) as caught:
        read_tests(file)
    return list(caught.value.diagnostics)


def test_mistakes_of_files(tmp_path: Path) -> None:
    file = written(tmp_path, "- name: a\n- name: b\n- name: a")
    (twice,) = _mistakes_of(file)
    assert (twice.code, twice.message) == ("TST007", "two tests are called `a`")
    file.write_text("test: []")
    assert [d.code for d in _mistakes_of(file)] == ["TST002", "TST002"]
    file.write_bytes(b"\xff")
    assert _mistakes_of(file)[0].message.endswith("is not UTF-8 text")
    assert _mistakes_of(tmp_path / "none.test.yaml")[0].code == "TST001"


def test_the_pipeline_may_be_missing_or_wrong(tmp_path: Path) -> None:
    test = "- name: x\n  expect: {}"
    assert refused(tmp_path, test, "SELECT a FROM b")[0].code == "SQL013"
    file = written(tmp_path, test)
    (tmp_path / "p.sql").unlink()
    from sqlstream.unit_tests.running import run_file

    (outcome,), _ = run_file(read_tests(file), ["x"])
    assert outcome.diagnostics[0].code == "PRJ001"
