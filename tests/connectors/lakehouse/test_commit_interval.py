"""`sink.commit-interval`: wherever drivers die, the rows of each epoch are there once, after a commit of several."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sqlstream.connectors.api import ConnectorContext, EditableSink, SinkPart, TargetEdit
from sqlstream.connectors.capabilities import Deferring
from sqlstream.connectors.delta.sink.sink import DeltaSink
from sqlstream.connectors.iceberg.sink.sink import IcebergSink
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream.storage.identity import identity
from sqlstream_operators.plan.spec import WEIGHT_COLUMN, SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from sqlstream_planner.diagnostics import DiagnosticError
from tests.connectors.iceberg.tables import OPTIONS as ICEBERG
from tests.connectors.iceberg.tables import rows_of as iceberg_rows
from tests.connectors.iceberg.tables import table as iceberg_table
from tests.examples import examples

_SOURCE = (
    "CREATE TABLE t (k INT, v STRING) WITH ('connector' = 'filesystem', 'path' = 'in', 'format' = 'json');\n"
)
_DELTA = "'connector' = 'delta', 'table-path' = 'lake/table'"
_KINDS = ("delta", "delta by key", "iceberg", "iceberg by key")
_KEYS = 4


def _sql(kind: str, interval: str = "1 h") -> str:
    options = f"{ICEBERG.format(name='table') if 'iceberg' in kind else _DELTA}, 'sink.commit-interval' = '{interval}'"
    if "by key" in kind:
        shape, query = "k INT, v STRING, PRIMARY KEY (k) NOT ENFORCED", "SELECT k, MAX(v) FROM t GROUP BY k"
    else:
        shape, query = "k INT, v STRING", "SELECT k, v FROM t"
    return f"{_SOURCE}CREATE TABLE o ({shape}) WITH ({options});\nINSERT INTO o {query};\n"


class Writing:
    """A state directory with manifests, drivers that die, and what the table should have."""

    def __init__(self, folder: Path, kind: str, interval: str = "1 h") -> None:
        self.folder, self.kind = folder, kind
        self.spec: SinkSpec = plan_file(_sql(kind, interval), file="p.sql").physical.sinks[0]
        self._context = ConnectorContext(CheckpointStore(folder / "state", sync=False), str(folder))
        identity(self._context.store)
        self._committed: tuple[int, Sequence[SinkPart], int] | None = None
        self._number = self._last = 0
        self._model: dict[int, str] = {}
        self._rows = 0
        self.wanted: list[tuple[Any, ...]] = []
        self.given: list[list[tuple[Any, ...]]] = [[]]
        self.sink = self.start()

    @property
    def waiting(self) -> list[Path]:
        """The notes in the state directory."""
        return sorted(self.folder.glob("state/sinks/*.waiting/**/*.*"))

    def start(self) -> DeltaSink | IcebergSink:
        """A driver begins as the epoch loop does: the last epoch is committed again, and what waits is given."""
        sink = REGISTERED.sink(self.spec, self._context)
        assert isinstance(sink, DeltaSink | IcebergSink)
        assert isinstance(sink, Deferring)
        if self._committed is not None:
            number, parts, previous = self._committed
            sink.commit(number, parts, previous=previous)
        sink.flush()
        sink.abort_uncommitted(self._last)
        sink.check(previous=self._last)
        self.sink = sink
        return sink

    def epoch(self, changes: Mapping[int, str | None], end: str = "whole") -> None:
        """One epoch: keys that change, or rows that are added."""
        self._number += 1
        number = self._number
        parts = self._written(changes, number)
        if end == "written":
            self.start()
            return
        self.sink.prepare(number, parts, previous=self._last)
        if end == "prepared":
            self.start()
            return
        self._committed, self._last = (number, parts, self._last), number
        self._adopt(changes)
        if end == "published":
            self.start()
            return
        self.sink.commit(*self._committed[:2], previous=self._committed[2])
        if end == "committed":
            self.start()

    def _written(self, changes: Mapping[int, str | None], number: int) -> list[SinkPart]:
        writer = REGISTERED.writer(self.spec, self._context)
        if "by key" not in self.kind:
            rows = self._added(changes)
            columns: list[list[Any]] = [[k for k, _ in rows], [v for _, v in rows]]
            table = pa.table(columns, schema=pa.schema([("k", pa.int32()), ("v", pa.string())]))
            return [writer.write(table, epoch=number, task="0-00000")]
        # What goes is one task's, what comes is another's, as after a change of the number of tasks.
        go = [(k, self._model[k], -1) for k in changes if k in self._model]
        come = [(k, v, 1) for k, v in changes.items() if v is not None]
        schema = pa.schema([("k", pa.int32()), ("v", pa.string()), (WEIGHT_COLUMN, pa.int64())])
        return [
            writer.write(
                pa.table([[row[i] for row in rows] for i in range(3)], schema=schema),
                epoch=number,
                task=f"{task}-00000",
            )
            for task, rows in enumerate((come, go))
        ]

    def _added(self, changes: Mapping[int, str | None]) -> list[tuple[int, str]]:
        return [(self._rows + i, v or "") for i, v in enumerate(changes.values())]

    def _adopt(self, changes: Mapping[int, str | None]) -> None:
        if "by key" in self.kind:
            for key, value in changes.items():
                self._model.pop(key, None)
                if value is not None:
                    self._model[key] = value
            self.wanted = sorted(self._model.items())
        else:
            self.wanted = [*self.wanted, *self._added(changes)]
            self._rows += len(changes)
        self.given.append(list(self.wanted))

    def is_due(self) -> bool:
        """Whether a commit is."""
        return self.sink.is_due

    def rows(self) -> list[tuple[Any, ...]]:
        """What the table has."""
        if "iceberg" in self.kind:
            return sorted(iceberg_rows(self.folder, ("k", "v")))
        if not DeltaTable.is_deltatable(str(self.folder / "lake/table")):
            return []
        found = DeltaTable(str(self.folder / "lake/table")).to_pyarrow_table()
        return sorted(zip(found["k"].to_pylist(), found["v"].to_pylist(), strict=True))

    def commits(self) -> int:
        """How many commits have rows."""
        if "iceberg" in self.kind:
            return len(iceberg_table(self.folder).metadata.snapshots)
        logs = sorted((self.folder / "lake/table/_delta_log").glob("*.json"))
        actions = [[json.loads(line) for line in one.read_text().splitlines()] for one in logs]
        return sum(any("add" in action or "remove" in action for action in one) for one in actions)


_CHANGES = st.dictionaries(
    st.integers(0, _KEYS - 1), st.none() | st.sampled_from("abc"), min_size=1, max_size=_KEYS
)
_ENDS = st.sampled_from(["whole", "whole", "flushed", "written", "prepared", "published", "committed"])


@pytest.mark.parametrize("kind", _KINDS)
@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(epochs=st.lists(st.tuples(_CHANGES, _ENDS), min_size=2, max_size=6))
def test_rows_are_there_once(kind: str, epochs: Sequence[tuple[Mapping[int, str | None], str]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        writing = Writing(Path(name), kind)
        for changes, end in epochs:
            writing.epoch(changes, "whole" if end == "flushed" else end)
            if end == "flushed":
                writing.sink.flush()
            if end == "whole":
                assert writing.rows() in writing.given, "a reader sees what some epoch has left"
            else:
                assert writing.rows() == writing.wanted
                assert not writing.waiting
        writing.sink.flush()
        assert writing.rows() == writing.wanted
        writing.sink.flush()
        assert writing.rows() == writing.wanted


@pytest.mark.parametrize("kind", _KINDS)
def test_several_epochs_are_one_commit(kind: str, tmp_path: Path) -> None:
    writing = Writing(tmp_path, kind)
    for value in "abc":
        writing.epoch({0: value, 1: value})
        assert writing.rows() == []
    assert writing.sink.epoch_there() == 3, "it waits, and nothing is missing"
    assert not writing.sink.is_vacant()
    writing.sink.look([3])
    writing.sink.flush()
    assert writing.rows() == writing.wanted
    assert writing.commits() == 1
    assert not writing.waiting


@pytest.mark.parametrize("kind", _KINDS)
def test_without_an_interval_each_epoch_is_a_commit_and_what_waited_is_given(
    kind: str, tmp_path: Path
) -> None:
    after = Writing(tmp_path, kind)
    after.epoch({0: "a"})
    after.spec = plan_file(_sql(kind, "0 s"), file="p.sql").physical.sinks[0]
    after.start()
    assert after.rows() == [(0, "a")]
    assert not after.waiting
    for number, value in enumerate("bc", 2):
        after.epoch({0: value})
        assert after.commits() == number


@pytest.mark.parametrize("kind", _KINDS)
def test_a_commit_is_due_once_the_first_epoch_has_waited(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    writing = Writing(tmp_path, kind, "10 s")
    monkeypatch.setattr(writing.sink._waiting, "_clock", lambda: now[0])
    assert not writing.is_due()
    writing.epoch({0: "a"})
    now[0] = 109.0
    writing.epoch({0: "b"})
    assert not writing.is_due()
    now[0] = 110.0
    assert writing.is_due()
    writing.sink.flush()
    assert not writing.is_due()


@pytest.mark.parametrize("kind", _KINDS)
def test_a_driver_that_slept_deletes_nothing_of_the_one_that_went_on(kind: str, tmp_path: Path) -> None:
    writing = Writing(tmp_path, kind)
    writing.epoch({0: "a"})
    writing.epoch({1: "b"}, end="published")  # the one that slept has published it ...
    sleeper, committed = writing.sink, writing._committed
    writing.start()
    writing.epoch({2: "c"})
    assert committed is not None
    sleeper.commit(committed[0], committed[1], previous=committed[2])  # ... and wakes now
    sleeper.flush()
    writing.sink.flush()
    assert writing.rows() == writing.wanted
    writing.start()
    assert writing.rows() == writing.wanted
    assert not writing.waiting


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("edit", [TargetEdit.REPLACE, TargetEdit.ALTER])
def test_an_edit_finds_no_row_that_waits(kind: str, edit: TargetEdit, tmp_path: Path) -> None:
    """A run gives the table all that waits before an edit is carried out; here one did not."""
    writing = Writing(tmp_path, kind)
    writing.epoch({0: "a", 1: "b"})
    sink = writing.sink
    assert isinstance(sink, EditableSink)
    sink.begin_with(edit)
    if edit is TargetEdit.REPLACE:
        writing._model, writing.wanted, writing._rows = {}, [], 0
    writing.epoch({2: "c"})
    assert writing.rows() == writing.wanted
    assert not writing.waiting
    writing.start()
    assert writing.rows() == writing.wanted


def test_the_longest_interval_is_a_day() -> None:
    with pytest.raises(DiagnosticError) as caught:
        plan_file(_sql("delta", "2 d"), file="p.sql")
    assert "sink.commit-interval" in str(caught.value.diagnostics[0])
