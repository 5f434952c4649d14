"""A time to live that is added, changed or removed together with an edit of the query (rows 33 and 43).

Where nothing was forgotten the result is the new query's over all input. What was forgotten is in no state: its rows stay as
they were given.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sqlstream.planning import plan_file
from sqlstream.storage.journal import Journal
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.test_edited_answers import held
from tests.properties.updating import batch_of

MINUTE = 60
T = "CREATE TABLE t (k INT, s STRING, v INT) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
KEYED = (
    "CREATE TABLE o (g STRING, n BIGINT, x BIGINT, PRIMARY KEY (g) NOT ENFORCED) "
    "WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
)
CHANGELOG = (
    "CREATE TABLE o (g STRING, n BIGINT, x BIGINT) "
    "WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json');\n"
)
OLD = "SELECT CAST(k AS STRING), COUNT(*), SUM(v) FROM t GROUP BY k"
EDITS = {
    "nothing": OLD,
    "aggregate added": "SELECT CAST(k AS STRING), COUNT(*), MAX(v) FROM t GROUP BY k",
    "aggregate beside": "SELECT CAST(k AS STRING), MIN(v) + COUNT(*), SUM(v) FROM t GROUP BY k",
    "distinct added": "SELECT CAST(k AS STRING), COUNT(*), COUNT(DISTINCT v) FROM t GROUP BY k",
    "filter on a key": "SELECT CAST(k AS STRING), COUNT(*), SUM(v) FROM t WHERE k <> 2 GROUP BY k",
    "filter": "SELECT CAST(k AS STRING), COUNT(*), SUM(v) FROM t WHERE v > 2 GROUP BY k",
    "having": OLD + " HAVING COUNT(*) > 1",
    "projection": "SELECT CAST(k AS STRING), COUNT(*) * 10, SUM(v) FROM t GROUP BY k",
    "function of the key": "SELECT CAST(k % 2 AS STRING), COUNT(*), SUM(v) FROM t GROUP BY k % 2",
}
TWO = "SELECT CAST(k AS STRING), COUNT(*), SUM(v) FROM t GROUP BY k, s"
DROPPED = {
    "key dropped": OLD,
    "key dropped, distinct": "SELECT CAST(k AS STRING), COUNT(*), COUNT(DISTINCT v) FROM t GROUP BY k",
    "key dropped, filter, having": OLD.replace("GROUP", "WHERE k > 0 GROUP") + " HAVING SUM(v) > 3",
}
LIVES = {
    "added": (None, "1 h"),
    "changed": ("1 h", "5 h"),
    "removed": ("1 h", None),
}
FIRST = [(1, "a", 1), (1, "b", 2), (2, "a", 3), (3, "a", 3), (1, "a", 3), (None, None, 5)]
LATER = [(1, "b", 9), (4, "c", None), (2, "a", -1)]
Row = tuple[Any, Any, Any]


class Job:
    """A pipeline whose file is edited between runs, by a clock of our own."""

    def __init__(self, folder: Path, sink: str) -> None:
        self.folder, self.sink, self.files = folder, sink, 0
        self.reported: list[Diagnostic] = []
        (folder / "in").mkdir()

    def run(self, ttl: str | None, query: str, rows: Sequence[Row], minute: int = 0) -> None:
        lines = (json.dumps(dict(zip("ksv", row, strict=True))) + "\n" for row in rows)
        (self.folder / f"in/{self.files}.json").write_text("".join(lines))
        self.files += 1
        self.reported.clear()
        plan = self.planned(ttl, query)
        run_here(
            plan,
            self.folder,
            parallelism=1 + self.files % 3,
            rows_per_epoch=4,
            sql=plan.masked_sql,
            written=plan.written,
            tell=self.reported.append,
            wall_clock=lambda: 1_000_000.0 + minute * MINUTE,
        )

    def planned(self, ttl: str | None, query: str) -> Any:
        settings = f"SET 'table.exec.state.ttl' = '{ttl}';\n" if ttl else ""
        (self.folder / "p.sql").write_text(f"{settings}{T}{self.sink}INSERT INTO o {query};\n")
        return plan_file(self.folder / "p.sql")

    def table(self) -> list[Any]:
        if self.sink is CHANGELOG:
            return list(held(self.folder, ["g", "n", "x"]))
        with duckdb.connect(str(self.folder / "out.duckdb"), read_only=True) as con:
            return list(con.execute("SELECT g, n, x FROM o").fetchall())

    def batch(self, query: str) -> list[Any]:
        """DuckDB's answer over all files."""
        plan = self.planned(None, query)
        return list(batch_of(to_duckdb(plan, lambda _: sorted(map(str, (self.folder / "in").glob("*"))))))

    def forgotten(self) -> int:
        journal = Journal(CheckpointStore(str(self.folder / "state"), sync=False))
        found = journal.manifest(journal.epochs()[1][-1]).forgotten
        assert found is not None
        return sum(found.values())


