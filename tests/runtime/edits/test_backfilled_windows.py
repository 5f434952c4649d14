"""Backfills of windows: those that are open where the original stands have every row, those that are closed stay closed."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sqlstream.runtime.loop.admission import Admission
from sqlstream.runtime.loop.watermarks import resumed
from sqlstream.storage.manifest import Manifest
from sqlstream_operators.plan.watermarks import WATERMARK_MAX, WATERMARK_MIN
from sqlstream_planner.batch.to_duckdb import to_duckdb
from tests.duckdb_batch import empty_duckdb
from tests.examples import examples
from tests.properties.referee import assert_same
from tests.properties.updating import collecting, fetched
from tests.runtime.edits.backfilling import World, versions_of

START = datetime(2024, 1, 1)


def table(name: str = "t", *, delay: int = 2, options: Mapping[str, str] | None = None) -> str:
    listed = {"connector": "filesystem", "path": name, "format": "json", **(options or {})}
    given = ", ".join(f"'{key}' = '{value}'" for key, value in listed.items())
    return (
        f"CREATE TABLE {name} (k INT, v INT, ts TIMESTAMP(3), "
        f"WATERMARK FOR ts AS ts - INTERVAL '{delay}' SECOND) WITH ({given});"
    )


def rows(*events: tuple[int, int, int]) -> list[dict[str, Any]]:
    """Rows of (second, key, value)."""
    return [{"ts": str(START + timedelta(seconds=s)), "k": k, "v": v} for s, k, v in events]


def over(window: str, tables: str = "t") -> str:
    return f"TABLE({window.format(t=f'TABLE {tables}, DESCRIPTOR(ts)')})"


WINDOWS = {
    "tumble": over("TUMBLE({t}, INTERVAL '10' SECOND)"),
    "long": over("TUMBLE({t}, INTERVAL '40' SECOND)"),
    "hop": over("HOP({t}, INTERVAL '5' SECOND, INTERVAL '20' SECOND)"),
    "uneven hop": over("HOP({t}, INTERVAL '6' SECOND, INTERVAL '10' SECOND)"),
    "cumulate": over("CUMULATE({t}, INTERVAL '10' SECOND, INTERVAL '40' SECOND)"),
}
BY_WINDOW = "window_start, window_end"
QUERIES = {
    **{
        name: f"SELECT {BY_WINDOW}, k, COUNT(*) AS n, SUM(v) AS s, COUNT(DISTINCT v) AS d FROM {window} "
        f"GROUP BY {BY_WINDOW}, k"
        for name, window in WINDOWS.items()
    },
    "windows of windows": f"WITH w AS (SELECT window_time AS ts, k, COUNT(*) AS n FROM {WINDOWS['tumble']} "
    f"GROUP BY {BY_WINDOW}, window_time, k) SELECT {BY_WINDOW}, SUM(n) AS n, COUNT(*) AS keys "
    f"FROM {over('TUMBLE({t}, INTERVAL ' + chr(39) + '40' + chr(39) + ' SECOND)', 'w')} GROUP BY {BY_WINDOW}",
    "top of windows": f"SELECT {BY_WINDOW}, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY {BY_WINDOW} "
    f"ORDER BY v DESC, k) AS rn FROM {WINDOWS['long']}) AS r WHERE rn <= 2",
}
OLD = "SELECT v, COUNT(*) AS n FROM t GROUP BY v"
#: Seconds in which each key is in order, but not all together; those of key 9 are late wherever an epoch ended before.
EVENTS = rows(
    *((s + (3 if s % 4 == 0 else 0) - (2 if s % 3 == 0 else 0), s % 3, s % 5) for s in range(0, 90, 2)),
)
LATE = [
    *EVENTS[:20],
    *rows((3, 9, 1), (12, 9, 2), (29, 9, 3)),
    *EVENTS[20:30],
    *rows((8, 9, 1), (51, 9, 5)),
    *EVENTS[30:],
]


def check_same(made: World, query: str, plain: Manifest, **options: Any) -> dict[str, Any]:
    """A backfill has the states of the plain run that stands where the original does."""
    before = made.kept()
    found = made.backfill(query, **options)
    assert made.kept() == before
    plan = made.plan(query).physical
    tables = made.tables_of(plan, found.versions)
    assert tables == made.tables_of(plan, versions_of(plain), "plain")
    last = {source.name: source for source in made.last().sources}
    for source in plain.sources:
        ours = found.sources[source.name]
        # One that has ended goes on from where its windows were given: those that reach beyond it are still open.
        applied = source.resume if source.drained else source.applied
        assert (ours.position, ours.applied, ours.drained) == (
            last[source.name].position,
            applied,
            False,
        )
        assert ours.resume == source.resume
    return {"found": found, "tables": tables}


def expected(
    made: World, query: str, data: Mapping[str, Sequence[Mapping[str, Any]]], after: Manifest
) -> Any:
    """What DuckDB gives for the windows that are not closed at a manifest."""
    applied = min(source.applied for source in after.sources)
    for name, content in data.items():
        made.lines(f"all/{name}.json", content)
    script = to_duckdb(made.plan(query), lambda s: [str(made.folder / f"all/{s.name}.json")])
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        found = fetched(con, script.sinks[0][1])
    names = [c.name for c in made.plan(query).physical.sinks[0].schema]
    end = names.index("window_end")
    epoch = datetime(1970, 1, 1)
    return [r for r in found if (r[end] - epoch) // timedelta(microseconds=1) - 1000 > applied]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("after", [1, 3, 6])
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("late", [False, True])
def test_open_windows_have_every_row(tmp_path: Path, name: str, after: int, late: bool) -> None:
    data = LATE if late else EVENTS
    made = World(tmp_path, table())
    made.lines("t/0.json", data[:30])
    made.lines("t/1.json", data[30:])
    query = QUERIES[name]
    with collecting():
        original = made.run(OLD, rows_per_epoch=7, max_epochs=after)
        plain = made.run(query, state="plain", rows_per_epoch=7, max_epochs=after)
    assert [s.applied for s in original.sources] == [s.applied for s in plain.sources]
    assert original.sources[0].applied > WATERMARK_MIN
    if late and name == "windows of windows":
        return  # which late rows the inner windows have depends on the cuts
    made.adopt(query, check_same(made, query, plain)["found"])
    if late:
        return  # some of what DuckDB counts was dropped in windows that were closed
    with collecting() as collected:
        made.run(query, rows_per_epoch=7)
        assert_same(collected.folded("out"), expected(made, query, {"t": data}, original))


@pytest.mark.parametrize("name", ["tumble", "hop"])
def test_a_time_that_was_ahead_of_the_clock_makes_nothing_late_when_it_is_read_again(
    tmp_path: Path, name: str
) -> None:
    """Two days later it is no longer ahead, but the rows behind it were not late when they were read first."""
    ahead = rows((36 * 3600, 9, 9))
    made = World(tmp_path, table())
    made.lines("t/0.json", [*EVENTS[:10], *ahead, *EVENTS[10:]])
    query, first = QUERIES[name], (START - datetime(1970, 1, 1)).total_seconds()
    with collecting():
        original = made.run(OLD, rows_per_epoch=7, max_epochs=6, wall_clock=lambda: first)
        plain = made.run(query, state="plain", rows_per_epoch=7, max_epochs=6, wall_clock=lambda: first)
    assert plain.tally.total == 0, "no row was late"
    assert original.sources[0].applied < (first + 3600) * 1e6
    settings_ = made.settings(admission=Admission(fixed_rows=7))
    found = check_same(made, query, plain, settings=settings_, wall_clock=lambda: first + 2 * 86_400)
    assert found["found"].dead_letters == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("name", QUERIES)
def test_where_the_input_had_ended_windows_that_nobody_was_given_are_open(
    tmp_path: Path, name: str, more: bool
) -> None:
    """They reach beyond all that was read: they are given when it shows that there is no more, or with what has come."""
    made = World(tmp_path, table())
    made.lines("t/0.json", EVENTS)
    query = QUERIES[name]
    with collecting():
        original = made.run(OLD, rows_per_epoch=7)
        assert original.sources[0].applied == WATERMARK_MAX
        found = made.backfill(query)
    (source,) = found.sources.values()
    assert source == resumed(original.sources[0])
    made.adopt(query, found)
    later = rows((91, 9, 1), (100, 9, 1), (119, 9, 1), (121, 9, 2), (200, 9, 3)) if more else []
    if more:
        made.lines("t/1.json", later)
    with collecting() as collected:
        end = made.run(query)
    data = {"t": [*EVENTS, *later]}
    given = expected(made, query, data, replace(original, sources=(source,)))
    assert given
    assert_same(collected.folded("out"), given)
    assert end.sources[0].applied == WATERMARK_MAX
    assert end.tally.total == 0
    assert not any(made.tables_of(made.plan(query).physical, versions_of(end)).values())


def test_windows_that_were_given_when_the_input_ended_are_not_given_again(tmp_path: Path) -> None:
    made = World(tmp_path, table())
    made.lines("t/0.json", EVENTS)
    query = QUERIES["tumble"].replace("SUM(v)", "MAX(v)")
    with collecting() as collected:
        original = made.run(QUERIES["tumble"], rows_per_epoch=7)
        windows = {row[1] for row in collected.folded("out")}
        found = made.backfill(query)
    assert found.sources["t"].applied == original.sources[0].resume
    assert not any(made.tables_of(made.plan(query).physical, found.versions).values())
    made.adopt(query, found)
    made.lines("t/1.json", rows((81, 1, 1), (89, 1, 1), (95, 1, 1), (101, 2, 2)))
    with collecting() as collected:
        end = made.run(query)
    assert not windows & {row[1] for row in collected.folded("out")}
    assert len(collected.folded("out")) == 1
    assert end.tally.total == 3


def test_a_watched_source(tmp_path: Path) -> None:
    made = World(tmp_path, table(options={"source.monitor-interval": "1 ms"}))
    made.lines("t/0.json", EVENTS[:20])
    query = QUERIES["hop"]
    with collecting():
        made.run(OLD, rows_per_epoch=7, max_epochs=3)
        plain = made.run(query, state="plain", rows_per_epoch=7, max_epochs=3)
    found = check_same(made, query, plain)
    assert any(found["tables"].values())


@pytest.mark.parametrize("after", [2, 4, 9])
def test_sources_that_meet(tmp_path: Path, after: int) -> None:
    both = "CREATE VIEW b AS SELECT * FROM t UNION ALL SELECT * FROM u;"
    made = World(tmp_path, table("t") + table("u", delay=9) + both)
    made.lines("t/0.json", EVENTS)
    made.lines("u/0.json", rows(*((s, 7, 1) for s in range(1, 60, 5))))
    query = (
        "SELECT window_start, window_end, k, COUNT(*) AS n FROM "
        + over("TUMBLE({t}, INTERVAL '10' SECOND)", "b")
        + " GROUP BY window_start, window_end, k"
    )
    # A plan whose sources meet in a window shares out rows by event time, so the original has a window too.
    old = query.replace("COUNT(*)", "MAX(v)")
    with collecting():
        original = made.run(old, rows_per_epoch=6, max_epochs=after)
        plain = made.run(query, state="plain", rows_per_epoch=6, max_epochs=after)
    assert [s.position for s in original.sources] == [s.position for s in plain.sources]
    check_same(made, query, plain)


def test_a_source_that_is_new_has_read_nothing(tmp_path: Path) -> None:
    made = World(tmp_path, table("t") + table("u"))
    made.lines("t/0.json", EVENTS)
    made.lines("u/0.json", EVENTS)
    query = "SELECT k, COUNT(*) AS n FROM (SELECT k FROM t UNION ALL SELECT k FROM u) AS b GROUP BY k"
    with collecting():
        made.run(OLD, rows_per_epoch=9, max_epochs=2)
        found = made.backfill(query)
    counts = [
        row for rows_ in made.tables_of(made.plan(query).physical, found.versions).values() for row in rows_
    ]
    assert len(counts) == 3
    assert set(found.sources) == {"t"}
    assert found.rows_read == {"t": 18, "u": 0}


SECONDS = st.tuples(st.integers(0, 60), st.integers(0, 2), st.integers(0, 4))


@settings(max_examples=examples(6), deadline=None)
@given(
    st.sampled_from(sorted(set(QUERIES) - {"windows of windows"})),
    st.lists(SECONDS, min_size=11, max_size=40),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 30),
    st.none() | st.integers(1, 9),
)
def test_random_windows(
    name: str, events: list[tuple[int, int, int]], by: int, after: int, delay: int, side: int | None
) -> None:
    """Whatever is late, and however a backfill is cut: windows that are open have what those of a plain run have."""
    after = min(after, (len(events) - 1) // by)  # before the input ends
    with tempfile.TemporaryDirectory() as folder:
        made = World(Path(folder), table(delay=delay))
        half = len(events) // 2
        made.lines("t/0.json", rows(*events[: half + 1]))
        made.lines("t/1.json", rows(*events[half + 1 :]))
        with collecting():
            made.run(OLD, rows_per_epoch=by, max_epochs=after)
            plain = made.run(QUERIES[name], state="plain", rows_per_epoch=by, max_epochs=after)
            # The plain run has closed all windows where the input ended; see test_where_the_input_had_ended.
            assume(not any(source.drained for source in plain.sources))
            settings_ = made.settings(admission=Admission(fixed_rows=side))
            found = check_same(made, QUERIES[name], plain, settings=settings_)["found"]
            if side is None or side >= by:
                assert found.dead_letters <= plain.tally.total


@pytest.mark.sampled(2)
@pytest.mark.parametrize("side", [6, 7, 8, 11])
def test_what_was_counted_once_is_not_late_now(tmp_path: Path, side: int) -> None:
    """Epochs are cut elsewhere; what is late goes by an epoch earlier, so no row is that was in time before."""
    by = 6
    # In each epoch of the original the first row is far ahead: where one is cut off behind it, the others come too late.
    events = [(100 * n + s, 0, 1) for n in range(15) for s in (50, 1, 2, 3, 4, 5)]
    made = World(tmp_path, table(delay=0))
    made.lines("t/0.json", rows(*events))
    with collecting():
        made.run(OLD, rows_per_epoch=by, max_epochs=12)
        plain = made.run(QUERIES["tumble"], state="plain", rows_per_epoch=by, max_epochs=12)
        found = made.backfill(QUERIES["tumble"], settings=made.settings(admission=Admission(fixed_rows=side)))
    assert found.dead_letters == plain.tally.total == 0


@pytest.mark.sampled(6)
@pytest.mark.parametrize("after", [2, 4, 6])
@pytest.mark.parametrize("lateness", [0, 15])
@pytest.mark.parametrize("name", ["tumble", "hop"])
@pytest.mark.parametrize("early", [False, True])
def test_windows_that_are_given_early_or_corrected(
    tmp_path: Path, name: str, early: bool, lateness: int, after: int
) -> None:
    """As long as a window takes rows it has every row; what it no longer takes is not kept."""
    made = World(tmp_path, table())
    made.lines("t/0.json", LATE)
    query = (
        f"SET 'table.exec.emit.allow-lateness' = '{lateness} s'; "
        f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {QUERIES[name]}"
        f"{' EMIT CHANGES' if early else ''};"
    )
    with collecting():
        made.run(OLD, rows_per_epoch=7, max_epochs=after)
        plain = made.run(query, state="plain", rows_per_epoch=7, max_epochs=after)
    tables = check_same(made, query, plain)["tables"]
    assert any(tables.values())


def test_windows_over_rows_that_come_and_go(tmp_path: Path) -> None:
    columns = "k INT, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND"
    made = World(
        tmp_path,
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = 't', "
        "'format' = 'debezium-json');",
    )
    kept = [{"op": "c", "before": None, "after": row} for row in LATE]
    gone = [{"op": "d", "before": row, "after": None} for row in LATE[::3]]
    made.lines("t/0.json", [*kept[:25], *gone[:6], *kept[25:], *gone[6:]])
    with collecting():
        made.run(OLD, rows_per_epoch=7, max_epochs=5)
        plain = made.run(QUERIES["hop"], state="plain", rows_per_epoch=7, max_epochs=5)
    assert any(check_same(made, QUERIES["hop"], plain)["tables"].values())
