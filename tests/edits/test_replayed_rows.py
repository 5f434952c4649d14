"""Dead-letter rows that were mended and replayed: each is counted once, whatever is killed, repeated, edited or copied.

What a pipeline has then is compared with one that was given the right rows from the beginning.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from sqlstream.connectors.api import ConnectorContext, Source
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.runtime.edits.savepoints.fork import Origin
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream.runtime.loop.stop import StopFlag
from sqlstream.state.dead_letters import Wanted, count_dead_letters, read_dead_letters
from sqlstream.state.replaying import Replayed, replay
from sqlstream.storage.journal import Journal
from sqlstream.storage.mended_rows import all_mended_rows
from sqlstream.storage.savepoints import Savepoints
from sqlstream.storage.verification import damaged_descriptions
from sqlstream_operators.plan.spec import SourceSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.examples import seeds
from tests.properties.in_process import run_here
from tests.properties.test_edited_answers import held
from tests.runtime.support import Crash, crash_at

GROUPS = "SELECT k, COUNT(*) AS n, CAST(SUM(v) AS BIGINT) AS m FROM t GROUP BY k"
OTHER = "SELECT k, COUNT(DISTINCT v) AS n, CAST(MAX(v) AS BIGINT) AS m FROM t GROUP BY k"
#: By format the rows of a file, of which two can't be read, and how these should have been.
ROWS = {
    "csv": ('v,k\n1,a\n2O,a\n3,b\n"4,b\n', {"2O,a": "20,a", '"4,b': "4,b"}),
    "json": (
        '{"k": "a", "v": 1}\n{"k": "a", "v": "2O"}\n{"k": "b", "v": 3}\n{"k": "b", "v": 4\n',
        {'{"k": "a", "v": "2O"}': '{"k": "a", "v": 20}', '{"k": "b", "v": 4': '{"k": "b", "v": 4}'},
    ),
    "changelog-json": (
        '{"op": "+I", "data": {"k": "a", "v": 1}}\n{"op": "+I", "data": {"k": "a", "v": "2O"}}\n'
        '{"op": "+I", "data": {"k": "b", "v": 3}}\n{"op": "+X", "data": {"k": "b", "v": 4}}\n',
        {
            '{"op": "+I", "data": {"k": "a", "v": "2O"}}': '{"op": "+I", "data": {"k": "a", "v": 20}}',
            '{"op": "+X", "data": {"k": "b", "v": 4}}': '{"op": "+I", "data": {"k": "b", "v": 4}}',
        },
    ),
}
RIGHT = Counter([("a", 2, 21), ("b", 2, 7)])


def text(query: str = GROUPS, format_: str = "csv", type_: str = "INT", more: str = "") -> str:
    options = f"'connector' = 'filesystem', 'path' = 'in', 'format' = '{format_}'"
    table = f"CREATE TABLE t (k STRING, v {type_}) WITH ({options});\n"
    out = (
        "CREATE TABLE out WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json') AS "
    )
    return f"{table}{more}{out}{query};\n"


def planned(folder: Path, sql: str) -> Planned:
    (folder / "p.sql").write_text(sql)
    return plan_file(folder / "p.sql")


def run(folder: Path, sql: str, **options: Any) -> Counter[tuple[Any, ...]]:
    plan = planned(folder, sql)
    run_here(plan, folder, sql=plan.masked_sql, drain=False, **options)
    return rows(folder, plan)


def rows(folder: Path, plan: Planned) -> Counter[tuple[Any, ...]]:
    return Counter(held(folder, [c.name for c in plan.physical.sinks[0].schema]))


def begun(folder: Path, format_: str = "csv") -> Mapping[str, str]:
    """A pipeline that has read its rows; how those should be that are dead letters."""
    (folder / "in").mkdir()
    content, mended = ROWS[format_]
    (folder / "in" / f"0.{format_.rpartition('-')[2]}").write_text(content)
    assert run(folder, text(format_=format_)) == Counter([("a", 1, 1), ("b", 1, 3)])
    return mended


def store_of(folder: Path, state: str = "state") -> CheckpointStore:
    return CheckpointStore(folder / state, sync=False)


def replayed(
    folder: Path,
    sql: str,
    mended: Mapping[str, str],
    *,
    state: str = "state",
    after_each: Callable[[int], None] = lambda kept: None,
    wanted: Wanted | None = None,
) -> Replayed:
    """Replay the dead letters, with the text that each should have."""
    store, plan = store_of(folder, state), planned(folder, sql)
    letters = [row.to_json() for row in read_dead_letters(store, wanted)]
    given = {one["id"]: {**one, "row": mended.get(one["row"], one["row"])} for one in letters}

    def source_of(spec: SourceSpec, folder_: str) -> Source:
        return REGISTERED.source(spec, ConnectorContext(store, str(folder), folder=folder_))

    return replay(store, given, plan.physical.sources, source_of, after_each=after_each)


def counts(folder: Path, state: str = "state") -> dict[str, tuple[int, int]]:
    """By source, how many malformed rows there are, and how many were replayed."""
    found = count_dead_letters(store_of(folder, state))
    return {group.source: (group.rows, group.replayed) for group in found if group.kind == "malformed"}


def codes(error: pytest.ExceptionInfo[DiagnosticError]) -> list[str]:
    return [diagnostic.code for diagnostic in error.value.diagnostics]


@pytest.mark.parametrize("format_", ROWS)
def test_mended_rows_are_counted_once(format_: str, tmp_path: Path) -> None:
    mended = begun(tmp_path, format_)
    assert counts(tmp_path) == {"t": (2, 0)}
    sql = text(format_=format_)
    done = replayed(tmp_path, sql, mended)
    assert (len(done.kept), done.before, done.unchanged) == (2, 0, 0)
    assert counts(tmp_path) == {"t": (0, 2)}
    for _ in range(2):
        assert run(tmp_path, sql) == RIGHT
    assert counts(tmp_path) == {"t": (0, 2)}
    # Another query over the same history.
    assert run(tmp_path, text(OTHER, format_)) == Counter([("a", 2, 20), ("b", 2, 4)])
    assert counts(tmp_path) == {"t": (0, 2)}


def test_only_what_was_changed(tmp_path: Path) -> None:
    begun(tmp_path)
    done = replayed(tmp_path, text(), {"2O,a": "20,a\n\n"})
    assert (len(done.kept), done.unchanged) == (1, 1)
    assert run(tmp_path, text()) == Counter([("a", 2, 21), ("b", 1, 3)])
    assert counts(tmp_path) == {"t": (1, 1)}
    [row] = read_dead_letters(store_of(tmp_path), Wanted(replayed=True))
    assert row.text == "2O,a"
    assert row.mended is not None
    assert [row.text for row in read_dead_letters(store_of(tmp_path))] == ['"4,b']


def test_no_row_is_replayed_twice(tmp_path: Path) -> None:
    mended = begun(tmp_path)
    everything = [row.to_json() for row in read_dead_letters(store_of(tmp_path))]
    replayed(tmp_path, text(), mended)
    for rows_run in (False, True):
        if rows_run:
            run(tmp_path, text())
        assert len(replayed(tmp_path, text(), {k: v.replace("0", "9") for k, v in mended.items()}).kept) == 0
        given = {one["id"]: {**one, "row": "9,z"} for one in everything}
        done = replay(store_of(tmp_path), given, planned(tmp_path, text()).physical.sources, no_source)
        assert (len(done.kept), done.before) == (0, 2)
    assert run(tmp_path, text()) == RIGHT


def no_source(spec: SourceSpec, folder: str) -> Source:
    raise AssertionError("it is not asked")


def test_the_command_is_killed(tmp_path: Path) -> None:
    mended = begun(tmp_path)

    def killed(kept: int) -> None:
        raise Crash(str(kept))

    everything = [row.to_json() for row in read_dead_letters(store_of(tmp_path))]
    with pytest.raises(Crash):
        replayed(tmp_path, text(), mended, after_each=killed)
    assert counts(tmp_path) == {"t": (1, 1)}
    done = replayed(tmp_path, text(), mended, wanted=Wanted())
    assert len(done.kept) == 1
    assert len(everything) == 2
    assert run(tmp_path, text()) == RIGHT


def test_a_text_that_no_row_names_is_not_read(tmp_path: Path) -> None:
    begun(tmp_path)
    store_of(tmp_path).put("sources/t/mended/text/0123456789abcdef-1-0123456789abcdef.csv", b"v,k\n7,z\n")
    assert run(tmp_path, text()) == Counter([("a", 1, 1), ("b", 1, 3)])


@pytest.mark.parametrize("step", ["planned", "run", "prepared", "published", "committed", "collected"])
def test_the_run_is_killed(step: str, tmp_path: Path) -> None:
    mended = begun(tmp_path)
    replayed(tmp_path, text(), mended)
    with pytest.raises(Crash):
        run(tmp_path, text(), faults=crash_at(step, 2))
    assert len(replayed(tmp_path, text(), mended).kept) == 0
    assert run(tmp_path, text()) == RIGHT
    assert counts(tmp_path) == {"t": (0, 2)}


def test_an_epoch_is_given_up(tmp_path: Path) -> None:
    """The plan of another query can't be replayed: its input is read by the next epochs."""
    mended = begun(tmp_path)
    replayed(tmp_path, text(), mended)
    with pytest.raises(Crash):
        run(tmp_path, text(), faults=crash_at("planned", 2))
    assert run(tmp_path, text(OTHER)) == Counter([("a", 2, 20), ("b", 2, 4)])