@pytest.mark.sampled(12, each_value=False)
@pytest.mark.parametrize("life", LIVES)
@pytest.mark.parametrize("name", [*EDITS, *DROPPED])
def test_nothing_was_forgotten(name: str, life: str, tmp_path: Path) -> None:
    keyed = name in EDITS and name not in ("function of the key",)
    old, new = (OLD, EDITS[name]) if name in EDITS else (TWO, DROPPED[name])
    if keyed:
        # NULL is no key of a table.
        old, new = (
            q.replace("FROM t", "FROM t WHERE k IS NOT NULL").replace("NULL WHERE", "NULL AND")
            for q in (old, new)
        )
    job = Job(tmp_path, KEYED if keyed else CHANGELOG)
    before, after = LIVES[life]
    job.run(before, old, FIRST)
    job.run(after, new, [], minute=1)
    assert_same(job.table(), job.batch(new))
    job.run(after, new, LATER, minute=2)
    assert_same(job.table(), job.batch(new))
    assert not job.forgotten()


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["projection", "filter on a key", "having"])
@pytest.mark.parametrize("after", ["1 h", "5 h", None])
@pytest.mark.parametrize("sink", [KEYED, CHANGELOG])
def test_forgotten_keys_keep_their_rows(sink: str, after: str | None, name: str, tmp_path: Path) -> None:
    """Key 2 is forgotten when the edit comes; the others are reconciled with the new result."""
    job = Job(tmp_path, sink)
    job.run("1 h", OLD, [(1, "a", 1), (2, "a", 7)])
    job.run("1 h", OLD, [(1, "a", 2), (3, "a", 5)], minute=50)
    job.run("1 h", OLD, [(1, "a", 3)], minute=90)
    assert job.forgotten() == 1
    assert Counter(job.table()) == Counter([("1", 3, 6), ("2", 1, 7), ("3", 1, 5)])
    query = EDITS[name].replace("k <> 2", "k <> 3")
    job.run(after, query, [], minute=91)
    expected = {
        "projection": [("1", 30, 6), ("2", 1, 7), ("3", 10, 5)],
        "filter on a key": [("1", 3, 6), ("2", 1, 7)],
        "having": [("1", 3, 6), ("2", 1, 7)],
    }[name]
    assert Counter(job.table()) == Counter(expected)
    assert any("forgotten" in note for d in job.reported for note in d.notes)
    job.run(after, query, [(1, "b", 4), (2, "b", 1), (2, "b", 1)], minute=92)
    later = {
        "projection": [("1", 40, 10), ("2", 20, 2), ("3", 10, 5)],
        "filter on a key": [("1", 4, 10), ("2", 2, 2)],
        "having": [("1", 4, 10), ("2", 2, 2)],
    }[name]
    # Without a PRIMARY KEY nothing says that the row which was given is of the same key.
    stays = [("2", 1, 7)] if sink is CHANGELOG else []
    assert Counter(job.table()) == Counter([*later, *stays])


READ_AGAIN = ["aggregate added", "aggregate beside", "distinct added", "filter"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", READ_AGAIN)
@pytest.mark.parametrize("after", ["1 h", None])
def test_what_is_read_again_has_what_was_forgotten(after: str | None, name: str, tmp_path: Path) -> None:
    job = Job(tmp_path, KEYED)
    job.run("1 h", OLD, [(1, "a", 8), (2, "a", 7)])
    job.run("1 h", OLD, [(1, "a", 2), (3, "a", 5)], minute=50)
    job.run("1 h", OLD, [(1, "a", 3)], minute=90)
    assert job.forgotten() == 1
    job.run(after, EDITS[name], [], minute=91)
    expected = Counter(map(tuple, job.batch(EDITS[name])))
    assert Counter(job.table()) == expected
    assert not job.forgotten()
    job.run(after, EDITS[name], [(1, "b", 4), (2, "b", 3)], minute=92)
    assert Counter(job.table()) == Counter(map(tuple, job.batch(EDITS[name])))


@pytest.mark.parametrize("name", [*READ_AGAIN, "function of the key"])
def test_rows_that_would_stand_twice_are_refused(name: str, tmp_path: Path) -> None:
    job = Job(tmp_path, CHANGELOG)
    job.run("1 h", OLD, [(1, "a", 8), (2, "a", 7)])
    job.run("1 h", OLD, [(3, "a", 2)], minute=90)
    with pytest.raises(DiagnosticError) as caught:
        job.run("1 h", EDITS[name], [], minute=91)
    [reported] = caught.value.diagnostics
    assert (reported.code, caught.value.exit_code) == ("STA014", 4)
    assert any("no PRIMARY KEY" in note for note in reported.notes)


def test_a_new_table_beside_what_was_forgotten(tmp_path: Path) -> None:
    """It is given what the state has: that is what will be taken back."""
    job = Job(tmp_path, CHANGELOG)
    job.run("1 h", OLD, [(1, "a", 8), (2, "a", 7)])
    job.run("1 h", OLD, [(1, "a", 2)], minute=50)
    job.run("1 h", OLD, [(1, "a", 2)], minute=90)
    more = (
        "CREATE TABLE p (g STRING, n BIGINT) WITH ('connector' = 'duckdb', 'path' = 'out.duckdb');\n"
        "INSERT INTO p SELECT CAST(k AS STRING), COUNT(*) FROM t GROUP BY k"
    )
    job.run("1 h", f"{OLD};\n{more}", [(1, "a", 1), (2, "a", 1)], minute=91)
    with duckdb.connect(str(tmp_path / "out.duckdb"), read_only=True) as con:
        assert Counter(con.execute("SELECT g, n FROM p").fetchall()) == Counter([("1", 4), ("2", 1)])
    assert any("forgotten" in note for d in job.reported for note in d.notes)
