"""What the prompt proposes for what is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.project import Project
from sqlstream.shell.completion import Completer
from sqlstream.shell.history import history_file, may_be_kept, prepared
from sqlstream.shell.opening import opened
from sqlstream.shell.session import Session

FILE = """\
CREATE TABLE orders (customer STRING, amount INT, "a b" INT)
WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE other (amount INT, created DATE) WITH ('connector' = 'datagen');
CREATE VIEW totals AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
CREATE TABLE o (customer STRING) WITH ('connector' = 'print');
INSERT INTO o SELECT customer FROM totals;
"""


@pytest.fixture
def completer(tmp_path: Path) -> Completer:
    file = tmp_path / "p.sql"
    file.write_text(FILE)
    return Completer(Session(opened(file, Project(tmp_path), {}, None)))


@pytest.mark.parametrize(
    ("before", "behind", "some"),
    [
        ("SE", "", {"SELECT", "SET"}),
        ("sel", "", {"select"}),
        ("SELECT * FROM ", "", {"orders", "other", "totals", "o"}),
        ("SELECT * FROM or", "", {"orders"}),
        ("SELECT cust", "", {"customer"}),
        ("SELECT to", " FROM totals", {"total", "to_date("}),
        ("SELECT t.", " FROM totals AS t", {"customer", "total"}),
        ("SELECT * FROM orders o JOIN other p ON p.a", "", {"amount"}),
        ("SELECT `", " FROM orders", {"`a b`"}),
        ("SELECT 1; DESCRIBE tot", "", {"totals"}),
        ("SELECT DATE_T", "", {"DATE_TRUNC("}),
        ("SET 'parallelism.d", "", {"parallelism.default"}),
        ("SHOW TA", "", {"TABLES"}),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'nex", "", {"nexmark"}),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'form", "", {"format"}),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'format' = 'pa", "", {"parquet"}),
        ("\\d", "", {"\\dt", "\\dv", "\\df"}),
        ("SELECT 'in a text", "", set()),
    ],
)
def test_proposals(before: str, behind: str, some: set[str], completer: Completer) -> None:
    found = {one.text for one in completer.proposals(before, behind)}
    assert some <= found, found
    assert some or not found


def test_names_that_need_quotes_have_them(completer: Completer) -> None:
    assert "`a b`" in {one.text for one in completer.proposals("SELECT o.", " FROM orders o")}


def test_the_history_is_its_users_alone(tmp_path: Path) -> None:
    file = history_file({"XDG_STATE_HOME": str(tmp_path / "s")})
    assert file == tmp_path / "s/sqlstream/sql_history"
    assert history_file({"XDG_STATE_HOME": "relative", "HOME": "/h"}) == Path(
        "/h/.local/state/sqlstream/sql_history"
    )
    assert prepared(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert not prepared(Path("/proc/nowhere/sql_history"))


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'properties.sasl.jaas.config' = 'x y')",
        "CREATE TABLE t (a INT) WITH ('url' = 'postgresql://me:geheim@db/x')",
        "CREATE TABLE t (a INT) WITH ('pasword' = 'geheim",
    ],
)
def test_statements_with_passwords_are_not_kept(statement: str) -> None:
    assert not may_be_kept(statement)
