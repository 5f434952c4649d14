"""However a table is written, and however reading is cut into epochs, splits and runs: each row is read once."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import Limits
from sqlstream.connectors.delta.source import ahead
from sqlstream.connectors.filesystem import cutting
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.delta.tables import Reading, Row, Table, table_spec
from tests.examples import examples

pytest.importorskip("deltalake")

#: What another writer does between two runs: appends (rows, files), or what gives no rows.
WRITES = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 9), st.integers(1, 3)),
    st.sampled_from([("optimize", 0, 0), ("checkpoint", 0, 0), ("properties", 0, 0)]),
)
LIMITS = st.builds(
    Limits,
    rows=st.none() | st.integers(1, 7),
    files=st.none() | st.integers(1, 3),
    bytes=st.none() | st.integers(1, 2000),
    tasks=st.integers(1, 3),
    about=st.booleans(),
)
STEPS = st.lists(
    st.tuples(st.lists(WRITES, max_size=4), LIMITS, st.integers(1, 4), st.booleans()), min_size=1, max_size=5
)


def write(table: Table, what: tuple[str, int, int]) -> list[Row]:
    """Do what is written; the rows that it adds."""
    name, count, files = what
    if name == "append":
        return table.append(count, files=files)
    if name == "optimize":
        table.delta.optimize.compact()
    elif name == "checkpoint":
        table.delta.create_checkpoint()
    else:
        table.delta.alter.set_table_properties({"delta.appendOnly": "false"})
    return []


@pytest.mark.parametrize("start", [None, "0", "1", "latest"])
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, partitioned=st.booleans(), mode=st.sampled_from(["batch", "streaming"]), data=st.data())
def test_each_row_is_read_once(
    duck: DuckSession,
    start: str | None,
    steps: Sequence[tuple[Sequence[tuple[str, int, int]], Limits, int, bool]],
    partitioned: bool,
    mode: str,
    data: st.DataObject,
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "_SMALLEST_SPLIT", 1)
        patch.setattr(ahead, "MOST_FILES", data.draw(st.sampled_from([1, 2, 10_000])))
        patch.setattr(ahead, "MOST_VERSIONS", data.draw(st.sampled_from([1, 2, 1_000])))
        table = Table(Path(name) / "lake", partitioned)
        before = table.append(3)
        spec = table_spec({"mode": mode, **({} if start is None else {"startingVersion": start})})
        one = Reading(spec, Path(name), duck)
        at = one.source.initial_position()
        written = before if start in (None, "0") else []
        rows: list[Row] = []
        places = [(at, 0)]
        for writes, limits, epochs, another_run in steps:
            for what in writes:
                written = written + write(table, what)
            if another_run:
                one = one.again()
            for _ in range(epochs):
                epoch = one.epoch(at, limits)
                again = one.again().epoch(at, limits)  # what a run that dies reads once more: the same
                if mode == "streaming":
                    assert (again.rows, again.after) == (epoch.rows, epoch.after)
                if limits.rows is not None and not limits.about:
                    assert len(epoch.rows) <= limits.rows
                if not epoch.splits:  # no epoch is made of it, and the position stays
                    break
                assert epoch.rows
                rows += epoch.rows
                at = epoch.after
                places.append((at, len(rows)))
        one = one.again()
        for epoch in one.epochs(at):
            rows += epoch.rows
            if epoch.splits:
                at = epoch.after
                places.append((at, len(rows)))
        assert sorted(rows) == written, "all that is there, once"
        # How many there are depends on the names of files, which are others each time: what is drawn must not.
        place, count = places[data.draw(st.integers(0, 999)) % len(places)]
        assert one.history(place, data.draw(LIMITS)) == rows[:count], (
            "and its history is the same, in the same order"
        )
        rest, _ = one.again().all(place)
        assert sorted(rest) == sorted(rows[count:]), "and what comes behind it"
