"""Runs updating queries in this process and folds what they emit, to compare with DuckDB after every epoch."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, SinkPart
from sqlstream.connectors.blackhole.descriptor import DESCRIPTOR as BLACKHOLE
from sqlstream.connectors.registry import REGISTERED, Connector
from sqlstream.planning import plan_file
from sqlstream.runtime.loop.progress import EpochReport
from sqlstream_operators.codec.arrow_types import carried
from sqlstream_operators.codec.exchange import Message
from sqlstream_operators.plan.spec import WEIGHT_COLUMN, SinkSpec
from sqlstream_operators.plan.types import parse_type, quote_identifier, spelled
from sqlstream_planner.batch.to_duckdb import DuckDBScript, to_duckdb
from sqlstream_planner.pipeline import Planned
from tests.duckdb_batch import empty_duckdb
from tests.numbered_times import without_nanoseconds, without_times
from tests.properties.in_process import run_here
from tests.properties.referee import Rows, assert_same

TABLE = """
CREATE TABLE t (
  k INT, s STRING, v BIGINT, d DECIMAL(10, 2), x DOUBLE, b BOOLEAN, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '100' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'input', 'format' = 'json');
"""


@dataclass
class Collected:
    """A sink that folds changes: how often each row is there now, after every epoch."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> _Folding:
        return _Folding(self, spec)

    def writer(self, spec: SinkSpec, context: ConnectorContext) -> _Writer:
        return _Writer()

    def folded(self, sink: str) -> Rows:
        """The rows that are there now; every weight must be at least 0."""
        counts: Counter[str] = Counter()
        rows: dict[str, tuple[Any, ...]] = {}
        for table in map(without_nanoseconds, self.tables.get(sink, [])):
            names = [n for n in table.column_names if n != WEIGHT_COLUMN]
            weighted = WEIGHT_COLUMN in table.column_names
            weights = table[WEIGHT_COLUMN].to_pylist() if weighted else [1] * table.num_rows
            columns = [table[n].to_pylist() for n in names]
            for weight, *row in zip(weights, *columns, strict=True):
                assert weight != 0, "a row that neither comes nor goes was emitted"
                counts[repr(row)] += weight
                rows[repr(row)] = tuple(row)
        assert all(count >= 0 for count in counts.values()), (
            f"rows were taken back that were not given: {counts}"
        )
        return [rows[key] for key, count in counts.items() for _ in range(count)]


@dataclass(frozen=True)
class _Writer:
    def write(self, table: pa.Table, *, epoch: int, task: str) -> SinkPart:
        return SinkPart(table.num_rows, table=table)


@dataclass(frozen=True)
class _Folding:
    collected: Collected
    spec: SinkSpec

    def prepare(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None: ...

    def commit(self, epoch: int, parts: Sequence[SinkPart], *, previous: int = 0) -> None:
        tables = [p.table for p in parts if p.table is not None]
        for table in tables:
            if WEIGHT_COLUMN in table.column_names:
                names = [n for n in table.column_names if n != WEIGHT_COLUMN]
                rows = [repr(r) for r in without_times(table.select(names)).to_pylist()]
                come = (weight > 0 for weight in table[WEIGHT_COLUMN].to_pylist())
                assert len(set(zip(rows, come, strict=True))) == len(set(rows)), (
                    "a row comes and goes in one epoch's changes of a task"
                )
        self.collected.tables.setdefault(self.spec.name, []).extend(tables)

    def abort_uncommitted(self, last_epoch: int) -> None: ...


@contextmanager
def collecting() -> Iterator[Collected]:
    """The sink `blackhole` collects what it is given, in this process."""
    collected = Collected()
    with mock.patch.dict(REGISTERED._by_name, {"blackhole": Connector(BLACKHOLE, sink=collected)}):
        yield collected


def plan(folder: Path, query: str, rows: Sequence[Mapping[str, Any]], *, files: int = 1) -> Planned:
    """`query` over `t`, whose rows are dealt out in order over some files, into the sink `out`."""
    (folder / "input").mkdir(parents=True)
    size = -(-len(rows) // files) or 1
    for number in range(files):
        lines = [
            json.dumps(r, default=str, ensure_ascii=False) for r in rows[number * size : (number + 1) * size]
        ]
        (folder / "input" / f"{number:03d}.json").write_text("".join(f"{line}\n" for line in lines))
    text = TABLE + f"CREATE TABLE out WITH ('connector' = 'blackhole') AS {query};\n"
    (folder / "pipeline.sql").write_text(text)
    return plan_file(folder / "pipeline.sql")


def batch(folder: Path, planned: Planned, rows: Sequence[Mapping[str, Any]]) -> Rows:
    """What DuckDB gives for the query over these rows."""
    prefix = folder / "prefix.json"
    _write(prefix, rows)
    return batch_of(to_duckdb(planned, lambda _: [str(prefix)]))


def _write(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    file.write_text("".join(json.dumps(r, default=str, ensure_ascii=False) + "\n" for r in rows))


def batch_of(script: DuckDBScript) -> Rows:
    """What DuckDB gives for the first sink of a script."""
    with empty_duckdb() as con:
        for _, view in script.sources:
            con.execute(view)
        return fetched(con, script.sinks[0][1])


def fetched(con: duckdb.DuckDBPyConnection, sql: str) -> Rows:
    """The rows of a query, as Arrow gives them."""
    found = con.sql(sql)
    items: list[str] = []
    for name, type_ in zip(found.columns, map(str, found.types), strict=True):
        try:
            as_carried = f"CAST(#{len(items) + 1} AS {spelled(carried(parse_type(type_)))})"
        except ValueError:  # a type of only NULLs
            as_carried = f"#{len(items) + 1}"
        items.append(f"{as_carried} AS {quote_identifier(name)}")
    table = without_nanoseconds(found.project(", ".join(items)).to_arrow_table())
    columns = [table[n].to_pylist() for n in table.column_names]
    return [tuple(row) for row in zip(*columns, strict=True)]


def check(
    folder: Path,
    query: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    rows_per_epoch: int | None = None,
    parallelism: int = 2,
    seed: int = 0,
    files: int = 1,
    every: bool = True,
) -> list[EpochReport]:
    """After each epoch, what was emitted folds to what DuckDB gives for the rows read so far."""
    planned = plan(folder, query, rows, files=files)
    prefix = folder / "prefix.json"
    script = to_duckdb(planned, lambda _: [str(prefix)])
    reports: list[EpochReport] = []
    read = 0

    def shuffled(messages: list[Message]) -> list[Message]:
        random.Random(seed).shuffle(messages)
        return messages

    with collecting() as collected:

        def compare(report: EpochReport) -> None:
            nonlocal read
            reports.append(report)
            read += sum(report.rows_read.values())
            if every:
                _write(prefix, rows[:read])
                assert_same(collected.folded("out"), batch_of(script))

        run_here(
            planned,
            folder,
            parallelism=parallelism,
            rows_per_epoch=rows_per_epoch,
            shuffle=shuffled,
            on_epoch=compare,
        )
        _write(prefix, rows)
        assert_same(collected.folded("out"), batch_of(script))
    return reports
