"""Both sides of a golden check: what DuckDB's batch gives, and what the pipeline gives on Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from sqlstream.connectors.api import ConnectorContext, Sink, SinkPart, Source
from sqlstream.golden.rows import Rows, rows_of
from sqlstream.golden.sources import InputFiles, bounded
from sqlstream.runtime.api import RegisteredConnectors, run_pipeline
from sqlstream.runtime.job import JobRunner
from sqlstream.runtime.progress import RunResult
from sqlstream_operators.arrow_types import to_arrow
from sqlstream_operators.fragment import DuckSession
from sqlstream_operators.spec import KIND_COLUMN, SinkSpec, SourceSpec
from sqlstream_operators.types import quote_identifier
from sqlstream_planner.diagnostics import InternalError
from sqlstream_planner.logical import Scan, walk
from sqlstream_planner.pipeline import Planned
from sqlstream_planner.to_duckdb import to_duckdb


def expected_rows(planned: Planned, base_dir: Path) -> dict[str, Rows]:
    """What each sink must hold, by its name: the batch SQL, run by DuckDB over all of the input.

    Several INSERTs into one sink are put together. Raises DiagnosticError (GLD…) for input without an end,
    DataError when DuckDB refuses.
    """
    bounded(planned.physical)
    sources = {n.source.name: n.source for n in walk(planned.bound) if isinstance(n, Scan)}
    with tempfile.TemporaryDirectory(prefix="sqlstream-golden-") as temporary:
        inputs = InputFiles(base_dir, Path(temporary))
        script = to_duckdb(planned, inputs.files, inputs.header)
        duck = DuckSession(temp_directory=temporary)
        for statement in inputs.views(list(sources.values()), dict(script.sources)):
            duck.connection.execute(statement)
        selects: dict[str, list[str]] = {}
        for name, select in script.sinks:
            selects.setdefault(name, []).append(select)
        schemas = {sink.name: sink.schema for sink in planned.physical.sinks}
        return {
            name: rows_of(duck, "\nUNION ALL\n".join(parts), schemas[name]) for name, parts in selects.items()
        }


@dataclass(frozen=True, slots=True)
class Actual:
    """What a run gave: the rows of each sink, and how the run went."""

    sinks: dict[str, Rows]
    result: RunResult


def actual_rows(
    planned: Planned,
    base_dir: Path,
    runner: JobRunner,
    *,
    rows_per_epoch: int | None = None,
    parallelism: int | None = None,
) -> Actual:
    """Run the pipeline to the end of its input in a state directory of its own, and catch what its sinks get.

    Nothing is written where the pipeline writes. Without `rows_per_epoch` all input is one epoch, so that no row
    can be late.
    """
    plan = bounded(planned.physical)
    # The print connector's tasks hand their rows to the driver; there `_Catching` keeps them.
    caught = tuple(
        replace(s, connector="print", options={}, primary_key=(), partitioned_by=()) for s in plan.sinks
    )
    options = replace(plan.options, max_rows_per_epoch=None, max_files_per_epoch=None, state_dir=None)
    plan = replace(plan, sinks=caught, options=options)
    connectors = _Catching()
    with tempfile.TemporaryDirectory(prefix="sqlstream-golden-") as temporary:
        result = run_pipeline(
            plan,
            state_dir=Path(temporary) / "state",
            local_dir=Path(temporary) / "cache",
            base_dir=base_dir,
            parallelism=parallelism,
            max_rows_per_epoch=rows_per_epoch or _EVERYTHING,
            runner=runner,
            connectors=connectors,
            sync=False,
        )
    duck = DuckSession()
    return Actual({s.name: _rows(duck, s, connectors.tables.get(s.name, [])) for s in caught}, result)


_EVERYTHING = 1 << 62


def _rows(duck: DuckSession, sink: SinkSpec, tables: Sequence[pa.Table]) -> Rows:
    names = [column.name for column in sink.schema]
    schema = pa.schema([(column.name, to_arrow(column.type)) for column in sink.schema])
    table = pa.concat_tables([schema.empty_table(), *(t.select(names).cast(schema) for t in tables)])
    duck.register("caught", table, sink.schema)
    try:
        return rows_of(duck, f"SELECT {', '.join(map(quote_identifier, names))} FROM caught", sink.schema)
    finally:
        duck.drop("caught")


class _Catching:
    """The registered sources, and sinks that keep their rows in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, list[pa.Table]] = {}

    def source(self, spec: SourceSpec, context: ConnectorContext) -> Source:
        """The registered one."""
        return RegisteredConnectors().source(spec, context)

    def sink(self, spec: SinkSpec, context: ConnectorContext) -> Sink:
        """A sink that keeps rows."""
        return _CatchingSink(self.tables.setdefault(spec.name, []))


class _CatchingSink:
    """Keeps the rows of committed epochs."""

    def __init__(self, tables: list[pa.Table]) -> None:
        self._tables = tables

    def prepare(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Nothing can fail."""

    def commit(self, epoch: int, parts: Sequence[SinkPart]) -> None:
        """Keep the rows."""
        for part in parts:
            if part.table is not None:
                if KIND_COLUMN in part.table.column_names:
                    raise InternalError("a golden check can't fold changes yet, and the plan has some")
                self._tables.append(part.table)

    def abort_uncommitted(self, last_epoch: int) -> None:
        """Nothing was staged."""
