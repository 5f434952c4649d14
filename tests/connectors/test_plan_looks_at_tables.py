"""`plan` looks at what `run` will look at: a table that is gone, older, newer or another's is refused by both, alike."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.cli.main import run_cli
from sqlstream.planning import plan_file
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_server import Database
from tests.properties.in_process import run_here

T = """CREATE TABLE t (k INT, v BIGINT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');
CREATE TABLE always (k INT, n BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ('connector' = 'duckdb', 'path' = 'other.duckdb');
INSERT INTO always SELECT k, COUNT(*) FROM t GROUP BY k;
"""
OUT = "CREATE TABLE o (k INT, n BIGINT{key}) WITH ({sink});\nINSERT INTO o SELECT k, {n} FROM t GROUP BY k;\n"
KEY = ", PRIMARY KEY (k) NOT ENFORCED"


@dataclass
class Place:
    """A folder with a pipeline and the database of its table `o`."""

    folder: Path
    sink: str
    postgres: Database | None = None
    files: int = 0

    def sql(self, text: str) -> None:
        if self.postgres is not None:
            self.postgres.rows(text)
        else:
            with duckdb.connect(str(self.folder / "out.duckdb")) as con:
                con.execute(text)

    def rows(self) -> list[tuple[Any, ...]]:
        query = "SELECT * FROM o ORDER BY k"
        if self.postgres is not None:
            return list(self.postgres.rows(query))
        with duckdb.connect(str(self.folder / "out.duckdb")) as con:
            found: list[tuple[Any, ...]] = con.execute(query).fetchall()
            return found

    def text(self, key: str = KEY, n: str = "COUNT(*)") -> str:
        return T + OUT.format(key=key, sink=self.sink, n=n)

    def add(self) -> None:
        (self.folder / "in").mkdir(exist_ok=True)
        line = json.dumps({"k": self.files, "v": 1}) + "\n" + json.dumps({"k": 0, "v": 2}) + "\n"
        (self.folder / f"in/{self.files}.json").write_text(line)
        self.files += 1

    def run(self, text: str, state: str = ".sqlstream/p", **options: Any) -> tuple[int, list[str]]:
        """The exit code of a run, and the codes of what was refused."""
        (self.folder / "p.sql").write_text(text)
        planned = plan_file(self.folder / "p.sql")
        try:
            run_here(planned, self.folder, state=state, sql=planned.masked_sql, **options)
        except DiagnosticError as error:
            return error.exit_code, [d.code for d in error.diagnostics]
        return 0, []


@pytest.fixture(params=["duckdb", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "duckdb":
        yield Place(tmp_path, "'connector' = 'duckdb', 'path' = 'out.duckdb'")
        return
    server: Database = request.getfixturevalue("database")
    yield Place(tmp_path, f"'connector' = 'postgres', 'url' = '{server.url}'", server)


def left_out_and_back(place: Place) -> str:
    without = place.text().partition("INSERT INTO o")[0]
    place.run(without)
    place.add()
    place.run(without)
    return place.text()


def left_out_and_back_after(statement: str) -> Callable[[Place], str]:
    def change(place: Place) -> str:
        text = left_out_and_back(place)
        place.sql(statement)
        return text

    return change


def moved_and_back(place: Place) -> str:
    place.run(place.text().replace(f"({place.sink})", f"({place.sink}, 'table-name' = 'elsewhere')"))
    place.add()
    place.run(place.text().replace(f"({place.sink})", f"({place.sink}, 'table-name' = 'elsewhere')"))
    return place.text()


def harmed(*statements: str) -> Callable[[Place], str]:
    def harm(place: Place) -> str:
        for statement in statements:
            place.sql(statement)
        return place.text()

    return harm


CASES: dict[str, tuple[Callable[[Place], str], int]] = {
    "nothing": (lambda place: place.text(), 0),
    "left out, and back": (left_out_and_back, 4),
    "moved, and back": (moved_and_back, 4),
    "dropped": (harmed("DROP TABLE o"), 4),
    "record gone": (harmed("DELETE FROM sqlstream_epochs"), 4),
    "older": (harmed("UPDATE sqlstream_epochs SET epoch = 0"), 4),
    "newer": (harmed("UPDATE sqlstream_epochs SET epoch = 9"), 4),
    "another's": (harmed("UPDATE sqlstream_epochs SET job = 'abc'"), 4),
    "a column dropped": (harmed("ALTER TABLE o DROP COLUMN n"), 4),
    "left out, and back, emptied": (left_out_and_back_after("DELETE FROM o"), 0),
    "left out, and back, dropped": (left_out_and_back_after("DROP TABLE o"), 0),
}


@pytest.mark.sampled(3, each_value=False)
@pytest.mark.parametrize("name", CASES)
def test_plan_and_run_see_the_same(place: Place, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    change, code = CASES[name]
    place.add()
    assert place.run(place.text()) == (0, [])
    place.add()
    assert place.run(place.text()) == (0, [])
    text = change(place)
    place.add()
    file = place.folder / "p.sql"
    file.write_text(text)
    assert run_cli(["plan", str(file), "--json"]) == code
    shown = json.loads(capsys.readouterr().out)
    assert [problem["code"] for problem in shown["problems"]] == (["STA030"] if code else [])
    assert place.run(text) == ((4, ["STA030"]) if code else (0, []))
    if code:
        assert all("--rewrite o" in p["help"] or name == "another's" for p in shown["problems"])
        if name in ("another's", "dropped"):
            place.sql("DROP TABLE IF EXISTS o")
        else:
            place.sql("DELETE FROM o")
        assert run_cli(["plan", str(file), "--json", "--rewrite", "o"]) == 0
        capsys.readouterr()
        if name == "another's":
            place.sql("DELETE FROM sqlstream_epochs")
        assert place.run(text, rewrite=["o"]) == (0, [])
    assert place.rows() == [(0, place.files + 1), *((n, 1) for n in range(1, place.files))]


def test_a_database_file_that_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(tmp_path, "'connector' = 'duckdb', 'path' = 'out.duckdb'")
    place.add()
    place.run(place.text())
    (tmp_path / "out.duckdb").unlink()
    file = tmp_path / "p.sql"
    assert run_cli(["plan", str(file)]) == 4
    told = capsys.readouterr()
    assert "--rewrite o" in told.err + told.out
    assert not (tmp_path / "out.duckdb").exists()
    assert place.run(place.text()) == (4, ["STA030"])
    assert run_cli(["plan", str(file), "--rewrite", "o"]) == 0
    assert place.run(place.text(), rewrite=["o"]) == (0, [])
    assert place.rows() == [(0, 2)]


def test_a_state_that_begins_looks_at_the_table_too(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """A first run, and one from a savepoint, into a table that another state directory writes."""
    place.add()
    place.run(place.text())
    file = place.folder / "p.sql"
    assert run_cli(["savepoint", "create", str(file), "cut"]) == 0
    state = str(place.folder / "another")
    for more in ([], ["--from", "cut"]):
        assert run_cli(["plan", str(file), "--state-dir", state, *more]) == 4
        told = capsys.readouterr()
        assert "STA030" in told.err
        assert "written with another state directory" in told.err
    assert not (place.folder / "another").exists(), "plan makes nothing"
    assert place.run(place.text(), state="another") == (4, ["STA030", "STA030"])


def test_a_database_that_is_away_is_told_and_the_rest_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqlstream.connectors.exactly_once.sink.PAUSE_S", 0.0)
    away = "'connector' = 'postgres', 'url' = 'postgresql://me@127.0.0.1:1/db?connect_timeout=1'"
    place = Place(tmp_path, away)
    place.add()
    (tmp_path / "p.sql").write_text(place.text())
    assert run_cli(["plan", str(tmp_path / "p.sql")]) == 0
    told = capsys.readouterr()
    assert "warning[ENV006]" in told.err
    assert "reads everything" in told.out


CHANGES: dict[str, Callable[[Path], object]] = {
    "grown": lambda file: file.write_text(file.read_text() + '{"k": 1, "v": 1}\n'),
    "other content": lambda file: file.write_text(file.read_text().replace("1", "7")),
    "shorter": lambda file: file.write_text(""),
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("read", ["partly", "wholly"])
@pytest.mark.sampled(2, each_value=False)
def test_a_file_that_was_read_is_another_now(
    tmp_path: Path, change: str, read: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(tmp_path, "'connector' = 'duckdb', 'path' = 'out.duckdb'")
    (tmp_path / "in").mkdir()
    file = tmp_path / "in/0.json"
    file.write_text("".join(f'{{"k": {n % 2}, "v": 1}}\n' for n in range(8)))
    place.run(place.text(), rows_per_epoch=3, max_epochs=1 if read == "partly" else None)
    state = {str(p): p.read_bytes() for p in (tmp_path / ".sqlstream/p").rglob("*") if p.is_file()}
    CHANGES[change](file)
    code = 0 if (read, change) == ("wholly", "gone") else 4
    assert run_cli(["plan", str(tmp_path / "p.sql"), "--json"]) == code
    shown = json.loads(capsys.readouterr().out)
    assert [problem["code"] for problem in shown["problems"]] == (["DAT003"] if code else [])
    assert {str(p): p.read_bytes() for p in (tmp_path / ".sqlstream/p").rglob("*") if p.is_file()} == state
    if code:
        assert place.run(place.text()) == (4, ["DAT003"])
