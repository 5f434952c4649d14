"""Windows that are open, as they stand, and what is stored of them: times are times, and closed windows are not shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.state.committed import find_committed
from sqlstream.state.query import StateDatabase
from sqlstream.state.reading import ReadCounts
from tests.state.world import World

WINDOWS = {
    "tumble": ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)", 60, 60),
    "hop": ("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECOND, INTERVAL '1' MINUTE)", 60, 20),
    "hop-uneven": ("HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '40' SECOND, INTERVAL '1' MINUTE)", 60, 40),
}
COLUMNS = "s TIMESTAMP(3), e TIMESTAMP(3), k STRING, n BIGINT, v DECIMAL(38, 2), cs BIGINT"
QUERY = """SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS total, COUNT(DISTINCT c) AS cs
FROM TABLE({}) GROUP BY window_start, window_end, k"""
OPEN = "window_start, window_end, k, n, total, cs"


def batch_windows(world: World, size: int, slide: int) -> str:
    """The windows of `t` that the watermark of the last epoch leaves open, in DuckDB's SQL."""
    [source] = find_committed(world.store).manifest.sources
    first = f"INTERVAL {slide * -(-size // slide)} SECOND"
    return f"""SELECT start AS window_start, start + INTERVAL {size} SECOND AS window_end, k, count(*) AS n,
      sum(v) AS total, count(DISTINCT c) AS cs
    FROM (SELECT *, unnest(range(time_bucket(INTERVAL {slide} SECOND, ts, TIMESTAMP '2000-01-01') - {first},
      ts + INTERVAL 1 MICROSECOND, INTERVAL {slide} SECOND)) AS start FROM t)
    WHERE start <= ts AND ts < start + INTERVAL {size} SECOND
    GROUP BY start, k
    HAVING epoch_us(window_end) - 1000 > {source.applied}"""


@pytest.mark.parametrize("kind", WINDOWS)
def test_open_windows_are_what_they_would_give_now(kind: str, tmp_path: Path) -> None:
    function, size, slide = WINDOWS[kind]
    world = World(tmp_path, QUERY.format(function), COLUMNS)
    seen = []

    def look(epoch: int) -> None:
        wanted = world.batch(f"SELECT {OPEN} FROM ({batch_windows(world, size, slide)})", epoch)
        assert world.select(f"SELECT {OPEN} FROM window_aggregate_1") == wanted
        seen.append(len(wanted))

    world.run(look, max_epochs=4)
    assert len(seen) == 4
    assert min(seen) > 0


def test_after_the_end_nothing_is_open(tmp_path: Path) -> None:
    world = World(tmp_path, QUERY.format(WINDOWS["tumble"][0]), COLUMNS)
    world.run()
    assert world.select("SELECT * FROM window_aggregate_1") == []


def test_stored_windows_have_times_and_are_found_by_them(tmp_path: Path) -> None:
    world = World(tmp_path, QUERY.format(WINDOWS["tumble"][0]), COLUMNS)
    world.run(max_epochs=3)
    everything = world.select("SELECT window_start, window_end, k, sum_v FROM window_aggregate_1.acc")
    assert everything == world.select("SELECT window_start, window_end, k, total FROM window_aggregate_1")
    _, end, k, _ = everything[-1]
    assert k is not None
    at = f"window_end = TIMESTAMP '{end}'"
    for condition in (at, f"{at} AND k = $${k}$$"):
        with StateDatabase(find_committed(world.store)) as database:
            found = list(database.query(f"SELECT * FROM window_aggregate_1.acc WHERE {condition}").rows)
            assert len(found) == database.counts.rows > 0
            assert not database.counts.shards_scanned
        [count] = world.batch(f"SELECT count(*) FROM ({batch_windows(world, 60, 60)}) WHERE {condition}", 3)
        assert str(len(found)) == count[0]


def test_a_key_of_open_windows_opens_its_shard_only(tmp_path: Path) -> None:
    world = World(tmp_path, QUERY.format(WINDOWS["hop"][0]), COLUMNS)
    world.run(max_epochs=3)
    with StateDatabase(find_committed(world.store)) as database:
        found = sorted(database.query(f"SELECT {OPEN} FROM window_aggregate_1 WHERE k = 'a'").rows)
        assert database.counts.shards_scanned == 1
        assert database.counts != ReadCounts()
    assert found == world.batch(f"SELECT {OPEN} FROM ({batch_windows(world, 60, 20)}) WHERE k = 'a'", 3)


def test_slices_that_windows_share_have_their_end(tmp_path: Path) -> None:
    world = World(tmp_path, QUERY.format(WINDOWS["hop"][0]), COLUMNS)
    world.run(max_epochs=1)
    found = world.select("SELECT slice_end, k, sum_v FROM window_aggregate_1.acc")
    [source] = find_committed(world.store).manifest.sources
    # Of a slice, the windows of three slices are open as long as the last of them is.
    sql = f"""SELECT time_bucket(INTERVAL 20 SECOND, ts) + INTERVAL 20 SECOND AS e, k, sum(v) FROM t GROUP BY e, k
        HAVING epoch_us(e + INTERVAL 40 SECOND) - 1000 > {source.applied}"""
    assert found == world.batch(sql, 1)


def test_groups_of_windows_that_late_rows_correct(tmp_path: Path) -> None:
    settings = "SET 'table.exec.emit.allow-lateness' = '30 s';\n"
    world = World(tmp_path, QUERY.format(WINDOWS["tumble"][0]), COLUMNS, settings=settings)
    world.run(max_epochs=3)
    names = {str(relation) for relation in relations(world)}
    assert "suppress_until_close_1" in names
    wanted = world.batch(f"SELECT {OPEN} FROM ({batch_windows(world, 60, 60)})", 3)
    sql = "SELECT window_end - INTERVAL 60 SECOND, window_end, k, n, total, cs FROM suppress_until_close_1"
    assert world.select(sql) == wanted


def relations(world: World) -> list[object]:
    with StateDatabase(find_committed(world.store)) as database:
        return list(database.relations)
