"""State that a run with another number of shards has written, and an edited query's: what is there is what its plan says."""

from __future__ import annotations

from pathlib import Path

from tests.state.world import World

GROUPS = "SELECT k, c, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k, c"
COLUMNS = "k STRING, c STRING, n BIGINT, s DECIMAL(38, 2)"


def test_another_number_of_shards(tmp_path: Path) -> None:
    world = World(tmp_path, GROUPS, COLUMNS)
    for epoch, shards in enumerate((3, 5, 1, 2), 1):
        world.run(max_epochs=1, parallelism=shards)
        assert world.select("SELECT k, c, n, total FROM group_aggregate_1") == world.batch(GROUPS, epoch)
        where = "WHERE k = 'a' AND c IN ('x', 'c7')"
        sql = f"SELECT k, c, n, total FROM group_aggregate_1 {where}"
        assert world.select(sql) == world.batch(f"SELECT * FROM ({GROUPS}) {where}", epoch)


def test_an_epoch_before_others_has_its_own_rows(tmp_path: Path) -> None:
    world = World(tmp_path, GROUPS, COLUMNS)
    world.run(max_epochs=4)
    for epoch in (2, 3, 4):
        assert world.select("SELECT k, c, n, total FROM group_aggregate_1", str(epoch)) == world.batch(
            GROUPS, epoch
        )


def test_columns_that_are_called_otherwise_are_so_in_the_state_too(tmp_path: Path) -> None:
    world = World(tmp_path, GROUPS, COLUMNS)
    world.run(max_epochs=2)
    world.file.write_text(
        world.file.read_text()
        .replace("AS total", "AS sum_of_v")
        .replace("SELECT k, c,", "SELECT k AS who, c,")
    )
    world.run(max_epochs=1)
    sql = "SELECT who, c, n, sum_of_v FROM group_aggregate_1"
    assert world.select(sql) == world.batch(GROUPS, 3)
    assert world.select(f"{sql} WHERE who = 'a' AND c = 'x'") == world.batch(
        f"SELECT * FROM ({GROUPS}) WHERE k = 'a' AND c = 'x'", 3
    )
