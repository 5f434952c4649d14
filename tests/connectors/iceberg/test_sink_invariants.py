"""Whatever others do to a table, and wherever drivers die: the rows of each epoch are there once."""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.iceberg.sink.sink import IcebergSink
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.storage.identity import identity
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.connectors.iceberg.tables import OPTIONS, compact, expire, rows_of, table
from tests.connectors.iceberg.test_sink import SHAPE, SOURCE
from tests.examples import examples

SQL = (
    f"{SOURCE}CREATE TABLE o (k INT, v STRING, d DECIMAL(20, 2), day DATE) PARTITIONED BY (day) "
    f"WITH ({OPTIONS.format(name='table')});\nINSERT INTO o SELECT k, v, d * 2, day FROM t;\n"
)
#: What others do between two steps of ours.
OTHERS = st.lists(st.sampled_from(["append", "compact", "expire", "column", "partition"]), max_size=2)
#: Where an epoch ends: it is whole, or the driver dies behind a step. `lost`: the commit's answer does not come.
ENDS = st.sampled_from(["whole", "written", "prepared", "published", "lost", "committed"])


class Pipeline:
    """A state directory that has manifests, and drivers that die."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._spec = plan_file(SQL, file="p.sql").physical.sinks[0]
        self._context = ConnectorContext(CheckpointStore(folder / "state", sync=False), str(folder))
        identity(self._context.store)
        self._committed: tuple[int, Sequence[SinkPart], int] | None = None
        self._number = self._last = self._others = 0
        self._given = False  # until then the table must be partitioned as it is declared
        self.wanted: list[int] = []
        self._sink = self._start()

    def _start(self) -> IcebergSink:
        """A driver begins as the epoch loop does: the last epoch is committed again."""
        sink = REGISTERED.sink(self._spec, self._context)
        assert isinstance(sink, IcebergSink)
        if self._committed is not None:
            number, parts, previous = self._committed
            sink.commit(number, parts, previous=previous)
        sink.abort_uncommitted(self._last)
        sink.check(previous=self._last)
        return sink

    def epoch(self, rows: int, end: str, others: Sequence[Sequence[str]]) -> None:
        """One epoch; `others` is what others do behind each step."""
        self._number += 1
        keys = [*range(len(self.wanted), len(self.wanted) + rows)]
        days = [datetime.date(2024, 1, 1 + k % 2) for k in keys]
        part = REGISTERED.writer(self._spec, self._context).write(
            pa.table([keys, ["x"] * rows, [None] * rows, days], schema=SHAPE),
            epoch=self._number,
            task="0-00000",
        )
        self.others(others[0])
        if end != "written":
            self._sink.prepare(self._number, [part], previous=self._last)
            self.others(others[1])
        if end in ("written", "prepared"):
            self._sink = self._start()
            return
        self._committed = (self._number, [part], self._last)
        self._last = self._number
        self.wanted += keys
        if end == "published":
            self._sink = self._start()
            return
        with pytest.MonkeyPatch.context() as patch:
            if end == "lost":
                patch.setattr("sqlstream.connectors.iceberg.library.PAUSE_S", 0)
                patch.setattr("sqlstream.connectors.iceberg.sink.log._commit", _answer_lost())
            self._sink.commit(self._number, [part], previous=self._committed[2])
        self._given = True
        self.others(others[2])
        if end == "committed":
            self._sink = self._start()

    def others(self, actions: Sequence[str]) -> None:
        """What others do."""
        for action in actions:
            there = table(self._folder)
            if action == "append":
                self._others += 1
                row = pa.table([[-self._others], ["y"], [None], [datetime.date(2024, 1, 1)]], schema=SHAPE)
                there.append(row)
            elif action == "compact":
                compact(self._folder)
            elif action == "expire":
                expire(self._folder)
            elif action == "column":
                with there.update_schema() as schema:
                    schema.add_column(f"c{len(there.schema().fields)}", there.schema().find_type("v"))
            elif self._given and not any(field.name == "v" for field in there.spec().fields):
                with there.update_spec() as spec:
                    spec.add_identity("v")

    def rows(self) -> list[int]:
        """The keys of our rows that are there."""
        return sorted(k for (k,) in rows_of(self._folder, ("k",)) if k >= 0)


def _answer_lost() -> Any:
    """A commit of which the first is made, and says that it was not."""
    from sqlstream.connectors.iceberg.sink import log

    made, calls = log._commit, iter([True])

    def commit(*given_: Any) -> None:
        made(*given_)
        if next(calls, False):
            raise ConnectionResetError("the connection was reset")

    return commit


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    epochs=st.lists(
        st.tuples(st.integers(1, 4), ENDS, st.tuples(OTHERS, OTHERS, OTHERS)), min_size=1, max_size=5
    )
)
def test_rows_are_there_once(epochs: Sequence[tuple[int, str, tuple[Sequence[str], ...]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        pipeline = Pipeline(Path(name))
        for rows, end, others in epochs:
            pipeline.epoch(rows, end, others)
            assert pipeline.rows() == pipeline.wanted
