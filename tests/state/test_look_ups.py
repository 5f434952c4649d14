"""What is read for a condition: the rows of the keys that it names, in the shards that these are in, and no others."""

from __future__ import annotations

import pytest

from sqlstream.state.committed import find_committed
from sqlstream.state.query import StateDatabase
from sqlstream.state.reading import ReadCounts
from tests.state.world import World

GROUPS = "SELECT k, c, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k, c"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(
        tmp_path_factory.mktemp("look_ups"), GROUPS, "k STRING, c STRING, n BIGINT, s DECIMAL(38, 2)"
    )
    made.run(max_epochs=4)
    return made


def read(world: World, sql: str) -> tuple[int, ReadCounts]:
    """How many rows a query gives, and what was read for it."""
    with StateDatabase(find_committed(world.store)) as database:
        rows = len(list(database.query(sql).rows))
        return rows, database.counts


@pytest.mark.parametrize(
    ("condition", "keys"),
    [
        ("k = 'a' AND c = 'x'", 1),
        ("c = 'x' AND k = 'a' AND n > 0", 1),
        ("k IS NULL AND c = 'x'", 1),
        ("k IN ('a', 'b') AND c IN ('x', 'y', 'c1')", 6),
        ("(k = 'a' OR k = 'b') AND c = 'x'", 2),
        ("k = 'nobody' AND c = 'x'", 0),
        ("k = 'a' AND c = lower('X')", 1),
        ("k LIKE 'a' AND c = 'x'", 1),
        ("false", 0),
    ],
)
def test_only_these_keys_are_read(condition: str, keys: int, world: World) -> None:
    rows, counts = read(world, f"SELECT * FROM group_aggregate_1 WHERE {condition}")
    assert (rows, counts.rows, counts.shards_scanned) == (keys, keys, 0)
    assert counts.shards_looked_into <= min(max(keys, 1), 3)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH g AS (SELECT c AS d, k, n FROM group_aggregate_1) SELECT n FROM g WHERE d = 'x' AND k = 'a'",
        "SELECT * FROM (FROM group_aggregate_1) WHERE k = 'a' AND c = 'x'",
        "SELECT sum(n) FROM group_aggregate_1 WHERE k = 'a' AND c = 'x'",
        "SELECT * FROM group_aggregate_1.acc WHERE k = 'a' AND c = 'x'",
        "SELECT max(n) FROM (SELECT * FROM group_aggregate_1 UNION ALL SELECT * FROM group_aggregate_1 WHERE false)"
        " WHERE k = 'a' AND c = 'x'",
    ],
)
def test_duckdb_brings_a_condition_down(sql: str, world: World) -> None:
    rows, counts = read(world, sql)
    assert (rows, counts) == (1, ReadCounts(rows=1, shards_looked_into=1))


@pytest.mark.parametrize(
    "condition", ["k = 'a'", "c = 'x'", "k = 'a' OR c = 'x'", "n = 1", "k <> 'a' AND c = 'x'"]
)
def test_other_conditions_need_a_scan(condition: str, world: World) -> None:
    _, counts = read(world, f"SELECT * FROM group_aggregate_1 WHERE {condition}")
    rows, all_ = read(world, "SELECT * FROM group_aggregate_1")
    assert counts == all_ == ReadCounts(rows=rows, shards_scanned=3)


def test_nothing_is_read_to_say_what_columns_there_are(world: World) -> None:
    rows, counts = read(world, "DESCRIBE group_aggregate_1")
    assert (rows, counts) == (4, ReadCounts())


def test_two_references_are_read_each_by_its_own_condition(world: World) -> None:
    sql = """SELECT a.n, b.n FROM group_aggregate_1 AS a, group_aggregate_1 AS b
    WHERE a.k = 'a' AND a.c = 'x' AND b.k = 'b' AND b.c IN ('x', 'y')"""
    rows, counts = read(world, sql)
    assert (rows, counts.rows, counts.shards_scanned) == (2, 3, 0)


def test_files_and_the_run_are_left_alone(world: World) -> None:
    def files() -> dict[str, tuple[int, int]]:
        found = (path for path in world.folder.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}

    before = files()
    read(world, "SELECT * FROM group_aggregate_1 WHERE k = 'a' AND c = 'x'")
    read(world, "SELECT * FROM group_aggregate_1")
    assert files() == before
