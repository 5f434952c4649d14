"""Both sides of a golden check: what DuckDB's batch gives, and what the pipeline gives on Spark."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path

from sqlstream.connectors.registry import REGISTERED, Registry
from sqlstream.golden.rows import Row, Rows, rows_of
from sqlstream.golden.sinks import CapturedSinks
from sqlstream.golden.sources import CLOCK, InputFiles, bounded
from sqlstream.runtime.api import RunRequest, run_pipeline
from sqlstream.runtime.loop.progress import RunResult
from sqlstream.runtime.tasks.job import JobRunner
from sqlstream.storage.run_folder import RunFolder
from sqlstream_operators.duck.session import DuckSession
from sqlstream_operators.plan.spec import SinkSpec
from sqlstream_planner.batch.to_duckdb import to_duckdb
from sqlstream_planner.diagnostics import Diagnostic, DiagnosticError
from sqlstream_planner.logical import Scan, walk
from sqlstream_planner.pipeline import Planned


def expected_rows(planned: Planned, base_dir: Path, registry: Registry = REGISTERED) -> dict[str, Rows]:
    """What each sink must hold, by its name: the batch SQL, run by DuckDB over all of the input.

    Several INSERTs into one sink are put together. Raises DiagnosticError (GLD…) for input without an end and
    for rows that a sink's PRIMARY KEY forbids, DataError when DuckDB refuses.
    """
    bounded(planned)
    sources = {n.source.name: n.source for n in walk(planned.algebra) if isinstance(n, Scan)}
    with RunFolder("golden-") as folder:
        temporary = str(folder.path)
        inputs = InputFiles(planned.catalog, base_dir, Path(temporary), registry)
        script = to_duckdb(planned, inputs.files, inputs.header)
        duck = DuckSession(temp_directory=temporary)
        duck.in_epoch(int(CLOCK.timestamp() * 1e6), "golden")
        for statement in inputs.views(list(sources.values()), dict(script.sources)):
            duck.however_deep(functools.partial(duck.connection.execute, statement))
        selects: dict[str, list[str]] = {}
        for name, select in script.sinks:
            selects.setdefault(name, []).append(select)
        sinks = {sink.name: sink for sink in planned.physical.sinks}
        expected = {
            name: rows_of(duck, "\nUNION ALL\n".join(f"({part})" for part in parts), sinks[name].schema)
            for name, parts in selects.items()
        }
    for name, rows in expected.items():
        if registry.descriptors[sinks[name].connector].sink.keyed:
            _check_key(sinks[name], rows)
    return expected


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
    registry: Registry = REGISTERED,
) -> Actual:
    """Run the pipeline to the end of its input in a state directory of its own, drained, and read the content of its
    sinks then.

    Nothing is written where the pipeline writes. Without `rows_per_epoch` all input is one epoch, so that no row
    can be late. Raises DataError if a sink is given what it can't take.
    """
    plan = bounded(planned)
    options = replace(
        plan.options, max_rows_per_epoch=None, max_files_per_epoch=None, state_dir=None, restart=None
    )
    with RunFolder("golden-") as folder:
        temporary = str(folder.path)
        sinks = CapturedSinks(Path(temporary), registry)
        plan = replace(plan, sinks=sinks.redirected(plan.sinks), options=options)
        result = run_pipeline(
            RunRequest(
                plan,
                state_dir=Path(temporary) / "state",
                secrets=planned.secrets,
                local_dir=Path(temporary) / "cache",
                base_dir=base_dir,
                parallelism=parallelism,
                max_rows_per_epoch=rows_per_epoch or _EVERYTHING,
                runner=runner,
                wall_clock=CLOCK.timestamp,
                connectors=sinks,
                sync=False,
                drain=True,
            )
        )
        return Actual({s.name: sinks.rows(s) for s in plan.sinks}, result)


_EVERYTHING = 1 << 62


def _check_key(sink: SinkSpec, rows: Rows) -> None:
    """Raises DiagnosticError (GLD007) if the table of a sink could not hold the rows."""
    if not sink.primary_key:
        return
    key = {name.lower() for name in sink.primary_key}
    places = [i for i, column in enumerate(rows.schema) if column.name.lower() in key]
    seen: set[Row] = set()
    for row in rows.rows:
        values = tuple(row[i] for i in places)
        if values in seen or None in values:
            shown = ", ".join(
                f"{rows.schema[i].name} = {'NULL' if row[i] is None else row[i]}" for i in places
            )
            wrong = "a row has NULL in" if None in values else "two rows have"
            raise DiagnosticError(
                Diagnostic(
                    "GLD007",
                    f"`{sink.name}` can't hold its golden: {wrong} the PRIMARY KEY: {shown}",
                    help="the query must give one row for each key: GROUP BY it, or keep one row with "
                    f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {', '.join(sink.primary_key)} ORDER BY …) = 1",
                )
            )
        seen.add(values)
