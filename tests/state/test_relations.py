"""What relations and their columns are called: as the query calls them, and as `list` says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlstream.planning import plan_file
from sqlstream.runtime.loop.recovery import program_fingerprint
from sqlstream.state.relations import relations_of
from sqlstream_operators.plan import plan_json
from tests.state.world import TABLE, World

SINK = "WITH ('connector' = 'blackhole')"


def columns(
    query: str, sink: str = "a STRING, b BIGINT, c BIGINT", settings: str = ""
) -> dict[str, list[str]]:
    text = f"{settings}{TABLE}CREATE TABLE o ({sink}) {SINK};\nINSERT INTO o {query};"
    plan = plan_file(text, file="q.sql").physical
    again = plan_json.from_text(plan_json.to_text(plan))
    assert relations_of(again) == relations_of(plan)  # a state directory has all that it takes
    return {str(relation): [c.name for c in relation.columns] for relation in relations_of(plan)}


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("SELECT k, COUNT(*), SUM(n) FROM t GROUP BY k", ["k", "b", "c"]),  # no alias: the sink's
        ("SELECT k AS who, COUNT(*) AS x, SUM(n) AS y FROM t GROUP BY k", ["who", "x", "y"]),
        ("SELECT x.k, COUNT(*) AS x, 2 * SUM(n) FROM t AS x GROUP BY x.k", ["k", "x", "sum"]),
        ("SELECT lower(k) AS low, COUNT(*) AS x, 1 FROM t GROUP BY lower(k)", ["low", "x"]),
        ("SELECT lower(k), COUNT(*) AS x, 1 FROM t GROUP BY 1", ["a", "x"]),
        (
            "SELECT w, x, y FROM (SELECT k AS w, COUNT(*) AS x, SUM(n) AS y FROM t GROUP BY k)",
            ["w", "x", "y"],
        ),
        (
            "SELECT k, COUNT(*) AS x, 0 FROM t GROUP BY k HAVING MAX(n) > 3 AND MAX(v) > 1",
            ["k", "x", "max", "max_2"],
        ),
        ("SELECT k, MAX(n) AS n_2, MIN(n) AS n_3 FROM t GROUP BY k", ["k", "n_2", "n_3"]),
    ],
)
def test_columns_of_groups(query: str, names: list[str]) -> None:
    found = columns(query)["group_aggregate_1"]
    assert found == names


def test_ranks_and_ranked_groups_have_the_names_of_their_own_select() -> None:
    query = """SELECT who, place, cnt FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY who ORDER BY cnt DESC, c) AS place
    FROM (SELECT k AS who, c, COUNT(*) AS cnt FROM t GROUP BY k, c)) WHERE place <= 2"""
    found = columns(query)
    assert found["group_aggregate_1"] == ["who", "c", "cnt"]
    assert sorted(found["top_n_1"]) == ["c", "cnt", "place", "who"]


def test_names_that_two_columns_have_are_told_apart() -> None:
    found = columns("SELECT k, SUM(n) AS s, SUM(n) + COUNT(*) FROM t GROUP BY k")
    assert all(len({name.lower() for name in names}) == len(names) for names in found.values())


def test_tables_have_names_that_can_be_guessed() -> None:
    settings = "SET 'table.exec.state.ttl' = '1 d';\n"
    found = columns("SELECT k, COUNT(DISTINCT n), MAX(n) FROM t GROUP BY k", settings=settings)
    assert set(found) == {
        "group_aggregate_1",
        "group_aggregate_1.acc",
        "group_aggregate_1.touched",
        "group_aggregate_1.expiry",
        "group_aggregate_1.distinct_1",
        "group_aggregate_1.distinct_1_seen",
        "group_aggregate_1.distinct_1_touched",
        "group_aggregate_1.distinct_1_expiry",
    }
    assert found["group_aggregate_1.touched"] == ["k", "touched_at"]
    assert found["group_aggregate_1.expiry"] == ["touched_at", "k"]
    changes = "SELECT k, MAX(m), MIN(m) FROM (SELECT k, c, SUM(n) AS m FROM t GROUP BY k, c) GROUP BY k"
    assert columns(changes)["group_aggregate_2.values_m"] == ["k", "value_m", "count"]


def test_times_to_live_are_times_and_answers_are_what_is_left(tmp_path: Path) -> None:
    settings = "SET 'table.exec.state.ttl' = '1 d';\n"
    query = "SELECT k, COUNT(*) AS n, COUNT(DISTINCT c) AS cs FROM t GROUP BY k"
    world = World(tmp_path, query, "k STRING, n BIGINT, cs BIGINT", settings=settings)
    world.run(max_epochs=2)
    assert world.select("SELECT k, n, cs FROM group_aggregate_1") == world.batch(query, 2)
    assert world.select("SELECT n FROM group_aggregate_1 WHERE k = 'a'") == world.batch(
        f"SELECT n FROM ({query}) WHERE k = 'a'", 2
    )
    sql = "SELECT count(*), bool_and(touched_at BETWEEN now() - INTERVAL 1 HOUR AND now()) FROM group_aggregate_1.touched"
    assert world.select(sql) == [("5", "true")]
    assert world.select("SELECT count(*) FROM group_aggregate_1.expiry") == [("5",)]


def test_every_pipeline_of_this_repository_has_relations_that_differ() -> None:
    root = Path(__file__).parents[2] / "pipelines"
    for file in sorted(root.glob("*/*.sql")):
        if "macros" in file.parts:
            continue
        planned = plan_file(file, search_path=(file.parent / "macros",))
        found = [str(relation).lower() for relation in relations_of(planned.physical)]
        assert len(set(found)) == len(found)
        assert all(relation.columns for relation in relations_of(planned.physical))


def test_a_plan_without_names_has_relations_all_the_same() -> None:
    """State that was written before plans had names: columns are called by their ids."""
    text = f"{TABLE}CREATE TABLE o (k STRING, n BIGINT) {SINK};\nINSERT INTO o SELECT k, COUNT(*) AS n FROM t GROUP BY k;"
    plan = plan_file(text, file="q.sql").physical
    data = plan_json.to_json(plan)
    del data["names"]
    old = plan_json.from_json(data)
    assert [str(r) for r in relations_of(old)] == [str(r) for r in relations_of(plan)]
    assert [[c.source for c in r.columns] for r in relations_of(old)] == [
        [c.source for c in r.columns] for r in relations_of(plan)
    ]
    assert program_fingerprint(old) == program_fingerprint(plan)
