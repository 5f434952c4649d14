"""What an operator's relation has is what DuckDB gives for the rows read so far, after each epoch, while the run goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.state.world import World

GROUPS = "SELECT k, c, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most FROM t GROUP BY k, c"
DISTINCT = "SELECT k, COUNT(DISTINCT c) AS cs, COUNT(*) AS n FROM t GROUP BY k"
TOP = """SELECT * FROM (SELECT k, c, v, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, n) AS place FROM t)
WHERE place <= 3"""
LAST = "SELECT k, c, v, n FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) = 1"
#: Over groups that change: a Top-N that keeps all its rows, and groups with values that can go.
TOP_GROUPS = f"""SELECT * FROM (SELECT k, c, n, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC, c) AS place
FROM ({GROUPS})) WHERE place <= 2"""
OF_GROUPS = f"SELECT k, MIN(n) AS fewest, MAX(total) AS largest FROM ({GROUPS}) GROUP BY k"

CASES = [
    (
        GROUPS,
        "k STRING, c STRING, n BIGINT, s DECIMAL(38, 2), m DECIMAL(10, 2)",
        "group_aggregate_1",
        "k, c, n, total, most",
    ),
    (DISTINCT, "k STRING, cs BIGINT, n BIGINT", "group_aggregate_1", "k, cs, n"),
    (TOP, "k STRING, c STRING, v DECIMAL(10, 2), n BIGINT, p BIGINT", "top_n_1", "k, c, v, n, place"),
    (LAST, "k STRING, c STRING, v DECIMAL(10, 2), n BIGINT", "deduplicate_1", "k, c, v, n"),
    (TOP_GROUPS, "k STRING, c STRING, n BIGINT, p BIGINT", "top_n_1", "k, c, n, place"),
    (OF_GROUPS, "k STRING, f BIGINT, l DECIMAL(38, 2)", "group_aggregate_2", "k, fewest, largest"),
    ("SELECT COUNT(*) AS n, SUM(v) AS s FROM t", "n BIGINT, s DECIMAL(38, 2)", "group_aggregate_1", "n, s"),
    ("SELECT DISTINCT k, c FROM t", "k STRING, c STRING", "group_aggregate_1", "k, c"),
]
IDS = ["groups", "distinct", "top", "last", "top-of-groups", "groups-of-groups", "global", "select-distinct"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("query", "columns", "relation", "names"), CASES, ids=IDS)
def test_an_answer_is_duckdbs(query: str, columns: str, relation: str, names: str, tmp_path: Path) -> None:
    world = World(tmp_path, query, columns)
    epochs = []

    def look(epoch: int) -> None:
        epochs.append(epoch)
        assert world.select(f"SELECT {names} FROM {relation}") == world.batch(
            f"SELECT {names} FROM ({query})", epoch
        )

    world.run(look, max_epochs=4)
    assert epochs == [1, 2, 3, 4]


WHERES = [
    "k = 'a'",
    "k IN ('b', 'it''s', 'none')",
    "k IS NULL",
    "k = 'a' OR k = 'b'",
    "k = 'a' AND c = 'x'",
    "k = 'a' AND c IN ('x', 'q\"')",
    "k IN ('a', 'b') AND c IN ('x', 'y', 'c3') AND n > 1",
    "c = 'y'",
    "k <> 'a'",
]
LOOK_UPS = [
    pytest.param(*case, where, id=f"{id_}: {where}")
    for case, id_ in zip(CASES, IDS, strict=True)
    for where in WHERES
    if all(f" {word} " not in f" {where} " or word in case[3].split(", ") for word in ("k", "c", "n"))
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("query", "columns", "relation", "names", "where"), LOOK_UPS)
def test_a_look_up_gives_what_duckdb_gives(
    query: str, columns: str, relation: str, names: str, where: str, tmp_path: Path
) -> None:
    world = World(tmp_path, query, columns, rows=200)
    world.run(max_epochs=2)
    sql = f"SELECT {names} FROM {{}} WHERE {where}"
    assert world.select(sql.format(relation)) == world.batch(sql.format(f"({query})"), 2)