def test_still_not_to_be_read(tmp_path: Path) -> None:
    begun(tmp_path)
    replayed(tmp_path, text(), {"2O,a": "2o,a"})
    assert run(tmp_path, text()) == Counter([("a", 1, 1), ("b", 1, 3)])
    assert counts(tmp_path) == {"t": (2, 1)}
    replayed(tmp_path, text(), {"2o,a": "20,a", '"4,b': "4,b"})
    assert run(tmp_path, text()) == RIGHT
    assert counts(tmp_path) == {"t": (0, 3)}
    assert run(tmp_path, text(OTHER)) == Counter([("a", 2, 20), ("b", 2, 4)])


def test_a_run_that_watches_the_files(tmp_path: Path) -> None:
    """A row that is mended while it runs is read by it; not before the run has committed, lest it decides an edit."""
    (tmp_path / "in").mkdir()
    content, mended = ROWS["csv"]
    (tmp_path / "in" / "0.csv").write_text(content)
    watching = text().replace(
        "'format'", "'source.monitor-interval' = '10 ms', 'source.settle-time' = '0 s', 'format'", 1
    )
    plan, stop = planned(tmp_path, watching), StopFlag()
    kept: list[int] = []
    refused: list[str] = []

    def mend() -> None:
        while not kept:
            try:
                kept.append(len(replayed(tmp_path, watching, mended).kept))
            except DiagnosticError as error:
                refused.extend(diagnostic.code for diagnostic in error.diagnostics)
                time.sleep(0.02)

    thread = threading.Thread(target=mend)

    def epoch(report: EpochReport) -> None:
        if report.epoch == 1:
            thread.start()
        elif rows(tmp_path, plan) == RIGHT:
            stop.request()

    run_here(plan, tmp_path, drain=False, on_epoch=epoch, stop=stop, lease_beat_s=0.05)
    thread.join()
    assert (kept, set(refused) - {"STA002"}) == ([2], set())
    assert rows(tmp_path, plan) == RIGHT
    assert counts(tmp_path) == {"t": (0, 2)}


