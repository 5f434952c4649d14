"""A backfill gives the states that the new query would have, had it always been the query."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream_operators.plan.answers import missing_answers
from tests.examples import examples
from tests.properties.query_generator import queries, rows
from tests.properties.referee import assert_same
from tests.properties.test_updating_queries import QUERIES, ROWS
from tests.properties.updating import TABLE, batch, collecting
from tests.runtime.edits.backfilling import World, versions_of

OLD = "SELECT s, COUNT(*) AS old FROM t GROUP BY s"


def world(folder: Path, data: list[dict[str, Any]], files: int = 1) -> World:
    made = World(folder, TABLE)
    size = -(-len(data) // files) or 1
    for number in range(files):
        made.lines(f"input/{number:03d}.json", data[number * size : (number + 1) * size])
    return made


def check(made: World, query: str, data: list[dict[str, Any]], *, after: int, rows_per_epoch: int) -> None:
    """Run another query for some epochs, backfill this one, and let it go on; it has the states and the answer that it
    would have had.
    """
    with collecting():
        made.run(OLD, rows_per_epoch=rows_per_epoch, max_epochs=after)
        plain = made.run(query, state="plain", rows_per_epoch=rows_per_epoch, max_epochs=after)
        before = made.kept()
        found = made.backfill(query)
        assert made.kept() == before
    plan = made.plan(query).physical
    assert set(found.versions) == {state.state_id for state in plan.states}
    assert made.tables_of(plan, found.versions) == made.tables_of(plan, versions_of(plain), "plain")
    assert [found.sources[s.name].position for s in plain.sources] == [s.position for s in plain.sources]
    made.adopt(query, found)
    with collecting() as collected:
        end = made.run(query, rows_per_epoch=rows_per_epoch)
        if not missing_answers(plan, "out"):
            assert_same(collected.folded("out"), batch(made.folder, made.plan(query), data))
    with collecting():
        plain = made.run(query, state="plain", rows_per_epoch=rows_per_epoch)
    assert made.tables_of(plan, versions_of(end)) == made.tables_of(plan, versions_of(plain), "plain")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", QUERIES)
def test_the_states_of_a_query(name: str, tmp_path: Path) -> None:
    check(world(tmp_path, ROWS), QUERIES[name], ROWS, after=1 + len(name) % 3, rows_per_epoch=4)


@settings(
    max_examples=examples(4),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    # A rank of ranks would have two columns of one name.
    queries().filter(lambda query: query.count(" AS rn") < 2),
    rows(),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 3),
)
def test_random_queries(
    query: str, data: list[dict[str, Any]], after: int, rows_per_epoch: int, files: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = [{"k": None, "v": None, "s": None, "b": True}, *data]
        check(world(Path(name), data, files), query, data, after=after, rows_per_epoch=rows_per_epoch)
