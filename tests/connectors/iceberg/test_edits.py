"""Edits of a pipeline with an Iceberg table, and what is said of a catalog that is away."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")
pytest.importorskip("sqlalchemy")

from sqlstream.connectors.api import ConnectorContext, TargetEdit
from sqlstream.connectors.iceberg.sink.log import TableLog
from sqlstream.connectors.iceberg.sink.sink import IcebergSink
from sqlstream.connectors.registry import REGISTERED
from sqlstream.planning import plan_file
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_operators.state.checkpoint_store import CheckpointStore
from tests.connectors.iceberg.tables import rows_of, table
from tests.connectors.iceberg.test_sink import COLUMNS, SHAPE, more, refused, run, text, written


def test_edits(tmp_path: Path) -> None:
    """A new column and a wider type by consent; what Iceberg has no way for is refused."""
    wanted = written(tmp_path, 0)
    run(tmp_path, text())
    assert len(written(tmp_path, 1)) == 67
    edited = (
        text()
        .replace(
            "(k INT, v STRING, d DECIMAL(20, 2), day DATE) WITH ('connector' = 'iceberg'",
            ("(k BIGINT, v STRING, d DECIMAL(24, 2), day DATE, more STRING) WITH ('connector' = 'iceberg'"),
        )
        .replace("SELECT k, v, d * 2, day FROM", "SELECT k, v, d * 2, day, 'm' FROM")
    )
    assert "alter:o" in refused(tmp_path, edited)
    run(tmp_path, edited, accept=frozenset({"alter:o"}))
    found = sorted(rows_of(tmp_path, (*COLUMNS, "more")))
    assert [row[:4] for row in found[: len(wanted)]] == wanted
    assert {row[4] for row in found[: len(wanted)]} == {None}
    assert len(found) == len(wanted) + 67
    assert {row[4] for row in found[len(wanted) :]} == {"m"}
    assert str(table(tmp_path).schema().find_type("k")) == "long"
    worse = edited.replace("d DECIMAL(24, 2)", "d DECIMAL(26, 4)")
    assert "STA0" in refused(tmp_path, worse, accept=frozenset({"alter:o"}))


@pytest.mark.parametrize("secret", ["hunter", "hun%2Fter", "other@hunter", "hunter@other"])
def test_a_secret_is_not_told(tmp_path: Path, secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sqlstream.connectors.iceberg.library.ATTEMPTS", 1)
    written(tmp_path, 0)
    sql = text().replace("sqlite:///lake/catalog.db", f"postgresql+psycopg://me:{secret}@127.0.0.1:1/x")
    said = refused(tmp_path, sql)
    assert "ENV006" in said
    assert "hun" not in said, said


def sink_of(spec: SinkSpec, context: ConnectorContext) -> IcebergSink:
    sink = REGISTERED.sink(spec, context)
    assert isinstance(sink, IcebergSink)
    return sink


@pytest.mark.parametrize("meanwhile", [False, True])
def test_all_rows_are_replaced_in_one_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: bool
) -> None:
    """Those of others, too, also where they come while it is done; and once, however often it is asked for."""
    written(tmp_path, 0)
    run(tmp_path, text())
    more(tmp_path)
    (spec,) = plan_file(text(), file="p.sql").physical.sinks
    context = ConnectorContext(CheckpointStore(tmp_path / "state"), str(tmp_path))
    last = sink_of(spec, context).epoch_there()
    assert last
    replaced, left = TableLog.replace, [1] if meanwhile else []

    def instead(log: TableLog, *args: Any) -> None:
        if left:
            left.pop()
            more(tmp_path)
        replaced(log, *args)

    monkeypatch.setattr(TableLog, "replace", instead)
    new = pa.table([[7], ["new"], [None], [datetime.date(2024, 2, 2)]], schema=SHAPE)
    parts = [REGISTERED.writer(spec, context).write(new, epoch=last + 1, task="0")]
    before = len(table(tmp_path).metadata.snapshots)
    for again in (False, True):
        sink = sink_of(spec, context)
        sink.begin_with(TargetEdit.REPLACE)
        if not again:
            sink.prepare(last + 1, parts, previous=last)
        sink.commit(last + 1, parts, previous=last)
        assert rows_of(tmp_path, COLUMNS) == [(7, "new", None, datetime.date(2024, 2, 2))]
        assert len(table(tmp_path).metadata.snapshots) == before + 1 + meanwhile
    assert sink.epoch_there() == last + 1