@pytest.mark.parametrize(
    ("name", "content", "options"),
    [
        ("0.csv", b"v,k\n1,a\n2O,a\n", "'path' = 'in/0.csv'"),
        ("0.csv.gz", gzip.compress(b"v,k\n1,a\n2O,a\n", mtime=0), "'path' = 'in'"),
        ("0.csv", b"a,1\na,2O\n", "'path' = 'in', 'csv.header' = 'false'"),
        ("0.csv", b"a,1\na,2O\n", "'path' = 'in'"),
        (
            "0.csv",
            b'"v";x;k\n1;"a;b";a\n2O;;a\n',
            "'path' = 'in', 'csv.field-delimiter' = ';', 'csv.header' = 'true'",
        ),
    ],
)
def test_files_of_csv(name: str, content: bytes, options: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / name).write_bytes(content)
    sql = text().replace("'path' = 'in'", options)
    assert run(tmp_path, sql) == Counter([("a", 1, 1)])
    replayed(tmp_path, sql, {"2O,a": "20,a", "a,2O": "a,20", "2O;;a": "20;;a"})
    assert run(tmp_path, sql) == Counter([("a", 2, 21)])
    assert run(tmp_path, sql.replace(GROUPS, OTHER)) == Counter([("a", 2, 20)])


