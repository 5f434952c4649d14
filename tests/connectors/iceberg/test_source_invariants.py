"""However a table is written, and however reading is cut into epochs, splits and runs: each row is read once."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import Limits
from sqlstream.connectors.filesystem import cutting
from sqlstream.connectors.iceberg.source import ahead
from sqlstream_operators.duck.session import DuckSession
from tests.connectors.iceberg.reading import Reading, table_spec
from tests.connectors.iceberg.tables import Row, compact, create, table
from tests.examples import examples

SHAPE = pa.schema([("k", pa.int64()), ("v", pa.string())])
#: What another writer does between two runs: appends of so many rows, or what gives no rows.
WRITES = st.one_of(st.integers(1, 9), st.sampled_from(["compact", "properties", "column"]))
LIMITS = st.builds(
    Limits,
    rows=st.none() | st.integers(1, 7),
    files=st.none() | st.integers(1, 3),
    bytes=st.none() | st.integers(1, 2000),
    tasks=st.integers(1, 3),
    about=st.booleans(),
)
STEPS = st.lists(
    st.tuples(st.lists(WRITES, max_size=4), LIMITS, st.integers(1, 4), st.booleans()), min_size=1, max_size=4
)


class Writer:
    """Another writer of the table; its rows are numbered by `k`."""

    def __init__(self, folder: Path, options: dict[str, str]) -> None:
        self._folder = folder
        self._rows = self._columns = 0
        create(folder, SHAPE, properties=options)

    def write(self, what: int | str) -> list[Row]:
        """Do what is written; the rows that it adds."""
        there = table(self._folder)
        if isinstance(what, int):
            keys = [*range(self._rows, self._rows + what)]
            self._rows += what
            there.append(pa.table([keys, [f"v{k % 3}" for k in keys]], schema=SHAPE))
            return [(k, f"v{k % 3}") for k in keys]
        if what == "compact":
            compact(self._folder)
        elif what == "column":
            self._columns += 1
            with there.update_schema() as schema:
                schema.add_column(f"c{self._columns}", there.schema().find_type("v"))
        else:
            with there.transaction() as transaction:
                transaction.set_properties({"a": "b"})
        return []


@pytest.mark.parametrize("start", ["table", "snapshot"])
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, merged=st.booleans(), streaming=st.booleans(), data=st.data())
def test_each_row_is_read_once(
    duck: DuckSession,
    start: str,
    steps: Sequence[tuple[Sequence[int | str], Limits, int, bool]],
    merged: bool,
    streaming: bool,
    data: st.DataObject,
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutting, "_SMALLEST_SPLIT", 1)
        patch.setattr(ahead, "_MOST_FILES", data.draw(st.sampled_from([1, 2, 10_000])))
        patch.setattr(ahead, "_MOST_SNAPSHOTS", data.draw(st.sampled_from([1, 2, 1_000])))
        merging = {"commit.manifest-merge.enabled": "true", "commit.manifest.min-count-to-merge": "2"}
        writer = Writer(Path(name), merging if merged else {})
        before = writer.write(3)
        first = table(Path(name)).snapshots()[0].snapshot_id
        written = before + writer.write(2)
        options = {} if start == "table" else {"start-snapshot-id": str(first)}
        spec = table_spec({"streaming": str(streaming).lower(), **options})
        one = Reading(spec, Path(name), duck)
        at = one.source.initial_position()
        rows: list[Row] = []
        places = [(at, 0)]
        for writes, limits, epochs, another_run in steps:
            for what in writes:
                written = written + writer.write(what)
            if another_run:
                one = one.again()
            for _ in range(epochs):
                epoch = one.epoch(at, limits)
                again = one.again().epoch(at, limits)  # what a run that dies reads once more: the same
                if streaming:
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
