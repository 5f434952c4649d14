"""Several tables of one source's data: state is found by what the data is, and must be of the rows that a table has read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

import pytest

from sqlstream.planning import plan_file
from sqlstream.storage import manifest
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import DiagnosticError
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.properties.in_process import run_here
from tests.properties.referee import assert_same
from tests.properties.test_edited_answers import held
from tests.properties.updating import Collected, collecting, fetched
from tests.runtime.support import Crash, crash_at, manifests

TABLE = "CREATE TABLE {t} (k INT, v INT) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');\n"
COUNTS = (
    "CREATE TABLE counts WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) AS n FROM {t} GROUP BY k;\n"
)
SUMS = "CREATE TABLE sums WITH ('connector' = 'blackhole') AS SELECT k, SUM(v) AS s FROM {t} GROUP BY k;\n"
ODD = "CREATE TABLE odd WITH ('connector' = 'blackhole') AS SELECT k, v FROM {t} WHERE v % 2 = 1;\n"
HIGHEST = (
    "CREATE TABLE highest WITH ('connector' = 'blackhole') AS SELECT k, MAX(v) AS m FROM {t} GROUP BY k;\n"
)


def add(folder: Path, path: str, file: str, *numbers: int) -> None:
    (folder / path).mkdir(exist_ok=True)
    lines = (json.dumps({"k": n % 3, "v": n}) + "\n" for n in numbers)
    (folder / path / f"{file}.json").write_text("".join(lines))


def planned(folder: Path, tables: Mapping[str, str], *sinks: str) -> Planned:
    """`tables`: their names and the folders that they read."""
    text = "".join(TABLE.format(t=t, path=path) for t, path in tables.items())
    (folder / "p.sql").write_text(text + "".join(sinks))
    return plan_file(folder / "p.sql")


def check(folder: Path, collected: Collected, query: Planned) -> None:
    files = {
        s.name: sorted(map(str, (folder / s.options["path"]).glob("*.json"))) for s in query.physical.sources
    }
    script = to_duckdb(query, lambda source: files[source.name])
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        for name, text in script.sinks:
            assert_same(collected.folded(name), fetched(con, text))


@pytest.mark.parametrize("cut", [2, 9])
def test_one_table_becomes_two(cut: int, tmp_path: Path) -> None:
    add(tmp_path, "in", "0", *range(20))
    one = planned(tmp_path, {"t": "in"}, *(sink.format(t="t") for sink in (COUNTS, SUMS, ODD)))
    two = planned(
        tmp_path, {"t": "in", "u": "in"}, COUNTS.format(t="t"), SUMS.format(t="u"), ODD.format(t="u")
    )
    with collecting() as collected:
        run_here(one, tmp_path, rows_per_epoch=4, max_epochs=cut)
        run_here(two, tmp_path, rows_per_epoch=4)
        check(tmp_path, collected, two)
        add(tmp_path, "in", "1", *range(20, 30))
        run_here(two, tmp_path, rows_per_epoch=4)
        check(tmp_path, collected, two)
    sources = max(manifests(tmp_path / "state").items())[1]["sources"]
    assert {s["name"]: s["folder"] for s in sources} == {"t": "sources/t", "u": "sources/u.2"}


def test_a_run_that_is_killed_when_it_has_two_tables(tmp_path: Path) -> None:
    for number in range(4):
        add(tmp_path, "in", str(number), *range(number * 5, number * 5 + 5))
    one = planned(tmp_path, {"t": "in"}, COUNTS.format(t="t"), SUMS.format(t="t"))
    two = planned(tmp_path, {"t": "in", "u": "in"}, COUNTS.format(t="t"), SUMS.format(t="u"))
    with collecting() as collected:
        run_here(one, tmp_path, rows_per_epoch=4, max_epochs=2)
        add(tmp_path, "in", "4", *range(20, 30))
        with pytest.raises(Crash):
            run_here(two, tmp_path, rows_per_epoch=4, faults=crash_at("prepared", 4))
        add(tmp_path, "in", "5", *range(30, 35))
        run_here(two, tmp_path, rows_per_epoch=4)
        check(tmp_path, collected, two)


def apart(folder: Path, collected: Collected) -> Planned:
    """Two tables of one folder, of which one is further than the other: it was read alone for a while.

    As a version left them that let a table go on from where it had been left out.
    """
    add(folder, "in", "0", *range(20))
    query = planned(folder, {"t": "in", "u": "in"}, COUNTS.format(t="t"), SUMS.format(t="u"))
    run_here(query, folder, rows_per_epoch=4, max_epochs=1)
    run_here(planned(folder, {"t": "in"}, COUNTS.format(t="t")), folder, rows_per_epoch=4, max_epochs=2)
    del collected.tables["sums"]
    query = planned(folder, {"t": "in", "u": "in"}, COUNTS.format(t="t"), SUMS.format(t="u"))
    with mock.patch.object(manifest, "still_of_use", lambda read, detached: tuple(detached)):
        run_here(query, folder, rows_per_epoch=4, max_epochs=1)
    last = max(manifests(folder / "state").items())[1]
    one, other = (source["rows"] for source in last["sources"])
    assert 20 > one > other > 0
    return query


def test_tables_that_are_not_equally_far_do_not_change_places(tmp_path: Path) -> None:
    with collecting() as collected:
        query = apart(tmp_path, collected)
        swapped = planned(tmp_path, {"t": "in", "u": "in"}, COUNTS.format(t="u"), SUMS.format(t="t"))
        with pytest.raises(DiagnosticError) as refused:
            run_here(swapped, tmp_path)
        assert [d.code for d in refused.value.diagnostics] == ["STA011", "STA011"]
        assert "`counts`" in refused.value.diagnostics[0].message
        run_here(query, tmp_path)
        check(tmp_path, collected, query)
        add(tmp_path, "in", "1", *range(20, 30))
        run_here(swapped, tmp_path, rows_per_epoch=4)  # now both have read all that there was
        check(tmp_path, collected, swapped)


def test_new_sinks_of_the_other_table_do_not_get_its_state(tmp_path: Path) -> None:
    with collecting() as collected:
        apart(tmp_path, collected)
        other = (
            SUMS.replace("TABLE sums", "TABLE sums_of_t"),
            COUNTS.replace("TABLE counts", "TABLE counts_of_u"),
        )
        sinks = (COUNTS.format(t="t"), SUMS.format(t="u"), other[0].format(t="t"), other[1].format(t="u"))
        more = planned(tmp_path, {"t": "in", "u": "in"}, *sinks)
        run_here(more, tmp_path, rows_per_epoch=4)
        check(tmp_path, collected, more)


def test_two_tables_behind_one_sink_do_not_change_places(tmp_path: Path) -> None:
    some = (
        "CREATE TABLE some WITH ('connector' = 'blackhole') AS "
        "SELECT v FROM {0} WHERE k = 0 UNION ALL SELECT v FROM {1} WHERE k = 1;\n"
    )
    with collecting() as collected:
        apart(tmp_path, collected)
        both, u = (COUNTS.format(t="t"), SUMS.format(t="u")), {"t": "in", "u": "in"}
        fed = planned(tmp_path, u, some.format("t", "u"), *both)
        run_here(fed, tmp_path, rows_per_epoch=4, max_epochs=1)
        other = planned(tmp_path, u, some.format("u", "t"), *both)
        with pytest.raises(DiagnosticError) as refused:
            run_here(other, tmp_path)
        assert [d.code for d in refused.value.diagnostics] == ["STA011"]
        w = {"t": "in", "w": "in"}
        renamed = planned(tmp_path, w, some.format("t", "w"), COUNTS.format(t="t"), SUMS.format(t="w"))
        run_here(renamed, tmp_path, rows_per_epoch=4)
        check(tmp_path, collected, renamed)


def test_a_third_table_of_data_that_is_read_to_two_places_is_refused(tmp_path: Path) -> None:
    with collecting() as collected:
        apart(tmp_path, collected)
        third = planned(
            tmp_path,
            {"t": "in", "u": "in", "w": "in"},
            COUNTS.format(t="t"),
            SUMS.format(t="u"),
            ODD.format(t="w"),
        )
        with pytest.raises(DiagnosticError) as refused:
            run_here(third, tmp_path)
    [reported] = refused.value.diagnostics
    assert (reported.code, reported.message) == ("STA011", "the source offset of the table `w` is not known")


def test_what_a_table_that_comes_back_has_read_is_read_again_for_new_state(tmp_path: Path) -> None:
    add(tmp_path, "in", "0", *range(20))
    add(tmp_path, "other", "0", *range(20))
    tables = {"t": "in", "u": "other"}
    both = planned(tmp_path, tables, COUNTS.format(t="t"), SUMS.format(t="u"))
    alone = planned(tmp_path, {"t": "in"}, COUNTS.format(t="t"))
    with collecting() as collected:
        run_here(both, tmp_path, rows_per_epoch=9, max_epochs=2)
        run_here(alone, tmp_path)
        again = planned(tmp_path, tables, COUNTS.format(t="t"), HIGHEST.format(t="u"))
        run_here(again, tmp_path, rows_per_epoch=9)
        check(tmp_path, collected, again)


BOTH = (
    "CREATE TABLE both WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'changelog-json') AS "
    "SELECT k, COUNT(*) AS n FROM (SELECT k FROM t UNION ALL SELECT k FROM u) GROUP BY k;\n"
)
ALONE = BOTH.replace(" UNION ALL SELECT k FROM u", "")


@pytest.mark.parametrize("times", [1, 2])
def test_a_table_that_was_left_out_comes_back_beside_one_that_was_read_on(times: int, tmp_path: Path) -> None:
    counts: Counter[int] = Counter()

    def given(file: str, *numbers: int) -> None:
        add(tmp_path, "in", file, *numbers)
        counts.update(n % 3 for n in numbers)

    def run(tables: str, sink: str, weight: int) -> None:
        query = planned(tmp_path, dict.fromkeys(tables, "in"), sink)
        run_here(query, tmp_path, sql=query.masked_sql)
        assert_same(held(tmp_path, ["k", "n"]), [(k, weight * n) for k, n in counts.items()])

    given("0", *range(8))
    run("t", ALONE, 1)
    for number in range(1, times + 1):
        run("tu", BOTH, 2)
        run("t", ALONE, 1)
        given(str(number), *range(3))
        run("t", ALONE, 1)
        run("tu", BOTH, 2)
        given(f"{number}b", *range(4))
        run("tu", BOTH, 2)


def test_rows_are_not_given_twice_by_a_table_that_comes_back(tmp_path: Path) -> None:
    """The other has gone on with what it fed, which keeps its rows."""
    add(tmp_path, "in", "0", *range(8))
    both = planned(tmp_path, {"t": "in", "u": "in"}, COUNTS.format(t="t"), ODD.format(t="u"))
    one = planned(tmp_path, {"t": "in"}, COUNTS.format(t="t"), ODD.format(t="t"))
    with collecting() as collected:
        run_here(both, tmp_path)
        run_here(one, tmp_path)
        add(tmp_path, "in", "1", *range(8, 12))
        run_here(one, tmp_path)
        run_here(both, tmp_path)
        check(tmp_path, collected, both)
        add(tmp_path, "in", "2", *range(12, 15))
        run_here(both, tmp_path)
        check(tmp_path, collected, both)
