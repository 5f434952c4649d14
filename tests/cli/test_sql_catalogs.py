"""`sqlstream sql` with catalogs: what is listed, described and selected of them."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from sqlstream.project import Project
from sqlstream.shell.completion import Completer
from sqlstream.shell.opening import opened
from sqlstream.shell.session import Session
from tests.cli.command import Command

PIPELINE = """\
CREATE CATALOG marts WITH ('type' = 'duckdb', 'path' = 'marts.duckdb');
CREATE CATALOG gone WITH ('type' = 'postgres', 'url' = 'postgresql://me:geheim@127.0.0.1:1/db');
CREATE TABLE numbers (id BIGINT, at TIMESTAMP(3)) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
CREATE TABLE shown (n BIGINT) WITH ('connector' = 'print');
CREATE VIEW some AS SELECT id FROM numbers;
USE CATALOG marts;
INSERT INTO counts SELECT id, COUNT(*) FROM default_catalog.default_database.numbers GROUP BY id;
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "marts.duckdb")) as there:
        there.execute(
            "CREATE TABLE counts (id BIGINT PRIMARY KEY, n BIGINT); INSERT INTO counts VALUES (7, 8);"
            'CREATE SCHEMA fin; CREATE TABLE fin."Rates" (k VARCHAR NOT NULL, u UNION(a INTEGER, b VARCHAR));'
            "CREATE VIEW fin.few AS SELECT 1 AS one"
        )
    path = tmp_path / "p.sql"
    path.write_text(PIPELINE)
    return path


def rows(sqlstream: Command, file: Path, statements: str) -> list[str]:
    """The lines of CSV that the last of some statements gives, without its heading."""
    code, out, err = sqlstream("sql", str(file), "--format", "csv", "-c", statements)
    assert code == 0, err
    return out.splitlines()


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("SHOW CATALOGS", ["name,type", "default_catalog,", "marts,duckdb", "gone,postgres"]),
        ("SHOW CATALOGS LIKE 'm%'", ["name,type", "marts,duckdb"]),
        ("SHOW DATABASES", ["name", "fin", "main"]),
        ("SHOW DATABASES FROM default_catalog", ["name", "default_database"]),
        ("SHOW SCHEMAS IN Marts LIKE 'f%'", ["name", "fin"]),
        ("SHOW TABLES", ["name,kind,connector", "counts,table,duckdb"]),
        ("SHOW TABLES FROM fin", ["name,kind,connector", "Rates,table,duckdb", "few,table,duckdb"]),
        ("SHOW TABLES IN marts.FIN LIKE 'few'", ["name,kind,connector", "few,table,duckdb"]),
        (
            "SHOW TABLES FROM default_catalog.default_database",
            ["name,kind,connector", "numbers,source,datagen", "shown,sink,print", "some,view,"],
        ),
        ("SHOW CURRENT CATALOG", ["name", "marts"]),
        ("SHOW CURRENT DATABASE", ["name", "main"]),
        ("DESCRIBE counts", ["name,type,null,key,extras,watermark", "id,BIGINT,false,PRI(id),,", "n,BIGINT,true,,,"]),
        (
            "DESCRIBE marts.fin.rates",
            [
                "name,type,null,key,extras,watermark",
                "k,VARCHAR,false,,,",
                '"u",,,,"left out: it is UNION(a INTEGER, b VARCHAR), which can\'t be read here",'.replace('"u"', "u"),
            ],
        ),
        ("DESCRIBE default_catalog.default_database.some", ["name,type,null,key,extras,watermark", "id,BIGINT,true,,,"]),
        ("SELECT n FROM counts", ["n", "8"]),
        ("SELECT one FROM fin.few", ["one", "1"]),
        ("SELECT COUNT(*) AS c FROM default_catalog.default_database.some", ["c", "3"]),
    ],
)  # fmt: skip
def test_what_is_there(sqlstream: Command, file: Path, statements: str, expected: list[str]) -> None:
    assert rows(sqlstream, file, statements) == expected


def test_statements_that_follow_each_other(sqlstream: Command, file: Path) -> None:
    created = "CREATE CATALOG m2 WITH ('type' = 'duckdb', 'path' = 'marts.duckdb'); USE m2.fin"
    back = "USE CATALOG default_catalog; DROP CATALOG m2; SHOW CATALOGS"
    found = rows(sqlstream, file, f"{created}; SHOW CURRENT CATALOG; SELECT one FROM few; {back}")
    assert [line for line in found if line in ("m2", "one", "1", "m2,duckdb")] == ["m2", "one", "1"]
    code, _, err = sqlstream("sql", str(file), "-c", f"{created}; DROP CATALOG m2")
    assert code == 1
    assert "the catalog `m2` is in use" in err


@pytest.mark.parametrize(
    ("statement", "code", "expected"),
    [
        ("SHOW TABLES FROM marts", 1, "write SHOW TABLES FROM marts.main"),
        ("SHOW TABLES FROM marts.fim", 1, "did you mean `fin`?"),
        ("SHOW TABLES FROM mart.fin", 1, "did you mean `marts`?"),
        ("SHOW TABLES FROM a.b.c", 1, "too many parts"),
        ("SHOW TABLES FROM", 1, "FROM needs a name"),
        ("SHOW CATALOGS FROM marts", 1, "write SHOW CATALOGS"),
        ("SHOW CURRENT", 1, "SHOW CURRENT CATALOG or SHOW CURRENT DATABASE"),
        ("SHOW DATABASES FROM gone", 5, "can't be read"),
        ("SELECT * FROM gone.public.t", 5, "can't be read"),
        ("DESCRIBE conts", 1, "did you mean `counts`?"),
        ("DESCRIBE marts.fin.rate", 1, "did you mean `marts.fin.Rates`?"),
        ("USE fim", 1, "did you mean `fin`?"),
        ("CREATE VIEW v AS SELECT 1 AS a", 1, "default_catalog.default_database.v"),
        ("INSERT INTO counts SELECT 1, 2", 1, "the shell only reads"),
        ("SHOW CREATE CATALOG nothing", 1, "no catalog `nothing`"),
        ("DROP CATALOG gone", 1, "declared by the file"),
        ("DROP CATALOG marts", 1, "is in use"),
    ],
)
def test_mistakes(sqlstream: Command, file: Path, statement: str, code: int, expected: str) -> None:
    found, out, err = sqlstream("sql", str(file), "-c", statement)
    assert (found, expected in err) == (code, True), err
    assert "geheim" not in out + err


def test_what_creates_them(sqlstream: Command, file: Path) -> None:
    code, out, err = sqlstream("sql", str(file), "-c", "SHOW CREATE CATALOG gone; SHOW CREATE TABLE counts")
    assert code == 0, err
    assert "'postgresql://me:***@127.0.0.1:1/db'" in out
    assert "CREATE TABLE marts.main.counts (" in out
    assert "'table-name' = 'counts'" in out
    assert "PRIMARY KEY" in out


def test_completion(file: Path) -> None:
    completer = Completer(Session(opened(file, Project(file.parent), {}, None)))

    def proposed(text: str) -> list[str]:
        return [p.text for p in completer.proposals(text) if p.kind == "table"]

    assert "marts" in proposed("SELECT * FROM ma")
    assert proposed("SELECT * FROM marts.") == ["marts.fin", "marts.main"]
    assert proposed("SELECT * FROM marts.fin.R") == ["marts.fin.Rates"]
    assert proposed("DESCRIBE gone.p") == []
