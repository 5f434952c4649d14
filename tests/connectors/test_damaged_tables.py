"""Tables that someone else has changed: every such state has a way out, and the message says which.

A run gives a table an epoch; someone deletes, changes or adds rows, drops, empties or moves the table, drops a column, or
restores an older copy; the next run fails, or fails half-way. Then the table is emptied or dropped, and written anew.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree, rmtree

import pytest

from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.postgres_server import Database
from tests.connectors.test_edited_targets import SUMS, Table
from tests.runtime.loop.test_sink_edits import CHANGES, COUNTS, DUCK, JSON, PASSED, Job, answer, held
from tests.runtime.support import Crash, crash_at

KEYED = ("k INT, n BIGINT", "k", SUMS)
MULTISET = ("k INT, n BIGINT", "", SUMS)
APPENDED = ("k INT, v BIGINT", "", "SELECT k, v FROM t")
KINDS = {"keyed": KEYED, "multiset": MULTISET, "appended": APPENDED}


@pytest.fixture(params=["duckdb", "postgres"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (1, 11, "b", 2), (2, 20, "a", 11), (3, 30, "c", 12))
    if request.param == "duckdb":
        yield Table(job, DUCK)
        return
    server: Database = request.getfixturevalue("database")
    yield Table(job, f"'connector' = 'postgres', 'url' = '{server.url}'", server)


def do(table: Table, *statements: str) -> None:
    for statement in statements:
        if table.postgres is not None:
            table.postgres.rows(statement)
        else:
            table.sql(statement)


def _restore(table: Table) -> None:
    """The table and its epoch as they were two epochs ago; the last one alone would be given again."""
    do(
        table,
        "DELETE FROM o",
        "INSERT INTO o SELECT * FROM o_copy",
        "UPDATE sqlstream_epochs SET epoch = epoch - 2 WHERE table_name = 'o'",
    )


def _second(table: Table) -> str:
    found = table.sql("SELECT column_name FROM information_schema.columns WHERE table_name = 'o'")
    return "v" if ("v",) in found else "n"


DAMAGES: dict[str, Callable[[Table], None]] = {
    "row deleted": lambda t: do(t, "DELETE FROM o WHERE k = 1"),
    "row changed": lambda t: do(t, "UPDATE o SET k = 77 WHERE k = 1"),
    "row added": lambda t: do(t, "INSERT INTO o VALUES (9, 9)"),
    "emptied": lambda t: do(t, "DELETE FROM o"),
    "dropped": lambda t: do(t, "DROP TABLE o"),
    "dropped with its record": lambda t: do(t, "DROP TABLE o", "DROP TABLE sqlstream_epochs"),
    "record dropped": lambda t: do(t, "DROP TABLE sqlstream_epochs"),
    "record deleted": lambda t: do(t, "DELETE FROM sqlstream_epochs"),
    "moved": lambda t: do(t, "ALTER TABLE o RENAME TO elsewhere"),
    "column dropped": lambda t: do(t, "ALTER TABLE o DROP COLUMN " + _second(t)),
    "restored from a backup": _restore,
}
#: What a run does not notice by itself: other columns' values, rows of keys that don't change, rows in what is appended to.
UNNOTICED = {
    ("multiset", "row added"),
    *(("appended", what) for what in ("row deleted", "row changed", "row added", "emptied")),
}


def begin(table: Table, kind: str) -> str:
    columns, key, query = KINDS[kind]
    text = table.text(query, columns, key)
    table.job.run(text)
    do(table, "CREATE TABLE o_copy AS SELECT * FROM o")
    for row in ((4, 40, "a", 12), (4, 41, "a", 12)):
        table.job.add(row)
        table.job.run(text)
    return text


@pytest.mark.sampled(10, each_value=False)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_has_a_way_out(table: Table, kind: str, damage: str) -> None:
    text = begin(table, kind)
    DAMAGES[damage](table)
    job = table.job
    job.add((1, 12, "a", 13), (9, 5, "b", 14))
    if (kind, damage) in UNNOTICED:
        job.run(text)
    else:
        with pytest.raises(DiagnosticError) as caught:
            job.run(text)
        (told,) = caught.value.diagnostics
        rows = damage.startswith("row ") or damage == "emptied"
        assert (told.code, caught.value.exit_code) == (("DAT002", 1) if rows else ("STA030", 4))
        assert told.help is not None
        assert "--rewrite o" in told.help
        with pytest.raises(DiagnosticError):  # said again, it is no better
            job.run(text)
    names = {name for (name,) in table.sql("SELECT table_name FROM information_schema.tables")}
    if "o" in names:
        do(table, "DROP TABLE o" if damage == "column dropped" else "DELETE FROM o")
    assert job.run(text, rewrite=["o"]) == "exhausted"
    assert table.rows() == answer(job, text)
    job.add((1, 13, "c", 15), (5, 5, "b", 16))
    job.run(text)
    assert table.rows() == answer(job, text)


@pytest.mark.sampled(6, each_value=False)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["row deleted", "dropped", "restored from a backup"])
def test_damage_before_an_epoch_was_committed_a_second_time(table: Table, kind: str, damage: str) -> None:
    """The run ended when the epoch was decided, and the table does not have it: giving it once more fails."""
    text = begin(table, kind)
    job = table.job
    job.add((1, 12, "a", 13), (9, 5, "b", 14))
    with pytest.raises(Crash):
        job.run(text, faults=crash_at("published", 4))
    DAMAGES[damage](table)
    if (kind, damage) not in UNNOTICED:
        with pytest.raises(DiagnosticError) as caught:
            job.run(text)
        assert "--rewrite o" in (caught.value.diagnostics[0].help or "")
    if damage != "dropped":
        do(table, "DELETE FROM o")
    job.run(text, rewrite=["o"])
    assert table.rows() == answer(job, text)


@pytest.mark.sampled(4, each_value=False)
@pytest.mark.parametrize("point", [None, "planned", "prepared", "published", "committed"])
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_state_directory_that_was_restored_from_an_older_copy(
    table: Table, point: str | None, epochs: int
) -> None:
    """The table says that it has epochs that are new now: once it is emptied, it has none of them."""
    text = table.text(SUMS, "k INT, n BIGINT", "")
    job, state = table.job, table.job.folder / "state"
    job.run(text)
    copytree(state, job.folder / "copy")
    for number in range(epochs):
        job.add((4, 40 + number, "a", 12))
        job.run(text)
    rmtree(state)
    copytree(job.folder / "copy", state)
    with pytest.raises(DiagnosticError) as caught:
        job.run(text)
    (told,) = caught.value.diagnostics
    assert (told.code, caught.value.exit_code) == ("STA030", 4)
    do(table, "DELETE FROM o")
    if point is not None:
        with pytest.raises(Crash):
            job.run(text, rewrite=["o"], faults=crash_at(point, 2))
    job.run(text, rewrite=["o"])
    assert table.rows() == answer(job, text)
    job.add((1, 13, "c", 15), (5, 5, "b", 16))
    job.run(text)
    assert table.rows() == answer(job, text)


@pytest.mark.sampled(3, each_value=False)
@pytest.mark.parametrize("sink", [JSON, CHANGES], ids=["rows", "changelog"])
@pytest.mark.parametrize("damage", ["deleted", "older state", "owner deleted"])
@pytest.mark.parametrize("point", [None, "prepared", "published"])
def test_a_folder_that_was_deleted_has_a_way_out(
    tmp_path: Path, sink: str, damage: str, point: str | None
) -> None:
    job = Job(tmp_path)
    job.add((1, 10, "a", 1), (1, 11, "b", 2))
    text = (PASSED if sink == JSON else COUNTS).replace("{sink}", sink)
    job.run(text)
    copytree(tmp_path / "state", tmp_path / "copy")
    job.add((4, 40, "a", 12))
    job.run(text)
    job.add((4, 41, "a", 13))
    if point is not None:
        with pytest.raises(Crash):
            job.run(text, faults=crash_at(point, 3))
    if damage == "older state":
        rmtree(tmp_path / "state")
        copytree(tmp_path / "copy", tmp_path / "state")
    elif damage == "owner deleted":
        (tmp_path / "out/.sqlstream/owner.json").unlink()
    else:
        rmtree(tmp_path / "out")
    with pytest.raises(DiagnosticError) as caught:
        job.run(text)
    (told,) = caught.value.diagnostics
    assert (told.code, caught.value.exit_code) == ("STA030", 4)
    assert "run with --rewrite o" in (told.help or "")
    if (tmp_path / "out").exists():
        rmtree(tmp_path / "out")
    job.run(text, rewrite=["o"])
    found = (
        held(job, sink)
        if sink == CHANGES
        else Counter((row["k"], row["n"]) for row in map(json.loads, job.lines().elements()))
    )
    assert found == answer(job, text)