def test_several_rows_in_the_place_of_one(tmp_path: Path) -> None:
    begun(tmp_path)
    replayed(tmp_path, text(), {"2O,a": "20,a\n4,b"})
    assert run(tmp_path, text()) == RIGHT


TWO = "CREATE TABLE u (v STRING, k INT) WITH ('connector' = 'filesystem', 'path' = 'other', 'format' = 'csv');\n"
BOTH = GROUPS.replace("FROM t", "FROM (SELECT k, v FROM t UNION ALL SELECT v, k FROM u)")


def test_two_sources(tmp_path: Path) -> None:
    begun_folder = tmp_path / "other"
    begun_folder.mkdir()
    (begun_folder / "x.csv").write_text("a,1\na,y\nc,2O\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text(ROWS["csv"][0])
    sql = text(BOTH, more=TWO)
    assert run(tmp_path, sql) == Counter([("a", 2, 2), ("b", 1, 3)])
    done = replayed(tmp_path, sql, {"c,2O": "c,20", "2O,a": "20,a"})
    assert sorted(row.source for row in done.kept) == ["t", "u"]
    assert run(tmp_path, sql) == Counter([("a", 3, 22), ("b", 1, 3), ("c", 1, 20)])
    assert counts(tmp_path) == {"t": (1, 1), "u": (1, 1)}


def test_two_tables_of_one_data(tmp_path: Path) -> None:
    """Each has dead letters of its own; a table that was mended otherwise than the other does not stand in its place."""
    (tmp_path / "in").mkdir()
    content, mended = ROWS["csv"]
    (tmp_path / "in" / "0.csv").write_text(content)
    more = text().partition("\n")[0].replace("TABLE t", "TABLE u") + "\n"
    both = BOTH.replace("SELECT v, k FROM u", "SELECT k, v FROM u")
    assert run(tmp_path, text(both, more=more)) == Counter([("a", 2, 2), ("b", 2, 6)])
    assert counts(tmp_path) == {"t": (2, 0), "u": (2, 0)}
    replayed(tmp_path, text(both, more=more), {"2O,a": mended["2O,a"]}, wanted=Wanted(source="t"))
    replayed(tmp_path, text(both, more=more), {'"4,b': mended['"4,b']}, wanted=Wanted(source="u"))
    assert run(tmp_path, text(both, more=more)) == Counter([("a", 3, 22), ("b", 3, 10)])
    with pytest.raises(DiagnosticError) as error:
        run(tmp_path, text(GROUPS.replace("FROM t", "FROM u"), more=more))
    assert codes(error) == ["STA011"]


def test_a_table_more_of_data_that_was_mended(tmp_path: Path) -> None:
    mended = begun(tmp_path)
    replayed(tmp_path, text(), mended)
    assert run(tmp_path, text()) == RIGHT
    more = text().partition("\n")[0].replace("TABLE t", "TABLE u") + "\n"
    both = BOTH.replace("SELECT v, k FROM u", "SELECT k, v FROM u")
    assert run(tmp_path, text(both, more=more)) == Counter([("a", 4, 42), ("b", 4, 14)])
    assert all(there == 0 for there, _ in counts(tmp_path).values())


def test_a_renamed_table(tmp_path: Path) -> None:
    mended = begun(tmp_path)
    replayed(tmp_path, text(), mended)
    assert run(tmp_path, text()) == RIGHT
    renamed = text(OTHER).replace("TABLE t", "TABLE u").replace("FROM t", "FROM u")
    assert run(tmp_path, renamed) == Counter([("a", 2, 20), ("b", 2, 4)])
    assert all(there == 0 for there, _ in counts(tmp_path).values())
    (tmp_path / "in" / "1.csv").write_text("v,k\n5,b\nx,b\n")
    assert run(tmp_path, renamed) == Counter([("a", 2, 20), ("b", 3, 5)])
    replayed(tmp_path, renamed, {"x,b": "6,b"})
    assert run(tmp_path, renamed) == Counter([("a", 2, 20), ("b", 4, 6)])


@pytest.mark.parametrize("read", [False, True])
def test_an_edit_that_can_read_the_row_itself(read: bool, tmp_path: Path) -> None:
    """It would be counted beside the mended one."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("k,v\na,1\na,40000\nb,3000000000\n")
    small, wide, wider = (text(type_=one) for one in ("SMALLINT", "INT", "BIGINT"))
    assert run(tmp_path, small) == Counter([("a", 1, 1)])
    replayed(tmp_path, small, {"a,40000": "a,4000", "b,3000000000": "b,3"})
    if read:
        assert run(tmp_path, small) == Counter([("a", 2, 4001), ("b", 1, 3)])
    for sql in (wide, wider):
        with pytest.raises(DiagnosticError) as error:
            run(tmp_path, sql)
        assert codes(error) == ["STA034"]
        assert error.value.exit_code == 4
    [diagnostic] = error.value.diagnostics
    assert "2 rows" in diagnostic.message
    assert "in/0.csv, line 3: a,40000" in " ".join(diagnostic.notes)
    assert run(tmp_path, small) == Counter([("a", 2, 4001), ("b", 1, 3)])


@pytest.mark.parametrize("read", [False, True])
def test_an_edit_that_can_read_another_row(read: bool, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("k,v\na,1\na,40000\nb,3000000000\n")
    small, wide, wider = (text(type_=one) for one in ("SMALLINT", "INT", "BIGINT"))
    assert run(tmp_path, small) == Counter([("a", 1, 1)])
    replayed(tmp_path, small, {"b,3000000000": "b,3"})
    if read:
        assert run(tmp_path, small) == Counter([("a", 1, 1), ("b", 1, 3)])
    assert run(tmp_path, wide) == Counter([("a", 2, 40_001), ("b", 1, 3)])
    assert counts(tmp_path) == {"t": (0, 1)}  # reported again, under another id, and replayed already
    [row] = read_dead_letters(store_of(tmp_path), Wanted(replayed=True))
    given = {row.id: {**row.to_json(), "row": "b,9"}}
    assert replay(store_of(tmp_path), given, planned(tmp_path, wide).physical.sources, no_source).before == 1
    with pytest.raises(DiagnosticError) as error:
        run(tmp_path, wider)
    assert codes(error) == ["STA034"]


def test_ids_from_before_an_edit(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("k,v\na,1\na,40000\nb,3000000000\n")
    run(tmp_path, text(type_="SMALLINT"))
    old = [row.to_json() for row in read_dead_letters(store_of(tmp_path))]
    wide = text(type_="INT")
    run(tmp_path, wide)
    given = {one["id"]: {**one, "row": "b,3"} for one in old}
    with pytest.raises(DiagnosticError) as error:
        replay(store_of(tmp_path), given, planned(tmp_path, wide).physical.sources, no_source)
    assert codes(error) == ["DAT017"]
    assert "was withdrawn by epoch 2" in error.value.diagnostics[0].notes[0]
    assert all_mended_rows(store_of(tmp_path)) == {}


def test_a_savepoint_has_what_was_read_by_then(tmp_path: Path) -> None:
    mended = begun(tmp_path)
    store = store_of(tmp_path)
    Savepoints(store).create("before")
    replayed(tmp_path, text(), {"2O,a": mended["2O,a"]})
    Savepoints(store).create("waiting")
    assert run(tmp_path, text()) == Counter([("a", 2, 21), ("b", 1, 3)])
    Savepoints(store).create("after")
    replayed(tmp_path, text(), mended)
    assert run(tmp_path, text()) == RIGHT
    for name, expected in (("before", (1, 1)), ("waiting", (1, 1)), ("after", (2, 20))):
        sql = text(OTHER).replace("'path' = 'out'", f"'path' = '{name}/out'")
        origin: Origin | None = Origin(store, Savepoints(store).find(name))
        for _ in range(2):
            run(tmp_path, sql, state=f"state-{name}", origin=origin)
            found = rows(tmp_path / name, planned(tmp_path, sql))
            assert found == Counter([("a", *expected), ("b", 1, 3)])
            origin = None


def test_a_fork_reads_the_row_itself_and_mends_it_too(tmp_path: Path) -> None:
    """A savepoint from before the row was read: it is another state directory's dead letter then, and mended there."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("v,k\n1,a\n")
    run(tmp_path, text())
    store = store_of(tmp_path)
    Savepoints(store).create("first")
    (tmp_path / "in" / "1.csv").write_text("v,k\n2O,a\n")
    run(tmp_path, text())
    replayed(tmp_path, text(), {"2O,a": "20,a"})
    assert run(tmp_path, text()) == Counter([("a", 2, 21)])
    sql = text().replace("'path' = 'out'", "'path' = 'fork/out'")
    run(tmp_path, sql, state="fork-state", origin=Origin(store, Savepoints(store).find("first")))
    assert counts(tmp_path, "fork-state") == {"t": (1, 0)}
    assert len(replayed(tmp_path, sql, {"2O,a": "20,a"}, state="fork-state").kept) == 1
    for _ in range(2):
        run(tmp_path, sql, state="fork-state")
        assert rows(tmp_path / "fork", planned(tmp_path, sql)) == Counter([("a", 2, 21)])
    run(tmp_path, sql.replace(GROUPS, OTHER), state="fork-state")
    assert rows(tmp_path / "fork", planned(tmp_path, sql)) == Counter([("a", 2, 20)])


def test_the_project_is_moved(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    mended = begun(old)
    replayed(old, text(), {"2O,a": mended["2O,a"]})
    run(old, text())
    replayed(old, text(), mended)
    old.rename(new := tmp_path / "new")
    assert run(new, text()) == RIGHT
    assert run(new, text(OTHER)) == Counter([("a", 2, 20), ("b", 2, 4)])
    assert counts(new) == {"t": (0, 2)}


def test_rows_that_can_not_be_replayed(tmp_path: Path) -> None:
    begun(tmp_path)

    def refused(mended: Mapping[str, str], sql: str = text()) -> str:
        with pytest.raises(DiagnosticError) as error:
            replayed(tmp_path, sql, mended)
        assert codes(error) == ["DAT017"]
        assert all_mended_rows(store_of(tmp_path)) == {}
        return " ".join(error.value.diagnostics[0].notes)

    assert "it is empty now" in refused({"2O,a": " \n"})
    headless = text().replace("'format'", "'csv.allow-comments' = 'true', 'format'")
    assert "table `t`" in refused({"2O,a": "20,a"}, headless.replace("'path' = 'in'", "'path' = 'elsewhere'"))
    (tmp_path / "in" / "0.csv").write_text("k,v\na,1\n")
    assert "was changed" in refused({"2O,a": "20,a"})
    (tmp_path / "in" / "0.csv").unlink()
    assert "was changed" in refused({"2O,a": "20,a", '"4,b': "4,b"})


def test_rows_that_are_not_kept_as_they_are(tmp_path: Path) -> None:
    """A row that is longer than what is kept of it, and one with bytes that are no UTF-8."""
    (tmp_path / "in").mkdir()
    long = '{"k": "' + "é" * 40_000 + '", "v": "x"}'
    (tmp_path / "in" / "0.json").write_bytes(long.encode() + b'\n{"k": "\xff", "v": "y"}\n')
    sql = text(format_="json")
    run(tmp_path, sql)
    first, second = sorted((row.text for row in read_dead_letters(store_of(tmp_path))), key=len, reverse=True)
    for mended, why in (({first: first + "z"}, "64 KiB"), ({second: second.replace('"y"', "1")}, "no UTF-8")):
        with pytest.raises(DiagnosticError) as error:
            replayed(tmp_path, sql, mended)
        assert why in error.value.diagnostics[0].notes[0]
    replayed(tmp_path, sql, {second: '{"k": "ÿ", "v": 1}'})
    assert run(tmp_path, sql) == Counter([("ÿ", 1, 1)])


@pytest.mark.parametrize("kind", ["late", "no-time", "failed"])
def test_other_kinds(kind: str, tmp_path: Path) -> None:
    begun(tmp_path)
    letter = {"epoch": 1, "kind": kind, "source": "t", "reason": "…", "row": {"k": "a"}}
    store_of(tmp_path).put("dead-letter/epoch-000001-0-00009.jsonl", json.dumps(letter).encode() + b"\n")
    [row] = read_dead_letters(store_of(tmp_path), Wanted(kind=kind))
    sources = planned(tmp_path, text()).physical.sources
    assert replay(store_of(tmp_path), {row.id: row.to_json()}, sources, no_source).unchanged == 1
    with pytest.raises(DiagnosticError) as error:
        replay(store_of(tmp_path), {row.id: {**row.to_json(), "row": {"k": "b"}}}, sources, no_source)
    assert codes(error) == ["DAT017"]


def test_a_source_that_is_no_files(tmp_path: Path) -> None:
    begun(tmp_path)
    place = {"origin": "topic x", "position": {"partition": 3, "offset": 17}, "key": "a"}
    letter = {"epoch": 1, "kind": "malformed", "source": "t", **place, "reason": "…", "row": "no JSON"}
    store_of(tmp_path).put("dead-letter/epoch-000001-0-00009.jsonl", json.dumps(letter).encode() + b"\n")
    [row] = read_dead_letters(store_of(tmp_path), Wanted(reason="…", kind="malformed"))
    assert row.place == "topic x, partition 3, offset 17"
    with pytest.raises(DiagnosticError) as error:
        replay(
            store_of(tmp_path),
            {row.id: {**row.to_json(), "row": "{}"}},
            planned(tmp_path, text()).physical.sources,
            lambda spec, folder: object(),  # type: ignore[arg-type, return-value]
        )
    assert "the topic" in str(error.value.diagnostics[0].help)


def test_a_mended_row_that_is_damaged(tmp_path: Path) -> None:
    mended = begun(tmp_path)
    replayed(tmp_path, text(), mended)
    store = store_of(tmp_path)
    last = Journal(store).manifest(1)
    assert list(damaged_descriptions(store, last)) == []
    for file in (tmp_path / "state/sources/t/mended/text").iterdir():
        name = f"sources/t/mended/text/{file.name}"
        file.write_bytes(file.read_bytes() + b"9,z\n")
        assert (name, "has another content than its name says") in list(damaged_descriptions(store, last))
        file.unlink()
    with pytest.raises(DiagnosticError) as error:
        run(tmp_path, text())
    assert codes(error) == ["STA001"]


BOUNDS = {"SMALLINT": 1 << 15, "INT": 1 << 31, "BIGINT": 1 << 63}


def readable(lines: list[str], type_: str) -> list[tuple[str, int]]:
    """The rows of lines of CSV that can be read."""
    pairs = [line.split(",") for line in lines]
    return [(k, int(v)) for k, v in pairs if v.isdigit() and int(v) < BOUNDS[type_]]


def answer(query: str, found: list[tuple[str, int]]) -> Counter[tuple[Any, ...]]:
    keys = {k for k, _ in found}
    of = {k: [v for key, v in found if key == k] for k in keys}
    if query == GROUPS:
        return Counter((k, len(of[k]), sum(of[k])) for k in keys)
    return Counter((k, len(set(of[k])), max(of[k])) for k in keys)


@pytest.mark.parametrize("seed", seeds(6))
@pytest.mark.sampled(2)
def test_any_order_of_files_replays_edits_and_crashes(seed: int, tmp_path: Path) -> None:
    """What is counted is each line that can be read, and in the place of each that was mended what it was mended to.

    An edit that can read a line which was mended is refused, and changes nothing.
    """
    random_ = random.Random(seed)
    (tmp_path / "in").mkdir()
    query, type_ = GROUPS, "SMALLINT"
    lines: list[str] = []  # of all files, and mended ones
    replaced: list[str] = []  # lines that were mended
    values = ("1", "2", "40000", "50000", "3000000000", "x", "y")

    def line() -> str:
        return f"{random_.choice('ab')},{random_.choice(values)}"

    for step in range(7):
        if not step or random_.random() < 0.4:
            new = ["a,1", *(line() for _ in range(random_.randint(1, 4)))]
            (tmp_path / "in" / f"{step}.csv").write_text("k,v\n" + "".join(f"{one}\n" for one in new))
            lines += new
        if step and random_.random() < 0.4:
            query = random_.choice([GROUPS, OTHER])
        before, type_ = type_, random_.choice(list(BOUNDS)) if step and random_.random() < 0.3 else type_
        refused = len(readable(replaced, type_)) > len(readable(replaced, before))
        if random_.random() < 0.3:
            point = random_.choice(["planned", "run", "prepared", "published", "committed"])
            last = max((int(f.name[:6]) for f in (tmp_path / "state/epochs").glob("*.plan.json")), default=0)
            with contextlib.suppress(Crash, DiagnosticError):
                run(tmp_path, text(query, type_=type_), faults=crash_at(point, last + random_.choice([1, 2])))
        if refused:
            with pytest.raises(DiagnosticError) as error:
                run(tmp_path, text(query, type_=type_))
            assert codes(error) == ["STA034"], (seed, step)
            type_ = before
        for rows_per_epoch in (random_.choice([1, 2, 100]), None):
            found = run(tmp_path, text(query, type_=type_), rows_per_epoch=rows_per_epoch)
            assert found == answer(query, readable(lines, type_)), (seed, step)
        bad = [one for one in lines if one not in replaced and not readable([one], type_)]
        there = [row.text for row in read_dead_letters(store_of(tmp_path))]
        left = Counter(one for one in lines if not readable([one], type_)) - Counter(replaced)
        assert Counter(there) == left, (seed, step)
        if bad and random_.random() < 0.5:
            of = random_.choice(bad)
            number = sum(row.text == of for row in read_dead_letters(store_of(tmp_path)))
            to = line()
            if to != of:
                done = replayed(tmp_path, text(query, type_=type_), {of: to})
                assert len(done.kept) == number
                lines += [to] * number
                replaced += [of] * number
